"""Our tokenizers as SeqIO vocabularies; the only module here that needs TensorFlow."""

import functools
import operator
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np
import seqio
import tensorflow as tf

from faith_jax.tokenizers import vocabularies
from faith_jax.tokenizers.base import Tokenizer


class TokenizerVocabulary(seqio.Vocabulary):
    """One of our tokenizers as a SeqIO vocabulary.

    SentencePiece runs in TensorFlow's graph. A Hugging Face tokenizer runs in Python, so its graph
    works only in the process that built it.
    """

    def __init__(self, ours: Tokenizer):
        super().__init__()
        self.ours = ours

    bos_id = property(operator.attrgetter("ours.bos_id"))
    unk_id = property(operator.attrgetter("ours.unk_id"))
    extra_ids = property(operator.attrgetter("ours.extra_ids"))
    tokenizer = property(operator.attrgetter("ours.tokenizer"))

    @property
    def eos_id(self) -> int | None:
        """The id that ends a text; the separator's id in tokenizers without an end (BERT)."""
        return self.ours.sep_id if self.ours.eos_id is None else self.ours.eos_id

    @property
    def pad_id(self) -> int:
        """The id of padding, or SeqIO's 0 if the tokenizer has no padding."""
        return seqio.PAD_ID if self.ours.pad_id is None else self.ours.pad_id

    @property
    def _base_vocab_size(self) -> int:
        return self.ours.vocab_size - self.ours.extra_ids

    def _in_graph(self) -> seqio.SentencePieceVocabulary | None:
        """Returns SeqIO's own vocabulary if the tokenizer has T5's convention, else None.

        SeqIO's vocabulary cannot have tokens that were added beside the SentencePiece model.
        """
        ours = self.ours
        is_theirs = ours.is_t5 and not ours.added_tokens
        return _load_sentencepiece(ours.model_file, ours.extra_ids) if is_theirs else None

    def _encode(self, s: str) -> list[int]:
        return self.ours.encode(s)

    def decode(self, ids: Iterable[int]) -> str:
        return self.ours.decode(np.asarray(ids).tolist())

    def _decode(self, ids: Sequence[int]) -> str:
        return self.decode(ids)

    def _encode_tf(self, s: tf.Tensor) -> tf.Tensor | tf.RaggedTensor:
        """Encodes a string, or a vector of strings to a RaggedTensor."""
        in_graph = self._in_graph()  # not with `:=`, for which AutoGraph warns
        if in_graph is not None:
            return in_graph.encode_tf(s)
        encode, texts = self.ours.encode, tf.convert_to_tensor(s)

        def encode_rows(texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            rows = [encode(text.decode("utf-8", "replace")) for text in texts]
            flat = np.array([i for row in rows for i in row], np.int32)
            return flat, np.array([len(row) for row in rows], np.int64)

        flat, lengths = tf.numpy_function(
            encode_rows, [tf.reshape(texts, [-1])], [tf.int32, tf.int64], stateful=False
        )
        flat.set_shape([None])
        if texts.shape.rank == 0:
            return flat
        lengths.set_shape([None])
        return tf.RaggedTensor.from_row_lengths(flat, lengths)

    def decode_tf(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Decodes ids [length] to a string, [batch, length] to strings [batch]."""
        in_graph = self._in_graph()
        if in_graph is not None:
            return in_graph.decode_tf(ids)
        decode = self.ours.decode
        ids = tf.convert_to_tensor(ids.to_tensor(-1) if isinstance(ids, tf.RaggedTensor) else ids)

        def decode_rows(ids: np.ndarray) -> np.ndarray:
            # Not -1, since the number of rows of width 0 cannot be inferred.
            rows = ids.reshape(int(np.prod(ids.shape[:-1])), ids.shape[-1])
            return np.array([decode(row).encode() for row in rows], object).reshape(ids.shape[:-1])

        text = tf.numpy_function(decode_rows, [ids], tf.string, stateful=False)
        text.set_shape(ids.shape[:-1])
        return text

    def _decode_tf(self, ids: tf.Tensor) -> tf.Tensor:
        return self.decode_tf(ids)

    def __eq__(self, vocabulary: object) -> bool:
        if isinstance(vocabulary, TokenizerVocabulary):
            return self.ours == vocabulary.ours
        return self._in_graph() == vocabulary

    def __hash__(self) -> int:
        return hash(self.ours)

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.ours})"


class DefaultVocabulary(TokenizerVocabulary):
    """The vocabulary of our registered tasks, looking up the default tokenizer at each use.

    SeqIO tasks are registered when `faith_jax.tasks` is imported, before a run knows its tokenizer.
    """

    def __init__(self) -> None:
        seqio.Vocabulary.__init__(self)

    @property
    def ours(self) -> Tokenizer:  # type: ignore[override]
        return vocabularies.default_vocabulary()

    def __eq__(self, vocabulary: object) -> bool:
        # SeqIO compares vocabularies when mixtures are registered, before anything is loaded.
        return isinstance(vocabulary, DefaultVocabulary) or super().__eq__(vocabulary)

    __hash__ = None  # type: ignore[assignment]


@functools.cache
def _load_sentencepiece(model_file: str, extra_ids: int) -> seqio.SentencePieceVocabulary:
    return seqio.SentencePieceVocabulary(model_file, extra_ids)


def default_vocabulary(
    path_or_name: str | pathlib.Path = vocabularies.EMBEDDED,
    extra_ids: int | None = None,
) -> DefaultVocabulary:
    """Sets the default vocabulary and returns it, for gin files of real T5X.

    Takes the same arguments and raises the same errors as `vocabularies.load_vocabulary`.
    """
    vocabularies.set_default_vocabulary(vocabularies.load_vocabulary(path_or_name, extra_ids))
    return DefaultVocabulary()
