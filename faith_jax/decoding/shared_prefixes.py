"""Inputs of a decoder-only model that begin alike: what they have in common is read once.

Questions about one document are the usual case, where the document stands in front. A line holds
the common beginning and, behind it, what each input has of its own; each token sees the beginning
and its own part, and has the position that it has in its input. So keys and values are those of
the inputs read one by one, up to rounding.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

# Lines are compiled for shapes of their own, and their keys and values are copied to the rows: a
# few tokens that are read once do not make up for that. Neither this number nor the next one has
# been measured; docs/decoding_speed.md has the gain of 500 tokens in common.
LEAST_SHARED = 32
# Where a row joins that shares less than a group did, the others read the rest of the beginning by
# themselves: at most as many tokens each as the group still reads once.
_LEAST_KEPT = 1 / 2


class _PrefixGroup(NamedTuple):
    """Rows whose first `shared` tokens are the same."""

    rows: list[int]
    shared: int


class SharedInputs(NamedTuple):
    """Rows of input tokens, and the lines that are read in their place.

    Attributes:
      tokens: int32 [rows, length], the inputs, padded on the right.
      line_tokens: int32 [lines, line length], with room for a soft prompt in front.
      segments: int32 [lines, line length]: 1 = the common beginning, 2, 3, … = what a row has of
        its own, 0 = padding. Each token sees segment 1 besides its own.
      positions: int32, in the input that a token is of.
      lines: int32 [rows], the line of each row.
      places: int32 [rows, prompt + length], where its tokens are in this line.
    """

    tokens: Any
    line_tokens: Any
    segments: Any
    positions: Any
    lines: Any
    places: Any


def prefix_groups(inputs: Sequence[Sequence[int]]) -> list[_PrefixGroup]:
    """Returns inputs in groups that begin alike, each input in one.

    A group shares at least `LEAST_SHARED` tokens; with each row that joins, at least `_LEAST_KEPT`
    of what it shared before. An input without a group shares all of its tokens with itself.

    >>> document = list(range(100, 150))
    >>> prefix_groups([[*document, 1, 2], [5, 6], [*document, 3]])
    [_PrefixGroup(rows=[1], shared=2), _PrefixGroup(rows=[0, 2], shared=50)]
    """
    # In the order of their tokens, inputs that begin alike are neighbours.
    ordered = sorted(range(len(inputs)), key=lambda row: (list(inputs[row]), row))
    groups: list[_PrefixGroup] = []
    for row in ordered:
        if groups:
            rows, shared = groups[-1]
            length = min(shared, len(inputs[row]))
            differ = np.asarray(inputs[rows[0]][:length]) != np.asarray(inputs[row][:length])
            # The first place where they differ.
            common = int(differ.argmax()) if differ.any() else length
            # A single input shares its beginning with none yet, and gives up nothing.
            kept = shared * _LEAST_KEPT if len(rows) > 1 else 0
            if common >= max(LEAST_SHARED, kept):
                groups[-1] = _PrefixGroup([*rows, row], common)
                continue
        groups.append(_PrefixGroup([row], len(inputs[row])))
    return groups


def tokens_saved(groups: Sequence[_PrefixGroup]) -> int:
    """Returns how many tokens fewer are read where each group's beginning is read once."""
    return sum(group.shared * (len(group.rows) - 1) for group in groups)


def line_length(inputs: Sequence[Sequence[int]], group: _PrefixGroup) -> int:
    """Returns the tokens of a group's line: its beginning, and what each row has of its own."""
    return group.shared + sum(len(inputs[row]) - group.shared for row in group.rows)


def shared_inputs(
    inputs: Sequence[Sequence[int]],
    groups: Sequence[_PrefixGroup],
    tokens: np.ndarray,
    lines: int,
    length: int,
    prompt: int = 0,
) -> SharedInputs:
    """Returns the lines of inputs.

    Args:
      inputs: of the rows.
      groups: of these rows.
      tokens: int32 [rows, length], the inputs, padded; rows behind them only fill up.
      lines: how many, at least that of the groups.
      length: of a line, at least `prompt` and `line_length` of every group.
      prompt: tokens of a soft prompt in front of each input.
    """
    shape = (lines, length)
    line_tokens, segments, positions = (np.zeros(shape, np.int32) for _ in range(3))
    line_of = np.zeros(len(tokens), np.int32)
    places = np.zeros((len(tokens), prompt + tokens.shape[1]), np.int32)
    for line, (rows, shared) in enumerate(groups):
        begin = end = prompt + shared
        # The beginning is that of any row of the group.
        line_tokens[line, prompt:begin] = inputs[rows[0]][:shared]
        segments[line, :begin] = 1
        positions[line, :begin] = np.arange(begin)
        for segment, row in enumerate(rows, start=2):
            remainder = inputs[row][shared:]
            at, end = end, end + len(remainder)
            line_tokens[line, at:end], segments[line, at:end] = remainder, segment
            positions[line, at:end] = begin + np.arange(len(remainder))
            line_of[row] = line
            # The beginning, with the soft prompt, and the row's own part behind it.
            places[row, : begin + len(remainder)] = [*range(begin), *range(at, end)]
    return SharedInputs(tokens, line_tokens, segments, positions, line_of, places)
