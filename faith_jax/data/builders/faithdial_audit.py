"""The TFDS builder `faithdial_audit`."""

import pathlib

from faith_jax.data.builders.base import RawBuilder, configs
from faith_jax.data.raw import faithdial_audit


class FaithdialAudit(RawBuilder):
    """People's and models' responses with expert labels; a split for each file."""

    name = "faithdial_audit"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs({"official": faithdial_audit.FAITHDIAL_AUDIT})
