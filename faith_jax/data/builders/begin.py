"""The TFDS builders `begin` (second release) and `begin_2021` (first release, TRUE's)."""

import pathlib

from faith_jax.data.builders.base import RawBuilder, configs
from faith_jax.data.raw import begin


class Begin(RawBuilder):
    """BEGIN's second release: whole, or one of its three sources."""

    name = "begin"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs({"official": begin.BEGIN, **begin.BEGIN_BY_SOURCE})


class Begin2021(RawBuilder):
    """BEGIN's first release."""

    name = "begin_2021"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs({"official": begin.BEGIN_2021})
