"""What a finished run says of itself: its config.gin and its metrics.jsonl."""

import json
import pathlib
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from gin import config_parser

from faith_jax.runs.renamed import with_present_names
from faith_jax.statistics.prompt_health import Curve

CONFIG, METRICS = "config.gin", "metrics.jsonl"
_TRAIN = "train.train"
_LARGEST = 2**53


class Reference(NamedTuple):
    """`@name` or `@name()` in a gin file."""

    name: str


class Macro(NamedTuple):
    """`%NAME` in a gin file."""

    name: str


class GinValues(config_parser.ParserDelegate):
    """Makes values of a gin file without looking up or running anything that it names."""

    def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> Reference:
        """Returns the name."""
        return Reference(scoped_configurable_name)

    def macro(self, name: str) -> Macro:
        """Returns the name."""
        return Macro(name)


def read_settings(folder: pathlib.Path) -> dict[str, Any] | None:
    """Reads what config.gin binds to the run `train`; nothing in it is run.

    Args:
      folder: MODEL_DIR.

    Returns:
      The values by the arguments' names; a reference is a `Reference`. Beside them are the macros,
      by their own names. None where there is no config that can be read.
    """
    try:
        text = (folder / CONFIG).read_text(encoding="utf-8")
        parser = config_parser.ConfigParser(with_present_names(text), GinValues())
        bound = [s for s in parser if isinstance(s, config_parser.BindingStatement)]
    except (OSError, ValueError, SyntaxError, tokenize.TokenError):
        return None
    macros = {s.selector: s.value for s in bound if not s.arg_name and not s.scope}
    found = {s.arg_name: s.value for s in bound if s.selector == _TRAIN and not s.scope}
    return {name: _resolved(value, macros) for name, value in (macros | found).items()}


def _resolved(value: Any, macros: Mapping[str, Any]) -> Any:
    for _ in macros:  # no more steps than macros, even if they name each other in a circle
        if not isinstance(value, Macro):
            break
        value = macros.get(value.name)
    return value


class RunLog:
    """The metrics of a run, by step.

    Args:
      folder: MODEL_DIR.
      last_step: later lines are not looked at; None = all are.
    """

    def __init__(self, folder: pathlib.Path, last_step: int | None = None):
        self._rows = [
            row for row in _rows(folder / METRICS) if last_step is None or row["step"] <= last_step
        ]

    def training(self, name: str) -> Curve:
        """Returns a number that is logged of training batches."""
        return _curve((r["step"], r.get(name)) for r in self._rows if "gradient_norm" in r)

    def validation(self, name: str) -> Curve:
        """Returns a number that is logged of the validation set's loss."""
        rows = (r for r in self._rows if "gradient_norm" not in r)
        return _curve((r["step"], r.get(name)) for r in rows)

    def vectors(self, name: str, length: int) -> Curve:
        """Returns what is logged of each vector of a prompt, [points, length]."""
        found = {
            row["step"]: row[name]
            for row in self._rows
            if _is_numbers(row.get(name)) and len(row[name]) == length
        }
        values = np.array(list(found.values()), np.float64).reshape(-1, length)
        return Curve(np.array(list(found), np.int64), values)


def _rows(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue  # a line that was cut when the run was killed
        step = row.get("step") if isinstance(row, dict) else None
        if isinstance(step, int) and _is_number(step):
            yield row


def _curve(points: Iterable[tuple[int, Any]]) -> Curve:
    found = {step: value for step, value in points if _is_number(value)}
    return Curve(np.array(list(found), np.int64), np.array(list(found.values()), np.float64))


def _is_number(value: Any) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < _LARGEST
    return isinstance(value, float)


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))
