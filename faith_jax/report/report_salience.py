"""Salience maps of the rows of a report that need looking at most."""

import dataclasses
import heapq
from collections.abc import Mapping, Sequence
from typing import Any

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.report.salience_picture import THRESHOLD, SaliencePicture, salience_picture

ROWS = 5


@dataclasses.dataclass(frozen=True)
class ReportSalience:
    """Which maps a report shows.

    Attributes:
      model: the language model whose gradients they are.
      rows: how many rows at most.
      threshold: in [0, 1], below which words are marked.
      method: see `faith_jax.scoring.salience.maps`.

    Raises:
      ConfigError: for numbers out of range.
    """

    model: str
    rows: int = ROWS
    threshold: float = THRESHOLD
    method: str = "gradient_x_input"

    def __post_init__(self):
        if self.rows < 1:
            raise ConfigError(f"--salience-rows: expected 1 or more, got {self.rows}.")
        if not 0 <= self.threshold <= 1:
            raise ConfigError(
                f"--salience-threshold: expected a share from 0 to 1, got {self.threshold!r}."
            )


def report_pictures(
    rows: Sequence[Mapping[str, Any]], scorer: str, wanted: ReportSalience
) -> tuple[str, list[SaliencePicture]]:
    """Returns what was chosen, in words, and the pictures of these rows.

    The rows with the lowest score of `scorer` are chosen, the lowest first; where none has one, the
    first rows. Rows without a response or a grounding are passed over.

    Args:
      rows: in the form of `faith_jax.export.scored_rows`.
      scorer: by which they are chosen.
      wanted: which maps.

    Raises:
      FaithJaxError: on rows whose perspectives do not match their texts, without a row that can be
        explained, and on a model that cannot be read.
    """
    usable = [row for row in rows if (row["generated_text"] or "").strip() and row["grounding"]]
    if not usable:
        raise InputError(
            "--salience-model: no row has generated_text and grounding, which the maps are of."
        )
    scored = [row for row in usable if row["scores"].get(scorer) is not None]
    chosen = heapq.nsmallest(wanted.rows, scored, key=lambda row: row["scores"][scorer])
    rule = f"The {len(chosen)} rows with the lowest {scorer}, the lowest first."
    if not scored:
        chosen = usable[: wanted.rows]
        rule = f"The first {len(chosen)} rows; none has a score of {scorer}."
    examples = [_example(row) for row in chosen]
    from faith_jax.scoring.salience.scorers import (
        open_salience,  # JAX, which other reports do without
    )

    maps = open_salience(wanted.model, method=wanted.method)(examples)
    pictures = [
        salience_picture(example, found, wanted.threshold)
        for example, found in zip(examples, maps, strict=True)
        if found is not None  # it is None for empty responses only
    ]
    return f"{rule} Gradients ({wanted.method}) of {wanted.model}.", pictures


def _example(row: Mapping[str, Any]) -> GroundedExample:
    texts, sides = tuple(row["grounding"]), tuple(row["perspectives"])
    if sides and len(sides) != len(texts):
        raise InputError(
            f"{row['corpus']}, row {row['id']!r}: expected one of perspectives for each text of "
            f"grounding, got {len(sides)} for {len(texts)}."
        )
    name = f"{row['corpus']}: {row['id']}"
    return GroundedExample(
        name, Grounding(texts, sides), tuple(row["history"]), row["generated_text"]
    )
