"""Whether a tokenizer is a model's: its special tokens and its number of ids."""

import pathlib
from typing import Any

from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.core.errors import ConfigError
from faith_jax.models.config import TransformerConfig
from faith_jax.tokenizers.special_tokens import ids_of, model_config, said_in

# A tokenizer may have a few ids more than its model has embeddings: BART-large-CNN's has one.
_MORE_IDS = 256


def check_vocabulary(
    config: TransformerConfig,
    vocabulary: Any,
    name: str,
    is_own: bool = False,
    checkpoint: str | pathlib.Path | None = None,
    option: str = "VOCABULARY",
) -> int:
    """Checks that a vocabulary can be the model's.

    Models round the number of ids up. The tokenizer that a checkpoint carries may also have a few
    ids that the model has no embedding for; no text must then make them (`check_ids`).

    Args:
      config: the model's.
      vocabulary: ours or SeqIO's.
      name: of the vocabulary, for messages.
      is_own: whether the checkpoint carries it.
      checkpoint: what the model is read from: its files may say more of its special tokens. None =
        nothing.
      option: what the user sets to give another vocabulary, for messages.

    Returns:
      How many ids the model has no embedding for: 0, except for few published models.

    Raises:
      ConfigError: naming what differs, and both ids or numbers.
    """
    size, rows = vocabulary.vocab_size, config.vocab_size
    remedy = f"Set {option} to the folder or file of the model's own tokenizer"
    missing = max(0, size - rows)
    fits = missing < _MORE_IDS if is_own else missing == 0
    if not fits or rows >= size + max(_MORE_IDS, size // 32):
        raise ConfigError(
            f"The vocabulary has {size} ids ({name}) but the model {rows}: they do not belong "
            f"together. {remedy}."
        )
    difference = _difference(config, vocabulary, is_own, checkpoint)
    if difference is not None:
        what, theirs, ours, field = difference
        there = "no such token" if theirs is None else f"id {theirs}"
        new = ""
        if field and theirs is not None and option == "VOCABULARY":
            value = f"({theirs},)" if field == "eos_ids" else theirs
            new = f"; for a new model, --gin.config.TransformerConfig.{field}={value}"
        raise ConfigError(
            f"The vocabulary's {what} is {there} ({name}) but the model's is id {ours}: they do "
            f"not belong together. {remedy}{new}."
        )
    special, start = _special(vocabulary), config.decoder_start_id
    has_decoder_start = not (is_own or config.is_encoder_only or config.is_decoder_only)
    if has_decoder_start and start not in (*special.values(), config.pad_id):
        named = ", ".join(f"{name} {index}" for name, index in special.items())
        raise ConfigError(
            f"The model's decoder starts with id {start}, which is no special token of the "
            f"vocabulary ({name}: {named}): they do not belong together. {remedy}."
        )
    return missing


def _difference(
    config: TransformerConfig,
    vocabulary: Any,
    is_own: bool,
    checkpoint: str | pathlib.Path | None,
) -> tuple[str, int | None, str, str] | None:
    """Returns the token that differs, its id in the vocabulary and in the model, and its field."""
    begin, end, pad = (getattr(vocabulary, f"{name}_id", None) for name in ("bos", "eos", "pad"))
    said_begin, more_ends = ((), ()) if checkpoint is None else _said(checkpoint_path(checkpoint))
    ends = dict.fromkeys((*config.eos_ids, *more_ends))
    # An encoder alone, and a model that does not say, ends nothing.
    if not config.is_encoder_only and ends and end not in ends:
        return "end token", end, " or ".join(map(str, ends)), "eos_ids"
    # A decoder-only model's rows come with their lengths: its padding means nothing.
    unused = config.pad_id < 0 or (is_own and config.is_decoder_only)
    another = pad is None and config.pad_id in _special(vocabulary).values()
    if not unused and pad != config.pad_id and not another:
        return "padding", pad, str(config.pad_id), "pad_id"
    if config.is_decoder_only and said_begin and begin not in (None, -1, said_begin[0]):
        return "begin token", begin, str(said_begin[0]), ""
    return None


def _said(folder: pathlib.Path) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the begin token of config.json and the end tokens of generation_config.json."""
    generation = said_in(folder / "generation_config.json")
    return ids_of(model_config(folder).get("bos_token_id")), ids_of(generation.get("eos_token_id"))


def _special(vocabulary: Any) -> dict[str, int]:
    """Returns a vocabulary's special ids by name."""
    names = ("pad", "bos", "eos", "unk", "cls", "sep")
    found = {name: getattr(vocabulary, f"{name}_id", None) for name in names}
    return {name: index for name, index in found.items() if index is not None and index >= 0}
