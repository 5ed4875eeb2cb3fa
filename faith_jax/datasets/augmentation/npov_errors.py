"""Synthetic errors for NPOV error classifiers, and sets of them (Chang 2024, 4.2 and 5.2).

The response stays as it is; the arguments that it is said to retell are changed:

- a hallucination error: one given argument is removed, so the response tells one too many;
- a coverage error: one unused argument of the topic is added, so the response leaves one out;
- both: first the one, then the other, of different arguments.

Each error-free response stands in a set with its own arguments and with each error, or with some of
them, so that there are as many to an error-free one as in the paper. In paraphrased rows all
arguments are paraphrased, those removed or added too; the response stays.
"""

import dataclasses
import enum
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from faith_jax.core.errors import InputError, counted
from faith_jax.datasets.augmentation.draws import draw
from faith_jax.datasets.npov.topics import Topic

PARAPHRASED = "paraphrased"
# (response, removed argument, other texts) -> where the response retells the removed argument
SpanRule = Callable[[str, str, Sequence[str]], Sequence[tuple[int, int]]]

# Section 4.2: 667 rows with a hallucination, a coverage error or both, made of 312 without one.
PUBLISHED_ERRORS, PUBLISHED_ERROR_FREE = 667, 312
# What each training set of section 5.2 has; each has all that those before it have.
TRAINING_SETS = ("synth", "para", "dev", "org")
PRO, CON = "pro", "con"


class ErrorKind(enum.StrEnum):
    """Which synthetic error an example has."""

    NONE = "none"
    HALLUCINATION = "hallucination"
    COVERAGE = "coverage"
    BOTH = "both"


@dataclasses.dataclass(frozen=True)
class NpovErrorExample:
    """A response with arguments that it may not match.

    Attributes:
      id: the error-free example's id; with an error, `<id>-<kind>`.
      topic: the topic's id.
      query: the leading question.
      pro_arguments: the arguments that the response is judged by, as are `con_arguments`.
      con_arguments: see above.
      response: unchanged.
      kind: the error.
      removed_argument: the argument that the response tells without being given it, or "".
      added_argument: the argument that the response does not tell, or "".
    """

    id: str
    topic: str
    query: str
    pro_arguments: tuple[str, ...]
    con_arguments: tuple[str, ...]
    response: str
    kind: ErrorKind = ErrorKind.NONE
    removed_argument: str = ""
    added_argument: str = ""

    @property
    def has_hallucination(self) -> bool:
        """Whether the response tells what it was not given."""
        return self.kind in (ErrorKind.HALLUCINATION, ErrorKind.BOTH)

    @property
    def has_coverage_error(self) -> bool:
        """Whether the response leaves a given argument out."""
        return self.kind in (ErrorKind.COVERAGE, ErrorKind.BOTH)


def with_hallucination(example: NpovErrorExample, seed: int = 0) -> NpovErrorExample | None:
    """Removes one given argument; None where that would leave none at all.

    Args:
      example: error-free, or with a coverage error; an added argument is not the one removed.
      seed: another seed removes another argument.
    """
    places = [
        (side, i)
        for side, arguments in _sides(example)
        for i, argument in enumerate(arguments)
        if argument != example.added_argument
    ]
    if len(places) < 2:
        return None
    side, position = places[draw(len(places), seed, example.id, "remove")]
    arguments = list(dict(_sides(example))[side])
    removed = arguments.pop(position)
    kind = ErrorKind.BOTH if example.has_coverage_error else ErrorKind.HALLUCINATION
    return _changed(example, side, arguments, kind, removed_argument=removed)


def with_coverage_error(
    example: NpovErrorExample,
    pro_unused: Sequence[str],
    con_unused: Sequence[str],
    seed: int = 0,
) -> NpovErrorExample | None:
    """Adds one unused argument of the topic at a drawn place; None where there is none.

    Args:
      example: error-free, or with a hallucination error.
      pro_unused: the topic's pro arguments that the response does not tell.
      con_unused: its con arguments likewise.
      seed: another seed adds another argument, elsewhere.
    """
    unused = [(PRO, text) for text in pro_unused] + [(CON, text) for text in con_unused]
    unused = [(side, text) for side, text in unused if text != example.removed_argument]
    if not unused:
        return None
    side, added = unused[draw(len(unused), seed, example.id, "add")]
    arguments = list(dict(_sides(example))[side])
    arguments.insert(draw(len(arguments) + 1, seed, example.id, "place"), added)
    kind = ErrorKind.BOTH if example.has_hallucination else ErrorKind.COVERAGE
    return _changed(example, side, arguments, kind, added_argument=added)


def synthetic_errors(
    example: NpovErrorExample,
    pro_unused: Sequence[str],
    con_unused: Sequence[str],
    kinds: Iterable[ErrorKind] = tuple(ErrorKind),
    seed: int = 0,
) -> Iterator[NpovErrorExample]:
    """Yields an error-free example with each kind of error that it can have.

    Args:
      example: error-free.
      pro_unused: see `with_coverage_error`.
      con_unused: see `with_coverage_error`.
      kinds: which to yield, in this order; `ErrorKind.NONE` is the example itself.
      seed: of all draws.
    """
    for kind in kinds:
        changed: NpovErrorExample | None = example
        if kind in (ErrorKind.HALLUCINATION, ErrorKind.BOTH):
            changed = with_hallucination(example, seed)
        if changed is not None and kind in (ErrorKind.COVERAGE, ErrorKind.BOTH):
            changed = with_coverage_error(changed, pro_unused, con_unused, seed)
        if changed is not None:
            suffix = "" if kind is ErrorKind.NONE else f"-{kind}"
            yield dataclasses.replace(changed, id=f"{example.id}{suffix}")


def _sides(example: NpovErrorExample) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return (PRO, example.pro_arguments), (CON, example.con_arguments)


def _changed(
    example: NpovErrorExample, side: str, arguments: Sequence[str], kind: ErrorKind, **fields: str
) -> NpovErrorExample:
    sides = dict(_sides(example)) | {side: tuple(arguments)}
    return dataclasses.replace(
        example, pro_arguments=sides[PRO], con_arguments=sides[CON], kind=kind, **fields
    )


def error_free_example(row: Mapping[str, Any]) -> NpovErrorExample:
    """Returns the row of an error-free response as an example."""
    return NpovErrorExample(
        id=row["id"],
        topic=row["topic"],
        query=row["query"],
        pro_arguments=tuple(row["pro_arguments"]),
        con_arguments=tuple(row["con_arguments"]),
        response=row["response"],
    )


def synthetic_rows(
    row: Mapping[str, Any], topic: Topic, spans: SpanRule | None = None, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """Yields a response's unparaphrased rows: without an error, and with each it can have.

    Args:
      row: of an error-free response.
      topic: the response's.
      spans: says where a hallucination is; None = that is not asked.
      seed: of the draws.
    """
    pro, con = (unused_arguments(row, topic, side) for side in ("pro", "con"))
    for example in synthetic_errors(error_free_example(row), pro, con, seed=seed):
        yield set_row(example, hallucinated_spans(example, spans) if spans else ())


def with_errors_per_response(
    rows: Sequence[Mapping[str, Any]], errors: float, what: str, seed: int = 0
) -> list[Mapping[str, Any]]:
    """Returns all error-free rows, and as many of those with an error as asked for, in their order.

    Which these are is drawn by their ids, without the mark of paraphrased rows: these are drawn as
    they were before.

    Args:
      rows: from `synthetic_rows` or `paraphrased_row`.
      errors: rows with an error to each error-free one, rounded to a whole number over all.
      what: of the rows, for the error.
      seed: of the draw.

    Raises:
      InputError: where too few rows have an error.
    """
    wrong = [row for row in rows if row["error"] != "none"]
    free = len(rows) - len(wrong)
    wanted = round(errors * free)
    if len(wrong) < wanted:
        raise InputError(
            f"{what}: {errors:.4g} rows with an error to each of "
            f"{counted(free, 'error-free row')} make {wanted:,}, but only {len(wrong):,} can be "
            f"made ({len(wrong) / free:.4g} to each)"
        )

    def rank(row: Mapping[str, Any]) -> bytes:
        name = row["id"].removesuffix(f"-{PARAPHRASED}")
        return hashlib.sha256(f"{seed}\n{name}\nkept".encode()).digest()

    kept = {row["id"] for row in sorted(wrong, key=rank)[:wanted]}
    return [row for row in rows if row["error"] == "none" or row["id"] in kept]


def unused_arguments(row: Mapping[str, Any], topic: Topic, side: str) -> list[str]:
    """Returns the arguments of one side of a topic that a response was not given."""
    given = row[f"{side}_arguments"]
    return [argument.text for argument in getattr(topic, side) if argument.text not in given]


def hallucinated_spans(example: NpovErrorExample, spans: SpanRule) -> list[tuple[int, int]]:
    """Returns where an example's response retells the removed argument; none without one."""
    if not example.removed_argument:
        return []
    given = (*example.pro_arguments, *example.con_arguments)
    others = [text for text in given if text != example.added_argument]
    return list(spans(example.response, example.removed_argument, (example.query, *others)))


def set_row(example: NpovErrorExample, spans: Iterable[tuple[int, int]] = ()) -> dict[str, Any]:
    """Returns an example as a row of a set."""
    return {
        "id": example.id,
        "topic": example.topic,
        "query": example.query,
        "pro_arguments": list(example.pro_arguments),
        "con_arguments": list(example.con_arguments),
        "response": example.response,
        "has_hallucination": int(example.has_hallucination),
        "has_coverage_error": int(example.has_coverage_error),
        "error": example.kind.value,
        "removed_argument": example.removed_argument,
        "added_argument": example.added_argument,
        "paraphrased": 0,
        "hallucinated_spans": [list(span) for span in spans],
    }


def paraphrases(topics: Iterable[Topic]) -> dict[tuple[str, str], str]:
    """Returns the first paraphrase of each argument that has one, by topic and text."""
    return {
        (topic.id, argument.text): argument.paraphrases[0]
        for topic in topics
        for argument in (*topic.pro, *topic.con)
        if argument.paraphrases
    }


def paraphrased_row(
    row: Mapping[str, Any], written: Mapping[tuple[str, str], str]
) -> dict[str, Any] | None:
    """Returns a row with every argument paraphrased; None where one has no paraphrase.

    Args:
      row: from `synthetic_rows`.
      written: from `paraphrases`.
    """
    topic = row["topic"]

    def other(text: str) -> str | None:
        return written.get((topic, text)) if text else ""

    sides = {
        side: [other(text) for text in row[side]] for side in ("pro_arguments", "con_arguments")
    }
    single = {name: other(row[name]) for name in ("removed_argument", "added_argument")}
    if None in (*sides["pro_arguments"], *sides["con_arguments"], *single.values()):
        return None
    return {**row, **sides, **single, "id": f"{row['id']}-{PARAPHRASED}", "paraphrased": 1}


@dataclasses.dataclass(frozen=True)
class SplitSets:
    """The rows of one split.

    Attributes:
      plain: unparaphrased, with synthetic errors and without.
      paraphrased: the same with paraphrased arguments.
      organic: with full errors that annotators found; None = there are no marks.
    """

    plain: Sequence[Mapping[str, Any]] = ()
    paraphrased: Sequence[Mapping[str, Any]] = ()
    organic: Sequence[Mapping[str, Any]] | None = None


def training_sets(
    train: SplitSets, validation: SplitSets
) -> dict[str, list[Mapping[str, Any]] | None]:
    """Returns the nested training sets of section 5.2 by name; None where marks are missing.

    Args:
      train: of the training topics.
      validation: of the development topics.
    """
    synth = list(train.plain)
    para = [*synth, *train.paraphrased]
    dev = [*para, *validation.plain, *validation.paraphrased]
    organic = None
    if train.organic is not None and validation.organic is not None:
        organic = [*dev, *train.organic, *validation.organic]
    return {"synth": synth, "para": para, "dev": dev, "org": organic}
