"""Synthetic errors for the NPOV error classifiers (Chang 2024, section 4.2).

The response stays as it is; the arguments that it is said to retell are changed:

- a hallucination error: one given argument is removed, so the response tells one too many;
- a coverage error: one unused argument of the topic is added, so the response leaves one out;
- both: first the one, then the other, of different arguments.
"""

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Sequence

from faith_jax.datasets.augmentation.draws import draw

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
