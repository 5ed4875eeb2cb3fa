"""What `score` says of its output: the counts of rows, also as JSON, and the lines about them."""

import collections
import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.core.errors import pluralize
from faith_jax.export.scored_rows import ScoredRow
from faith_jax.scoring.base import ScoreRange


class Cut(NamedTuple):
    """Of how many rows tokens were cut, and how many tokens."""

    rows: int = 0
    tokens: int = 0


@dataclasses.dataclass
class ScoreCounts:
    """Counts of scored rows, by scorer.

    Attributes:
      undefined: how many rows it left without a score, by reason; "" = not told.
      cut: how many inputs it cut because they were too long.
      cut_parts: what was cut of each part.
      ranges: of its scores.
    """

    undefined: dict[str, collections.Counter[str]] = dataclasses.field(default_factory=dict)
    cut: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    cut_parts: dict[str, dict[str, Cut]] = dataclasses.field(default_factory=dict)
    ranges: dict[str, ScoreRange] = dataclasses.field(default_factory=dict)

    def add_rows(self, rows: Iterable[ScoredRow]) -> None:
        """Counts what rows lack, and what was cut of them."""
        defined: dict[str, list[float]] = {}
        for row in rows:
            for name, value in row["scores"].items():
                reasons = self.undefined.setdefault(name, collections.Counter())
                if value is None:
                    reasons[row.get("undefined", {}).get(name, "")] += 1
                else:
                    defined.setdefault(name, []).append(value)
            for name, tokens in row["cut_tokens"].items():
                self.cut[name] += bool(tokens)
            for name, cut in row.get("cut", {}).items():
                for part, tokens in cut.items():
                    self._add_cut(name, part, 1, tokens)
        for name, values in defined.items():
            self._extend_range(name, ScoreRange(len(values), min(values), max(values)))

    def add_json(self, counts: Mapping[str, Any]) -> None:
        """Adds the counts of other rows, which were written as JSON."""
        for name, reasons in counts["undefined"].items():
            self.undefined.setdefault(name, collections.Counter()).update(reasons)
        self.cut.update(counts["cut"])
        for name, cut in counts["cut_parts"].items():
            for part, (rows, tokens) in cut.items():
                self._add_cut(name, part, rows, tokens)
        for name, scores in counts["ranges"].items():
            self._extend_range(name, ScoreRange(*scores))

    def as_json(self) -> dict[str, Any]:
        """Returns the counts as JSON."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def _extend_range(self, scorer: str, scores: ScoreRange) -> None:
        before = self.ranges.get(scorer, scores._replace(number=0))
        self.ranges[scorer] = ScoreRange(
            before.number + scores.number,
            min(before.lowest, scores.lowest),
            max(before.highest, scores.highest),
        )

    def _add_cut(self, scorer: str, part: str, rows: int, tokens: int) -> None:
        parts = self.cut_parts.setdefault(scorer, {})
        before = parts.get(part, Cut())
        parts[part] = Cut(before.rows + rows, before.tokens + tokens)


@dataclasses.dataclass
class ScoreSummary:
    """The outcome of a run of `score`: the file or folder of its output, and that of worst rows.

    `left_out` are the columns whose values JSON cannot hold, with their types. Where the output is
    not whole, other processes compute what is missing.
    """

    output: pathlib.Path
    rows: int
    scorers: Sequence[str]
    left_out: Mapping[str, str]
    is_whole: bool = False
    counts: ScoreCounts = dataclasses.field(default_factory=ScoreCounts)
    worst: str = ""
    worst_rows: int = 0

    def lines(self) -> Iterator[str]:
        """Yields lines that say what was written, and what was undefined, cut or left out."""
        if not self.is_whole:
            yield f"{self.output}: other processes score what is missing"
            return
        rows = pluralize(self.rows, "row")
        yield f"{self.output}: {rows}, {pluralize(len(self.scorers), 'scorer')}"
        if self.worst_rows:
            yield f"{self.worst}: the {pluralize(self.worst_rows, 'row')} with the lowest scores"
        for name, reasons in self.counts.undefined.items():
            if count := reasons.total():
                causes = (f"{why or 'not told why'} ({n:,})" for why, n in reasons.most_common())
                yield f"{name} is undefined in {count:,} of {rows}: {'; '.join(causes)}"
        for name, count in (+self.counts.cut).items():
            parts = "; ".join(
                f"{pluralize(cut.tokens, 'token')} of {part} in {pluralize(cut.rows, 'row')}"
                for part, cut in self.counts.cut_parts.get(name, {}).items()
            )
            yield f"{name} cut the input of {count:,} of {rows}, which was too long: {parts}"
        if self.left_out:
            columns = ", ".join(f"{name} ({kind})" for name, kind in self.left_out.items())
            yield f"columns that JSON cannot hold are left out: {columns}"
