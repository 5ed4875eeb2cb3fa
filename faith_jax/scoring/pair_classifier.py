"""Classifiers of premise and hypothesis, opened once for all scorers with the same options.

A model is an encoder with a classification head, or an encoder-decoder that generates the class.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Unpack

import numpy as np

from faith_jax.core.cutting import CutTokens
from faith_jax.core.errors import ConfigError, all_of
from faith_jax.inference.class_probabilities import ClassificationEngine, DropoutPasses, LabelTexts
from faith_jax.inference.encoder import EncoderModel
from faith_jax.inference.encoder_decoder import EncoderDecoderModel
from faith_jax.inference.opening import (
    LONGEST_PAIR,
    ModelOptions,
    check_ids,
    check_options,
    has_independent_classes,
    input_limit,
    keep_opened,
    open_model,
    open_tokenizer,
    require_model,
)
from faith_jax.inference.texts.row_tokens import InputLayout
from faith_jax.inference.texts.text_pairs import (
    NLI_FORM,
    LabelForm,
    PairEncoder,
    PairRow,
    label_tokens,
)
from faith_jax.scoring.base import remembers_last

_REMEDY = "give label_words as it was trained, or a model that was trained for this scorer"


class ClassifierOptions(ModelOptions, total=False):
    """The options of all scorers that use classifiers.

    By default an encoder reads 512 tokens and an encoder-decoder 1,024, or as many as the model has
    positions if these are fewer.

    Attributes:
      label_words: the texts that an encoder-decoder generates for the classes, in the order of the
        names in `LabelForm`, as a list or with commas; default: these names. Not for encoders.
      dropout_passes: k of Monte-Carlo dropout (Steen 2023, section 2.2: 15); default: 0, none.
      seed: the seed of the dropout, only with dropout_passes; default: 0.
      dropout_rate: the rate of the dropout, in (0, 1), only with dropout_passes; default: the rate
        of the model's training.
    """

    label_words: str | Sequence[str] | None
    dropout_passes: int
    seed: int | None
    dropout_rate: float | None


class PairRows(Protocol):
    """The pairs of texts that are read for an example, and how many of their tokens are cut."""

    @property
    def rows(self) -> Sequence[PairRow]:
        """A row for each pair."""

    @property
    def cut(self) -> CutTokens:
        """The numbers of tokens that were cut, by kind of text."""


@dataclasses.dataclass(eq=False)
class PairClassifier:
    """The class probabilities of premises and hypotheses.

    Attributes:
      label_names: the names of the classes, in order.
      label_words: the texts that an encoder-decoder generates; empty = the model has a head.
    """

    label_names: tuple[str, ...]
    engine: ClassificationEngine
    encode: PairEncoder
    label_words: tuple[str, ...] = ()

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> tuple[np.ndarray, list[CutTokens]]:
        """Returns float32 [pairs, classes], and how many tokens of each pair were cut.

        Raises:
          InputError: a pair is too long and cannot be cut.
        """
        rows = [self.encode(*pair, f"pair {number}") for number, pair in enumerate(pairs, 1)]
        return self.probabilities(rows), [row.cut for row in rows]

    def choose_shapes(self, examples: Sequence[Sequence[PairRow]], window: int, total: int) -> None:
        """Chooses the shapes of a job of `total` examples by a sample's rows, listed by example.

        `window` examples are in a call; see `ClassificationEngine.choose_shapes`.
        """
        ids = [row.ids for rows in examples for row in rows]
        self.engine.choose_shapes(ids, self.encode.max_length, window, total, len(examples))

    @remembers_last
    def probabilities(self, rows: Sequence[PairRow]) -> np.ndarray:
        """Returns float32 [rows, classes]."""
        ids = [row.ids for row in rows]
        probabilities = self.engine.probabilities(ids, [row.second for row in rows])
        if self.label_words:  # not for encoders, whose head has the classes
            self.engine.warn_of_rare_labels(ids, self.label_words, _REMEDY)
        return probabilities

    def by_example(self, examples: Sequence[PairRows]) -> list[np.ndarray]:
        """Returns the probabilities of the rows of each example, float32 [rows, classes]."""
        ends = np.cumsum([len(example.rows) for example in examples], dtype=int)
        probabilities = self.probabilities([row for example in examples for row in example.rows])
        return np.split(probabilities, ends)[:-1]

    def show_first(self, example: PairRows, name: str) -> dict[str, str]:
        """Returns an example's first input, rebuilt from its tokens; empty if it has none."""
        if not example.rows:
            return {}
        text = self.encode.tokenizer.to_readable(example.rows[0].ids)
        return {f"{name} 1 of {len(example.rows)}": text}


def pair_classifier(
    model: str | None,
    form: LabelForm = NLI_FORM,
    check_classes: Callable[[tuple[str, ...]], Any] | None = None,
    **options: Unpack[ClassifierOptions],
) -> PairClassifier:
    """Opens a classifier of text pairs, once for all scorers with the same options.

    `form` is the input format and the classes of an encoder-decoder. `check_classes` gets the names
    of the classes in the model's order, and may raise a ConfigError.

    Raises:
      ConfigError: without a model, or for a wrong option; lists all problems of the model.
    """
    path = require_model(model)
    check_options(options)
    words = name_list("label_words", options.get("label_words"))
    passes = DropoutPasses(
        options.get("dropout_passes", 0), options.get("seed"), options.get("dropout_rate")
    )
    model_options: dict[str, Any] = {
        name: value for name, value in options.items() if name in ModelOptions.__annotations__
    }

    def check_names() -> None:
        # `open_model` caches this model, which the classifier uses too.
        opened = open_model(path, options.get("dtype"), options.get("num_partitions"))
        names: tuple[str, ...] = ()
        if isinstance(opened, EncoderModel):
            names = opened.label_names
        elif isinstance(opened, EncoderDecoderModel):
            names = form.class_names(form.classes if words is None else words)
        if names and check_classes:
            check_classes(names)

    # Runs both even if the first fails, since the classes may explain its errors.
    classifier, _ = all_of(
        lambda: _open_classifier(path, form, words, passes, **model_options), check_names
    )
    return classifier


def name_list(option: str, names: Any) -> tuple[str, ...] | None:
    """Returns names that are given as a list or with commas; None stays None.

    Raises:
      ConfigError: the names have another form.
    """
    parts = names.split(",") if isinstance(names, str) else names
    if parts is None:
        return None
    if not isinstance(parts, list | tuple) or not all(isinstance(name, str) for name in parts):
        raise ConfigError(f"{option}: expected texts, one for each class; got {names!r}.")
    return tuple(name.strip() for name in parts)


@keep_opened(maxsize=8)
def _open_classifier(
    model: str,
    form: LabelForm,
    words: tuple[str, ...] | None,
    dropout: DropoutPasses,
    vocabulary: str | None = None,
    max_length: int | None = None,
    cut_policy: str = "knowledge",
    dtype: str | None = None,
    tokens_per_batch: int | None = None,
    num_partitions: int | None = None,
) -> PairClassifier:
    opened = open_model(model, dtype, num_partitions)
    config, labels = opened.config, None
    if isinstance(opened, EncoderModel):
        if words is not None:
            raise ConfigError(
                "label_words: are of encoder-decoders; an encoder's classes have names."
            )
        if has_independent_classes(model):
            raise ConfigError(
                f"model {model}: config.json: field 'problem_type': expected classes that exclude "
                "each other (softmax), got multi_label_classification; write a judge's card with "
                'form = "class" and activation = "sigmoid", which reads one class by itself.'
            )
        names, inputs = opened.label_names, None
        engine, limit, tokenizer = all_of(
            lambda: ClassificationEngine(opened, None, dropout, tokens_per_batch),
            lambda: input_limit(config, max_length, LONGEST_PAIR),
            lambda: open_tokenizer(model, vocabulary, config),
        )
    elif isinstance(opened, EncoderDecoderModel) and not config.knowledge_attention:
        words, inputs = form.classes if words is None else words, form.inputs
        names, limit, tokenizer = all_of(
            lambda: form.class_names(words),
            lambda: input_limit(config, max_length),
            lambda: open_tokenizer(model, vocabulary, config),
        )
        targets = [check_ids(ids, config.vocab_size) for ids in label_tokens(tokenizer, words)]
        prefix = InputLayout.of(config, tokenizer).target_prefix
        labels = LabelTexts.of(targets, "sum", prefix)
        engine = ClassificationEngine(opened, labels, dropout, tokens_per_batch)
    else:
        kind = "DoHA" if config.knowledge_attention else type(opened).__name__
        raise ConfigError(
            f"model {model}: expected an encoder with a classification head (BERT, RoBERTa, "
            f"DeBERTa …) or an encoder-decoder of one input that writes the class (T5, BART), got "
            f"{kind}."
        )
    encode = PairEncoder(tokenizer, config.vocab_size, limit, cut_policy, inputs)
    return PairClassifier(names, engine, encode, words or ())
