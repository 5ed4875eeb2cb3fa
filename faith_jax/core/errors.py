"""Errors that a user can act on.

Every mistake in a user's input (a file, an option, a name, a checkpoint) raises a `FaithJaxError`.
The command line prints its message in one line and exits with status 2.
"""

import difflib
import errno
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

_SHOWN_CHARACTERS = 60
_BAD_PATHS = (
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
)
_STORAGE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
# Messages of libraries about storage failures; the last two are SQLite's.
_STORAGE_TEXTS = (*map(os.strerror, _STORAGE), "database or disk is full", "disk I/O error")


class FaithJaxError(ValueError):
    """A user's mistake; the message says what is wrong, where, and what to do about it."""


class InputError(FaithJaxError):
    """Bad input data: a malformed line, a missing field, a text that is too long."""


class CheckpointError(FaithJaxError):
    """A checkpoint that is foreign, truncated, mis-shaped or made for another model."""


class ConfigError(FaithJaxError):
    """A wrong setting: an unknown macro, a missing file, an unknown task or split."""


def all_of(*checks: Callable[[], Any]) -> list[Any]:
    """Returns the results of checks; errors of several checks are raised as one.

    Raises:
      ConfigError: with the messages of several ConfigErrors or CheckpointErrors; one stays as is.

    >>> all_of(lambda: 1, lambda: 2)
    [1, 2]
    """
    results, errors = [], dict[str, FaithJaxError]()
    for check in checks:
        try:
            results.append(check())
        except (ConfigError, CheckpointError) as error:
            errors.setdefault(str(error), error)
    if errors:
        raise ConfigError(" And: ".join(errors)) if len(errors) > 1 else next(iter(errors.values()))
    return results


class StorageError(RuntimeError):
    """The disk is full or fails during the work, which can resume when the disk is repaired."""


class MetricError(RuntimeError):
    """A metric of a user's task fails; all trained or computed results of the run are kept.

    Attributes:
      metrics: the values of the other metrics, by name.
    """

    def __init__(self, message: str, metrics: Mapping[str, Any]):
        super().__init__(message)
        self.metrics = dict(metrics)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.metrics)


class DivergenceError(RuntimeError):
    """The loss or gradient of a training is not finite; earlier checkpoints are kept."""


class ProcessError(RuntimeError):
    """A process that a run started has failed or was stopped; its messages are on stderr.

    Attributes:
      status: exit status of the process, with which the command line exits too.
    """

    def __init__(self, message: str, status: int):
        super().__init__(message)
        # After a signal, the same status as in a shell.
        self.status = 128 - status if status < 0 else status

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.status)


def storage_failure(error: BaseException) -> str:
    """Returns the disk's message if an error was caused by a full or failing disk, otherwise "".

    Libraries report such failures with their own error types, or only in the message.
    """
    for link in _walk_causes(error):
        if isinstance(link, StorageError):
            return str(link).removesuffix(".")
        if isinstance(link, OSError) and link.errno in _STORAGE:
            place = f"{link.filename}: " if link.filename else ""
            return f"{place}{os.strerror(link.errno)}"
        if text := next((text for text in _STORAGE_TEXTS if text in str(link)), ""):
            return text
    return ""


def path_failure(error: BaseException) -> str:
    """Returns the problem with a path if an error was caused by one, otherwise "".

    Any access to a path may fail because its name is too long, it is a link to itself, or this user
    may not enter a folder above it.
    """
    for link in _walk_causes(error):
        if isinstance(link, OSError) and link.errno in _BAD_PATHS and link.filename is not None:
            name = os.fsdecode(link.filename)
            return f"{name if len(name) < 300 else format_value(name)}: {os.strerror(link.errno)}"
        if isinstance(link, FileNotFoundError) and link.filename is None:
            try:
                os.getcwd()
            except OSError:
                return "the working folder has been removed; change to another one"
    return ""


def reason(error: BaseException) -> str:
    """Describes an error of other code on one line, with its type and without a full stop.

    >>> reason(KeyError("count"))
    "KeyError: 'count'"
    """
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(".")


def _walk_causes(error: BaseException) -> Iterator[BaseException]:
    """Yields an error and the chain of errors that caused it."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__ or link.__context__


def nearest_names(name: str, choices: Iterable[str], count: int = 3) -> list[str]:
    """Returns up to `count` choices that are spelled like `name` or contain it, best first."""
    lower, lower_name = {choice.lower(): choice for choice in choices}, name.lower()
    close = difflib.get_close_matches(lower_name, list(lower), n=count, cutoff=0.5)
    close += [choice for choice in lower if len(lower_name) > 1 and lower_name in choice]
    return [lower[choice] for choice in dict.fromkeys(close)][:count]


def first_duplicate(names: Iterable[str]) -> str | None:
    """Returns the first name that occurs twice, or None.

    >>> first_duplicate(["id", "text", "id"])
    'id'
    """
    return next((name for name, count in Counter(names).items() if count > 1), None)


def did_you_mean(name: str, choices: Iterable[str], prefix: str = "") -> str:
    """Returns " Did you mean 'a' or 'b'?" with the nearest choices, each with the prefix, or ""."""
    near = [repr(prefix + choice) for choice in nearest_names(name, choices)]
    return f" Did you mean {' or '.join(near)}?" if near else ""


def pluralize(number: int, noun: str) -> str:
    """Returns a number with its noun, in the plural unless the number is 1.

    >>> pluralize(1, "row"), pluralize(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_value(value: Any) -> str:
    """Formats a value for an error message as JSON, on one line and shortened."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def field_error(place: str, field: str, expected: str, got: Any, remedy: str = "") -> InputError:
    """Returns the error for a field with a wrong value.

    `place` is the place of the row, as `path:line`; `field` may be a path such as `pro[2].text`;
    `remedy` is a phrase without a full stop.
    """
    end = f"; {remedy}." if remedy else "."
    return InputError(
        f"{place}: field '{field}': expected {expected}, got {format_value(got)}{end}"
    )


def join_in_sentence(texts: Sequence[str]) -> str:
    """Joins texts to a list within a sentence.

    >>> join_in_sentence(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last
