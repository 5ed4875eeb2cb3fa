"""Decoding settings from a published checkpoint's generation_config.json.

Older folders have these settings in config.json, which is read if there is no
generation_config.json, as Hugging Face does. Lengths are translated: theirs count an
encoder-decoder's start token, ours only decoded tokens. For a decoder-only model, theirs count the
prompt too, so only `max_new_tokens` and `min_new_tokens` have a counterpart.
"""

import json
import logging
import pathlib
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.errors import ConfigError
from faith_jax.core.rows import read_json
from faith_jax.core.settings import NotNegative, Number, Positive, TokenId, TokenIds, check_value
from faith_jax.core.types import as_tuple
from faith_jax.decoding.config import DecodingConfig
from faith_jax.models.config import TransformerConfig

logger = logging.getLogger("faith_jax")

_GENERATION_CONFIG = "generation_config.json"
# Default if neither the user nor the checkpoint sets it, as in decoding/decoding.gin.
_MAX_LENGTH = 512
# Hugging Face's default for sampling.
_TOP_K = 50


# The fields that are read, and their types.
_READ: dict[str, Any] = {
    **dict.fromkeys(("max_length", "max_new_tokens"), Positive),
    **dict.fromkeys(("min_length", "min_new_tokens", "no_repeat_ngram_size"), NotNegative),
    **dict.fromkeys(("num_beams", "num_return_sequences"), Positive),
    **dict.fromkeys(("forced_bos_token_id", "pad_token_id"), TokenId),
    **dict.fromkeys(
        ("forced_eos_token_id", "eos_token_id", "decoder_start_token_id"), TokenId | TokenIds
    ),
    **dict.fromkeys(("length_penalty", "temperature", "top_p"), Number),
    "top_k": NotNegative,
    "early_stopping": bool | Literal["never"],
    "do_sample": bool,
}
_LENGTHS = ("max_length", "max_new_tokens", "min_length", "min_new_tokens")
_OF_SAMPLING = ("temperature", "top_k", "top_p")
_OUR_NAMES = {
    "no_repeat_ngram_size": "no_repeat_ngram",
    "forced_bos_token_id": "forced_bos_id",
    "forced_eos_token_id": "forced_eos_id",
    "num_return_sequences": "num_return",
    "eos_token_id": "eos_id",
    "pad_token_id": "pad_id",
}
_OF_MODELS = {"eos_token_id", "pad_token_id", "decoder_start_token_id"}
# Settings that do not affect which tokens are picked.
_WITHOUT_EFFECT = {
    "bos_token_id", "cache_implementation", "cache_config", "output_attentions",
    "output_hidden_states", "output_logits", "output_scores", "return_dict_in_generate",
    "return_legacy_cache", "transformers_version", "use_cache",
}  # fmt: skip
# Settings that have no effect with these default values, which older files contain.
_NEUTRAL = {
    "diversity_penalty": 0, "encoder_no_repeat_ngram_size": 0, "encoder_repetition_penalty": 1,
    "epsilon_cutoff": 0, "eta_cutoff": 0, "guidance_scale": 1, "min_p": 0, "num_beam_groups": 1,
    "penalty_alpha": 0, "remove_invalid_values": False, "renormalize_logits": False,
    "repetition_penalty": 1, "typical_p": 1,
}  # fmt: skip


def advice_for(name: str) -> str:
    """Returns what to give in place of an option of Hugging Face's; "" = it has no such option."""
    ours = _OUR_NAMES | {"max_new_tokens": "max_length"}
    if name == "do_sample":
        return "A temperature above 0 samples."
    if name in ours:
        return f"Here it is {ours[name]!r}."
    if name in _NEUTRAL:
        return "Hugging Face's option of this name has no counterpart here."
    return ""


class _PublishedSettings(NamedTuple):
    """The decoding settings of a checkpoint.

    Attributes:
      file: the file with the settings.
      values: the file's settings, by their Hugging Face names.
      settings: fields of `DecodingConfig`, each with the Hugging Face name it comes from.
      ignored: for each setting without a counterpart here, the reason, by its Hugging Face name.
    """

    file: pathlib.Path
    values: dict[str, Any]
    settings: dict[str, tuple[str, Any]]
    ignored: dict[str, str]

    def to_readable(self, names: Any) -> str:
        return ", ".join(f"{name} = {json.dumps(self.values[name])}" for name in names)


def from_checkpoint(
    path: str,
    max_length: int | None = None,
    min_length: int | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    num_beams: int | None = None,
    length_penalty: float | None = None,
    early_stopping: bool | Literal["never"] | None = None,
    no_repeat_ngram: int | None = None,
    num_return: int | None = None,
    speculation: Literal["ngram"] | None = None,
    draft_length: int | None = None,
) -> DecodingConfig:
    """Returns a checkpoint's decoding settings, and logs which are applied and which ignored.

    `path` is a Hugging Face folder. The other arguments are fields of `DecodingConfig`: None = the
    checkpoint's value, or else `DecodingConfig`'s default (512 for `max_length`). A `temperature`
    decides whether to sample, whatever the checkpoint's `do_sample`.

    Raises:
      ConfigError: if the checkpoint has no decoding settings, on a field of another type than
        Hugging Face's, and on contradicting settings; the message names the file.
      CheckpointError: if there is no checkpoint.
    """
    options = {
        name: value for name, value in locals().items() if name != "path" and value is not None
    }
    published = _read_settings(path, open_checkpoint(path).config)
    if published is None:
        raise ConfigError(
            f"{path}: has no {_GENERATION_CONFIG} and no decoding settings in config.json; name a "
            "published folder that has, by --gin.DECODING_CHECKPOINT, or leave out "
            "decoding/from_checkpoint.gin."
        )
    settings = {field: value for field, (_, value) in published.settings.items()}
    # The checkpoint's sampling settings would contradict the temperature or a search with beams.
    if temperature is not None or (num_beams is not None and num_beams > 1):
        settings = {k: v for k, v in settings.items() if k not in _OF_SAMPLING}
    if temperature is not None and temperature > 0:
        # With the checkpoint's beams, decoding would search instead of sampling.
        settings.pop("num_beams", None)
    try:
        decoding = DecodingConfig(**{"max_length": _MAX_LENGTH} | settings | options)
    except ConfigError as error:
        raise ConfigError(f"{published.file}: {error}") from None
    applied = [name for field, (name, _) in published.settings.items() if field not in options]
    logger.info(
        "Decoding as %s says: %s",
        published.file,
        published.to_readable(applied) or "nothing of ours",
    )
    for name, reason in published.ignored.items():
        logger.warning(
            "%s: %s is ignored: %s", published.file, published.to_readable([name]), reason
        )
    return decoding


def log_ignored(path: str, decoding: DecodingConfig, model: TransformerConfig) -> None:
    """Logs the settings of a checkpoint that differ from a run's decoding.

    Checkpoints other than published folders have no settings.

    Raises:
      ConfigError: on a field of another type than Hugging Face's.
    """
    published = _read_settings(path, model)
    if published is None:
        return
    model_ids = {"eos_id": model.eos_ids, "pad_id": model.pad_id}
    differing = []
    for field, (name, value) in published.settings.items():
        ours = getattr(decoding, field)
        ours = model_ids.get(field) if ours is None else ours
        # One id and a list of one id mean the same, and so do end tokens in another order.
        if set(as_tuple(ours)) != set(as_tuple(value)):
            differing.append(name)
    ignored = [*differing, *(name for name in published.ignored if name not in differing)]
    if ignored:
        logger.warning(
            "%s asks for %s, which this run ignores; decoding/from_checkpoint.gin applies what "
            "has a counterpart.",
            published.file,
            published.to_readable(ignored),
        )


def _read_settings(path: str, model: TransformerConfig) -> _PublishedSettings | None:
    """Reads the decoding settings of a checkpoint; None = it has none."""
    folder = checkpoint_path(path)
    file = folder / _GENERATION_CONFIG
    if file.exists():
        values = read_json(file)
    else:
        file = folder / "config.json"
        # The rest of this file, special tokens included, describes the model.
        of_decoding = {*_READ, *_NEUTRAL} - _OF_MODELS
        config = read_json(file) if file.exists() else {}
        values = {name: value for name, value in config.items() if name in of_decoding}
    # None means unset; names such as `_from_model_config` are internal to Hugging Face's library.
    values = {
        name: value
        for name, value in values.items()
        if value is not None
        and not name.startswith("_")
        and name not in _WITHOUT_EFFECT
        and not (name in _NEUTRAL and value == _NEUTRAL[name])
    }
    if not values:
        return None
    for name in _READ.keys() & values.keys():
        values[name] = check_value(f"{file}: {name}", values[name], _READ[name])
    return _PublishedSettings(file, values, *_translate_settings(values, model))


def _translate_settings(
    values: Mapping[str, Any], model: TransformerConfig
) -> tuple[dict[str, tuple[str, Any]], dict[str, str]]:
    """Translates checked values to `settings` and `ignored`; see `_PublishedSettings`."""
    # Fields with the same meaning in both libraries; lengths and sampling follow below.
    settings: dict[str, tuple[str, Any]] = {}
    ignored: dict[str, str] = {}
    for name, value in values.items():
        if name not in _READ:
            ignored[name] = "there is no such setting here"
        elif name == "decoder_start_token_id":
            if as_tuple(value) != (model.decoder_start_id,):
                ignored[name] = f"the model's config has {model.decoder_start_id}"
        elif name not in ("do_sample", *_OF_SAMPLING, *_LENGTHS):
            settings[_OUR_NAMES.get(name, name)] = (name, value)
    # Our lengths count decoded tokens with the end token. Theirs also count the start token, and
    # their response may end right after `min_new_tokens` tokens.
    for ours, new, of_new, of_all in (
        # Our name, their name for new tokens, what to add to that, and to their total length.
        ("max_length", "max_new_tokens", 0, -1),
        ("min_length", "min_new_tokens", 1, 0),
    ):
        if new in values:
            settings[ours] = (new, values[new] + of_new)
            if ours in values:
                ignored[ours] = f"{new} overrides it"
        elif ours not in values:
            continue
        elif model.is_decoder_only:
            if values[ours] > 0:
                ignored[ours] = "it counts the prompt too, which differs from row to row"
        elif values[ours] + of_all < 1 and ours == "max_length":
            ignored[ours] = "it leaves no token to decode"
        else:
            settings[ours] = (ours, values[ours] + of_all)
    if values.get("do_sample") and values.get("num_beams", 1) == 1:
        # Hugging Face's defaults if the file does not set them; by default it samples from the
        # top k.
        for name, default in {"temperature": 1.0, "top_k": _TOP_K, "top_p": 1.0}.items():
            source_name = name if name in values else "do_sample"
            settings[name] = (source_name, values.get(name, default))
    else:
        # `do_sample` with several beams is Hugging Face's beam sampling, which we do not have.
        reason = "without do_sample it has no effect"
        if values.get("do_sample"):
            ignored["do_sample"] = reason = "beams are searched, not sampled"
        ignored |= {name: reason for name in _OF_SAMPLING if name in values}
    if model.is_decoder_only and "forced_bos_token_id" in values:
        del settings["forced_bos_id"]
        ignored["forced_bos_token_id"] = "it is for what comes behind a decoder's start token"
    return settings, ignored
