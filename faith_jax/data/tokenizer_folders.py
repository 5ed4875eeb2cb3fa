"""Where the tokenizer of a checkpoint lies: beside its parameters, in its run, or with its base."""

import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from faith_jax.checkpoints.embedded import checkpoint_path

# Our own checkpoints' description, see `faith_jax.checkpoints.native`.
MODEL_JSON = "model.json"
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
# What says more of them.
TOKENIZER_SETTINGS = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")


def tokenizer_folders(checkpoint: str | pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields the folders in which a checkpoint's tokenizer may lie, nearest first.

    A checkpoint is a path or an embedded model's name. The folders are its own, for one step of a
    run (MODEL_DIR/checkpoints/<step>, or T5X's checkpoint_<step>) that of the run, and those of the
    base model that model.json names.
    """
    seen: set[pathlib.Path] = set()
    pending = [checkpoint_path(checkpoint)]
    while pending:
        folder = pending.pop(0)
        if folder in seen or not folder.is_dir():
            continue
        seen.add(folder)
        yield folder
        run = _run_of_step(folder.absolute())
        if run is not None:
            pending.append(run)
        base = read_model_json(folder).get("base")
        if isinstance(base, dict) and isinstance(base.get("path"), str):
            pending.append(checkpoint_path(base["path"]))


def _run_of_step(folder: pathlib.Path) -> pathlib.Path | None:
    if folder.name.isdigit() and folder.parent.name == "checkpoints":
        return folder.parent.parent
    return folder.parent if re.fullmatch(r"checkpoint_\d+", folder.name) else None


def read_model_json(folder: pathlib.Path) -> dict[str, Any]:
    """Returns what model.json says, nothing where there is none that can be read.

    Who opens the checkpoint is told what is wrong with it.
    """
    try:
        found = json.loads((folder / MODEL_JSON).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def find_tokenizer_file(folder: pathlib.Path) -> pathlib.Path | None:
    """Returns the file that a folder's tokenizer is read from, None where it has none."""
    present = [name for name in TOKENIZER_FILES if (folder / name).is_file()]
    has_merges = (folder / "merges.txt").is_file()
    # A vocab.json without merges is another kind's, if there is another.
    for name in sorted(present, key=lambda name: name == "vocab.json" and not has_merges):
        return folder / name
    return folder / "merges.txt" if has_merges else None


def tokenizer_folder(checkpoint: str | pathlib.Path) -> pathlib.Path | None:
    """Returns the folder with the tokenizer of a checkpoint, None where it carries none."""
    folders = tokenizer_folders(checkpoint)
    return next((folder for folder in folders if find_tokenizer_file(folder)), None)
