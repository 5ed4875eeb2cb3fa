"""Scorers of words alone, which need no model.

The grounding's texts are joined where a scorer compares the response with one reference; those that
look at sentences or arguments keep them apart.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence

from faith_jax.core.errors import ConfigError
from faith_jax.core.types import Direction, GroundedExample, Score, ScorerCard, WordScore
from faith_jax.core.words import STEEN_PRONOUNS, first_person_count
from faith_jax.scoring.base import BaseScorer, by_perspective, joined
from faith_jax.statistics import text_metrics
from faith_jax.statistics.text_metrics import ArgumentOverlap, argument_overlap, extractiveness

_PARTS = ("precision", "recall", "f1")
_OF_WHAT = {
    "precision": "Share of the response's {} that the grounding has",
    "recall": "Share of the grounding's {} that the response has",
    "f1": "Harmonic mean of the shares of the response's and the grounding's {} in the other",
}


class TextScorer(BaseScorer):
    """A scorer of one response and its grounding's texts as one.

    Args:
      card: what it declares.
      compare: of the response and the grounding.
    """

    def __init__(self, card: ScorerCard, compare: Callable[[str, str], float]):
        self.card, self._compare = card, compare

    def score_examples(self, examples: Sequence[GroundedExample]) -> list[Score]:
        """Returns one score for each example."""
        return [Score(self._compare(e.response, joined(e.grounding))) for e in examples]


def token_scorer(part: str, normalization: str = "true") -> TextScorer:
    """Returns the scorer of tokens in common.

    Args:
      part: "precision", "recall" or "f1".
      normalization: "true" (Honovich 2022) or "squad" (Rajpurkar 2016).

    Raises:
      ConfigError: for another normalization.
    """
    if normalization not in text_metrics.NORMALIZATIONS:
        known = ", ".join(text_metrics.NORMALIZATIONS)
        raise ConfigError(f"normalization: {normalization!r} is none of {known}.")

    def compare(response: str, grounding: str) -> float:
        overlap = text_metrics.token_overlap(response, grounding, normalization)
        return float(getattr(overlap, part))

    source = "Honovich 2022" if normalization == "true" else "Rajpurkar 2016"
    dropped = "a, an, the, in, our" if normalization == "true" else "a, an, the"
    description = f"{_OF_WHAT[part].format('words')} (without {dropped})."
    card = ScorerCard(f"token_{part}", description, 0, 1, source)
    return TextScorer(card, compare)


_BASELINES = "Honovich 2021, published code (baselines.py)"
Q2_BASELINE_TOKEN_F1 = ScorerCard(
    "q2_baseline_token_f1",
    "F1 of the response's and the lower-cased grounding's spaCy tokens, without stop words and "
    "punctuation (extra: augmentation).",
    0,
    1,
    _BASELINES,
)


def q2_baseline_token_f1_scorer() -> TextScorer:
    """Returns the scorer of token F1 as Q²'s authors, Dziri 2022 and Nandwani 2023 compute it.

    Raises:
      ConfigError: where spaCy is not installed.
    """
    text_metrics.english_tokenizer()
    return TextScorer(Q2_BASELINE_TOKEN_F1, text_metrics.q2_baseline_token_f1)


def q2_baseline_bleu_scorer() -> TextScorer:
    """Returns the scorer of BLEU against the grounding as the same authors compute it."""
    description = "BLEU-4, all orders counted, of the response with the lower-cased grounding."
    card = ScorerCard("q2_baseline_bleu", description, 0, 100, _BASELINES)
    return TextScorer(card, text_metrics.q2_baseline_bleu)


def rouge_scorer(kind: str, part: str, use_stemmer: bool = False) -> TextScorer:
    """Returns the scorer of n-grams or of the longest subsequence in common.

    Args:
      kind: "rouge1", "rouge2" or "rougeL".
      part: "precision", "recall" or "f1".
      use_stemmer: compare Porter stems; "rougeL_f1_stemmed" is the scorer of the papers' tables.

    Raises:
      ConfigError: for another value of `use_stemmer`.
    """

    def compare(response: str, grounding: str) -> float:
        found = text_metrics.rouge(response, grounding, use_stemmer, (kind,))[kind]
        return float(getattr(found, part))

    units = {"rouge1": "words", "rouge2": "bigrams", "rougeL": "words, in the same order,"}[kind]
    if not isinstance(use_stemmer, bool):
        raise ConfigError(f"use_stemmer: expected True or False, got {use_stemmer!r}.")
    # rouge-score drops every other character, so other scripts have no words.
    description = f"{_OF_WHAT[part].format(units)} (ROUGE-{kind[5:]}; ASCII letters and digits)."
    return TextScorer(ScorerCard(f"{kind}_{part}", description, 0, 1, "Lin 2004"), compare)


def stemmed_rouge_l_scorer() -> TextScorer:
    """Returns the scorer of ROUGE-L's F1 over Porter stems, as papers print it."""
    scorer = rouge_scorer("rougeL", "f1", use_stemmer=True)
    description = scorer.card.description.replace("ROUGE-L;", "ROUGE-L of Porter stems;")
    scorer.card = dataclasses.replace(
        scorer.card, name="rougeL_f1_stemmed", description=description
    )
    return scorer


def bleu_scorer() -> TextScorer:
    """Returns the scorer of sacrebleu's sentence BLEU against the grounding."""
    description = "Sentence BLEU-4 of the response with the grounding as reference."
    card = ScorerCard("bleu", description, 0, 100, "Post 2018 (sacrebleu)")
    return TextScorer(card, text_metrics.sentence_bleu)


def coverage_scorer() -> TextScorer:
    """Returns the scorer of extractive coverage."""
    description = "Share of the response's words that stand in a span copied from the grounding."
    card = ScorerCard("coverage", description, 0, 1, "Grusky 2018, section 3")
    return TextScorer(card, lambda response, text: extractiveness(response, text).coverage)


def density_scorer() -> TextScorer:
    """Returns the scorer of extractive density."""
    description = "Mean over the response's words of the length of the copied span each stands in."
    card = ScorerCard("density", description, 0, math.inf, "Grusky 2018, section 3")
    return TextScorer(card, lambda response, text: extractiveness(response, text).density)


class LexicalOverlapScorer(BaseScorer):
    """DialFact's lexical overlap: of the grounding's texts, the one most like the response."""

    card: ScorerCard = ScorerCard(
        "lexical_overlap",
        "Largest share of the response's words that one text of the grounding has.",
        0,
        1,
        "Gupta 2022, section 5.1",
    )

    def score_examples(self, examples: Sequence[GroundedExample]) -> list[Score]:
        """Returns one score for each example."""
        return [
            Score(text_metrics.lexical_overlap(e.response, e.grounding.texts)) for e in examples
        ]


class FirstPersonCountScorer(BaseScorer):
    """How often a response says "I", as Steen 2023 counts the first person.

    Args:
      pronouns: other ones, in any case.

    Raises:
      ConfigError: for what is no list of words.
    """

    card: ScorerCard = ScorerCard(
        "first_person_count",
        'How often the response says "I", as in "I\'m" too, or other pronouns.',
        0,
        math.inf,
        "Steen 2023, section 5.1",
        direction=Direction.NONE,
    )

    def __init__(self, pronouns: Sequence[str] = tuple(STEEN_PRONOUNS)):
        words = list(pronouns) if isinstance(pronouns, Sequence) else [pronouns]
        if isinstance(pronouns, str) or not all(isinstance(word, str) for word in words):
            raise ConfigError(f"pronouns: expected a list of words, got {pronouns!r}.")
        self._pronouns = frozenset(word.lower() for word in words)

    def score_examples(self, examples: Sequence[GroundedExample]) -> list[Score]:
        """Returns one count for each example."""
        return [Score(float(first_person_count(e.response, self._pronouns))) for e in examples]


class ArgumentScorer(BaseScorer):
    """ROUGE-1 of content words' stems between a response and its arguments, and of each word.

    Args:
      card: what it declares.
      value: of the words that match.
      words: the scores of single words.
    """

    def __init__(
        self,
        card: ScorerCard,
        value: Callable[[ArgumentOverlap], float],
        words: Callable[[ArgumentOverlap, GroundedExample], tuple[WordScore, ...]],
    ):
        self.card, self._value, self._words = card, value, words

    def score_examples(self, examples: Sequence[GroundedExample]) -> list[Score]:
        """Returns one score for each example, with those of its words."""
        found = []
        for example in examples:
            overlap = argument_overlap(example.response, by_perspective(example.grounding))
            found.append(Score(self._value(overlap), self._words(overlap, example)))
        return found


_NPOV = "Chang 2024, section 3.1"


def npov_hallucination_detector() -> ArgumentScorer:
    """Returns the scorer whose low values mean that a response tells what no argument says."""
    card = ScorerCard(
        "npov_rouge1_hallucination",
        "Share of the response's content words that the arguments have; 1 or 0 for each word.",
        0,
        1,
        _NPOV,
        word_level=True,
    )
    return ArgumentScorer(card, lambda overlap: overlap.precision, _response_words)


def npov_coverage_detector() -> ArgumentScorer:
    """Returns the scorer whose low values mean that a response leaves arguments out."""
    card = ScorerCard(
        "npov_rouge1_coverage",
        "Share of the arguments' content words that the response has, of the perspective that has "
        "the smallest; 1 or 0 for each word of the arguments.",
        0,
        1,
        _NPOV,
        word_level=True,
    )
    return ArgumentScorer(card, lambda overlap: overlap.recall, _argument_words)


def _response_words(overlap: ArgumentOverlap, example: GroundedExample) -> tuple[WordScore, ...]:
    pairs = zip(overlap.response_words, overlap.response_matched, strict=True)
    return tuple(WordScore(w.text, w.start, w.end, float(matched)) for w, matched in pairs)


def _argument_words(overlap: ArgumentOverlap, example: GroundedExample) -> tuple[WordScore, ...]:
    names = example.grounding.perspectives or ("",) * len(example.grounding.texts)
    left = {name: iter(range(len(overlap.argument_words[name]))) for name in overlap.argument_words}
    found: list[WordScore] = []
    for number, name in enumerate(names):
        place = next(left[name])
        words, matched = overlap.argument_words[name][place], overlap.argument_matched[name][place]
        found += [
            WordScore(word.text, word.start, word.end, float(hit), text=number)
            for word, hit in zip(words, matched, strict=True)
        ]
    return tuple(found)
