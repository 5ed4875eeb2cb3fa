"""The TFDS builder `nli`: entailment data of the user's own, and its sample."""

import pathlib

from faith_jax.data.builders.base import RawBuilder, configs
from faith_jax.data.raw import nli


class Nli(RawBuilder):
    """Premises and hypotheses with three labels."""

    name = "nli"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs({"full": nli.NLI})
