"""Classifiers of premise and hypothesis, opened once for all scorers that ask for the same one.

A model is an encoder with a classification head, or an encoder-decoder that writes the class.
"""

import functools
from collections.abc import Sequence
from typing import Any, Protocol, TypedDict, Unpack

import numpy as np

from faith_jax.core.cutting import CutTokens, check_policy
from faith_jax.core.errors import ConfigError
from faith_jax.inference import EncoderDecoderModel, EncoderModel
from faith_jax.inference.class_probabilities import ClassificationEngine, check_dropout
from faith_jax.inference.label_probabilities import NLI_FORM, LabelForm, open_label_words
from faith_jax.inference.opening import (
    check_text,
    check_whole,
    forget_models,
    open_model,
    open_tokenizer,
    require_model,
)
from faith_jax.inference.text_pairs import PairEncoder, PairRow, row_length
from faith_jax.tokenizers.base import Tokenizer


class ClassifierOptions(TypedDict, total=False):
    """The options that all scorers of classifiers have.

    Attributes:
      vocabulary: where the tokenizer is, if not with the model.
      max_length: tokens of a row; default: 512 of an encoder and 1,024 of an encoder-decoder, or
        fewer where the positions end before.
      cut_policy: what a longer row loses, see `core.cutting`.
      label_words: what an encoder-decoder writes for each class, in the order of the names that
        `LabelForm` has, as a list or with commas; default: these names. Not of encoders.
      dropout_passes: k of Monte-Carlo dropout (Steen 2023, section 2.2: 15); default: 0, none.
      seed: of the dropout, with dropout_passes only; default: 0.
      dropout_rate: of the dropout, in (0, 1), likewise; default: as the model was trained.
      dtype: of activations.
      tokens_per_batch: see `ClassificationEngine` and `LabelWordEngine`.
    """

    vocabulary: str | None
    max_length: int | None
    cut_policy: str
    label_words: str | Sequence[str] | None
    dropout_passes: int
    seed: int | None
    dropout_rate: float | None
    dtype: str | None
    tokens_per_batch: int | None


class Engine(Protocol):
    """What gives class probabilities [rows, classes] of token ids."""

    @property
    def num_compilations(self) -> int:
        """How many shapes were compiled."""
        ...

    def probabilities(self, rows: Sequence[Sequence[int]]) -> np.ndarray:
        """Returns the class probabilities of rows."""
        ...


class Encoder(Protocol):
    """What makes rows of two texts."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's."""
        ...

    def __call__(self, premise: str, hypothesis: str, name: str = ...) -> PairRow:
        """Returns the row of a premise and a hypothesis."""
        ...


class PairClassifier:
    """The class probabilities of premises and hypotheses, remembered for the last ones.

    Several scorers of one run share it, so that the model runs once for all of them.

    Args:
      label_names: the classes, in order.
      engine: of the model.
      encode: of the same model.
    """

    def __init__(self, label_names: tuple[str, ...], engine: Engine, encode: Encoder):
        self.label_names, self.engine, self.encode = label_names, engine, encode
        self._last: tuple[tuple[tuple[str, str], ...], tuple[np.ndarray, list[CutTokens]]]
        self._last = ((), (np.zeros((0, len(label_names))), []))

    def __call__(
        self, pairs: Sequence[tuple[str, str]], names: Sequence[str] = ()
    ) -> tuple[np.ndarray, list[CutTokens]]:
        """Returns the probabilities [pairs, classes] and how many tokens of each were cut.

        Args:
          pairs: premises and hypotheses.
          names: of the pairs, for errors; () = by their numbers.

        Raises:
          InputError: for a pair that is too long and cannot be cut.
        """
        key = tuple(pairs)
        if key != self._last[0]:
            told = names or [f"pair {number}" for number in range(1, len(pairs) + 1)]
            rows = [self.encode(*pair, name) for pair, name in zip(pairs, told, strict=True)]
            probabilities = self.engine.probabilities([row.ids for row in rows])
            self._last = (key, (probabilities, [row.cut for row in rows]))
        return self._last[1]


def pair_classifier(
    model: str | None, form: LabelForm = NLI_FORM, **options: Unpack[ClassifierOptions]
) -> PairClassifier:
    """Opens a classifier of text pairs, once for all scorers with the same options.

    Args:
      model: its folder.
      form: what the model reads and writes, if it is an encoder-decoder.
      **options: see `ClassifierOptions`.

    Raises:
      ConfigError: without a model, and for a wrong option.
    """
    path = require_model(model)
    for name in ("vocabulary", "dtype"):
        check_text(name, options.get(name))
    check_whole("max_length", options.get("max_length"), 8)
    check_whole("tokens_per_batch", options.get("tokens_per_batch"), 1)
    cut_policy, passes = options.get("cut_policy", "knowledge"), options.get("dropout_passes", 0)
    check_policy(cut_policy, "cut_policy")
    check_dropout(passes, options.get("seed"), options.get("dropout_rate"))
    given: dict[str, Any] = {name: options.get(name) for name in ClassifierOptions.__annotations__}
    words = _listed(given["label_words"])
    given |= {"cut_policy": cut_policy, "dropout_passes": passes, "label_words": words}
    return _opened(path, form, **given)


def _listed(words: Any) -> tuple[str, ...] | None:
    if words is None:
        return None
    given = words.split(",") if isinstance(words, str) else words
    if not isinstance(given, list | tuple) or not all(isinstance(word, str) for word in given):
        raise ConfigError(f"label_words: expected texts, one for each class; got {words!r}.")
    return tuple(word.strip() for word in given)


@functools.lru_cache(maxsize=8)
def _opened(
    model: str,
    form: LabelForm,
    *,
    vocabulary: str | None,
    max_length: int | None,
    cut_policy: str,
    label_words: tuple[str, ...] | None,
    dtype: str | None,
    **engine: Any,
) -> PairClassifier:
    opened = open_model(model, dtype)
    if isinstance(opened, EncoderDecoderModel):
        tokenizer = open_tokenizer(model, vocabulary, opened.config)
        return PairClassifier(
            *open_label_words(
                opened, tokenizer, form, label_words, max_length, cut_policy, **engine
            )
        )
    if not isinstance(opened, EncoderModel):
        raise ConfigError(
            f"model {model}: expected an encoder with a classification head (RoBERTa, DeBERTa-v3) "
            f"or an encoder-decoder that writes the class (T5), got {type(opened).__name__}."
        )
    if label_words is not None:
        raise ConfigError("label_words: are of encoder-decoders; an encoder's classes have names.")
    limit = row_length(opened.config, max_length)
    classification = ClassificationEngine(opened, **engine)
    tokenizer = open_tokenizer(model, vocabulary, opened.config)
    encode = PairEncoder(tokenizer, opened.config.vocab_size, limit, cut_policy)
    return PairClassifier(opened.label_names, classification, encode)


def forget_classifiers() -> None:
    """Lets go of all classifiers and models that are opened, for runs of one after another."""
    _opened.cache_clear()
    forget_models()
