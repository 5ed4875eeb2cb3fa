"""The interface of all tokenizers: ids of texts, special tokens, and human-readable pieces."""

import abc
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from faith_jax.core.templates import PUBLISHED, Notation
from faith_jax.tokenizers.unknown import note_unknown

# The special tokens, in the order in which Transformers adds missing ones to a vocabulary.
NAMES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")

Ids = tuple[int, ...]

_SPACE = "\u2581"
_LONGEST_PIECE = 24


class Tokenizer(abc.ABC):
    """A tokenizer of either library, as opened by `vocabularies.load_vocabulary`.

    Two tokenizers are equal if they have the same file and number of extra ids. Threads may share a
    tokenizer. The id of a special token is None if the vocabulary has no such token: GPT-2 and
    Llama have no `pad_id`, T5 has no `bos_id`.

    Attributes:
      tokenizer: the library's own object; do not change its settings.
      model_file: the file that the tokenizer was read from.
      vocab_size: the number of ids, including special, added and extra ids.
      extra_ids: the number of ids that are T5's `<extra_id_N>`.
      is_t5: whether it is a SentencePiece model with T5's convention.
      added_tokens: tokens added after a vocabulary that cannot hold them itself, by id.
      prefix_ids: special ids before a single text.
      suffix_ids: special ids after a single text.
      pair_ids: special ids before, between and after two texts.
      second_type: the token type of a second text and the special ids after it (BERT: 1).
      notation: the delimiters of formats that the tokenizer can write, or was trained with.
    """

    is_t5 = False
    added_tokens: Mapping[int, str] = types.MappingProxyType({})
    second_type = 0
    notation: Notation = PUBLISHED
    pad_id: int | None
    bos_id: int | None
    eos_id: int | None
    unk_id: int | None
    cls_id: int | None
    sep_id: int | None
    mask_id: int | None

    def __init__(
        self,
        tokenizer: Any,
        model_file: str,
        vocab_size: int,
        special: Mapping[str, int],
        around: tuple[Ids, Ids],
        around_pair: tuple[Ids, Ids, Ids],
        extra_ids: int = 0,
    ):
        """Stores the parts that a subclass has read; `special` has ids by the names in `NAMES`."""
        self.tokenizer, self.model_file = tokenizer, model_file
        self.vocab_size, self.extra_ids = vocab_size, extra_ids
        for name in NAMES:
            setattr(self, f"{name}_id", special.get(name))
        self.prefix_ids, self.suffix_ids = around
        self.pair_ids = around_pair

    def of_plain_text(self) -> "Tokenizer":
        """Returns a variant that treats special tokens written in a text as ordinary text."""
        return self

    def encode(self, s: str) -> list[int]:
        """Returns the ids of a text, without special tokens around it."""
        ids = self.text_ids(s)
        note_unknown(self, s, ids)
        return ids

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Returns the ids of a text, and the offsets [start, end) of their characters in it.

        Bytes of one character have its offsets. Whether a token includes the white space before it
        depends on the family (T5, GPT-2: yes; RoBERTa: no).
        """
        ids, offsets = self.text_ids_with_offsets(text)
        note_unknown(self, text, ids)
        return ids, offsets

    @abc.abstractmethod
    def text_ids(self, text: str) -> list[int]:
        """Returns the ids of `encode`, without counting unknown tokens."""

    @abc.abstractmethod
    def text_ids_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Returns the ids and offsets of `encode_with_offsets`, without counting unknown tokens."""

    def writes(self, text: str) -> bool:
        """Returns whether decoding restores a text, ignoring its case and white space."""
        ids = self.text_ids(text)
        if self.unk_id is not None and self.unk_id in ids:
            return False
        return "".join(self.decode(ids).casefold().split()) == "".join(text.casefold().split())

    @abc.abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of the ids before the first end token, without special tokens.

        Padding and negative ids (the padding of models without a pad token) are left out.
        """

    @abc.abstractmethod
    def stored_piece(self, token: int) -> str | None:
        """Returns a token's piece as text, with a space as " " or "▁"; None if it has no piece."""

    def add_special_tokens(
        self, ids: Sequence[int], pair_ids: Sequence[int] | None = None
    ) -> list[int]:
        """Returns the ids of one or two texts with the special tokens around them.

        For `pair_ids`, an empty list is an empty second text, and None is no second text.
        """
        if pair_ids is None:
            return [*self.prefix_ids, *ids, *self.suffix_ids]
        front, between, suffix = self.pair_ids
        return [*front, *ids, *between, *pair_ids, *suffix]

    def second_start(self, first: int, length: int) -> int:
        """Returns the position at which the tokens of type 1 begin in a row of two texts.

        Args:
          first: the number of tokens of the first text.
          length: the length of the row, which is the result if the family has no such tokens.
        """
        front, between, _ = self.pair_ids
        return len(front) + first + len(between) if self.second_type else length

    def piece_text(self, token: int) -> str:
        """Returns a token's printable text, without control characters; "#id" if it has no text."""
        piece = self.stored_piece(token) if 0 <= token < self.vocab_size else None
        return f"#{token}" if piece is None else escape(piece)

    def to_readable(self, ids: Sequence[int]) -> str:
        """Returns token ids as readable text, including special tokens such as `</s>`."""
        special = {getattr(self, f"{name}_id") for name in NAMES if name != "unk"}
        readable, rest = "", list(ids)
        while rest:  # piece by piece, as `decode` stops at the first end token
            count = next((n for n, token in enumerate(rest) if token in special), len(rest))
            readable += self.decode(rest[:count]) if count else ""
            if count < len(rest):
                readable += self.piece_text(rest[count])
            rest = rest[count + 1 :]
        return readable

    @abc.abstractmethod
    def fingerprint(self) -> str:
        """Returns a hash of everything that determines the ids, independent of the files' form."""

    def settings_beside(self) -> dict[str, Any]:
        """Returns the fields of tokenizer_config.json for tokens that the model's file lacks."""
        return {}

    def __eq__(self, vocabulary: object) -> bool:
        if not isinstance(vocabulary, Tokenizer):
            return NotImplemented
        return (self.model_file, self.extra_ids) == (vocabulary.model_file, vocabulary.extra_ids)

    def __hash__(self) -> int:
        return hash((self.model_file, self.extra_ids))

    def __reduce__(self) -> tuple[Any, ...]:
        from faith_jax.tokenizers.vocabularies import load_vocabulary

        return load_vocabulary, (self.model_file, self.extra_ids)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model_file!r}, extra_ids={self.extra_ids})"


def escape(text: str) -> str:
    r"""Returns a text as one line without control characters, shortened to fit a table.

    >>> escape(" a\n\x1b[31m")
    '▁a\\n\\x1b[31m'
    """
    escaped = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode()
        for c in text.replace(" ", _SPACE)
    )
    return escaped if len(escaped) <= _LONGEST_PIECE else escaped[: _LONGEST_PIECE - 1] + "\u2026"
