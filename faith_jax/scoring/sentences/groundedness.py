"""Groundedness: words, numbers and inference combined, without a checkpoint from the user."""

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Unpack

import numpy as np

from faith_jax.core.cutting import CutTokens, sum_cuts
from faith_jax.core.errors import ConfigError
from faith_jax.core.types import GroundedExample, Score, WordScore
from faith_jax.core.words import locate_sentences
from faith_jax.inference.texts.text_pairs import PairRow
from faith_jax.scoring.base import Judgement, join_texts
from faith_jax.scoring.model_cards import CARDS
from faith_jax.scoring.nli import SentencePairScorer
from faith_jax.scoring.pair_classifier import ClassifierOptions
from faith_jax.scoring.words.text_scorer import (
    SPACED_SCRIPTS,
    comparable_example,
    move_to_original,
)
from faith_jax.statistics.texts.passages import PassageFinder
from faith_jax.statistics.texts.text_metrics import (
    ContentWord,
    argument_overlap,
    rouge,
    words_in_none,
)

# The weights of content words, entailment, pairs of words and numbers in the score, chosen by the
# AUCs on five corpora before a sixth was scored (docs/scorer_results.md).
CONTENT, ENTAILMENT, BIGRAMS, NUMBERS = 10 / 17, 3 / 17, 3 / 17, 1 / 17

# Words that answer a question but add nothing to the content of the rest of the response.
ANSWERS = frozenset(("yes", "yeah", "yep", "sure", "ok", "okay"))

_NUMBER, _THOUSANDS = re.compile(r"\d[\d,]*"), re.compile(r",(?=\d{3}(?!\d))")
_READS = SPACED_SCRIPTS._replace(hint="")


class ResponseSentences(NamedTuple):
    """A response's words and sentences, and the rows that the NLI model reads for each sentence.

    Attributes:
      words: content words, `ANSWERS` only if there are no others; True = the grounding has it.
      sentences: the sentences of the response, with their offsets.
      rows: a row for each sentence with each of its passages, one sentence after the other.
      counts: the number of rows of each sentence.
    """

    words: list[tuple[ContentWord, bool]]
    sentences: list[tuple[str, int]]
    rows: list[PairRow]
    counts: list[int]
    cut: CutTokens


class GroundednessScorer(SentencePairScorer[ResponseSentences]):
    """A weighted mean of four measures of how far the grounding supports a response.

    These are the share of the response's content words that the grounding has; the mean over its
    sentences of the largest entailment by a passage that shares many of the sentence's words; the
    share of its pairs of neighbouring words that the grounding has; and 1 if the grounding has all
    its words with digits, else 0. The score of a content word combines the first two: whether the
    grounding has the word, and the entailment of its sentence. "1,000" and "1000" are the same
    number. Undefined for responses without content words, and in scripts without word spaces.

    Args:
      model: a folder of an NLI classifier; the default is inside the package.
      labels: see `nli_label_numbers`.
      passages: the number of the grounding's sentences with which each sentence is compared; the
        best one is also read with its neighbours.
      **options: see `ClassifierOptions`.

    Raises:
      ConfigError: an option is wrong.
    """

    card = CARDS["groundedness"]

    def __init__(
        self,
        model: str = "mini_nli",
        labels: str | Sequence[str] | None = None,
        passages: int = 3,
        **options: Unpack[ClassifierOptions],
    ):
        if not isinstance(passages, int) or passages < 1:
            raise ConfigError(f"passages: expected a whole number from 1, got {passages!r}.")
        super().__init__(model, labels, **options)
        self._passages = passages

    def why_unread(self, example: GroundedExample) -> str:
        """Returns why the response or the grounding cannot be split into words; "" = both can."""
        problem = _READS.problem(example.response, "response")
        return problem or _READS.problem(join_texts(example.grounding), "grounding")

    def score_examples(self, examples: Sequence[GroundedExample]) -> list[Score]:
        """Returns one score for each example, by its texts in comparable form."""
        plain = list(map(comparable_example, examples))
        return list(map(move_to_original, super().score_examples(plain), examples, plain))

    def read(self, example: GroundedExample) -> ResponseSentences | None:
        example = comparable_example(example)
        if self.why_unread(example):
            return None
        passages_for = PassageFinder(example.grounding.texts)
        sentences = [(piece.text, piece.start) for piece in locate_sentences(example.response)]
        encode, name = self._classify.encode, f"example {example.id!r}"
        rows, counts = list[PairRow](), list[int]()
        for sentence, _ in sentences:
            passages = passages_for(sentence, self._passages)
            rows += [encode(passage.text, sentence, name) for passage in passages]
            counts.append(len(passages))
        overlap = argument_overlap(example.response, {"": _with_its_numbers(example)})
        words = list(zip(overlap.response_words, overlap.response_matched, strict=True))
        # A response that consists only of answer words is judged by them.
        words = [(word, has) for word, has in words if word.text.lower() not in ANSWERS] or words
        return ResponseSentences(words, sentences, rows, counts, sum_cuts(row.cut for row in rows))

    def judge_rows(
        self, examples: Sequence[GroundedExample], rows: Sequence[ResponseSentences]
    ) -> list[Judgement]:
        judgements = []
        probabilities = self._classify.by_example(rows)
        for example, row, classes in zip(examples, rows, probabilities, strict=True):
            entailment = classes[:, self._entailment].astype(np.float64)
            # The largest entailment of each sentence; the rows of a sentence are adjacent.
            by_sentence = np.maximum.reduceat(entailment, np.cumsum([0, *row.counts[:-1]]))
            if not row.words:
                judgements.append(Judgement(math.nan))
                continue
            content = sum(has for _, has in row.words) / len(row.words)
            grounding = join_texts(example.grounding)
            bigrams = rouge(example.response, grounding, kinds=("rouge2",))["rouge2"].precision
            missing = words_in_none(example.response, _with_its_numbers(example))
            has_all_numbers = not any(c.isdigit() for word in missing for c in word.text)
            value = (
                CONTENT * content
                + ENTAILMENT * float(by_sentence.mean())
                + BIGRAMS * (content if math.isnan(bigrams) else bigrams)
                + NUMBERS * has_all_numbers
            )
            judgements.append(Judgement(value, tuple(_score_words(row, by_sentence))))
        return judgements


def _score_words(row: ResponseSentences, by_sentence: np.ndarray) -> Iterator[WordScore]:
    starts = [start for _, start in row.sentences]
    for word, has in row.words:
        sentence = int(np.searchsorted(starts, word.start, side="right")) - 1
        value = (CONTENT * has + ENTAILMENT * by_sentence[sentence]) / (CONTENT + ENTAILMENT)
        yield WordScore(word.text, word.start, word.end, float(value))


def _with_its_numbers(example: GroundedExample) -> tuple[str, ...]:
    """Returns the texts of a grounding, plus its numbers in the form that the response uses."""
    texts = example.grounding.texts
    numbers = {_THOUSANDS.sub("", number) for text in texts for number in _NUMBER.findall(text)}
    written = _NUMBER.findall(example.response)
    return (*texts, " ".join(n for n in written if _THOUSANDS.sub("", n) in numbers))
