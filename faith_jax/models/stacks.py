"""The stacks of encoder and decoder layers, over input embeddings."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.linen import partitioning as nn_partitioning

from faith_jax.models.attention import MultiHeadAttention
from faith_jax.models.config import TransformerConfig
from faith_jax.models.layers import (
    FeedForward,
    OutputKernel,
    RelativePositionBias,
    RMSNorm,
)
from faith_jax.types import Array

_REMAT_POLICIES = {
    "minimal": jax.checkpoint_policies.checkpoint_dots_with_no_batch_dims,
    "full": None,
}


def _norm(cfg: TransformerConfig, name: str) -> RMSNorm:
    return RMSNorm(cfg.layer_norm_epsilon, cfg.dtype, name=name)


def _attention(cfg: TransformerConfig, name: str) -> MultiHeadAttention:
    return MultiHeadAttention(
        cfg.num_heads,
        cfg.head_dim,
        cfg.dropout_rate,
        cfg.float32_attention_logits,
        cfg.dtype,
        name=name,
    )


def _feed_forward(cfg: TransformerConfig) -> FeedForward:
    return FeedForward(
        cfg.mlp_dim, cfg.mlp_activations, cfg.mlp_kernels, cfg.dropout_rate, cfg.dtype, name="mlp"
    )


def _dropout(cfg: TransformerConfig, x: Array, deterministic: bool) -> Array:
    """Drops features for whole sequences at a time, as T5X does."""
    return nn.Dropout(cfg.dropout_rate, broadcast_dims=(-2,))(x, deterministic=deterministic)


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each behind a norm and beside a residual."""

    config: TransformerConfig

    @nn.compact
    def __call__(
        self, x: Array, mask: Array, bias: Array, deterministic: bool
    ) -> tuple[Array, None]:
        """Maps [batch, length, embed] to the same shape (the None is for `scan`)."""
        cfg = self.config
        y = _norm(cfg, "pre_attention_layer_norm")(x)
        y = _attention(cfg, "attention")(y, mask=mask, bias=bias, deterministic=deterministic)
        x = x + _dropout(cfg, y, deterministic)
        y = _norm(cfg, "pre_mlp_layer_norm")(x)
        y = _feed_forward(cfg)(y, deterministic=deterministic)
        return x + _dropout(cfg, y, deterministic), None


class DecoderLayer(nn.Module):
    """Self-attention, attention over the encoder's outputs, and feed-forward."""

    config: TransformerConfig

    @nn.compact
    def __call__(
        self,
        x: Array,
        encoded: Array | None,
        mask: Array | None,
        encoder_mask: Array | None,
        bias: Array,
        cache_position: Array | None,
        deterministic: bool,
        cache_length: int | None,
    ) -> tuple[Array, None]:
        """Maps [batch, length, embed] to the same shape (the None is for `scan`)."""
        cfg = self.config
        y = _norm(cfg, "pre_self_attention_layer_norm")(x)
        y = _attention(cfg, "self_attention")(
            y,
            mask=mask,
            bias=bias,
            deterministic=deterministic,
            cache_position=cache_position,
            cache_length=cache_length,
        )
        x = x + _dropout(cfg, y, deterministic)
        y = _norm(cfg, "pre_cross_attention_layer_norm")(x)
        y = _attention(cfg, "encoder_decoder_attention")(
            y,
            encoded,
            mask=encoder_mask,
            deterministic=deterministic,
            cache_position=cache_position,
        )
        x = x + _dropout(cfg, y, deterministic)
        y = _norm(cfg, "pre_mlp_layer_norm")(x)
        y = _feed_forward(cfg)(y, deterministic=deterministic)
        return x + _dropout(cfg, y, deterministic), None


def _make_layers(
    layer_class: type[nn.Module],
    cfg: TransformerConfig,
    count: int,
    static_argnums: tuple[int, ...],
) -> Any:
    """Returns a list of layers, or one scanned stack of them.

    In a module's `setup`, a list assigned to `layers` is named `layers_0`, `layers_1` …, and a
    stack `layers`, with the layers on axis 0 of each parameter.
    """
    if cfg.remat_policy != "none":
        layer_class = nn_partitioning.remat(
            layer_class,
            prevent_cse=not cfg.scan_layers,
            policy=_REMAT_POLICIES[cfg.remat_policy],
            static_argnums=static_argnums,
        )
    if not cfg.scan_layers:
        return [layer_class(cfg) for _ in range(count)]
    return nn_partitioning.scan_with_axes(
        layer_class,
        variable_axes={"params": 0, "cache": 0, "encoder_cache": 0},
        split_rngs={"params": True, "dropout": True},
        in_axes=nn.broadcast,
        length=count,
        axis_name="layers",
    )(cfg)


def _run_layers(layers: Any, x: Array, *broadcast: Any) -> Array:
    for layer in layers if isinstance(layers, list | tuple) else [layers]:
        x, _ = layer(x, *broadcast)
    return x


def _position_bias(cfg: TransformerConfig, bidirectional: bool) -> RelativePositionBias:
    return RelativePositionBias(
        cfg.num_heads,
        bidirectional=bidirectional,
        num_buckets=cfg.relative_attention_num_buckets,
        max_distance=cfg.relative_attention_max_distance,
        dtype=cfg.dtype,
    )


class Encoder(nn.Module):
    """The stack of encoder layers, over input embeddings."""

    config: TransformerConfig

    def setup(self):
        cfg = self.config
        self.relpos_bias = _position_bias(cfg, bidirectional=True)
        self.layers = _make_layers(EncoderLayer, cfg, cfg.num_encoder_layers, (3,))
        self.encoder_norm = RMSNorm(cfg.layer_norm_epsilon, cfg.dtype)
        self.dropout = nn.Dropout(cfg.dropout_rate)
        self.embedding_dropout = nn.Dropout(cfg.dropout_rate, broadcast_dims=(-2,))

    def __call__(self, embeddings: Array, mask: Array, *, deterministic: bool) -> Array:
        """Encodes [batch, length, embed]; mask is boolean [batch, 1, length or 1, length]."""
        positions = jnp.arange(embeddings.shape[-2])
        bias = self.relpos_bias(positions, positions)
        x = self.embedding_dropout(
            embeddings.astype(self.config.dtype), deterministic=deterministic
        )
        x = _run_layers(self.layers, x, mask, bias, deterministic)
        return self.dropout(self.encoder_norm(x), deterministic=deterministic)


class Decoder(nn.Module):
    """The stack of decoder layers, over input embeddings, and the output layer."""

    config: TransformerConfig

    def setup(self):
        cfg = self.config
        self.relpos_bias = _position_bias(cfg, bidirectional=False)
        self.layers = _make_layers(DecoderLayer, cfg, cfg.num_decoder_layers, (6, 7))
        self.decoder_norm = RMSNorm(cfg.layer_norm_epsilon, cfg.dtype)
        self.dropout = nn.Dropout(cfg.dropout_rate, broadcast_dims=(-2,))
        if not cfg.logits_via_embedding:
            # The output layer stays in float32 under bfloat16 too, for stable log-probabilities.
            self.logits_dense = OutputKernel(cfg.emb_dim, cfg.vocab_size)

    @nn.compact
    def __call__(
        self,
        embeddings: Array,
        encoded: Array | None,
        mask: Array | None,
        encoder_mask: Array | None,
        *,
        deterministic: bool,
        decode: bool = False,
        cache_length: int | None = None,
    ) -> Array:
        """Returns the normalised hidden states [batch, length, embed].

        Args:
          embeddings: [batch, length, embed].
          encoded: [batch, encoder_length, embed]; None where the `encoder_cache` is filled.
          mask: boolean [batch or 1, 1, length, length]; not used where `decode`.
          encoder_mask: boolean [batch, 1, length or 1, encoder_length].
          deterministic: no dropout.
          decode: read and write the caches; the inputs follow the cached positions.
          cache_length: positions of a cache that does not exist yet; default: `length`.
        """
        length = embeddings.shape[-2]
        query_positions = key_positions = jnp.arange(length)
        cache_position = None
        if decode:
            cached_length = self._cached_length()
            index = self.variable("cache", "cache_index", jnp.zeros, (), jnp.int32)
            cache_position, mask = index.value, None
            if cached_length is not None:
                query_positions = cache_position + query_positions
                key_positions = jnp.arange(cached_length)
                mask = (key_positions[None, :] <= query_positions[:, None])[None, None]
                index.value = cache_position + length
        bias = self.relpos_bias(query_positions, key_positions)
        x = self.dropout(embeddings.astype(self.config.dtype), deterministic=deterministic)
        x = _run_layers(
            self.layers,
            x,
            encoded,
            mask,
            encoder_mask,
            bias,
            cache_position,
            deterministic,
            cache_length,
        )
        return self.dropout(self.decoder_norm(x), deterministic=deterministic)

    def output_kernel(self) -> Array:
        """Returns the output layer's own kernel [embed, vocab] (untied models only)."""
        return self.logits_dense.kernel

    def _cached_length(self) -> int | None:
        """Returns how many positions the cache holds, or None where there is no cache yet."""
        if not self.has_variable("cache", "cache_index"):
            return None
        first = "layers" if self.config.scan_layers else "layers_0"
        return self.variables["cache"][first]["self_attention"]["cached_key"].shape[-2]
