"""Classifiers of premise and hypothesis, opened once for all scorers that ask for the same one."""

import functools
from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import numpy as np

from faith_jax.scoring.classification import ClassificationEngine, check_dropout
from faith_jax.scoring.models import (
    check_text,
    check_whole,
    open_classifier,
    open_tokenizer,
    require_model,
)
from faith_jax.scoring.text_pairs import PairEncoder, row_length


class ClassifierOptions(TypedDict, total=False):
    """The options that all scorers of classifiers have.

    Attributes:
      vocabulary: where the tokenizer is, if not with the model.
      max_length: tokens of a row; default: 512, or fewer where the positions end before.
      dropout_passes: k of Monte-Carlo dropout (Steen 2023, section 2.2: 15); default: 0, none.
      seed: of the dropout, with dropout_passes only; default: 0.
      dropout_rate: of the dropout, in (0, 1), likewise; default: as the model was trained.
      dtype: of activations.
      tokens_per_batch: see `ClassificationEngine`.
    """

    vocabulary: str | None
    max_length: int | None
    dropout_passes: int
    seed: int | None
    dropout_rate: float | None
    dtype: str | None
    tokens_per_batch: int | None


class PairClassifier:
    """The class probabilities of premises and hypotheses, remembered for the last ones.

    Several scorers of one run share it, so that the model runs once for all of them.

    Args:
      engine: of the model.
      encode: of the same model.
    """

    def __init__(self, engine: ClassificationEngine, encode: PairEncoder):
        self.engine, self.encode = engine, encode
        self._last: tuple[tuple[tuple[str, str], ...], tuple[np.ndarray, list[int]]]
        self._last = ((), (np.zeros((0, len(engine.model.label_names))), []))

    @property
    def label_names(self) -> tuple[str, ...]:
        """The classes, in order."""
        return self.engine.model.label_names

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> tuple[np.ndarray, list[int]]:
        """Returns the probabilities [pairs, classes] and how many tokens of each were cut."""
        key = tuple(pairs)
        if key != self._last[0]:
            rows = [self.encode(premise, hypothesis) for premise, hypothesis in pairs]
            probabilities = self.engine.probabilities([row.ids for row in rows])
            self._last = (key, (probabilities, [row.cut_tokens for row in rows]))
        return self._last[1]


def pair_classifier(model: str | None, **options: Unpack[ClassifierOptions]) -> PairClassifier:
    """Opens a classifier of text pairs, once for all scorers with the same options.

    Args:
      model: its folder.
      **options: see `ClassifierOptions`.

    Raises:
      ConfigError: without a model, and for a wrong option.
    """
    path = require_model(model)
    for name in ("vocabulary", "dtype"):
        check_text(name, options.get(name))
    check_whole("max_length", options.get("max_length"), 8)
    check_whole("tokens_per_batch", options.get("tokens_per_batch"), 1)
    passes = options.get("dropout_passes", 0)
    check_dropout(passes, options.get("seed"), options.get("dropout_rate"))
    given: dict[str, Any] = {name: options.get(name) for name in ClassifierOptions.__annotations__}
    return _opened(path, **(given | {"dropout_passes": passes}))


@functools.lru_cache(maxsize=8)
def _opened(
    model: str, *, vocabulary: str | None, max_length: int | None, dtype: str | None, **engine: Any
) -> PairClassifier:
    opened = open_classifier(model, dtype)
    limit = row_length(opened.config, max_length)
    classification = ClassificationEngine(opened, **engine)
    tokenizer = open_tokenizer(model, vocabulary, opened.config)
    return PairClassifier(classification, PairEncoder(tokenizer, opened.config.vocab_size, limit))
