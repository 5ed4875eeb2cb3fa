"""Published tokenizer files, read by `tokenizers`, with the ids that Transformers gives.

| file | of | read as |
| --- | --- | --- |
| tokenizer.json | any family | as the file says, except for options of tokenizer_config.json |
| vocab.json with merges.txt | GPT-2, DialoGPT, RoBERTa, BART, DeBERTa v1 | byte-level BPE |
| vocab.txt | BERT, DPR | WordPiece |
| spm.model: SentencePiece with [CLS], [SEP] and [PAD] | DeBERTa-v2 and v3 | Unigram |
| spiece.model: the same with <pad> | ALBERT | Unigram |
| tokenizer.model: SentencePiece BPE with a begin token | Llama, Gemma | BPE with bytes |

Transformers 5 differs from this in two cases. It rebuilds the normalizers and pre-tokenizers of
some classes, so an option missing from tokenizer_config.json gets the default of its class, and
with old Llama files (that have a "Prepend" normalizer) a text that begins with a space gets one id
fewer. And it puts two [SEP] between two texts of DeBERTa v1; the models were trained with one, as
in Transformers 4. Text for DeBERTa v2 and v3 is normalised as in Transformers 5 (NFC, white
space), not by the rules in spm.model.
"""

import hashlib
import json
import logging
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from faith_jax.core.errors import ConfigError
from faith_jax.tokenizers.base import NAMES, Ids, Tokenizer
from faith_jax.tokenizers.sentencepiece import class_of_model, read_model
from faith_jax.tokenizers.special_tokens import (
    ALBERT,
    BERT,
    DEBERTA,
    DEBERTA_V1,
    GEMMA,
    GPT2,
    LLAMA,
    ROBERTA,
    USUAL_NAMES,
    Token,
    TokenizerConfig,
    read_tokenizer_config,
)

logger = logging.getLogger("faith_jax")

# Options of tokenizer_config.json, and their names in tokenizer.json.
_BERT_OPTIONS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
_CONTROL, _USER_DEFINED = 3, 4  # types of pieces in SentencePiece
# A byte-level tokenizer decodes a part of a character to this.
_NO_TEXT = "\ufffd"


class HuggingFaceVocabulary(Tokenizer):
    """A published tokenizer, read from one of the files above and the JSON files beside it.

    Ids equal those of Transformers' AutoTokenizer for the same folder; special tokens written in a
    text become their ids. Nothing is loaded from a network, and no code in the folder is run.

    Attributes:
      reader: the library's object that reads texts: `tokenizer`, or its variant for plain text.

    Raises:
      ConfigError: a file is broken, of an unknown kind, or incomplete for its kind.
    """

    def __init__(self, model_file: str):
        file = pathlib.Path(model_file)
        config = read_tokenizer_config(file.parent)
        try:
            tokenizer, tokenizer_class = _build_tokenizer(file, config)
        except ConfigError:
            raise
        except Exception as error:  # the library raises no narrower class
            expected = "a SentencePiece model of ALBERT, DeBERTa, Llama or Gemma"
            if file.suffix == ".json":
                expected = "a tokenizer.json of Hugging Face's tokenizers"
            if file.suffix == ".txt":
                expected = "BERT's tokens, one a line, [UNK], [CLS] and [SEP] among them"
            if file.name == "vocab.json":
                expected = "GPT-2's tokens, with merges.txt of them beside it"
            raise ConfigError(
                f"Vocabulary {file}: expected {expected}; the library refuses it "
                f"({' '.join(str(error).split())[:200]}). Give the published files."
            ) from None
        tokenizer.encode_special_tokens = config.option("split_special_tokens", default=False)
        tokens = config.special_tokens(tokenizer_class)
        ids = {name: tokenizer.token_to_id(token["content"]) for name, token in tokens.items()}
        special = {name: index for name, index in ids.items() if index is not None}
        if not any(name in tokens for name in ("bos", "eos", "cls")):
            # No file names special tokens: take the model's ids, or else the usual names.
            present = {t.content: i for i, t in tokenizer.get_added_tokens_decoder().items()}
            for name in NAMES:
                if name in config.tokens:
                    continue
                usual = [present[text] for text in USUAL_NAMES[name] if text in present]
                model_id = config.model_ids.get(name)
                if model_id is not None and tokenizer.id_to_token(model_id) is not None:
                    special[name] = model_id
                elif usual:
                    special[name] = usual[0]
        self._silent = frozenset(special.values())
        # There may be gaps between the vocabulary and the ids of added tokens.
        added = max(tokenizer.get_added_tokens_decoder(), default=-1)
        size = max(tokenizer.get_vocab_size(with_added_tokens=True), added + 1)
        self.reader = tokenizer
        (front, _, suffix), _ = _probe_special_tokens(tokenizer, pair=False)
        pair, self.second_type = _probe_special_tokens(tokenizer, pair=True)
        super().__init__(tokenizer, model_file, size, special, (front, suffix), pair)

    def of_plain_text(self) -> "HuggingFaceVocabulary":
        plain = object.__new__(HuggingFaceVocabulary)  # `copy` would return this same object
        plain.__dict__.update(self.__dict__)
        fields = json.loads(self.tokenizer.to_str())
        special = {token["content"] for token in fields["added_tokens"] if token["special"]}
        fields["added_tokens"] = [t for t in fields["added_tokens"] if t["content"] not in special]
        if fields["model"]["type"] == "Unigram":
            # The special tokens of DeBERTa and ALBERT are also pieces, and the most probable ones.
            # A name that no text contains keeps their ids but stops them from matching text.
            fields["model"]["vocab"] = [
                [f"\0{piece}" if piece in special else piece, score]
                for piece, score in fields["model"]["vocab"]
            ]
        plain.reader = tokenizers.Tokenizer.from_str(json.dumps(fields))
        return plain

    def text_ids(self, text: str) -> list[int]:
        return self.reader.encode(text, add_special_tokens=False).ids

    def text_ids_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        encoding = self.reader.encode(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets

    def decode(self, ids: Iterable[int]) -> str:
        token_ids = [int(i) for i in ids if 0 <= i < self.vocab_size]
        if self.eos_id in token_ids:
            token_ids = token_ids[: token_ids.index(self.eos_id)]
        token_ids = [i for i in token_ids if i not in self._silent]
        return self.tokenizer.decode(token_ids, skip_special_tokens=True)

    def stored_piece(self, token: int) -> str | None:
        stored = self.tokenizer.id_to_token(token)
        if stored is None or "▁" in stored:  # decoding would lose the leading space
            return stored
        # Byte-level tokenizers store letters in place of bytes.
        decoded = self.tokenizer.decode([token], skip_special_tokens=False)
        return stored if not decoded or _NO_TEXT in decoded else decoded

    def fingerprint(self) -> str:
        # Unigram scores are float32: their last digits may change when saved and read again.
        content = json.loads(self.tokenizer.to_str(), parse_float=lambda x: float(np.float32(x)))
        special = [getattr(self, f"{name}_id") for name in NAMES]
        return hashlib.sha256(repr((content, special)).encode()).hexdigest()


def _build_tokenizer(
    file: pathlib.Path, config: TokenizerConfig
) -> tuple[tokenizers.Tokenizer, str]:
    """Returns a file's tokenizer and its class in Transformers; "" = a class that adds nothing."""
    if file.suffix == ".txt":
        with file.open(encoding="utf-8") as lines:
            vocab = {line.rstrip("\n"): index for index, line in enumerate(lines)}
        tokens = {name: token["content"] for name, token in config.special_tokens(BERT).items()}
        missing = [tokens[name] for name in ("unk", "cls", "sep") if tokens[name] not in vocab]
        if missing:
            raise ValueError(f"no line is {missing[0]}")
        tokenizer = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=tokens["unk"]))
        accents = config.options.get("strip_accents")
        tokenizer.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=config.option("tokenize_chinese_chars", default=True),
            strip_accents=accents if isinstance(accents, bool) else None,
            lowercase=config.option("do_lower_case", default=True),
        )
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece(prefix="##")
        tokenizer_class = BERT
    elif file.suffix != ".json":
        tokenizer, tokenizer_class = _from_sentencepiece(file, config)
    elif file.name == "vocab.json":
        merges = str(file.with_name("merges.txt"))
        model = models.BPE.from_file(str(file), merges, dropout=None, fuse_unk=False)
        tokenizer = tokenizers.Tokenizer(model)
        prefix_space = config.option("add_prefix_space", default=False)
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
        tokenizer.decoder = decoders.ByteLevel()
        ends = {"</s>": ROBERTA, "[SEP]": DEBERTA_V1}
        usual_class = next((ends[end] for end in ends if model.token_to_id(end) is not None), GPT2)
        tokenizer_class = config.tokenizer_class or usual_class
    else:
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
        # The caller cuts and pads batches; dropout would make ids random.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        if getattr(tokenizer.model, "dropout", None) is not None:
            tokenizer.model.dropout = None
        tokenizer_class = config.tokenizer_class
        if tokenizer_class == LLAMA and isinstance(tokenizer.decoder, decoders.ByteLevel):
            tokenizer_class = ""  # Llama 3 has none of the tokens of Llama 1 and 2
        _apply_options(tokenizer, config, file)
    _add_missing_tokens(tokenizer, config, tokenizer_class)
    if file.suffix != ".json" or file.name == "vocab.json":
        # As Transformers documents, both SentencePiece classes add begin tokens by default.
        _put_around(tokenizer, config, tokenizer_class, begin=file.suffix != ".json")
    return tokenizer, tokenizer_class


def _apply_options(
    tokenizer: tokenizers.Tokenizer, config: TokenizerConfig, file: pathlib.Path
) -> None:
    """Applies options of tokenizer_config.json where tokenizer.json contradicts them.

    Transformers does the same in its classes of BERT, GPT-2 and RoBERTa.
    """
    parts: dict[str, tuple[Any, str]] = {}
    normalizer, splitter = tokenizer.normalizer, tokenizer.pre_tokenizer
    if config.tokenizer_class == BERT and isinstance(normalizer, normalizers.BertNormalizer):
        parts = {option: (normalizer, field) for option, field in _BERT_OPTIONS.items()}
    by_bytes = isinstance(splitter, pre_tokenizers.ByteLevel)
    if config.tokenizer_class in (GPT2, ROBERTA) and by_bytes:
        parts = {"add_prefix_space": (splitter, "add_prefix_space")}
    for option, (part, field) in parts.items():
        value, in_file = config.options.get(option), getattr(part, field)
        if not isinstance(value, bool) or value == in_file:
            continue
        setattr(part, field, value)  # changes the tokenizer too
        if isinstance(tokenizer.post_processor, processors.RobertaProcessing):
            tokenizer.post_processor.add_prefix_space = value
        logger.warning(
            "%s: has %s = %s, but tokenizer_config.json says %s = %s, which counts, as in "
            "Transformers",
            file,
            field,
            json.dumps(in_file),
            option,
            json.dumps(value),
        )


def _from_sentencepiece(
    file: pathlib.Path, config: TokenizerConfig
) -> tuple[tokenizers.Tokenizer, str]:
    model = read_model(str(file))
    tokenizer_class = class_of_model(model)
    if tokenizer_class == DEBERTA:
        tokenizer = _build_deberta_tokenizer(model, config)
    elif tokenizer_class == ALBERT:
        tokenizer = _build_albert_tokenizer(model, config)
    else:
        if config.tokenizer_class in (LLAMA, GEMMA):
            tokenizer_class = config.tokenizer_class
        tokenizer = _build_causal_tokenizer(model, config, tokenizer_class)
    tokenizer.add_tokens(
        [
            tokenizers.AddedToken(p.piece, normalized=False, special=p.type == _CONTROL)
            for p in model.pieces
            if p.type in (_CONTROL, _USER_DEFINED)
        ]
    )
    return tokenizer, tokenizer_class


def _build_deberta_tokenizer(model: Any, config: TokenizerConfig) -> tokenizers.Tokenizer:
    scores = [(piece.piece, piece.score) for piece in model.pieces]
    unknown = next((i for i, s in enumerate(scores) if s[0] == "[UNK]"), model.trainer_spec.unk_id)
    tokenizer = tokenizers.Tokenizer(models.Unigram(scores, unk_id=unknown, byte_fallback=False))
    lower = [normalizers.Lowercase()] if config.option("do_lower_case", default=False) else []
    tokenizer.normalizer = normalizers.Sequence(
        [
            *lower,
            normalizers.Replace(tokenizers.Regex(r"\s{2,}|[\n\r\t]"), " "),
            normalizers.NFC(),
            normalizers.Strip(left=False, right=True),
        ]
    )
    scheme = "always" if config.option("add_prefix_space", default=True) else "first"
    by_punctuation = config.option("split_by_punct", default=False)
    split = [pre_tokenizers.Punctuation(behavior="isolated")] if by_punctuation else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*split, pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=scheme)]
    )
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme=scheme)
    return tokenizer


def _build_albert_tokenizer(model: Any, config: TokenizerConfig) -> tokenizers.Tokenizer:
    scores = [(piece.piece, piece.score) for piece in model.pieces]
    tokenizer = tokenizers.Tokenizer(models.Unigram(scores, unk_id=model.trainer_spec.unk_id))
    keeps_accents = config.option("keep_accents", default=False)
    charsmap = model.normalizer_spec.precompiled_charsmap
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace("``", '"'),
            normalizers.Replace("''", '"'),
            *([] if keeps_accents else [normalizers.NFKD(), normalizers.StripAccents()]),
            *([normalizers.Lowercase()] if config.option("do_lower_case", default=True) else []),
            *([normalizers.Precompiled(charsmap)] if charsmap else []),
        ]
    )
    scheme = "always" if config.option("add_prefix_space", default=True) else "never"
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("▁", prepend_scheme=scheme)]
    )
    tokenizer.decoder = decoders.Metaspace("▁", prepend_scheme=scheme)
    return tokenizer


def _build_causal_tokenizer(
    model: Any, config: TokenizerConfig, tokenizer_class: str
) -> tokenizers.Tokenizer:
    vocab = {piece.piece: i for i, piece in enumerate(model.pieces)}
    # SentencePiece's BPE stores no merges: they are all pairs that form a piece, in piece order.
    merges = [
        (piece[:cut], piece[cut:])
        for piece in vocab
        for cut in range(1, len(piece))
        if piece[:cut] in vocab and piece[cut:] in vocab
    ]
    gemma = tokenizer_class == GEMMA
    unknown = {"unk_token": config.special_tokens(GEMMA)["unk"]["content"]} if gemma else {}
    tokenizer = tokenizers.Tokenizer(
        models.BPE(vocab, merges, fuse_unk=True, byte_fallback=True, **unknown)
    )
    spaces = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if gemma:
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        tokenizer.decoder = decoders.Sequence(spaces)
        return tokenizer
    prefix_space = config.option("add_prefix_space", default=True)
    legacy = config.option("legacy", default=False)
    scheme = ("always" if legacy else "first") if prefix_space else "never"
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme=scheme, split=False)
    strip = [decoders.Strip(content=" ", left=1)] if prefix_space else []
    tokenizer.decoder = decoders.Sequence([*spaces, *strip])
    return tokenizer


def _add_missing_tokens(
    tokenizer: tokenizers.Tokenizer, config: TokenizerConfig, tokenizer_class: str
) -> None:
    """Adds special tokens that the files name but the tokenizer lacks, as Transformers does.

    Tokens of the vocabulary keep their ids; new ones get the ids after it.
    """
    present = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    named = list(config.special_tokens(tokenizer_class).values())
    special = {token["content"] for token in named}
    adding: dict[str, Token] = {}
    for token in (*config.added, *named, *config.extra):
        text = token["content"]
        if text not in present:
            is_special = text in special or token.get("special", True)
            adding.setdefault(text, token | {"special": is_special})
    tokenizer.add_tokens([tokenizers.AddedToken(**token) for token in adding.values()])


def _put_around(
    tokenizer: tokenizers.Tokenizer, config: TokenizerConfig, tokenizer_class: str, begin: bool
) -> None:
    """Puts the class's special tokens around texts; `begin`: with a begin token by default."""
    tokens = config.special_tokens(tokenizer_class)
    if tokenizer_class == ROBERTA:
        sep, cls = _with_id(tokenizer, tokens["sep"]), _with_id(tokenizer, tokens["cls"])
        trim = config.option("trim_offsets", default=True)
        prefix_space = config.option("add_prefix_space", default=False)
        tokenizer.post_processor = processors.RobertaProcessing(sep, cls, trim, prefix_space)
        return
    front = tokens.get("bos") if config.option("add_bos_token", default=begin) else None
    suffix = tokens.get("eos") if config.option("add_eos_token", default=False) else None
    between = front
    if tokenizer_class in (ALBERT, BERT, DEBERTA, DEBERTA_V1):
        front, between, suffix = tokens["cls"], None, tokens["sep"]

    def around(front: Token | None, text: str, number: int) -> list[str]:
        parts = [front and front["content"], text, suffix and suffix["content"]]
        return [f"{part}:{number}" for part in parts if part]

    first, second = around(front, "$A", 0), around(between, "$B", 1)
    used = [_with_id(tokenizer, token) for token in (front, suffix) if token]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=first, pair=[*first, *second], special_tokens=used
    )


def _with_id(tokenizer: tokenizers.Tokenizer, token: Token) -> tuple[str, int]:
    """Returns a token with its id, in the form that post-processors take."""
    index = tokenizer.token_to_id(token["content"])
    assert index is not None, token  # _add_missing_tokens has added it
    return token["content"], index


def _probe_special_tokens(
    tokenizer: tokenizers.Tokenizer, pair: bool
) -> tuple[tuple[Ids, Ids, Ids], int]:
    """Returns the ids before, between and after texts, and the token type of the last text.

    They are read off the output of the post-processor for texts of one token.
    """
    probe = tokenizers.Tokenizer(models.WordLevel({"text": 0}, unk_token="text"))
    if tokenizer.post_processor is not None:
        probe.post_processor = tokenizer.post_processor
    encoding = probe.encode("text", "text" if pair else None)
    where = [i for i, text in enumerate(encoding.sequence_ids) if text is not None]
    first, last = where[0], where[-1]
    ids = encoding.ids
    around = tuple(ids[:first]), tuple(ids[first + 1 : last]), tuple(ids[last + 1 :])
    return around, encoding.type_ids[last]
