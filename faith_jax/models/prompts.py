"""Soft prompts: trained vectors in front of a model's input embeddings, and their starts.

Reference: Lester 2021; Chang 2024, appendix B (5 vectors, started from a random sample of the
5,000 most frequent vocabulary embeddings).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from faith_jax.errors import ConfigError, InputError
from faith_jax.models.layers import param_with_axes
from faith_jax.types import Array


class SoftPrompt(nn.Module):
    """A prompt of trained vectors.

    Attributes:
      length: number of vectors.
      features: width of each, the model's `emb_dim`.
    """

    length: int
    features: int

    @nn.compact
    def __call__(self, embeddings: Array) -> Array:
        """Puts the prompt in front: [batch, length, embed] -> [batch, prompt + length, embed]."""
        vectors = param_with_axes(
            "embedding",
            nn.initializers.uniform(1.0),
            (self.length, self.features),
            jnp.float32,
            axes=("prompt", "embed"),
        )
        vectors = jnp.broadcast_to(
            vectors.astype(embeddings.dtype), (embeddings.shape[0], *vectors.shape)
        )
        return jnp.concatenate([vectors, embeddings], axis=1)


class PromptInitializer(Protocol):
    """Makes the start of a prompt, of the base model's vocabulary embedding."""

    def __call__(self, key: Array, length: int, embedding: Array) -> Array:
        """Returns float32 [length, embed] for an embedding [vocab, embed]."""
        ...


def uniform(scale: float = 0.5) -> PromptInitializer:
    """Uniform in [-scale, scale), whatever the vocabulary."""

    def initialize(key: Array, length: int, embedding: Array) -> Array:
        return jax.random.uniform(key, (length, embedding.shape[1]), minval=-scale, maxval=scale)

    return initialize


def sampled_vocabulary(most_frequent: int = 5000, first_token: int = 3) -> PromptInitializer:
    """A random sample, without repetition, of the most frequent tokens' embeddings.

    SentencePiece orders its pieces by frequency, so that the N most frequent tokens are the
    first N ids after the special ones.

    Args:
      most_frequent: how many tokens to sample from; a smaller vocabulary is taken whole.
      first_token: the first id that is not special (padding, end and unknown come first).
    """

    def initialize(key: Array, length: int, embedding: Array) -> Array:
        count = min(most_frequent, embedding.shape[0] - first_token)
        if length > count:
            raise ConfigError(
                f"sampled_vocabulary: a prompt of {length} vectors cannot be sampled from "
                f"{count} tokens; raise most_frequent or shorten the prompt."
            )
        tokens = first_token + jax.random.choice(key, count, (length,), replace=False)
        return jnp.take(embedding, tokens, axis=0).astype(jnp.float32)

    return initialize


def class_labels(
    labels: Sequence[str],
    encode: Callable[[str], Sequence[int]],
    fill: PromptInitializer | None = None,
) -> PromptInitializer:
    """Each label's mean token embedding in turn; vectors left over come from `fill`.

    Args:
      labels: class labels such as "YES" and "NO"; at most as many as the prompt is long.
      encode: the vocabulary's map from text to token ids.
      fill: for the rest of the prompt; default `sampled_vocabulary()`.
    """
    fill = fill or sampled_vocabulary()

    def initialize(key: Array, length: int, embedding: Array) -> Array:
        if len(labels) > length:
            raise ConfigError(
                f"class_labels: {len(labels)} labels do not fit a prompt of {length} vectors."
            )
        rows = []
        for label in labels:
            tokens = list(encode(label))
            if not tokens:
                raise ConfigError(f"class_labels: the label {label!r} has no tokens.")
            rows.append(jnp.mean(jnp.take(embedding, jnp.asarray(tokens), axis=0), axis=0))
        rest = fill(key, length - len(rows), embedding)
        return jnp.concatenate([jnp.stack(rows).astype(jnp.float32), rest]) if rows else rest

    return initialize


def from_npy(path: str) -> PromptInitializer:
    """The vectors of a .npy file of [length, embed]."""

    def initialize(key: Array, length: int, embedding: Array) -> Array:
        del key
        try:
            vectors = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(
                f"{path}: not a readable .npy file of a prompt ({str(error).splitlines()[0]})."
            ) from None
        expected = (length, embedding.shape[1])
        if vectors.shape != expected or vectors.dtype.kind != "f":
            raise InputError(
                f"{path}: expected a prompt of floats [length, embed] = {expected}, got "
                f"{vectors.dtype} {vectors.shape}; set PROMPT_LENGTH to the file's length and "
                "use the base model it was made for."
            )
        return jnp.asarray(vectors, jnp.float32)

    return initialize
