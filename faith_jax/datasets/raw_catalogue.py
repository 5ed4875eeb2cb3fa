"""Lists all raw data sets with their configs, and finds the data set of a raw file."""

import pathlib

from faith_jax.core.errors import InputError
from faith_jax.datasets.benchmarks import described_rows, faithbench, ragtruth
from faith_jax.datasets.grounded_rows import have_usual_names
from faith_jax.datasets.raw import (
    begin,
    cmu_dog,
    decode,
    dialfact,
    dialogue_nli,
    fact_verification,
    faithdial,
    faithdial_audit,
    multidoc2dial,
    npov,
    own_files,
    topical_chat,
    true_benchmark,
    wizard_of_wikipedia,
)
from faith_jax.datasets.raw_dataset import RawDataset
from faith_jax.datasets.raw_files import sample_files
from faith_jax.datasets.tables import read_rows

_LEAST_SHARED = 2 / 3  # the share of two files' columns that both must have

DATASETS = (
    begin.BEGIN,
    *begin.BEGIN_BY_SOURCE.values(),
    begin.BEGIN_2021,
    cmu_dog.CMU_DOG,
    fact_verification.COLLOQUIAL_CLAIMS,
    decode.DECODE,
    dialfact.DIALFACT,
    dialfact.DIALFACT_RETRIEVED,
    dialfact.DIALFACT_AUGMENTED,
    dialfact.DIALFACT_EVIDENCE,
    dialogue_nli.DIALOGUE_NLI,
    faithbench.FAITHBENCH,
    faithdial.FAITH_CRITIC,
    faithdial.FAITH_CRITIC_ALL_EDITS,
    faithdial.FAITHDIAL,
    faithdial.FAITHDIAL_CONTROL_TOKENS,
    faithdial_audit.FAITHDIAL_AUDIT,
    fact_verification.FEVER,
    multidoc2dial.MULTIDOC2DIAL,
    multidoc2dial.MULTIDOC2DIAL_SPANS,
    *described_rows.HALUEVAL.values(),
    own_files.LABELLED_RESPONSES,
    described_rows.LLM_AGGREFACT,
    own_files.NLI,
    *npov.TRAINING_SETS.values(),
    npov.NPOV_ERRORS,
    npov.PROCON_NPOV,
    ragtruth.RAGTRUTH,
    described_rows.SUMMEDITS,
    own_files.TEXT_TO_TEXT,
    *described_rows.TOFUEVAL.values(),
    topical_chat.TOPICAL_CHAT,
    topical_chat.TOPICAL_CHAT_POST_BUILD,
    *true_benchmark.CORPORA.values(),
    fact_verification.VITAMINC,
    *described_rows.WICE.values(),
    wizard_of_wikipedia.WIZARD_OF_WIKIPEDIA,
    wizard_of_wikipedia.WIZARD_OF_WIKIPEDIA_CONTROL_TOKENS,
)


def raw_dataset_of(path: pathlib.Path) -> tuple[RawDataset, str] | None:
    """Returns the data set that has a raw file with the columns of a file, and that file's split.

    The best match of columns counts; ties prefer a file of the same name, then a data set named
    like its folder. Returns None if no data set whose examples have a grounding and a response
    fits, or if the file's own columns already have both.
    """
    columns = _read_columns(path)
    if have_usual_names(columns):
        return None
    candidates = [
        ((shared, path.name in dataset.files[name].names), dataset, split)
        for dataset in sorted(DATASETS, key=lambda d: d.folder != d.name)
        if have_usual_names(dataset.features)
        for split, names in dataset.splits.items()
        for name, file in sample_files(dataset).items()
        if name in names
        and (shared := _share_columns(columns, _read_columns(file))) > _LEAST_SHARED
    ]
    if not candidates:
        return None
    _, dataset, split = max(candidates, key=lambda candidate: candidate[0])
    return dataset, split


def _share_columns(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / max(1, len(first | second))


def _read_columns(path: pathlib.Path) -> frozenset[str]:
    """Returns the columns of a file's first row; empty if it cannot be read."""
    if not path.is_file():
        return frozenset()
    try:
        return frozenset(next(read_rows(path)).fields)
    except (InputError, StopIteration):
        return frozenset()
