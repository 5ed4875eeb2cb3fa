"""The TFDS builder `decode`."""

import pathlib

from faith_jax.data.builders.base import RawBuilder, configs
from faith_jax.data.raw import decode


class Decode(RawBuilder):
    """DECODE's dialogues."""

    name = "decode"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs({"official": decode.DECODE})
