"""The default vocabulary as SeqIO sees it: chosen when text is encoded, not at registration.

SeqIO tasks are registered when `faith_jax.tasks` is imported, but whether they meet the embedded
vocabulary or that of a published checkpoint is known only when a run is configured.
"""

import pathlib
from collections.abc import Iterable, Sequence

import numpy as np
import seqio
import tensorflow as tf

from faith_jax.data import vocabularies
from faith_jax.data.huggingface_vocabulary import HuggingFaceVocabulary


class TokenizerVocabulary(seqio.Vocabulary):
    """A published Hugging Face tokenizer as a SeqIO vocabulary.

    In TensorFlow, text goes through Python: the graph runs only in the process that made it.

    Attributes:
      vocabulary: what encodes and decodes.
    """

    def __init__(self, vocabulary: HuggingFaceVocabulary):
        """Wraps a vocabulary.

        Args:
          vocabulary: of `vocabularies.load_vocabulary`.
        """
        super().__init__()
        self.vocabulary = vocabulary

    @property
    def bos_id(self) -> int | None:
        """The id that begins a sequence; None = there is none."""
        return self.vocabulary.bos_id

    @property
    def eos_id(self) -> int | None:
        """The id that ends a sequence; None = there is none."""
        return self.vocabulary.eos_id

    @property
    def unk_id(self) -> int | None:
        """The id of unknown text; None = there is none."""
        return self.vocabulary.unk_id

    @property
    def pad_id(self) -> int:
        """The id of padding; SeqIO's 0 where the vocabulary has none."""
        return seqio.PAD_ID if self.vocabulary.pad_id is None else self.vocabulary.pad_id

    @property
    def tokenizer(self):
        """The `tokenizers.Tokenizer`."""
        return self.vocabulary.tokenizer

    @property
    def _base_vocab_size(self) -> int:
        return self.vocabulary.vocab_size

    def _encode(self, s: str) -> list[int]:
        return self.vocabulary.encode(s)

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of the ids up to the first end token."""
        return self.vocabulary.decode(np.asarray(ids).tolist())

    def _decode(self, ids: Sequence[int]) -> str:
        return self.decode(ids)

    def _encode_tf(self, s: tf.Tensor) -> tf.Tensor | tf.RaggedTensor:
        """Encodes a string, or a vector of strings as a RaggedTensor of int32."""
        texts = tf.convert_to_tensor(s)
        flat, lengths = tf.numpy_function(
            self._encode_texts, [tf.reshape(texts, [-1])], [tf.int32, tf.int64], stateful=False
        )
        flat.set_shape([None])
        if texts.shape.rank == 0:
            return flat
        lengths.set_shape([None])
        return tf.RaggedTensor.from_row_lengths(flat, lengths)

    def _encode_texts(self, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = [self.vocabulary.encode(text.decode("utf-8", "replace")) for text in texts]
        flat = np.array([i for row in rows for i in row], np.int32)
        return flat, np.array([len(row) for row in rows], np.int64)

    def decode_tf(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Decodes ids [length] to a string, or [batch, length] to strings [batch]."""
        if isinstance(ids, tf.RaggedTensor):
            ids = ids.to_tensor(-1)
        ids = tf.convert_to_tensor(ids)
        text = tf.numpy_function(self._decode_rows, [ids], tf.string, stateful=False)
        text.set_shape(ids.shape[:-1])
        return text

    def _decode_tf(self, ids: tf.Tensor) -> tf.Tensor:
        return self.decode_tf(ids)

    def _decode_rows(self, ids: np.ndarray) -> np.ndarray:
        # Not -1: the number of rows of width 0 cannot be inferred.
        rows = ids.reshape(int(np.prod(ids.shape[:-1])), ids.shape[-1])
        texts = [self.vocabulary.decode(row).encode() for row in rows]
        return np.array(texts, object).reshape(ids.shape[:-1])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TokenizerVocabulary):
            return NotImplemented
        return self.vocabulary == other.vocabulary

    def __hash__(self) -> int:
        return hash(self.vocabulary)

    def __str__(self) -> str:
        return f"TokenizerVocabulary({self.vocabulary})"


class DefaultVocabulary(seqio.SentencePieceVocabulary):
    """A SeqIO vocabulary that follows `vocabularies.set_default_vocabulary`.

    All instances, copies and unpickled ones are the same vocabulary: they hold no file of their
    own and look the setting up at each use. SeqIO loads each model file once. It stays a
    SentencePieceVocabulary to SeqIO, whichever kind the setting is of.
    """

    def __init__(self):
        super().__init__(sentencepiece_model_file="")

    def _resolved(self) -> seqio.SentencePieceVocabulary | TokenizerVocabulary:
        vocabulary = vocabularies.default_vocabulary()
        if isinstance(vocabulary, HuggingFaceVocabulary):
            return TokenizerVocabulary(vocabulary)
        return seqio.SentencePieceVocabulary(vocabulary.model_file, vocabulary.extra_ids)

    @property
    def sentencepiece_model_file(self) -> str:
        """The file of the default vocabulary."""
        return vocabularies.default_vocabulary_setting().model_file

    @property
    def extra_ids(self) -> int:
        """The number of extra ids of the default vocabulary."""
        return vocabularies.default_vocabulary_setting().extra_ids

    @property
    def bos_id(self) -> int | None:
        """The id that begins a sequence; None, or -1 in T5's, = there is none."""
        return self._resolved().bos_id

    @property
    def eos_id(self) -> int | None:
        """The id that ends a sequence."""
        return self._resolved().eos_id

    @property
    def unk_id(self) -> int | None:
        """The id of unknown text."""
        return self._resolved().unk_id

    @property
    def pad_id(self) -> int:
        """The id of padding."""
        return self._resolved().pad_id

    @property
    def _base_vocab_size(self) -> int:
        return self._resolved().vocab_size

    @property
    def tokenizer(self):
        """The SentencePiece processor or `tokenizers.Tokenizer` of the default vocabulary."""
        return self._resolved().tokenizer

    @property
    def sp_model(self) -> bytes | None:
        """The serialised SentencePiece model, extra ids included; None = it is of another kind."""
        return getattr(self._resolved(), "sp_model", None)

    def load_model(self) -> None:
        """Loads the default vocabulary's model now."""
        _ = self._resolved().tokenizer

    def encode(self, s: str) -> list[int]:
        """Returns the ids of a text, without an end token."""
        return self._resolved().encode(s)

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of the ids up to the first end token."""
        return self._resolved().decode(ids)

    def encode_tf(self, s: tf.Tensor) -> tf.Tensor | tf.RaggedTensor:
        """Encodes a string, or a vector of strings as a RaggedTensor of int32."""
        return self._resolved().encode_tf(s)

    def decode_tf(self, ids: tf.Tensor) -> tf.Tensor:
        """Decodes ids [length] to a string, or [batch, length] to strings [batch]."""
        return self._resolved().decode_tf(ids)

    def __eq__(self, other: object) -> bool:
        # Before anything is loaded: SeqIO compares vocabularies when mixtures are registered.
        if isinstance(other, DefaultVocabulary):
            return True
        return self._resolved() == other

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"DefaultVocabulary({self._resolved()})"


def default_vocabulary(
    path_or_name: str | pathlib.Path = vocabularies.EMBEDDED,
    extra_ids: int = vocabularies.DEFAULT_EXTRA_IDS,
) -> DefaultVocabulary:
    """Sets the default vocabulary and returns it: for gin files of T5X, which calls no run of ours.

    Arguments and errors are those of `vocabularies.set_default_vocabulary`.
    """
    vocabularies.set_default_vocabulary(path_or_name, extra_ids)
    return DefaultVocabulary()
