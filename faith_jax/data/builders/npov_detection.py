"""The TFDS builder `npov_detection`, whose configs are the nested training sets of Chang 2024.

The files that `faith-jax reproduce npov_detection` writes into its folder `data` go into the folder
npov_detection inside the manual folder, or are named by `faith-jax prepare --raw`.
"""

import pathlib

from faith_jax.data.builders.base import RawBuilder, configs
from faith_jax.data.raw.npov_detection import TRAINING_SETS


class NpovDetection(RawBuilder):
    """One example is one response with arguments that it may not match."""

    name = "npov_detection"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs(TRAINING_SETS)
