"""Inputs of a decoder-only model with a common beginning, which is read only once.

The usual case is several questions about the same document, if the document comes first. A line
has the common beginning, followed by the remaining tokens of each input. Each token sees the
beginning and its own input's tokens, and has the same position as in its input. Keys and values are
therefore the same as if inputs were read one by one, up to rounding.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

# Lines are compiled for separate shapes, and their keys and values are copied to the rows; reading
# a few tokens only once does not outweigh this cost. Neither this number nor the next one has been
# measured; docs/decoding_speed.md has the gain for 500 common tokens.
LEAST_SHARED = 32
# If a row that shares fewer tokens joins a group, the other rows must each read the rest of their
# common beginning. With 1/2, this is at most as many tokens as the group still shares.
_LEAST_KEPT = 1 / 2


class _PrefixGroup(NamedTuple):
    """Rows whose first `shared` tokens are the same."""

    rows: list[int]
    shared: int


class SharedInputs(NamedTuple):
    """Rows of input tokens, and the lines that are read instead of the rows.

    Attributes:
      tokens: int32 [rows, length], the inputs, padded on the right.
      line_tokens: int32 [lines, line length], with room for a soft prompt at the beginning.
      segments: int32 [lines, line length]: 1 = the common beginning, 2, 3, … = the remaining tokens
        of a row, 0 = padding. Each token sees segment 1 and its own segment.
      positions: int32 [lines, line length], each token's position in its own input.
      lines: int32 [rows], the line of each row.
      places: int32 [rows, prompt + length], the index of each of a row's tokens in its line.
    """

    tokens: Any
    line_tokens: Any
    segments: Any
    positions: Any
    lines: Any
    places: Any


def prefix_groups(inputs: Sequence[Sequence[int]]) -> list[_PrefixGroup]:
    """Divides inputs into groups with a common beginning.

    A group shares at least `LEAST_SHARED` tokens, and keeps at least the share `_LEAST_KEPT` of
    them with each row that joins. An input without a common beginning is a group of its own.

    >>> document = list(range(100, 150))
    >>> prefix_groups([[*document, 1, 2], [5, 6], [*document, 3]])
    [_PrefixGroup(rows=[1], shared=2), _PrefixGroup(rows=[0, 2], shared=50)]
    """
    # Sorted by their tokens, inputs with a common beginning are neighbours.
    ordered = sorted(range(len(inputs)), key=lambda row: (list(inputs[row]), row))
    groups: list[_PrefixGroup] = []
    for row in ordered:
        if groups:
            rows, shared = groups[-1]
            length = min(shared, len(inputs[row]))
            differ = np.asarray(inputs[rows[0]][:length]) != np.asarray(inputs[row][:length])
            # The index of the first difference.
            common = int(differ.argmax()) if differ.any() else length
            # A group of one input shares nothing yet, so it loses nothing.
            kept = shared * _LEAST_KEPT if len(rows) > 1 else 0
            if common >= max(LEAST_SHARED, kept):
                groups[-1] = _PrefixGroup([*rows, row], common)
                continue
        groups.append(_PrefixGroup([row], len(inputs[row])))
    return groups


def tokens_saved(groups: Sequence[_PrefixGroup]) -> int:
    """Returns how many fewer tokens are read if each group's beginning is read only once."""
    return sum(group.shared * (len(group.rows) - 1) for group in groups)


def line_length(inputs: Sequence[Sequence[int]], group: _PrefixGroup) -> int:
    """Returns the number of tokens in a group's line: the beginning, and each row's own tokens."""
    return group.shared + sum(len(inputs[row]) - group.shared for row in group.rows)


def shared_inputs(
    inputs: Sequence[Sequence[int]],
    groups: Sequence[_PrefixGroup],
    tokens: np.ndarray,
    lines: int,
    length: int,
    prompt: int = 0,
) -> SharedInputs:
    """Arranges inputs in lines.

    Args:
      inputs: the tokens of each row.
      groups: the groups of these rows.
      tokens: int32 [rows, length], the inputs, padded; may have additional rows of padding.
      lines: number of lines, at least the number of groups.
      length: length of a line, at least `prompt` + `line_length` of every group.
      prompt: length of a soft prompt before each input.
    """
    shape = (lines, length)
    line_tokens, segments, positions = (np.zeros(shape, np.int32) for _ in range(3))
    line_of = np.zeros(len(tokens), np.int32)
    places = np.zeros((len(tokens), prompt + tokens.shape[1]), np.int32)
    for line, (rows, shared) in enumerate(groups):
        begin = end = prompt + shared
        # All rows of the group have the same beginning.
        line_tokens[line, prompt:begin] = inputs[rows[0]][:shared]
        segments[line, :begin] = 1
        positions[line, :begin] = np.arange(begin)
        for segment, row in enumerate(rows, start=2):
            remainder = inputs[row][shared:]
            at, end = end, end + len(remainder)
            line_tokens[line, at:end], segments[line, at:end] = remainder, segment
            positions[line, at:end] = begin + np.arange(len(remainder))
            line_of[row] = line
            # The beginning, including the soft prompt, followed by the row's own tokens.
            places[row, : begin + len(remainder)] = [*range(begin), *range(at, end)]
    return SharedInputs(tokens, line_tokens, segments, positions, line_of, places)
