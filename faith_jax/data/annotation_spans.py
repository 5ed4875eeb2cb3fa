"""Spans of a response and arguments that an annotator names: what may stand in a sheet's cells.

Spans are copied from the response, or given as offsets; several stand on lines of their own or
between bars. Arguments are named by their labels. Either may begin with "full:" or "partial:",
which says what kind of error it is of; without, the row's marks say it.

>>> response = "Tea calms. Tea cures colds. Tea is cheap."
>>> parsed_spans("Tea cures colds. | partial: [31-40]", response, "sheet.csv:2")
[NamedSpan(kind='', start=11, end=27), NamedSpan(kind='partial', start=31, end=40)]
>>> parsed_arguments("pro 2; partial: con 1", ["pro 1", "pro 2", "con 1"], "sheet.csv:2")
[NamedArgument(kind='', label='pro 2'), NamedArgument(kind='partial', label='con 1')]
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from faith_jax.data.annotation_sheets import unguarded
from faith_jax.data.fields import field_error, shown
from faith_jax.errors import InputError

FULL, PARTIAL = "full", "partial"

_KIND = re.compile(rf"({FULL}|{PARTIAL})\s*:\s*(.+)", re.IGNORECASE | re.DOTALL)
_OFFSETS = re.compile(r"(\d{1,9})\s*-\s*(\d{1,9})")
_BRACKETED = re.compile(r"\[\s*(\d{1,9})\s*[-,]\s*(\d{1,9})\s*\]")
_QUOTED = re.compile('["\u201c\u201e\u00ab](.*)["\u201d\u201c\u00bb]', re.DOTALL)
_BETWEEN_SPANS = re.compile(r"[\n|]")
_BETWEEN_ARGUMENTS = re.compile(r"[\n|,;]")
_DATE = re.compile(r"\d{1,2}[./ -]+(?:\d{1,4}|[^\W\d_]{3,4}\.?)|[^\W\d_]{3,4}\.?[ -]\d{1,2}")
_LINE_END = re.compile(r"\r\n?")
_LISTED = 3


class NamedSpan(NamedTuple):
    """A span of the response.

    Attributes:
      kind: "full", "partial", or "" where it is not said.
      start: offset of its first character.
      end: offset behind its last character.
    """

    kind: str
    start: int
    end: int


class NamedArgument(NamedTuple):
    """An argument that the response leaves out.

    Attributes:
      kind: as a span's.
      label: such as "pro 1".
    """

    kind: str
    label: str


def is_empty(cell: Any) -> bool:
    """Returns whether nothing stands in a cell: null, white space, or an empty list."""
    return cell is None or (isinstance(cell, str) and not cell.strip()) or cell in ([], ())


def parsed_spans(cell: Any, response: str, place: str) -> list[NamedSpan]:
    """Returns the spans of a cell, in the response's order and each once.

    Args:
      cell: a text, or in JSON lines a list of texts and [start, end].
      response: what offsets are of.
      place: where the row stands, as `path:line`.

    Raises:
      InputError: for what is not in the response, is there several times, or is outside of it.
    """
    found = {_span(piece, response, place) for piece in _pieces(cell, response, place)}
    return sorted(found, key=lambda span: (span.start, span.end, span.kind))


def _pieces(cell: Any, response: str, place: str) -> list[Any]:
    if isinstance(cell, list):
        return [piece for piece in cell if not is_empty(piece)]
    if is_empty(cell):
        return []
    if not isinstance(cell, str):
        raise _span_error(place, cell, "write it as a text")
    whole = one_line_end(cell).strip()
    if whole in one_line_end(response):  # it may hold what stands between spans
        return [whole]
    return [piece.strip() for piece in _BETWEEN_SPANS.split(whole) if piece.strip()]


def _span(piece: Any, response: str, place: str) -> NamedSpan:
    if isinstance(piece, list) and len(piece) == 2 and all(type(i) is int for i in piece):
        return _offsets("", piece[0], piece[1], response, place)
    if not isinstance(piece, str):
        raise _span_error(place, piece, "write a text, or offsets as [start, end]")
    text = one_line_end(piece).strip()
    kind, text = _kind(text, one_line_end(response))
    if found := _BRACKETED.fullmatch(text):
        return _offsets(kind, int(found[1]), int(found[2]), response, place)
    if found := _OFFSETS.fullmatch(text):
        if text in response:
            raise _span_error(place, piece, f'write [{text}] for offsets, or "{text}" for a text')
        return _offsets(kind, int(found[1]), int(found[2]), response, place)
    return _quoted_text(kind, text, response, place)


def _kind(text: str, response: str = "") -> tuple[str, str]:
    found = _KIND.fullmatch(text)
    if found is None or text in response:
        return "", text
    return found[1].lower(), found[2].strip()


def _offsets(kind: str, start: int, end: int, response: str, place: str) -> NamedSpan:
    if not 0 <= start < end <= len(response):
        raise _span_error(
            place, f"{start}-{end}",
            f"offsets go from 0 to {len(response)}, the first before the second; give the text in "
            "their place if you are not sure",
        )  # fmt: skip
    return NamedSpan(kind, start, end)


def _quoted_text(kind: str, text: str, response: str, place: str) -> NamedSpan:
    """Returns where a text stands that was copied from the response, maybe with quote marks."""
    shown_response = one_line_end(response)
    quoted = _QUOTED.fullmatch(text)
    for wanted in (text, unguarded(text), quoted[1] if quoted else ""):
        starts = _occurrences(wanted, shown_response) if wanted.strip() else []
        if len(starts) > 1:
            places = [f"[{s}-{s + len(wanted)}]" for s in starts[:_LISTED]]
            listed = " or ".join(places) + (" and so on" if len(starts) > _LISTED else "")
            raise field_error(
                place, "unsupported_spans", "a text that the response has once", text,
                f"it is there {len(starts)} times: copy more words, or give its offsets, {listed}",
            )  # fmt: skip
        if starts:
            places_of = line_end_offsets(response)
            start, end = starts[0], starts[0] + len(wanted)
            return NamedSpan(kind, places_of[start], places_of[end])
    raise _span_error(place, text, _remedy(text, shown_response))


def _occurrences(text: str, response: str) -> list[int]:
    return [start for start in range(len(response)) if response.startswith(text, start)]


def _remedy(text: str, response: str) -> str:
    lower = response.lower()
    start = lower.find(text.lower()) if len(lower) == len(response) else -1
    if start >= 0:
        return f"the response has {shown(response[start : start + len(text)])}"
    if _DATE.fullmatch(text):
        return "if a spreadsheet program made a date of offsets, write them in brackets: [12-20]"
    return "copy it from the response, or give its offsets, such as [0-12]"


def _span_error(place: str, got: Any, remedy: str) -> InputError:
    expected = "text of the response, or offsets start-end"
    return field_error(place, "unsupported_spans", expected, got, remedy)


def parsed_arguments(cell: Any, labels: Sequence[str], place: str) -> list[NamedArgument]:
    """Returns the arguments that a cell names, in the labels' order and each once.

    Args:
      cell: a text, such as "pro 2, con 1", or in JSON lines a list of such.
      labels: of all arguments; where they are of one side, the number alone will do.
      place: where the row stands, as `path:line`.

    Raises:
      InputError: for an argument that there is not, or that is named as both kinds.
    """
    pieces: Iterable[Any] = cell if isinstance(cell, list) else [cell]
    names = [
        part.strip()
        for piece in pieces
        if not is_empty(piece)
        for part in (_BETWEEN_ARGUMENTS.split(piece) if isinstance(piece, str) else [str(piece)])
    ]
    found = {_argument(name, labels, place) for name in names if name}
    for argument in found:
        if argument.kind != PARTIAL and argument._replace(kind=PARTIAL) in found:
            raise field_error(
                place, "missing_arguments", "each argument once", cell,
                f"{argument.label} is named with and without 'partial:'; keep one of the two",
            )  # fmt: skip
    return sorted(found, key=lambda argument: (labels.index(argument.label), argument.kind))


def _argument(name: str, labels: Sequence[str], place: str) -> NamedArgument:
    known = {_squeezed(label): label for label in labels}
    if len({label.rpartition(" ")[0] for label in labels}) == 1:
        known |= {label.rpartition(" ")[2]: label for label in labels}
    kind, label = _kind(name)
    if _squeezed(label) not in known:
        raise field_error(
            place, "missing_arguments", f"arguments of this row ({', '.join(labels)})", name,
            "name them by side and number, separated by commas",
        )  # fmt: skip
    return NamedArgument(kind, known[_squeezed(label)])


def _squeezed(label: str) -> str:
    return "".join(label.split()).casefold()


def one_line_end(text: str) -> str:
    r"""Returns a text whose line ends are all "\n", as spreadsheet programs make them."""
    return _LINE_END.sub("\n", text)


def line_end_offsets(text: str) -> list[int]:
    r"""Returns for each offset into `one_line_end(text)`, its end included, that into the text.

    >>> line_end_offsets("a\r\nb")
    [0, 1, 3, 4]
    """
    offsets, place = [], 0
    while place < len(text):
        offsets.append(place)
        place += 2 if text.startswith("\r\n", place) else 1
    return [*offsets, len(text)]


def moved_span(start: int, end: int, text: str, other: str) -> tuple[int, int]:
    r"""Returns a span of a text as a span of one that differs in line ends only.

    >>> moved_span(2, 3, "a\nb", "a\r\nb")
    (3, 4)
    """
    if text == other:
        return start, end
    own, others = line_end_offsets(text), line_end_offsets(other)
    first = max(i for i, offset in enumerate(own) if offset <= start)
    last = min(i for i, offset in enumerate(own) if offset >= end)
    return others[first], others[last]
