"""Groundedness: words, numbers and inference together, which needs no checkpoint of one's own."""

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Unpack

import numpy as np

from faith_jax.core.cutting import CutTokens, sum_cuts
from faith_jax.core.errors import ConfigError
from faith_jax.core.types import GroundedExample, WordScore
from faith_jax.core.words import locate_sentences
from faith_jax.inference.texts.text_pairs import PairRow
from faith_jax.scoring.base import Judgement, join_texts
from faith_jax.scoring.model_cards import CARDS
from faith_jax.scoring.nli import SentencePairScorer
from faith_jax.scoring.pair_classifier import ClassifierOptions
from faith_jax.scoring.words.text_scorer import SPACED_SCRIPTS
from faith_jax.statistics.texts.passages import PassageFinder
from faith_jax.statistics.texts.text_metrics import (
    ContentWord,
    argument_overlap,
    rouge,
    words_in_none,
)

# The shares of content words, entailment, pairs of words and numbers in the score. They were chosen
# by the areas on five corpora, before a sixth was scored (docs/scorer_results.md).
CONTENT, ENTAILMENT, BIGRAMS, NUMBERS = 10 / 17, 3 / 17, 3 / 17, 1 / 17

# Words that answer a question, and add nothing to what the rest of the response says.
ANSWERS = frozenset(("yes", "yeah", "yep", "sure", "ok", "okay"))

_NUMBER, _THOUSANDS = re.compile(r"\d[\d,]*"), re.compile(r",(?=\d{3}(?!\d))")
_READS = SPACED_SCRIPTS._replace(hint="")


class ResponseSentences(NamedTuple):
    """A response's words and sentences, and the rows that the NLI model reads of each sentence.

    Attributes:
      words: its content words, but for `ANSWERS` beside others, and whether the grounding has each.
      sentences: of the response, with where each begins.
      rows: of each sentence with its passages, one sentence after the other.
      counts: of rows of each sentence.
    """

    words: list[tuple[ContentWord, bool]]
    sentences: list[tuple[str, int]]
    rows: list[PairRow]
    counts: list[int]
    cut: CutTokens


class GroundednessScorer(SentencePairScorer[ResponseSentences]):
    """A weighted mean of four shares of a response that its grounding supports.

    They are its content words that the grounding has; the largest entailment of each sentence by
    one of the passages that have most of its words, on average over the sentences; its pairs of
    neighbouring words that the grounding has; and 1 if the grounding has all of its words with
    digits. The score of a content word is that of the first two: whether the grounding has the
    word, and the entailment of its sentence. "1,000" and "1000" are one number. Undefined for
    responses without content words, and in scripts without spaces between words.

    Args:
      model: a folder of an NLI classifier; the default is inside the package.
      labels: see `nli_label_numbers`.
      passages: sentences of the grounding that each sentence is compared with; the best of them is
        also read with its neighbours.
      **options: see `ClassifierOptions`.

    Raises:
      ConfigError: for a wrong option.
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
        """Returns why a response or a grounding cannot be split into words; "" = it can."""
        problem = _READS.problem(example.response, "response")
        return problem or _READS.problem(join_texts(example.grounding), "grounding")

    def read(self, example: GroundedExample) -> ResponseSentences | None:
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
        # A response that is nothing but an answer is judged by it.
        words = [(word, has) for word, has in words if word.text.lower() not in ANSWERS] or words
        return ResponseSentences(words, sentences, rows, counts, sum_cuts(row.cut for row in rows))

    def judge_rows(
        self, examples: Sequence[GroundedExample], rows: Sequence[ResponseSentences]
    ) -> list[Judgement]:
        judgements = []
        probabilities = self._classify.by_example(rows)
        for example, row, classes in zip(examples, rows, probabilities, strict=True):
            entailment = classes[:, self._entailment].astype(np.float64)
            # The largest of each sentence, whose passages are neighbouring rows.
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
    """Returns the texts of a grounding, and its numbers as the response writes them."""
    texts = example.grounding.texts
    numbers = {_THOUSANDS.sub("", number) for text in texts for number in _NUMBER.findall(text)}
    written = _NUMBER.findall(example.response)
    return (*texts, " ".join(n for n in written if _THOUSANDS.sub("", n) in numbers))
