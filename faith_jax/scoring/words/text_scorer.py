"""The base of scorers of words, which compare what texts look like and check the script."""

import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import regex

from faith_jax.core.types import GroundedExample, Score, ScorerCard, WordScore
from faith_jax.core.words import LETTER, comparable, comparable_places
from faith_jax.scoring.base import BaseScorer, join_texts

_ASCII_LETTER = re.compile("[A-Za-z0-9]")
_NOTHING_COMPARED = "there are no words to compare"


class Reads(NamedTuple):
    """The scripts that a scorer can split into words.

    Attributes:
      unread: the letters and digits that the scorer cannot split; None = it can split all scripts.
      hint: a hint at an option that can, for messages.
    """

    unread: regex.Pattern[str] | None
    hint: str = ""

    def problem(self, text: str, name: str) -> str:
        """Returns why a text cannot be split: it has no words, or most letters are unread."""
        if text.isascii() and _ASCII_LETTER.search(text):
            return ""  # fast path, as ASCII letters are never unread
        letters = len(LETTER.findall(text))
        if not letters:
            return f"the {name} has no words"
        if self.unread is None or 2 * len(self.unread.findall(text)) <= letters:
            return ""
        return f"most of the {name} is in a script that it cannot split into words{self.hint}"


_HINT = "; normalization=unicode can"
ALL_SCRIPTS = Reads(None)
# All scripts except those in which a line may break between letters without a space (UAX #14):
# Chinese, Japanese, Thai, Lao, Khmer, Burmese, Javanese, Tibetan, ...
SPACED_SCRIPTS = Reads(
    regex.compile(
        r"[[\p{lb=ID}\p{lb=CJ}\p{lb=NS}\p{lb=SA}\p{lb=AK}\p{Tibetan}]&&\p{L}"
        r"--[\p{Latin}\p{Hangul}]]",
        regex.V1,
    ),
    _HINT,
)
ASCII = Reads(regex.compile(r"[[\p{L}\p{N}]--\p{ASCII}]", regex.V1), _HINT)


class TextScorer(BaseScorer):
    """A scorer that judges each example on its own, from its texts in comparable form.

    The score is undefined if the response or the grounding cannot be split into words.

    Args:
      judge: returns the score of an example.
      reads: the scripts that the scorer can split.
      reads_grounding: whether the scorer compares the response with the grounding.
    """

    def __init__(
        self,
        card: ScorerCard,
        judge: Callable[[GroundedExample], Score],
        reads: Reads = SPACED_SCRIPTS,
        reads_grounding: bool = True,
    ):
        self.card, self._judge = card, judge
        self._reads, self._reads_grounding = reads, reads_grounding

    def score_examples(self, examples: Sequence[GroundedExample]) -> list[Score]:
        scores = []
        for example in examples:
            plain = comparable_example(example)
            problem = self._reads.problem(plain.response, "response")
            if not problem and self._reads_grounding:
                problem = self._reads.problem(join_texts(plain.grounding), "grounding")
            score = Score(math.nan, undefined=problem) if problem else self._judge(plain)
            if math.isnan(score.value):
                score = dataclasses.replace(score, undefined=score.undefined or _NOTHING_COMPARED)
            scores.append(move_to_original(score, example, plain))
        return scores


def comparable_example(example: GroundedExample) -> GroundedExample:
    """Returns an example with response and grounding in comparable form, or the example itself."""
    texts = example.response, *example.grounding.texts
    if all(map(str.isascii, texts)):  # fast path
        return example
    response, *grounding_texts = map(comparable, texts)
    if (response, *grounding_texts) == texts:
        return example
    grounding = dataclasses.replace(example.grounding, texts=tuple(grounding_texts))
    return dataclasses.replace(example, response=response, grounding=grounding)


def move_to_original(score: Score, example: GroundedExample, plain: GroundedExample) -> Score:
    """Moves words and evidence of a score from the texts in comparable form to the original ones.

    `plain` is `comparable_example(example)`.
    """
    if plain is example:
        return score
    texts = example.response, *example.grounding.texts
    places = list(map(comparable_places, texts))

    def move(word: WordScore) -> WordScore:
        number = 0 if word.text is None else word.text + 1
        start, end = places[number][word.start][0], places[number][word.end - 1][1]
        return dataclasses.replace(word, word=texts[number][start:end], start=start, end=end)

    words, evidence = tuple(map(move, score.words)), tuple(map(move, score.evidence))
    return dataclasses.replace(score, words=words, evidence=evidence)
