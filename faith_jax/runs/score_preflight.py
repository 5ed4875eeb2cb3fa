"""What a run of `score` will see: its rows, what is cut of each part, and the first inputs."""

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from faith_jax.data.grounded_rows import ExampleRow
from faith_jax.errors import InputError, counted
from faith_jax.export.scored_rows import PARTS
from faith_jax.runs.outputs import write_text
from faith_jax.scoring.base import BaseScorer, SeenInput

PERCENTILES = {"p50": 50, "p90": 90, "p99": 99, "max": 100}
# A larger share of inputs that lose some of these parts is warned of.
LARGEST_SHARE = 0.05
_NEVER_CUT = ("history", "response")
_SHOWN = 3


@dataclasses.dataclass
class ScorerInputs:
    """What the model of one scorer reads.

    Attributes:
      cut: for each part how many tokens of each input are cut.
      first: the first inputs, with their examples' ids.
    """

    cut: dict[str, list[int]] = dataclasses.field(
        default_factory=lambda: {part: [] for part in PARTS}
    )
    first: list[tuple[str, SeenInput]] = dataclasses.field(default_factory=list)

    def add(self, identifier: str, seen: SeenInput) -> None:
        """Counts an input."""
        for part, counts in self.cut.items():
            counts.append(seen.cut.get(part, 0))
        if len(self.first) < _SHOWN:
            self.first.append((identifier, seen))

    @property
    def inputs(self) -> int:
        """How many inputs there are."""
        return len(self.cut[PARTS[0]])

    @property
    def inputs_cut(self) -> int:
        """How many of them are cut."""
        return int(np.any([*self.cut.values()], axis=0).sum())

    def figures(self) -> dict[str, dict[str, int]]:
        """Returns of each part how many inputs lose tokens, and percentiles of how many."""
        found = {}
        for part, counts in self.cut.items():
            if lost := sum(map(bool, counts)):
                values = np.percentile(counts, [*PERCENTILES.values()], method="inverted_cdf")
                found[part] = {"inputs": lost} | dict(
                    zip(PERCENTILES, map(int, values), strict=True)
                )
        return found

    def as_json(self) -> dict[str, Any]:
        """Returns all that is known."""
        first = [{"id": i, "texts": dict(s.texts), "cut": dict(s.cut)} for i, s in self.first]
        return {
            "inputs": self.inputs,
            "inputs_cut": self.inputs_cut,
            "cut_tokens": self.figures(),
            "first": first,
        }


@dataclasses.dataclass(frozen=True)
class Preflight:
    """What a run will see.

    Attributes:
      name: of what is scored.
      rows: how many rows it has.
      left_out: the columns whose values JSON cannot hold, with their types.
      scorers: of those whose models read tokens.
    """

    name: str
    rows: int
    left_out: Mapping[str, str]
    scorers: Mapping[str, ScorerInputs]

    def lines(self) -> Iterator[str]:
        """Yields what it says to people."""
        yield f"{self.name}: {counted(self.rows, 'row')} to score"
        for scorer, found in self.scorers.items():
            yield f"{scorer}: {counted(found.inputs, 'input')}, {found.inputs_cut:,} of them cut"
            figures = found.figures()
            if figures:
                yield _line("tokens cut", [*PERCENTILES, "inputs"])
            for part, values in figures.items():
                share = values["inputs"] / found.inputs
                counts = [f"{values[name]:,}" for name in PERCENTILES]
                yield _line(part, [*counts, f"{values['inputs']:,} ({share:.1%})"])
            for identifier, seen in found.first:
                for name, text in seen.texts.items():
                    # As JSON, so that it stays in one line and cannot steer a terminal.
                    yield f"  example {identifier!r}, {name}: {json.dumps(text)}"

    def warnings(self) -> Iterator[str]:
        """Yields what nobody wants."""
        for scorer, found in self.scorers.items():
            lost = {part: values["inputs"] for part, values in found.figures().items()}
            yield from losses(scorer, lost, found.inputs)

    def write(self, path: pathlib.Path) -> None:
        """Writes it as JSON.

        Raises:
          ConfigError: where the file cannot be written.
        """
        scorers = {scorer: found.as_json() for scorer, found in self.scorers.items()}
        told = {"input": self.name, "rows": self.rows, "scorers": scorers}
        write_text(path, json.dumps(told, ensure_ascii=False, indent=1) + "\n")


def _line(name: str, values: Iterable[str]) -> str:
    return f"  {name:<12}" + "".join(f" {value:>9}" for value in values)


def losses(scorer: str, lost: Mapping[str, int], inputs: int) -> Iterator[str]:
    """Yields a warning for history and response where more than 5% of inputs lose some of them.

    Args:
      scorer: its name.
      lost: how many inputs lose tokens, by part.
      inputs: how many there are.
    """
    for part in _NEVER_CUT:
        if lost.get(part, 0) > LARGEST_SHARE * inputs:
            yield (
                f"{scorer}: {lost[part]:,} of {counted(inputs, 'input')} "
                f"({lost[part] / inputs:.1%}) lose tokens of the {part}; a larger max_length keeps "
                "more"
            )


def preflight_path(output: pathlib.Path) -> pathlib.Path:
    """Returns where the preflight of an output is written."""
    return output.with_name(f"{output.name}.preflight.json")


def look_through(
    name: str, rows: Iterable[ExampleRow], scorers: Mapping[str, BaseScorer]
) -> Preflight:
    """Reads all rows, and what each scorer's model will read of them; no model runs.

    Args:
      name: of what is scored.
      rows: all of them.
      scorers: by name.

    Raises:
      InputError: without rows, for a bad row, and for one that is too long and cannot be cut.
    """
    count, left_out = 0, dict[str, str]()
    found = {scorer: ScorerInputs() for scorer in scorers}
    for row in rows:
        count += 1
        left_out.update(row.left_out)
        for scorer, inputs in found.items():
            try:
                seen = scorers[scorer].seen(row.example)
            except InputError as error:
                raise InputError(f"{name}: {scorer}: {error}") from None
            if seen is not None:
                inputs.add(row.example.id, seen)
    if not count:
        raise InputError(f"{name}: no rows to score.")
    reading = {scorer: inputs for scorer, inputs in found.items() if inputs.inputs}
    return Preflight(name, count, left_out, reading)
