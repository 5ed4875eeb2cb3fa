"""The classification head of encoder-only models."""

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Float

from faith_jax.core.types import Array
from faith_jax.models.config import TransformerConfig
from faith_jax.models.layers import ACTIVATION_FUNCTIONS, Projection


class ClassificationHead(nn.Module):
    """A hidden layer on a text's first state, and a projection to the classes, if there are any.

    RoBERTa, BERT and ALBERT use tanh between them, DeBERTa an exact GELU. Dropout comes before the
    second layer; in RoBERTa also before the first. BERT's pooler is the hidden layer. T5's head has
    none.
    """

    config: TransformerConfig

    @nn.compact
    def __call__(
        self, first: Float[Array, "*batch embed"], *, deterministic: bool
    ) -> Float[Array, "*batch classes"]:
        """Maps the states of first tokens [..., embed] to float32 logits [..., classes].

        Without classes the result is the hidden layer's, [..., embed].
        """
        cfg = self.config
        rate = cfg.classifier_dropout_rate
        drop = nn.Dropout(cfg.dropout_rate if rate is None else rate)
        # The head is float32 even with bfloat16 activations, as the output layer is.
        x = first.astype(jnp.float32)
        if cfg.classifier_input_dropout:
            x = drop(x, deterministic=deterministic)
        if cfg.classifier_hidden:
            x = Projection(cfg.emb_dim, ("embed", "mlp"), use_bias=True, name="dense")(x)
            x = ACTIVATION_FUNCTIONS[cfg.classifier_activation](x)
        # A pooler without a head.
        if not cfg.label_names:
            return x
        x = drop(x, deterministic=deterministic)
        axes = ("mlp", "labels")
        return Projection(len(cfg.label_names), axes, use_bias=True, name="out")(x)
