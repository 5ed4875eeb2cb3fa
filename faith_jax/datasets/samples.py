"""The samples embedded in the package: texts written by us, in the raw formats."""

import pathlib

from faith_jax.core.errors import InputError, did_you_mean

SAMPLE = "sample"
_SAMPLES = pathlib.Path(__file__).parent / "sample"
ENCYCLOPEDIA = _SAMPLES / "encyclopedia.jsonl"  # the articles that DialFact's sample refers to
ANSWERS = _SAMPLES / "answers.csv"  # the README's questions, passages and answers


def sample_folder(name: str) -> pathlib.Path:
    """Returns the folder of an embedded sample, in its data set's raw format.

    Raises:
      InputError: no sample has this name.
    """
    if name not in (names := sample_names()):
        hint = did_you_mean(name, names) or f" There are: {', '.join(names)}."
        raise InputError(f"No embedded sample is named {name!r}.{hint}")
    return _SAMPLES / name


def sample_names() -> list[str]:
    """Returns the names of the embedded samples, which are their data sets' folders."""
    return sorted(folder.name for folder in _SAMPLES.iterdir() if folder.is_dir())
