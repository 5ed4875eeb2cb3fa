"""SeqIO preprocessors: the texts of `faith_jax.core.templates` in tf.data."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import seqio
import tensorflow as tf

from faith_jax.core.errors import ConfigError
from faith_jax.core.templates import PUBLISHED
from faith_jax.tokenizers.vocabularies import default_vocabulary


def apply_template(template: Callable[..., str], *values: tf.Tensor, **options: Any) -> tf.Tensor:
    """Returns what a function of texts makes of string tensors, a scalar.

    A scalar is a text to the function, and a vector a list of texts. It runs in Python, as most
    tokenizers do, so that a graph works only in the process that made it.
    """

    def call(*texts: bytes | np.ndarray) -> np.ndarray:
        text = template(*map(_decode, texts), **options)
        # An object: else NumPy drops zeros at the end.
        return np.array(text.encode("utf-8", "surrogateescape"), object)

    return tf.ensure_shape(tf.numpy_function(call, values, tf.string, stateful=False), [])


def _decode(texts: bytes | np.ndarray) -> str | list[str]:
    values = texts.tolist() if isinstance(texts, np.ndarray) else texts
    if isinstance(values, list):
        return [text.decode("utf-8", "surrogateescape") for text in values]
    return values.decode("utf-8", "surrogateescape")


def encode_candidates(
    dataset: tf.data.Dataset,
    output_features: Mapping[str, seqio.Feature],
    sequence_length: Mapping[str, Sequence[int]] | None = None,
    *,
    name: str,
    max_texts: int,
) -> tf.data.Dataset:
    """Adds the tokens of the field `<name>_pretokenized`, a string [texts]: int32 [texts, length].

    They are padded with 0. Each text ends with EOS, which is kept where the text is cut.
    `sequence_length` may have the most texts and the most tokens of each; else the texts are at
    most `max_texts`.
    """
    vocabulary = output_features[name].vocabulary
    texts, tokens = (sequence_length or {}).get(name) or (max_texts, None)

    def add(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        encoded = vocabulary.encode_tf(example[f"{name}_pretokenized"][:texts])
        if tokens is not None:
            encoded = encoded[:, : tokens - 1]
        ends = tf.fill([encoded.nrows(), 1], vocabulary.eos_id)
        return {**example, name: tf.concat([encoded, ends], axis=1).to_tensor(0)}

    return dataset.map(add, num_parallel_calls=tf.data.AUTOTUNE)


def write_notation(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Writes inputs and targets with the delimiters of the run's vocabulary.

    See `faith_jax.core.templates`; a cache of texts has the published ones. Where the vocabulary
    can write none, they stay, and whoever reads these texts raises an error: encoders of pairs do
    not.
    """
    notation = default_vocabulary().notation
    if notation == PUBLISHED:
        return dataset

    def write(text: str) -> str:
        with contextlib.suppress(ConfigError):
            return notation.to_model_notation(text)
        return text

    def add(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        written = {name: apply_template(write, example[name]) for name in ("inputs", "targets")}
        return {**example, **written}

    return dataset.map(add, num_parallel_calls=tf.data.AUTOTUNE)


def label_text(label: tf.Tensor, texts: Mapping[int, str]) -> tf.Tensor:
    """Returns the text of an integer label, a scalar; labels count from 0."""
    return tf.constant([texts[i] for i in range(len(texts))])[label]
