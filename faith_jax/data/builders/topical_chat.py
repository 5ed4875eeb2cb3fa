"""The TFDS builder `topical_chat`: over the reading sets before the authors' build, or after it."""

import pathlib

from faith_jax.data.builders.base import RawBuilder, configs
from faith_jax.data.raw import topical_chat


class TopicalChat(RawBuilder):
    """The turns of Topical-Chat."""

    name = "topical_chat"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs(
        {
            "official": topical_chat.TOPICAL_CHAT,
            "post_build": topical_chat.TOPICAL_CHAT_POST_BUILD,
        }
    )
