"""The transformer of all model families: encoder-decoder, decoder-only or encoder-only.

With both stacks, `Transformer` has the call signature, parameter names and logical axes of
`t5x.examples.t5.network.Transformer`: T5X checkpoints load without renaming, and
`t5x.models.EncoderDecoderModel(module=Transformer(config))` trains it. In addition it has soft
prompts, access to the hidden states before the output layer, and a cached decoding path that
projects the encoder's outputs once and stores only one copy of the inputs that beams share.

>>> import jax, jax.numpy as jnp
>>> from faith_jax.models.config import TransformerConfig
>>> model = Transformer(TransformerConfig(vocab_size=32, emb_dim=8, num_heads=2, head_dim=4,
...                                       mlp_dim=16, num_encoder_layers=1, num_decoder_layers=1))
>>> tokens = jnp.ones((2, 5), jnp.int32)
>>> variables = model.init(jax.random.key(0), tokens, tokens, tokens, enable_dropout=False)
>>> model.apply(variables, tokens, tokens, tokens, enable_dropout=False).shape
(2, 5, 32)
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Float, Integer

from faith_jax.core.errors import ConfigError
from faith_jax.core.types import Array, as_tuple
from faith_jax.models.attention.masks import (
    AttentionMask,
    Regrouped,
    Tokens,
    repeat_rows,
    segment_positions,
)
from faith_jax.models.classification_head import ClassificationHead
from faith_jax.models.config import TransformerConfig
from faith_jax.models.layers import Embedding, Projection
from faith_jax.models.output_layer import OutputLayer
from faith_jax.models.quantization import Int8Matrix
from faith_jax.models.soft_prompt import SoftPrompt
from faith_jax.models.stacks import Decoder, Encoder

QUESTION_ENCODER = "question_encoder"  # its name in the parameter tree

# Tokens or hidden states of one or several encoder inputs; DoHA's decoder attends to two.
Inputs = Array | tuple[Array, ...]


class Transformer(nn.Module):
    """A transformer, optionally with soft prompts and a classification head."""

    config: TransformerConfig

    @property
    def scan_layers(self) -> bool:
        """Whether layers are stacked; T5X reads this to find the batch axis of its caches."""
        return self.config.scan_layers

    def setup(self):
        cfg = self.config
        self.token_embedder = Embedding(cfg.vocab_size, cfg.embedding_width, cfg.dtype)
        if cfg.num_encoder_layers:
            self.encoder = Encoder(cfg)
        if cfg.num_decoder_layers:
            self.decoder = Decoder(cfg)
        if cfg.has_classifier:
            self.classifier = ClassificationHead(cfg)
        if cfg.span_head:
            self.span = Projection(2, ("embed", "labels"), use_bias=True)
        if cfg.question_encoder:
            self.question_encoder = Transformer(cfg.without_heads)
        if cfg.encoder_prompt_length:
            self.encoder_prompt = SoftPrompt(cfg.encoder_prompt_length, cfg.embedding_width)
        if cfg.decoder_prompt_length:
            self.decoder_prompt = SoftPrompt(cfg.decoder_prompt_length, cfg.emb_dim)

    @property
    def decoder_embedder(self) -> Embedding:
        """The embedding of the decoder's tokens, which a tied output layer also uses."""
        return self.decoder.token_embedder if self.config.decoder_embedding else self.token_embedder

    def __call__(
        self,
        encoder_input_tokens: Integer[Array, "batch encoder_length"],
        decoder_input_tokens: Integer[Array, "batch decoder_length"],
        decoder_target_tokens: Integer[Array, "batch decoder_length"],
        encoder_segment_ids: Integer[Array, "batch encoder_length"] | None = None,
        decoder_segment_ids: Integer[Array, "batch decoder_length"] | None = None,
        encoder_positions: Array | None = None,
        decoder_positions: Array | None = None,
        *,
        enable_dropout: bool = True,
        decode: bool = False,
    ) -> Float[Array, "batch decoder_length vocab"]:
        """Computes the logits of a batch, teacher-forced.

        Args:
          encoder_input_tokens: padded with the config's `pad_id`.
          decoder_input_tokens: the targets shifted right by one.
          decoder_target_tokens: only its padding is used.
          encoder_segment_ids: only for packed inputs.
          decoder_segment_ids: only for packed targets.
          encoder_positions: unused (positions are relative); part of T5X's call signature.
          decoder_positions: unused.
          enable_dropout: needs the rng "dropout".
          decode: create the caches, as T5X does at the start of decoding.
        """
        encoded = self.encode(encoder_input_tokens, encoder_segment_ids, enable_dropout)
        return self.decode(
            encoded,
            encoder_input_tokens,
            decoder_input_tokens,
            decoder_target_tokens,
            encoder_segment_ids,
            decoder_segment_ids,
            decoder_positions,
            enable_dropout,
            decode,
        )

    def encode(
        self,
        encoder_input_tokens: Inputs,
        encoder_segment_ids: Array | None = None,
        enable_dropout: bool = True,
        token_types: Integer[Array, "batch length"] | None = None,
        has_room: bool = False,
        embeddings: Float[Array, "batch length embedding"] | None = None,
    ) -> Inputs:
        """Encodes one or several inputs int [batch, length] to [batch, prompt + length, embed].

        Args:
          encoder_input_tokens: the tokens.
          encoder_segment_ids: only for packed inputs.
          enable_dropout: needs the rng "dropout".
          token_types: None = all 0; a soft prompt's are always 0.
          has_room: each segment begins with one placeholder token per soft prompt vector, which
            the vector replaces. The result is then [batch, length, embed].
          embeddings: replace the tokens' embeddings; the tokens then only determine the mask.

        Raises:
          ConfigError: for packed inputs without room for the soft prompt.
        """
        if isinstance(encoder_input_tokens, tuple):
            # The same encoder reads DoHA's two inputs separately.
            return tuple(self.encode(x, None, enable_dropout) for x in encoder_input_tokens)
        if embeddings is None:
            embeddings = self.token_embedder(encoder_input_tokens)
        prompt = 0 if has_room else self.config.encoder_prompt_length
        valid = self._encoder_mask(encoder_input_tokens, prompt)
        if prompt:
            _refuse_packed(encoder_segment_ids)
            embeddings = self.encoder_prompt(embeddings)
        elif self.config.encoder_prompt_length:
            # The prompt takes the first places of each segment.
            placed = segment_positions(valid, encoder_segment_ids)
            embeddings = self.encoder_prompt.place(embeddings, placed)
        # T5X and DeBERTa also mask queries that are padding; the others mask only keys.
        masks_queries = self.config.positions in ("relative_bias", "disentangled")
        queries = valid if masks_queries else jnp.ones_like(valid)
        mask = AttentionMask(
            Tokens(queries, encoder_segment_ids), Tokens(valid, encoder_segment_ids)
        )
        positions = None
        # Padding is not counted and has position -1. The other schemes only use distances.
        if self.config.positions in ("learned", "rotary", "alibi"):
            positions = segment_positions(valid, encoder_segment_ids)
        if token_types is not None:
            token_types = jnp.pad(token_types, ((0, 0), (prompt, 0)))
        return self.encoder(
            embeddings,
            mask,
            deterministic=not enable_dropout,
            positions=positions,
            token_types=token_types,
        )

    def classify(
        self,
        input_tokens: Integer[Array, "batch length"],
        enable_dropout: bool = True,
        token_types: Integer[Array, "batch length"] | None = None,
    ) -> Float[Array, "batch classes"]:
        """Returns the float32 logits [batch, classes] of inputs int [batch, length].

        The head reads the text after the soft prompt, pooled as the config's `classifier_pooling`
        says, or in a model with a decoder as its `label_names` says.

        Raises:
          ConfigError: if the model has no classification head.
        """
        if not self.config.label_names:
            raise ConfigError("This model has no classification head: its config has no labels.")
        hidden = self.states(input_tokens, enable_dropout, token_types)
        # The whole row is a single text, number 1.
        number, first = jnp.ones_like(input_tokens), jnp.zeros((len(hidden), 1), jnp.int32)
        pooled = self._pool(hidden, input_tokens, number, first)[:, 0]
        return self.classifier(pooled, deterministic=not enable_dropout)

    def classify_tokens(
        self,
        input_tokens: Integer[Array, "batch length"],
        enable_dropout: bool = True,
        token_types: Integer[Array, "batch length"] | None = None,
    ) -> Float[Array, "batch length classes"]:
        """Returns the float32 logits of each token's classes.

        Raises:
          ConfigError: if the model has no token classification head.
        """
        if not self.config.token_label_names:
            raise ConfigError("This model has no classification head on its tokens.")
        hidden = self.states(input_tokens, enable_dropout, token_types)
        return self.classifier(hidden, deterministic=not enable_dropout)

    def classify_packed(
        self,
        input_tokens: Integer[Array, "batch length"],
        segment_ids: Integer[Array, "batch length"],
        token_types: Integer[Array, "batch length"] | None,
        first: Integer[Array, "batch texts"],
    ) -> Float[Array, "batch texts_or_length classes"]:
        """Returns the logits of several texts in each row, or of all tokens, without dropout.

        A token classification head returns logits of all tokens, [batch, length, classes].

        Args:
          input_tokens: the texts, each after placeholders for the soft prompt; see `encode`.
          segment_ids: the number of each token's text, 1 for the first of a row; 0 = padding.
          token_types: None = all 0.
          first: the index at which each text begins, after the prompt; any index for missing texts.
        """
        hidden = self._read_texts(input_tokens, segment_ids, False, token_types, True)
        if not self.config.token_label_names:
            hidden = self._pool(hidden, input_tokens, segment_ids, first)
        return self.classifier(hidden, deterministic=True)

    def _pool(self, hidden: Array, tokens: Array, segment_ids: Array, first: Array) -> Array:
        """Returns the state of each text that the head reads, [batch, texts, embed].

        `hidden` has the states [batch, length, embed]; see `classify_packed` for the others.
        """
        cfg, places = self.config, jnp.arange(hidden.shape[1])[None]
        if cfg.is_encoder_only and cfg.classifier_pooling == "first":
            return jnp.take_along_axis(hidden, first[..., None], axis=1)
        numbers = jnp.broadcast_to(1 + jnp.arange(first.shape[1]), first.shape)
        if not cfg.is_encoder_only:
            ends = jnp.isin(tokens, jnp.array(cfg.eos_ids))[:, None]
            ends &= segment_ids[:, None] == numbers[..., None]  # [batch, texts, length]
            last = jnp.max(jnp.where(ends, places[None], 0), axis=2)
            return jnp.take_along_axis(hidden, last[..., None], axis=1)
        # The mean is over the tokens after the soft prompt, without padding.
        # [batch, length]: where each token's text begins. Padding (number 0) uses the first text's.
        begin = jnp.take_along_axis(first, jnp.maximum(0, segment_ids - 1), axis=1)
        inside = (places >= begin) & (tokens != cfg.pad_id)
        return _mean_states(hidden, jnp.where(inside, segment_ids, 0), numbers)

    def spans(
        self,
        input_tokens: Integer[Array, "batch length"],
        enable_dropout: bool = True,
        token_types: Integer[Array, "batch length"] | None = None,
    ) -> Float[Array, "batch length 2"]:
        """Returns the float32 logits of each token to start and to end an answer.

        Raises:
          ConfigError: if the model has no question answering head.
        """
        if not self.config.span_head:
            raise ConfigError("This model has no head of extractive question answering.")
        return self.span(self.states(input_tokens, enable_dropout, token_types))

    def text_vectors(
        self,
        input_tokens: Integer[Array, "batch length"],
        enable_dropout: bool = True,
    ) -> Float[Array, "batch embed"]:
        """Returns one float32 vector of each text: the last state of its first token (DPR)."""
        # Inner products of these vectors rank passages; in bfloat16, similar ones would tie.
        return self.states(input_tokens, enable_dropout)[:, 0].astype(jnp.float32)

    def question_vectors(
        self,
        input_tokens: Integer[Array, "batch length"],
        enable_dropout: bool = True,
    ) -> Float[Array, "batch embed"]:
        """Returns one float32 vector of each question, by the question encoder if there is one."""
        encoder = self.question_encoder if self.config.question_encoder else self
        return encoder.text_vectors(input_tokens, enable_dropout)

    def states(
        self, input_tokens: Array, enable_dropout: bool, token_types: Array | None = None
    ) -> Array:
        """Returns the last states after the soft prompt, [batch, length, embed].

        They come from the decoder if there is one (see `_read_texts`), otherwise from the encoder.
        """
        hidden = self._read_texts(input_tokens, None, enable_dropout, token_types, False)
        # Without the prompt, state t belongs to token t again.
        return hidden[:, self.config.encoder_prompt_length :]

    def _read_texts(
        self,
        tokens: Array,
        segment_ids: Array | None,
        enable_dropout: bool,
        token_types: Array | None,
        has_room: bool,
    ) -> Array:
        """Returns the last states of texts; takes the arguments of `encode`."""
        encoded: Any = self.encode(tokens, segment_ids, enable_dropout, token_types, has_room)
        if self.config.is_encoder_only:
            return encoded
        # The decoder reads the texts too, shifted by one, each after the start token.
        start = self.config.decoder_start_id
        read = jnp.pad(tokens[:, :-1], ((0, 0), (1, 0)), constant_values=start)
        if segment_ids is not None:
            is_first = segment_ids[:, 1:] != segment_ids[:, :-1]
            read = read.at[:, 1:].set(jnp.where(is_first, start, read[:, 1:]))
        segments = (segment_ids, segment_ids)
        return self.decode_hidden(encoded, tokens, read, tokens, *segments, enable_dropout)

    def decode(
        self,
        encoded: Array,
        encoder_input_tokens: Array,
        decoder_input_tokens: Integer[Array, "rows length"],
        decoder_target_tokens: Integer[Array, "rows length"],
        encoder_segment_ids: Array | None = None,
        decoder_segment_ids: Integer[Array, "rows length"] | None = None,
        decoder_positions: Array | None = None,
        enable_dropout: bool = True,
        decode: bool = False,
        max_decode_length: int | None = None,
    ) -> Float[Array, "rows length vocab"]:
        """Returns the logits [batch, decoder_length, vocab] for encoded inputs.

        Takes the arguments of `__call__`, and `encoded` from `encode`. With `decode`, the inputs
        follow the tokens in the cache, as in T5X. Our own `start_decoding` and `decode_step` also
        cache the encoder's keys and values.

        Raises:
          ConfigError: if `decode` is set and inputs are packed or there is a decoder prompt, which
            T5X's cache cannot store.
        """
        del decoder_positions
        if decode:
            if encoder_segment_ids is not None or decoder_segment_ids is not None:
                raise ConfigError("Packed inputs cannot be decoded: set PACK = False.")
            if self.config.decoder_prompt_length:
                raise ConfigError(
                    "T5X's decoding has no place for a decoder prompt: use start_decoding and "
                    "decode_step, or an encoder prompt."
                )
            valid = self._encoder_masks(encoder_input_tokens)
            hidden = self._decode_with_cache(
                encoded, valid, decoder_input_tokens, max_decode_length
            )
        else:
            hidden = self.decode_hidden(
                encoded,
                encoder_input_tokens,
                decoder_input_tokens,
                decoder_target_tokens,
                encoder_segment_ids,
                decoder_segment_ids,
                enable_dropout,
            )
        return self.logits(hidden)

    def decode_hidden(
        self,
        encoded: Inputs | None,
        encoder_input_tokens: Inputs | None,
        decoder_input_tokens: Integer[Array, "rows length"] | None,
        decoder_target_tokens: Integer[Array, "rows length"] | None = None,
        encoder_segment_ids: Array | None = None,
        decoder_segment_ids: Integer[Array, "rows length"] | None = None,
        enable_dropout: bool = True,
        shared_segment_ids: Integer[Array, "rows length"] | None = None,
        decoder_positions: Integer[Array, "rows length"] | None = None,
        regrouped: Regrouped | None = None,
        embeddings: Float[Array, "rows length embed"] | None = None,
    ) -> Float[Array, "rows length embed"]:
        """Returns the hidden states [batch, decoder_length, embed] before the output layer.

        Takes the arguments of `decode`. Without `decoder_target_tokens`, no decoder position counts
        as padding. The encoder's arguments are None for decoder-only models. The decoder may have a
        multiple of the encoder's rows; consecutive rows then share an encoder row.

        Segments of a packed row of a decoder-only model may share an input: `shared_segment_ids`
        name an earlier segment that each token also sees, and `decoder_positions` continue after
        that segment. In an encoder-decoder, `regrouped` says which input each token sees, and where
        the input is. If positions are given, a soft prompt takes the first ones.

        `embeddings` replace those of the input tokens and, if positions are given, the soft prompt.
        """
        if embeddings is None:
            embeddings = self.decoder_embedder(decoder_input_tokens)
            # With positions, each segment has room for the prompt; otherwise it is prepended below.
            if decoder_positions is not None and self.config.decoder_prompt_length:
                embeddings = self.decoder_prompt.place(embeddings, decoder_positions)
        prompt = 0 if decoder_positions is not None else self.config.decoder_prompt_length
        if prompt:
            _refuse_packed(decoder_segment_ids)
            embeddings = self.decoder_prompt(embeddings)
        # The keys that self-attention may see: [rows, prompt + length].
        if decoder_target_tokens is None:
            valid = jnp.ones(embeddings.shape[:2], bool)
        else:
            # The prompt's vectors are not padding: all later tokens see them.
            valid = jnp.pad(
                decoder_target_tokens != self.config.pad_id,
                ((0, 0), (prompt, 0)),
                constant_values=True,
            )
        decoder_tokens = Tokens(valid, decoder_segment_ids)
        of_input = decoder_tokens
        # Regrouped queries of cross-attention are in their keys' rows, not in their tokens' rows.
        if regrouped is not None:
            of_input = Tokens(regrouped.segments > 0, regrouped.segments)
        encoder_masks = [
            AttentionMask(of_input, Tokens(keys, encoder_segment_ids))
            for keys in self._encoder_masks(encoder_input_tokens, decoder_positions is not None)
        ]
        queries = decoder_tokens._replace(shared=shared_segment_ids)
        positions = None
        # T5's bias only uses distances, which packing does not change.
        if decoder_segment_ids is not None and self.config.positions != "relative_bias":
            positions = decoder_positions
            if positions is None:
                positions = segment_positions(valid, decoder_segment_ids)
        hidden = self.decoder(
            embeddings,
            as_tuple(encoded),
            AttentionMask(queries, decoder_tokens, causal=True),
            tuple(encoder_masks),
            deterministic=not enable_dropout,
            positions=positions,
            regrouped=regrouped,
        )
        # The prompt's own states predict nothing.
        return hidden[:, prompt:]

    def start_decoding(
        self, encoded: Inputs, encoder_input_tokens: Inputs, max_decode_length: int
    ) -> None:
        """Fills the caches for `decode_step` with the encoder's and the prompt's keys and values.

        Apply with `mutable=["cache", "encoder_cache"]`; `encoded` is from `encode`.
        """
        cfg = self.config
        valid = self._encoder_masks(encoder_input_tokens)
        self.put_variable("encoder_cache", "valid", valid)
        start = jnp.zeros((len(valid[0]), 1), jnp.int32)
        cache_length = cfg.decoder_prompt_length + max_decode_length
        # Creates an empty cache of this length and fills the encoder's; the token is not stored.
        self._decode_with_cache(encoded, valid, start, cache_length)
        if cfg.decoder_prompt_length:
            # The prompt without any tokens: its keys and values are the first in the cache.
            prompt = self.decoder_prompt(jnp.zeros((len(start), 0, cfg.emb_dim), cfg.dtype))
            masks = _decoding_masks(valid, len(start))
            self.decoder(prompt, (None,) * len(masks), None, masks, deterministic=True, decode=True)

    def prefill(
        self,
        input_tokens: Integer[Array, "batch length"],
        input_lengths: Integer[Array, "batch"],
        max_decode_length: int,
    ) -> None:
        """Fills the caches of a decoder-only model for `decode_step`.

        Apply with `mutable=["cache", "prefix_cache"]`. Inputs are padded on the right.
        """
        prompt = self.config.decoder_prompt_length
        embeddings = self.token_embedder(input_tokens)
        if prompt:
            embeddings = self.decoder_prompt(embeddings)
        # The prompt is part of each row's prefix.
        valid = jnp.arange(embeddings.shape[1])[None] < (prompt + input_lengths)[:, None]
        # Only keys are masked, because nothing reads the states of padding.
        mask = AttentionMask(Tokens(jnp.ones_like(valid)), Tokens(valid), causal=True)
        self._fill_cache(embeddings, mask, jnp.arange(valid.shape[1])[None], max_decode_length)

    def prefill_lines(
        self,
        line_tokens: Integer[Array, "lines length"],
        segment_ids: Integer[Array, "lines length"],
        shared_segment_ids: Integer[Array, "lines length"],
        positions: Integer[Array, "lines length"],
        max_decode_length: int,
    ) -> None:
        """Fills the caches of lines: rows with several inputs that share a beginning.

        Apply like `prefill`; for segments and positions see `decode_hidden`. The caches hold whole
        lines, not yet the separate inputs in them.
        """
        embeddings = self.token_embedder(line_tokens)
        if self.config.decoder_prompt_length:
            embeddings = self.decoder_prompt.place(embeddings, positions)
        # Segments are numbered from 1; 0 is padding.
        tokens = Tokens(segment_ids > 0, segment_ids)
        mask = AttentionMask(tokens._replace(shared=shared_segment_ids), tokens, causal=True)
        self._fill_cache(embeddings, mask, positions, max_decode_length)

    def _fill_cache(
        self, embeddings: Array, mask: AttentionMask, positions: Array, cache_length: int
    ) -> None:
        self.decoder(
            embeddings,
            (),
            mask,
            (),
            deterministic=True,
            positions=positions,
            cache_length=cache_length,
            prefill=True,
        )

    def decode_step(
        self, tokens: Integer[Array, "rows *several"]
    ) -> Float[Array, "rows *several vocab"]:
        """Feeds one or several tokens per row and returns the logits of the token after each.

        Apply with `mutable=["cache"]` and the caches of `start_decoding` or `prefill`. To take
        tokens back, lower `cache_index`, which may be int32 [rows].

        Args:
          tokens: the last tokens of each row; the rows of an example are consecutive.

        Raises:
          ValueError: if the caches are missing.
        """
        fixed, maker = "encoder_cache", "start_decoding"
        if self.config.is_decoder_only:
            fixed, maker = "prefix_cache", "prefill"
        # Without its caches, attention would only see the tokens that are fed now.
        missing = {"cache", fixed} - set(self.variables)
        if missing:
            raise ValueError(
                f"decode_step needs the collections that {maker} makes; missing: {sorted(missing)}."
            )
        valid = () if self.config.is_decoder_only else self.get_variable(fixed, "valid")
        # One token per row, [rows], becomes [rows, 1].
        hidden = self._decode_with_cache(None, valid, tokens.reshape(len(tokens), -1), None)
        return self.logits(hidden.reshape(*tokens.shape, -1))

    def logits(self, hidden: Float[Array, "*batch embed"]) -> Float[Array, "*batch vocab"]:
        """Projects hidden states [..., embed] to float32 logits [..., vocab]."""
        return self.output_layer().logits(hidden)

    def output_layer(self) -> OutputLayer:
        """Returns the output layer, float32."""
        cfg = self.config
        bias = self.decoder.logits_bias if cfg.logits_bias else None
        # Raffel 2020: tied output embeddings are scaled by 1/sqrt(embed).
        tied = cfg.logits_via_embedding
        scale = (
            cfg.emb_dim**-0.5 if (cfg.scale_tied_logits if tied else cfg.scale_own_logits) else 1.0
        )
        if not tied:
            kernel = self.decoder.logits_dense.kernel  # [embed, vocab]
            return OutputLayer(kernel, False, scale, bias, cfg.logits_softcap)
        # The embedding is used in its own layout, [vocab, embed], and not transposed.
        embedding = self.decoder_embedder.embedding
        if not isinstance(embedding, Int8Matrix):
            embedding = embedding.astype(jnp.float32)
        return OutputLayer(embedding, True, scale, bias, cfg.logits_softcap)

    def initialize(self) -> None:
        """Uses every parameter, so that `init` can create the parameters of any family."""
        tokens = jnp.ones((1, 2), jnp.int32)
        cfg = self.config
        if cfg.is_encoder_only:
            # Flax only creates parameters of modules that are called: the encoder and all heads.
            hidden: Any = self.encode(tokens, enable_dropout=False)
            if cfg.has_classifier:
                self.classifier(hidden[:, 0], deterministic=True)
            if cfg.span_head:
                self.span(hidden)
            if cfg.question_encoder:
                self.question_encoder.initialize()
            return
        # Calls each existing stack, and the output layer or the head.
        inputs: Any = None if cfg.is_decoder_only else tokens
        if cfg.knowledge_attention:
            inputs = (tokens, tokens)
        encoded = None if inputs is None else self.encode(inputs, enable_dropout=False)
        hidden = self.decode_hidden(encoded, inputs, tokens, None, enable_dropout=False)
        if cfg.writes_text:
            self.logits(hidden)
        else:
            self.classifier(hidden[:, 0], deterministic=True)

    def _decode_with_cache(
        self,
        encoded: Inputs | None,
        valid: tuple[Array, ...],
        decoder_input_tokens: Array,
        cache_length: int | None,
    ) -> Array:
        return self.decoder(
            self.decoder_embedder(decoder_input_tokens),
            # Without states, attention uses the keys and values in the `encoder_cache`.
            (None,) * len(valid) if encoded is None else as_tuple(encoded),
            None,
            # All copies (beams or samples) of an example see the same inputs.
            _decoding_masks(valid, len(decoder_input_tokens)),
            deterministic=True,
            decode=True,
            cache_length=cache_length,
        )

    def _encoder_mask(self, encoder_input_tokens: Array, prompt: int) -> Array:
        """Returns boolean [batch, prompt + encoder_length]; prompt vectors are always valid."""
        valid = encoder_input_tokens != self.config.pad_id
        return jnp.pad(valid, ((0, 0), (prompt, 0)), constant_values=True)

    def _encoder_masks(
        self, encoder_input_tokens: Inputs | None, has_room: bool = False
    ) -> tuple[Array, ...]:
        """Returns the mask of each encoder input; empty in a decoder-only model."""
        prompt = 0 if has_room else self.config.encoder_prompt_length
        inputs = as_tuple(encoder_input_tokens)
        return tuple(self._encoder_mask(tokens, prompt) for tokens in inputs)


def _decoding_masks(valid: tuple[Array, ...], rows: int) -> tuple[Array, ...]:
    """Returns boolean [rows, 1, 1, keys] for the valid keys [batch, keys] of each encoder input."""
    return tuple(repeat_rows(keys, rows)[:, None, None, :] for keys in valid)


def _mean_states(
    states: Float[Array, "batch length embed"],
    texts: Integer[Array, "batch length"],
    numbers: Integer[Array, "batch texts"],
) -> Float[Array, "batch texts embed"]:
    """Returns the float32 mean state of each text's tokens; 0 for a text without tokens.

    `texts` has the number of each token's text, and `numbers` the numbers of the texts to average.
    """
    # [batch, texts, length]
    belongs = (texts[:, None, :] == numbers[:, :, None]).astype(jnp.float32)
    sums = jnp.einsum("btl,ble->bte", belongs, states.astype(jnp.float32))
    return sums / jnp.maximum(1, jnp.sum(belongs, axis=2, keepdims=True))


def _refuse_packed(segment_ids: Array | None) -> None:
    if segment_ids is not None:
        raise ConfigError("Soft prompts cannot be used with packed inputs: set PACK = False.")


def output_layer(module: Transformer, params: Any) -> OutputLayer:
    """Returns the output layer of a model with these parameters."""
    layer: Any = module.apply({"params": params}, method="output_layer")
    return layer


def for_decoding(module: Transformer) -> Transformer:
    """Returns the model for decoding, with separate parameter arrays for each layer.

    With scanned layers, each step of a decoding loop would first copy every layer's parameters out
    of the stacked arrays.
    """
    return module.clone(config=module.config.replace(scan_layers=False))


def initial_variables(module: Transformer, key: Array) -> Any:
    """Returns newly initialised variables of any model family: `params` and their logical axes."""
    return module.init(key, method="initialize")


@functools.lru_cache(maxsize=8)  # a run asks several times
def parameter_shapes(module: Transformer) -> Any:
    """Returns the shapes and dtypes of the variables without allocating them.

    All layers of a stack have the same shapes, except perhaps the first, so only one or two of them
    are traced, which takes a tenth of a second.
    """
    config = module.config
    counts = {"encoder": config.num_encoder_layers, "decoder": config.num_decoder_layers}
    # Scanned layers are traced only once anyway.
    if config.scan_layers:
        return _traced_shapes(module)
    # ALBERT's layers share one set of parameters.
    if config.shared_layers:
        counts = dict.fromkeys(counts, 1)
    limit = 1 if config.first_norm else 2
    # Trace one layer of each stack, or two if the first has no norm and so differs.
    few_layers = {
        f"num_{name}_layers": min(limit, getattr(config, f"num_{name}_layers")) for name in counts
    }
    shapes = _traced_shapes(module.clone(config=config.replace(**few_layers)))

    def repeat_layers(part: Any, count: int) -> Any:
        layers = [part[name] for name in ("layers_0", "layers_1") if name in part]
        outside = {name: shape for name, shape in part.items() if not name.startswith("layers_")}
        return outside | {f"layers_{i}": layers[min(i, len(layers) - 1)] for i in range(count)}

    def whole(parts: Any) -> Any:
        variable_shapes = {
            n: repeat_layers(part, counts[n]) if n in counts else part for n, part in parts.items()
        }
        if QUESTION_ENCODER in parts:
            variable_shapes[QUESTION_ENCODER] = whole(parts[QUESTION_ENCODER])
        return variable_shapes

    return {kind: whole(parts) for kind, parts in shapes.items()}


def _traced_shapes(module: Transformer) -> Any:
    # Abstract evaluation computes nothing and takes no memory, whatever the model's size.
    return jax.eval_shape(lambda: initial_variables(module, jax.random.key(0)))
