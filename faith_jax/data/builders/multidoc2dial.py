"""The TFDS builder `multidoc2dial`."""

import pathlib

from faith_jax.data.builders.base import RawBuilder, configs
from faith_jax.data.raw import multidoc2dial


class Multidoc2dial(RawBuilder):
    """The agent's turns of MultiDoc2Dial."""

    name = "multidoc2dial"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs({"official": multidoc2dial.MULTIDOC2DIAL})
