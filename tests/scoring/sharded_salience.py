"""Compares maps of a batch spread over eight devices with those of one.

Run with `FLAGS` in XLA_FLAGS, in a process of its own: the number of devices is fixed when JAX
starts.
"""

import jax
import numpy as np

from faith_jax.inference import EncoderDecoderModel
from faith_jax.inference.batching import Batcher
from faith_jax.inference.row_likelihoods import LikelihoodRow
from faith_jax.models.config import TransformerConfig
from faith_jax.models.transformer import Transformer, initial_variables
from faith_jax.scoring.salience.gradients import SalienceEngine

FLAGS = "--xla_force_host_platform_device_count=8"
CONFIG = TransformerConfig(
    vocab_size=29,
    emb_dim=8,
    num_heads=2,
    num_encoder_layers=1,
    num_decoder_layers=1,
    head_dim=4,
    mlp_dim=12,
)


def main():
    module = Transformer(CONFIG)
    model = EncoderDecoderModel(CONFIG, initial_variables(module, jax.random.key(0))["params"])
    rng = np.random.default_rng(0)
    rows = [LikelihoodRow(rng.integers(1, 29, 7), rng.integers(1, 29, 5)) for _ in range(11)]
    spread = SalienceEngine(model, tokens_per_batch=8 * 128)
    alone = SalienceEngine(model, tokens_per_batch=128)
    alone._rows, alone._params = None, model.params
    alone._batcher = Batcher("salience", 128)
    for a, b in zip(spread.maps(rows), alone.maps(rows), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)
    leaf = jax.tree.leaves(spread._params)[0]
    print(len(leaf.sharding.device_set), "devices")


if __name__ == "__main__":
    main()
