"""Packing of training: which rows of the order share a row of a batch, and the batch of these.

Rows that are scored are packed by `inference.packing`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from faith_jax.inference.batching import FilledLines
from faith_jax.input.order import Order

_AT_ONCE = 4096  # places of the order that are looked at


class Packing:
    """The places of an order that share a packed row: one after the other, while all features fit.

    `lengths` are each member's tokens, int [rows, features]; `limits` are the tokens of each
    feature in a packed row, at least those of any row.
    """

    def __init__(self, order: Order, lengths: Sequence[np.ndarray], limits: Sequence[int]):
        self._order, self._lengths, self._limits = order, lengths, np.asarray(limits)
        self._starts = [0]  # the first place of each packed row, and that behind the last one
        self._filled = np.zeros(len(limits), int)
        self._place = 0

    def places(self, number: int) -> range:
        """Returns the places that share packed row `number`."""
        while len(self._starts) < number + 2:
            members, rows = self._order.rows(np.arange(self._place, self._place + _AT_ONCE))
            token_counts = np.zeros((_AT_ONCE, len(self._limits)), int)
            for member, lengths in enumerate(self._lengths):
                token_counts[members == member] = lengths[rows[members == member]]
            for place, length in enumerate(token_counts, self._place):
                if place > self._starts[-1] and (self._filled + length > self._limits).any():
                    self._starts.append(place)
                    self._filled = np.zeros_like(self._filled)
                self._filled = self._filled + length
            self._place += _AT_ONCE
        return range(self._starts[number], self._starts[number + 1])


def packed_features(
    rows: Sequence[Sequence[Mapping[str, Any]]], lengths: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Returns a batch of packed rows of a T5: several examples each, with segment ids.

    Returns:
      Those of `layout.batch_features`, and `encoder_segment_ids` and `decoder_segment_ids`: 1 for
      the tokens of the first example, 2 for the second, 0 for padding.
    """
    inputs, targets = (FilledLines(len(rows), lengths[name], 0) for name in ("inputs", "targets"))
    decoder_inputs = np.zeros_like(targets.tokens)
    for line, examples in enumerate(rows):
        for number, row in enumerate(examples, 1):
            inputs.append(line, row["inputs"], number)
            span = targets.append(line, row["targets"], number)
            decoder_inputs[line, span] = [0, *row["targets"][:-1]]
    return {
        "encoder_input_tokens": inputs.tokens,
        "encoder_segment_ids": inputs.segments,
        "decoder_input_tokens": decoder_inputs,
        "decoder_target_tokens": targets.tokens,
        "decoder_segment_ids": targets.segments,
        "decoder_loss_weights": (targets.segments > 0).astype(np.int32),
    }
