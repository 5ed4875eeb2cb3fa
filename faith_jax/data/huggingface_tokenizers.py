"""Published tokenizer files as a `tokenizers.Tokenizer`, with the ids that Transformers gives.

| file | of | read as |
| --- | --- | --- |
| tokenizer.json | any family | it stands in the file |
| vocab.json with merges.txt | GPT-2, DialoGPT, RoBERTa, BART | byte-level BPE |
| spm.model: SentencePiece with [CLS] and [SEP] | DeBERTa-v2 and v3 | Unigram |
| tokenizer.model: SentencePiece BPE with a begin token | Llama, Gemma | BPE with bytes |

A tokenizer.json is followed as it stands. Transformers 5 makes the pre-tokenizers of some classes
anew, so that for old Llama files (those with a "Prepend" normalizer) text that begins with a
space has one id fewer there. DeBERTa's text is normalised as Transformers 5 does it (NFC, white
space), not by the rules inside spm.model.
"""

import pathlib
from typing import TYPE_CHECKING, Any

from faith_jax.data import special_tokens
from faith_jax.data.sentencepiece_vocabulary import read_model
from faith_jax.data.special_tokens import (
    DEBERTA,
    GEMMA,
    GPT2,
    LLAMA,
    ROBERTA,
    TokenizerConfig,
    read_json,
)
from faith_jax.errors import ConfigError

if TYPE_CHECKING:
    import tokenizers

MODEL_TYPES = ("BPE", "Unigram", "WordPiece", "WordLevel")
_CONTROL, _USER_DEFINED = 3, 4  # SentencePiece's types of pieces


def is_sentencepiece_of_transformers(model: Any) -> bool:
    """Whether a SentencePiece model has another convention than T5's, one that we read here.

    Args:
      model: the protocol buffer; see `sentencepiece_vocabulary.read_model`.
    """
    spec = model.trainer_spec
    t5 = (spec.pad_id, spec.eos_id, spec.unk_id) == (0, 1, 2)
    is_bpe = spec.model_type == spec.BPE
    return _is_deberta(model) or (is_bpe and not t5 and _bos_piece(model) is not None)


def build_tokenizer(
    file: pathlib.Path, config: TokenizerConfig
) -> tuple["tokenizers.Tokenizer", str]:
    """Builds the tokenizer of a published folder.

    Args:
      file: tokenizer.json, vocab.json (merges.txt stands beside it), or a SentencePiece model.
      config: what the files beside it say.

    Returns:
      The tokenizer, and Transformers' class of it; empty = a class that adds nothing.

    Raises:
      ConfigError: the file is broken, foreign, or lacks what its kind needs.
    """
    if file.suffix != ".json":
        return _from_sentencepiece(file, config)
    if file.name == "vocab.json":
        return _from_vocab_and_merges(file, config)
    tokenizer = _from_tokenizer_json(file)
    tokenizer_class = _class_of_tokenizer_json(tokenizer, config)
    _add_missing_tokens(tokenizer, config, tokenizer_class)
    return tokenizer, tokenizer_class


def _add_missing_tokens(
    tokenizer: "tokenizers.Tokenizer", config: TokenizerConfig, tokenizer_class: str
) -> None:
    """Adds the special tokens that the files name and the tokenizer lacks, as Transformers does.

    Args:
      tokenizer: changed in place; tokens of its vocabulary keep their ids, others follow it.
      config: what the files beside it say.
      tokenizer_class: names tokens where the files do not.
    """
    present = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    named = list(config.named(tokenizer_class).values())
    special = {token.content for token in named}
    adding: dict[str, special_tokens.AddedToken] = {}
    for token in [*(token for _, token in config.added), *named, *config.extra]:
        if token.content not in present:
            adding.setdefault(token.content, token)
    tokenizer.add_tokens([_added_token(t, t.content in special) for t in adding.values()])


def _added_token(token: special_tokens.AddedToken, special: bool) -> "tokenizers.AddedToken":
    import tokenizers

    flags = dict(token.flags)
    if special or "special" not in flags:
        flags["special"] = True
    return tokenizers.AddedToken(token.content, **flags)


def _from_tokenizer_json(file: pathlib.Path) -> "tokenizers.Tokenizer":
    import tokenizers

    try:
        text = file.read_text(encoding="utf-8")
        tokenizer = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library raises no narrower one
        raise _why_refused(file, error) from None
    # Lengths and batches are the caller's; dropout would make ids random.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if getattr(tokenizer.model, "dropout", None) is not None:
        tokenizer.model.dropout = None
    return tokenizer


def _why_refused(file: pathlib.Path, error: Exception) -> ConfigError:
    """Returns what is wrong with a tokenizer.json; raises where it is no JSON at all."""
    found = read_json(file)
    model = found.get("model")
    kind = model.get("type") if isinstance(model, dict) else None
    if not isinstance(model, dict):
        reason = 'got JSON without "model"'
    elif kind is not None and kind not in MODEL_TYPES:
        reason = f"got a model of type {str(kind)[:40]!r}"
    else:
        reason = f"the library refuses it ({' '.join(str(error).split())[:200]})"
    return ConfigError(
        f"Vocabulary {file}: expected a tokenizer.json of Hugging Face's tokenizers with a model "
        f"of type {', '.join(MODEL_TYPES)}; {reason}. Give the published file."
    )


def _class_of_tokenizer_json(tokenizer: "tokenizers.Tokenizer", config: TokenizerConfig) -> str:
    from tokenizers import decoders

    if config.tokenizer_class == LLAMA and isinstance(tokenizer.decoder, decoders.ByteLevel):
        return ""  # Llama 3 has none of the tokens of Llama 1 and 2
    return config.tokenizer_class


def _from_vocab_and_merges(
    file: pathlib.Path, config: TokenizerConfig
) -> tuple["tokenizers.Tokenizer", str]:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    merges = file.with_name("merges.txt")
    vocab = read_json(file)
    if not merges.is_file():
        raise ConfigError(f"Vocabulary {file}: expected merges.txt beside it, there is none.")
    try:
        model = models.BPE.from_file(str(file), str(merges), dropout=None, fuse_unk=False)
    except Exception as error:  # the library raises no narrower one
        raise ConfigError(
            f"Vocabulary {merges}: expected the merges of {file.name}, each of two tokens of it "
            f"({' '.join(str(error).split())[:200]}); copy both files again."
        ) from None
    tokenizer = Tokenizer(model)
    prefix_space = config.option("add_prefix_space", default=False)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer_class = config.tokenizer_class or (ROBERTA if "</s>" in vocab else GPT2)
    _add_missing_tokens(tokenizer, config, tokenizer_class)
    if tokenizer_class == ROBERTA:
        tokens = config.named(tokenizer_class)
        sep, cls = _with_id(tokenizer, tokens["sep"]), _with_id(tokenizer, tokens["cls"])
        trim = config.option("trim_offsets", default=True)
        tokenizer.post_processor = processors.RobertaProcessing(sep, cls, trim, prefix_space)
    else:
        _add_begin_and_end(tokenizer, config, tokenizer_class, begin=False)
    return tokenizer, tokenizer_class


def _with_id(
    tokenizer: "tokenizers.Tokenizer", token: special_tokens.AddedToken
) -> tuple[str, int]:
    index = tokenizer.token_to_id(token.content)
    assert index is not None, token  # _add_missing_tokens has added it
    return token.content, index


def _add_begin_and_end(
    tokenizer: "tokenizers.Tokenizer", config: TokenizerConfig, tokenizer_class: str, begin: bool
) -> None:
    """Lets each text begin (and end) with its token where the configuration wants it."""
    from tokenizers import processors

    tokens = config.named(tokenizer_class)
    front = tokens.get("bos") if config.option("add_bos_token", default=begin) else None
    behind = tokens.get("eos") if config.option("add_eos_token", default=False) else None
    used = [_with_id(tokenizer, token) for token in (front, behind) if token is not None]

    def around(text: str, number: int) -> list[str]:
        parts = [front and front.content, f"${text}", behind and behind.content]
        return [f"{part}:{number}" for part in parts if part]

    tokenizer.post_processor = processors.TemplateProcessing(
        single=around("A", 0), pair=[*around("A", 0), *around("B", 1)], special_tokens=used
    )


def _is_deberta(model: Any) -> bool:
    pieces = {piece.piece for piece in model.pieces[:10]}
    return {"[PAD]", "[CLS]", "[SEP]"} <= pieces


def _bos_piece(model: Any) -> str | None:
    """Returns the begin token of a SentencePiece model; None = it has none, as T5's."""
    spec = model.trainer_spec
    name = spec.bos_piece or "<s>"
    if spec.bos_id < 0 or not any(piece.piece == name for piece in model.pieces[:10]):
        return None
    return name


def _from_sentencepiece(
    file: pathlib.Path, config: TokenizerConfig
) -> tuple["tokenizers.Tokenizer", str]:
    model = read_model(str(file))
    if _is_deberta(model):
        tokenizer, tokenizer_class = _deberta(model, file, config), DEBERTA
    else:
        tokenizer_class = config.tokenizer_class
        if tokenizer_class not in (LLAMA, GEMMA):
            tokenizer_class = LLAMA if _bos_piece(model) == "<s>" else GEMMA
        tokenizer = _causal(model, config, tokenizer_class)
    import tokenizers

    tokenizer.add_tokens(
        [
            tokenizers.AddedToken(p.piece, normalized=False, special=p.type == _CONTROL)
            for p in model.pieces
            if p.type in (_CONTROL, _USER_DEFINED)
        ]
    )
    _add_missing_tokens(tokenizer, config, tokenizer_class)
    if tokenizer_class == DEBERTA:
        _add_cls_and_sep(tokenizer, config)
    else:
        # Transformers documents begin tokens as the default of both classes.
        _add_begin_and_end(tokenizer, config, tokenizer_class, begin=True)
    return tokenizer, tokenizer_class


def _add_cls_and_sep(tokenizer: "tokenizers.Tokenizer", config: TokenizerConfig) -> None:
    from tokenizers import processors

    tokens = config.named(DEBERTA)
    cls, sep = tokens["cls"], tokens["sep"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[cls.content, "$A", sep.content],
        pair=[cls.content, "$A", sep.content, "$B:1", f"{sep.content}:1"],
        special_tokens=[_with_id(tokenizer, cls), _with_id(tokenizer, sep)],
    )


def _deberta(model: Any, file: pathlib.Path, config: TokenizerConfig) -> "tokenizers.Tokenizer":
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    scores = [(piece.piece, piece.score) for piece in model.pieces]
    unknown = next((i for i, s in enumerate(scores) if s[0] == "[UNK]"), model.trainer_spec.unk_id)
    try:
        tokenizer = Tokenizer(models.Unigram(scores, unk_id=unknown, byte_fallback=False))
    except Exception as error:  # the library raises no narrower one
        raise ConfigError(
            f"Vocabulary {file}: expected DeBERTa's Unigram pieces ({error})."
        ) from None
    lower = [normalizers.Lowercase()] if config.option("do_lower_case", default=False) else []
    tokenizer.normalizer = normalizers.Sequence(
        [
            *lower,
            normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "),
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


def _merges(vocab: dict[str, int]) -> list[tuple[str, str]]:
    """Returns the pairs that make each piece, in the order of the pieces: SentencePiece's BPE."""
    pairs = []
    for piece in vocab:
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in vocab and right in vocab:
                pairs.append((left, right))
    return pairs


def _causal(model: Any, config: TokenizerConfig, tokenizer_class: str) -> "tokenizers.Tokenizer":
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    vocab = {piece.piece: i for i, piece in enumerate(model.pieces)}
    gemma = tokenizer_class == GEMMA
    unknown = {"unk_token": config.named(GEMMA)["unk"].content} if gemma else {}
    tokenizer = Tokenizer(
        models.BPE(vocab, _merges(vocab), fuse_unk=True, byte_fallback=True, **unknown)
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
