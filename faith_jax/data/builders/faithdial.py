"""The TFDS builders `faithdial` and `faith_critic`, which read the same files."""

import pathlib

import tensorflow_datasets as tfds

from faith_jax.data.builders.base import RawBuilder, configs
from faith_jax.data.raw import faithdial


class Faithdial(RawBuilder):
    """FaithDial, one example a turn of the Wizard; also with control tokens."""

    name = "faithdial"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs(
        {
            "official": faithdial.FAITHDIAL,
            "control_tokens": faithdial.FAITHDIAL_CONTROL_TOKENS,
        }
    )


class FaithCritic(RawBuilder):
    """FaithCritic's pairs of knowledge and response; `all_edits` has edits in all splits."""

    name = "faith_critic"
    code_path = pathlib.Path(__file__)
    VERSION = tfds.core.Version("2.0.0")
    RELEASE_NOTES = {
        "2.0.0": "The authors' sets; the form before is `all_edits`.",
        "1.0.0": "First release.",
    }
    BUILDER_CONFIGS = configs(
        {
            "official": faithdial.FAITH_CRITIC,
            "all_edits": faithdial.FAITH_CRITIC_ALL_EDITS,
        }
    )
