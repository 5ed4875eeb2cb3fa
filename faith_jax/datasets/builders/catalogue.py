"""Registers the TFDS builders of all raw data sets, for example `tfds.builder("begin/official")`.

A builder has a config for each `RawDataset` of its name; its card is in faith_jax/datasets/cards.
"""

import itertools
import pathlib
from collections.abc import Iterable

import tensorflow_datasets as tfds

from faith_jax.datasets.builders.base import RawBuilder, configs
from faith_jax.datasets.raw_catalogue import DATASETS
from faith_jax.datasets.raw_dataset import RawDataset, card


def _create_builder_class(name: str, parts: Iterable[RawDataset]) -> type[RawBuilder]:
    """Returns the builder of a data set, and thereby registers its name with TFDS."""
    class_name = "".join(part.capitalize() for part in name.split("_"))
    about = card(name)
    builder = type(
        class_name,
        (RawBuilder,),
        {
            "__doc__": about["what"],
            "__module__": __name__,
            "name": name,
            "code_path": pathlib.Path(__file__),
            "VERSION": tfds.core.Version(next(iter(about["releases"]))),
            "RELEASE_NOTES": about["releases"],
            "BUILDER_CONFIGS": configs({part.config: part for part in parts}),
        },
    )
    globals()[class_name] = builder  # so that Beam's workers find it
    return builder


BUILDERS: dict[str, type[RawBuilder]] = {
    name: _create_builder_class(name, parts)
    for name, parts in itertools.groupby(DATASETS, key=lambda dataset: dataset.name)
}
