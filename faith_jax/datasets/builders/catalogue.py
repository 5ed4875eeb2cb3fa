"""The TFDS builders of all raw data sets, by name: `tfds.builder("begin/official")` once imported.

A builder has the configs of each `RawDataset` of its name; `faith_jax/datasets/cards` describe it.
"""

import itertools
import pathlib
from collections.abc import Iterable

import tensorflow_datasets as tfds

from faith_jax.datasets.builders.base import RawBuilder, configs
from faith_jax.datasets.raw import (
    begin,
    cmu_dog,
    decode,
    dialfact,
    dialogue_nli,
    faithdial,
    faithdial_audit,
    multidoc2dial,
    npov,
    own_files,
    topical_chat,
    true_benchmark,
    wizard_of_wikipedia,
)
from faith_jax.datasets.raw_dataset import RawDataset, card

_DATASETS = (
    begin.BEGIN,
    *begin.BEGIN_BY_SOURCE.values(),
    begin.BEGIN_2021,
    cmu_dog.CMU_DOG,
    decode.DECODE,
    dialfact.DIALFACT,
    dialfact.DIALFACT_RETRIEVED,
    dialfact.DIALFACT_EVIDENCE,
    dialogue_nli.DIALOGUE_NLI,
    faithdial.FAITH_CRITIC,
    faithdial.FAITH_CRITIC_ALL_EDITS,
    faithdial.FAITHDIAL,
    faithdial.FAITHDIAL_CONTROL_TOKENS,
    faithdial_audit.FAITHDIAL_AUDIT,
    multidoc2dial.MULTIDOC2DIAL,
    multidoc2dial.MULTIDOC2DIAL_SPANS,
    own_files.NLI,
    *npov.TRAINING_SETS.values(),
    npov.NPOV_ERRORS,
    npov.PROCON_NPOV,
    own_files.TEXT_TO_TEXT,
    topical_chat.TOPICAL_CHAT,
    topical_chat.TOPICAL_CHAT_POST_BUILD,
    *true_benchmark.CORPORA.values(),
    wizard_of_wikipedia.WIZARD_OF_WIKIPEDIA,
    wizard_of_wikipedia.WIZARD_OF_WIKIPEDIA_CONTROL_TOKENS,
)


def _builder(name: str, parts: Iterable[RawDataset]) -> type[RawBuilder]:
    """Returns the builder of a data set; TFDS knows it by its name from now on."""
    class_name = "".join(part.capitalize() for part in name.split("_"))
    about = card(name)
    made = type(
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
    globals()[class_name] = made  # where Beam's workers look for it
    return made


BUILDERS: dict[str, type[RawBuilder]] = {
    name: _builder(name, parts)
    for name, parts in itertools.groupby(_DATASETS, key=lambda dataset: dataset.name)
}
