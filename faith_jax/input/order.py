"""The order in which training reads rows: a function of sizes, weights and a seed alone.

Each member of a mixture is shuffled anew in each of its epochs, by a permutation of its row
numbers. Members take turns in proportion to their weights. Any place of the order can be computed
without earlier ones. When rows are packed, several share a row of a batch; `inference.packing` does
this for rows that are scored.
"""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

_UNITS = 1 << 20  # weights are rounded to multiples of 1 / _UNITS
_AT_ONCE = 4096  # places of the order that packing reads at once


@dataclasses.dataclass(frozen=True)
class Order:
    """An endless order of the rows of one or several members.

    Attributes:
      sizes: rows of each member.
      weights: how often each is read, relative to the others; 0 = never.
      shuffled: whether each is shuffled; the others repeat in their own order.
      seed: of the shuffling.
    """

    sizes: tuple[int, ...]
    weights: tuple[float, ...]
    shuffled: tuple[bool, ...]
    seed: int

    def rows(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the members and their rows at places of the order: int64 [count] each."""
        before, after = self.count_read(places), self.count_read(places + 1)
        members = np.argmax(after > before, axis=0)
        turns = before[members, np.arange(len(places))]
        rows = np.zeros(len(places), np.int64)
        for member, size in enumerate(self.sizes):
            is_member = members == member
            epochs, numbers = np.divmod(turns[is_member], size) if size else (turns[:0], turns[:0])
            if self.shuffled[member]:
                shuffled_numbers = np.zeros_like(numbers)
                for epoch in np.unique(epochs):
                    of_epoch = epochs == epoch
                    shuffled_numbers[of_epoch] = _draw_permutation(
                        size, self.seed, member, int(epoch)
                    )[numbers[of_epoch]]
                numbers = shuffled_numbers
            rows[is_member] = numbers
        return members, rows

    def count_read(self, places: np.ndarray) -> np.ndarray:
        """Returns the numbers of rows of each member before places: int64 [members, count].

        Each member takes its share of the rows that earlier members leave, rounded up, so that a
        count differs from the exact share by less than a row for each member.
        """
        left = places.astype(np.int64)
        units = [round(_UNITS * weight / sum(self.weights)) for weight in self.weights]
        counts = []
        for number, unit in enumerate(units):
            rest = sum(units[number + 1 :])
            for_the_rest = left * rest // (unit + rest) if unit + rest else left
            counts.append(left - for_the_rest)
            left = for_the_rest
        return np.stack(counts)


@functools.lru_cache(maxsize=32)
def _draw_permutation(size: int, seed: int, member: int, epoch: int) -> np.ndarray:
    return np.random.default_rng([seed, member, epoch]).permutation(size)


class Packing:
    """Groups successive places of an order into packed rows, as long as all features fit.

    `lengths` are each member's token counts, int [rows, features]; `limits` are the tokens of each
    feature in a packed row, no fewer than any row has.
    """

    def __init__(self, order: Order, lengths: Sequence[np.ndarray], limits: Sequence[int]):
        self._order, self._lengths, self._limits = order, lengths, np.asarray(limits)
        self._starts = [0]  # the first place of each packed row; the last one is not complete
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
