"""The layers of encoder and decoder, run one by one or scanned."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax.linen import partitioning as nn_partitioning

from faith_jax.core.types import Array
from faith_jax.models.attention.disentangled import DisentangledAttention
from faith_jax.models.attention.masks import NO_WINDOW, AttentionMask, Regrouped
from faith_jax.models.attention.multi_head import MultiHeadAttention
from faith_jax.models.config import TransformerConfig
from faith_jax.models.dropout import Draws, Place, draw_dropout, drop
from faith_jax.models.layers import FeedForward, LayerNorm, RMSNorm
from faith_jax.models.partitioning import with_sharding_constraint
from faith_jax.models.positions import BlockBias, relative_position_bias

STATES = ("batch", "length", "embed")  # the axes of the hidden states between layers

# "minimal" keeps products with kernels, which have no batch dimensions and are expensive to compute
# again, but not attention's products, which take much memory. None keeps only a layer's input.
_REMAT_POLICIES = {
    "minimal": jax.checkpoint_policies.checkpoint_dots_with_no_batch_dims,
    "full": None,
}


class Surroundings(NamedTuple):
    """The inputs that all layers of a stack share.

    Attributes:
      mask: of self-attention, boolean, broadcast to [rows, heads, query_length, key_length]; an
        `AttentionMask` if attention goes by blocks.
      window_mask: the mask of layers with a sliding window.
      bias: added to the logits of self-attention, broadcast in the same way; or a `BlockBias`.
      distances: those for which each layer looks up its own bias; see `RelativePositionBias`.
      rotation: cosine and sine of rotary positions.
      window_rotation: the rotation in layers with a sliding window; None = `rotation`.
      relative: DeBERTa's relative embedding [2 * buckets, embed].
      encoded: for each cross-attention [batch, encoder_length, embed], or None if the
        `encoder_cache` is filled.
      encoder_masks: one for each cross-attention, like `mask`.
      cache_position: int32 scalar or [rows], the position of the inputs in the cache; None = no
        cache.
      regrouped: assigns the queries of cross-attention to keys that are in other rows.
    """

    mask: Array | AttentionMask | None = None
    window_mask: Array | AttentionMask | None = None
    bias: Array | BlockBias | None = None
    distances: Array | None = None
    rotation: tuple[Array, Array] | None = None
    window_rotation: tuple[Array, Array] | None = None
    relative: Array | None = None
    encoded: tuple[Array | None, ...] = ()
    encoder_masks: tuple[Array | AttentionMask | None, ...] = ()
    cache_position: Array | None = None
    regrouped: Regrouped | None = None


def norm(cfg: TransformerConfig, name: str | None = None) -> RMSNorm | LayerNorm:
    """Returns the norm layer of the config's model family."""
    if cfg.norm == "layer":
        return LayerNorm(cfg.layer_norm_epsilon, cfg.dtype, cfg.norm_bias, name=name)
    return RMSNorm(cfg.layer_norm_epsilon, cfg.dtype, cfg.norm_offset, name=name)


class _Layer(nn.Module):
    """The common part of encoder and decoder layers: residual connections, norms and windows.

    Attributes:
      config: the model's configuration.
      is_first: whether this is the first layer of a stack; False if layers are scanned.
    """

    config: TransformerConfig
    is_first: bool = False

    def _draw_dropout(self, key: Array | None, x: Array, keys: Mapping[str, int]) -> Draws:
        """Returns the draws for states x; `keys` has the number of keys of each attention."""
        if key is None:
            return {}
        cfg = self.config
        # A row has one mask for all its positions, or all its queries.
        features = Place(cfg.dropout_rate, (1, cfg.emb_dim), (None, "embed"))
        hidden = Place(cfg.activations_dropout, (1, cfg.mlp_dim), (None, "mlp"))
        places = {"mlp_hidden": hidden, "mlp": features}
        for name, number in keys.items():
            shape, axes = (cfg.num_heads, 1, number), ("heads", None, None)
            places[f"{name}_weights"] = Place(cfg.attention_weights_dropout, shape, axes)
            # "attention" is that of an encoder layer.
            if name != "attention" or cfg.attention_output_dropout:
                places[name] = features
        is_disentangled = cfg.positions == "disentangled"
        if is_disentangled:
            places["relative"] = features
        # DeBERTa's relative embeddings belong to no row, so it has no masks of rows.
        return draw_dropout(key, len(x), places, cfg.broadcast_dropout and not is_disentangled)

    def _add_residual(
        self, x: Array, part: Any, name: str, draws: Draws, is_normed: bool = False
    ) -> Array:
        """Returns x plus the part's output, with the family's norms `…_<name>_layer_norm`.

        `is_normed`: x has been normalised already.
        """
        cfg = self.config
        # pre: x + f(norm(x)), post: norm(x + f(x)), sandwich: x + norm(f(norm(x)))
        norms_input = cfg.norm_position != "post" and not is_normed
        y = norm(cfg, f"pre_{name}_layer_norm")(x) if norms_input else x
        y = part(y)
        if cfg.norm_position == "sandwich":
            y = norm(cfg, f"post_{name}_layer_norm")(y)
        # Dropout applies to the branch only, not to the residual stream.
        x = x + drop(y, cfg.dropout_rate, draws.get(name))
        x = norm(cfg, f"post_{name}_layer_norm")(x) if cfg.norm_position == "post" else x
        return with_sharding_constraint(x, STATES)

    def _add_feed_forward(self, x: Array, draws: Draws) -> Array:
        part = FeedForward(self.config, name="mlp")
        return self._add_residual(x, lambda y: part(y, draws.get("mlp_hidden")), "mlp", draws)

    def _self_attention(
        self, around: Surroundings, has_window: Array, bidirectional: bool = False
    ) -> dict[str, Any]:
        """Returns the mask, the bias and the rotation of self-attention.

        `has_window`, boolean [], cannot be branched on: in scanned layers it is traced.
        """
        mask: Any = around.mask
        if isinstance(around.window_mask, AttentionMask):
            assert around.window_mask.window is not None
            # One mask for all layers; NO_WINDOW is larger than any distance.
            window = jnp.where(has_window, around.window_mask.window, NO_WINDOW)
            mask = around.window_mask.replace(window=window)
        elif around.window_mask is not None:
            # In decoding and for short sequences, both masks are arrays.
            mask = jnp.where(has_window, around.window_mask, mask)
        rotation = around.rotation
        if around.window_rotation is not None:
            rotation = jax.tree.map(
                lambda own, other: jnp.where(has_window, own, other),
                around.window_rotation,
                rotation,
            )
        bias: Any = around.bias
        if around.distances is not None:
            look_up = relative_position_bias(self.config, bidirectional, name="relpos_bias")
            bias = look_up(around.distances)
        return {"mask": mask, "bias": bias, "rotation": rotation}


class EncoderLayer(_Layer):
    """Self-attention and feed-forward."""

    @nn.compact
    def __call__(
        self, x: Array, has_window: Array, dropout_key: Array | None, around: Surroundings
    ) -> tuple[Array, None]:
        """Maps [batch, length, embed] to the same shape (the None is for `scan`)."""
        cfg = self.config
        draws = self._draw_dropout(dropout_key, x, {"attention": x.shape[1]})

        def attention(y):
            if cfg.positions == "disentangled":
                return DisentangledAttention(cfg, name="attention")(
                    y, around.relative, mask=around.mask, draws=draws
                )
            return MultiHeadAttention(cfg, name="attention")(
                y,
                **self._self_attention(around, has_window, True),
                dropout_draw=draws.get("attention_weights"),
            )

        # In ModernBERT, the embedding norm is also the norm before the first layer's attention.
        is_normed = self.is_first and not cfg.first_norm
        x = self._add_residual(x, attention, "attention", draws, is_normed)
        return self._add_feed_forward(x, draws), None


def cross_attentions(cfg: TransformerConfig) -> tuple[str, ...]:
    """Returns the names of a decoder layer's cross-attentions, as in its norms and dropout."""
    if cfg.is_decoder_only:
        return ()
    return ("cross_attention", "knowledge_attention")[: 1 + cfg.knowledge_attention]


class DecoderLayer(_Layer):
    """Self-attention, cross-attention (except in decoder-only models), and feed-forward."""

    @nn.compact
    def __call__(
        self,
        x: Array,
        has_window: Array,
        dropout_key: Array | None,
        around: Surroundings,
        cache_length: int | None,
        prefill: bool,
    ) -> tuple[Array, None]:
        """Maps [rows, length, embed] to the same shape (the None is for `scan`)."""
        cfg = self.config
        keys = {"self_attention": x.shape[1]}
        for name, states in zip(cross_attentions(cfg), around.encoded, strict=True):
            keys[name] = 0 if states is None else states.shape[1]  # only decoding has no states
        draws = self._draw_dropout(dropout_key, x, keys)

        def self_attention(y):
            return MultiHeadAttention(cfg, name="self_attention")(
                y,
                **self._self_attention(around, has_window),
                dropout_draw=draws.get("self_attention_weights"),
                cache_position=around.cache_position,
                cache_length=cache_length,
                prefill=prefill,
            )

        x = self._add_residual(x, self_attention, "self_attention", draws)
        # Cross-attention has neither bias nor rotation, because positions in the input and in the
        # response are not comparable.
        for number, norm_name in enumerate(cross_attentions(cfg)):
            # T5X's name of the first one differs from that of its norm.
            name = "knowledge_attention" if number else "encoder_decoder_attention"

            def cross_attention(y, number=number, name=name, norm_name=norm_name):
                return MultiHeadAttention(cfg, name=name)(
                    y,
                    around.encoded[number],
                    mask=around.encoder_masks[number],
                    dropout_draw=draws.get(f"{norm_name}_weights"),
                    cache_position=around.cache_position,
                    regrouped=around.regrouped,
                )

            x = self._add_residual(x, cross_attention, norm_name, draws)
        return self._add_feed_forward(x, draws), None


def make_layers(
    layer_class: type[nn.Module],
    cfg: TransformerConfig,
    count: int,
    static_argnums: tuple[int, ...],
) -> Any:
    """Returns a list of layers, or one scanned stack of them.

    When assigned in a module's `setup`, Flax names the elements of a list `layers_0`, `layers_1` …,
    and a stack `layers`, with the layers on axis 0 of each parameter.
    """
    if cfg.remat_policy != "none":
        layer_class = nn_partitioning.remat(
            layer_class,
            # Inside a scan, XLA cannot merge the recomputation with the first computation.
            prevent_cse=not cfg.scan_layers,
            policy=_REMAT_POLICIES[cfg.remat_policy],
            static_argnums=static_argnums,
        )
    if not cfg.scan_layers:
        return [layer_class(cfg, number == 0) for number in range(count)]
    # The `Surroundings` and the static arguments are the same for all layers.
    broadcast = (nn.broadcast,) * (1 + len(static_argnums))
    # Only one layer is traced and compiled, regardless of their number.
    return nn_partitioning.scan_with_axes(
        layer_class,
        # Parameters and caches of the layers are stacked on axis 0.
        variable_axes={"params": 0, "cache": 0, "encoder_cache": 0, "prefix_cache": 0},
        # Each layer draws its own initial values.
        split_rngs={"params": True},
        # `has_window` and dropout's keys have one value per layer.
        in_axes=(0, 0, *broadcast),
        length=count,
        axis_name="layers",
    )(cfg)


def run_layers(
    layers: Any, x: Array, has_window: np.ndarray, dropout_keys: Array | None, *broadcast: Any
) -> Array:
    """Returns the output of the last layer; `has_window` and `dropout_keys` have one per layer."""
    x = with_sharding_constraint(x, STATES)
    if not isinstance(layers, list | tuple):
        return layers(x, has_window, dropout_keys, *broadcast)[0]
    keys: Any = [None] * len(layers) if dropout_keys is None else dropout_keys
    for layer, layer_has_window, key in zip(layers, has_window, keys, strict=True):
        x, _ = layer(x, layer_has_window, key, *broadcast)
    return x
