"""Where commands write: checks before any work, and files that appear whole."""

import contextlib
import os
import pathlib
from collections.abc import Iterable, Mapping

from faith_jax.core.errors import ConfigError


def check_outputs(inputs: Iterable[str], outputs: Mapping[str, str]) -> None:
    """Refuses outputs that cannot be written, or would overwrite an input or each other.

    Args:
      inputs: paths that are read, files or folders.
      outputs: paths of files by the option that names them; "" = none.

    Raises:
      ConfigError: naming the option and the path.
    """
    read = [(path, pathlib.Path(path).resolve()) for path in inputs if path]
    taken: dict[pathlib.Path, str] = {}
    for option, output in outputs.items():
        if not output:
            continue
        path = pathlib.Path(output)
        if not path.absolute().parent.is_dir():
            raise ConfigError(f"{option}: {output}: cannot be written (no such folder).")
        if path.is_dir():
            raise ConfigError(f"{option}: {output}: cannot be written (a folder).")
        place = path.resolve()
        for name, other in read:
            if place == other or other in place.parents or _same_file(place, other):
                raise ConfigError(f"{option}: {output} would overwrite the input {name}.")
        if place in taken:
            raise ConfigError(f"{option}: {output} is the output of {taken[place]} too.")
        taken[place] = option


def check_endings(outputs: Mapping[str, str], ending: str) -> None:
    """Refuses outputs with another ending than their kind's; without any is right.

    Args:
      outputs: paths of files by the option that names them; "" = none.
      ending: such as ".png".

    Raises:
      ConfigError: naming the option and the path.
    """
    for option, output in outputs.items():
        if output and pathlib.Path(output).suffix not in ("", ending):
            raise ConfigError(
                f"{option}: {output}: what is written is {ending[1:].upper()}; name a {ending} "
                "file."
            )


def _same_file(one: pathlib.Path, other: pathlib.Path) -> bool:
    """Returns whether two paths are links to one file."""
    return one.exists() and other.exists() and one.samefile(other)


def write_text(path: str | pathlib.Path, text: str) -> None:
    """Writes a file, which appears whole or not at all.

    Raises:
      ConfigError: where it cannot be written.
    """
    target = pathlib.Path(path)
    beside = target.with_name(f".{target.name}.partial")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise ConfigError(f"{path}: cannot be written ({error.strerror}).") from None
