"""The summary of a run of `score`: counts of rows, also as JSON, and the lines to print."""

import collections
import dataclasses
import functools
import math
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from faith_jax.core.errors import pluralize
from faith_jax.core.types import Score
from faith_jax.export.scored_rows import ScoredRow
from faith_jax.scoring.base import ScoreRange

_Counters = collections.defaultdict[str, collections.Counter[str]]
_no_counts: Callable[[], _Counters] = functools.partial(
    collections.defaultdict, collections.Counter
)


@dataclasses.dataclass
class ScoreCounts:
    """Counts of scored rows, by scorer; `vars` of this object is their JSON.

    Attributes:
      undefined: how many rows have no score, by reason; "" = unknown.
      cut: how many inputs were cut because they were too long.
      cut_rows: in how many rows each part was cut.
      cut_tokens: how many tokens of each part were cut.
      ranges: the ranges of the scores.
    """

    undefined: _Counters = dataclasses.field(default_factory=_no_counts)
    cut: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    cut_rows: _Counters = dataclasses.field(default_factory=_no_counts)
    cut_tokens: _Counters = dataclasses.field(default_factory=_no_counts)
    ranges: dict[str, ScoreRange] = dataclasses.field(default_factory=dict)

    def add_rows(self, rows: Iterable[ScoredRow]) -> None:
        """Counts undefined scores and cut tokens of rows, and extends the ranges."""
        defined: dict[str, list[float]] = {}
        for row in rows:
            for name, value in row["scores"].items():
                reasons = self.undefined[name]
                if value is None:
                    reasons[row.get("undefined", {}).get(name, "")] += 1
                else:
                    defined.setdefault(name, []).append(value)
            for name, tokens in row["cut_tokens"].items():
                self.cut[name] += bool(tokens)
            for name, cut in row.get("cut", {}).items():
                self.cut_rows[name].update(cut.keys())
                self.cut_tokens[name].update(cut)
        for name, values in defined.items():
            self._extend_range(name, len(values), min(values), max(values))

    def add_scores(self, name: str, scores: Iterable[Score]) -> None:
        """Counts undefined scores and cut tokens of a scorer."""
        for score in scores:
            if math.isnan(score.value):
                self.undefined[name][score.undefined] += 1
            self.cut[name] += bool(score.cut_tokens)
            self.cut_rows[name].update(score.cut.keys())
            self.cut_tokens[name].update(score.cut)

    def add_json(self, counts: Mapping[str, Any]) -> None:
        """Adds the counts of other rows, given as JSON."""
        for field in ("undefined", "cut_rows", "cut_tokens"):
            for name, numbers in counts[field].items():
                getattr(self, field)[name].update(numbers)
        self.cut.update(counts["cut"])
        for name, scores in counts["ranges"].items():
            self._extend_range(name, *scores)

    def lines(self, rows: str) -> Iterator[str]:
        """Yields a line for each scorer with undefined scores or cut inputs; `rows` counts all."""
        for name, reasons in self.undefined.items():
            if count := reasons.total():
                causes = (f"{why or 'not told why'} ({n:,})" for why, n in reasons.most_common())
                yield f"{name} is undefined in {count:,} of {rows}: {'; '.join(causes)}"
        for name, count in (+self.cut).items():
            parts = "; ".join(
                f"{pluralize(tokens, 'token')} of {part} in "
                f"{pluralize(self.cut_rows[name][part], 'row')}"
                for part, tokens in self.cut_tokens[name].items()
            )
            yield f"{name} cut the input of {count:,} of {rows}, which was too long: {parts}"

    def _extend_range(self, scorer: str, number: int, lowest: float, highest: float) -> None:
        before = self.ranges.get(scorer, ScoreRange(0, lowest, highest))
        self.ranges[scorer] = ScoreRange(
            before.number + number, min(before.lowest, lowest), max(before.highest, highest)
        )


@dataclasses.dataclass
class ScoreSummary:
    """The outcome of a run of `score`: its output, the file of worst rows, and counts.

    `left_out` maps columns whose values JSON cannot hold to their types. If the output is not
    whole, other processes still compute the missing rows.
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
        """Yields lines on the written files, and on undefined, cut or left out values."""
        if not self.is_whole:
            yield f"{self.output}: other processes score what is missing"
            return
        rows = pluralize(self.rows, "row")
        yield f"{self.output}: {rows}, {pluralize(len(self.scorers), 'scorer')}"
        if self.worst_rows:
            yield f"{self.worst}: the {pluralize(self.worst_rows, 'row')} with the lowest scores"
        yield from self.counts.lines(rows)
        if self.left_out:
            columns = ", ".join(f"{name} ({kind})" for name, kind in self.left_out.items())
            yield f"columns that JSON cannot hold are left out: {columns}"
