"""The samples embedded in the package: text that our own authors wrote, in the raw formats.

>>> sample_folder("procon_npov").name
'procon_npov'
"""

import importlib.resources
import pathlib

from faith_jax.core.errors import InputError, did_you_mean


def sample_names() -> list[str]:
    """Returns the names of the embedded samples, in alphabetical order."""
    return sorted(folder.name for folder in _samples().iterdir() if folder.is_dir())


def sample_folder(name: str) -> pathlib.Path:
    """Returns the folder of an embedded sample, in its data set's raw format.

    Args:
      name: the data set's name, for instance "procon_npov".

    Raises:
      InputError: for a name that no sample has.
    """
    known = sample_names()
    if name not in known:
        hint = did_you_mean(name, known) or f" There are: {', '.join(known)}."
        raise InputError(f"No embedded sample is named {name!r}.{hint}")
    return _samples() / name


def _samples() -> pathlib.Path:
    """Returns the folder of all samples; the package is always installed as plain files."""
    return pathlib.Path(str(importlib.resources.files("faith_jax.datasets") / "sample"))
