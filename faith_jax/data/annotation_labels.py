"""One label for each response from the marks of its annotators (Chang 2024, section 4.1.1).

A response has an error where more than half of its annotators say so. What makes up an error that
it has (spans, missing arguments) is what at least half of the annotators who say yes name; where
they agree on nothing, all that any of them names.
"""

import dataclasses
import enum
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from faith_jax.data.annotation_marks import Marks
from faith_jax.data.annotation_sheets import (
    AMBIGUOUS_ERRORS,
    ERRORS,
    FULL_ERRORS,
    PLAIN_SIDE,
    AnnotationItem,
)
from faith_jax.data.fields import field_error


class Ties(enum.StrEnum):
    """What a mark is of which as many annotators say yes as no."""

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
    """What the annotators of a response say together.

    Attributes:
      item: the response.
      annotators: how many there are.
      answers: for each of `ERRORS` whether the response has it.
      ties: the errors of which half said yes and half no.
      unsupported_spans: of the hallucination, if there is one; see `Marks`, as for what follows.
      partial_spans: of the partial hallucination.
      missing_arguments: of the coverage error.
      partly_missing_arguments: of the partial coverage error.
    """

    item: AnnotationItem
    annotators: int
    answers: Mapping[str, bool]
    ties: tuple[str, ...] = ()
    unsupported_spans: tuple[tuple[int, int], ...] = ()
    partial_spans: tuple[tuple[int, int], ...] = ()
    missing_arguments: tuple[str, ...] = ()
    partly_missing_arguments: tuple[str, ...] = ()

    @property
    def slice(self) -> Slice:
        """Full organic with any full error; else ambiguous with any other; else error-free."""
        if any(self.answers[error] for error in FULL_ERRORS):
            return Slice.FULL_ORGANIC
        if any(self.answers[error] for error in AMBIGUOUS_ERRORS):
            return Slice.AMBIGUOUS_ORGANIC
        return Slice.ERROR_FREE

    @property
    def faithful(self) -> int | None:
        """1 = without any error, 0 = with a full one, None = with ambiguous ones only."""
        return {Slice.ERROR_FREE: 1, Slice.FULL_ORGANIC: 0}.get(self.slice)


def combined(item: AnnotationItem, marks: Sequence[Marks], ties: Ties = Ties.ERROR) -> Label | None:
    """Returns the label of a response; None where a tie drops it.

    Args:
      item: the response.
      marks: of its annotators, at least one.
      ties: what a mark is that as many affirm as deny.

    Raises:
      InputError: for a tie that is refused, naming a row.
    """
    counts = {error: sum(one.answers[error] for one in marks) for error in ERRORS}
    tied = tuple(error for error, count in counts.items() if 2 * count == len(marks))
    if tied and ties is Ties.DROP:
        return None
    if tied and ties is Ties.REFUSE:
        raise field_error(
            marks[0].place, tied[0], f"more yes than no for {item.id!r}, or more no than yes",
            f"{counts[tied[0]]} yes of {len(marks)}",
            "settle it with the annotators, or choose another --ties",
        )  # fmt: skip
    answers = {
        error: (ties is Ties.ERROR) if error in tied else 2 * count > len(marks)
        for error, count in counts.items()
    }

    def named(error: str, field: str) -> list[tuple[Any, ...]]:
        yes = (one for one in marks if one.answers[error])
        return [getattr(one, field) for one in yes] if answers[error] else []

    return Label(
        item,
        len(marks),
        answers,
        tied,
        _shared_spans(named("hallucination", "unsupported_spans")),
        _shared_spans(named("partial_hallucination", "partial_spans")),
        _shared(named("coverage", "missing_arguments"), item.labels),
        _shared(named("partial_coverage", "partly_missing_arguments"), item.labels),
    )


def _shared(named: Sequence[Iterable[Any]], order: Iterable[Hashable]) -> tuple[Any, ...]:
    """Returns what at least half of the annotators name, or, where there is none, what any does."""
    sets = [set(one) for one in named]
    counts = {thing: sum(thing in one for one in sets) for thing in order}
    most = tuple(thing for thing, count in counts.items() if count and 2 * count >= len(sets))
    return most or tuple(thing for thing, count in counts.items() if count)


def _shared_spans(named: Sequence[Sequence[tuple[int, int]]]) -> tuple[tuple[int, int], ...]:
    """Returns the runs of characters that annotators share; see `_shared`."""
    characters = [{i for span in spans for i in range(*span)} for spans in named]
    chosen = _shared(characters, sorted(set().union(*characters)))
    inside = set(chosen)
    starts = [i for i in chosen if i - 1 not in inside]
    ends = [i + 1 for i in chosen if i + 1 not in inside]
    return tuple(zip(starts, ends, strict=True))


def marks_row(marks: Marks) -> dict[str, Any]:
    """Returns what one annotator says, as a row of JSON lines."""
    return {
        "id": marks.id,
        "annotator": marks.annotator,
        **marks.answers,
        "unsupported_spans": [list(span) for span in marks.unsupported_spans],
        "partial_spans": [list(span) for span in marks.partial_spans],
        "missing_arguments": list(marks.missing_arguments),
        "partly_missing_arguments": list(marks.partly_missing_arguments),
        "note": marks.note,
        "place": marks.place,
    }


def label_row(label: Label, others: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns a response with its label, as a row that `faith-jax score` reads.

    Args:
      label: of the response.
      others: fields that come along.
    """
    item = label.item
    missing = [text for name, text in item.arguments if name in label.missing_arguments]
    row = {
        "id": item.id,
        **(others or {}),
        "query": item.query,
        **_argument_fields(item),
        "response": item.response,
        "label": label.faithful,
        "slice": str(label.slice),
        "has_hallucination": int(label.answers["hallucination"]),
        "has_coverage_error": int(label.answers["coverage"]),
        **{error: int(label.answers[error]) for error in AMBIGUOUS_ERRORS},
        "hallucinated_spans": [list(span) for span in label.unsupported_spans],
        "partial_spans": [list(span) for span in label.partial_spans],
        "missing_arguments": list(label.missing_arguments),
        "partly_missing_arguments": list(label.partly_missing_arguments),
        "annotators": label.annotators,
        "ties": list(label.ties),
    }
    return row | _added_argument(missing)


def _added_argument(missing: Sequence[str]) -> dict[str, Any]:
    """Returns the field by which `--protocol=npov_words` knows uncovered arguments."""
    return {"added_argument": list(missing) if len(missing) > 1 else "".join(missing)}


def _argument_fields(item: AnnotationItem) -> dict[str, Any]:
    sides = item.sides()
    if set(sides) == {"pro", "con"}:
        return {"pro_arguments": sides["pro"], "con_arguments": sides["con"]}
    texts = {"grounding": [text for _, text in item.arguments]}
    if list(sides) == [PLAIN_SIDE]:
        return texts
    return texts | {"perspectives": [name.rpartition(" ")[0] for name in item.labels]}


def slice_rows(
    labels: Iterable[Label], part: Slice, others: Mapping[str, Mapping[str, Any]] | None = None
) -> Iterator[dict[str, Any]]:
    """Yields the rows of a test slice: error-free responses, and those with its errors.

    In the ambiguous slice a partial error counts as its own kind, and repetition and confusion of
    perspectives, which the paper gives to neither, as both.

    Args:
      labels: of all responses.
      part: full or ambiguous organic errors.
      others: by id, fields that come along.
    """
    for label in labels:
        if label.slice not in (Slice.ERROR_FREE, part):
            continue
        row = label_row(label, (others or {}).get(label.item.id))
        row.pop("corpus", None)  # the slice's file is the corpus
        if part is Slice.AMBIGUOUS_ORGANIC:
            row = _ambiguous_row(row, label)
        yield row


def _ambiguous_row(row: Mapping[str, Any], label: Label) -> dict[str, Any]:
    answers = label.answers
    either = answers["repetition"] or answers["perspective_confusion"]
    partly = label.partly_missing_arguments
    texts = [text for name, text in label.item.arguments if name in partly]
    kept = {name: value for name, value in row.items() if name != "added_argument"}
    return kept | {
        "label": int(label.slice is Slice.ERROR_FREE),
        "has_hallucination": int(answers["partial_hallucination"] or either),
        "has_coverage_error": int(answers["partial_coverage"] or either),
        "hallucinated_spans": [list(span) for span in label.partial_spans],
        **_added_argument(texts),
    }
