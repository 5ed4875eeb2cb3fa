"""One label for each response from the marks of its annotators (Chang 2024, section 4.1.1).

A response has an error if more than half of its annotators say so. The items of the error (spans,
missing arguments) are those that at least half of the annotators who say yes name; if there are no
such items, all items that any of them names.
"""

import dataclasses
import enum
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from faith_jax.annotation.marks import ARGUMENTS, SPANS, Marks
from faith_jax.annotation.sheets import (
    AMBIGUOUS_ERRORS,
    ERRORS,
    FULL_ERRORS,
    arguments_by_label,
    query_of,
)
from faith_jax.core.errors import field_error
from faith_jax.core.types import GroundedExample


class Ties(enum.StrEnum):
    """The treatment of a tie: an error to which as many annotators say yes as no."""

    ERROR = "error"
    NO_ERROR = "no-error"
    DROP = "drop"
    REFUSE = "refuse"


class Slice(enum.StrEnum):
    """The test slice that a response belongs to (Chang 2024, section 4.3)."""

    ERROR_FREE = "error_free"
    FULL_ORGANIC = "full_organic"
    AMBIGUOUS_ORGANIC = "ambiguous_organic"


@dataclasses.dataclass(frozen=True)
class Label:
    """The joint label of a response by a number of annotators.

    `answers` says for each of `ERRORS` whether the response has it; `named` holds the items of its
    errors, see `Marks`; `ties` are the errors to which as many annotators said yes as no.
    """

    example: GroundedExample
    annotators: int
    answers: Mapping[str, bool]
    named: Mapping[str, tuple[Any, ...]]
    ties: tuple[str, ...] = ()

    @property
    def slice(self) -> Slice:
        """Full organic with a full error; else ambiguous with any other error; else error-free."""
        if any(self.answers[error] for error in FULL_ERRORS):
            return Slice.FULL_ORGANIC
        if any(self.answers[error] for error in AMBIGUOUS_ERRORS):
            return Slice.AMBIGUOUS_ORGANIC
        return Slice.ERROR_FREE


def combine_marks(
    example: GroundedExample, marks: Sequence[Marks], ties: Ties = Ties.ERROR
) -> Label | None:
    """Returns a response's label from its annotators' marks; None if a tie drops it.

    Raises:
      InputError: there is a tie with `Ties.REFUSE`; the message names a row.
    """
    counts = {error: sum(mark.answers[error] for mark in marks) for error in ERRORS}
    tied = tuple(error for error, count in counts.items() if 2 * count == len(marks))
    if tied and ties is Ties.DROP:
        return None
    if tied and ties is Ties.REFUSE:
        raise field_error(
            marks[0].place, tied[0], f"more yes than no for {example.id!r}, or more no than yes",
            f"{counts[tied[0]]} yes of {len(marks)}",
            "settle it with the annotators, or choose another --ties",
        )  # fmt: skip
    answers = {
        error: (ties is Ties.ERROR) if error in tied else 2 * count > len(marks)
        for error, count in counts.items()
    }
    labels = example.grounding.labels()
    named: dict[str, tuple[Any, ...]] = {}
    for error in (*SPANS, *ARGUMENTS):
        named_by_annotator = [
            mark.named[error] for mark in marks if answers[error] and mark.answers[error]
        ]
        if error in ARGUMENTS:
            named[error] = _choose_shared(named_by_annotator, labels)
            continue
        # For spans, take the runs of characters that annotators share.
        characters = [{i for span in spans for i in range(*span)} for spans in named_by_annotator]
        marked_characters = _choose_shared(characters, sorted(set().union(*characters)))
        inside = set(marked_characters)
        starts = [i for i in marked_characters if i - 1 not in inside]
        ends = [i + 1 for i in marked_characters if i + 1 not in inside]
        named[error] = tuple(zip(starts, ends, strict=True))
    return Label(example, len(marks), answers, named, tied)


def _choose_shared(named: Sequence[Iterable[Any]], order: Iterable[Hashable]) -> tuple[Any, ...]:
    """Chooses the items that at least half of the annotators name, or else those that any names."""
    sets = [set(items) for items in named]
    counts = {item: sum(item in items for items in sets) for item in order}
    majority = tuple(item for item, count in counts.items() if count and 2 * count >= len(sets))
    return majority or tuple(item for item, count in counts.items() if count)


def label_row(
    label: Label, fields: Mapping[str, Any] | None = None, part: Slice = Slice.FULL_ORGANIC
) -> dict[str, Any]:
    """Returns a response with its label and other `fields`, as a row that `faith-jax score` reads.

    `label`, `has_hallucination`, `has_coverage_error`, `hallucinated_spans` and `added_argument`
    are about the errors of the slice `part`. In the ambiguous slice, a partial error counts as its
    kind; repetition and confusion of perspectives, of neither kind in the paper, count as both.
    """
    example, answers, grounding = label.example, label.answers, label.example.grounding
    (hallucination, coverage), either = FULL_ERRORS, False
    if part is Slice.AMBIGUOUS_ORGANIC:
        hallucination, coverage, *others_of_both = AMBIGUOUS_ERRORS
        either = any(answers[error] for error in others_of_both)
    arguments = arguments_by_label(grounding)
    missing = [arguments[name] for name in label.named[coverage]]
    if set(grounding.perspectives) == {"pro", "con"}:
        texts = {f"{side}_arguments": list(grounding.of(side)) for side in ("pro", "con")}
    else:
        texts = {"grounding": list(grounding.texts)}
        if grounding.perspectives:
            texts["perspectives"] = list(grounding.perspectives)
    return {
        "id": example.id,
        **(fields or {}),
        "query": query_of(example),
        **texts,
        "response": example.response,
        "label": {Slice.ERROR_FREE: 1, part: 0}.get(label.slice),
        "slice": str(label.slice),
        "has_hallucination": int(answers[hallucination] or either),
        "has_coverage_error": int(answers[coverage] or either),
        **{error: int(answers[error]) for error in AMBIGUOUS_ERRORS},
        "hallucinated_spans": label.named[hallucination],
        "partial_spans": label.named["partial_hallucination"],
        **{field: label.named[error] for error, field in ARGUMENTS.items()},
        "annotators": label.annotators,
        "ties": label.ties,
        # `--protocol=npov_words` reads the uncovered arguments from this field.
        "added_argument": missing if len(missing) > 1 else "".join(missing),
    }


def slice_rows(
    labels: Iterable[Label], part: Slice, fields: Mapping[str, Mapping[str, Any]] | None = None
) -> Iterator[dict[str, Any]]:
    """Yields the rows of a test slice: error-free responses, and responses with its errors.

    `fields` holds further fields of the rows, by id.
    """
    for label in labels:
        if label.slice in (Slice.ERROR_FREE, part):
            row = label_row(label, (fields or {}).get(label.example.id), part)
            row.pop("corpus", None)  # the slice's file is the corpus
            yield row
