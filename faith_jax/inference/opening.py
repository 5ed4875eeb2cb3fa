"""Opening the checkpoints that scorers work with: a model, its tokenizer, and how they fit."""

import functools
import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.types import Array
from faith_jax.inference import CausalModel, EncoderDecoderModel, EncoderModel
from faith_jax.inference.loading import Model, load_model
from faith_jax.models.config import TransformerConfig
from faith_jax.tokenizers.base import Tokenizer
from faith_jax.tokenizers.match import check_vocabulary
from faith_jax.tokenizers.vocabularies import load_vocabulary

# Tokens that a model reads, where nobody says and its positions allow it.
LONGEST_INPUT = 1024


@functools.lru_cache(maxsize=4)
def open_model(model: str, dtype: str | None = None) -> Model:
    """Opens a checkpoint, once for all scorers of a process that name it.

    Raises:
      CheckpointError: where it cannot be opened, and on weights that are NaN or infinite, by which
        every score would be undefined.
    """
    opened = load_model(model, dtype=dtype)
    for path, leaf in jax.tree_util.tree_leaves_with_path(opened.params):
        if jnp.issubdtype(leaf.dtype, jnp.floating) and not _all_finite(leaf):
            name = jax.tree_util.keystr(path, simple=True, separator="/")
            raise CheckpointError(
                f"{model}: parameter {name}: expected finite numbers, got NaN or infinity; no "
                "response can be scored with it. Give another checkpoint."
            )
    return opened


def forget_models() -> None:
    """Lets go of the models that `open_model` keeps; who still holds one keeps it."""
    open_model.cache_clear()


@jax.jit
def _all_finite(values: Array) -> Array:
    return jnp.isfinite(values).all()


def open_tokenizer(model: str, vocabulary: str | None, config: TransformerConfig) -> Tokenizer:
    """Returns the tokenizer of a checkpoint.

    Args:
      model: the checkpoint's folder.
      vocabulary: where the tokenizer is, if not there: a folder, a file or an embedded name.
      config: the model's.

    Raises:
      ConfigError: where there is none, naming the option, or it is another model's.
    """
    folder = checkpoint_path(model)
    if vocabulary is None and not folder.is_dir():
        raise ConfigError(
            f"model {model!r} is no folder with a tokenizer; say where that is with vocabulary=…."
        )
    name = vocabulary or str(folder)
    found = load_vocabulary(name)
    check_vocabulary(config, found, name, vocabulary is None, model, option="vocabulary=")
    return found


def check_whole(name: str, value: Any, least: int) -> None:
    """Checks an option that is a whole number, or None.

    Raises:
      ConfigError: on anything else, and on a smaller number than `least`.
    """
    if value is not None:
        expect_whole(name, value, least)


def expect_whole(name: str, value: Any, least: int) -> None:
    """Checks an option that is a whole number; as `check_whole`, but None is refused too."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name}: expected a whole number of at least {least}, got {value!r}.")


def check_text(name: str, value: Any) -> None:
    """Checks an option that is a text, or None.

    Raises:
      ConfigError: on anything else.
    """
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{name}: expected a text, got {value!r}.")


def require_model(model: str | os.PathLike[str] | None) -> str:
    """Returns the model's path.

    Raises:
      ConfigError: where none is given.
    """
    if isinstance(model, os.PathLike):
        model = os.fspath(model)
    if model is not None and not isinstance(model, str):
        raise ConfigError(f"model: expected the path of a folder, got {model!r}.")
    if not model:
        raise ConfigError(
            "needs a model: give model=FOLDER (on the command line --scorer-option=NAME.model="
            "FOLDER)."
        )
    return model


def open_language_model(model: str, dtype: str | None = None) -> EncoderDecoderModel | CausalModel:
    """Opens a checkpoint that can generate.

    Raises:
      FaithJaxError: where it cannot be opened, or is encoder-only.
    """
    opened = open_model(model, dtype)
    if isinstance(opened, EncoderModel):
        raise ConfigError(f"model {model}: expected a language model, got an encoder-only one.")
    return opened


def open_classifier(model: str, dtype: str | None = None) -> EncoderModel:
    """Opens an encoder-only checkpoint.

    Raises:
      FaithJaxError: where it cannot be opened, or is another kind of model.
    """
    opened = open_model(model, dtype)
    if not isinstance(opened, EncoderModel):
        raise ConfigError(
            f"model {model}: expected an encoder-only model (RoBERTa, DeBERTa-v3), got "
            f"{type(opened).__name__}."
        )
    return opened


def check_ids(ids: list[int], vocab_size: int) -> list[int]:
    """Returns token ids that the model knows.

    Raises:
      ConfigError: naming the first that it does not: the tokenizer is another model's.
    """
    largest = int(np.max(ids, initial=0))
    if largest >= vocab_size:
        raise ConfigError(
            f"the tokenizer gives token {largest}, but the model's vocabulary has {vocab_size}; "
            "use the tokenizer that the model was trained with (vocabulary=…)."
        )
    return ids


def shown_ids(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Returns token ids as a text for people, special tokens such as `</s>` among them."""
    names = ("pad_id", "bos_id", "eos_id", "cls_id", "sep_id", "mask_id")
    special = {getattr(tokenizer, name) for name in names}
    shown, rest = "", list(ids)
    while rest:  # `decode` ends at the first end token
        count = next((n for n, token in enumerate(rest) if token in special), len(rest))
        shown += tokenizer.decode(rest[:count]) if count else ""
        if count < len(rest):
            shown += tokenizer.piece_text(rest[count])
        rest = rest[count + 1 :]
    return shown


def input_limit(config: TransformerConfig, asked: int | None, least: int = 8) -> int:
    """Returns how many tokens a model reads at most.

    Args:
      config: the model's.
      asked: by an option; None = 1,024, or fewer where the positions end before.
      least: the smallest number that may be asked for.

    Raises:
      ConfigError: where it is more than the model has positions, or fewer than `least`.
    """
    prompts = config.encoder_prompt_length + config.decoder_prompt_length
    table = config.max_positions - prompts if config.max_positions else 1 << 30
    if asked is None:
        return min(LONGEST_INPUT, table)
    if not least <= asked <= table:
        raise ConfigError(
            f"max_length: expected {least} to {table} tokens, the model's positions, got {asked!r}."
        )
    return asked
