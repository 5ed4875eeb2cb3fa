"""Tokenizers by name or path, without TensorFlow; `seqio_vocabulary` has SeqIO's view of them.

A tokenizer is named by `english_4096` (embedded in the package), by a file, or by the folder of a
checkpoint: T5's SentencePiece model, or the tokenizer of GPT-2, DialoGPT, BLOOM, BART, RoBERTa,
DeBERTa-v3, Llama and Gemma.

>>> vocabulary = load_vocabulary("english_4096")
>>> vocabulary.vocab_size
4196
>>> vocabulary.decode(vocabulary.encode("Is tea better than coffee?"))
'Is tea better than coffee?'
>>> vocabulary.encode("<extra_id_0>")
[4195]
"""

import contextlib
import functools
import inspect
import pathlib
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.tokenizers.base import Tokenizer
from faith_jax.tokenizers.special_tokens import read_tokenizer_config, said_in

EMBEDDED = "english_4096"
DEFAULT_EXTRA_IDS = 100  # of published T5 vocabularies

# The files that a tokenizer is read from, in the order of preference. T5's comes first, for the
# extra ids that SeqIO adds to it.
TOKENIZER_FILES = (
    "spiece.model",
    "sentencepiece.model",
    "tokenizer.json",
    "vocab.json",
    "spm.model",
    "tokenizer.model",
)
_FOLDER = pathlib.Path(__file__).parent / "vocabulary"

# SentencePiece's loader is not thread-safe (SeqIO guards it in the same way).
_LOAD_LOCK = threading.Lock()

Run = TypeVar("Run", bound=Callable[..., Any])


def embedded_vocabularies() -> list[str]:
    """Returns the names of the vocabularies in the package."""
    return sorted(file.stem for file in _FOLDER.glob("*.model"))


def load_vocabulary(
    path_or_name: str | pathlib.Path = EMBEDDED, extra_ids: int | None = None
) -> Tokenizer:
    """Returns a tokenizer; needs neither TensorFlow nor SeqIO nor Transformers.

    Of a folder, the first of these files is read: spiece.model or sentencepiece.model (T5's, with
    extra ids), tokenizer.json, vocab.json with merges.txt (GPT-2's, RoBERTa's), spm.model
    (DeBERTa's), tokenizer.model (Llama's or Gemma's). A SentencePiece model's kind is told by its
    pieces: [CLS] and [SEP] = DeBERTa's, BPE with a begin token = Llama's or Gemma's, else T5's.
    A folder may be a checkpoint's: for a step of a run, its MODEL_DIR is searched too, and for a
    prompt-tuned run the base model.

    Args:
      path_or_name: the name of an embedded vocabulary or model, a tokenizer's file, or a folder
        that holds one.
      extra_ids: number of extra ids to add, >= 0; only T5's SentencePiece models have any. None =
        as tokenizer_config.json says beside them, by default 100 as in T5's.

    Returns:
      The tokenizer; its file is loaded once.

    Raises:
      ConfigError: there is no such vocabulary, or the file cannot be read as one.
    """
    if extra_ids is not None and (type(extra_ids) is not int or extra_ids < 0):
        raise ConfigError(
            f"Vocabulary {str(path_or_name)!r}: extra_ids must be an integer >= 0, "
            f"got {extra_ids!r}; published T5 vocabularies have {DEFAULT_EXTRA_IDS}."
        )
    file = _file(path_or_name)
    if extra_ids is None and file.name in TOKENIZER_FILES[:2]:
        said = read_tokenizer_config(file.parent).options.get("extra_ids")
        extra_ids = said if type(said) is int and said >= 0 else None
    with _LOAD_LOCK:
        return _loaded(str(file), DEFAULT_EXTRA_IDS if extra_ids is None else extra_ids)


@functools.cache
def _loaded(file: str, extra_ids: int) -> Tokenizer:
    # Imported here, so that importing this module costs nothing.
    from faith_jax.tokenizers import huggingface, sentencepiece

    is_json = file.endswith(".json")
    if not is_json and not sentencepiece.class_of_model(sentencepiece.read_model(file)):
        return sentencepiece.SentencePieceVocabulary(file, extra_ids)
    if extra_ids not in (0, DEFAULT_EXTRA_IDS):
        raise ConfigError(
            f"Vocabulary {file}: extra_ids = {extra_ids}, but only T5's SentencePiece models have "
            "extra ids; leave it out."
        )
    return _loaded(file, 0) if extra_ids else huggingface.HuggingFaceVocabulary(file)


def _file(path_or_name: str | pathlib.Path) -> pathlib.Path:
    name = str(path_or_name)
    if name in embedded_vocabularies():
        return _FOLDER / f"{name}.model"
    path = checkpoint_path(name)
    if path.is_dir():
        folder = tokenizer_folder(path)
        found = None if folder is None else find_tokenizer_file(folder)
        if found is None:
            names = ", ".join(TOKENIZER_FILES).replace("vocab.json", "vocab.json with merges.txt")
            raise ConfigError(
                f"Vocabulary {name!r}: the folder has none of {names}; give the path of the "
                "tokenizer's file itself."
            )
        return found
    if not path.is_file():
        reason = "there is no such file"
        if "://" in name:
            reason = "remote files are not read, copy it to this machine first"
        beside = sorted(file.name for file in path.parent.glob("*.*"))
        hint = did_you_mean(path.name, [*embedded_vocabularies(), *beside])
        raise ConfigError(
            f"Vocabulary {name!r}: {reason}.{hint} Give the path of a SentencePiece model or a "
            f"tokenizer.json, of a folder with one, or {' or '.join(embedded_vocabularies())}."
        )
    return path.with_name("vocab.json") if path.name == "merges.txt" else path


def find_tokenizer_file(folder: pathlib.Path) -> pathlib.Path | None:
    """Returns the file that a folder's tokenizer is read from, None if it has none."""
    present = [name for name in TOKENIZER_FILES if (folder / name).is_file()]
    # A vocab.json without merges is another kind's, if there is another.
    has_merges = (folder / "merges.txt").is_file()
    present.sort(key=lambda name: name == "vocab.json" and not has_merges)
    return folder / present[0] if present else None


def tokenizer_folder(checkpoint: str | pathlib.Path) -> pathlib.Path | None:
    """Returns the folder with the tokenizer of a checkpoint, None if it carries none.

    A checkpoint is a path or an embedded model's name. Its own folder is searched first, then for
    one step of a run (MODEL_DIR/checkpoints/<step>, or T5X's checkpoint_<step>) that of the run,
    then those of the base model that model.json names.
    """
    folders = _folders(checkpoint_path(checkpoint), set())
    return next((folder for folder in folders if find_tokenizer_file(folder)), None)


def _folders(folder: pathlib.Path, seen: set[pathlib.Path]) -> Iterator[pathlib.Path]:
    if folder in seen or not folder.is_dir():
        return
    seen.add(folder)
    yield folder
    whole = folder.absolute()
    if whole.name.isdigit() and whole.parent.name == "checkpoints":
        yield from _folders(whole.parent.parent, seen)
    elif re.fullmatch(r"checkpoint_\d+", whole.name):
        yield from _folders(whole.parent, seen)
    base = said_in(folder / "model.json").get("base")
    if isinstance(base, dict) and isinstance(base.get("path"), str):
        yield from _folders(checkpoint_path(base["path"]), seen)


def tokenizer_of(vocabulary: Any) -> Any:
    """Returns our tokenizer of a SeqIO task's vocabulary; the vocabulary itself if we have none."""
    ours = getattr(vocabulary, "ours", vocabulary)
    file = getattr(vocabulary, "sentencepiece_model_file", "")
    if isinstance(ours, Tokenizer) or not file:
        return ours
    try:
        found = load_vocabulary(file, vocabulary.extra_ids)
    except ConfigError:
        return vocabulary
    # Of other models than T5's, SeqIO's ids differ from those that the models were trained with.
    return found if found.is_t5 else vocabulary


# SeqIO and T5X read tasks from a registry of the process, by name. So that a registered task meets
# a run's tokenizer, it stands here for as long as the run: `RunVocabulary.choose` sets it at the
# entrance, `with_own_vocabulary` ends it. Real T5X, which calls no run of ours, sets it by gin.
_default: Tokenizer | None = None


def default_vocabulary() -> Tokenizer:
    """Returns the tokenizer that our SeqIO tasks use now: a run's, else the embedded one."""
    return _default or load_vocabulary()


def set_default_vocabulary(vocabulary: Tokenizer | None) -> None:
    """Sets the tokenizer that our SeqIO tasks use from now on; None = the embedded one.

    Call it before data sets are built: one that is already being read keeps its tokenizer.
    """
    global _default
    _default = vocabulary


@contextlib.contextmanager
def tasks_use(vocabulary: Tokenizer | None) -> Iterator[None]:
    """Within, our SeqIO tasks use a tokenizer (None = the embedded one); then the former again."""
    before = _default
    set_default_vocabulary(vocabulary)
    try:
        yield
    finally:
        set_default_vocabulary(before)


def with_own_vocabulary(run: Run) -> Run:
    """Decorates a run: the tokenizer that it sets for our SeqIO tasks is theirs until it ends."""

    @functools.wraps(run)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with tasks_use(None):
            return run(*args, **kwargs)

    wrapper.__signature__ = inspect.signature(run)  # type: ignore[attr-defined]  # for gin
    return wrapper  # type: ignore[return-value]
