"""Tables that have a column for the scores of each scorer, as scored rows.

So are frames of `faith_jax.score`, and the scores of other systems in CSV files.
"""

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from faith_jax.core.errors import field_error
from faith_jax.core.rows import Row
from faith_jax.datasets.grounded_rows import Columns, example_rows
from faith_jax.datasets.table_notes import TableNotes
from faith_jax.scoring.registry import scorer_names


class ScoredColumns(Columns):
    """Which columns of a table of scores hold what; it needs no texts."""

    needs: ClassVar[tuple[str, ...]] = ()
    ambiguous_remedy: ClassVar[str] = "rename one of them"
    label_remedy: ClassVar[str] = "write one of these in the table"


def score_columns(fields: Sequence[str], scorers: Sequence[str]) -> list[str]:
    """Returns the columns that hold scores: those of these scorers, and all named as scorers."""
    names = {*scorers, *scorer_names()}
    return [name for name in fields if name in names]


def scored_fields(
    rows: Iterable[Row],
    scorers: Sequence[str],
    columns: Columns,
    corpus: str,
    decimal_commas: frozenset[str] = frozenset(),
    find_text_columns: Callable[[], Collection[str]] | None = None,
) -> Iterator[Row]:
    """Yields the fields that a scored row has (`faith_jax.export.scored_rows`), with their places.

    Args:
      rows: of the table.
      scorers: the columns of scores, of which a row may lack some.
      columns: what other columns hold.
      corpus: of rows that name none.
      decimal_commas: columns whose numbers are written with them.
      find_text_columns: see `example_rows`.

    Raises:
      InputError: for a score, a label or a text that is none; it names the row.
    """
    rows, raw_rows = itertools.tee(rows)
    notes = TableNotes()
    examples = example_rows(rows, columns, corpus, notes=notes, find_text_columns=find_text_columns)
    for row, read in zip(raw_rows, examples, strict=True):
        example = read.example
        scores: dict[str, Any] = {}
        for scorer in (name for name in scorers if name in row.fields):
            value = row.fields[scorer]
            if isinstance(value, str):
                text = value.strip()
                if scorer in decimal_commas:
                    text = text.replace(",", ".")
                try:
                    value = float(text) if text else None
                except ValueError:
                    raise field_error(row.place, scorer, "a number, or nothing", value) from None
            if isinstance(value, float) and math.isinf(value):
                raise field_error(row.place, scorer, "a finite number, or nothing", value)
            # NaN is undefined; what is no number is found where rows are checked.
            scores[scorer] = None if value != value else value
        yield Row(
            row.place,
            {
                "id": example.id,
                "corpus": read.corpus,
                "grounding": list(example.grounding.texts),
                "perspectives": list(example.grounding.perspectives),
                "history": list(example.history),
                "generated_text": example.response if notes.columns["response"] else None,
                "label": example.label,
                "fields": {n: value for n, value in read.fields.items() if n not in scores},
                "scores": scores,
            },
        )
