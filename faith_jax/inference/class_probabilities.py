"""Class probabilities of many rows of any length, in few compiled shapes, with dropout or without.

Reference: Steen 2023, section 2.2, for the mean over Monte-Carlo dropout masks (Gal 2016).
"""

import functools
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.core.errors import ConfigError
from faith_jax.core.progress import Progress
from faith_jax.core.types import Array, PyTree
from faith_jax.inference.encoder import EncoderModel
from faith_jax.inference.opening import check_whole, expect_whole
from faith_jax.inference.row_likelihoods import rung
from faith_jax.models.config import TransformerConfig
from faith_jax.models.transformer import Transformer

_LENGTHS = (32, 64, 128, 256, 384, 512)


@functools.partial(jax.jit, static_argnums=0)
def _probabilities(module: Transformer, params: PyTree, tokens: Array) -> Array:
    logits: Any = module.apply({"params": params}, tokens, False, method="classify")
    return jax.nn.softmax(logits, axis=-1)


@functools.partial(jax.jit, static_argnums=(0, 4))
def _mean_with_dropout(
    module: Transformer, params: PyTree, tokens: Array, row_keys: Array, passes: int
) -> Array:
    """Returns the mean class probabilities over exactly `passes` dropout masks a row."""

    def one_row(row: Array, key: Array) -> Array:
        logits: Any = module.apply(
            {"params": params}, row[None], True, method="classify", rngs={"dropout": key}
        )
        return jax.nn.softmax(logits[0], axis=-1)

    def one_pass(number: Array) -> Array:
        keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(row_keys, number)
        return jax.vmap(one_row)(tokens, keys)

    return jnp.mean(jax.lax.map(one_pass, jnp.arange(passes)), axis=0)


def length_batches(
    rows: Sequence[Sequence[int]], ladder: Sequence[int], tokens_per_batch: int, pad_id: int
) -> Iterator[tuple[np.ndarray, list[int]]]:
    """Yields rows of like lengths as batches of few shapes, with the rows' numbers.

    Args:
      rows: token ids.
      ladder: see `rung`.
      tokens_per_batch: padding included; a batch has at least one row.
      pad_id: of the model; rows that only fill up have nothing else.

    Yields:
      int32 [size, length], and the numbers of the rows that stand in its first lines.
    """
    by_length: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        by_length.setdefault(rung(len(row), ladder), []).append(number)
    progress = Progress("classes of row", len(rows))
    for length, numbers in by_length.items():
        size = max(1, tokens_per_batch // length)
        for start in range(0, len(numbers), size):
            batch = numbers[start : start + size]
            tokens = np.full((size, length), pad_id, np.int32)
            for line, number in zip(tokens, batch, strict=False):
                line[: len(rows[number])] = rows[number]
            yield tokens, batch
            progress.add(len(batch))


def row_keys(seed: int, tokens: np.ndarray, pad_id: int) -> Array:
    """Returns the key of each row's dropout, whatever its batch.

    Args:
      seed: of the run.
      tokens: int32 [rows, length]; the checksum of those that are no padding tells rows apart.
      pad_id: of the model.
    """
    sums = [zlib.crc32(row[row != pad_id].tobytes()) for row in tokens]
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(
        jax.random.key(seed), jnp.asarray(sums, jnp.uint32)
    )


def check_dropout(passes: Any, seed: Any, rate: Any) -> None:
    """Checks the options of Monte-Carlo dropout.

    Args:
      passes: how many; 0 = none.
      seed: None = not given.
      rate: None = not given.

    Raises:
      ConfigError: on a wrong value, and on a seed or rate that nothing would be done with.
    """
    expect_whole("dropout_passes", passes, 0)
    for name, value in (("seed", seed), ("dropout_rate", rate)):
        if value is not None and not passes:
            raise ConfigError(
                f"{name}: is of Monte-Carlo dropout; give dropout_passes too, such as "
                "dropout_passes=15."
            )
    check_whole("seed", seed, 0)
    number = isinstance(rate, int | float) and not isinstance(rate, bool)
    if rate is not None and not (number and 0 < rate < 1):
        raise ConfigError(f"dropout_rate: expected a share in (0, 1), got {rate!r}.")


class ClassificationEngine:
    """Classifies rows with one model.

    Args:
      model: with a classification head.
      dropout_passes: k of Monte-Carlo dropout; 0 = one pass without dropout.
      seed: of the dropout, None = 0. A row's masks are a function of the seed and of its tokens,
        so that neither order nor batch changes its score.
      dropout_rate: of Monte-Carlo dropout, in (0, 1); None = as the model was trained.
      tokens_per_batch: tokens of a batch, padding included; default: 2,048 on a CPU, else 32,768.

    Raises:
      ConfigError: for a model without a head, for dropout passes in a model without dropout, and as
        `check_dropout`.
    """

    def __init__(
        self,
        model: EncoderModel,
        dropout_passes: int = 0,
        seed: int | None = None,
        dropout_rate: float | None = None,
        tokens_per_batch: int | None = None,
    ):
        if not model.label_names:
            raise ConfigError(
                "the model has no classification head; give a checkpoint that was fine-tuned for "
                "sequence classification."
            )
        check_dropout(dropout_passes, seed, dropout_rate)
        self.model, self.dropout_passes, self._seed = model, dropout_passes, seed or 0
        self._module = model.module
        if dropout_passes:
            self._module = Transformer(with_dropout(model.config, dropout_rate))
        if tokens_per_batch is None:
            tokens_per_batch = 2048 if jax.default_backend() == "cpu" else 32768
        self._tokens_per_batch = tokens_per_batch
        self._compiled: set[tuple[int, int]] = set()

    @property
    def num_compilations(self) -> int:
        """How many shapes were compiled for this engine."""
        return len(self._compiled)

    def probabilities(self, rows: Sequence[Sequence[int]]) -> np.ndarray:
        """Returns float32 [rows, classes], each row sums to 1.

        Args:
          rows: token ids with special tokens, in any order.
        """
        found = np.zeros((len(rows), len(self.model.label_names)), np.float32)
        for tokens, numbers in length_batches(
            rows, _LENGTHS, self._tokens_per_batch, self.model.pad_id
        ):
            self._compiled.add(tokens.shape)
            found[numbers] = np.asarray(self._classify(tokens))[: len(numbers)]
        return found

    def _classify(self, tokens: np.ndarray) -> Array:
        if not self.dropout_passes:
            return _probabilities(self._module, self.model.params, tokens)
        keys = row_keys(self._seed, tokens, self.model.pad_id)
        return _mean_with_dropout(
            self._module, self.model.params, tokens, keys, self.dropout_passes
        )


def with_dropout(config: TransformerConfig, rate: float | None) -> TransformerConfig:
    """Returns the configuration of a model for Monte-Carlo dropout.

    Args:
      config: of the model.
      rate: of all its dropout; None = as it was trained.

    Raises:
      ConfigError: where it was trained without.
    """
    if rate is not None:
        return config.replace(
            dropout_rate=rate, attention_dropout_rate=rate, classifier_dropout_rate=rate
        )
    rates = (config.dropout_rate, config.attention_weights_dropout, config.classifier_dropout_rate)
    if not any(rates):
        raise ConfigError(
            "dropout_passes: the model was trained without dropout, so that all passes would be "
            "the same; give dropout_rate=0.1 or another."
        )
    return config
