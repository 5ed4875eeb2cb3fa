"""SeqIO preprocessors, which apply `faith_jax.core.templates` in tf.data."""

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
    """Applies a function of texts to string tensors; returns a scalar string tensor.

    The function gets scalars as texts and vectors as lists of texts. It runs in Python, like most
    tokenizers, so a graph only works in the process that made it.
    """

    def call(*texts: bytes | np.ndarray) -> np.ndarray:
        text = template(*map(_decode, texts), **options)
        # As an object, because NumPy would drop zero bytes at the end otherwise.
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
    """Adds the tokens, int32 [texts, length], of the field `<name>_pretokenized`, a string [texts].

    Tokens are padded with 0. Each text ends with EOS, which is kept if the text is cut.
    `sequence_length` may set the maximum number of texts and of tokens in each; otherwise there are
    at most `max_texts` texts.
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

    See `faith_jax.core.templates`; a cache of texts has the published delimiters. They are kept if
    the vocabulary can write none; code that reads the texts then raises an error, except encoders
    of text pairs, which do not read them.
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
    """Returns the text of a scalar integer label; labels are numbered from 0."""
    return tf.constant([texts[i] for i in range(len(texts))])[label]
