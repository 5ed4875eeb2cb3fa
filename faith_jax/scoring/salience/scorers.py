"""Scores how far a response's words come from the grounding, and the grounding's words go into it.

Reference: Chang 2024, section 3.2 and appendix C. The paper's hallucination score is 1 minus
`salience_hallucination`, and its coverage error score is 1 minus `salience_coverage`.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Unpack, cast

import numpy as np

from faith_jax.checkpoints.embedded import warn_of_other_texts
from faith_jax.core.cutting import by_name
from faith_jax.core.types import GroundedExample, WordScore
from faith_jax.inference.base import BaseModel
from faith_jax.inference.opening import ModelOptions, check_options, keep_opened
from faith_jax.inference.texts.text_reader import open_text_reader
from faith_jax.scoring.base import Judgement, ModelScorer, remembers_last
from faith_jax.scoring.model_cards import CARDS
from faith_jax.scoring.salience.gradients import SalienceEngine
from faith_jax.scoring.salience.inputs import SalienceEncoder, SalienceInput
from faith_jax.scoring.salience.maps import METHODS
from faith_jax.statistics.texts import salience_scores as scores
from faith_jax.statistics.texts.salience_scores import WordSalience


class Salience:
    """Computes word-to-word maps with the engine and the encoder of one model."""

    def __init__(self, engine: SalienceEngine, encode: SalienceEncoder):
        self.engine, self.encode = engine, encode

    def __call__(self, examples: Sequence[GroundedExample]) -> list[WordSalience | None]:
        """Returns the map of each example; None if the response is empty."""
        rows = [self.encode(example) for example in examples]
        maps = iter(self.maps([row for row in rows if row is not None]))
        return [None if row is None else next(maps) for row in rows]

    @remembers_last
    def maps(self, rows: Sequence[SalienceInput]) -> list[WordSalience]:
        """Returns the map of each row."""
        columns = [_list_response_tokens(row) for row in rows]
        maps = self.engine.maps([row.row for row in rows], columns)
        return list(map(_of_words, rows, maps))


def _list_response_tokens(salience_input: SalienceInput) -> list[int]:
    """Returns the targets that need a column: the tokens of the response's words."""
    return sorted({token for word in salience_input.response_words for token in word.tokens})


def _of_words(salience_input: SalienceInput, token_map: np.ndarray) -> WordSalience:
    column_of = {
        token: column for column, token in enumerate(_list_response_tokens(salience_input))
    }
    values = scores.word_map(
        token_map,
        [word.tokens for word in salience_input.argument_words],
        [[column_of[token] for token in word.tokens] for word in salience_input.response_words],
    )
    return WordSalience(
        tuple(word.word for word in salience_input.argument_words),
        tuple(word.word for word in salience_input.response_words),
        values,
        by_name(salience_input.cut),
    )


class SalienceOptions(ModelOptions, total=False):
    """Options of the maps: the method "gradient_x_input" or "gradient_l2"; see `salience_maps`."""

    method: str
    max_bytes: int | None


class SalienceScorer(ModelScorer[SalienceInput]):
    """Scores by salience; a word's score is its attribution or its contribution.

    The score is NaN if there are no content words.

    Args:
      name: "salience_hallucination" or "salience_coverage".
      model: the model that wrote the responses, or another language model.
      aggregation: how the entries of a word are combined: "max", "sum" or "negative_entropy".
      mean: the mean over words: "geometric" or "arithmetic".
      **options: see `SalienceOptions`.

    Raises:
      ConfigError: without a model, or for a wrong option.
    """

    def __init__(
        self,
        name: str,
        model: str | None = None,
        aggregation: str = "max",
        mean: str = "geometric",
        **options: Unpack[SalienceOptions],
    ):
        scores.check_choice("aggregation", aggregation, scores.AGGREGATIONS)
        scores.check_choice("mean", mean, scores.MEANS)
        self.card = CARDS[name]
        if aggregation == "sum":  # the sum of several words' shares may exceed 1
            self.card = dataclasses.replace(self.card, high=math.inf)
        self._compute = open_salience(model, **options)
        self._aggregation, self._mean = aggregation, mean

    def read(self, example: GroundedExample) -> SalienceInput | None:
        """Returns the tokens of inputs and response, and the words of both."""
        return self._compute.encode(example)

    def texts(self, row: SalienceInput) -> dict[str, str]:
        to_readable = self._compute.encode.reader.to_readable
        return {"input": to_readable(row.row.inputs), "response": to_readable(row.row.targets)}

    def judge_rows(
        self, examples: Sequence[GroundedExample], rows: Sequence[SalienceInput]
    ) -> list[Judgement]:
        warn_of_other_texts(self._compute.engine.model.path, (e.grounding for e in examples))
        judgements = []
        for salience in self._compute.maps(rows):
            if self.card.name == "salience_hallucination":
                words, values = salience.response_words, salience.attributions(self._aggregation)
                value = salience.attribution_score(self._aggregation, self._mean)
            else:
                words, values = salience.argument_words, salience.contributions(self._aggregation)
                value = salience.contribution_score(self._aggregation, self._mean)
            shares = (
                WordScore(word.text, word.start, word.end, float(share), text=word.number)
                for word, share in zip(words, values, strict=True)
            )
            judgements.append(Judgement(value, tuple(shares)))
        return judgements


def open_salience(model: str | BaseModel | None, **options: Unpack[SalienceOptions]) -> Salience:
    """Opens a language model for salience, once for all scorers with the same path and options.

    These scorers share the maps of the last rows. Giving an option its default value has the same
    effect as leaving it out.

    Raises:
      ConfigError: without a model, or for a wrong option.
    """
    check_options(options)
    method = options.get("method", METHODS[0])
    scores.check_choice("method", method, METHODS)
    all_options = {**options, "method": method}
    set_options = {name: value for name, value in all_options.items() if value is not None}
    return _load_salience(model, **cast(SalienceOptions, set_options))


@keep_opened(maxsize=4)
def _load_salience(model: str | BaseModel | None, **options: Unpack[SalienceOptions]) -> Salience:
    opened, reader = open_text_reader(model, options)
    limits = options.get("tokens_per_batch"), options.get("max_bytes")
    return Salience(SalienceEngine(opened, options["method"], *limits), SalienceEncoder(reader))
