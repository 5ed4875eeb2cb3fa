"""The parts of tools/benchmark.py with T5X: its network, model class, losses and decoder.

The network has the same parameters and the same batch as ours. A training step is one compiled
function of T5X's loss and gradient with optax's AdamW, which our step also uses.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from faith_jax.models.config import TransformerConfig

Part = Callable[[], Any]
_FIELDS = (
    "vocab_size", "emb_dim", "num_heads", "num_encoder_layers", "num_decoder_layers", "head_dim",
    "mlp_dim", "mlp_activations", "dropout_rate", "logits_via_embedding",
)  # fmt: skip
# Rows never end, so that all sides decode the same number of tokens.
_NO_END = -1


def parts(config: TransformerConfig, tokens: Mapping[str, np.ndarray]) -> dict[str, Part]:
    """Returns the parts: a training step, scores and greedy responses.

    Args:
      config: the config of the model.
      tokens: `encoder_input_tokens` int32 [batch, inputs], and `decoder_input_tokens` and
        `decoder_target_tokens` [batch, targets].
    """
    import seqio
    import t5x.decoding
    import t5x.models
    from t5x.adafactor import Adafactor, standard_logical_factor_rules
    from t5x.examples.t5 import network

    module = network.Transformer(
        network.T5Config(**{name: getattr(config, name) for name in _FIELDS})
    )
    vocabulary = seqio.PassThroughVocabulary(config.vocab_size, eos_id=_NO_END)
    model = t5x.models.EncoderDecoderModel(
        module=module,
        input_vocabulary=vocabulary,
        output_vocabulary=vocabulary,
        optimizer_def=Adafactor(logical_factor_rules=standard_logical_factor_rules()),
        decode_fn=functools.partial(t5x.decoding.temperature_sample, temperature=0.0),
    )
    batch = {name: jnp.asarray(rows) for name, rows in tokens.items()}
    batch["decoder_loss_weights"] = jnp.ones_like(batch["decoder_target_tokens"])
    shapes = {name: rows.shape for name, rows in batch.items()}
    params = model.get_initial_variables(jax.random.PRNGKey(0), shapes)["params"]
    optimizer = optax.adamw(1e-3, weight_decay=0.0)
    trained, state = params, optimizer.init(params)

    @jax.jit
    def update(params: Any, state: Any, key: Any) -> Any:
        gradient = jax.grad(lambda p: model.loss_fn(p, batch, key)[0])(params)
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state

    def train() -> None:
        nonlocal trained, state
        trained, state = jax.block_until_ready(update(trained, state, jax.random.PRNGKey(1)))

    score = jax.jit(model.score_batch)
    greedy = jax.jit(lambda p, b: model.predict_batch(p, b, rng=jax.random.PRNGKey(2)))
    return {
        "train": train,
        "score": lambda: jax.block_until_ready(score(params, batch)),
        "greedy": lambda: jax.block_until_ready(greedy(params, batch)),
    }
