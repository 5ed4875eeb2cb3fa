"""Which tokens are special: read from the JSON files beside a published tokenizer.

The files are those of Transformers' `save_pretrained`, of any age: `tokenizer_config.json`,
`special_tokens_map.json` and `added_tokens.json` name tokens (a string, or a dict with
"content"), `config.json` names the family. What no file says, the family's tokenizer class says;
where that is unknown too, the ids of `config.json` and at last the usual names are taken.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from faith_jax.data.tokenizer_folders import read_model_json
from faith_jax.errors import ConfigError

# In the order in which Transformers adds those that the vocabulary lacks.
NAMES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")

GPT2, ROBERTA, BERT = "GPT2Tokenizer", "RobertaTokenizer", "BertTokenizer"
DEBERTA, LLAMA, GEMMA = "DebertaV2Tokenizer", "LlamaTokenizer", "GemmaTokenizer"

# The special tokens of each tokenizer class where the files name none; in the order of NAMES.
_CLASS_TOKENS: dict[str, tuple[str | None, ...]] = {
    GPT2: ("<|endoftext|>", "<|endoftext|>", "<|endoftext|>", None, None, None, None),
    ROBERTA: ("<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"),
    BERT: (None, None, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"),
    DEBERTA: ("[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"),
    LLAMA: ("<s>", "</s>", "<unk>", None, None, None, None),
    GEMMA: ("<bos>", "<eos>", "<unk>", None, "<pad>", None, "<mask>"),
}
_ALIASES = {"BartTokenizer": ROBERTA}
_CLASS_OF_MODEL_TYPE = {
    "gpt2": GPT2,
    "roberta": ROBERTA,
    "bart": ROBERTA,
    "bert": BERT,
    "deberta-v2": DEBERTA,
    "llama": LLAMA,
    "gemma": GEMMA,
    "gemma2": GEMMA,
}
# Names that published tokenizers use, for a tokenizer.json without any file beside it.
USUAL_NAMES = {
    "bos": ("<s>", "<bos>", "<|begin_of_text|>", "<|endoftext|>"),
    "eos": ("</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>"),
    "unk": ("<unk>", "[UNK]"),
    "sep": ("[SEP]",),
    "pad": ("<pad>", "[PAD]"),
    "cls": ("[CLS]",),
    "mask": ("<mask>", "[MASK]"),
}
_TOKEN_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """A token as the files describe it: its text, and flags of `tokenizers.AddedToken`."""

    content: str
    flags: Mapping[str, bool] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class TokenizerConfig:
    """What the files beside a tokenizer say of it.

    Attributes:
      tokenizer_class: Transformers' class without "Fast"; empty = unknown.
      tokens: by the names of NAMES; None = said to be absent, no key = nothing said.
      extra: further special tokens, to be added where the vocabulary lacks them.
      added: tokens with their ids, in order.
      model_ids: `config.json`'s ids of NAMES.
      options: other settings, such as `add_bos_token` and `do_lower_case`.
    """

    tokenizer_class: str = ""
    tokens: Mapping[str, AddedToken | None] = dataclasses.field(default_factory=dict)
    extra: tuple[AddedToken, ...] = ()
    added: tuple[tuple[int, AddedToken], ...] = ()
    model_ids: Mapping[str, int] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def named(self, tokenizer_class: str) -> dict[str, AddedToken]:
        """Returns the special tokens by name, those of a class where the files say nothing."""
        usual = dict(zip(NAMES, _CLASS_TOKENS.get(tokenizer_class, ()), strict=False))
        found = {}
        for name in NAMES:
            content = usual.get(name)
            token = AddedToken(content) if content else None
            token = self.tokens.get(name, token)
            if token is not None:
                found[name] = token
        return found

    def option(self, name: str, default: bool) -> bool:
        """Returns a setting that is true or false."""
        value = self.options.get(name)
        return value if isinstance(value, bool) else default


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """Returns a JSON file's object.

    Raises:
      ConfigError: it cannot be read, is not UTF-8, not JSON, or no object.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"Vocabulary {path}: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"Vocabulary {path}: expected JSON in UTF-8, got byte {error.object[error.start]:#04x} "
            f"at {error.start}; copy the file again."
        ) from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(
            f"Vocabulary {path}: expected JSON, got a truncated or foreign file ({error}); copy "
            "it again."
        ) from None
    if not isinstance(found, dict):
        raise ConfigError(
            f"Vocabulary {path}: expected a JSON object, got {type(found).__name__}; it is not "
            "the file that its name says."
        )
    return found


def read_tokenizer_config(folder: pathlib.Path) -> TokenizerConfig:
    """Reads the JSON files of a folder that say which tokens are special.

    Args:
      folder: with any of tokenizer_config.json, special_tokens_map.json, added_tokens.json,
        config.json (or the model.json of an imported checkpoint, which keeps it), or none.

    Raises:
      ConfigError: one of them is broken.
    """

    def read(name: str) -> dict[str, Any]:
        return read_json(folder / name) if (folder / name).is_file() else {}

    options, model = read("tokenizer_config.json"), read("config.json") or read_kept_config(folder)
    where = folder / "tokenizer_config.json"
    tokens = _named_tokens(options, where)
    extra = _extra_tokens(options, where)
    if "added_tokens_decoder" in options:
        added = _added_by_id(options["added_tokens_decoder"], where)
    else:
        # As Transformers: these two are of an older form, which the newer one replaces.
        beside = read("special_tokens_map.json")
        where = folder / "special_tokens_map.json"
        tokens |= _named_tokens(beside, where)
        extra += _extra_tokens(beside, where)
        special = {token.content for token in [*tokens.values(), *extra] if token is not None}
        added = _added_by_text(read("added_tokens.json"), special, folder / "added_tokens.json")
    return TokenizerConfig(
        _tokenizer_class(options, model), tokens, tuple(extra), added, _model_ids(model), options
    )


def read_kept_config(folder: pathlib.Path) -> dict[str, Any]:
    """Returns the config.json of the folder that a checkpoint of ours was imported from."""
    try:
        found = json.loads(read_model_json(folder)["metadata"]["huggingface"]["config_json"])
    except (KeyError, TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _tokenizer_class(options: Mapping[str, Any], model: Mapping[str, Any]) -> str:
    name = options.get("tokenizer_class") or model.get("tokenizer_class")
    if isinstance(name, str):
        name = name.removesuffix("Fast")
        return _ALIASES.get(name, name)
    return _CLASS_OF_MODEL_TYPE.get(str(model.get("model_type")), "")


def _model_ids(model: Mapping[str, Any]) -> dict[str, int]:
    found = {}
    for name in NAMES:
        value = model.get(f"{name}_token_id")
        # Several ends may be listed; the first is the one that training used.
        value = value[0] if isinstance(value, list) and value else value
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            found[name] = value
    return found


def _token(value: Any, where: pathlib.Path, field: str) -> AddedToken:
    """Returns a token that a file describes by its text or by a dict with "content"."""
    if isinstance(value, str):
        return AddedToken(value)
    if isinstance(value, dict) and isinstance(value.get("content"), str):
        flags = {k: value[k] for k in _TOKEN_FLAGS if isinstance(value.get(k), bool)}
        return AddedToken(value["content"], flags)
    raise ConfigError(
        f"Vocabulary {where}: {field}: expected a token's text or an object with its content, "
        f"got {str(value)[:60]!r}; correct it or copy the file again."
    )


def _named_tokens(config: Mapping[str, Any], where: pathlib.Path) -> dict[str, AddedToken | None]:
    found: dict[str, AddedToken | None] = {}
    for name in NAMES:
        field = f"{name}_token"
        if field in config:
            value = config[field]
            found[name] = None if value is None else _token(value, where, field)
    return found


def _extra_tokens(config: Mapping[str, Any], where: pathlib.Path) -> list[AddedToken]:
    field = "extra_special_tokens"
    if not config.get(field):
        field = "additional_special_tokens"
    values = config.get(field) or []
    values = list(values.values()) if isinstance(values, dict) else values
    if not isinstance(values, list):
        raise ConfigError(f"Vocabulary {where}: {field}: expected a list of tokens.")
    return [_token(value, where, field) for value in values]


def _added_by_id(config: Any, where: pathlib.Path) -> tuple[tuple[int, AddedToken], ...]:
    field = "added_tokens_decoder"
    if not isinstance(config, dict) or not all(str(key).isdecimal() for key in config):
        raise ConfigError(f"Vocabulary {where}: {field}: expected an object of tokens by id.")
    found = [(int(key), _token(value, where, field)) for key, value in config.items()]
    return tuple(sorted(found, key=lambda item: item[0]))


def _added_by_text(
    config: Mapping[str, Any], special: set[str], where: pathlib.Path
) -> tuple[tuple[int, AddedToken], ...]:
    found = []
    for content, index in config.items():
        if isinstance(index, bool) or not isinstance(index, int):
            raise ConfigError(
                f"Vocabulary {where}: expected an id for {content!r}, got {str(index)[:60]!r}."
            )
        is_special = content in special
        flags = {"normalized": not is_special, "special": is_special}
        found.append((index, AddedToken(content, flags)))
    return tuple(sorted(found, key=lambda item: item[0]))
