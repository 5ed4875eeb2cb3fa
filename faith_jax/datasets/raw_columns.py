"""Which data set's raw file a file is, by its columns: those of the embedded samples."""

import pathlib

from faith_jax.core.errors import InputError
from faith_jax.datasets.grounded_rows import have_usual_names
from faith_jax.datasets.raw_catalogue import DATASETS
from faith_jax.datasets.raw_dataset import RawDataset
from faith_jax.datasets.raw_files import sample_files
from faith_jax.datasets.tables import read_rows

_ALIKE = 2 / 3  # of the columns of two files, those that both have


def raw_dataset_of(path: pathlib.Path) -> tuple[RawDataset, str] | None:
    """Returns the data set that has a raw file with such columns, and the split of that file.

    Of several data sets of the same files it is the one that they are named for, and of several
    files that of the same name. None = there is none, or the file's rows have a grounding and a
    response themselves, or the data set's examples have none.
    """
    columns = _read_columns(path)
    if have_usual_names(columns):
        return None
    candidates = [
        ((alike, path.name in dataset.files[name].names), dataset, split)
        for dataset in sorted(DATASETS, key=lambda d: d.folder != d.name)
        if have_usual_names(dataset.features)
        for split, names in dataset.splits.items()
        for name, file in sample_files(dataset).items()
        if name in names and (alike := _jaccard_similarity(columns, _read_columns(file))) > _ALIKE
    ]
    if not candidates:
        return None
    _, dataset, split = max(candidates, key=lambda candidate: candidate[0])
    return dataset, split


def _jaccard_similarity(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / max(1, len(first | second))


def _read_columns(path: pathlib.Path) -> frozenset[str]:
    """Returns the columns of a file's first row; of a file that has none, none."""
    if not path.is_file():
        return frozenset()
    try:
        return frozenset(next(read_rows(path)).fields)
    except (InputError, StopIteration):
        return frozenset()
