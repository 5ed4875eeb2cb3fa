"""Scorers of words alone, which need no model.

The grounding's texts are joined where a scorer compares the response with one reference; those that
look at sentences or arguments keep them apart.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence

from faith_jax.core.errors import ConfigError
from faith_jax.core.types import Direction, GroundedExample, Score, ScorerCard, WordScore
from faith_jax.core.words import STEEN_PRONOUNS, first_person_count
from faith_jax.scoring.base import BaseScorer, by_perspective, joined
from faith_jax.statistics import text_metrics
from faith_jax.statistics.text_metrics import ArgumentOverlap, argument_overlap, extractiveness

PARTS = ("precision", "recall", "f1")
_OF_WHAT = {
    "precision": "Share of the response's {} that the grounding has",
    "recall": "Share of the grounding's {} that the response has",
    "f1": "Harmonic mean of the shares of the response's and the grounding's {} in the other",
}
_UNITS = {"rouge1": "words", "rouge2": "bigrams", "rougeL": "words, in the same order,"}
_LIN, _GRUSKY = "Lin 2004", "Grusky 2018, section 3"
_BASELINES = "Honovich 2021, published code (baselines.py)"

# Of a response and its grounding's texts as one.
Compare = Callable[[str, str], float]


class TextScorer(BaseScorer):
    """A scorer that judges each example on its own, from its texts."""

    def __init__(self, card: ScorerCard, judge: Callable[[GroundedExample], Score]):
        self.card, self._judge = card, judge

    def score_examples(self, examples: Sequence[GroundedExample]) -> list[Score]:
        """Returns one score for each example."""
        return [self._judge(example) for example in examples]


def comparison_scorer(card: ScorerCard, compare: Compare) -> TextScorer:
    """Returns a scorer that compares the response with the grounding's texts as one."""
    return TextScorer(card, lambda e: Score(compare(e.response, joined(e.grounding))))


def plain_comparison_scorer(name: str) -> TextScorer:
    """Returns one of `COMPARISONS`."""
    description, high, source, compare = COMPARISONS[name]
    return comparison_scorer(ScorerCard(name, description, 0, high, source), compare)


def token_scorer(part: str, normalization: str = "true") -> TextScorer:
    """Returns the scorer of tokens in common: "precision", "recall" or "f1".

    Args:
      part: of these three.
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
    return comparison_scorer(ScorerCard(f"token_{part}", description, 0, 1, source), compare)


def rouge_scorer(kind: str, part: str, use_stemmer: bool = False) -> TextScorer:
    """Returns the scorer of n-grams or of the longest subsequence in common.

    Args:
      kind: "rouge1", "rouge2" or "rougeL".
      part: "precision", "recall" or "f1".
      use_stemmer: compare Porter stems; "rougeL_f1_stemmed" is the scorer of the papers' tables.

    Raises:
      ConfigError: for another value of `use_stemmer`.
    """
    if not isinstance(use_stemmer, bool):
        raise ConfigError(f"use_stemmer: expected True or False, got {use_stemmer!r}.")
    card = ScorerCard(f"{kind}_{part}", _rouge_description(kind, part), 0, 1, _LIN)
    return comparison_scorer(card, _rouge(kind, part, use_stemmer))


def _rouge(kind: str, part: str, use_stemmer: bool) -> Compare:
    def compare(response: str, grounding: str) -> float:
        found = text_metrics.rouge(response, grounding, use_stemmer, (kind,))[kind]
        return float(getattr(found, part))

    return compare


def _rouge_description(kind: str, part: str, of: str = "") -> str:
    # rouge-score drops every other character, so other scripts have no words.
    method = f"ROUGE-{kind[5:]}{of}; ASCII letters and digits"
    return f"{_OF_WHAT[part].format(_UNITS[kind])} ({method})."


# Comparisons without options: what they measure, the largest value, the source, the function.
COMPARISONS: dict[str, tuple[str, float, str, Compare]] = {
    "bleu": (
        "Sentence BLEU-4 of the response with the grounding as reference.",
        100,
        "Post 2018 (sacrebleu)",
        text_metrics.sentence_bleu,
    ),
    "q2_baseline_bleu": (
        "BLEU-4, all orders counted, of the response with the lower-cased grounding.",
        100,
        _BASELINES,
        text_metrics.q2_baseline_bleu,
    ),
    "rougeL_f1_stemmed": (
        _rouge_description("rougeL", "f1", " of Porter stems"),
        1,
        _LIN,
        _rouge("rougeL", "f1", True),
    ),
    "coverage": (
        "Share of the response's words that stand in a span copied from the grounding.",
        1,
        _GRUSKY,
        lambda response, text: extractiveness(response, text).coverage,
    ),
    "density": (
        "Mean over the response's words of the length of the copied span each stands in.",
        math.inf,
        _GRUSKY,
        lambda response, text: extractiveness(response, text).density,
    ),
}
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
    return comparison_scorer(Q2_BASELINE_TOKEN_F1, text_metrics.q2_baseline_token_f1)


def lexical_overlap_scorer() -> TextScorer:
    """Returns DialFact's lexical overlap: of the grounding's texts, the one most like the response.

    Reference: Gupta 2022, section 5.1.
    """
    description = "Largest share of the response's words that one text of the grounding has."
    card = ScorerCard("lexical_overlap", description, 0, 1, "Gupta 2022, section 5.1")
    overlap = text_metrics.lexical_overlap
    return TextScorer(card, lambda e: Score(overlap(e.response, e.grounding.texts)))


def first_person_scorer(pronouns: Sequence[str] = tuple(STEEN_PRONOUNS)) -> TextScorer:
    """Returns the scorer of how often a response says "I", as Steen 2023 counts the first person.

    Args:
      pronouns: other ones, in any case.

    Raises:
      ConfigError: for what is no list of words.
    """
    words = list(pronouns) if isinstance(pronouns, Sequence) else [pronouns]
    if isinstance(pronouns, str) or not all(isinstance(word, str) for word in words):
        raise ConfigError(f"pronouns: expected a list of words, got {pronouns!r}.")
    counted = frozenset(word.lower() for word in words)
    description = 'How often the response says "I", as in "I\'m" too, or other pronouns.'
    source, direction = "Steen 2023, section 5.1", Direction.NONE
    card = ScorerCard("first_person_count", description, 0, math.inf, source, direction)
    return TextScorer(card, lambda e: Score(float(first_person_count(e.response, counted))))


_npov_card = functools.partial(
    ScorerCard, low=0, high=1, source="Chang 2024, section 3.1", word_level=True
)


def npov_hallucination_detector() -> TextScorer:
    """Returns the scorer whose low values mean that a response tells what no argument says."""

    def judge(example: GroundedExample) -> Score:
        overlap = argument_overlap(example.response, by_perspective(example.grounding))
        pairs = zip(overlap.response_words, overlap.response_matched, strict=True)
        words = tuple(WordScore(w.text, w.start, w.end, float(matched)) for w, matched in pairs)
        return Score(overlap.precision, words)

    card = _npov_card(
        "npov_rouge1_hallucination",
        "Share of the response's content words that the arguments have; 1 or 0 for each word.",
    )
    return TextScorer(card, judge)


def npov_coverage_detector() -> TextScorer:
    """Returns the scorer whose low values mean that a response leaves arguments out."""

    def judge(example: GroundedExample) -> Score:
        overlap = argument_overlap(example.response, by_perspective(example.grounding))
        return Score(overlap.recall, tuple(_argument_words(overlap, example)))

    card = _npov_card(
        "npov_rouge1_coverage",
        "Share of the arguments' content words that the response has, of the perspective that has "
        "the smallest; 1 or 0 for each word of the arguments.",
    )
    return TextScorer(card, judge)


def _argument_words(overlap: ArgumentOverlap, example: GroundedExample) -> Iterator[WordScore]:
    names = example.grounding.perspectives or ("",) * len(example.grounding.texts)
    arguments = {
        name: zip(words, overlap.argument_matched[name], strict=True)
        for name, words in overlap.argument_words.items()
    }
    for number, name in enumerate(names):
        for word, matched in zip(*next(arguments[name]), strict=True):
            yield WordScore(word.text, word.start, word.end, float(matched), text=number)
