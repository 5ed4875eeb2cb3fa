"""Salience of words: where a response's words come from, and which given words went into it.

Reference: Chang 2024, section 3.2 and appendix C. Its hallucination score is 1 less the value of
`salience_hallucination`, its coverage error score 1 less that of `salience_coverage`.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Unpack

import numpy as np

from faith_jax.core.cutting import by_name
from faith_jax.core.types import GroundedExample, Score, WordScore
from faith_jax.inference.opening import ModelOptions, check_options
from faith_jax.inference.text_reader import open_text_reader
from faith_jax.scoring.base import BaseScorer, SeenInput, remembers_last
from faith_jax.scoring.model_cards import SALIENCE
from faith_jax.scoring.salience.engine import SalienceEngine
from faith_jax.scoring.salience.inputs import SalienceEncoder, SalienceInput
from faith_jax.scoring.salience.maps import METHODS
from faith_jax.statistics import salience_scores as scores
from faith_jax.statistics.salience_scores import WordSalience


class Salience:
    """Computes word-to-word maps, and remembers the last examples'.

    Args:
      engine: of the model.
      encode: of the same model.
    """

    def __init__(self, engine: SalienceEngine, encode: SalienceEncoder):
        self.engine, self.encode = engine, encode

    @remembers_last
    def __call__(self, examples: Sequence[GroundedExample]) -> list[WordSalience | None]:
        """Returns the map of each example, None where the response is empty."""
        inputs = [self.encode(example) for example in examples]
        there = [given for given in inputs if given is not None]
        columns = [_columns(given) for given in there]
        maps = iter(self.engine.maps([given.row for given in there], columns))
        return [None if given is None else _of_words(given, next(maps)) for given in inputs]


def _columns(given: SalienceInput) -> list[int]:
    """Returns the targets whose salience is looked at: the tokens of the response's words."""
    return sorted({token for word in given.response_words for token in word.tokens})


def _of_words(given: SalienceInput, token_map: np.ndarray) -> WordSalience:
    column_of = {token: column for column, token in enumerate(_columns(given))}
    values = scores.word_map(
        token_map,
        [word.tokens for word in given.argument_words],
        [[column_of[token] for token in word.tokens] for word in given.response_words],
    )
    return WordSalience(
        tuple(word.word for word in given.argument_words),
        tuple(word.word for word in given.response_words),
        values,
        by_name(given.cut),
    )


class SalienceScorer(BaseScorer):
    """Scores of salience; a word's score is its attribution or its contribution.

    Args:
      name: "salience_hallucination" or "salience_coverage".
      compute: shared by the scorers of a model.
      aggregation: see `salience_scores.aggregated`.
      mean: see `salience_scores.average`.
    """

    def __init__(self, name: str, compute: Salience, aggregation: str, mean: str):
        self.card = SALIENCE[name]
        if aggregation == "sum":  # shares of several words add up
            self.card = dataclasses.replace(self.card, high=math.inf)
        self._compute, self._aggregation, self._mean = compute, aggregation, mean

    @property
    def num_compilations(self) -> int:
        """How many shapes the model was compiled for."""
        return self._compute.engine.num_compilations

    def score_examples(self, examples: Sequence[GroundedExample]) -> list[Score]:
        """Returns one score for each example, NaN where there are no content words to score."""
        found = self._compute(examples)
        return [Score(math.nan) if s is None else self._score(s) for s in found]

    def _score(self, salience: WordSalience) -> Score:
        if self.card.name == "salience_hallucination":
            words, values = salience.response_words, salience.attributions(self._aggregation)
            value = salience.attribution_score(self._aggregation, self._mean)
        else:
            words, values = salience.argument_words, salience.contributions(self._aggregation)
            value = salience.contribution_score(self._aggregation, self._mean)
        scored = tuple(
            WordScore(word.text, word.start, word.end, float(value), text=word.number)
            for word, value in zip(words, values, strict=True)
        )
        return Score(value, scored, salience.cut)

    def seen(self, example: GroundedExample) -> SeenInput | None:
        """Returns the inputs and the response behind them."""
        encode = self._compute.encode
        given = encode(example)
        if given is None:
            return None
        rows = {"input": given.row.inputs, "response": given.row.targets}
        shown = {name: encode.reader.shown(ids) for name, ids in rows.items()}
        return SeenInput(shown, given.cut)


class SalienceOptions(ModelOptions, total=False):
    """How the maps of a model are made.

    Attributes:
      method: "gradient_x_input" or "gradient_l2".
      max_bytes: see `salience_maps`.
    """

    method: str
    max_bytes: int | None


def open_salience(model: str | None, **options: Unpack[SalienceOptions]) -> Salience:
    """Opens a model for salience, once for all scorers with the same options.

    Args:
      model: a checkpoint of any language model, with its tokenizer.
      **options: see `SalienceOptions`.

    Raises:
      ConfigError: without a model, and for a wrong option.
    """
    check_options(options)
    scores.check_choice("method", options.get("method", METHODS[0]), METHODS)
    return _opened(model, tuple(sorted(item for item in options.items() if item[1] is not None)))


@functools.lru_cache(maxsize=4)
def _opened(model: str | None, given: tuple[tuple[str, object], ...]) -> Salience:
    options: SalienceOptions = dict(given)  # type: ignore[assignment]
    opened, reader = open_text_reader(model, options)
    engine = SalienceEngine(
        opened,
        options.get("method", METHODS[0]),
        options.get("tokens_per_batch"),
        options.get("max_bytes"),
    )
    return Salience(engine, SalienceEncoder(reader))


def salience_scorer(
    name: str,
    model: str | None = None,
    aggregation: str = "max",
    mean: str = "geometric",
    **options: Unpack[SalienceOptions],
) -> SalienceScorer:
    """Returns a salience scorer.

    Args:
      name: "salience_hallucination" or "salience_coverage".
      model: the model that wrote the responses, or another language model.
      aggregation: of a word's entries: "max", "sum" or "negative_entropy".
      mean: over words: "geometric" or "arithmetic".
      **options: see `SalienceOptions`.

    Raises:
      ConfigError: without a model, and for a wrong option.
    """
    scores.check_choice("aggregation", aggregation, scores.AGGREGATIONS)
    scores.check_choice("mean", mean, scores.MEANS)
    return SalienceScorer(name, open_salience(model, **options), aggregation, mean)
