"""The stacks of encoder and decoder layers, over input embeddings."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax.linen import partitioning as nn_partitioning

from faith_jax.models import positions as position_schemes
from faith_jax.models.attention import MultiHeadAttention
from faith_jax.models.config import TransformerConfig
from faith_jax.models.disentangled import DisentangledAttention
from faith_jax.models.layers import (
    Embedding,
    FeedForward,
    LayerNorm,
    OutputKernel,
    RMSNorm,
    dropout,
    param_with_axes,
)
from faith_jax.types import Array

_REMAT_POLICIES = {
    "minimal": jax.checkpoint_policies.checkpoint_dots_with_no_batch_dims,
    "full": None,
}


class Surroundings(NamedTuple):
    """What all layers of a stack see besides their input.

    Attributes:
      mask: boolean, broadcast to [rows, heads, query_length, key_length] of self-attention.
      window_mask: the same for layers with a sliding window.
      bias: of self-attention's logits, broadcast likewise.
      rotation: cosine and sine of rotary positions.
      relative: DeBERTa's relative embedding [2 * buckets, embed].
      encoded: what each cross-attention sees, [batch, encoder_length, embed] each; None where the
        `encoder_cache` is filled.
      encoder_masks: boolean, one for each cross-attention.
      cache_position: int32 scalar, where in the cache the inputs belong; None = no cache.
    """

    mask: Array | None = None
    window_mask: Array | None = None
    bias: Array | None = None
    rotation: tuple[Array, Array] | None = None
    relative: Array | None = None
    encoded: tuple[Array | None, ...] = ()
    encoder_masks: tuple[Array | None, ...] = ()
    cache_position: Array | None = None


def norm(cfg: TransformerConfig, name: str | None = None) -> RMSNorm | LayerNorm:
    """Returns the norm of a family."""
    if cfg.norm == "layer":
        return LayerNorm(cfg.layer_norm_epsilon, cfg.dtype, name=name)
    return RMSNorm(cfg.layer_norm_epsilon, cfg.dtype, cfg.norm_offset, name=name)


def _attention(cfg: TransformerConfig, name: str, cross: bool = False) -> MultiHeadAttention:
    return MultiHeadAttention(
        cfg.num_heads,
        cfg.head_dim,
        cfg.attention_weights_dropout,
        cfg.float32_attention_logits,
        cfg.dtype,
        0 if cross else cfg.num_kv_heads,
        cfg.attention_bias,
        cfg.attention_scale,
        cfg.attention_softcap,
        cfg.broadcast_dropout,
        name=name,
    )


def _feed_forward(cfg: TransformerConfig) -> FeedForward:
    rate = cfg.mlp_dropout_rate
    return FeedForward(
        cfg.mlp_dim,
        cfg.mlp_activations,
        cfg.mlp_kernels,
        cfg.dropout_rate if rate is None else rate,
        cfg.dtype,
        cfg.mlp_bias,
        cfg.broadcast_dropout,
        name="mlp",
    )


class _Layer(nn.Module):
    """What encoder and decoder layers share: a part with its norms, beside a residual."""

    config: TransformerConfig

    def _residual(self, x: Array, part: Any, name: str, deterministic: bool) -> Array:
        """Returns x plus the part's output, with the family's norms `…_<name>_layer_norm`."""
        cfg = self.config
        y = x if cfg.norm_position == "post" else norm(cfg, f"pre_{name}_layer_norm")(x)
        y = part(y)
        if cfg.norm_position == "sandwich":
            y = norm(cfg, f"post_{name}_layer_norm")(y)
        drop = dropout(cfg.dropout_rate, cfg.broadcast_dropout)
        x = x + drop(y, deterministic=deterministic)
        return norm(cfg, f"post_{name}_layer_norm")(x) if cfg.norm_position == "post" else x


class EncoderLayer(_Layer):
    """Self-attention and feed-forward."""

    @nn.compact
    def __call__(self, x: Array, around: Surroundings, deterministic: bool) -> tuple[Array, None]:
        """Maps [batch, length, embed] to the same shape (the None is for `scan`)."""
        cfg = self.config

        def attention(y):
            if cfg.positions == "disentangled":
                return DisentangledAttention(cfg, name="attention")(
                    y, around.relative, mask=around.mask, deterministic=deterministic
                )
            return _attention(cfg, "attention")(
                y,
                mask=around.mask,
                bias=around.bias,
                rotation=around.rotation,
                deterministic=deterministic,
            )

        x = self._residual(x, attention, "attention", deterministic)
        feed_forward = _feed_forward(cfg)
        x = self._residual(
            x, lambda y: feed_forward(y, deterministic=deterministic), "mlp", deterministic
        )
        return x, None


class DecoderLayer(_Layer):
    """Self-attention, attention over the encoder's outputs where there are any, feed-forward."""

    @nn.compact
    def __call__(
        self,
        x: Array,
        has_window: Array,
        around: Surroundings,
        deterministic: bool,
        cache_length: int | None,
        prefill: bool,
    ) -> tuple[Array, None]:
        """Maps [rows, length, embed] to the same shape (the None is for `scan`)."""
        cfg = self.config
        mask: Any = around.mask
        if around.window_mask is not None:
            mask = jnp.where(has_window, around.window_mask, mask)

        def self_attention(y):
            return _attention(cfg, "self_attention")(
                y,
                mask=mask,
                bias=around.bias,
                rotation=around.rotation,
                deterministic=deterministic,
                cache_position=around.cache_position,
                cache_length=cache_length,
                prefill=prefill,
            )

        x = self._residual(x, self_attention, "self_attention", deterministic)
        for number, (name, norm_name) in enumerate(_cross_attentions(cfg)):

            def cross_attention(y, number=number, name=name):
                return _attention(cfg, name, cross=True)(
                    y,
                    around.encoded[number],
                    mask=around.encoder_masks[number],
                    deterministic=deterministic,
                    cache_position=around.cache_position,
                )

            x = self._residual(x, cross_attention, norm_name, deterministic)
        feed_forward = _feed_forward(cfg)
        x = self._residual(
            x, lambda y: feed_forward(y, deterministic=deterministic), "mlp", deterministic
        )
        return x, None


def _cross_attentions(cfg: TransformerConfig) -> list[tuple[str, str]]:
    """Returns the names of a decoder layer's cross-attentions and of their norms."""
    if cfg.is_decoder_only:
        return []
    names = [("encoder_decoder_attention", "cross_attention")]
    if cfg.knowledge_attention:
        names.append(("knowledge_attention", "knowledge_attention"))
    return names


def _make_layers(
    layer_class: type[nn.Module],
    cfg: TransformerConfig,
    count: int,
    num_scanned: int,
    static_argnums: tuple[int, ...],
) -> Any:
    """Returns a list of layers, or one scanned stack of them.

    In a module's `setup`, a list assigned to `layers` is named `layers_0`, `layers_1` …, and a
    stack `layers`, with the layers on axis 0 of each parameter. The first `num_scanned` arguments
    behind the input have a value for each layer.
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
    broadcast = (nn.broadcast,) * (1 + len(static_argnums))
    return nn_partitioning.scan_with_axes(
        layer_class,
        variable_axes={"params": 0, "cache": 0, "encoder_cache": 0, "prefix_cache": 0},
        split_rngs={"params": True, "dropout": True},
        in_axes=(0,) * num_scanned + broadcast,
        length=count,
        axis_name="layers",
    )(cfg)


def _run_layers(layers: Any, x: Array, scanned: tuple[Array, ...], *broadcast: Any) -> Array:
    if not isinstance(layers, list | tuple):
        return layers(x, *scanned, *broadcast)[0]
    for number, layer in enumerate(layers):
        x, _ = layer(x, *(values[number] for values in scanned), *broadcast)
    return x


class _Stack(nn.Module):
    """What encoder and decoder share: positions, the embeddings' norm, the norm at the end."""

    config: TransformerConfig

    def _setup_ends(self, bidirectional: bool) -> None:
        cfg = self.config
        if cfg.positions == "relative_bias":
            self.relpos_bias = position_schemes.RelativePositionBias(
                cfg.num_heads,
                bidirectional=bidirectional,
                num_buckets=cfg.relative_attention_num_buckets,
                max_distance=cfg.relative_attention_max_distance,
                dtype=cfg.dtype,
            )
        elif cfg.positions == "learned":
            rows = cfg.max_positions + cfg.position_offset
            self.position_embedder = Embedding(rows, cfg.emb_dim, cfg.dtype, "position", 0.02)
        elif cfg.positions == "disentangled":
            rows = 2 * cfg.relative_attention_num_buckets
            self.relative_embedder = Embedding(rows, cfg.emb_dim, cfg.dtype, "position", 0.02)
            self.relative_norm = norm(cfg)
        if cfg.num_token_types:
            self.token_type_embedder = Embedding(
                cfg.num_token_types, cfg.emb_dim, cfg.dtype, "position", 0.02
            )
        if cfg.embedding_norm:
            self.embedding_norm = norm(cfg)

    def _embedded(self, embeddings: Array, positions: Array) -> Array:
        """Returns the first layer's input; `positions` are int32 [rows or 1, length]."""
        cfg = self.config
        x = embeddings.astype(cfg.dtype)
        if cfg.scale_embeddings:
            x *= jnp.asarray(np.sqrt(cfg.emb_dim), cfg.dtype)
        if cfg.positions == "learned":
            x += self.position_embedder(positions + cfg.position_offset)
        if cfg.num_token_types:
            x += self.token_type_embedder(jnp.zeros((1, 1), jnp.int32))
        return self.embedding_norm(x) if cfg.embedding_norm else x

    def _placed(self, query_positions: Array, key_positions: Array) -> Surroundings:
        """Returns what the layers see of positions, int32 [rows or 1, length] each."""
        cfg = self.config
        match cfg.positions:
            case "relative_bias":
                return Surroundings(bias=self.relpos_bias(query_positions, key_positions))
            case "alibi":
                bias = position_schemes.alibi_bias(cfg.num_heads, query_positions, key_positions)
                return Surroundings(bias=bias)
            case "rotary":
                return Surroundings(rotation=position_schemes.rotation(cfg, query_positions))
            case "disentangled":
                rows = jnp.arange(2 * cfg.relative_attention_num_buckets)
                return Surroundings(relative=self.relative_norm(self.relative_embedder(rows)))
        return Surroundings()


class Encoder(_Stack):
    """The stack of encoder layers, over input embeddings."""

    def setup(self):
        cfg = self.config
        self._setup_ends(bidirectional=True)
        self.layers = _make_layers(EncoderLayer, cfg, cfg.num_encoder_layers, 0, (2,))
        if cfg.norm_position != "post":
            self.encoder_norm = norm(cfg)
        self.dropout = nn.Dropout(cfg.dropout_rate)
        self.embedding_dropout = dropout(cfg.dropout_rate, cfg.broadcast_dropout)

    def __call__(
        self,
        embeddings: Array,
        mask: Array,
        *,
        deterministic: bool,
        positions: Array | None = None,
    ) -> Array:
        """Encodes [batch, length, embed].

        Args:
          embeddings: [batch, length, embed].
          mask: boolean [batch, 1, length or 1, length].
          deterministic: no dropout.
          positions: int32 [batch or 1, length]; default: counted from 0.
        """
        cfg = self.config
        if positions is None:
            positions = jnp.arange(embeddings.shape[-2])[None]
        around = self._placed(positions, positions)._replace(mask=mask)
        x = self._embedded(embeddings, positions)
        x = self.embedding_dropout(x, deterministic=deterministic)
        x = _run_layers(self.layers, x, (), around, deterministic)
        if cfg.norm_position != "post":
            x = self.encoder_norm(x)
        return self.dropout(x, deterministic=deterministic or not cfg.broadcast_dropout)


class Decoder(_Stack):
    """The stack of decoder layers, over input embeddings, and the output layer."""

    def setup(self):
        cfg = self.config
        self._setup_ends(bidirectional=False)
        self.layers = _make_layers(DecoderLayer, cfg, cfg.num_decoder_layers, 1, (3, 4, 5))
        if cfg.norm_position != "post":
            self.decoder_norm = norm(cfg)
        self.dropout = dropout(cfg.dropout_rate, cfg.broadcast_dropout)
        if not cfg.logits_via_embedding:
            # The output layer stays in float32 under bfloat16 too, for stable log-probabilities.
            self.logits_dense = OutputKernel(cfg.emb_dim, cfg.vocab_size)
        if cfg.logits_bias:
            self.logits_bias = param_with_axes(
                "logits_bias",
                nn.initializers.zeros,
                (cfg.vocab_size,),
                jnp.float32,
                axes=("vocab",),
            )

    @nn.compact
    def __call__(
        self,
        embeddings: Array,
        encoded: tuple[Array | None, ...],
        mask: Array | None,
        encoder_masks: tuple[Array | None, ...],
        *,
        deterministic: bool,
        positions: Array | None = None,
        decode: bool = False,
        cache_length: int | None = None,
        prefill: bool = False,
    ) -> Array:
        """Returns the last hidden states [rows, length, embed].

        Args:
          embeddings: [rows, length, embed].
          encoded: for each cross-attention [batch, encoder_length, embed]; None where the
            `encoder_cache` is filled. Empty in decoder-only models.
          mask: boolean [rows or 1, 1, length, length]; in a prefill [rows, length], which inputs
            count; not used in other decoding.
          encoder_masks: for each cross-attention boolean [batch, 1, length or 1, encoder_length].
          deterministic: no dropout.
          positions: int32 [rows or 1, length]; default: counted from 0.
          decode: read and write the caches; the inputs follow the cached positions.
          cache_length: positions of a cache that does not exist yet; default: `length`.
          prefill: keep the inputs as the `prefix_cache` of a decoder-only model.
        """
        cfg = self.config
        if prefill:
            positions, mask = self._start_prefix(mask)
        if positions is None:
            positions = jnp.arange(embeddings.shape[-2])[None]
        query_positions = key_positions = positions
        cache_position = jnp.int32(0) if prefill else None
        if decode:
            cache_position, query_positions, key_positions, mask = self._advance(
                embeddings.shape[-2]
            )
        around = self._placed(query_positions, key_positions)._replace(
            mask=mask,
            encoded=encoded,
            encoder_masks=encoder_masks,
            cache_position=cache_position,
        )
        if cfg.sliding_window and mask is not None:
            distance = query_positions[:, None, :, None] - key_positions[:, None, None, :]
            around = around._replace(window_mask=mask & (distance < cfg.sliding_window))
        x = self._embedded(embeddings, query_positions)
        x = self.dropout(x, deterministic=deterministic)
        has_window = np.isin(np.arange(cfg.num_decoder_layers), cfg.sliding_window_layers)
        x = _run_layers(self.layers, x, (has_window,), around, deterministic, cache_length, prefill)
        if cfg.norm_position != "post":
            x = self.decoder_norm(x)
        return self.dropout(x, deterministic=deterministic or not cfg.broadcast_dropout)

    def output_kernel(self) -> Array:
        """Returns the output layer's own kernel [embed, vocab] (untied models only)."""
        return self.logits_dense.kernel

    def _start_prefix(self, valid: Array | None) -> tuple[Array, Array]:
        """Keeps which inputs of a decoder-only model count, and starts counting its outputs.

        Args:
          valid: boolean [batch, length], True for a run of inputs from the left.

        Returns:
          Positions int32 [1, length] and the mask [batch, 1, length, length].
        """
        assert valid is not None
        self.put_variable("prefix_cache", "valid", valid)
        self.variable("cache", "cache_index", jnp.zeros, (), jnp.int32)
        positions = jnp.arange(valid.shape[1])[None]
        causal = positions[:, :, None] >= positions[:, None, :]
        return positions, (causal & valid[:, None, :])[:, None]

    def _advance(self, length: int) -> tuple[Array, Array, Array, Array | None]:
        """Moves the cache on by `length` tokens.

        Returns:
          Where they belong in the cache, the positions of queries and keys [rows or 1, length],
          and the mask; the keys are those of the prefix, where there is one, and of the cache.
        """
        cached_length = self._cached_length()
        index = self.variable("cache", "cache_index", jnp.zeros, (), jnp.int32)
        cache_position = index.value
        if cached_length is None:
            positions = jnp.arange(length)[None]
            return cache_position, positions, positions, None
        query_slots = cache_position + jnp.arange(length)[None]
        key_slots = jnp.arange(cached_length)[None]
        mask = (key_slots[:, None, :] <= query_slots[:, :, None])[:, None]
        index.value = cache_position + length
        if not self.has_variable("prefix_cache", "valid"):
            return cache_position, query_slots, key_slots, mask
        return cache_position, *self._behind_prefix(query_slots, key_slots, mask)

    def _behind_prefix(
        self, query_slots: Array, key_slots: Array, mask: Array
    ) -> tuple[Array, Array, Array]:
        """Returns positions and mask of tokens that follow each row's own prefix."""
        valid: Array = self.get_variable("prefix_cache", "valid")
        rows = self._cached_rows()
        valid = jnp.repeat(valid, rows // valid.shape[0], axis=0)
        start = jnp.sum(valid, axis=1, dtype=jnp.int32)[:, None]
        prefix_positions = jnp.broadcast_to(jnp.arange(valid.shape[1]), valid.shape)
        key_positions = jnp.concatenate([prefix_positions, start + key_slots], axis=1)
        queries = query_slots.shape[1]
        prefix_mask = jnp.broadcast_to(valid[:, None, None, :], (rows, 1, queries, valid.shape[1]))
        own_mask = jnp.broadcast_to(mask, (rows, *mask.shape[1:]))
        return start + query_slots, key_positions, jnp.concatenate([prefix_mask, own_mask], -1)

    def _cached_key_shape(self) -> tuple[int, ...]:
        first = "layers" if self.config.scan_layers else "layers_0"
        return self.variables["cache"][first]["self_attention"]["cached_key"].shape

    def _cached_rows(self) -> int:
        return self._cached_key_shape()[-4]

    def _cached_length(self) -> int | None:
        """Returns how many positions the cache holds, or None where there is no cache yet."""
        if not self.has_variable("cache", "cache_index"):
            return None
        return self._cached_key_shape()[-2]
