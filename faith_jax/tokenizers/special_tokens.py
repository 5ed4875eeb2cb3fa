"""Special and added tokens, read from the JSON files beside a published tokenizer.

The files are those of Transformers' `save_pretrained`, of any version: tokenizer_config.json,
special_tokens_map.json, added_tokens.json and tokenizer.json name tokens; config.json names the
model family. A special token that no file names is that of the family's tokenizer class. If the
class is unknown, the ids in config.json are used, and finally the usual names.
"""

import dataclasses
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Required, TypedDict, TypeVar

import msgspec

from faith_jax.core.errors import ConfigError
from faith_jax.core.rows import read_json
from faith_jax.tokenizers.base import NAMES

GPT2, ROBERTA, BERT = "GPT2Tokenizer", "RobertaTokenizer", "BertTokenizer"
ALBERT, DEBERTA, DEBERTA_V1 = "AlbertTokenizer", "DebertaV2Tokenizer", "DebertaTokenizer"
LLAMA, GEMMA = "LlamaTokenizer", "GemmaTokenizer"
BYT5 = "ByT5Tokenizer"
Kind = TypeVar("Kind")


class Token(TypedDict, total=False):
    """Arguments of `tokenizers.AddedToken` that describe a token in the files."""

    content: Required[str]
    single_word: bool
    lstrip: bool
    rstrip: bool
    normalized: bool
    special: bool


# Default special tokens of each tokenizer class, in the order of NAMES.
_CLASS_TOKENS: dict[str, tuple[str | None, ...]] = {
    GPT2: ("<|endoftext|>", "<|endoftext|>", "<|endoftext|>", None, None, None, None),
    ROBERTA: ("<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"),
    BERT: (None, None, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"),
    ALBERT: ("[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"),
    **dict.fromkeys(
        (DEBERTA, DEBERTA_V1), ("[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]")
    ),
    LLAMA: ("<s>", "</s>", "<unk>", None, None, None, None),
    GEMMA: ("<bos>", "<eos>", "<unk>", None, "<pad>", None, "<mask>"),
}
_ALIASES = {
    "BartTokenizer": ROBERTA,
    "DPRContextEncoderTokenizer": BERT,
    "DPRQuestionEncoderTokenizer": BERT,
    "ElectraTokenizer": BERT,
    "DistilBertTokenizer": BERT,
}
_CLASS_OF_MODEL_TYPE = {
    "gpt2": GPT2,
    "roberta": ROBERTA,
    "bart": ROBERTA,
    "bert": BERT,
    "dpr": BERT,
    "electra": BERT,
    "distilbert": BERT,
    "albert": ALBERT,
    "deberta": DEBERTA_V1,
    "deberta-v2": DEBERTA,
    "llama": LLAMA,
    "gemma": GEMMA,
    "gemma2": GEMMA,
}
# Usual names in published tokenizers, for a tokenizer.json without any file beside it.
USUAL_NAMES = {
    "bos": ("<s>", "<bos>", "<|begin_of_text|>", "<|endoftext|>"),
    "eos": ("</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>"),
    "unk": ("<unk>", "[UNK]"),
    "sep": ("[SEP]",),
    "pad": ("<pad>", "[PAD]"),
    "cls": ("[CLS]",),
    "mask": ("<mask>", "[MASK]"),
}


@dataclasses.dataclass(frozen=True)
class TokenizerConfig:
    """The special tokens and settings of a tokenizer, read from the files beside it.

    Attributes:
      tokenizer_class: Transformers' class without "Fast"; "" = unknown.
      tokens: tokens by the names of NAMES; None = stated to be absent, no key = not stated.
      added: further tokens in the order of their ids, for a vocabulary that lacks them.
      extra: further special tokens.
      model_ids: the ids in config.json by the names of NAMES.
      options: the fields of tokenizer_config.json, such as `add_bos_token`.
    """

    tokenizer_class: str
    tokens: Mapping[str, Token | None]
    added: tuple[Token, ...]
    extra: tuple[Token, ...]
    model_ids: Mapping[str, int]
    options: Mapping[str, Any]

    def special_tokens(self, tokenizer_class: str) -> dict[str, Token]:
        """Returns the special tokens by name, with the class's defaults for unstated ones."""
        usual = dict(zip(NAMES, _CLASS_TOKENS.get(tokenizer_class, ()), strict=False))
        of_class = {name: Token(content=text) for name, text in usual.items() if text}
        tokens = {**of_class, **self.tokens}
        return {name: token for name in NAMES if (token := tokens.get(name)) is not None}

    def option(self, name: str, default: bool) -> bool:
        """Returns a boolean setting; `default` if it is missing or of another type."""
        value = self.options.get(name)
        return value if isinstance(value, bool) else default


def read_json_if_any(path: pathlib.Path) -> dict[str, Any]:
    """Returns the object in a JSON file, or {} if the file is missing or unreadable."""
    try:
        return read_json(path)
    except ConfigError:
        return {}


def model_config(folder: pathlib.Path) -> dict[str, Any]:
    """Returns a model's config.json: from the folder, or as stored in our model.json."""
    if (folder / "config.json").is_file():
        return read_json(folder / "config.json")
    try:
        config = json.loads(
            read_json_if_any(folder / "model.json")["metadata"]["huggingface"]["config_json"]
        )
    except (KeyError, TypeError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}


def read_tokenizer_config(folder: pathlib.Path) -> TokenizerConfig:
    """Reads the JSON files of a folder that describe its special tokens; all may be missing."""

    def read(name: str) -> dict[str, Any]:
        return read_json(folder / name) if (folder / name).is_file() else {}

    options, model = read("tokenizer_config.json"), model_config(folder)
    try:
        tokens, extra = _named_tokens(options), _extra_tokens(options)
        if "added_tokens_decoder" in options:
            added = _tokens_by_id(options["added_tokens_decoder"], folder)
        else:
            # As in Transformers, these two files count only without the newer field.
            beside = read("special_tokens_map.json")
            tokens |= _named_tokens(beside)
            extra += _extra_tokens(beside)
            special = {token["content"] for token in [*tokens.values(), *extra] if token}
            added = {
                index: Token(content=text, normalized=not is_special, special=is_special)
                for text, index in _convert_json(read("added_tokens.json"), dict[str, int]).items()
                for is_special in [text in special]
            }
    except msgspec.ValidationError as error:
        raise _unknown_form(folder, error) from None
    in_order = tuple(added[index] for index in sorted(added))
    tokenizer_class = options.get("tokenizer_class") or model.get("tokenizer_class")
    if isinstance(tokenizer_class, str):
        tokenizer_class = tokenizer_class.removesuffix("Fast")
        tokenizer_class = _ALIASES.get(tokenizer_class, tokenizer_class)
    else:
        tokenizer_class = _CLASS_OF_MODEL_TYPE.get(str(model.get("model_type")), "")
    # Training used the first of several end tokens.
    first_ids = {name: ids[0] for name in NAMES if (ids := ids_of(model.get(f"{name}_token_id")))}
    return TokenizerConfig(tokenizer_class, tokens, in_order, tuple(extra), first_ids, options)


def _tokens_by_id(value: Any, folder: pathlib.Path) -> dict[int, Token]:
    """Returns tokens by id, from a form that Transformers writes."""
    try:
        by_id = _convert_json(value, dict[int, str | Token])
    except msgspec.ValidationError as error:
        raise _unknown_form(folder, error) from None
    return {index: _as_token(token) for index, token in by_id.items()}


def _unknown_form(folder: pathlib.Path, error: msgspec.ValidationError) -> ConfigError:
    return ConfigError(
        f"Vocabulary {folder}: tokenizer_config.json, special_tokens_map.json, added_tokens.json "
        f"or tokenizer.json describes a token in no known form ({error}); correct it or copy the "
        "files again."
    )


def ids_of(value: Any) -> tuple[int, ...]:
    """Returns the token ids in a field of a config: one id or a list; empty for other values."""
    values: Iterable[Any] = value if isinstance(value, list) else [value]
    return tuple(index for index in values if type(index) is int and index >= 0)


def _convert_json(value: Any, kind: type[Kind]) -> Kind:
    return msgspec.convert(value, kind, str_keys=True)


def _as_token(value: str | Token) -> Token:
    return Token(content=value) if isinstance(value, str) else value


def _named_tokens(config: Mapping[str, Any]) -> dict[str, Token | None]:
    token_fields = {name: config[f"{name}_token"] for name in NAMES if f"{name}_token" in config}
    named = _convert_json(token_fields, dict[str, str | Token | None])
    return {name: None if token is None else _as_token(token) for name, token in named.items()}


def _extra_tokens(config: Mapping[str, Any]) -> list[Token]:
    tokens = config.get("extra_special_tokens") or config.get("additional_special_tokens") or []
    if isinstance(tokens, dict):
        tokens = list(tokens.values())
    return [_as_token(value) for value in _convert_json(tokens, list[str | Token])]


class AddedTokens:
    """Tokens with ids after a vocabulary's own; without any, a text is one part.

    A text is split at these tokens, and its parts are encoded separately, as in Transformers.
    """

    def __init__(self, tokens: Mapping[int, Token]):
        self.tokens = dict(sorted(tokens.items()))
        self.texts = {index: token["content"] for index, token in self.tokens.items()}
        self._ids = {text: index for index, text in self.texts.items()}
        forms = []
        # Longer tokens come first, so that a token does not hide one that it is a prefix of.
        for token in sorted(tokens.values(), key=lambda token: -len(token["content"])):
            form = re.escape(token["content"])
            forms.append(rf"(?<!\w){form}(?!\w)" if token.get("single_word") else form)
        self._pattern = re.compile("|".join(forms)) if forms else None

    @property
    def size(self) -> int:
        """The least number of ids of a vocabulary with these tokens."""
        return max(self.texts, default=-1) + 1

    def parts(self, text: str) -> Iterator[tuple[int, str, int | None]]:
        """Yields the parts of a text with their start, and the id if a part is an added token."""
        end = 0
        for match in self._pattern.finditer(text) if self._pattern else ():
            if end < match.start():
                yield end, text[end : match.start()], None
            yield match.start(), match.group(), self._ids[match.group()]
            end = match.end()
        if end < len(text) or not text:
            yield end, text[end:], None


def read_added_tokens(
    folder: pathlib.Path, pieces: Mapping[int, str], name: str
) -> dict[int, Token]:
    """Reads the tokens that files add after a vocabulary's own pieces.

    Args:
      folder: the folder of the vocabulary and the files beside it.
      pieces: the vocabulary's own pieces by id, including extra ids.
      name: the vocabulary's file, for messages.

    Raises:
      ConfigError: a file is broken, or two files disagree about a token or its id.
    """
    # Our pieces for extra ids begin with a space, as in SeqIO; the files' do not.
    texts = {
        index: piece[1:] if piece.startswith("\u2581<extra_id_") else piece
        for index, piece in pieces.items()
    }
    ids = {text: index for index, text in texts.items()}
    added: dict[int, Token] = {}
    origin: dict[int, str] = {}
    for file, tokens in _tokens_of_files(folder):
        for index, token in tokens.items():
            text, problem = token["content"], ""
            text_before, id_before = texts.get(index), ids.get(text)
            if text_before is None and id_before is None:
                added[index], origin[index] = token, file
                texts[index], ids[text] = text, index
            elif text_before is None and id_before is not None:
                first = origin.get(id_before, name)
                problem = f"{text!r} has the id {index} in {file} but {id_before} in {first}"
            elif text not in (text_before, pieces.get(index)):
                first = origin.get(index, name)
                problem = f"the id {index} is {text!r} in {file} but {text_before!r} in {first}"
            if problem:
                raise ConfigError(
                    f"Vocabulary {folder}: its files disagree: {problem}; keep those of the "
                    "model's training."
                )
    return added


def _tokens_of_files(folder: pathlib.Path) -> Iterator[tuple[str, dict[int, Token]]]:
    """Yields each file beside a vocabulary that describes tokens, and its tokens by id."""
    for file in ("tokenizer_config.json", "added_tokens.json", "tokenizer.json"):
        if not (folder / file).is_file():
            continue
        content = read_json(folder / file)
        if file == "tokenizer_config.json":
            tokens = _tokens_by_id(content.get("added_tokens_decoder") or {}, folder)
        elif file == "added_tokens.json":
            tokens = _tokens_by_id({index: text for text, index in content.items()}, folder)
        else:
            try:
                vocabulary = content["model"].get("vocab", [])
                if isinstance(vocabulary, dict):
                    pieces = {index: text for text, index in vocabulary.items()}
                else:
                    pieces = {index: text for index, (text, _) in enumerate(vocabulary)}
                added = {token["id"]: token for token in content.get("added_tokens") or []}
            except (AttributeError, KeyError, TypeError, ValueError):
                raise ConfigError(
                    f"Vocabulary {folder}: tokenizer.json: expected a tokenizer of Hugging Face's, "
                    "got a file without its fields; copy it again, or remove it."
                ) from None
            tokens = _tokens_by_id(pieces, folder) | _tokens_by_id(added, folder)
        yield file, tokens
