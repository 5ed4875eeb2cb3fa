"""Units of independence: groups of rows that depend on each other.

Rows that share a document, a question or an annotator are not independent evidence. All rows with
the same value of a field are one unit; intervals and tests count units, not rows.
"""

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from faith_jax.core.errors import InputError, pluralize
from faith_jax.statistics.bootstrap import cluster_numbers
from faith_jax.statistics.intervals import ENOUGH_UNITS, Estimate, smallest_exchange
from faith_jax.statistics.scored_corpora import Corpus
from faith_jax.statistics.significance import SIGNIFICANT

# Values of --cluster-field: rows with the same grounding are one unit, or each row is a unit.
AUTO, ROWS = "auto", "none"
_MANY = 100_000  # larger numbers are shown as "more than 100,000"
_OWN_FIELDS = ("id", "grounding", "question", "corpus")


class Units(NamedTuple):
    """The number of each row's unit, from 0, [rows]; and the field that rows of a unit share.

    Without a field, each row is a unit. `is_joint` says that the units of single systems differ, so
    that rows of a unit share the field's value in any of the systems, directly or by other rows.
    """

    numbers: NDArray[np.intp]
    field: str = ""
    is_joint: bool = False

    @property
    def total(self) -> int:
        """The number of units."""
        return int(self.numbers.max(initial=-1)) + 1

    @property
    def kind(self) -> str:
        """The plural noun for the units in texts."""
        return "groups" if self.field else "rows"

    def text(self, counted: str = "") -> str:
        """Returns the number of units as text, such as "12 groups (40 rows)" or "only 3 rows".

        `counted` is put before the number of rows if not all of them count, such as "38 of ".
        """
        rows = f"{counted}{pluralize(len(self.numbers), 'row')}"
        text = f"{pluralize(self.total, 'group')} ({rows})" if self.field else rows
        return f"only {text}" if self.total < ENOUGH_UNITS else text

    def verdict(self, text: str, size: str) -> str:
        """Returns a verdict with the number of units, which comes first if they are few.

        With few units, a p-value means less than readers assume.
        """
        if self.total < ENOUGH_UNITS:
            return f"Verdict by {size}: {text}."
        return f"Verdict: {text}; {size}."

    def notes(self, corpus: str, resampled: bool = False) -> tuple[str, ...]:
        """Returns notes that name the unit and warn if there are few units.

        `resampled` says that intervals are percentiles of a bootstrap over units, without tests.
        """
        count, rows = self.total, pluralize(len(self.numbers), "row")
        where = " in any of the systems" if self.is_joint else ""
        if count == 1 and self.field:
            shared = "share a" if self.is_joint else "have the same"
            return (
                f"{corpus}: all {rows} {shared} {self.field}{where}: one group, of which there is "
                "neither an interval nor a p-value. If the rows do not depend on each other, for "
                "example if each is a question of its own, give --cluster-field=id.",
            )
        notes = []
        if self.field:
            notes.append(
                f"{corpus}: rows with the same {self.field}{where} are one unit: "
                f"{pluralize(count, 'group')} of {rows}."
            )
        if 1 < count < ENOUGH_UNITS:
            few = f"{corpus}: with only {count} {self.kind}, "
            remedy = "; --cluster-field names another unit" if self.field else ""
            consequence = "intervals, resampled from so few, are too narrow"
            if not resampled:
                consequence = (
                    "intervals and p-values rest on their values being about normal; exchanging "
                    "whole units of two systems allows no p-value below "
                    f"2/2^{count} = {smallest_exchange(count):.2g}"
                )
            notes.append(f"{few}{consequence}{remedy}.")
        return tuple(notes)


def group_rows(values: Sequence[Hashable], field: str) -> Units:
    """Returns the units of rows with these values of a field: [rows].

    If no two rows share a value, units are single rows and have no field.
    """
    is_shared = len(set(values)) < len(values)
    return Units(cluster_numbers(len(values), values), field if is_shared else "")


def units_of(corpora: Sequence[Corpus], field: str = AUTO) -> Units:
    """Returns the units of corpora that have the same rows in the same order.

    Args:
      corpora: one corpus for each system or scorer.
      field: the field that rows of a unit share: `id`, `grounding`, `question` (the last text of
        the history), `corpus`, or a field of the rows; `AUTO` = the grounding, in any of the
        corpora, if any rows share one, else each row is a unit; `ROWS` or "" = each row is a unit.

    Raises:
      InputError: if a row lacks the field, or has different values in different corpora.
    """
    first = corpora[0]
    if field in (ROWS, ""):
        return Units(np.arange(len(first.ids)))
    if field == AUTO:
        groundings: list[NDArray[np.int64]] = []
        for corpus in corpora:
            hashes = corpus.hashes.get("grounding")
            if hashes is None or any(np.array_equal(hashes, other) for other in groundings):
                continue
            groundings.append(hashes)
        # Systems that retrieve their own groundings may have other groups. A difference depends on
        # the groundings of both systems, whichever is named first.
        joint = _link_rows(groundings, len(first.ids))
        units = group_rows(joint.tolist(), "grounding")
        several = groundings if len(groundings) > 1 else []
        is_joint = any((_link_rows([one], len(joint)) != joint).any() for one in several)
        return units._replace(is_joint=is_joint)
    values = _list_field_values(first, field)
    for corpus in corpora[1:]:
        # A paired test leaves a unit out of both systems at once, so both need the same units.
        for row, value, differing in zip(
            first.ids, values, _list_field_values(corpus, field), strict=True
        ):
            if value != differing:
                is_shown = isinstance(value, str)
                values_note = f" ({value!r} and {differing!r})" if is_shown else ""
                raise InputError(
                    f"--cluster-field={field}: row {row!r} has another {field} in {corpus.name} "
                    f"than in {first.name}{values_note}; rows that are compared must be of "
                    "the same unit."
                )
    return group_rows(values, field)


def _link_rows(columns: Sequence[NDArray[np.int64]], size: int) -> NDArray[np.intp]:
    """Returns each row's unit [rows]: linked are rows with a common value in any columns.

    A value links rows in one or several columns [rows]; 0 links none.
    """
    parents = list(range(size))

    def root(row: int) -> int:
        while parents[row] != row:
            parents[row] = row = parents[parents[row]]  # halves the path for the next search
        return row

    first_rows: dict[int, int] = {}
    for values in columns:
        for row, value in enumerate(values.tolist()):
            if value:
                parents[root(row)] = root(first_rows.setdefault(value, row))
    return cluster_numbers(size, [root(row) for row in range(size)])


def _list_field_values(corpus: Corpus, field: str) -> Sequence[Hashable]:
    """Returns the value of a field for each row: a text, or a text's hash."""
    # A field of the rows takes precedence over a built-in field of the same name.
    if any(field in fields for fields in corpus.fields):
        values = corpus.field(field)
    elif field == "id":
        return corpus.ids
    elif field == "corpus":
        # All rows of a corpus are one unit.
        return [""] * len(corpus.ids)
    elif field in corpus.hashes:
        values = corpus.hashes[field].tolist()
    else:
        remedy = f" --cluster-field can also be {', '.join(_OWN_FIELDS)}, or none."
        values = corpus.field(field, remedy)
    # 0 is the hash of a missing text.
    blank = [row for row, value in zip(corpus.ids, values, strict=True) if value in (0, "")]
    if blank:
        raise InputError(
            f"--cluster-field={field}: {corpus.name}: row {blank[0]!r} has no {field}, like "
            f"{len(blank):,} of {pluralize(len(values), 'row')}; give each a value (of its own, if "
            "it depends on no other), name another field, or --cluster-field=none to take rows as "
            "independent."
        )
    return values


def settling_text(estimate: Estimate, comparisons: int, units: Units) -> str:
    """Returns how many rows or units would settle a difference of this size; "" = unknown."""
    # Use the level of Holm's first and strictest step, which applies to the smallest p-value.
    count = estimate.units_to_settle(SIGNIFICANT / max(1, comparisons))
    if not math.isfinite(count) or count <= estimate.units:
        return ""
    size = f"about {count:,}" if count <= _MANY else f"more than {_MANY:,}"
    return f"; a difference of this size needs {size} {units.kind}"
