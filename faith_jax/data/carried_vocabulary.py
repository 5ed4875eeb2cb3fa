"""The vocabulary that a checkpoint carries: found, compared with another, and written along."""

import json
import pathlib
import shutil
from typing import Any

from faith_jax.data.special_tokens import NAMES, read_tokenizer_config
from faith_jax.data.tokenizer_folders import (
    TOKENIZER_FILES,
    TOKENIZER_SETTINGS,
    find_tokenizer_file,
    tokenizer_folder,
)
from faith_jax.data.vocabularies import (
    DEFAULT_EXTRA_IDS,
    HuggingFaceVocabulary,
    SentencePieceVocabulary,
    VocabularySetting,
    load_vocabulary,
    vocabulary_setting,
)

Loaded = SentencePieceVocabulary | HuggingFaceVocabulary


def carried_vocabulary(checkpoint: str | pathlib.Path) -> VocabularySetting | None:
    """Returns the vocabulary that a checkpoint carries, None where it carries none.

    Args:
      checkpoint: a Hugging Face folder, a T5X checkpoint, an imported one, a run's MODEL_DIR or one
        of its steps; a prompt-tuned run's vocabulary may be its base model's.

    Raises:
      ConfigError: the files are not whole.
    """
    folder = tokenizer_folder(checkpoint)
    return None if folder is None else vocabulary_setting(folder)


def is_same_vocabulary(given: VocabularySetting, carried: VocabularySetting) -> bool:
    """Whether a vocabulary is one that a checkpoint carries: whether their files are alike.

    Args:
      given: any vocabulary.
      carried: what the checkpoint's folder stands for; other forms of it may lie beside it.
    """
    if given == carried:
        return True
    folder = pathlib.Path(carried.model_file).parent
    if given.model_file != carried.model_file:
        names = _carried_names(given)
        pairs = [(pathlib.Path(given.model_file).with_name(a), folder / b) for a, b in names]
        if not all(_same_bytes(first, second) for first, second in pairs):
            return False
    there = load_vocabulary(folder / _canonical_name(given))
    return _special_ids(load_vocabulary(*given)) == _special_ids(there)


def _special_ids(vocabulary: Loaded) -> tuple[Any, ...]:
    names = ("pad_id", "bos_id", "eos_id", "unk_id", "cls_id", "sep_id", "mask_id", "prefix_ids")
    ids = [getattr(vocabulary, name) for name in (*names, "suffix_ids", "pair_ids")]
    return vocabulary.vocab_size, *ids


def _same_bytes(first: pathlib.Path, second: pathlib.Path) -> bool:
    if not first.is_file() or not second.is_file():
        return False
    return first.samefile(second) or first.read_bytes() == second.read_bytes()


def _canonical_name(setting: VocabularySetting) -> str:
    """Returns the name under which a folder's tokenizer file is found."""
    file = pathlib.Path(setting.model_file)
    if file.name in TOKENIZER_FILES:
        return file.name
    if file.suffix == ".json":
        return "tokenizer.json"
    vocabulary = load_vocabulary(*setting)
    if isinstance(vocabulary, SentencePieceVocabulary):
        return "spiece.model"
    return "tokenizer.model" if vocabulary.cls_id is None else "spm.model"


def _carried_names(setting: VocabularySetting) -> list[tuple[str, str]]:
    """Returns the names of the tokenizer's own files, and what they are called in a checkpoint."""
    name = _canonical_name(setting)
    merges = [("merges.txt", "merges.txt")] if name == "vocab.json" else []
    return [(pathlib.Path(setting.model_file).name, name), *merges]


def write_vocabulary(setting: VocabularySetting, folder: pathlib.Path) -> None:
    """Writes a vocabulary's files into a checkpoint's folder, where `load_vocabulary` finds them.

    T5's SentencePiece model becomes spiece.model. The files of a published folder are copied as
    they are, but tokenizer_config.json says, too, what the config.json beside it said of the
    tokenizer, which the checkpoint has no place for.

    Args:
      setting: the vocabulary.
      folder: of the checkpoint; files of the same names are replaced.
    """
    file = pathlib.Path(setting.model_file)
    names = _carried_names(setting)
    is_whole = file.name in TOKENIZER_FILES and find_tokenizer_file(file.parent) == file
    everything = (*TOKENIZER_FILES, "merges.txt", *TOKENIZER_SETTINGS)
    beside: tuple[str, ...] = everything if is_whole else ()
    if not beside and not _is_t5(setting):
        beside = TOKENIZER_SETTINGS
    for theirs, ours in dict([*((name, name) for name in beside), *names]).items():
        if file.with_name(theirs).is_file():
            _copy(file.with_name(theirs), folder / ours)
    said = _said_beside(setting)
    if said:
        path = folder / "tokenizer_config.json"
        options = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        _replace(path, json.dumps(said | options, indent=2, ensure_ascii=False) + "\n")


def _is_t5(setting: VocabularySetting) -> bool:
    return isinstance(load_vocabulary(*setting), SentencePieceVocabulary)


def _said_beside(setting: VocabularySetting) -> dict[str, Any]:
    """Returns fields of tokenizer_config.json that only other files or the call have said."""
    if _is_t5(setting):
        return {} if setting.extra_ids == DEFAULT_EXTRA_IDS else {"extra_ids": setting.extra_ids}
    file = pathlib.Path(setting.model_file)
    config = read_tokenizer_config(file.parent)
    if config.tokenizer_class:
        said = {"tokenizer_class": config.tokenizer_class}
        return {} if config.options.get("tokenizer_class") else said
    if any(config.tokens.get(name) for name in ("bos", "eos", "cls")):
        return {}
    vocabulary = HuggingFaceVocabulary(setting.model_file)
    ids = {name: getattr(vocabulary, f"{name}_id") for name in NAMES}
    return {
        f"{name}_token": vocabulary.tokenizer.id_to_token(index)
        for name, index in ids.items()
        if index is not None
    }


def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    if target.exists() and source.samefile(target):
        return
    beside = target.with_name(f".{target.name}.partial")
    shutil.copyfile(source, beside)
    beside.replace(target)


def _replace(path: pathlib.Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.partial")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
