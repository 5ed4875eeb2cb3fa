"""The stacks of encoder and decoder layers."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from faith_jax.core.types import Array
from faith_jax.models import positions as position_schemes
from faith_jax.models.attention.dot_product import block_sizes
from faith_jax.models.attention.masks import AttentionMask, Regrouped
from faith_jax.models.config import TransformerConfig
from faith_jax.models.layers import (
    Embedding,
    OutputKernel,
    Projection,
    dropout,
    param_with_axes,
)
from faith_jax.models.transformer_layers import (
    DecoderLayer,
    EncoderLayer,
    Surroundings,
    make_layers,
    norm,
    run_layers,
)


class _Stack(nn.Module):
    """The common parts of encoder and decoder: position encodings and embedding norms."""

    config: TransformerConfig

    def _setup_ends(self, bidirectional: bool) -> None:
        cfg = self.config
        if cfg.positions == "relative_bias" and not cfg.layer_position_biases:
            self.relpos_bias = position_schemes.relative_position_bias(cfg, bidirectional)
        elif cfg.positions == "learned":
            rows, width = cfg.max_positions + cfg.position_offset, cfg.embedding_width
            # 0.02 is the standard deviation of BERT's and GPT-2's initial embeddings.
            self.position_embedder = Embedding(rows, width, cfg.dtype, "position", 0.02)
        elif cfg.positions == "disentangled":
            # Twice the buckets, because distances are signed.
            rows = 2 * cfg.relative_attention_num_buckets
            self.relative_embedder = Embedding(rows, cfg.emb_dim, cfg.dtype, "position", 0.02)
            if not cfg.separate_positions:
                self.relative_norm = norm(cfg)
        if cfg.num_token_types:
            self.token_type_embedder = Embedding(
                cfg.num_token_types, cfg.embedding_width, cfg.dtype, "position", 0.02
            )
        if cfg.embedding_norm:
            self.embedding_norm = norm(cfg)

    def _sum_embeddings(
        self, embeddings: Array, positions: Array, token_types: Array | None = None
    ) -> Array:
        """Returns the input of the first layer, before dropout.

        `positions` and `token_types` are int32 [rows or 1, length]; None = all 0.
        """
        cfg = self.config
        x = embeddings.astype(cfg.dtype)
        if cfg.scale_embeddings:
            # The factor is rounded to the dtype of activations, as in Gemma's own code.
            x *= jnp.asarray(np.sqrt(cfg.emb_dim), cfg.dtype)
        if cfg.positions == "learned":
            x += self.position_embedder(positions + cfg.position_offset)
        if cfg.num_token_types:
            # A single type, broadcast to all rows and positions.
            types = jnp.zeros((1, 1), jnp.int32) if token_types is None else token_types
            x += self.token_type_embedder(types)
        return self.embedding_norm(x) if cfg.embedding_norm else x

    def _build_surroundings(
        self,
        query_positions: Array,
        key_positions: Array,
        mask: Array | AttentionMask | None,
        deterministic: bool,
    ) -> Surroundings:
        """Returns the inputs that all layers share: the mask of self-attention and positions.

        Positions are int32 [rows or 1, length]. An `AttentionMask` is converted to an array unless
        attention goes by blocks.
        """
        cfg = self.config
        window_mask: Array | AttentionMask | None = None
        if isinstance(mask, AttentionMask):
            placed = mask.with_positions(query_positions)
            mask = placed.for_attention(cfg, deterministic)
            if cfg.sliding_window:
                window = jnp.int32(cfg.sliding_window if placed.causal else cfg.encoder_window)
                window_mask = placed.replace(window=window).for_attention(cfg, deterministic)
        elif cfg.sliding_window and mask is not None:  # decoding
            # This mask excludes later keys already, so only earlier keys can be too far away.
            distance = query_positions[:, None, :, None] - key_positions[:, None, None, :]
            window_mask = mask & (distance < cfg.sliding_window)
        # The other shared inputs depend on the position encoding.
        around = Surroundings(mask=mask, window_mask=window_mask)
        by_blocks = isinstance(mask, AttentionMask)
        match cfg.positions:
            case "relative_bias":
                distances = key_positions[:, None, :] - query_positions[:, :, None]
                if by_blocks:
                    length = query_positions.shape[-1]
                    # The last block may extend beyond the length, and needs those distances too.
                    # Without a limit there is only one block.
                    padded = math.prod(block_sizes(length, cfg.attention_block_length or length))
                    padded += padded % 2  # cuDNN needs an even length
                    distances = jnp.arange(1 - padded, padded)
                if cfg.layer_position_biases:
                    return around._replace(distances=distances)
                return around._replace(bias=self.relpos_bias(distances))
            case "alibi" if by_blocks:
                return around._replace(bias=position_schemes.AlibiBias(cfg.num_heads))
            case "alibi":
                bias = position_schemes.alibi_bias(cfg.num_heads, query_positions, key_positions)
                return around._replace(bias=bias)
            case "rotary":
                around = around._replace(rotation=position_schemes.rotation(cfg, query_positions))
                if cfg.rope_window_theta:
                    theta = cfg.rope_window_theta
                    of_windows = cfg.replace(rope_theta=theta, rope_type="default")
                    rotation = position_schemes.rotation(of_windows, query_positions)
                    around = around._replace(window_rotation=rotation)
                return around
            case "disentangled":
                rows = jnp.arange(2 * cfg.relative_attention_num_buckets)
                relative = self.relative_embedder(rows)
                if not cfg.separate_positions:
                    relative = self.relative_norm(relative)
                return around._replace(relative=relative)
        return around

    def _dropout_keys(self, layers: int, deterministic: bool) -> Array | None:
        """Returns a random key for each layer, or None if nothing is dropped."""
        if deterministic or not self.config.has_dropout:
            return None
        return jax.random.split(self.make_rng("dropout"), layers)


def _has_window(cfg: TransformerConfig, count: int) -> np.ndarray:
    """Returns for each layer whether it has a sliding window, as an array to scan over."""
    return np.isin(np.arange(count), cfg.sliding_window_layers)


class Encoder(_Stack):
    """The stack of encoder layers."""

    def setup(self):
        cfg = self.config
        self._setup_ends(bidirectional=True)
        count = 1 if cfg.shared_layers else cfg.num_encoder_layers
        self.layers = make_layers(EncoderLayer, cfg, count, ())
        if cfg.embedding_dim:
            self.embedding_projection = Projection(
                cfg.emb_dim, ("kv", "embed"), cfg.dtype, use_bias=True
            )
        if cfg.norm_position != "post":
            self.encoder_norm = norm(cfg)
        # T5X broadcasts every dropout over positions except the one after the encoder.
        self.dropout = nn.Dropout(cfg.dropout_rate)
        self.embedding_dropout = dropout(cfg.dropout_rate, cfg.broadcast_dropout)

    def __call__(
        self,
        embeddings: Array,
        mask: Array | AttentionMask,
        *,
        deterministic: bool,
        positions: Array | None = None,
        token_types: Array | None = None,
    ) -> Array:
        """Encodes [batch, length, embed].

        Positions and token types are int32 [batch or 1, length], by default 0, 1, … and all 0.
        """
        cfg = self.config
        if positions is None:
            positions = jnp.arange(embeddings.shape[-2])[None]
        around = self._build_surroundings(positions, positions, mask, deterministic)
        x = self._sum_embeddings(embeddings, positions, token_types)
        x = self.embedding_dropout(x, deterministic=deterministic)
        if cfg.embedding_dim:
            x = self.embedding_projection(x)
        layers = self.layers
        if cfg.shared_layers:
            # The same layer is applied `num_encoder_layers` times (ALBERT).
            layers = [layers[0]] * cfg.num_encoder_layers
        count = cfg.num_encoder_layers
        dropout_keys = self._dropout_keys(count, deterministic)
        x = run_layers(layers, x, _has_window(cfg, count), dropout_keys, around)
        if cfg.norm_position != "post":
            x = self.encoder_norm(x)
        # `broadcast_dropout` also enables dropout after the stack, which only T5X has.
        return self.dropout(x, deterministic=deterministic or not cfg.broadcast_dropout)


class Decoder(_Stack):
    """The stack of decoder layers, and the output layer."""

    def setup(self):
        cfg = self.config
        self._setup_ends(bidirectional=False)
        if cfg.decoder_embedding:
            self.token_embedder = Embedding(cfg.vocab_size, cfg.emb_dim, cfg.dtype)
        # Arguments 4 and 5, counted from x = 0, are static (`cache_length` and `prefill`).
        self.layers = make_layers(DecoderLayer, cfg, cfg.num_decoder_layers, (4, 5))
        if cfg.norm_position != "post":
            self.decoder_norm = norm(cfg)
        self.dropout = dropout(cfg.dropout_rate, cfg.broadcast_dropout)
        if not cfg.writes_text:  # a head replaces the output layer
            return
        if not cfg.logits_via_embedding:
            # The output layer is float32 even with bfloat16, for stable log-probabilities.
            self.logits_dense = OutputKernel(cfg.emb_dim, cfg.vocab_size)
        if cfg.logits_bias:
            self.logits_bias = param_with_axes(
                "logits_bias",
                nn.initializers.zeros,
                (cfg.vocab_size,),
                ("vocab",),
            )

    @nn.compact
    def __call__(
        self,
        embeddings: Array,
        encoded: tuple[Array | None, ...],
        mask: Array | AttentionMask | None,
        encoder_masks: tuple[Array | AttentionMask | None, ...],
        *,
        deterministic: bool,
        positions: Array | None = None,
        decode: bool = False,
        cache_length: int | None = None,
        prefill: bool = False,
        regrouped: Regrouped | None = None,
    ) -> Array:
        """Returns the last hidden states [rows, length, embed].

        Args:
          embeddings: [rows, length, embed].
          encoded: for each cross-attention [batch, encoder_length, embed], or None if the
            `encoder_cache` is filled. Empty in decoder-only models.
          mask: of self-attention; not used in decoding, except for a prefill.
          encoder_masks: one for each cross-attention; in decoding boolean [batch, 1, 1,
            encoder_length].
          deterministic: no dropout.
          positions: int32 [rows or 1, length]; default: 0, 1, …
          decode: read and write the caches; the inputs follow the cached positions.
          cache_length: length of a cache that does not exist yet; default: `length`.
          prefill: store the inputs as the `prefix_cache` of a decoder-only model.
          regrouped: see `MultiHeadAttention`.
        """
        cfg = self.config
        if prefill:
            assert isinstance(mask, AttentionMask)
            # Decoding needs to know which keys of the prefix are not padding, and how many.
            self.put_variable("prefix_cache", "valid", mask.keys.valid)
            self.variable("cache", "cache_index", jnp.zeros, (), jnp.int32)
        if positions is None:
            positions = jnp.arange(embeddings.shape[-2])[None]
        # In training and prefill, keys are the inputs, like queries; in decoding, the cache's.
        query_positions = key_positions = positions
        cache_position = jnp.int32(0) if prefill else None
        if decode:
            cache_position, query_positions, key_positions, mask = self._advance_cache(
                embeddings.shape[-2]
            )
        around = self._build_surroundings(
            query_positions, key_positions, mask, deterministic
        )._replace(
            encoded=encoded,
            encoder_masks=tuple(
                mask.for_attention(cfg, deterministic) if isinstance(mask, AttentionMask) else mask
                for mask in encoder_masks
            ),
            cache_position=cache_position,
            regrouped=regrouped,
        )
        x = self._sum_embeddings(embeddings, query_positions)
        x = self.dropout(x, deterministic=deterministic)
        count = cfg.num_decoder_layers
        dropout_keys, has_window = self._dropout_keys(count, deterministic), _has_window(cfg, count)
        x = run_layers(self.layers, x, has_window, dropout_keys, around, cache_length, prefill)
        if cfg.norm_position != "post":
            x = self.decoder_norm(x)
        return self.dropout(x, deterministic=deterministic or not cfg.broadcast_dropout)

    def _advance_cache(self, length: int) -> tuple[Array, Array, Array, Array | None]:
        """Advances the cache by `length` tokens; its index is a scalar, or one index per row.

        Returns:
          The tokens' position in the cache, the positions of queries and keys [rows or 1, length],
          and the mask. Keys of a prefix, if there is one, come before those of the cache.
        """
        exists = self.has_variable("cache", "cache_index")
        index = self.variable("cache", "cache_index", jnp.zeros, (), jnp.int32)
        cache_position = index.value
        if not exists:
            positions = jnp.arange(length)[None]
            return cache_position, positions, positions, None
        # The caches of all layers have one shape: [..., rows, kv_heads, length, head_dim].
        layer = self.variables["cache"]["layers" if self.config.scan_layers else "layers_0"]
        rows, _, cached_length, _ = layer["self_attention"]["cached_key"].shape[-4:]
        # Places in the cache, [rows or 1, length].
        query_slots = cache_position.reshape(-1, 1) + jnp.arange(length)[None]
        key_slots = jnp.arange(cached_length)[None]
        # Causal: entries after a query's own slot are not written yet, or were taken back.
        mask = (key_slots[:, None, :] <= query_slots[:, :, None])[:, None]
        index.value = cache_position + length
        if not self.has_variable("prefix_cache", "valid"):
            return cache_position, query_slots, key_slots, mask
        # The tokens follow each row's own prefix.
        valid: Array = self.get_variable("prefix_cache", "valid")
        # All copies of an example have the same prefix.
        valid = jnp.repeat(valid, rows // valid.shape[0], axis=0)
        # Positions continue after the prefix's tokens, not after its padding.
        start = jnp.sum(valid, axis=1, dtype=jnp.int32)[:, None]
        prefix_positions = jnp.broadcast_to(jnp.arange(valid.shape[1]), valid.shape)
        key_positions = jnp.concatenate([prefix_positions, start + key_slots], axis=1)
        # All queries come after the prefix, and see all of it except the padding.
        prefix_mask = jnp.broadcast_to(valid[:, None, None, :], (rows, 1, length, valid.shape[1]))
        own_mask = jnp.broadcast_to(mask, (rows, *mask.shape[1:]))
        query_positions = start + query_slots
        # Keys of the prefix come first, as in `attend`.
        mask = jnp.concatenate([prefix_mask, own_mask], -1)
        return cache_position, query_positions, key_positions, mask
