"""SentencePiece models with T5's convention: padding is 0, and extra ids follow the pieces.

The SentencePiece models of Llama, Gemma, ALBERT and DeBERTa have other conventions, and are read by
`faith_jax.tokenizers.huggingface`.
"""

import hashlib
import itertools
import pathlib
import re
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from faith_jax.core.errors import ConfigError
from faith_jax.tokenizers.base import Tokenizer
from faith_jax.tokenizers.special_tokens import (
    ALBERT,
    DEBERTA,
    GEMMA,
    LLAMA,
    AddedTokens,
    Token,
    read_added_tokens,
    read_json_if_any,
)

with warnings.catch_warnings():
    # Ignore a warning about SWIG's types, which would crash the process under `python -W error`.
    warnings.simplefilter("ignore", DeprecationWarning)
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2, sentencepiece_pb2

_PAD_ID = 0
_EXTRA_ID = re.compile(r"▁<extra_id_\d+>")


class SentencePieceVocabulary(Tokenizer):
    """A SentencePiece model with T5's extra ids, and the tokens that the files beside it add.

    Ids and texts agree with `seqio.SentencePieceVocabulary`: padding is 0, and the last ids are
    `<extra_id_N>`, ..., `<extra_id_0>`, in this order. Added tokens follow them; as in
    Transformers, they are surrounded by spaces in a decoded text.

    Args:
      model_file: the SentencePiece model.
      extra_ids: the number of extra ids to add.
      reads_beside: whether to read the files beside the model.

    Attributes:
      reader: SentencePiece's object that reads texts: `tokenizer`, or its variant for plain text.

    Raises:
      ConfigError: the file is not a SentencePiece model, its padding is not 0, or the files beside
        it disagree with it.
    """

    is_t5 = True

    def __init__(self, model_file: str, extra_ids: int, reads_beside: bool = False):
        model = read_model(model_file)
        for i in reversed(range(extra_ids)):
            # The leading space mark makes "a <extra_id_0> b" one extra id, as in SeqIO.
            piece = type(model).SentencePiece
            model.pieces.add(piece=f"▁<extra_id_{i}>", score=0.0, type=piece.USER_DEFINED)
        tokenizer = sentencepiece.SentencePieceProcessor()
        try:
            tokenizer.LoadFromSerializedProto(model.SerializeToString())
        except RuntimeError as error:
            raise _no_model(model_file, error) from None
        end, begin = tokenizer.eos_id(), tokenizer.bos_id()
        if tokenizer.pad_id() != _PAD_ID or end < 0:
            raise ConfigError(
                f"Vocabulary {model_file}: expected padding id {_PAD_ID} and an end id (T5's "
                f"convention), got padding {tokenizer.pad_id()} and end {end}; give the model's "
                "tokenizer.json, if it has one."
            )
        special = {"pad": _PAD_ID, "eos": end, "unk": tokenizer.unk_id()}
        special |= {"bos": begin} if begin >= 0 else {}
        around, pair = ((), (end,)), ((), (end,), (end,))
        size = tokenizer.get_piece_size()
        added: dict[int, Token] = {}
        self._is_legacy = True
        if reads_beside:
            path = pathlib.Path(model_file)
            pieces = {i: piece.piece for i, piece in enumerate(model.pieces)}
            added = read_added_tokens(path.parent, pieces, path.name)
            options = read_json_if_any(path.parent / "tokenizer_config.json")
            self._is_legacy = options.get("legacy") is not False
        self.reader = tokenizer
        self._added = AddedTokens(added)
        self.added_tokens = self._added.texts
        size = max(size, self._added.size)
        super().__init__(tokenizer, model_file, size, special, around, pair, extra_ids)

    def of_plain_text(self) -> "SentencePieceVocabulary":
        model: Any = sentencepiece_model_pb2.ModelProto  # type: ignore[attr-defined]
        pieces = model.FromString(self.tokenizer.serialized_model_proto())
        for piece in pieces.pieces:
            if _EXTRA_ID.fullmatch(piece.piece):
                piece.type = piece.UNUSED  # no text matches it, and other ids do not change
        plain = object.__new__(SentencePieceVocabulary)
        plain.__dict__.update(self.__dict__)
        plain.reader = sentencepiece.SentencePieceProcessor()
        plain.reader.LoadFromSerializedProto(pieces.SerializeToString())
        tokens = self._added.tokens.items()
        plain._added = AddedTokens({i: token for i, token in tokens if not token.get("special")})
        return plain

    def text_ids(self, text: str) -> list[int]:
        if not self.added_tokens:
            return self.reader.encode(text)
        return self.text_ids_with_offsets(text)[0]

    def text_ids_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        ids: list[int] = []
        spans: list[tuple[int, int]] = []
        for start, part, token in self._added.parts(text):
            if token is not None:
                ids.append(token)
                spans.append((start, start + len(part)))
                continue
            # After an added token, Transformers adds no space unless `legacy` is set.
            front = "" if self._is_legacy or start == 0 else "<unk>"
            within = front + part
            # The only output with positions in all versions since 0.2.0; positions are in bytes.
            serialized = self.reader.encode(within, out_type="serialized_proto")
            pieces = sentencepiece_pb2.SentencePieceText.FromString(serialized).pieces
            places = [(piece.begin, piece.end) for piece in pieces]
            if not within.isascii():
                # A character begins at each byte except continuation bytes, 10xxxxxx.
                begins = (np.frombuffer(within.encode(), np.uint8) & 0xC0) != 0x80
                chars = [0, *np.cumsum(begins).tolist()]
                places = [(chars[begin], chars[end]) for begin, end in places]
                # Of a character's byte pieces, SentencePiece gives only the last one a width.
                for i in range(len(pieces) - 2, -1, -1):
                    is_empty = places[i][0] == places[i][1] == places[i + 1][0]
                    if is_empty and self.tokenizer.is_byte(pieces[i].id):
                        places[i] = places[i + 1]
            cut = len(self.reader.encode(front))
            ids += [piece.id for piece in pieces[cut:]]
            moved = start - len(front)
            spans += [(first + moved, last + moved) for first, last in places[cut:]]
        return ids, spans

    def decode(self, ids: Iterable[int]) -> str:
        # A model's embeddings may be padded to more rows than the vocabulary has ids.
        size, unknown = self.tokenizer.get_piece_size(), self.tokenizer.unk_id()
        token_ids = [
            int(i) if i < size or i in self.added_tokens else unknown for i in ids if i >= 0
        ]
        if self.eos_id in token_ids:
            token_ids = token_ids[: token_ids.index(self.eos_id)]
        if not self.added_tokens:
            return self.tokenizer.decode(token_ids)
        text = ""
        for is_added, run in itertools.groupby(token_ids, lambda token: token in self.added_tokens):
            tokens = list(run)
            if is_added:
                parts = [self.added_tokens[token] for token in tokens]
            else:
                parts = [self.tokenizer.decode(tokens)]
                if text and not self.tokenizer.id_to_piece(tokens[0]).startswith("▁"):
                    text += parts.pop()
            text = " ".join([*([text] if text else []), *(part for part in parts if part)])
        return text

    def stored_piece(self, token: int) -> str | None:
        if token < self.tokenizer.get_piece_size():
            return self.tokenizer.id_to_piece(token)
        return self.added_tokens.get(token)

    def settings_beside(self) -> dict[str, Any]:
        if not self.added_tokens:
            return {}
        tokens = {str(index): token for index, token in self._added.tokens.items()}
        return {"added_tokens_decoder": tokens, "legacy": self._is_legacy}

    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.tokenizer.serialized_model_proto())
        if self.added_tokens:
            digest.update(repr(sorted(self.added_tokens.items())).encode())
        return digest.hexdigest()


def read_model(model_file: str) -> Any:
    """Returns a SentencePiece model as its protocol buffer; raises ConfigError for other files."""
    model_proto: Any = sentencepiece_model_pb2.ModelProto  # type: ignore[attr-defined]
    try:
        return model_proto.FromString(pathlib.Path(model_file).read_bytes())
    except OSError as error:
        raise ConfigError(f"Vocabulary {model_file}: {error.strerror or error}.") from None
    except DecodeError as error:
        raise _no_model(model_file, error) from None


def class_of_model(model: Any) -> str:
    """Returns Transformers' tokenizer class for a SentencePiece model; "" = T5's convention."""
    spec, first = model.trainer_spec, [piece.piece for piece in model.pieces[:10]]
    if {"[PAD]", "[CLS]", "[SEP]"} <= set(first):
        return DEBERTA
    if {"<pad>", "[CLS]", "[SEP]"} <= set(first):
        return ALBERT
    has_t5_ids = (spec.pad_id, spec.eos_id, spec.unk_id) == (0, 1, 2)
    begin = spec.bos_piece or "<s>"
    if spec.model_type != spec.BPE or has_t5_ids or spec.bos_id < 0 or begin not in first:
        return ""
    return LLAMA if begin == "<s>" else GEMMA


def _no_model(model_file: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"Vocabulary {model_file}: expected a SentencePiece model, got a file that is not one "
        f"({' '.join(str(error).split())}); give a spiece.model, spm.model or tokenizer.model, or "
        "a tokenizer.json under that name."
    )
