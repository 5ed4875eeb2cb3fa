"""The TFDS builders `faithdial` and `faith_critic`, which read the same files."""

import pathlib

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
    """FaithCritic's pairs of knowledge and response."""

    name = "faith_critic"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs({"official": faithdial.FAITH_CRITIC})
