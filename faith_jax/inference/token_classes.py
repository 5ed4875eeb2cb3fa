"""Class probabilities of each token of many rows, by an encoder with a head on its tokens."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from faith_jax.core.types import Array, PyTree
from faith_jax.inference.batching import Batcher, bucket_length, padded
from faith_jax.inference.encoder import EncoderModel
from faith_jax.models.transformer import Transformer


@functools.partial(jax.jit, static_argnums=0)
def _probabilities(
    module: Transformer, params: PyTree, tokens: Array
) -> Float[Array, "rows length classes"]:
    logits: Any = module.apply({"params": params}, tokens, False, method="classify_tokens")
    return jax.nn.softmax(logits)


@dataclasses.dataclass(frozen=True)
class TokenClassEngine:
    """A model with a head on its tokens.

    Attributes:
      model: the model, whose config has `token_label_names`.
      tokens_per_batch: see `Batcher`.
    """

    model: EncoderModel
    tokens_per_batch: int | None = None

    def probabilities(self, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Returns the probabilities of each row's tokens, float32 [tokens, classes].

        Args:
          rows: token ids with special tokens, in any order.
        """
        model = self.model
        batcher = Batcher(
            "classes of the tokens",
            self.tokens_per_batch,
            on_cpu=4096,
            multiple_of=model.partitioner.data_parallelism,
        )
        bound = functools.partial(_probabilities, model.module, model.params)
        all_probabilities = [np.zeros(0)] * len(rows)
        for batch in batcher.batches([(bucket_length(len(row)),) for row in rows]):
            batch_rows = [rows[number] for number in batch.rows]
            tokens = padded(batch_rows, batch.shape[0], model.pad_id, batch.size)
            tokens[len(batch_rows) :, 0] = batch_rows[0][0]  # something to attend to
            probabilities = model.partitioner.compute(bound, tokens)
            for line, number in enumerate(batch.rows):
                all_probabilities[number] = probabilities[line, : len(rows[number])]
        return all_probabilities
