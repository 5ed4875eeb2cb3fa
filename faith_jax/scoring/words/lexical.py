"""Scorers that compare words and need no model.

Scorers that compare the response with one reference join the grounding's texts; scorers that look
at sentences or arguments keep the texts apart.

`FACTORIES` has functions that make the scorers. Their option `normalization` is "published" (as in
the source), "unicode" (words of all scripts) or another value. Wrong options are ConfigErrors.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from faith_jax.core.errors import ConfigError
from faith_jax.core.types import Direction, GroundedExample, Grounding, Score, ScorerCard, WordScore
from faith_jax.core.words import STEEN_PRONOUNS, first_person_count
from faith_jax.scoring.base import join_texts
from faith_jax.scoring.words.text_scorer import (
    ALL_SCRIPTS,
    ASCII,
    SPACED_SCRIPTS,
    Reads,
    TextScorer,
)
from faith_jax.statistics.texts import text_metrics
from faith_jax.statistics.texts.argument_coverage import ToldArguments, tell_arguments
from faith_jax.statistics.texts.text_metrics import (
    PUBLISHED,
    ROUGE_TYPES,
    UNICODE,
    ArgumentOverlap,
    argument_overlap,
    extractiveness,
)

_OF_WHAT = {
    "precision": "Share of the response's {} that the grounding has",
    "recall": "Share of the grounding's {} that the response has",
    "f1": "Harmonic mean of the shares of the response's and the grounding's {} in the other",
}
_UNITS = {"rouge1": "words", "rouge2": "bigrams", "rougeL": "words, in the same order,"}
_LIN, _GRUSKY = "Lin 2004", "Grusky 2018, section 3"
_BASELINES = "Honovich 2021, published code (baselines.py)"
_NORMALIZATIONS = (PUBLISHED, UNICODE)

# For each normalization of token F1: the words that are compared, and its source.
_TOKENS = {
    "true": ("without a, an, the, in, our", "Honovich 2022"),
    "squad": ("without a, an, the", "Rajpurkar 2016"),
    UNICODE: ("of all scripts", "UAX #29"),
}


def _comparison_scorer(
    card: ScorerCard, compare: Callable[[str, str], float], reads: Reads
) -> TextScorer:
    """Returns a scorer that compares the response with the joined texts of the grounding."""
    return TextScorer(card, lambda e: Score(compare(e.response, join_texts(e.grounding))), reads)


def _read_by(
    normalization: str, published: Reads, choices: Iterable[str] = _NORMALIZATIONS
) -> Reads:
    """Returns the scripts that a normalization can split; raises ConfigError if it is unknown."""
    if normalization not in choices:
        raise ConfigError(f"normalization: {normalization!r} is none of {', '.join(choices)}.")
    return ALL_SCRIPTS if normalization == UNICODE else published


def _plain_comparison_scorer(name: str, normalization: str = PUBLISHED) -> TextScorer:
    """Returns the scorer of one of `_COMPARISONS`."""
    description, high, source, compare, published = _COMPARISONS[name]
    reads = _read_by(normalization, published)
    card = ScorerCard(name, description, 0, high, source)
    return _comparison_scorer(card, functools.partial(compare, normalization=normalization), reads)


def _token_scorer(part: str, normalization: str = "true") -> TextScorer:
    """Returns the scorer of common tokens; see `_TOKENS` for the normalizations."""
    reads = _read_by(normalization, SPACED_SCRIPTS, text_metrics.NORMALIZATIONS)

    def compare(response: str, grounding: str) -> float:
        overlap = text_metrics.token_overlap(response, grounding, normalization)
        return float(getattr(overlap, part))

    method, source = _TOKENS[normalization]
    description = f"{_OF_WHAT[part].format('words')} ({method})."
    card = ScorerCard(f"token_{part}", description, 0, 1, source)
    return _comparison_scorer(card, compare, reads)


def _rouge_scorer(
    kind: str, part: str, use_stemmer: bool = False, normalization: str = PUBLISHED
) -> TextScorer:
    """Returns the scorer of common n-grams or of the longest common subsequence.

    `use_stemmer` compares Porter stems; the papers' tables use "rougeL_f1_stemmed".
    """
    if not isinstance(use_stemmer, bool):
        raise ConfigError(f"use_stemmer: expected True or False, got {use_stemmer!r}.")
    reads = _read_by(normalization, ASCII)
    words = "words of all scripts" if normalization == UNICODE else _ASCII_WORDS
    card = ScorerCard(f"{kind}_{part}", _rouge_description(kind, part, "", words), 0, 1, _LIN)
    compare = _make_rouge_comparison(kind, part, use_stemmer)
    return _comparison_scorer(card, functools.partial(compare, normalization=normalization), reads)


def _make_rouge_comparison(kind: str, part: str, use_stemmer: bool) -> Callable[..., float]:
    def compare(response: str, grounding: str, normalization: str) -> float:
        texts, kinds = (response, grounding), (kind,)
        rouge_score = text_metrics.rouge(*texts, use_stemmer, kinds, normalization)[kind]
        return float(getattr(rouge_score, part))

    return compare


# rouge-score drops all other characters, so texts in other scripts have no words.
_ASCII_WORDS = "ASCII letters and digits"


def _rouge_description(kind: str, part: str, of: str, words: str) -> str:
    method = f"ROUGE-{kind[5:]}{of}; {words}"
    return f"{_OF_WHAT[part].format(_UNITS[kind])} ({method})."


# Comparisons whose only option is the normalization: a description, the largest value, the source,
# the function, and the scripts that its published form can split into words.
_COMPARISONS: dict[str, tuple[str, float, str, Callable[..., float], Reads]] = {
    "bleu": (
        "Sentence BLEU-4 of the response with the grounding as reference.",
        100,
        "Post 2018 (sacrebleu)",
        text_metrics.sentence_bleu,
        SPACED_SCRIPTS,
    ),
    "rougeL_f1_stemmed": (
        _rouge_description("rougeL", "f1", " of Porter stems", _ASCII_WORDS),
        1,
        _LIN,
        _make_rouge_comparison("rougeL", "f1", True),
        ASCII,
    ),
    "coverage": (
        "Share of the response's words that stand in a span copied from the grounding.",
        1,
        _GRUSKY,
        lambda response, text, normalization: (
            extractiveness(response, text, normalization).coverage
        ),
        SPACED_SCRIPTS,
    ),
    "density": (
        "Mean over the response's words of the length of the copied span each stands in.",
        math.inf,
        _GRUSKY,
        lambda response, text, normalization: extractiveness(response, text, normalization).density,
        SPACED_SCRIPTS,
    ),
}
_AS_PUBLISHED = SPACED_SCRIPTS._replace(hint="")
Q2_BASELINE_TOKEN_F1 = ScorerCard(
    "q2_baseline_token_f1",
    "F1 of the response's and the lower-cased grounding's spaCy tokens, without stop words and "
    "punctuation (extra: augmentation).",
    0,
    1,
    _BASELINES,
)


def _q2_baseline_token_f1_scorer() -> TextScorer:
    """Returns the scorer of token F1 as Q²'s authors, Dziri 2022 and Nandwani 2023 compute it."""
    text_metrics.english_tokenizer()  # raises if spaCy is not installed
    compare = text_metrics.q2_baseline_token_f1
    return _comparison_scorer(Q2_BASELINE_TOKEN_F1, compare, _AS_PUBLISHED)


def _q2_baseline_bleu_scorer() -> TextScorer:
    """Returns the scorer of BLEU as Q²'s authors compute it."""
    description = "BLEU-4, all orders counted, of the response with the lower-cased grounding."
    card = ScorerCard("q2_baseline_bleu", description, 0, 100, _BASELINES)
    return _comparison_scorer(card, text_metrics.q2_baseline_bleu, _AS_PUBLISHED)


def _lexical_overlap_scorer(normalization: str = PUBLISHED) -> TextScorer:
    """Returns the scorer of DialFact's lexical overlap with the most similar grounding text.

    The normalization may also be "spacy": spaCy's words and stop words, as in the paper.

    Reference: Gupta 2022, section 5.1.
    """
    reads = _read_by(normalization, SPACED_SCRIPTS, (*_NORMALIZATIONS, text_metrics.SPACY))
    if normalization == text_metrics.SPACY:
        text_metrics.english_tokenizer()
    description = "Largest share of the response's words that one text of the grounding has."
    card = ScorerCard("lexical_overlap", description, 0, 1, "Gupta 2022, section 5.1")
    overlap = functools.partial(text_metrics.lexical_overlap, normalization=normalization)
    return TextScorer(card, lambda e: Score(overlap(e.response, e.grounding.texts)), reads)


def _first_person_scorer(pronouns: Sequence[str] = tuple(STEEN_PRONOUNS)) -> TextScorer:
    """Returns the scorer that counts "I" in a response, as Steen 2023 counts the first person.

    `pronouns` are the words to count instead, in any case.
    """
    words = list(pronouns) if isinstance(pronouns, Sequence) else [pronouns]
    if isinstance(pronouns, str) or not all(isinstance(word, str) for word in words):
        raise ConfigError(f"pronouns: expected a list of words, got {pronouns!r}.")
    counted = frozenset(word.lower() for word in words)
    description = 'How often the response says "I", as in "I\'m" too, or other pronouns.'
    source, direction = "Steen 2023, section 5.1", Direction.NONE
    card = ScorerCard("first_person_count", description, 0, math.inf, source, direction)
    return TextScorer(
        card,
        lambda e: Score(float(first_person_count(e.response, counted))),
        _AS_PUBLISHED,
        reads_grounding=False,
    )


_npov_card = functools.partial(
    ScorerCard, low=0, high=1, source="Chang 2024, section 3.1", word_level=True
)


def _content_word_scorer(name: str, normalization: str = PUBLISHED) -> TextScorer:
    """Returns the scorer with low values for a response that says things no text says."""
    reads = _read_by(normalization, SPACED_SCRIPTS)

    def judge(example: GroundedExample) -> Score:
        arguments = _texts_by_perspective(example.grounding)
        overlap = argument_overlap(example.response, arguments, normalization)
        pairs = zip(overlap.response_words, overlap.response_matched, strict=True)
        words = tuple(WordScore(w.text, w.start, w.end, float(matched)) for w, matched in pairs)
        return Score(overlap.precision, words)

    card = _npov_card(
        name,
        "Share of the response's content words that the grounding has; 1 or 0 for each word.",
    )
    return TextScorer(card, judge, reads)


def _npov_coverage_detector(normalization: str = PUBLISHED) -> TextScorer:
    """Returns the scorer with low values for a response that leaves arguments out."""
    reads = _read_by(normalization, SPACED_SCRIPTS)

    def judge(example: GroundedExample) -> Score:
        arguments = _texts_by_perspective(example.grounding)
        overlap = argument_overlap(example.response, arguments, normalization)
        return Score(overlap.recall, tuple(_argument_words(overlap, example.grounding)))

    card = _npov_card(
        "npov_rouge1_coverage",
        "Share of the arguments' content words that the response has, of the perspective that has "
        "the smallest; 1 or 0 for each word of the arguments.",
    )
    return TextScorer(card, judge, reads)


def _perspectives(grounding: Grounding) -> tuple[str, ...]:
    """Returns the perspective of each text; without perspectives, all texts get ""."""
    return grounding.perspectives or ("",) * len(grounding.texts)


def _texts_by_perspective(grounding: Grounding) -> dict[str, tuple[str, ...]]:
    texts_by_name: dict[str, tuple[str, ...]] = {}
    for name, text in zip(_perspectives(grounding), grounding.texts, strict=True):
        texts_by_name[name] = (*texts_by_name.get(name, ()), text)
    return texts_by_name


def _argument_words(overlap: ArgumentOverlap, grounding: Grounding) -> Iterator[WordScore]:
    arguments = {
        name: zip(words, overlap.argument_matched[name], strict=True)
        for name, words in overlap.argument_words.items()
    }
    for number, name in enumerate(_perspectives(grounding)):
        for word, matched in zip(*next(arguments[name]), strict=True):
            yield WordScore(word.text, word.start, word.end, float(matched), text=number)


_told_card = functools.partial(
    ScorerCard,
    low=0,
    high=1,
    source="faith_jax.statistics.texts.argument_coverage",
    word_level=True,
)
# The share of content words that must match; above one half, so that 1 of 2 is not enough.
_TOLD_THRESHOLD = 0.6


def _argument_recall_scorer(
    threshold: float = _TOLD_THRESHOLD, normalization: str = PUBLISHED
) -> TextScorer:
    """Returns the scorer of the share of arguments that a response tells; higher = more of them.

    Each argument gets a word score over all its text: 1 if it is told, 0 if it is missing.
    `threshold` is the share of its content words from which an argument counts as told, in (0, 1].
    """
    reads = _read_by(normalization, SPACED_SCRIPTS)
    _check_threshold(threshold)

    def judge(example: GroundedExample) -> Score:
        coverage = _mentioned_arguments(example, normalization)
        pairs = enumerate(zip(example.grounding.texts, coverage.arguments, strict=True))
        words = tuple(
            WordScore(text, 0, len(text), float(share >= threshold), text=number)
            for number, (text, share) in pairs
            if not math.isnan(share)
        )
        return Score(coverage.recall(threshold), words)

    card = _told_card(
        "argument_recall",
        "Share of the arguments that the response tells (by their content words); 1 or 0 for each.",
    )
    return TextScorer(card, judge, reads)


def _argument_precision_scorer(
    threshold: float = _TOLD_THRESHOLD, normalization: str = PUBLISHED
) -> TextScorer:
    """Returns the scorer of the share of a response's sentences that tell arguments, each once.

    Higher = more faithful; undefined for a response of framing words only. Each sentence with
    content gets a word score over all its text: 1 if the arguments have it, 0 otherwise. Sentences
    of framing words only ("Views differ.") get none. `threshold` is the share of a sentence's
    content words that the arguments must have, in (0, 1].
    """
    reads = _read_by(normalization, SPACED_SCRIPTS)
    _check_threshold(threshold)

    def judge(example: GroundedExample) -> Score:
        coverage = _mentioned_arguments(example, normalization)
        words = tuple(
            WordScore(example.response[start:end], start, end, float(share >= threshold))
            for share, (start, end) in zip(coverage.sentences, coverage.spans, strict=True)
            if not math.isnan(share)
        )
        return Score(coverage.precision(threshold), words)

    card = _told_card(
        "argument_precision",
        "Share of the response's sentences that tell arguments, each once (by their content "
        "words); 1 or 0 for each.",
    )
    return TextScorer(card, judge, reads)


def _mentioned_arguments(example: GroundedExample, normalization: str) -> ToldArguments:
    query = example.history[-1] if example.history else ""
    return tell_arguments(example.response, example.grounding.texts, query, normalization)


def _check_threshold(threshold: float) -> None:
    is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if not (is_number and 0 < threshold <= 1):
        raise ConfigError(f"threshold: expected a share in (0, 1], got {threshold!r}.")


# The function that makes each scorer; its keyword arguments are the scorer's options.
FACTORIES: dict[str, Callable[..., TextScorer]] = {
    **{f"token_{part}": functools.partial(_token_scorer, part) for part in _OF_WHAT},
    **{
        f"{kind}_{part}": functools.partial(_rouge_scorer, kind, part)
        for kind in ROUGE_TYPES
        for part in _OF_WHAT
    },
    **{name: functools.partial(_plain_comparison_scorer, name) for name in _COMPARISONS},
    "q2_baseline_token_f1": _q2_baseline_token_f1_scorer,
    "q2_baseline_bleu": _q2_baseline_bleu_scorer,
    "lexical_overlap": _lexical_overlap_scorer,
    "first_person_count": _first_person_scorer,
    **{
        name: functools.partial(_content_word_scorer, name)
        for name in ("content_word_precision", "npov_rouge1_hallucination")
    },
    "npov_rouge1_coverage": _npov_coverage_detector,
    "argument_recall": _argument_recall_scorer,
    "argument_precision": _argument_precision_scorer,
}
