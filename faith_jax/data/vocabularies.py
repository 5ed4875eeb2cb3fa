"""SentencePiece vocabularies, without TensorFlow; SeqIO's view is `seqio_vocabularies`.

A vocabulary is named by `english_4096` (embedded in the package), by a SentencePiece model file,
or by a folder that holds one as published T5 checkpoints do. One setting, the *default
vocabulary*, says which one the SeqIO tasks use: it is read when text is first encoded, not when
the tasks are registered.

>>> vocabulary = load_vocabulary("english_4096")
>>> vocabulary.vocab_size
4196
>>> vocabulary.decode(vocabulary.encode("Is tea better than coffee?"))
'Is tea better than coffee?'
>>> vocabulary.encode("<extra_id_0>")
[4195]
"""

import functools
import pathlib
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from faith_jax import types
from faith_jax.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    import sentencepiece

PAD_ID = 0
EMBEDDED = "english_4096"
DEFAULT_EXTRA_IDS = 100

_FOLDER = pathlib.Path(__file__).parent / "vocabulary"
# The names under which published T5 checkpoints carry their SentencePiece model.
_NAMES_IN_A_FOLDER = ("spiece.model", "sentencepiece.model", "tokenizer.model")
# SentencePiece's loader is not thread-safe (SeqIO guards it in the same way).
_LOAD_LOCK = threading.Lock()


class VocabularySetting(NamedTuple):
    """Which vocabulary: a model file and the number of extra ids added behind its pieces."""

    model_file: str
    extra_ids: int


class SentencePieceVocabulary:
    """A SentencePiece model with T5's extra ids; satisfies `faith_jax.types.Vocabulary`.

    Ids, text and special cases agree with `seqio.SentencePieceVocabulary`: padding is 0, extra
    ids `<extra_id_N>`, ..., `<extra_id_0>` are the last ones, in that order.

    Attributes:
      model_file: the SentencePiece model.
      extra_ids: how many extra ids were added.
      tokenizer: the `sentencepiece.SentencePieceProcessor`, for pieces and offsets.
    """

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

    @property
    def vocab_size(self) -> int:
        """Number of ids, special and extra ids included."""
        return self.tokenizer.get_piece_size()

    @property
    def pad_id(self) -> int:
        """The id of padding, 0."""
        return PAD_ID

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

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of the ids up to the first end token.

        Args:
          ids: integers [length]; those outside the vocabulary (a model's embeddings may be
            padded to more rows) become the unknown id, padding becomes nothing.

        Returns:
          The text.
        """
        size, unknown, end = self.vocab_size, self.unk_id, self.eos_id
        known = [int(i) if i < size else unknown for i in ids]
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


def embedded_vocabularies() -> list[str]:
    """Returns the names of the vocabularies in the package."""
    return sorted(file.stem for file in _FOLDER.glob("*.model"))


def load_vocabulary(
    path_or_name: str | pathlib.Path = EMBEDDED, extra_ids: int = DEFAULT_EXTRA_IDS
) -> SentencePieceVocabulary:
    """Returns a vocabulary; needs neither TensorFlow nor SeqIO.

    Args:
      path_or_name: an embedded name, a SentencePiece model file, or a folder that holds
        spiece.model, sentencepiece.model or tokenizer.model.
      extra_ids: number of extra ids to add, >= 0 (published T5 vocabularies: 100).

    Returns:
      The vocabulary; loaded once for each file and number of extra ids.

    Raises:
      ConfigError: there is no such vocabulary, or the file cannot be read as one.
    """
    return SentencePieceVocabulary(*vocabulary_setting(path_or_name, extra_ids))


def vocabulary_setting(
    path_or_name: str | pathlib.Path, extra_ids: int = DEFAULT_EXTRA_IDS
) -> VocabularySetting:
    """Returns the model file that `path_or_name` stands for; see `load_vocabulary`."""
    if isinstance(extra_ids, bool) or not isinstance(extra_ids, int) or extra_ids < 0:
        raise ConfigError(
            f"Vocabulary {str(path_or_name)!r}: extra_ids must be an integer >= 0, "
            f"got {extra_ids!r}; published T5 vocabularies have {DEFAULT_EXTRA_IDS}."
        )
    name = str(path_or_name)
    if name in embedded_vocabularies():
        return VocabularySetting(str(_FOLDER / f"{name}.model"), extra_ids)
    path = pathlib.Path(name).expanduser()
    if path.is_dir():
        return VocabularySetting(str(_model_in_folder(path)), extra_ids)
    if not path.is_file():
        raise ConfigError(
            f"Vocabulary {name!r}: {_why_no_file(name)}.{_nearest(path)} Give the path of a "
            f"SentencePiece model or one of: {', '.join(embedded_vocabularies())}."
        )
    return VocabularySetting(str(path), extra_ids)


def _why_no_file(name: str) -> str:
    if "://" in name:
        return "remote files are not read, copy it to this machine first"
    return "there is no such file"


def _nearest(path: pathlib.Path) -> str:
    beside = path.parent.glob("*.model") if path.parent.is_dir() else []
    return did_you_mean(path.name, [*embedded_vocabularies(), *sorted(f.name for f in beside)])


def _model_in_folder(folder: pathlib.Path) -> pathlib.Path:
    for name in _NAMES_IN_A_FOLDER:
        if (folder / name).is_file():
            return folder / name
    raise ConfigError(
        f"Vocabulary {str(folder)!r}: the folder has none of {', '.join(_NAMES_IN_A_FOLDER)}; "
        "give the path of the SentencePiece model itself."
    )


@functools.cache
def _load_tokenizer(model_file: str, extra_ids: int) -> "sentencepiece.SentencePieceProcessor":
    """Loads a SentencePiece model and adds the extra ids behind its pieces."""
    # Imported here, so that importing this module costs nothing.
    import sentencepiece
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2

    model_proto: Any = sentencepiece_model_pb2.ModelProto  # type: ignore[attr-defined]
    try:
        model = model_proto.FromString(pathlib.Path(model_file).read_bytes())
        for i in reversed(range(extra_ids)):
            # The leading space mark makes "a <extra_id_0> b" one extra id, as in SeqIO.
            model.pieces.add(
                piece=f"▁<extra_id_{i}>",
                score=0.0,
                type=model_proto.SentencePiece.USER_DEFINED,
            )
        tokenizer = sentencepiece.SentencePieceProcessor()
        with _LOAD_LOCK:
            tokenizer.LoadFromSerializedProto(model.SerializeToString())
    except OSError as error:
        raise ConfigError(f"Vocabulary {model_file}: {error.strerror or error}.") from None
    except (DecodeError, RuntimeError) as error:
        raise ConfigError(
            f"Vocabulary {model_file}: expected a SentencePiece model, got a file that is not one "
            f"({' '.join(str(error).split())}); a tokenizer.json is not read, use spiece.model."
        ) from None
    if tokenizer.pad_id() != PAD_ID or tokenizer.eos_id() < 0:
        raise ConfigError(
            f"Vocabulary {model_file}: expected padding id {PAD_ID} and an end id (T5's "
            f"convention), got padding {tokenizer.pad_id()} and end {tokenizer.eos_id()}."
        )
    return tokenizer


def count_cut_tokens(
    vocabulary: types.Vocabulary, text: str, limit: int, add_eos: bool = True
) -> int:
    """Returns how many tokens of a text do not fit within a limit.

    Args:
      vocabulary: the vocabulary of the feature.
      text: one example's input or target.
      limit: the feature's length, in tokens.
      add_eos: whether an end token is added, which counts and stays.

    Returns:
      Tokens of the text that are cut off; 0 where all fit.
    """
    return max(0, len(vocabulary.encode(text)) + add_eos - limit)


_default = VocabularySetting(str(_FOLDER / f"{EMBEDDED}.model"), DEFAULT_EXTRA_IDS)


def set_default_vocabulary(
    path_or_name: str | pathlib.Path = EMBEDDED, extra_ids: int = DEFAULT_EXTRA_IDS
) -> None:
    """Sets the vocabulary that SeqIO tasks use from now on, in this process.

    Call it before data sets are built: one that is already being read keeps its vocabulary.

    Args:
      path_or_name: as for `load_vocabulary`.
      extra_ids: number of extra ids to add, >= 0.

    Raises:
      ConfigError: there is no such vocabulary, or the file cannot be read; the setting stays
        as it was.
    """
    global _default
    setting = vocabulary_setting(path_or_name, extra_ids)
    SentencePieceVocabulary(*setting)
    _default = setting


def default_vocabulary_setting() -> VocabularySetting:
    """Returns the model file and the number of extra ids that tasks use now."""
    return _default


def default_vocabulary() -> SentencePieceVocabulary:
    """Returns the vocabulary that SeqIO tasks use now."""
    return SentencePieceVocabulary(*_default)
