"""The TFDS builder `multidoc2dial`: grounded in passages (Nandwani 2023), or in spans."""

import pathlib

import tensorflow_datasets as tfds

from faith_jax.data.builders.base import RawBuilder, configs
from faith_jax.data.raw import multidoc2dial


class Multidoc2dial(RawBuilder):
    """The agent's turns of MultiDoc2Dial; `spans` are those that answer the user."""

    name = "multidoc2dial"
    code_path = pathlib.Path(__file__)
    VERSION = tfds.core.Version("2.0.0")
    RELEASE_NOTES = {
        "2.0.0": "Every turn of the agent, with whole passages; the form before is `spans`.",
        "1.0.0": "First release.",
    }
    BUILDER_CONFIGS = configs(
        {
            "official": multidoc2dial.MULTIDOC2DIAL,
            "spans": multidoc2dial.MULTIDOC2DIAL_SPANS,
        }
    )
