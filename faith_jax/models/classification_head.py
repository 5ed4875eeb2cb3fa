"""The classification head of encoder-only models."""

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Float

from faith_jax.core.types import Array
from faith_jax.models.config import TransformerConfig
from faith_jax.models.layers import ACTIVATION_FUNCTIONS, Projection


class ClassificationHead(nn.Module):
    """A hidden layer on the first token's state, and a projection to the classes.

    RoBERTa uses tanh between them, and dropout before both layers. DeBERTa uses an exact GELU, and
    dropout before the second layer only.
    """

    config: TransformerConfig

    @nn.compact
    def __call__(
        self, hidden: Float[Array, "batch length embed"], *, deterministic: bool
    ) -> Float[Array, "batch classes"]:
        """Maps hidden states [batch, length, embed] to float32 logits [batch, classes]."""
        cfg = self.config
        rate = cfg.classifier_dropout_rate
        drop = nn.Dropout(cfg.dropout_rate if rate is None else rate)
        x = hidden[:, 0].astype(jnp.float32)
        if cfg.positions != "disentangled":
            x = drop(x, deterministic=deterministic)
        x = Projection(cfg.emb_dim, ("embed", "mlp"), use_bias=True, name="dense")(x)
        x = ACTIVATION_FUNCTIONS[cfg.classifier_activation](x)
        x = drop(x, deterministic=deterministic)
        axes = ("mlp", "labels")
        return Projection(len(cfg.label_names), axes, use_bias=True, name="out")(x)
