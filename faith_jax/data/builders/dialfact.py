"""The TFDS builder `dialfact`."""

import pathlib

from faith_jax.data.builders.base import RawBuilder, configs
from faith_jax.data.raw import dialfact


class Dialfact(RawBuilder):
    """DialFact's claims with their evidence."""

    name = "dialfact"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs({"official": dialfact.DIALFACT})
