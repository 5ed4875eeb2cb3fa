"""The TFDS builder `dialogue_nli`."""

import pathlib

from faith_jax.data.builders.base import RawBuilder, configs
from faith_jax.data.raw import dialogue_nli


class DialogueNli(RawBuilder):
    """Dialogue NLI's pairs of sentences."""

    name = "dialogue_nli"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs({"official": dialogue_nli.DIALOGUE_NLI})
