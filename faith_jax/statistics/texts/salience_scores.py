"""From a token-to-token salience map to words, contributions, attributions and scores.

A map's rows are what the model has read, its columns the tokens of the response. All scores here
are shares: higher = more faithful. Chang 2024's error scores are 1 less them.

Reference: Chang 2024, section 3.2 and appendix C.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from faith_jax.core.errors import ConfigError

AGGREGATIONS = ("max", "sum", "negative_entropy")
MEANS = ("geometric", "arithmetic")

Floats = NDArray[np.float64]


class PlacedWord(NamedTuple):
    """A content word of an example and the offsets of its characters.

    It stands in the grounding's text of this number and perspective; None = in the response.
    """

    text: str
    start: int
    end: int
    number: int | None = None
    perspective: str = ""


@dataclasses.dataclass(frozen=True)
class WordSalience:
    """The word-to-word map of an example.

    Attributes:
      argument_words: its rows: content words of the grounding.
      response_words: its columns: content words of the response.
      values: float64 [argument words, response words] in [0, 1].
      cut: tokens that the model did not see, by part; see `faith_jax.core.types.Score`.
    """

    argument_words: tuple[PlacedWord, ...]
    response_words: tuple[PlacedWord, ...]
    values: Floats
    cut: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def cut_tokens(self) -> int:
        """How many tokens the model did not see."""
        return sum(self.cut.values())

    def contributions(self, aggregation: str = "max") -> Floats:
        """Returns how far argument words contribute to the response: alpha [argument words]."""
        # Chang 2024, equation 1: over the row of each argument word.
        return aggregate(self.values, aggregation)

    def attributions(self, aggregation: str = "max") -> Floats:
        """Returns how far the arguments account for each response word: beta [response words]."""
        # Equation 2: over the column of each response word.
        return aggregate(self.values.T, aggregation)

    def attribution_score(self, aggregation: str = "max", mean: str = "geometric") -> float:
        """Returns the mean attribution; 1 less it is the hallucination score.

        NaN where response or grounding has no content words, as below.
        """
        return average(self.attributions(aggregation), mean) if self.values.size else math.nan

    def contribution_score(self, aggregation: str = "max", mean: str = "geometric") -> float:
        """Returns the mean contribution of the perspective with the smallest.

        1 less it is the coverage error score.
        """
        if not self.values.size:
            return math.nan
        values = self.contributions(aggregation)
        sides = np.array([word.perspective for word in self.argument_words])
        # A response that covers one side well and another badly is not balanced: the worst side
        # counts.
        return min(average(values[sides == side], mean) for side in set(sides.tolist()))


def normalize_columns(token_map: NDArray[np.floating]) -> Floats:
    """Returns the squares of a signed map [rows, columns], each column divided by its sum.

    Rows of padding must be left out. Columns of zeros stay zeros.
    """
    # Section 3.2: the map is squared, and each column then sums to 1.
    values = np.abs(np.asarray(token_map, np.float64))
    largest = values.max(axis=0, keepdims=True, initial=0.0)
    # Relative to the largest, so that the squares of tiny gradients do not vanish.
    squares = np.square(np.divide(values, largest, out=np.zeros_like(values), where=largest > 0))
    # The largest square is 1, so that the sum is 1 or more wherever the column is not all zeros.
    return squares / np.maximum(squares.sum(axis=0, keepdims=True), 1.0)


def word_map(
    token_map: NDArray[np.floating],
    row_words: Sequence[Sequence[int]],
    column_words: Sequence[Sequence[int]],
) -> Floats:
    """Returns the largest entry over the pairs of tokens of each pair of words, in [0, 1].

    `token_map` is [rows, columns], normalised. The words are lists of their rows or columns, one or
    more; the map has a row and a column for each.
    """
    if not (row_words and column_words):
        return np.zeros((len(row_words), len(column_words)))
    # The maximum over pairs of tokens is that over rows, then over columns: [row words, columns].
    rows = np.stack([token_map[list(tokens)].max(axis=0) for tokens in row_words])
    return np.stack([rows[:, list(tokens)].max(axis=1) for tokens in column_words], axis=1)


def aggregate(words: NDArray[np.floating], aggregation: str = "max") -> Floats:
    """Returns one share for each row of a map, higher = more surely covered (equations 1 and 2).

    Args:
      words: [rows, columns], from `word_map`.
      aggregation: "max": the largest entry of the row, in [0, 1]. "sum": the row's sum, 0 or more.
        "negative_entropy": exp(-entropy) of the row as a distribution, from 1 / words (evenly
        spread) to 1 (one word), which ranks like -entropy and, being positive, has a geometric
        mean; 0 for a row of zeros.
    """
    words = np.asarray(words, np.float64)
    if not words.shape[1]:
        return np.zeros(words.shape[0])
    if aggregation == "max":
        return words.max(axis=1)
    # The alternatives of appendix C.1.
    sums = words.sum(axis=1)
    if aggregation == "sum":
        return sums
    shares = np.divide(words, sums[:, None], out=np.zeros_like(words), where=sums[:, None] > 0)
    # 0 log 0 = 0, its limit.
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    # exp(-H) is 1 over the perplexity of the row.
    return np.where(sums > 0, np.exp((shares * logs).sum(axis=1)), 0.0)


def average(values: Floats, mean: str = "geometric") -> float:
    """Returns the mean of shares: "geometric" (appendix C) or "arithmetic" (the body text)."""
    if mean == "arithmetic":
        return float(values.mean())
    with np.errstate(divide="ignore"):
        # log 0 = -inf and exp(-inf) = 0: one share of 0 makes the geometric mean 0.
        return float(np.exp(np.log(values).mean()))


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raises a ConfigError where an option is none of its choices."""
    if value not in choices:
        raise ConfigError(f"{name}: expected one of {', '.join(choices)}, got {value!r}.")
