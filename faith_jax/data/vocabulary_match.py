"""Whether a tokenizer is a model's: its special tokens and its number of ids."""

import dataclasses
import json
import pathlib
from typing import Any

from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.data.special_tokens import read_kept_config
from faith_jax.errors import ConfigError
from faith_jax.models.config import TransformerConfig

# A tokenizer may have a few ids more than its model has embeddings: BART-large-CNN's has one.
_MORE_IDS = 256
_REMEDY = "Set {} to the folder or file of the model's own tokenizer"


@dataclasses.dataclass(frozen=True)
class SaidTokens:
    """What a checkpoint's files say of special tokens, beyond what the model's config has.

    Attributes:
      bos_id: of config.json; None = it does not say.
      more_eos_ids: end tokens of generation_config.json.
    """

    bos_id: int | None = None
    more_eos_ids: tuple[int, ...] = ()

    @classmethod
    def read(cls, checkpoint: str | pathlib.Path) -> "SaidTokens":
        """Reads the files of a checkpoint's folder, where there are any."""
        folder = checkpoint_path(checkpoint)
        config = _json(folder / "config.json") or read_kept_config(folder)
        ends = _json(folder / "generation_config.json").get("eos_token_id")
        ends = ends if isinstance(ends, list) else [ends]
        bos = config.get("bos_token_id")
        return cls(bos if _is_id(bos) else None, tuple(i for i in ends if _is_id(i)))


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _json(path: pathlib.Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def check_vocabulary(
    config: TransformerConfig,
    vocabulary: Any,
    name: str,
    is_own: bool = False,
    said: SaidTokens | None = None,
    option: str = "VOCABULARY",
) -> int:
    """Checks that a vocabulary can be the model's.

    Models round the number of ids up. The tokenizer that a checkpoint carries may, too, have a few
    ids that the model has no embedding for; no text must then make them (`check_ids`).

    Args:
      config: the model's.
      vocabulary: ours or SeqIO's.
      name: of the vocabulary, for messages.
      is_own: whether the checkpoint carries it.
      said: what the checkpoint's files say besides.
      option: what the user sets to give another vocabulary, for messages.

    Returns:
      How many ids the model has no embedding for, 0 but for few published models.

    Raises:
      ConfigError: naming what differs, and both ids or numbers.
    """
    size, rows = vocabulary.vocab_size, config.vocab_size
    remedy = _REMEDY.format(option)
    missing = max(0, size - rows)
    fits = missing < _MORE_IDS if is_own else missing == 0
    if not fits or rows >= size + max(_MORE_IDS, size // 32):
        raise ConfigError(
            f"The vocabulary has {size} ids ({name}) but the model {rows}: they do not belong "
            f"together. {remedy}."
        )
    try:
        _check_end(config, vocabulary, name, said or SaidTokens())
        _check_padding(config, vocabulary, name, is_own)
        _check_beginning(config, vocabulary, name, is_own, said or SaidTokens())
    except _Mismatch as error:
        setting = error.setting if option == "VOCABULARY" else ""
        raise ConfigError(f"{error} {remedy}{setting}.") from None
    return missing


class _Mismatch(Exception):
    """What differs, and how a new model's config is set to the vocabulary."""

    def __init__(self, message: str, setting: str = ""):
        super().__init__(message)
        self.setting = setting


def _differs(what: str, name: str, theirs: int | None, ours: str, setting: str = "") -> _Mismatch:
    there = "no such token" if theirs is None else f"id {theirs}"
    new = ""
    if setting and theirs is not None:
        new = f"; for a new model, --gin.config.TransformerConfig.{setting.format(theirs)}"
    return _Mismatch(
        f"The vocabulary's {what} is {there} ({name}) but the model's is {ours}: they do not "
        "belong together.",
        new,
    )


def _check_end(config: TransformerConfig, vocabulary: Any, name: str, said: SaidTokens) -> None:
    end = vocabulary.eos_id
    ends = (*config.eos_ids, *(i for i in said.more_eos_ids if i not in config.eos_ids))
    # An encoder alone, and a model that does not say, ends nothing.
    if config.is_encoder_only or not ends:
        return
    if end is None or end not in ends:
        shown = " or ".join(map(str, ends))
        raise _differs("end token", name, end, f"id {shown}", "eos_ids=({},)")


def _check_padding(config: TransformerConfig, vocabulary: Any, name: str, is_own: bool) -> None:
    pad = vocabulary.pad_id
    # A decoder-only model's rows come with their lengths: its padding means nothing.
    if config.pad_id < 0 or pad == config.pad_id or (is_own and config.is_decoder_only):
        return
    if pad is None and config.pad_id in _special(vocabulary):
        return
    raise _differs("padding", name, pad, f"id {config.pad_id}", "pad_id={}")


def _check_beginning(
    config: TransformerConfig, vocabulary: Any, name: str, is_own: bool, said: SaidTokens
) -> None:
    if config.is_encoder_only:
        return
    if not config.is_decoder_only:
        start = config.decoder_start_id
        if not is_own and start not in (*_special(vocabulary), config.pad_id):
            raise _Mismatch(
                f"The model's decoder starts with id {start}, which is no special token of the "
                f"vocabulary ({name}: {_named(vocabulary)}): they do not belong together."
            )
        return
    begin = getattr(vocabulary, "bos_id", None)
    if said.bos_id is not None and begin not in (None, -1, said.bos_id):
        raise _differs("begin token", name, begin, f"id {said.bos_id}")


_SPECIAL = {"padding": "pad_id", "begin": "bos_id", "end": "eos_id", "unknown": "unk_id"}


def _special(vocabulary: Any) -> set[int]:
    names = (*_SPECIAL.values(), "cls_id", "sep_id")
    found = (getattr(vocabulary, name, None) for name in names)
    return {index for index in found if index is not None and index >= 0}


def _named(vocabulary: Any) -> str:
    named = {what: getattr(vocabulary, name, None) for what, name in _SPECIAL.items()}
    return ", ".join(f"{what} {index}" for what, index in named.items() if index is not None)
