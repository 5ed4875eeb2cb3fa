"""SummaC zero-shot: natural language inference between single sentences (Laban 2022)."""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Unpack

import numpy as np

from faith_jax.core.cutting import by_name, summed
from faith_jax.core.labels import NliLabel
from faith_jax.core.types import GroundedExample, Score, WordScore
from faith_jax.core.words import split_sentences
from faith_jax.inference.opening import check_options
from faith_jax.scoring.base import BaseScorer, SeenInput
from faith_jax.scoring.model_cards import SUMMAC_ZS
from faith_jax.scoring.nli import nli_label_numbers
from faith_jax.scoring.pair_classifier import ClassifierOptions, PairClassifier, pair_classifier


class SummaCScorer(BaseScorer):
    """For each response sentence the largest entailment by a grounding sentence, then the mean.

    All words of a sentence have its score.

    Args:
      classify: of the model.
      entailment: number of that class.
      contradiction: number of the class whose largest probability is subtracted; None = none is.
    """

    card = SUMMAC_ZS

    def __init__(self, classify: PairClassifier, entailment: int, contradiction: int | None = None):
        if contradiction is not None:
            self.card = dataclasses.replace(SUMMAC_ZS, low=-1.0)
        self._classify = classify
        self._entailment, self._contradiction = entailment, contradiction

    @property
    def num_compilations(self) -> int:
        """How many shapes the model was compiled for."""
        return self._classify.engine.num_compilations

    def score_examples(self, examples: Sequence[GroundedExample]) -> list[Score]:
        """Returns one score for each example, NaN without a sentence on either side."""
        sides = [_sentences(example) for example in examples]
        pairs = [(p, h) for premises, hypotheses in sides for h in hypotheses for p in premises]
        names = [
            f"example {example.id!r}"
            for example, (premises, hypotheses) in zip(examples, sides, strict=True)
            for _ in range(len(premises) * len(hypotheses))
        ]
        probabilities, cuts = self._classify(pairs, names)
        found, start = [], 0
        for example, (premises, hypotheses) in zip(examples, sides, strict=True):
            count = len(premises) * len(hypotheses)
            if not count:
                found.append(Score(math.nan))
                continue
            part = probabilities[start : start + count]
            scores = self._sentence_scores(part.reshape(len(hypotheses), len(premises), -1))
            words = _words(example.response, hypotheses, scores)
            cut = by_name(summed(cuts[start : start + count]))
            found.append(Score(float(scores.mean()), words, cut))
            start += count
        return found

    def seen(self, example: GroundedExample) -> SeenInput | None:
        """Returns the first pair of sentences, and what is cut of all pairs together."""
        encode, name = self._classify.encode, f"example {example.id!r}"
        premises, hypotheses = _sentences(example)
        rows = [encode(p, h, name) for h in hypotheses for p in premises]
        if not rows:
            return None
        shown = {f"pair 1 of {len(rows)}": encode.tokenizer.shown(rows[0].ids)}
        return SeenInput(shown, summed(row.cut for row in rows))

    def _sentence_scores(self, probabilities: np.ndarray) -> np.ndarray:
        """Returns the score of each response sentence from [response, grounding, classes]."""
        scores = probabilities[:, :, self._entailment].max(axis=1).astype(np.float64)
        if self._contradiction is not None:
            scores -= probabilities[:, :, self._contradiction].max(axis=1)
        return scores


def _sentences(example: GroundedExample) -> tuple[list[str], list[str]]:
    """Returns the sentences of an example's grounding and of its response."""
    premises = [s for text in example.grounding.texts for s in split_sentences(text)]
    return premises, split_sentences(example.response)


def _words(response: str, sentences: Sequence[str], scores: np.ndarray) -> tuple[WordScore, ...]:
    """Returns the score of each sentence as that of its words."""
    words, place = [], 0
    for sentence, score in zip(sentences, scores, strict=True):
        place = response.index(sentence, place)
        for is_space, letters in itertools.groupby(enumerate(sentence), lambda x: x[1].isspace()):
            offsets = [offset for offset, _ in letters]
            if not is_space:
                start, end = place + offsets[0], place + offsets[-1] + 1
                words.append(WordScore(response[start:end], start, end, float(score)))
        place += len(sentence)
    return tuple(words)


def summac_zs_scorer(
    model: str | None = None,
    labels: str | Sequence[str] | None = None,
    use_contradiction: bool = False,
    **options: Unpack[ClassifierOptions],
) -> SummaCScorer:
    """Returns SummaC-ZS.

    Args:
      model: a folder of an NLI classifier.
      labels: see `nli_label_numbers`.
      use_contradiction: subtract the largest contradiction too, the default of the authors' code;
        the paper and TRUE have entailment alone.
      **options: see `ClassifierOptions`.

    Raises:
      ConfigError: without a model, and for a wrong option.
    """
    check_options({"use_contradiction": use_contradiction})
    classify = pair_classifier(model, **options)
    numbers = nli_label_numbers(classify.label_names, labels)
    contradiction = numbers[NliLabel.CONTRADICTION] if use_contradiction else None
    return SummaCScorer(classify, numbers[NliLabel.ENTAILMENT], contradiction)
