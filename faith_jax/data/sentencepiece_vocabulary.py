"""SentencePiece models with T5's convention: padding is 0, extra ids stand behind the pieces.

Llama's, Gemma's and DeBERTa's SentencePiece models have other conventions:
`huggingface_vocabulary` reads those.
"""

import functools
import pathlib
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from faith_jax.data.tokenizer_base import TokenizerBase
from faith_jax.errors import ConfigError

if TYPE_CHECKING:
    import sentencepiece

PAD_ID = 0
DEFAULT_EXTRA_IDS = 100

# SentencePiece's loader is not thread-safe (SeqIO guards it in the same way).
_LOAD_LOCK = threading.Lock()


class SentencePieceVocabulary(TokenizerBase):
    """A SentencePiece model with T5's extra ids; satisfies `faith_jax.types.Tokenizer`.

    Ids, text and special cases agree with `seqio.SentencePieceVocabulary`: padding is 0, extra
    ids `<extra_id_N>`, ..., `<extra_id_0>` are the last ones, in that order.

    Attributes:
      model_file: the SentencePiece model.
      extra_ids: how many extra ids were added.
      tokenizer: the `sentencepiece.SentencePieceProcessor`, for pieces and offsets.
    """

    # T5 has none of these.
    cls_id: int | None = None
    sep_id: int | None = None
    mask_id: int | None = None

    def __init__(self, model_file: str, extra_ids: int = DEFAULT_EXTRA_IDS):
        """Loads the model.

        Args:
          model_file: path of a SentencePiece model.
          extra_ids: number of extra ids to add, >= 0.

        Raises:
          ConfigError: the file is no SentencePiece model, or does not pad with id 0.
        """
        self.model_file = model_file
        self.extra_ids = extra_ids
        self.tokenizer = _load_tokenizer(model_file, extra_ids)
        self.prefix_ids = ()
        self.suffix_ids = (self.eos_id,)
        self.pair_ids = ((), (self.eos_id,), (self.eos_id,))

    @property
    def vocab_size(self) -> int:
        """Number of ids, special and extra ids included."""
        return self.tokenizer.get_piece_size()

    @property
    def pad_id(self) -> int:
        """The id of padding, 0."""
        return PAD_ID

    @property
    def bos_id(self) -> int | None:
        """The id that begins a sequence; None in T5's convention."""
        found = self.tokenizer.bos_id()
        return found if found >= 0 else None

    @property
    def eos_id(self) -> int:
        """The id that ends a sequence (1 in T5's convention)."""
        return self.tokenizer.eos_id()

    @property
    def unk_id(self) -> int:
        """The id of unknown text (2 in T5's convention)."""
        return self.tokenizer.unk_id()

    def encode(self, s: str) -> list[int]:
        """Returns the ids of a text, without an end token; none for an empty text."""
        return self.tokenizer.encode(s)

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Returns the ids as `encode` does, and the characters that each stands for.

        Returns:
          The ids, and for each the offset of its first character and that behind its last. White
          space belongs to the token behind it; bytes of one character have its offsets.
        """
        pieces = self.tokenizer.encode(text, out_type="immutable_proto").pieces
        ids = [piece.id for piece in pieces]
        spans = [(piece.begin, piece.end) for piece in pieces]
        # Of a character that falls into bytes, SentencePiece gives only the last one its width.
        for i in range(len(ids) - 2, -1, -1):
            if spans[i][0] == spans[i][1] == spans[i + 1][0] and self.tokenizer.is_byte(ids[i]):
                spans[i] = spans[i + 1]
        return ids, spans

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of the ids up to the first end token.

        Args:
          ids: integers [length]; those outside the vocabulary (a model's embeddings may be
            padded to more rows) become the unknown id, padding and -1 become nothing.

        Returns:
          The text.
        """
        size, unknown, end = self.vocab_size, self.unk_id, self.eos_id
        known = [int(i) if i < size else unknown for i in ids if i >= 0]
        if end in known:
            known = known[: known.index(end)]
        return self.tokenizer.decode(known)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SentencePieceVocabulary):
            return NotImplemented
        return (self.model_file, self.extra_ids) == (other.model_file, other.extra_ids)

    def __hash__(self) -> int:
        return hash((self.model_file, self.extra_ids))

    def __reduce__(self):
        return (SentencePieceVocabulary, (self.model_file, self.extra_ids))

    def __repr__(self) -> str:
        return f"SentencePieceVocabulary({self.model_file!r}, extra_ids={self.extra_ids})"


def read_model(model_file: str) -> Any:
    """Returns a SentencePiece model file as its protocol buffer.

    Raises:
      ConfigError: the file cannot be read, or is no SentencePiece model.
    """
    # Imported here, so that importing this module costs nothing.
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2

    model_proto: Any = sentencepiece_model_pb2.ModelProto  # type: ignore[attr-defined]
    try:
        return model_proto.FromString(pathlib.Path(model_file).read_bytes())
    except OSError as error:
        raise ConfigError(f"Vocabulary {model_file}: {error.strerror or error}.") from None
    except DecodeError as error:
        raise _no_model(model_file, error) from None


def _no_model(model_file: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"Vocabulary {model_file}: expected a SentencePiece model, got a file that is not one "
        f"({' '.join(str(error).split())}); give a spiece.model, spm.model or tokenizer.model, or "
        "a tokenizer.json under that name."
    )


@functools.cache
def _load_tokenizer(model_file: str, extra_ids: int) -> "sentencepiece.SentencePieceProcessor":
    """Loads a SentencePiece model and adds the extra ids behind its pieces."""
    import sentencepiece

    model = read_model(model_file)
    for i in reversed(range(extra_ids)):
        # The leading space mark makes "a <extra_id_0> b" one extra id, as in SeqIO.
        piece = type(model).SentencePiece
        model.pieces.add(piece=f"▁<extra_id_{i}>", score=0.0, type=piece.USER_DEFINED)
    tokenizer = sentencepiece.SentencePieceProcessor()
    try:
        with _LOAD_LOCK:
            tokenizer.LoadFromSerializedProto(model.SerializeToString())
    except RuntimeError as error:
        raise _no_model(model_file, error) from None
    if tokenizer.pad_id() != PAD_ID or tokenizer.eos_id() < 0:
        raise ConfigError(
            f"Vocabulary {model_file}: expected padding id {PAD_ID} and an end id (T5's "
            f"convention), got padding {tokenizer.pad_id()} and end {tokenizer.eos_id()}; give the "
            "model's tokenizer.json, if it has one."
        )
    return tokenizer
