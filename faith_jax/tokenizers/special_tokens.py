"""Which tokens are special: read from the JSON files beside a published tokenizer.

The files are those of Transformers' `save_pretrained`, of any age: `tokenizer_config.json`,
`special_tokens_map.json` and `added_tokens.json` name tokens (a string, or an object with
"content"), `config.json` names the family. Where no file names a token, the family's tokenizer
class does; if that is unknown too, the ids in `config.json` count, and at last the usual names.
"""

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from faith_jax.checkpoints import tensors
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.tokenizers.base import NAMES

GPT2, ROBERTA, BERT = "GPT2Tokenizer", "RobertaTokenizer", "BertTokenizer"
DEBERTA, LLAMA, GEMMA = "DebertaV2Tokenizer", "LlamaTokenizer", "GemmaTokenizer"

# A token as the files describe it: the arguments of `tokenizers.AddedToken`.
Token = dict[str, Any]

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
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


@dataclasses.dataclass(frozen=True)
class TokenizerConfig:
    """What the files beside a tokenizer say of it.

    Attributes:
      tokenizer_class: Transformers' class without "Fast"; empty = unknown.
      tokens: by the names of NAMES; None = said to be absent, no key = nothing said.
      added: further tokens, in order, for a vocabulary that lacks them: those with ids, then
        `extra`.
      extra: further special tokens.
      model_ids: `config.json`'s ids of NAMES.
      options: other settings, such as `add_bos_token` and `do_lower_case`.
    """

    tokenizer_class: str = ""
    tokens: Mapping[str, Token | None] = dataclasses.field(default_factory=dict)
    added: tuple[Token, ...] = ()
    extra: tuple[Token, ...] = ()
    model_ids: Mapping[str, int] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def named(self, tokenizer_class: str) -> dict[str, Token]:
        """Returns the special tokens by name, those of a class where the files say nothing."""
        usual = dict(zip(NAMES, _CLASS_TOKENS.get(tokenizer_class, ()), strict=False))
        of_class = {name: {"content": text} for name, text in usual.items() if text}
        tokens = {**of_class, **self.tokens}
        return {name: token for name in NAMES if (token := tokens.get(name)) is not None}

    def option(self, name: str, default: bool) -> bool:
        """Returns a setting that is true or false."""
        value = self.options.get(name)
        return value if isinstance(value, bool) else default


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """Returns a JSON file's object.

    Raises:
      ConfigError: it cannot be read, or is no JSON object in UTF-8.
    """
    try:
        return tensors.read_json(path)
    except CheckpointError as error:
        raise ConfigError(f"Vocabulary {error} Copy the file again.") from None


def said_in(path: pathlib.Path) -> dict[str, Any]:
    """Returns a JSON file's object; an empty one if there is no such file or it cannot be read."""
    try:
        return read_json(path)
    except ConfigError:
        return {}


def model_config(folder: pathlib.Path) -> dict[str, Any]:
    """Returns a model's config.json: the folder's, or what our model.json keeps of it."""
    if (folder / "config.json").is_file():
        return read_json(folder / "config.json")
    try:
        kept = json.loads(said_in(folder / "model.json")["metadata"]["huggingface"]["config_json"])
    except (KeyError, TypeError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


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

    options, model = read("tokenizer_config.json"), model_config(folder)
    try:
        tokens, extra = _named_tokens(options), _extra_tokens(options)
        if "added_tokens_decoder" in options:
            by_id = options["added_tokens_decoder"].items()
            added = [(int(index), _token(token)) for index, token in by_id]
        else:
            # As Transformers: these two are of an older form, which the newer one replaces.
            beside = read("special_tokens_map.json")
            tokens |= _named_tokens(beside)
            extra += _extra_tokens(beside)
            special = {token["content"] for token in [*tokens.values(), *extra] if token}
            added = [
                (int(index), {"content": text, "normalized": not known, "special": known})
                for text, index in read("added_tokens.json").items()
                for known in [text in special]
            ]
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"Vocabulary {folder}: tokenizer_config.json, special_tokens_map.json or "
            f"added_tokens.json describes a token in no known form ({error}); correct it or copy "
            "the files again."
        ) from None
    in_order = [token for _, token in sorted(added, key=lambda item: item[0])]
    tokenizer_class = _tokenizer_class(options, model)
    ids = _model_ids(model)
    return TokenizerConfig(tokenizer_class, tokens, tuple(in_order), tuple(extra), ids, options)


def _tokenizer_class(options: Mapping[str, Any], model: Mapping[str, Any]) -> str:
    name = options.get("tokenizer_class") or model.get("tokenizer_class")
    if isinstance(name, str):
        name = name.removesuffix("Fast")
        return _ALIASES.get(name, name)
    return _CLASS_OF_MODEL_TYPE.get(str(model.get("model_type")), "")


def _model_ids(model: Mapping[str, Any]) -> dict[str, int]:
    found = {name: model.get(f"{name}_token_id") for name in NAMES}
    # Several ends may be listed; the first is the one that training used.
    first = {name: (ids_of(value) or (None,))[0] for name, value in found.items()}
    return {name: index for name, index in first.items() if index is not None}


def ids_of(value: Any) -> tuple[int, ...]:
    """Returns the token ids in a field of a config: of one id, of a list, or of neither."""
    values: Iterable[Any] = value if isinstance(value, list) else [value]
    return tuple(index for index in values if type(index) is int and index >= 0)


def _token(value: Any) -> Token:
    """Returns a token that a file describes by its text or by an object with "content"."""
    if isinstance(value, str):
        return {"content": value}
    if isinstance(value, dict) and isinstance(value.get("content"), str):
        flags = {name: value[name] for name in _FLAGS if isinstance(value.get(name), bool)}
        return {"content": value["content"], **flags}
    raise ValueError(f"expected its text or an object with its content, got {str(value)[:60]!r}")


def _named_tokens(config: Mapping[str, Any]) -> dict[str, Token | None]:
    found = {name: config[f"{name}_token"] for name in NAMES if f"{name}_token" in config}
    return {name: None if token is None else _token(token) for name, token in found.items()}


def _extra_tokens(config: Mapping[str, Any]) -> list[Token]:
    values = config.get("extra_special_tokens") or config.get("additional_special_tokens") or []
    if not isinstance(values, list | dict):
        raise ValueError(f"expected a list of tokens, got {str(values)[:60]!r}")
    return [_token(value) for value in (values.values() if isinstance(values, dict) else values)]
