"""The encoder-decoder transformer: T5 1.0 and 1.1, a drop-in for T5X's t5 network.

`Transformer` has the call signature, parameter names and logical axes of
`t5x.examples.t5.network.Transformer`, so that T5X checkpoints load without renaming and
`t5x.models.EncoderDecoderModel(module=Transformer(config))` trains it. Beyond that it has soft
prompts, hidden states before the output layer, and a cached decoding path that projects the
encoder's outputs once.

>>> import jax, jax.numpy as jnp
>>> from faith_jax.models.config import TransformerConfig
>>> model = Transformer(TransformerConfig(vocab_size=32, emb_dim=8, num_heads=2, head_dim=4,
...                                       mlp_dim=16, num_encoder_layers=1, num_decoder_layers=1))
>>> tokens = jnp.ones((2, 5), jnp.int32)
>>> variables = model.init(jax.random.key(0), tokens, tokens, tokens, enable_dropout=False)
>>> model.apply(variables, tokens, tokens, tokens, enable_dropout=False).shape
(2, 5, 32)
"""

import jax.numpy as jnp
from flax import linen as nn

from faith_jax.errors import ConfigError
from faith_jax.models.config import TransformerConfig
from faith_jax.models.layers import (
    Embedding,
)
from faith_jax.models.prompts import SoftPrompt
from faith_jax.models.stacks import Decoder, Encoder
from faith_jax.types import Array


def attention_mask(
    query_mask: Array, key_mask: Array, query_segments: Array | None, key_segments: Array | None
) -> Array:
    """Returns boolean [batch, 1, query_length, key_length]: both valid, in the same segment.

    Args:
      query_mask: boolean [batch, query_length].
      key_mask: boolean [batch, key_length].
      query_segments: int [batch, query_length] of a packed batch, or None.
      key_segments: int [batch, key_length] of a packed batch, or None.
    """
    mask = query_mask[:, :, None] & key_mask[:, None, :]
    if query_segments is not None and key_segments is not None:
        mask &= query_segments[:, :, None] == key_segments[:, None, :]
    return mask[:, None]


class Transformer(nn.Module):
    """An encoder-decoder transformer, with soft prompts where the config asks for them."""

    config: TransformerConfig

    @property
    def scan_layers(self) -> bool:
        """Whether layers are stacked; T5X asks for it to find the batch axis of its caches."""
        return self.config.scan_layers

    def setup(self):
        cfg = self.config
        self.token_embedder = Embedding(cfg.vocab_size, cfg.emb_dim, cfg.dtype)
        self.encoder = Encoder(cfg)
        self.decoder = Decoder(cfg)
        if cfg.encoder_prompt_length:
            self.encoder_prompt = SoftPrompt(cfg.encoder_prompt_length, cfg.emb_dim)
        if cfg.decoder_prompt_length:
            self.decoder_prompt = SoftPrompt(cfg.decoder_prompt_length, cfg.emb_dim)

    def __call__(
        self,
        encoder_input_tokens: Array,
        decoder_input_tokens: Array,
        decoder_target_tokens: Array,
        encoder_segment_ids: Array | None = None,
        decoder_segment_ids: Array | None = None,
        encoder_positions: Array | None = None,
        decoder_positions: Array | None = None,
        *,
        enable_dropout: bool = True,
        decode: bool = False,
    ) -> Array:
        """Computes the logits of a batch, teacher-forced.

        Args:
          encoder_input_tokens: int [batch, encoder_length].
          decoder_input_tokens: int [batch, decoder_length], the targets shifted right by one.
          decoder_target_tokens: int [batch, decoder_length]; only where it is 0 matters.
          encoder_segment_ids: int [batch, encoder_length] of packed inputs.
          decoder_segment_ids: int [batch, decoder_length] of packed targets.
          encoder_positions: unused (positions are relative); for T5X's call signature.
          decoder_positions: unused.
          enable_dropout: needs the rng "dropout".
          decode: make the caches (T5X's way of starting a decode).

        Returns:
          float32 [batch, decoder_length, vocab]: the logits of each next token.
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
        encoder_input_tokens: Array,
        encoder_segment_ids: Array | None = None,
        enable_dropout: bool = True,
    ) -> Array:
        """Encodes int [batch, length] to [batch, prompt + length, embed]."""
        embeddings = self.token_embedder(encoder_input_tokens)
        return self.encode_embeddings(
            embeddings, encoder_input_tokens, encoder_segment_ids, enable_dropout
        )

    def encode_embeddings(
        self,
        embeddings: Array,
        encoder_input_tokens: Array,
        encoder_segment_ids: Array | None = None,
        enable_dropout: bool = True,
    ) -> Array:
        """Encodes embeddings [batch, length, embed] of tokens (which only make the mask).

        Raises:
          ConfigError: on packed inputs with a soft prompt, which could not be told apart.
        """
        self._refuse_packed_prompts(encoder_segment_ids)
        mask = self._encoder_mask(encoder_input_tokens)
        if self.config.encoder_prompt_length:
            embeddings = self.encoder_prompt(embeddings)
        mask = attention_mask(mask, mask, encoder_segment_ids, encoder_segment_ids)
        return self.encoder(embeddings, mask, deterministic=not enable_dropout)

    def decode(
        self,
        encoded: Array,
        encoder_input_tokens: Array,
        decoder_input_tokens: Array,
        decoder_target_tokens: Array,
        encoder_segment_ids: Array | None = None,
        decoder_segment_ids: Array | None = None,
        decoder_positions: Array | None = None,
        enable_dropout: bool = True,
        decode: bool = False,
        max_decode_length: int | None = None,
    ) -> Array:
        """Returns the logits [batch, decoder_length, vocab] for encoded inputs.

        Arguments are those of `__call__`, and `encoded` as `encode` returns it. With `decode`,
        the inputs follow the tokens of the cache, T5X's way; `start_decoding` and `decode_step`
        are ours, which also cache the encoder's keys and values.

        Raises:
          ConfigError: with `decode`, on packed inputs and on a decoder prompt, for which T5X's
            cache has no place.
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
            hidden = self._decode_hidden(
                encoded, encoder_input_tokens, decoder_input_tokens, max_decode_length
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
        encoded: Array,
        encoder_input_tokens: Array,
        decoder_input_tokens: Array,
        decoder_target_tokens: Array | None = None,
        encoder_segment_ids: Array | None = None,
        decoder_segment_ids: Array | None = None,
        enable_dropout: bool = True,
    ) -> Array:
        """Returns the hidden states [batch, decoder_length, embed] before the output layer.

        Arguments are those of `decode`; without `decoder_target_tokens` no decoder position is
        taken for padding.
        """
        embeddings = self.token_embedder(decoder_input_tokens)
        return self.decode_embeddings(
            embeddings,
            encoded,
            encoder_input_tokens,
            decoder_target_tokens,
            encoder_segment_ids,
            decoder_segment_ids,
            enable_dropout,
        )

    def decode_embeddings(
        self,
        embeddings: Array,
        encoded: Array,
        encoder_input_tokens: Array,
        decoder_target_tokens: Array | None = None,
        encoder_segment_ids: Array | None = None,
        decoder_segment_ids: Array | None = None,
        enable_dropout: bool = True,
    ) -> Array:
        """`decode_hidden` from embeddings [batch, decoder_length, embed] of the inputs."""
        self._refuse_packed_prompts(decoder_segment_ids)
        prompt = self.config.decoder_prompt_length
        if prompt:
            embeddings = self.decoder_prompt(embeddings)
        length = embeddings.shape[1]
        if decoder_target_tokens is None:
            valid = jnp.ones(embeddings.shape[:2], bool)
        else:
            valid = jnp.pad(decoder_target_tokens > 0, ((0, 0), (prompt, 0)), constant_values=True)
        causal = jnp.tril(jnp.ones((length, length), bool))
        mask = causal & attention_mask(valid, valid, decoder_segment_ids, decoder_segment_ids)
        encoder_mask = attention_mask(
            valid,
            self._encoder_mask(encoder_input_tokens),
            decoder_segment_ids,
            encoder_segment_ids,
        )
        hidden = self.decoder(
            embeddings, encoded, mask, encoder_mask, deterministic=not enable_dropout
        )
        return hidden[:, prompt:]

    def start_decoding(
        self, encoded: Array, encoder_input_tokens: Array, max_decode_length: int
    ) -> None:
        """Fills the caches for `decode_step`: the encoder's keys and values and the prompt's.

        Apply with `mutable=["cache", "encoder_cache"]`.

        Args:
          encoded: [batch, prompt + encoder_length, embed], as `encode` returns it.
          encoder_input_tokens: int [batch, encoder_length].
          max_decode_length: how many tokens will be decoded at most.
        """
        cfg = self.config
        start = jnp.zeros((encoder_input_tokens.shape[0], 1), jnp.int32)
        cache_length = cfg.decoder_prompt_length + max_decode_length
        self._decode_hidden(encoded, encoder_input_tokens, start, cache_length)
        if cfg.decoder_prompt_length:
            prompt = self.decoder_prompt(jnp.zeros((start.shape[0], 0, cfg.emb_dim), cfg.dtype))
            mask = self._encoder_mask(encoder_input_tokens)[:, None, None, :]
            self.decoder(prompt, None, None, mask, deterministic=True, decode=True)

    def decode_step(self, encoder_input_tokens: Array, tokens: Array) -> Array:
        """Feeds one token a row and returns the next token's logits.

        Apply with `mutable=["cache"]` and the caches of `start_decoding`.

        Args:
          encoder_input_tokens: int [batch, encoder_length], for the mask.
          tokens: int [batch], the last token of each row.

        Returns:
          float32 logits [batch, vocab].

        Raises:
          ValueError: without the caches.
        """
        missing = {"cache", "encoder_cache"} - set(self.variables)
        if missing:
            raise ValueError(
                f"decode_step needs the collections that start_decoding makes; missing: "
                f"{sorted(missing)}."
            )
        hidden = self._decode_hidden(None, encoder_input_tokens, tokens[:, None], None)
        return self.logits(hidden)[:, 0]

    def logits(self, hidden: Array) -> Array:
        """Projects hidden states [..., embed] to float32 logits [..., vocab]."""
        return jnp.dot(hidden.astype(jnp.float32), self.output_kernel())

    def output_kernel(self) -> Array:
        """Returns the output layer's kernel, float32 [embed, vocab], scaling included."""
        if self.config.logits_via_embedding:
            # Raffel 2020: tied output embeddings are scaled by 1/sqrt(embed).
            scale = self.config.emb_dim**-0.5
            return self.token_embedder.embedding.astype(jnp.float32).T * scale
        return self.decoder.output_kernel()

    def _decode_hidden(
        self,
        encoded: Array | None,
        encoder_input_tokens: Array,
        decoder_input_tokens: Array,
        cache_length: int | None,
    ) -> Array:
        mask = self._encoder_mask(encoder_input_tokens)[:, None, None, :]
        return self.decoder(
            self.token_embedder(decoder_input_tokens),
            encoded,
            None,
            mask,
            deterministic=True,
            decode=True,
            cache_length=cache_length,
        )

    def _refuse_packed_prompts(self, segment_ids: Array | None) -> None:
        cfg = self.config
        if segment_ids is not None and (cfg.encoder_prompt_length or cfg.decoder_prompt_length):
            raise ConfigError("Soft prompts cannot be used with packed inputs: set PACK = False.")

    def _encoder_mask(self, encoder_input_tokens: Array) -> Array:
        """Boolean [batch, prompt + encoder_length]: prompt vectors are always valid."""
        prompt = self.config.encoder_prompt_length
        return jnp.pad(encoder_input_tokens > 0, ((0, 0), (prompt, 0)), constant_values=True)
