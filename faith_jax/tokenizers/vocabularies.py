"""Tokenizers by name or path, without TensorFlow; `seqio_vocabulary` has SeqIO's view of them.

A tokenizer is named `english_4096` (embedded in the package), or by its file or a checkpoint's
folder. It may be T5's SentencePiece model, the tokenizer of GPT-2, DialoGPT, BLOOM, BART, BERT,
ALBERT, RoBERTa, DeBERTa, Llama or Gemma, or that of ByT5, which needs no file.

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
import logging
import pathlib
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from faith_jax.checkpoints.embedded import checkpoint_path, model_dir_of
from faith_jax.checkpoints.manifest import COMPANIONS
from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.core.files.staging import local_copy
from faith_jax.core.files.stores import check_no_pointer, is_remote, stamp
from faith_jax.core.templates import CANDIDATES, PUBLISHED, Notation, choose_notation
from faith_jax.tokenizers import byte_level
from faith_jax.tokenizers.base import Tokenizer
from faith_jax.tokenizers.special_tokens import read_json_if_any, read_tokenizer_config

logger = logging.getLogger("faith_jax")

EMBEDDED = "english_4096"
NOTATION = "faith_jax_notation"  # in tokenizer_config.json: the delimiters of formats
_RUN_CONFIG = "config.gin"  # in the folder of a run
DEFAULT_EXTRA_IDS = 100  # as in published T5 vocabularies

# The files that a tokenizer is read from, preferred ones first. T5's files lead because only they
# get the extra ids that SeqIO adds.
TOKENIZER_FILES = (
    "spiece.model",
    "sentencepiece.model",
    "tokenizer.json",
    "vocab.json",
    "spm.model",
    "tokenizer.model",
    "vocab.txt",
)
_FOLDER = pathlib.Path(__file__).parent / "vocabulary"
# The tokenizers that come with the library. ByT5's reads bytes and needs no pieces.
_EMBEDDED_FILES = {
    EMBEDDED: _FOLDER / f"{EMBEDDED}.model",
    "byt5": _FOLDER / "byt5" / "tokenizer_config.json",
}

# SentencePiece's loader is not thread-safe (SeqIO guards it in the same way).
_LOAD_LOCK = threading.Lock()

Run = TypeVar("Run", bound=Callable[..., Any])


def load_vocabulary(
    path_or_name: str | pathlib.Path = EMBEDDED, extra_ids: int | None = None
) -> Tokenizer:
    """Returns a tokenizer, loading its file only once unless the file changes.

    The first of these files in a folder is read: spiece.model or sentencepiece.model (T5),
    tokenizer.json, vocab.json with merges.txt (GPT-2, RoBERTa, DeBERTa v1), spm.model (DeBERTa v2
    and v3), tokenizer.model (Llama, Gemma), vocab.txt (BERT). The kind of a SentencePiece model
    shows in its pieces: [CLS] and [SEP] with [PAD] = DeBERTa, with <pad> = ALBERT; BPE with a begin
    token = Llama or Gemma; else T5.

    Args:
      path_or_name: the name of an embedded vocabulary or model, a tokenizer's file, or the folder
        of a checkpoint, see `tokenizer_folder`.
      extra_ids: number of extra ids to add, >= 0; only T5's SentencePiece models and ByT5 have any.
        None = the number in tokenizer_config.json, or else the published one.

    Raises:
      ConfigError: there is no such vocabulary, or its file cannot be read.
    """
    if extra_ids is not None and (type(extra_ids) is not int or extra_ids < 0):
        raise ConfigError(
            f"Vocabulary {str(path_or_name)!r}: extra_ids must be an integer >= 0, "
            f"got {extra_ids!r}; published T5 vocabularies have {DEFAULT_EXTRA_IDS}."
        )
    file = _resolve_tokenizer_file(path_or_name)
    is_byt5 = byte_level.describes(file)
    if extra_ids is None and (is_byt5 or file.name in TOKENIZER_FILES[:2]):
        configured_ids = read_tokenizer_config(file.parent).options.get("extra_ids")
        extra_ids = configured_ids if type(configured_ids) is int and configured_ids >= 0 else None
    if extra_ids is None:
        extra_ids = byte_level.EXTRA_IDS if is_byt5 else DEFAULT_EXTRA_IDS
    with _LOAD_LOCK:
        return _load_tokenizer(str(file), extra_ids, _stamp_tokenizer(file))


def vocabulary_stamp(path_or_name: str | pathlib.Path) -> tuple[Any, ...]:
    """Returns a stamp that changes with the files of a tokenizer."""
    return _stamp_tokenizer(_resolve_tokenizer_file(path_or_name))


def _stamp_tokenizer(file: pathlib.Path) -> tuple[Any, ...]:
    names = dict.fromkeys((file.name, *COMPANIONS))
    files = [file.absolute().with_name(name) for name in names]
    return tuple(map(tuple, stamp(path for path in files if path.is_file())))


@functools.cache
def _load_tokenizer(file: str, extra_ids: int, file_stamp: tuple[Any, ...]) -> Tokenizer:
    # Imported late to keep the import of this module fast.
    from faith_jax.tokenizers import huggingface, sentencepiece

    path = pathlib.Path(file)
    for part in (path, *([path.with_name("merges.txt")] if path.name == "vocab.json" else [])):
        check_no_pointer(part, ConfigError)
    if byte_level.describes(path):
        return _with_notation(byte_level.ByteVocabulary(file, extra_ids))
    is_text = file.endswith((".json", ".txt"))
    if not is_text and not sentencepiece.class_of_model(sentencepiece.read_model(file)):
        named = path.name in TOKENIZER_FILES[:2]
        return _with_notation(
            sentencepiece.SentencePieceVocabulary(file, extra_ids, reads_beside=named)
        )
    if extra_ids not in (0, DEFAULT_EXTRA_IDS):
        raise ConfigError(
            f"Vocabulary {file}: extra_ids = {extra_ids}, but only SentencePiece models and ByT5's "
            "bytes have extra ids; leave it out."
        )
    if extra_ids:
        return _load_tokenizer(file, 0, file_stamp)
    return _with_notation(huggingface.HuggingFaceVocabulary(file))


def _with_notation(tokenizer: Tokenizer) -> Tokenizer:
    """Sets the delimiters that the tokenizer's folder names, or else those that it can write.

    A run's folder without delimiters comes from a version that knew only the published ones, so its
    model was trained with them.
    """
    folder = pathlib.Path(tokenizer.model_file).parent
    writable = choose_notation(tokenizer.writes)
    kept_notation = read_json_if_any(folder / "tokenizer_config.json").get(NOTATION)
    if isinstance(kept_notation, dict):
        pairs = [str(kept_notation.get(kind)) for kind in CANDIDATES]
        for kind, pair in zip(CANDIDATES, pairs, strict=True):
            if pair != "" and pair not in CANDIDATES[kind]:
                raise ConfigError(
                    f"Vocabulary {folder / 'tokenizer_config.json'}: field '{NOTATION}.{kind}': "
                    f"expected one of {', '.join(CANDIDATES[kind])}, got {pair!r}."
                )
        tokenizer.notation = Notation(*pairs)
    else:
        tokenizer.notation = PUBLISHED if (folder / _RUN_CONFIG).is_file() else writable
    if tokenizer.notation != writable:
        logger.warning(
            "%s: this model was trained with the delimiters %s, of which its vocabulary makes "
            "unknown tokens; it reads them as it was trained",
            folder,
            " ".join(tokenizer.notation),
        )
    return tokenizer


def _resolve_tokenizer_file(path_or_name: str | pathlib.Path) -> pathlib.Path:
    """Returns the file of a tokenizer given by name or path."""
    name = str(path_or_name)
    if name in _EMBEDDED_FILES:
        return _EMBEDDED_FILES[name]
    path = checkpoint_path(name)
    if path.is_file():
        return _stage_file(path.with_name("vocab.json") if path.name == "merges.txt" else path)
    if path.is_dir():
        folder = tokenizer_folder(path)
        file = None if folder is None else find_tokenizer_file(folder)
        if file is not None:
            return _stage_file(file)
        names = ", ".join(TOKENIZER_FILES).replace("vocab.json", "vocab.json with merges.txt")
        problem = f"the folder has none of {names}; give the path of the tokenizer's file itself"
    else:
        reason = "there is no such file"
        beside = sorted(file.name for file in path.parent.glob("*.*"))
        problem = (
            f"{reason}.{did_you_mean(path.name, [*_EMBEDDED_FILES, *beside])} Give the path of a "
            "SentencePiece model or a tokenizer.json, of a folder with one, or "
            f"{' or '.join(_EMBEDDED_FILES)}"
        )
    raise ConfigError(f"Vocabulary {name!r}: {problem}.")


def _stage_file(file: pathlib.Path) -> pathlib.Path:
    """Returns a tokenizer's file on this machine, copying it and its companions from a store."""
    if not is_remote(file):
        return file
    return local_copy(file.parent, names={*COMPANIONS, file.name}) / file.name


def find_tokenizer_file(folder: pathlib.Path) -> pathlib.Path | None:
    """Returns the file from which a folder's tokenizer is read, or None.

    ByT5's tokenizer has no file of its own; the file that names its class stands for it.
    """
    present = [name for name in TOKENIZER_FILES if (folder / name).is_file()]
    # A vocab.json without merges belongs to a tokenizer of another kind, so other files come first.
    has_merges = (folder / "merges.txt").is_file()
    present.sort(key=lambda name: name == "vocab.json" and not has_merges)
    return folder / present[0] if present else byte_level.byt5_file(folder)


def tokenizer_folder(checkpoint: str | pathlib.Path) -> pathlib.Path | None:
    """Returns the folder with the tokenizer of a checkpoint, or None if it carries none.

    A checkpoint is a path or an embedded model's name. Its own folder is searched first, then the
    run's folder if it is one step of a run (MODEL_DIR/checkpoints/<step>, or T5X's
    checkpoint_<step>), and then those of the base model that model.json names.
    """
    folders = _walk_candidate_folders(checkpoint_path(checkpoint), set())
    return next((folder for folder in folders if find_tokenizer_file(folder)), None)


def _walk_candidate_folders(
    folder: pathlib.Path, seen: set[pathlib.Path]
) -> Iterator[pathlib.Path]:
    if folder in seen or not folder.is_dir():
        return
    seen.add(folder)
    yield folder
    yield from _walk_candidate_folders(model_dir_of(folder), seen)
    if re.fullmatch(r"checkpoint_\d+", folder.absolute().name):
        yield from _walk_candidate_folders(folder.absolute().parent, seen)
    base = read_json_if_any(folder / "model.json").get("base")
    if isinstance(base, dict) and isinstance(base.get("path"), str):
        yield from _walk_candidate_folders(checkpoint_path(base["path"]), seen)


def tokenizer_of(vocabulary: Any) -> Any:
    """Returns our tokenizer for a SeqIO task's vocabulary, or the vocabulary itself."""
    ours = getattr(vocabulary, "ours", vocabulary)
    file = getattr(vocabulary, "sentencepiece_model_file", "")
    if isinstance(ours, Tokenizer) or not file:
        return ours
    try:
        tokenizer = load_vocabulary(file, vocabulary.extra_ids)
    except ConfigError:
        return vocabulary
    # For models other than T5, SeqIO's ids differ from those of their training.
    return tokenizer if tokenizer.is_t5 and not tokenizer.added_tokens else vocabulary


def special_id(vocabulary: Any, token: str) -> int | None:
    """Returns the id of a special token ("bos", "eos" …) of a vocabulary, ours or SeqIO's.

    Returns None without such a token, for which SeqIO's classes may raise a NotImplementedError.
    """
    try:
        index: int | None = getattr(vocabulary, f"{token}_id", None)
    except NotImplementedError:
        return None
    return index


def has_texts(vocabulary: Any) -> bool:
    """Returns whether ids stand for texts; in SeqIO's PassThroughVocabulary they do not."""
    decode = getattr(vocabulary, "decode", None)
    return isinstance(vocabulary, Tokenizer) or decode is None or isinstance(decode([]), str)


def fingerprint_of(vocabulary: Any) -> str:
    """Returns a text that identifies a tokenizer, ours or a SeqIO task's."""
    if isinstance(vocabulary, Tokenizer):
        return vocabulary.fingerprint()
    return f"{_format_class_name(vocabulary)} of {vocabulary.vocab_size} ids: {name_of(vocabulary)}"


def name_of(vocabulary: Any) -> str:
    """Returns the name for messages of a tokenizer, ours or a SeqIO task's: its file, if any."""
    if isinstance(vocabulary, Tokenizer):
        return vocabulary.model_file
    # The default text of an object would show its memory address.
    has_text = type(vocabulary).__str__ is not object.__str__
    return str(vocabulary) if has_text else _format_class_name(vocabulary)


def _format_class_name(vocabulary: Any) -> str:
    return f"{type(vocabulary).__module__}.{type(vocabulary).__qualname__}"


# SeqIO and T5X read tasks by name from a registry of the process. This global gives registered
# tasks a run's tokenizer while the run lasts: `RunVocabulary.choose` sets it, and
# `with_own_vocabulary` resets it. Real T5X, which does not call our runs, sets it by gin.
_default: Tokenizer | None = None


def default_vocabulary() -> Tokenizer:
    """Returns the tokenizer that our SeqIO tasks use now: the run's, or else the embedded one."""
    return _default or load_vocabulary()


def set_default_vocabulary(vocabulary: Tokenizer | None) -> None:
    """Sets the tokenizer of all our SeqIO data sets that are built from now on."""
    global _default
    _default = vocabulary


@contextlib.contextmanager
def tasks_use(vocabulary: Tokenizer | None) -> Iterator[None]:
    """Makes our SeqIO tasks use a tokenizer in a `with` block (None = the embedded one)."""
    before = _default
    set_default_vocabulary(vocabulary)
    try:
        yield
    finally:
        set_default_vocabulary(before)


def with_own_vocabulary(run: Run) -> Run:
    """Decorates a run, so that our SeqIO tasks stop using its tokenizer when it ends."""
    wrapper = tasks_use(None)(run)
    wrapper.__signature__ = inspect.signature(run)  # type: ignore[attr-defined]  # for gin
    return wrapper
