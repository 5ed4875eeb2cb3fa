"""Synthetic errors of NPOV responses (Chang 2024, section 4.2).

The response does not change, but the arguments by which it is judged do:

- hallucination: a given argument is removed, so the response tells one too many;
- coverage error: an unused argument of the topic is added, so the response leaves one out;
- both: a given argument is removed, and a different one is added.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from faith_jax.core.types import SIDE_FIELDS, SIDES
from faith_jax.datasets.augmentation.draws import draw
from faith_jax.datasets.npov.topics import Topic

# (response, removed argument, other texts) -> spans where the response retells the removed argument
SpanRule = Callable[[str, str, Sequence[str]], Sequence[tuple[int, int]]]


Row = Mapping[str, Any]


def synthetic_rows(
    row: Row, topic: Topic, spans: SpanRule | None = None, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """Yields a row unchanged, and once with each kind of synthetic error that is possible.

    The row has `id`, `topic`, `query`, `response`, `pro_arguments` and `con_arguments`, and its
    response has no error. `spans` finds the hallucinated spans, which are empty without it.
    """
    error_free = {
        name: row[name] for name in ("id", "topic", "query", *SIDE_FIELDS, "response")
    } | {
        "has_hallucination": 0,
        "has_coverage_error": 0,
        "error": "none",
        "removed_argument": "",
        "added_argument": "",
        "paraphrased": 0,
        "hallucinated_spans": [],
    }
    unused = {f"{side}_arguments": unused_arguments(row, topic, side) for side in SIDES}
    removed = with_hallucination(error_free, seed)
    yield error_free
    for kind, erroneous in (
        ("hallucination", removed),
        ("coverage", with_coverage_error(error_free, unused, seed)),
        ("both", removed and with_coverage_error(removed, unused, seed)),
    ):
        if erroneous:
            positions = hallucinated_spans(erroneous, spans) if spans else []
            yield erroneous | {
                "id": f"{row['id']}-{kind}",
                "error": kind,
                "hallucinated_spans": positions,
            }


def with_hallucination(row: Row, seed: int = 0) -> dict[str, Any] | None:
    """Removes a given argument, but not an added one; returns None if only one is left."""
    places = [
        (side, place)
        for side in SIDE_FIELDS
        for place, argument in enumerate(row[side])
        if argument != row["added_argument"]
    ]
    if len(places) < 2:
        return None
    side, place = places[draw(len(places), seed, row["id"], "remove")]
    arguments = list(row[side])
    removed = arguments.pop(place)
    return {**row, side: arguments, "removed_argument": removed, "has_hallucination": 1}


def with_coverage_error(
    row: Row, unused: Mapping[str, Sequence[str]], seed: int = 0
) -> dict[str, Any] | None:
    """Adds an unused argument, but not the removed one, at a drawn place; None if there is none.

    `unused` has the topic's arguments that the response was not given, by `SIDE_FIELDS`.
    """
    choices = [
        (side, text)
        for side in SIDE_FIELDS
        for text in unused[side]
        if text != row["removed_argument"]
    ]
    if not choices:
        return None
    side, added = choices[draw(len(choices), seed, row["id"], "add")]
    arguments = list(row[side])
    arguments.insert(draw(len(arguments) + 1, seed, row["id"], "place"), added)
    return {**row, side: arguments, "added_argument": added, "has_coverage_error": 1}


def unused_arguments(row: Row, topic: Topic, side: str) -> list[str]:
    """Returns the arguments of one side ("pro" or "con") that a response was not given."""
    used_texts = row[f"{side}_arguments"]
    return [argument.text for argument in getattr(topic, side) if argument.text not in used_texts]


def hallucinated_spans(row: Row, spans: SpanRule) -> list[list[int]]:
    """Returns the spans that retell the removed argument; empty if no argument was removed."""
    if not row["removed_argument"]:
        return []
    remaining_arguments = [
        text for side in SIDE_FIELDS for text in row[side] if text != row["added_argument"]
    ]
    positions = spans(
        row["response"], row["removed_argument"], (row["query"], *remaining_arguments)
    )
    return [list(position) for position in positions]
