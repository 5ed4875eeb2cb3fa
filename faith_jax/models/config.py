"""The transformer's configuration: every dimension and choice that makes a model family."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from faith_jax.errors import ConfigError, did_you_mean

DTYPES = ("float32", "bfloat16")
REMAT_POLICIES = ("none", "minimal", "full")
ACTIVATIONS = ("gelu", "relu", "silu", "linear")

_POSITIVE = (
    "vocab_size",
    "emb_dim",
    "num_heads",
    "num_encoder_layers",
    "num_decoder_layers",
    "head_dim",
    "mlp_dim",
    "relative_attention_num_buckets",
    "relative_attention_max_distance",
)


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
    """Dimensions and choices of the encoder-decoder, with the names of T5X's `T5Config`.

    Attributes:
      vocab_size: rows of the embedding, at least the vocabulary's size (T5 rounds up to a
        multiple of 128).
      dtype: "float32" or "bfloat16", the dtype of activations. Parameters have their own.
      emb_dim: width of the residual stream.
      num_heads: attention heads; `num_heads * head_dim` need not equal `emb_dim`.
      num_encoder_layers: layers of the encoder.
      num_decoder_layers: layers of the decoder.
      head_dim: width of one head.
      mlp_dim: width of the feed-forward layer.
      mlp_activations: ("relu",) is T5 1.0, ("gelu", "linear") the gated GELU of T5 1.1.
      dropout_rate: share of activations dropped in training.
      logits_via_embedding: True is T5 1.0's tied output, scaled by `emb_dim ** -0.5`.
      float32_attention_logits: compute query-key products in float32 under bfloat16 too. The
        softmax is always float32.
      relative_attention_num_buckets: buckets of T5's relative position bias, even and >= 4.
      relative_attention_max_distance: distance from which all positions share a bucket; more
        than half the number of buckets.
      layer_norm_epsilon: added to the mean square in the norm.
      scan_layers: stack the layers' parameters and loop with `lax.scan`: one compiled layer
        instead of `num_layers`.
      remat_policy: "none" keeps all activations for the backward pass, "minimal" keeps matrix
        products without batch dimensions, "full" keeps only each layer's input.
      encoder_prompt_length: soft prompt vectors in front of the encoder input; 0 = none.
      decoder_prompt_length: soft prompt vectors in front of the decoder input; 0 = none.
    """

    vocab_size: int
    dtype: str = "float32"
    emb_dim: int = 512
    num_heads: int = 8
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    head_dim: int = 64
    mlp_dim: int = 2048
    mlp_activations: tuple[str, ...] = ("relu",)
    dropout_rate: float = 0.1
    logits_via_embedding: bool = False
    float32_attention_logits: bool = False
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    layer_norm_epsilon: float = 1e-6
    scan_layers: bool = False
    remat_policy: str = "none"
    encoder_prompt_length: int = 0
    decoder_prompt_length: int = 0

    def __post_init__(self):
        object.__setattr__(self, "mlp_activations", tuple(self.mlp_activations))
        for name in _POSITIVE:
            self._require(name, _is_whole(getattr(self, name), 1), "a positive whole number")
        for name in ("encoder_prompt_length", "decoder_prompt_length"):
            self._require(name, _is_whole(getattr(self, name), 0), "0 or a positive whole number")
        buckets = self.relative_attention_num_buckets
        self._require(
            "relative_attention_num_buckets",
            buckets >= 4 and buckets % 2 == 0,
            "an even number >= 4",
        )
        self._require(
            "relative_attention_max_distance",
            self.relative_attention_max_distance > buckets // 2,
            f"more than half of the {buckets} buckets",
        )
        self._require("layer_norm_epsilon", self.layer_norm_epsilon > 0, "a positive number")
        self._require("dtype", self.dtype in DTYPES, f"one of {DTYPES}")
        self._require("dropout_rate", 0 <= self.dropout_rate < 1, "a share in [0, 1)")
        self._require(
            "remat_policy", self.remat_policy in REMAT_POLICIES, f"one of {REMAT_POLICIES}"
        )
        self._require(
            "mlp_activations",
            0 < len(self.mlp_activations) <= 2 and set(self.mlp_activations) <= set(ACTIVATIONS),
            f"one or two of {ACTIVATIONS}",
        )

    def _require(self, name: str, holds: bool, expected: str) -> None:
        if not holds:
            raise ConfigError(
                f"TransformerConfig.{name}: expected {expected}, got {getattr(self, name)!r}."
            )

    @property
    def mlp_kernels(self) -> tuple[str, ...]:
        """Names of the feed-forward layer's input kernels, one for each activation."""
        if len(self.mlp_activations) == 1:
            return ("wi",)
        return tuple(f"wi_{i}" for i in range(len(self.mlp_activations)))

    def replace(self, **changes: Any) -> "TransformerConfig":
        """Returns a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON can hold them."""
        return {
            k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(self).items()
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "TransformerConfig":
        """Reads what `to_dict` wrote.

        Raises:
          ConfigError: on a field that no model has, naming the nearest ones; without
            `vocab_size`; on a value out of its range.
        """
        known = {f.name for f in dataclasses.fields(cls)}
        for name in fields:
            if name not in known:
                raise ConfigError(f"Unknown model setting {name!r}.{did_you_mean(name, known)}")
        if "vocab_size" not in fields:
            raise ConfigError("The model settings have no 'vocab_size', which has no default.")
        return cls(**fields)
