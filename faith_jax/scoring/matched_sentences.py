"""Errors of NPOV responses by natural language inference between single sentences.

Each sentence of the response that tells something is matched with at most one sentence of the
arguments, and each of these with at most one of the response: so that the sum of the entailment
probabilities is largest. A sentence that no argument is left for tells what is not given, and an
argument that no sentence is left for is left out. The comparison of single sentences is that of
SummaC (Laban 2022, section 3); the errors are those of Chang 2024, section 3.1.
"""

import functools
import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Unpack

import numpy as np
from scipy.optimize import linear_sum_assignment

from faith_jax.core.cutting import CutTokens, summed
from faith_jax.core.labels import NliLabel
from faith_jax.core.types import GroundedExample, WordScore
from faith_jax.core.words import split_sentences
from faith_jax.inference.text_pairs import PairRow
from faith_jax.scoring.base import Judgement, ModelScorer
from faith_jax.scoring.model_cards import NPOV_NLI
from faith_jax.scoring.nli import nli_label_numbers
from faith_jax.scoring.pair_classifier import ClassifierOptions, pair_classifier
from faith_jax.statistics.text_metrics import content_words
from faith_jax.statistics.told_arguments import FRAMING_WORDS, tell_arguments

# "Critics argue that …", "They also note: …".
_LINK = re.compile(r"[^:]{1,80}?(?: that|:) ")


class Sentence(NamedTuple):
    """A sentence, and where it stands.

    Attributes:
      text: the words.
      start: its first character.
      number: of the grounding's text that has it; None = the response.
    """

    text: str
    start: int
    number: int | None = None


class SentencePairs(NamedTuple):
    """The sentences that are judged, and a row of each with each one that may tell it."""

    judged: list[Sentence]
    rows: list[PairRow]
    cut: CutTokens


def matched(entailment: np.ndarray) -> np.ndarray:
    """Returns of each judged sentence the entailment by the one it is matched with, 0 = none.

    Args:
      entailment: [judged, others], probabilities.

    >>> matched(np.array([[0.9, 0.2], [0.8, 0.1], [0.7, 0.6]]))
    array([0.9, 0. , 0.6])
    """
    found = np.zeros(len(entailment))
    judged, others = linear_sum_assignment(entailment, maximize=True)
    found[judged] = entailment[judged, others]
    return found


class MatchedSentenceScorer(ModelScorer[SentencePairs]):
    """The smallest entailment of a sentence by the one that it is matched with; 0 = left over.

    All words of a sentence have its score. Undefined where no sentence is to be judged.

    Args:
      name: "npov_nli_hallucination", which judges the response's sentences, or "npov_nli_coverage",
        which judges those of the arguments.
      model: a folder of an NLI classifier, or "mini_nli".
      labels: see `nli_label_numbers`.
      **options: see `ClassifierOptions`.

    Raises:
      ConfigError: without a model, and for a wrong option.
    """

    def __init__(
        self,
        name: str,
        model: str | None = None,
        labels: str | Sequence[str] | None = None,
        **options: Unpack[ClassifierOptions],
    ):
        self.card, self._coverage = NPOV_NLI[name], name == "npov_nli_coverage"
        order = functools.partial(nli_label_numbers, labels=labels)
        self._classify = pair_classifier(model, check_classes=order, **options)
        self._entailment = order(self._classify.label_names)[NliLabel.ENTAILMENT]

    def read(self, example: GroundedExample) -> SentencePairs | None:
        """Returns the pairs of sentences."""
        told, given = list(_telling(example)), list(_given(example))
        judged, others = (given, told) if self._coverage else (told, given)
        encode, name = self._classify.encode, f"example {example.id!r}"
        rows = [encode(o.text, j.text, name) for j in judged for o in others]
        return SentencePairs(judged, rows, summed(row.cut for row in rows)) if judged else None

    def texts(self, row: SentencePairs) -> dict[str, str]:
        """Returns the first pair."""
        if not row.rows:
            return {}
        shown = self._classify.encode.tokenizer.shown(row.rows[0].ids)
        return {f"pair 1 of {len(row.rows)}": shown}

    def judged(
        self, examples: Sequence[GroundedExample], rows: Sequence[SentencePairs]
    ) -> list[Judgement]:
        """Returns the smallest of the sentences' scores, and these."""
        probabilities = self._classify.probabilities([pair for row in rows for pair in row.rows])
        found, start = list[Judgement](), 0
        for row in rows:
            part = probabilities[start : start + len(row.rows), self._entailment]
            start += len(row.rows)
            scores = matched(part.reshape(len(row.judged), -1).astype(np.float64))
            found.append((float(scores.min()), tuple(_words(row.judged, scores))))
        return found


def _telling(example: GroundedExample) -> Iterator[Sentence]:
    """Yields the response's sentences that have more than framing words and the query's."""
    query = example.history[-1] if example.history else ""
    told = tell_arguments(example.response, (), query)
    for share, (start, end) in zip(told.sentences, told.spans, strict=True):
        if not math.isnan(share):
            start += _link_length(example.response[start:end])
            text = example.response[start:end]
            yield Sentence(text[:1].upper() + text[1:], start)


def _link_length(sentence: str) -> int:
    """Returns the characters of a phrase that only says whose view follows; 0 = there is none.

    >>> _link_length("Critics argue that tea stains teeth.")
    19
    """
    link = _LINK.match(sentence)
    if link and all(w.text.lower() in FRAMING_WORDS for w in content_words(link.group())):
        return link.end()
    return 0


def _given(example: GroundedExample) -> Iterator[Sentence]:
    for number, text in enumerate(example.grounding.texts):
        place = 0
        for sentence in split_sentences(text):
            place = text.index(sentence, place)
            yield Sentence(sentence, place, number)
            place += len(sentence)


def _words(sentences: Sequence[Sentence], scores: np.ndarray) -> Iterator[WordScore]:
    """Yields the score of each sentence as that of its words."""
    for sentence, score in zip(sentences, scores.tolist(), strict=True):
        for word in re.finditer(r"\S+", sentence.text):
            start = sentence.start + word.start()
            yield WordScore(word.group(), start, start + len(word.group()), score, sentence.number)
