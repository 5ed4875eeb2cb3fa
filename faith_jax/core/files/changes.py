"""Comparison of a former output's files and settings with those of now."""

import hashlib
import json
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from faith_jax.core.errors import ConfigError, format_value
from faith_jax.core.files.stores import check_readable, is_remote, path_of, version
from faith_jax.core.files.whole import read_json_or_none

_DIGEST = re.compile(r"[0-9a-f]{32,}")


def content_digest(values: Iterable[Any]) -> str:
    """Returns a hash of values in their order, by their representations."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(repr(value).encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def stamp(paths: Iterable[str | pathlib.Path]) -> list[list[Any]]:
    """Returns the stamps of files, which differ once these change: size and time, or version.

    Raises:
      InputError: a local file is missing, a pipe or a device.
    """
    stamps = []
    for location in paths:
        path = path_of(location)
        if is_remote(path):
            state: list[Any] = [version(path)]
        else:
            check_readable(location)
            status = path.stat()
            state = [status.st_size, status.st_mtime_ns]
        stamps.append([str(location), *state])
    return stamps


def check_settings(path: pathlib.Path, settings: Mapping[str, Any], content: str) -> None:
    """Checks that files were made with the settings that are asked for.

    Args:
      path: where `write_json` wrote what they were made with.
      settings: what is asked for; settings that are only in the file do not matter.
      content: what the files have, such as "responses".

    Raises:
      ConfigError: names the first setting that differs.
    """
    if changed_setting := difference(read_json_or_none(path), settings):
        raise ConfigError(
            f"--output: {path.parent} keeps {content} with {changed_setting}; name another "
            "folder, or remove it."
        )


def difference(before: Mapping[str, Any] | None, settings: Mapping[str, Any]) -> str:
    """Returns the first setting that differs from those of a former run, with both values.

    Of a file or checkpoint whose contents differ, only its setting.

    "" = none differs. A setting within settings is named with these, as `decoding.top_p`.
    """
    if before is None:
        return "other settings, which are not readable"
    return _describe_difference(before, json.loads(json.dumps(settings, default=str)), "")


def _describe_difference(
    before: Mapping[str, Any], settings: Mapping[str, Any], within: str
) -> str:
    for name, value in settings.items():
        former, path = before.get(name), f"{within}{name}"
        if former == value:
            continue
        # Hashes say nothing to people.
        if name == "rows" and isinstance(value, str):
            return "other rows: the input, or a setting that makes its rows, has changed"
        if all(isinstance(v, str) and _DIGEST.fullmatch(v) for v in (former, value)):
            return f"other contents of {path.removesuffix('.digest')}"
        if isinstance(former, dict) and isinstance(value, dict) and former.keys() == value.keys():
            return _describe_difference(former, value, f"{path}.")
        return f"another value of {path} ({_format_setting(former)}, not {_format_setting(value)})"
    return ""


def _format_setting(value: Any) -> str:
    return format_value(value) if isinstance(value, dict | list) else str(value)
