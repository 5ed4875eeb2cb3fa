"""The default vocabulary as SeqIO sees it: chosen when text is encoded, not at registration.

SeqIO tasks are registered when `faith_jax.tasks` is imported, but whether they meet the embedded
vocabulary or that of a published checkpoint is known only when a run is configured.
"""

import pathlib

import seqio

from faith_jax.data import vocabularies


class DefaultVocabulary(seqio.SentencePieceVocabulary):
    """A SeqIO vocabulary that follows `vocabularies.set_default_vocabulary`.

    All instances, copies and unpickled ones are the same vocabulary: they hold no file of their
    own and look the setting up at each use. SeqIO loads each model file once.
    """

    def __init__(self):
        super().__init__(sentencepiece_model_file="")

    def _resolved(self) -> seqio.SentencePieceVocabulary:
        return seqio.SentencePieceVocabulary(*vocabularies.default_vocabulary_setting())

    @property
    def sentencepiece_model_file(self) -> str:
        """The SentencePiece model file of the default vocabulary."""
        return vocabularies.default_vocabulary_setting().model_file

    @property
    def extra_ids(self) -> int:
        """The number of extra ids of the default vocabulary."""
        return vocabularies.default_vocabulary_setting().extra_ids

    @property
    def tokenizer(self):
        """The SentencePiece processor of the default vocabulary."""
        return self._resolved().tokenizer

    @property
    def sp_model(self) -> bytes:
        """The serialised model, extra ids included."""
        return self._resolved().sp_model

    def load_model(self) -> None:
        """Loads the default vocabulary's model now."""
        self._resolved().load_model()

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
