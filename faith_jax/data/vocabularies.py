"""Vocabularies by name or path, without TensorFlow; SeqIO's view is `seqio_vocabularies`.

A vocabulary is named by `english_4096` (embedded in the package), by a file, or by the folder of
a published checkpoint: T5's SentencePiece model, or the tokenizer of GPT-2, DialoGPT, BLOOM,
BART, RoBERTa, DeBERTa-v3, Llama and Gemma. One setting, the *default vocabulary*, says which one
the SeqIO tasks use: it is read when text is first encoded, not when the tasks are registered.

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
from typing import NamedTuple

from faith_jax import types
from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.data.huggingface_tokenizers import is_sentencepiece_of_transformers
from faith_jax.data.huggingface_vocabulary import HuggingFaceVocabulary
from faith_jax.data.sentencepiece_vocabulary import (
    DEFAULT_EXTRA_IDS,
    PAD_ID,
    SentencePieceVocabulary,
    read_model,
)
from faith_jax.data.special_tokens import read_tokenizer_config
from faith_jax.data.tokenizer_folders import (
    TOKENIZER_FILES,
    find_tokenizer_file,
    tokenizer_folder,
)
from faith_jax.errors import ConfigError, did_you_mean

__all__ = [
    "DEFAULT_EXTRA_IDS",
    "EMBEDDED",
    "PAD_ID",
    "HuggingFaceVocabulary",
    "SentencePieceVocabulary",
    "VocabularySetting",
    "count_cut_tokens",
    "default_vocabulary",
    "default_vocabulary_setting",
    "embedded_vocabularies",
    "load_vocabulary",
    "set_default_vocabulary",
    "vocabulary_setting",
]

EMBEDDED = "english_4096"

_FOLDER = pathlib.Path(__file__).parent / "vocabulary"


class VocabularySetting(NamedTuple):
    """Which vocabulary: a file and the number of extra ids added behind T5's pieces."""

    model_file: str
    extra_ids: int


def embedded_vocabularies() -> list[str]:
    """Returns the names of the vocabularies in the package."""
    return sorted(file.stem for file in _FOLDER.glob("*.model"))


def load_vocabulary(
    path_or_name: str | pathlib.Path = EMBEDDED, extra_ids: int | None = None
) -> SentencePieceVocabulary | HuggingFaceVocabulary:
    """Returns a vocabulary; needs neither TensorFlow nor SeqIO nor Transformers.

    Of a folder, the first of these files is read: spiece.model or sentencepiece.model (T5's, with
    extra ids), tokenizer.json, vocab.json with merges.txt (GPT-2's, RoBERTa's), spm.model
    (DeBERTa's), tokenizer.model (Llama's or Gemma's). A SentencePiece model's kind is told by its
    pieces: [CLS] and [SEP] = DeBERTa's, BPE with a begin token = Llama's or Gemma's, else T5's.
    A folder may be a checkpoint's: for a step of a run, its MODEL_DIR is looked at too, and for a
    prompt-tuned run the base model.

    Args:
      path_or_name: the name of an embedded vocabulary or model, a tokenizer's file, or a folder
        that holds one.
      extra_ids: number of extra ids to add, >= 0; only T5's SentencePiece models have any. None =
        as tokenizer_config.json says beside them, and 100 where it does not, as in T5's.

    Returns:
      The vocabulary, a `faith_jax.types.Tokenizer`; its file is loaded once.

    Raises:
      ConfigError: there is no such vocabulary, or the file cannot be read as one.
    """
    return _vocabulary(vocabulary_setting(path_or_name, extra_ids))


def _vocabulary(setting: VocabularySetting) -> SentencePieceVocabulary | HuggingFaceVocabulary:
    file, extra_ids = setting
    if _is_t5(file):
        return SentencePieceVocabulary(file, extra_ids)
    if extra_ids not in (0, DEFAULT_EXTRA_IDS):
        raise ConfigError(
            f"Vocabulary {file}: extra_ids = {extra_ids}, but only T5's SentencePiece models have "
            "extra ids; leave it out."
        )
    return HuggingFaceVocabulary(file)


@functools.cache
def _is_t5(model_file: str) -> bool:
    if model_file.endswith(".json"):
        return False
    return not is_sentencepiece_of_transformers(read_model(model_file))


def vocabulary_setting(
    path_or_name: str | pathlib.Path, extra_ids: int | None = None
) -> VocabularySetting:
    """Returns the file that `path_or_name` stands for; see `load_vocabulary`."""
    if extra_ids is not None and (
        isinstance(extra_ids, bool) or not isinstance(extra_ids, int) or extra_ids < 0
    ):
        raise ConfigError(
            f"Vocabulary {str(path_or_name)!r}: extra_ids must be an integer >= 0, "
            f"got {extra_ids!r}; published T5 vocabularies have {DEFAULT_EXTRA_IDS}."
        )
    file = _file(path_or_name)
    return VocabularySetting(str(file), _extra_ids(file) if extra_ids is None else extra_ids)


def _extra_ids(file: pathlib.Path) -> int:
    """Returns the number of extra ids that a folder says of T5's SentencePiece model in it."""
    if file.parent == _FOLDER or file.name not in TOKENIZER_FILES[:2]:
        return DEFAULT_EXTRA_IDS
    found = read_tokenizer_config(file.parent).options.get("extra_ids")
    if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
        return found
    return DEFAULT_EXTRA_IDS


def _file(path_or_name: str | pathlib.Path) -> pathlib.Path:
    name = str(path_or_name)
    if name in embedded_vocabularies():
        return _FOLDER / f"{name}.model"
    path = checkpoint_path(name)
    if path.is_dir():
        return _file_in_folder(path)
    if not path.is_file():
        raise ConfigError(
            f"Vocabulary {name!r}: {_why_no_file(name)}.{_nearest(path)} Give the path of a "
            f"SentencePiece model or a tokenizer.json, of a folder with one, or one of: "
            f"{', '.join(embedded_vocabularies())}."
        )
    return _vocab_of(path) if path.name == "merges.txt" else path


def _why_no_file(name: str) -> str:
    if "://" in name:
        return "remote files are not read, copy it to this machine first"
    return "there is no such file"


def _nearest(path: pathlib.Path) -> str:
    folder = path.parent
    beside = [*folder.glob("*.model"), *folder.glob("tokenizer*.json")] if folder.is_dir() else []
    return did_you_mean(path.name, [*embedded_vocabularies(), *sorted(f.name for f in beside)])


def _file_in_folder(folder: pathlib.Path) -> pathlib.Path:
    there = tokenizer_folder(folder)
    found = None if there is None else find_tokenizer_file(there)
    if found is not None:
        return _vocab_of(found) if found.name == "merges.txt" else found
    names = ", ".join(TOKENIZER_FILES).replace("vocab.json", "vocab.json with merges.txt")
    raise ConfigError(
        f"Vocabulary {str(folder)!r}: the folder has none of {names}; give the path of the "
        "tokenizer's file itself."
    )


def _vocab_of(merges: pathlib.Path) -> pathlib.Path:
    vocab = merges.with_name("vocab.json")
    if not vocab.is_file():
        raise ConfigError(f"Vocabulary {merges}: expected vocab.json beside it, there is none.")
    return vocab


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
    path_or_name: str | pathlib.Path = EMBEDDED, extra_ids: int | None = None
) -> None:
    """Sets the vocabulary that SeqIO tasks use from now on, in this process.

    Call it before data sets are built: one that is already being read keeps its vocabulary.

    Args:
      path_or_name: as for `load_vocabulary`.
      extra_ids: as for `load_vocabulary`.

    Raises:
      ConfigError: there is no such vocabulary, or the file cannot be read; the setting stays
        as it was.
    """
    global _default
    vocabulary = load_vocabulary(path_or_name, extra_ids)
    _default = VocabularySetting(vocabulary.model_file, vocabulary.extra_ids)


def default_vocabulary_setting() -> VocabularySetting:
    """Returns the file and the number of extra ids that tasks use now."""
    return _default


def default_vocabulary() -> SentencePieceVocabulary | HuggingFaceVocabulary:
    """Returns the vocabulary that SeqIO tasks use now."""
    return _vocabulary(_default)
