"""The transformer's configuration: the dimensions and choices that define a model family."""

import dataclasses
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.core.settings import (
    NotNegative,
    NotNegativeNumber,
    Number,
    Positive,
    PositiveNumber,
    Settings,
    ShareBelow1,
    TokenId,
)

Activation = Literal["gelu", "gelu_exact", "relu", "silu", "tanh", "linear"]
Positions = Literal["relative_bias", "learned", "rotary", "alibi", "disentangled"]
Kernel = Literal["blocks", "splash", "cudnn"]
RopeType = Literal["default", "linear", "llama3"]
ROPE_TYPES: tuple[str, ...] = typing.get_args(RopeType)
KERNELS: Mapping[str, Kernel] = {"tpu": "splash", "gpu": "cudnn"}  # by platform
# A damaged file may name millions of layers, which would exhaust memory and time.
_Layers = Annotated[int, msgspec.Meta(ge=0, le=1000, description="0 to 1,000 layers")]
_Padding = Annotated[int, msgspec.Meta(ge=-1, description="a token id, or -1")]


@dataclasses.dataclass(frozen=True)
class TransformerConfig(Settings):
    """Dimensions and choices of a transformer; the defaults are T5's and the names are T5X's.

    A model family is an instance of this class, not a copy of the code. T5 and BART have both
    stacks; GPT-2, BLOOM, Gemma and Llama only a decoder; BERT, ALBERT, RoBERTa and DeBERTa only an
    encoder.

    Attributes:
      vocab_size: rows of the embedding, at least the vocabulary's size (T5 rounds up to a
        multiple of 128).
      dtype: dtype of activations, "float32" or "bfloat16". It does not apply to parameters.
      emb_dim: width of the residual stream.
      num_heads: attention heads; `num_heads * head_dim` need not equal `emb_dim`.
      num_encoder_layers: layers of the encoder; 0 = a decoder-only model.
      num_decoder_layers: layers of the decoder; 0 = an encoder-only model.
      head_dim: width of one head.
      mlp_dim: width of the feed-forward layer.
      mlp_activations: ("relu",) is T5 1.0, ("gelu", "linear") the gated GELU of T5 1.1. "gelu" is
        the tanh approximation, "gelu_exact" uses the error function.
      dropout_rate: share of activations dropped in training.
      logits_via_embedding: the output layer is the embedding.
      float32_attention_logits: compute query-key products in float32 even with bfloat16. The
        softmax is always float32.
      attention_block_length: if a head has more scores than this number squared, attention is
        computed in blocks of at most this many queries and keys: memory grows with the length, not
        its square. Results are the same up to rounding, but without `broadcast_dropout` the dropout
        masks of attention weights differ. 0 = never.
      attention_kernel: the implementation of attention by blocks: "blocks" = JAX, on all devices;
        "splash" = a Pallas kernel, on TPUs only, for models without position bias. A block's scores
        then never leave the fast memory of a core. "cudnn" = NVIDIA's kernel, on GPUs only, for
        attention of any length in bfloat16 or float16, also with T5's or ALiBi's bias, but without
        softcap. Both drop attention weights only with `broadcast_dropout`. "auto" = the device's
        kernel if it can compute this model's attention, otherwise "blocks".
      relative_attention_num_buckets: buckets of relative positions; even and >= 4 unless
        `separate_positions` is set.
      relative_attention_max_distance: distance from which all positions share a bucket; more
        than half the number of buckets.
      layer_norm_epsilon: added to the mean square or variance in the norm.
      scan_layers: stack the layers' parameters and loop with `lax.scan`: one compiled layer
        instead of `num_layers`.
      remat_policy: "none" keeps all activations for the backward pass, "minimal" keeps matrix
        products without batch dimensions, "full" keeps only each layer's input.
      encoder_prompt_length: soft prompt vectors before the encoder input; 0 = none.
      decoder_prompt_length: soft prompt vectors before the decoder input; 0 = none.
      num_kv_heads: heads of keys and values, shared by groups of query heads (Ainslie 2023);
        0 = one for each query head.
      norm: "rms" (T5's, no mean and no bias) or "layer".
      norm_position: "pre" (before each part of a layer), "post" (after the residual sum: BART,
        RoBERTa), or "sandwich" (before and after, inside the residual: Gemma 2 and 3). Only "post"
        has no norm after the last layer.
      norm_offset: added to the norm's scale; Gemma stores scale - 1.
      norm_bias: layer norms have biases.
      first_norm: the first encoder layer has a norm before its attention; in ModernBERT, the
        embedding norm takes its place.
      embedding_norm: the embeddings are followed by a norm (BLOOM, BART, RoBERTa).
      scale_embeddings: multiply embeddings by sqrt(emb_dim) (Gemma).
      positions: the position encoding: T5's "relative_bias", a "learned" embedding, "rotary"
        (Su 2021), "alibi" (Press 2022), or DeBERTa's "disentangled" attention.
      layer_position_biases: each layer has its own "relative_bias" (umT5); False = one per stack.
      separate_positions: disentangled attention as in DeBERTa v1: relative positions have their own
        projections, their embedding has no norm, keys have no bias, and each distance below
        `relative_attention_num_buckets` is a bucket.
      max_positions: maximum length of a sequence; 0 = no limit. A learned embedding has
        `max_positions + position_offset` rows.
      position_offset: row of the first position in a learned embedding (2 in BART, RoBERTa).
      num_token_types: rows of a token type embedding (BERT: 2, the second is for a second text).
      decoder_embedding: the decoder has its own token embedding, which a tied output layer also
        uses (T5Gemma).
      embedding_dim: width of the embeddings, which are then projected to `emb_dim` (ALBERT); 0 =
        `emb_dim`, without a projection.
      shared_layers: all encoder layers use the parameters of `layers_0` (ALBERT).
      attention_bias: the attention's projections have biases.
      attention_output_bias: with `attention_bias`, the output projection has one too (not Qwen2).
      query_key_norm: each head's queries and keys have a norm (Qwen3, Gemma 3).
      mlp_bias: the feed-forward layer has biases.
      attention_scale: factor of query-key products; 1 in T5, `head_dim ** -0.5` in others.
      attention_softcap: c in c * tanh(x / c) of attention logits (Gemma 2); 0 = none.
      logits_softcap: the same for the output logits.
      sliding_window: keys that a query sees, including itself, in `sliding_window_layers`; 0 = all.
        In an encoder-only model the query is in their middle, and the number is odd. In the encoder
        of an encoder-decoder, the number counts one side: as many later keys are seen as earlier.
      sliding_window_layers: indices of the layers with a sliding window.
      rope_theta: base of the rotary frequencies.
      rope_window_theta: the same for `sliding_window_layers`, which then have the "default" type
        (ModernBERT, Gemma 3); 0 = as in the other layers.
      rope_type: "default"; "linear" divides all frequencies by `rope_factor`; "llama3" divides only
        low frequencies, according to the next four fields (Llama 3.1).
      rope_factor: see `rope_type`.
      rope_low_freq_factor: see `rope_type`.
      rope_high_freq_factor: see `rope_type`.
      rope_original_max_positions: see `rope_type`.
      scale_tied_logits: scale the output of `logits_via_embedding` by `emb_dim ** -0.5` (T5 1.0).
      scale_own_logits: scale the output of an untied output layer in the same way (a T5 1.0 whose
        output layer was untied and then trained separately).
      logits_bias: the output layer has a bias (BART).
      broadcast_dropout: one dropout mask for all positions of a sequence, and also dropout after
        the stacks (T5X); False = a mask for each position (the other families).
      attention_dropout_rate: rate for attention weights; None = `dropout_rate`.
      attention_output_dropout: dropout of self-attention's output (not in DistilBERT).
      mlp_dropout_rate: rate inside the feed-forward layer; None = `dropout_rate`.
      classifier_dropout_rate: rate in the classification head; None = `dropout_rate`.
      classifier_input_dropout: dropout also before the head's hidden layer (RoBERTa, BART).
      label_names: classes of a classification head, in order; () = no head. In a model with a
        decoder, the head replaces the output layer: the decoder reads each text too, after the
        start token, and the head reads its state at the text's last end token (BART, T5).
      classifier_hidden: the head has a hidden layer; otherwise it only projects the pooled state.
      classifier_activation: activation of the head's hidden layer.
      classifier_bias: the head's hidden layer has a bias.
      classifier_norm: this activation is followed by a norm.
      classifier_pooling: the state that the head of an encoder-only model reads: that of the
        "first" token, or the "mean" over all tokens of a text.
      token_label_names: classes of a head on each token, in order, instead of `label_names`.
      pooler: the head's hidden layer exists even without classes (BERT's pooler).
      span_head: a head for extractive question answering: where an answer starts and ends.
      knowledge_attention: a second cross-attention in each decoder layer, over the knowledge
        (DoHA, Prabhumoye 2021).
      question_encoder: a second encoder of the same form reads questions, and the first one reads
        passages (DPR, Karpukhin 2020).
      pad_id: the token that pads rows; -1 for models without a padding token.
      eos_ids: tokens that end a response.
      decoder_start_id: first input token of an encoder-decoder model's decoder.
    """

    vocab_size: Positive
    dtype: Literal["float32", "bfloat16"] = "float32"
    emb_dim: Positive = 512
    num_heads: Positive = 8
    num_encoder_layers: _Layers = 6
    num_decoder_layers: _Layers = 6
    head_dim: Positive = 64
    mlp_dim: Positive = 2048
    mlp_activations: tuple[Activation, ...] = ("relu",)
    dropout_rate: ShareBelow1 = 0.1
    logits_via_embedding: bool = False
    float32_attention_logits: bool = False
    attention_block_length: NotNegative = 1024
    attention_kernel: Literal["auto"] | Kernel = "auto"
    relative_attention_num_buckets: Positive = 32
    relative_attention_max_distance: Positive = 128
    layer_norm_epsilon: PositiveNumber = 1e-6
    scan_layers: bool = False
    remat_policy: Literal["none", "minimal", "full"] = "none"
    encoder_prompt_length: NotNegative = 0
    decoder_prompt_length: NotNegative = 0
    num_kv_heads: NotNegative = 0
    norm: Literal["rms", "layer"] = "rms"
    norm_position: Literal["pre", "post", "sandwich"] = "pre"
    norm_offset: Number = 0.0
    norm_bias: bool = True
    first_norm: bool = True
    embedding_norm: bool = False
    scale_embeddings: bool = False
    positions: Positions = "relative_bias"
    layer_position_biases: bool = False
    separate_positions: bool = False
    max_positions: NotNegative = 0
    position_offset: NotNegative = 0
    num_token_types: NotNegative = 0
    decoder_embedding: bool = False
    embedding_dim: NotNegative = 0
    shared_layers: bool = False
    attention_bias: bool = False
    attention_output_bias: bool = True
    query_key_norm: bool = False
    mlp_bias: bool = False
    attention_scale: PositiveNumber = 1.0
    attention_softcap: NotNegativeNumber = 0.0
    logits_softcap: NotNegativeNumber = 0.0
    sliding_window: NotNegative = 0
    sliding_window_layers: tuple[int, ...] = ()
    rope_theta: PositiveNumber = 10000.0
    rope_window_theta: NotNegativeNumber = 0.0
    rope_type: RopeType = "default"
    rope_factor: PositiveNumber = 1.0
    rope_low_freq_factor: PositiveNumber = 1.0
    rope_high_freq_factor: PositiveNumber = 4.0
    rope_original_max_positions: NotNegative = 8192
    scale_tied_logits: bool = True
    scale_own_logits: bool = False
    logits_bias: bool = False
    broadcast_dropout: bool = True
    attention_dropout_rate: ShareBelow1 | None = None
    attention_output_dropout: bool = True
    mlp_dropout_rate: ShareBelow1 | None = None
    classifier_dropout_rate: ShareBelow1 | None = None
    classifier_input_dropout: bool = True
    label_names: tuple[str, ...] = ()
    classifier_hidden: bool = True
    classifier_activation: Activation = "tanh"
    classifier_bias: bool = True
    classifier_norm: bool = False
    classifier_pooling: Literal["first", "mean"] = "first"
    token_label_names: tuple[str, ...] = ()
    pooler: bool = False
    span_head: bool = False
    knowledge_attention: bool = False
    question_encoder: bool = False
    pad_id: _Padding = 0
    eos_ids: tuple[int, ...] = (1,)
    decoder_start_id: TokenId = 0

    def __post_init__(self):
        super().__post_init__()
        token_range = f"a token of the vocabulary of {self.vocab_size}"
        self.require("pad_id", self.pad_id < self.vocab_size, f"{token_range}, or -1")
        self.require("decoder_start_id", self.decoder_start_id < self.vocab_size, token_range)
        buckets = self.relative_attention_num_buckets
        # T5 halves its buckets twice: by direction, and into exact and logarithmic ones.
        even = self.separate_positions or (buckets >= 4 and buckets % 2 == 0)
        self.require("relative_attention_num_buckets", even, "an even number >= 4")
        self.require(
            "relative_attention_max_distance",
            # The logarithmic buckets divide by log(max_distance / (buckets // 2)), which must be
            # above 0.
            self.relative_attention_max_distance > buckets // 2,
            f"more than half of the {buckets} buckets",
        )
        # A gated feed-forward layer has two kernels, one of which is the gate.
        self.require("mlp_activations", 0 < len(self.mlp_activations) <= 2, "one or two")
        layers = self.num_encoder_layers + self.num_decoder_layers
        self.require("num_decoder_layers", layers > 0, "a positive whole number, or an encoder")
        self.require(
            "num_kv_heads",
            self.num_kv_heads == 0 or self.num_heads % self.num_kv_heads == 0,
            f"0 or a divisor of the {self.num_heads} heads",
        )
        if self.positions == "learned":
            self.require("max_positions", self.max_positions > 0, "a positive whole number")
        if self.positions == "disentangled":
            self.require("positions", self.is_encoder_only, "another scheme beside a decoder")
        # Features that only some forms of models can have.
        if self.question_encoder:
            alone = self.is_encoder_only and not self.encoder_prompt_length
            self.require("question_encoder", alone, "false beside a decoder or a soft prompt")
        if self.shared_layers:
            self.require("shared_layers", self.is_encoder_only, "false beside a decoder")
            # A scan loops over stacked layers, but shared layers are not stacked.
            self.require("scan_layers", not self.scan_layers, "false where layers are shared")
        if not self.first_norm:
            # Scanned layers run the same program, so the first one cannot differ.
            alone = self.is_encoder_only and not self.scan_layers
            self.require("first_norm", alone, "true beside a decoder, and where layers are scanned")
        if self.is_encoder_only and self.sliding_window:
            self.require("sliding_window", self.sliding_window % 2 == 1, "an odd number, or 0")
        if self.decoder_embedding:
            has_both_sides = not (self.is_encoder_only or self.is_decoder_only)
            self.require(
                "decoder_embedding", has_both_sides, "false without an encoder and a decoder"
            )
        if self.label_names and not self.is_encoder_only:
            prompts = self.encoder_prompt_length + self.decoder_prompt_length
            plain = not (self.is_decoder_only or prompts or self.knowledge_attention)
            expected = "none in a decoder-only model, in DoHA, and beside a decoder's soft prompt"
            self.require("label_names", plain and bool(self.eos_ids), expected)
        if self.token_label_names:
            alone = self.is_encoder_only and not self.label_names
            self.require("token_label_names", alone, "none beside a decoder or `label_names`")
        if self.attention_kernel in ("splash", "cudnn"):
            obstacle = self._find_kernel_obstacle(self.attention_kernel)
            self.require("attention_kernel", obstacle is None, f"'auto' or 'blocks' for {obstacle}")
            rate = self.attention_weights_dropout
            expected = f"'auto' or 'blocks', or attention_dropout_rate = 0 in place of {rate}"
            self.require("attention_kernel", not self.drops_single_weights, expected)
        if self.positions == "rotary":
            # Features are rotated in pairs.
            self.require("head_dim", self.head_dim % 2 == 0, "an even number for rotary positions")

    def _find_kernel_obstacle(self, kernel: Kernel) -> str | None:
        """Returns why a kernel cannot compute this model's attention, None if it can."""
        # In `splash_attend`, windows end with the query; in an encoder, they are centred on it.
        window = bool(self.sliding_window) and not self.is_decoder_only
        obstacles = {
            "blocks": (),
            "splash": (
                (self.positions not in ("learned", "rotary"), "a model with position biases"),
                (window, "an encoder's sliding window"),
            ),
            "cudnn": (
                (self.dtype == "float32", "dtype = float32, not bfloat16"),
                (self.positions == "disentangled", "DeBERTa's attention"),
                (self.attention_softcap > 0, "a softcap of attention"),
                (self.head_dim % 8 > 0 or self.head_dim > 128, f"head_dim = {self.head_dim}"),
            ),
        }[kernel]
        return next((obstacle for is_there, obstacle in obstacles if is_there), None)

    def kernel_on(self, platform: str, deterministic: bool) -> Kernel:
        """Returns the attention kernel of a call.

        Args:
          platform: JAX's name for the type of the devices: "cpu", "gpu" or "tpu".
          deterministic: whether there is no dropout.
        """
        if self.attention_kernel != "auto":
            return self.attention_kernel
        kernel = KERNELS.get(platform, "blocks")
        drops_weights = not deterministic and self.drops_single_weights
        return "blocks" if drops_weights or self._find_kernel_obstacle(kernel) else kernel

    def can_share_inputs(self, length: int) -> bool:
        """Whether rows of a decoder-only model can share an input in lines of `length` tokens.

        In a line, each row's own tokens follow the shared input, and other rows' tokens may stand
        between them. Attention that counts the tokens between cannot share inputs: T5's bias, and a
        sliding window shorter than the line.
        """
        # In a line that is no longer than the window, the window masks nothing.
        near = not self.sliding_window or length <= self.sliding_window
        return near and self.positions != "relative_bias"

    @property
    def is_decoder_only(self) -> bool:
        """Whether there is no encoder: GPT-2, BLOOM, Gemma, Llama."""
        return self.num_encoder_layers == 0

    @property
    def is_encoder_only(self) -> bool:
        """Whether there is no decoder: BERT, RoBERTa, DeBERTa."""
        return self.num_decoder_layers == 0

    @property
    def writes_text(self) -> bool:
        """Whether there is a decoder, with an output layer instead of a classification head."""
        return not (self.is_encoder_only or self.label_names)

    @property
    def has_classifier(self) -> bool:
        """Whether there is a head on texts or tokens, or at least its hidden layer."""
        return bool(self.label_names or self.token_label_names or self.pooler)

    @property
    def without_heads(self) -> "TransformerConfig":
        """The config of the stacks alone, without heads and without a question encoder."""
        return self.replace(
            question_encoder=False,
            label_names=(),
            token_label_names=(),
            pooler=False,
            span_head=False,
        )

    @property
    def embedding_width(self) -> int:
        """Width of the embeddings of tokens, positions and token types, and of a soft prompt."""
        return self.embedding_dim or self.emb_dim

    @property
    def encoder_window(self) -> int:
        """Number of keys that an encoder query sees in `sliding_window_layers`; 0 = all."""
        window = self.sliding_window
        # In an encoder-decoder the setting counts one side: window - 1 keys before the query, as
        # many after it, and its own.
        return window if self.is_encoder_only or not window else 2 * window - 1

    @property
    def attention_weights_dropout(self) -> float:
        """Dropout rate of attention weights."""
        rate = self.attention_dropout_rate
        return self.dropout_rate if rate is None else rate

    @property
    def drops_single_weights(self) -> bool:
        """Whether each query drops attention weights of its own, which no device's kernel does."""
        return self.attention_weights_dropout > 0 and not self.broadcast_dropout

    @property
    def activations_dropout(self) -> float:
        """The dropout rate inside the feed-forward layer."""
        rate = self.mlp_dropout_rate
        return self.dropout_rate if rate is None else rate

    @property
    def has_dropout(self) -> bool:
        """Whether any part of the model has dropout in training."""
        parts = (self.attention_dropout_rate, self.mlp_dropout_rate, self.classifier_dropout_rate)
        return any((self.dropout_rate, *parts))

    @property
    def mlp_kernels(self) -> tuple[str, ...]:
        """Names of the feed-forward layer's input kernels, one for each activation."""
        if len(self.mlp_activations) == 1:
            return ("wi",)
        return tuple(f"wi_{i}" for i in range(len(self.mlp_activations)))

    def replace(self, **changes: Any) -> "TransformerConfig":
        """Returns a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def with_dropout(self, rate: float) -> "TransformerConfig":
        """Returns a copy that replaces `dropout_rate`, and the other nonzero rates, by `rate`."""
        changes: dict[str, Any] = {"dropout_rate": rate}
        for name in ("attention_dropout_rate", "mlp_dropout_rate", "classifier_dropout_rate"):
            # None follows `dropout_rate`, and 0 stays without dropout.
            if getattr(self, name):
                changes[name] = rate
        return self.replace(**changes)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as a dictionary that JSON can store."""
        return {
            # JSON has no tuples.
            k: list(v) if isinstance(v, tuple) else v
            for k, v in dataclasses.asdict(self).items()
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "TransformerConfig":
        """Reads the output of `to_dict`.

        Raises:
          ConfigError: for an unknown field (names the nearest ones), a missing `vocab_size`, or a
            value out of range.
        """
        field_names = {f.name for f in dataclasses.fields(cls)}
        for name in fields:
            if name not in field_names:
                raise ConfigError(
                    f"Unknown model setting {name!r}.{did_you_mean(name, field_names)}"
                )
        if "vocab_size" not in fields:
            raise ConfigError("The model settings have no 'vocab_size', which has no default.")
        return cls(**fields)
