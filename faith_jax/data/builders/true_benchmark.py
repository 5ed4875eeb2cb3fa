"""The TFDS builder `true_benchmark`: one config for each corpus of TRUE, and one for its sample."""

import pathlib

from faith_jax.data.builders.base import RawBuilder, configs
from faith_jax.data.raw.true.corpora import CORPORA


class TrueBenchmark(RawBuilder):
    """The eleven corpora in one schema."""

    name = "true_benchmark"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs(CORPORA)
