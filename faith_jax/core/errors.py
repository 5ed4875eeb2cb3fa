"""Errors that a user can act on.

Every mistake in what a user gave (a file, a flag, a name, a checkpoint) is raised as a
`FaithJaxError`. The command line prints its message as one line and exits with status 2; a
library caller catches it as a `ValueError`.
"""

import difflib
import json
from collections.abc import Iterable
from typing import Any

_SHOWN_CHARACTERS = 60


class FaithJaxError(ValueError):
    """A user's mistake: the message names what is wrong, where, and what to do about it."""


class InputError(FaithJaxError):
    """Bad input data: a malformed line, a missing field, a text that is too long."""


class CheckpointError(FaithJaxError):
    """A checkpoint that is foreign, truncated, mis-shaped or made for another model."""


class ConfigError(FaithJaxError):
    """A wrong setting: an unknown macro, a missing file, an unknown task or split."""


class ProcessError(RuntimeError):
    """A process that a run started has failed, or was stopped; what it said is on stderr.

    Attributes:
      status: its exit status, with which the command line ends too.
    """

    def __init__(self, message: str, status: int):
        super().__init__(message)
        # Of a process that a signal ended, the status that a shell gives.
        self.status = 128 - status if status < 0 else status


def nearest_names(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Returns up to `count` of the `known` names that are most like `name`, best first."""
    known = list(dict.fromkeys(known))
    lower = {k.lower(): k for k in known}
    close = difflib.get_close_matches(name.lower(), list(lower), n=count, cutoff=0.4)
    return [lower[c] for c in close]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns " Did you mean 'a' or 'b'?" with the nearest known names, or an empty string."""
    near = nearest_names(name, known)
    return f" Did you mean {' or '.join(repr(n) for n in near)}?" if near else ""


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun, in the plural but for one.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shown(value: Any) -> str:
    """Returns a value as JSON for an error message, on one line and not too long.

    What JSON has not, such as bytes and dates, is shown as Python writes it.
    """
    text = json.dumps(value, default=repr)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def field_error(place: str, field: str, expected: str, got: Any, remedy: str = "") -> InputError:
    """Returns the error for a field with a wrong value.

    Args:
      place: where the row stands, as `path:line`.
      field: the field's name; may go deeper, as in `pro[2].text`.
      expected: what should stand there.
      got: the value that stands there.
      remedy: what to do about it, as a phrase without a full stop.
    """
    end = f"; {remedy}." if remedy else "."
    return InputError(f"{place}: field '{field}': expected {expected}, got {shown(got)}{end}")
