"""What a run of `score` will see: its rows, what is cut of each part, and the first inputs."""

import dataclasses
import json
import logging
import pathlib
from collections.abc import Iterable, Iterator, Mapping

from faith_jax.core.cutting import CutTokens
from faith_jax.core.errors import InputError, counted
from faith_jax.core.files import write_text
from faith_jax.datasets.grounded_rows import ExampleRow
from faith_jax.input.cut_report import Report, cut_lines, cut_of_inputs, cut_warnings
from faith_jax.scoring.base import BaseScorer, SeenInput

logger = logging.getLogger("faith_jax")

_EXAMPLES = 3


@dataclasses.dataclass
class _Inputs:
    """What the model of one scorer reads: tokens cut of each input, the first inputs."""

    cut: list[CutTokens] = dataclasses.field(default_factory=list)
    first: list[Report] = dataclasses.field(default_factory=list)

    def add(self, identifier: str, seen: SeenInput) -> None:
        self.cut.append(seen.cut)
        if len(self.first) < _EXAMPLES:
            self.first.append({"id": identifier, **seen.texts})

    def report(self) -> Report:
        return {
            "inputs": len(self.cut),
            "inputs_cut": sum(map(bool, self.cut)),
            "cut": cut_of_inputs(self.cut),
            "examples": self.first,
        }


@dataclasses.dataclass(frozen=True)
class Preflight:
    """What a run will see.

    Attributes:
      source: what is scored.
      rows: how many rows it has.
      left_out: the columns whose values JSON cannot hold, with their types.
      scorers: of each scorer whose model reads tokens its `inputs`, how many are cut
        (`inputs_cut`), how much by part (`cut`, see `cut_of_inputs`), and the first `examples`.
    """

    source: str
    rows: int
    left_out: Mapping[str, str]
    scorers: Mapping[str, Report]

    def lines(self) -> Iterator[str]:
        """Yields what it says to people."""
        yield f"{self.source}: {counted(self.rows, 'row')} to score"
        for scorer, found in self.scorers.items():
            yield f"{scorer}: {counted(found['inputs'], 'input')}, {found['inputs_cut']:,} cut"
            yield from cut_lines(found["cut"])
            for number, example in enumerate(found["examples"], 1):
                yield f"example {number}:"
                for name, text in example.items():
                    # As JSON, so that it stays in one line and cannot steer a terminal.
                    yield f"  {name}: {json.dumps(text)}"

    def warnings(self) -> Iterator[str]:
        """Yields what nobody wants."""
        for scorer, found in self.scorers.items():
            for sentence in cut_warnings(found["cut"]):
                yield f"{scorer}: {sentence}"

    def write(self, path: pathlib.Path) -> None:
        """Writes it as JSON.

        Raises:
          ConfigError: where the file cannot be written.
        """
        told = {"source": self.source, "rows": self.rows, "scorers": self.scorers}
        told |= {"warnings": list(self.warnings())}
        write_text(path, json.dumps(told, ensure_ascii=False, indent=1) + "\n")
        logger.info("Written: %s", path)


def preflight_path(output: pathlib.Path) -> pathlib.Path:
    """Returns where the preflight of an output is written."""
    return output.with_name(f"{output.name}.preflight.json")


def look_through(
    source: str, rows: Iterable[ExampleRow], scorers: Mapping[str, BaseScorer]
) -> Preflight:
    """Reads all rows, and what each scorer's model will read of them; no model runs.

    Args:
      source: what is scored.
      rows: all of them.
      scorers: by name.

    Raises:
      InputError: without rows, for a bad row, and for one that is too long and cannot be cut.
    """
    count, left_out = 0, dict[str, str]()
    inputs = {scorer: _Inputs() for scorer in scorers}
    for row in rows:
        count += 1
        left_out.update(row.left_out)
        for scorer, found in inputs.items():
            try:
                seen = scorers[scorer].seen(row.example)
            except InputError as error:
                raise InputError(f"{source}: {scorer}: {error}") from None
            if seen is not None:
                found.add(row.example.id, seen)
    if not count:
        raise InputError(f"{source}: no rows to score.")
    reports = {scorer: found.report() for scorer, found in inputs.items() if found.first}
    return Preflight(source, count, left_out, reports)
