"""The TFDS builder `cmu_dog`."""

import pathlib

from faith_jax.data.builders.base import RawBuilder, configs
from faith_jax.data.raw import cmu_dog


class CmuDog(RawBuilder):
    """The readers' turns of CMU-DoG."""

    name = "cmu_dog"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs({"official": cmu_dog.CMU_DOG})
