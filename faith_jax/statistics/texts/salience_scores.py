"""Word maps, contributions, attributions and scores from a token-to-token salience map.

A map's rows are the tokens that the model has read, its columns the tokens of the response. All
scores here are shares: higher = more faithful. Chang 2024's error scores are 1 less these scores.

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
    """A content word of an example, with its character offsets.

    `number` and `perspective` are of the grounding's text that has the word; None = the response.
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
      argument_words: the map's rows: content words of the grounding.
      response_words: the map's columns: content words of the response.
      values: float64 [argument words, response words] in [0, 1].
      cut: number of tokens that the model did not see, by part; see `faith_jax.core.types.Score`.
    """

    argument_words: tuple[PlacedWord, ...]
    response_words: tuple[PlacedWord, ...]
    values: Floats
    cut: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def cut_tokens(self) -> int:
        """The number of tokens that the model did not see."""
        return sum(self.cut.values())

    def contributions(self, aggregation: str = "max") -> Floats:
        """Returns how much each argument word contributes: alpha [argument words]."""
        # Chang 2024, equation 1, over the row of each argument word.
        return aggregate(self.values, aggregation)

    def attributions(self, aggregation: str = "max") -> Floats:
        """Returns how much the arguments explain each response word: beta [response words]."""
        # Equation 2, over the column of each response word.
        return aggregate(self.values.T, aggregation)

    def attribution_score(self, aggregation: str = "max", mean: str = "geometric") -> float:
        """Returns the mean attribution, 1 less the hallucination score.

        NaN if response or grounding has no content words, as below.
        """
        return average(self.attributions(aggregation), mean) if self.values.size else math.nan

    def contribution_score(self, aggregation: str = "max", mean: str = "geometric") -> float:
        """Returns the smallest mean contribution of a perspective.

        The coverage error score is 1 less this score.
        """
        if not self.values.size:
            return math.nan
        values = self.contributions(aggregation)
        sides = np.array([word.perspective for word in self.argument_words])
        # A response that covers one side well and another badly is not balanced, so the worst side
        # counts.
        return min(average(values[sides == side], mean) for side in set(sides.tolist()))


def normalize_columns(token_map: NDArray[np.floating]) -> Floats:
    """Returns the squares of a signed map [rows, columns], each column divided by its sum.

    The map must not include rows of padding. Columns of zeros stay zero.
    """
    # Section 3.2: the map is squared, and each column then sums to 1.
    values = np.abs(np.asarray(token_map, np.float64))
    largest = values.max(axis=0, keepdims=True, initial=0.0)
    # Divide by the largest value first, so that squares of tiny gradients do not underflow.
    squares = np.square(np.divide(values, largest, out=np.zeros_like(values), where=largest > 0))
    # The largest square is 1, so the sum is at least 1 unless the column is all zeros.
    return squares / np.maximum(squares.sum(axis=0, keepdims=True), 1.0)


def word_map(
    token_map: NDArray[np.floating],
    row_words: Sequence[Sequence[int]],
    column_words: Sequence[Sequence[int]],
) -> Floats:
    """Returns the largest entry over the pairs of tokens of each pair of words, in [0, 1].

    `token_map` is [rows, columns], normalised. Each word is a list of one or more rows or columns;
    the result is [row words, column words].
    """
    if not (row_words and column_words):
        return np.zeros((len(row_words), len(column_words)))
    # Take the maximum over rows, [row words, columns], then over columns.
    rows = np.stack([token_map[list(tokens)].max(axis=0) for tokens in row_words])
    return np.stack([rows[:, list(tokens)].max(axis=1) for tokens in column_words], axis=1)


def aggregate(words: NDArray[np.floating], aggregation: str = "max") -> Floats:
    """Returns a share for each row of a map; higher = better covered (equations 1 and 2).

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
    """Raises a ConfigError if an option is not one of its choices."""
    if value not in choices:
        raise ConfigError(f"{name}: expected one of {', '.join(choices)}, got {value!r}.")
