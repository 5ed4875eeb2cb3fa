"""SummaC zero-shot: natural language inference between single sentences (Laban 2022)."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple, Unpack

import numpy as np

from faith_jax.core.cutting import CutTokens, sum_cuts
from faith_jax.core.types import GroundedExample
from faith_jax.core.words import Piece, locate_sentences
from faith_jax.inference.opening import check_options
from faith_jax.inference.texts.text_pairs import PairRow
from faith_jax.scoring.base import Judgement, sentence_words
from faith_jax.scoring.model_cards import CARDS
from faith_jax.scoring.nli import SentencePairScorer
from faith_jax.scoring.pair_classifier import ClassifierOptions

_SHORT = 10  # the authors' code drops sentences of up to this many characters


class SentencePairs(NamedTuple):
    """The response's sentences, and a row for each with each sentence of the grounding."""

    hypotheses: list[Piece]
    rows: list[PairRow]
    cut: CutTokens


class SummaCScorer(SentencePairScorer[SentencePairs]):
    """The mean over response sentences of the largest entailment by a grounding sentence.

    All words of a sentence get its score. Sentences of up to 10 characters are left out, as in the
    authors' code; if no sentence is left on one side, the score is 0. Undefined for empty texts.

    Args:
      model: a folder of an NLI classifier.
      labels: see `nli_label_numbers`.
      keep_short: also score sentences of up to 10 characters.
      use_contradiction: subtract the largest contradiction, which is the default of the authors'
        code; the paper and TRUE use only entailment.
      **options: see `ClassifierOptions`.

    Raises:
      ConfigError: without a model, or for a wrong option.
    """

    card = CARDS["summac_zs"]

    def __init__(
        self,
        model: str | None = None,
        labels: str | Sequence[str] | None = None,
        keep_short: bool = False,
        use_contradiction: bool = False,
        **options: Unpack[ClassifierOptions],
    ):
        check_options({"keep_short": keep_short, "use_contradiction": use_contradiction})
        self._longest_dropped = 0 if keep_short else _SHORT
        if use_contradiction:
            self.card = dataclasses.replace(self.card, low=-1.0)
        self._use_contradiction = use_contradiction
        super().__init__(model, labels, **options)

    def read(self, example: GroundedExample) -> SentencePairs | None:
        grounding = [s for text in example.grounding.texts for s in locate_sentences(text)]
        response = list(locate_sentences(example.response))
        if not (grounding and response):
            return None
        premises, hypotheses = self._long_enough(grounding), self._long_enough(response)
        encode, name = self._classify.encode, f"example {example.id!r}"
        rows = [encode(p.text, h.text, name) for h in hypotheses for p in premises]
        return SentencePairs(hypotheses, rows, sum_cuts(row.cut for row in rows))

    def _long_enough(self, sentences: Sequence[Piece]) -> list[Piece]:
        return [piece for piece in sentences if len(piece.text) > self._longest_dropped]

    def judge_rows(
        self, examples: Sequence[GroundedExample], rows: Sequence[SentencePairs]
    ) -> list[Judgement]:
        judgements = []
        for row, part in zip(rows, self._classify.by_example(rows), strict=True):
            if not row.rows:
                judgements.append(Judgement(0.0))
                continue
            # [response, grounding, classes]
            by_pair = part.reshape(len(row.hypotheses), -1, part.shape[1])
            scores = by_pair[:, :, self._entailment].max(axis=1).astype(np.float64)
            if self._use_contradiction:
                scores -= by_pair[:, :, self._contradiction].max(axis=1)
            words = tuple(
                word
                for sentence, score in zip(row.hypotheses, scores.tolist(), strict=True)
                for word in sentence_words(sentence.text, sentence.start, score)
            )
            judgements.append(Judgement(float(scores.mean()), words))
        return judgements
