"""Soft prompts: trained vectors before a model's input embeddings, and their initial values.

Reference: Lester 2021; Chang 2024, appendix B (5 vectors, initialised with a random sample of the
5,000 most frequent vocabulary embeddings).

Training saves the prompt in the item `params` of MODEL_DIR/checkpoints/<step>/
(`faith_jax.training.checkpoints`); `faith_jax.runs.soft_prompt_files.export_prompt` writes only the
prompt, as a .npy file, float32 [length, embed], or as a PEFT folder.
"""

import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Float, Integer

from faith_jax.core.errors import ConfigError, InputError, did_you_mean
from faith_jax.core.types import Array, PyTree
from faith_jax.models.layers import param_with_axes


def _draw_uniform(
    key: Array, shape: Sequence[int], dtype: Any, scale: float = 0.5, is_symmetric: bool = True
) -> Array:
    return jax.random.uniform(key, shape, dtype, -scale if is_symmetric else 0.0, scale)


class SoftPrompt(nn.Module):
    """A prompt of trained vectors, uniform in [-0.5, 0.5) until an initialiser sets them.

    Attributes:
      length: number of vectors.
      features: width of a vector, the model's `emb_dim`.
    """

    length: int
    features: int

    def setup(self):
        self.embedding = param_with_axes(
            "embedding",
            _draw_uniform,
            (self.length, self.features),
            ("prompt", "embed"),
        )

    def __call__(
        self, embeddings: Float[Array, "batch length embed"]
    ) -> Float[Array, "batch prompt_and_length embed"]:
        """Prepends the prompt: [batch, length, embed] -> [batch, prompt + length, embed]."""
        # Every row gets the same vectors: [batch, prompt, embed].
        vectors = jnp.broadcast_to(
            self.embedding.astype(embeddings.dtype), (embeddings.shape[0], *self.embedding.shape)
        )
        return jnp.concatenate([vectors, embeddings], axis=1)

    def place(
        self,
        embeddings: Float[Array, "batch length embed"],
        positions: Integer[Array, "batch length"],
    ) -> Float[Array, "batch length embed"]:
        """Puts the prompt at the first positions of each segment of a packed row."""
        # Vector i replaces position i; positions outside the prompt are clipped here and ignored
        # below.
        vectors = jnp.take(self.embedding, positions, axis=0, mode="clip")
        is_prompt = (positions >= 0) & (positions < self.length)
        return jnp.where(is_prompt[..., None], vectors.astype(embeddings.dtype), embeddings)


def prompt_embedding(params: PyTree, name: str) -> np.ndarray:
    """Returns the token embedding of the stack that a prompt belongs to, float32 [vocab, embed].

    A decoder may have its own token embedding.
    """
    decoder = params.get("decoder", {}) if name == "decoder_prompt" else {}
    embedder = decoder.get("token_embedder", params["token_embedder"])
    return np.asarray(embedder["embedding"], np.float32)


@runtime_checkable
class PromptInitializer(Protocol):
    """Makes the initial values of a prompt from the base model's vocabulary embedding."""

    def __call__(self, key: Array, length: int, embedding: Array) -> Array:
        """Returns float32 [length, embed] for an embedding [vocab, embed]."""
        ...


def initializer_name(initializer: PromptInitializer | None) -> str:
    """Returns the name of the function in this module that made an initialiser, or its own name.

    >>> initializer_name(uniform(0.1)), initializer_name(None)
    ('uniform', 'sampled_vocabulary')
    """
    initializer = initializer or sampled_vocabulary()
    name = getattr(initializer, "__qualname__", type(initializer).__qualname__)
    return name.partition(".")[0]


def uniform(scale: float = 0.5, is_symmetric: bool = True) -> PromptInitializer:
    """Uniform in [-scale, scale), or like Flax's in [0, scale), independent of the vocabulary."""

    def initialize(key: Array, length: int, embedding: Array) -> Array:
        shape = (length, embedding.shape[1])
        return _draw_uniform(key, shape, jnp.float32, scale, is_symmetric)

    return initialize


def sampled_vocabulary(most_frequent: int = 5000, first_token: int = 3) -> PromptInitializer:
    """A random sample, without replacement, of the most frequent tokens' embeddings.

    SentencePiece orders its pieces by frequency, so the N most frequent tokens are the first N ids
    after the special ones.

    Args:
      most_frequent: number of tokens to sample from, at most the whole vocabulary.
      first_token: the first id that is not special (padding, end and unknown come first).
    """

    def initialize(key: Array, length: int, embedding: Array) -> Array:
        # Small vocabularies have fewer tokens.
        count = min(most_frequent, embedding.shape[0] - first_token)
        if length > count:
            raise ConfigError(
                f"sampled_vocabulary: a prompt of {length} vectors cannot be sampled from "
                f"{count} tokens; raise most_frequent or shorten the prompt."
            )
        return _sample_embeddings(key, embedding, length, count, first_token)

    return initialize


@functools.partial(jax.jit, static_argnums=(2, 3, 4))  # one program, not one for each operation
def _sample_embeddings(
    key: Array, embedding: Array, length: int, count: int, first_token: int
) -> Array:
    # Without replacement, so that no two vectors start out equal.
    tokens = first_token + jax.random.choice(key, count, (length,), replace=False)
    # The prompt starts with embeddings that the model was trained on (Lester 2021). It is float32,
    # because bfloat16 would lose small updates.
    return jnp.take(embedding, tokens, axis=0).astype(jnp.float32)


def class_labels(
    labels: Sequence[str | int],
    encode: Callable[[str], Sequence[int]],
    fill: PromptInitializer | None = None,
) -> PromptInitializer:
    """The mean token embedding of each label in turn; `fill` makes the remaining vectors.

    Args:
      labels: class labels such as "YES" and "NO"; at most as many as the prompt is long.
      encode: the vocabulary's map from text to token ids.
      fill: makes the rest of the prompt; default `sampled_vocabulary()`.
    """
    # Lester 2021: the prompt begins with the labels and is filled up with sampled vocabulary.
    fill = fill or sampled_vocabulary()
    # Labels from --gin.CLASS_LABELS=yes,no are a string, and from =1,0 a tuple of integers.
    parts = labels.split(",") if isinstance(labels, str) else labels
    texts = [str(part).strip() for part in parts]

    def initialize(key: Array, length: int, embedding: Array) -> Array:
        if len(texts) > length:
            raise ConfigError(
                f"class_labels: {len(texts)} labels do not fit a prompt of {length} vectors."
            )
        rows = []
        for label in texts:
            tokens = encode(label)
            if not len(tokens):
                raise ConfigError(f"class_labels: the label {label!r} has no tokens.")
            # JAX would not raise an error, but return NaN.
            if max(tokens) >= embedding.shape[0]:
                raise ConfigError(
                    f"class_labels: the label {label!r} has token {max(tokens)}, but the model's "
                    f"vocabulary ends at {embedding.shape[0] - 1}; use the model's own vocabulary."
                )
            # A label of several tokens gets the mean of their embeddings, [embed].
            rows.append(jnp.mean(jnp.take(embedding, jnp.asarray(tokens), axis=0), axis=0))
        if len(rows) < length:
            # Labels come first; `fill` makes the other vectors.
            rows += list(fill(key, length - len(rows), embedding))
        return jnp.stack(rows).astype(jnp.float32)

    return initialize


def from_npy(path: str) -> PromptInitializer:
    """The vectors of a .npy file of floats [length, embed].

    The returned initialiser raises an InputError if the file does not exist, is not a .npy file,
    has another shape, or contains NaN or infinity.
    """

    def initialize(key: Array, length: int, embedding: Array) -> Array:
        del key
        vectors = read_npy(path)
        expected = (length, embedding.shape[1])
        if vectors.shape != expected:
            raise InputError(
                f"{path}: expected a prompt of floats [length, embed] = {expected}, got "
                f"{vectors.shape}; set PROMPT_LENGTH to the file's length and use the base model "
                "it was made for."
            )
        return jnp.asarray(vectors)

    return initialize


def read_npy(path: str | pathlib.Path) -> np.ndarray:
    """Reads a prompt, float32 [length, embed], from a .npy file of floats; never unpickles.

    Raises:
      InputError: if the file does not exist, is not a .npy file, has another dtype or rank, or
        contains NaN or infinity.
    """
    # Imported here, so that models without a stored prompt do not import the storage code.
    from faith_jax.core.files.stores import path_of

    try:
        with path_of(path).open("rb") as file:
            # MemoryError: a damaged header may claim an array of any size.
            vectors = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        near = ""
        if isinstance(error, FileNotFoundError):
            folder = path_of(path).parent
            beside = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
            near = did_you_mean(path_of(path).name, beside)
        raise InputError(
            f"{path}: not a readable .npy file of a prompt ({reason.rstrip('.')}).{near}"
        ) from None
    if vectors.dtype.kind != "f" or vectors.ndim != 2 or not vectors.size:
        raise InputError(
            f"{path}: expected a prompt of floats [length, embed], got {vectors.dtype} "
            f"{vectors.shape}."
        )
    # An overflow is reported below with the vector's number, instead of by NumPy's warning.
    with np.errstate(over="ignore"):
        vectors = vectors.astype(np.float32)
    # Float64 values outside the range of float32 have become infinite.
    if not np.isfinite(vectors).all():
        row = int(np.argwhere(~np.isfinite(vectors))[0][0])
        raise InputError(f"{path}: expected finite numbers, but vector {row} has others.")
    return vectors
