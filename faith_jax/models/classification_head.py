"""The classification head."""

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Float

from faith_jax.core.types import Array
from faith_jax.models.config import TransformerConfig
from faith_jax.models.layers import ACTIVATION_FUNCTIONS, LayerNorm, Projection


class ClassificationHead(nn.Module):
    """A hidden layer on a text's state, and a projection to the classes, if there are any.

    The hidden layer's activation is tanh in RoBERTa, BART, T5, BERT and ALBERT, ReLU in DistilBERT,
    and an exact GELU in ELECTRA, DeBERTa and ModernBERT, which adds a norm. Dropout comes before
    the second layer; in RoBERTa, BART, T5 and ELECTRA also before the first. BERT's pooler is the
    hidden layer. HHEM's head has no hidden layer. A token classification head reads all states.
    """

    config: TransformerConfig

    @nn.compact
    def __call__(
        self, states: Float[Array, "*batch embed"], *, deterministic: bool
    ) -> Float[Array, "*batch classes"]:
        """Maps the states of texts or tokens [..., embed] to float32 logits [..., classes].

        Without classes, returns the hidden layer's output, [..., embed].
        """
        cfg = self.config
        rate = cfg.classifier_dropout_rate
        drop = nn.Dropout(cfg.dropout_rate if rate is None else rate)
        # The head is float32 even with bfloat16 activations, like the output layer.
        x = states.astype(jnp.float32)
        if cfg.classifier_input_dropout:
            x = drop(x, deterministic=deterministic)
        # Split over the mesh like a feed-forward layer: first by columns, then by rows.
        if cfg.classifier_hidden:
            axes, use_bias = ("embed", "mlp"), cfg.classifier_bias
            x = Projection(cfg.emb_dim, axes, use_bias=use_bias, name="dense")(x)
            x = ACTIVATION_FUNCTIONS[cfg.classifier_activation](x)
        if cfg.classifier_norm:
            x = LayerNorm(cfg.layer_norm_epsilon, use_bias=cfg.norm_bias, name="norm")(x)
        # Without classes, this is a pooler without a head.
        names = cfg.label_names or cfg.token_label_names
        if not names:
            return x
        x = drop(x, deterministic=deterministic)
        axes = ("mlp", "labels")
        return Projection(len(names), axes, use_bias=True, name="out")(x)
