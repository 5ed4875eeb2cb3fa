"""What decided the files that an output folder keeps, and whether it is still the same.

Runs that go on where they were stopped write it down as `settings.json`.
"""

import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from faith_jax.core.errors import ConfigError
from faith_jax.core.outputs import write_text

SETTINGS = "settings.json"


def made_folder(output: str | pathlib.Path) -> pathlib.Path:
    """Returns the output folder, which is made where it is not there.

    Raises:
      ConfigError: where it cannot be.
    """
    folder = pathlib.Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--output: {folder}: cannot be written ({error.strerror}).") from None
    return folder


def checkpoint_state(model: str) -> str:
    """Returns what changes with the files of a checkpoint."""
    root = pathlib.Path(model).expanduser()
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.is_file():
            status = path.stat()
            digest.update(repr((path.name, status.st_size, status.st_mtime_ns)).encode())
    return digest.hexdigest()[:16]


def as_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings as they are read back from a file."""
    found: dict[str, Any] = json.loads(json.dumps(settings, default=str))
    return found


def read_settings_file(path: pathlib.Path, *sections: str) -> dict[str, Any]:
    """Returns what `write_settings` wrote.

    Args:
      path: of the file.
      sections: names of settings that are mappings themselves.

    Raises:
      ConfigError: for a file that is not there, is no such file, or lacks a section.
    """
    try:
        found = dict(json.loads(path.read_text(encoding="utf-8")))
        whole = all(isinstance(found.get(name), dict) for name in sections)
    except (OSError, ValueError, TypeError):
        whole = False
    if not whole:
        raise ConfigError(f"{path}: not readable; name another --output.")
    return found


def write_settings(folder: pathlib.Path, settings: Mapping[str, Any]) -> None:
    """Writes settings into the folder that they decide."""
    text = json.dumps(settings, indent=1, ensure_ascii=False, default=str) + "\n"
    write_text(folder / SETTINGS, text)


def check_same(
    folder: pathlib.Path, before: Mapping[str, Any], now: Mapping[str, Any], kept: str
) -> None:
    """Refuses a folder whose files were made with other settings.

    Args:
      folder: of the files.
      before: what they were made with.
      now: what is asked for; what is only in `before` is not compared.
      kept: what the files have, such as "responses".

    Raises:
      ConfigError: naming the first setting that differs.
    """
    for name, value in now.items():
        if before.get(name) != value:
            raise ConfigError(
                f"--output: {folder} keeps {kept} with another value of {name} "
                f"({before.get(name)}, not {value}); name another folder, or remove it."
            )
