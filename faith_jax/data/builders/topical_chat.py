"""The TFDS builder `topical_chat`: over the reading sets before the authors' build, or after it."""

import pathlib

import tensorflow_datasets as tfds

from faith_jax.data.builders.base import RawBuilder, configs
from faith_jax.data.raw import topical_chat


class TopicalChat(RawBuilder):
    """The turns of Topical-Chat."""

    name = "topical_chat"
    code_path = pathlib.Path(__file__)
    VERSION = tfds.core.Version("1.1.0")
    RELEASE_NOTES = {
        "1.1.0": "Texts of knowledge end with punctuation.",
        "1.0.0": "First release.",
    }
    BUILDER_CONFIGS = configs(
        {
            "official": topical_chat.TOPICAL_CHAT,
            "post_build": topical_chat.TOPICAL_CHAT_POST_BUILD,
        }
    )
