"""The identity of a checkpoint: its step and a digest, which a run keeps to resume with the same.

The digest is of contents. Times of change, places and the optimizer's state do not count, so a
copied checkpoint has the same digest.
"""

import hashlib
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple, TypedDict

import msgspec

from faith_jax.checkpoints.embedded import BEST, NEWEST, checkpoint_path, embedded_models
from faith_jax.checkpoints.hugging_face.folder import CONFIG, is_huggingface
from faith_jax.checkpoints.manifest import COMPANIONS, file_digest, read_manifest
from faith_jax.checkpoints.native import (
    MODEL_JSON,
    PARAMS,
    is_native,
    params_folder,
    read_model_json,
    run_folder,
)
from faith_jax.checkpoints.open import unknown_form_message
from faith_jax.checkpoints.t5x import FILE, STEP, is_t5x, newest_t5x, orbax_tree
from faith_jax.core.errors import CheckpointError
from faith_jax.core.files.stores import is_remote, path_of, stamp, versions
from faith_jax.core.rows import read_json

_WHOLE_BYTES = 256 * 2**20  # a checkpoint of at most so many bytes is read whole
_END_BYTES, _BLOCK_BYTES, _BLOCKS = 2**20, 2**16, 32  # what is read of each file of a larger one


class CheckpointDigest(TypedDict):
    """The step and the digest that identify a checkpoint."""

    step: int | None  # of a training run or of T5X; None = this form has no steps
    digest: str  # hexadecimal


def checkpoint_digest(path_or_name: str | pathlib.Path) -> CheckpointDigest:
    """Returns the step of a checkpoint that is opened, and a digest of what it contains.

    The digest covers the parameters, the model's description, and the tokenizer's and generation
    files, by their names, sizes and contents; a base model by the content hash in model.json. Of a
    checkpoint with a manifest it covers the digests in that, which are verified when the parameters
    are read, so nothing large is read for it. Of one of more than 256 MiB without a manifest, it
    covers the first and last MiB of each file and 32 blocks of 64 KiB between them: this
    distinguishes models that were trained differently, but not copies that differ only in bytes
    between the blocks.

    Raises:
      CheckpointError: no known checkpoint is there.
    """
    place = _locate_checkpoint(path_or_name)
    files, manifest = dict(_list_checkpoint_files(place)), read_manifest(place.folder)
    content: list[Any] = []
    if manifest is not None:
        # Of a step of a run, the optimizer's state has digests there too.
        digests = {
            name: tensor_digests
            for name, tensor_digests in manifest.tensors.items()
            if place.folder == place.root or name.startswith(f"{PARAMS}/")
        }
        content = [sorted(msgspec.to_builtins(digests).items())]
        files = {name: path for name, path in files.items() if path.parent == place.root}
        files = {name: path for name, path in files.items() if not name.endswith(".safetensors")}
    is_small = sum(path.stat().st_size for path in files.values()) <= _WHOLE_BYTES
    content += [(name, file_content(files[name], is_small)) for name in sorted(files)]
    if is_native(place.root):
        described = read_model_json(place.root)
        base = (described.base or {}).get("content_hash")
        # As it is written there: a later version's configs have more fields.
        config = read_json(place.root / MODEL_JSON, CheckpointError)["config"]
        content.append((config, described.family, base))
    text = json.dumps(content, sort_keys=True)
    return {"step": place.step, "digest": hashlib.sha256(text.encode()).hexdigest()}


def checkpoint_stamp(path_or_name: str | pathlib.Path) -> tuple[str, tuple[Any, ...]]:
    """Returns the path of a checkpoint, and a stamp that differs once its files change.

    The stamp is of sizes and times, or of an object store's versions, which one listing gives:
    nothing is read for it. A base model's files are no part of it.
    """
    path = path_of(path_or_name)
    if is_remote(path):
        folder = path.parent if path.name in (BEST, NEWEST) else path
        # A run that goes on writes its metrics, which no model is made of.
        return str(path), tuple(
            (name, version)
            for name, version in versions(folder).items()
            if not name.endswith(".jsonl") and "tensorboard/" not in name
        )
    place = _locate_checkpoint(path_or_name)
    files = sorted(path for _, path in _list_checkpoint_files(place))
    if is_native(place.root):
        files.append(place.root / MODEL_JSON)
    # The step that is opened, or the target of a link, may change without any file.
    stamps = os.path.realpath(place.folder), *map(tuple, stamp(files))
    return str(checkpoint_path(path_or_name).absolute()), stamps


def step_of(path_or_name: str | pathlib.Path) -> int | None:
    """Returns the step of a checkpoint that is opened, a run's or T5X's; None = it has none."""
    return _locate_checkpoint(path_or_name).step


def opened_path(path_or_name: str | pathlib.Path) -> str:
    """Returns the path of what is opened now, which stays the same when a run goes on.

    Of a MODEL_DIR this is its best step, of a folder of T5X's its newest; an embedded model's name
    stays a name.
    """
    if str(path_or_name) in embedded_models() and not path_of(path_or_name).exists():
        return str(path_or_name)
    return str(_locate_checkpoint(path_or_name).folder)


def pin_step(path_or_name: str | pathlib.Path, step: int | None) -> pathlib.Path:
    """Returns the path of one step of a checkpoint, whichever is the newest or best step now.

    Raises:
      CheckpointError: this step is not there; the error also names the one that is opened now.
    """
    place = _locate_checkpoint(path_or_name)
    if step == place.step:
        return place.folder
    path = path_of(path_or_name).absolute()
    if None not in (step, place.step) and place.folder not in (path, path.parent):
        name = f"{STEP}{step}" if place.folder.name.startswith(STEP) else str(step)
        step_folder = place.folder.with_name(name)
        if (step_folder / PARAMS).is_dir() or is_t5x(step_folder):
            return step_folder
    began, current = (
        "no step" if number is None else f"step {number}" for number in (step, place.step)
    )
    raise CheckpointError(
        f"{path_or_name}: the run began with {began}, which is gone; {current} is there now. Put "
        "it back, or begin again with --restart."
    )


class _Place(NamedTuple):
    """The folders of a checkpoint, and its step."""

    root: pathlib.Path  # with its description: of a step of a run, MODEL_DIR
    folder: pathlib.Path  # with its parameters: of a MODEL_DIR, the step that is opened
    step: int | None


def _locate_checkpoint(path_or_name: str | pathlib.Path) -> _Place:
    path = checkpoint_path(path_or_name).absolute()
    if is_native(path):
        root, folder = run_folder(path), params_folder(path).parent
        return _Place(root, folder, None if folder == root else int(folder.name))
    if is_huggingface(path):
        return _Place(path, path, None)
    if (t5x_folder := newest_t5x(path)) is not None:
        step = t5x_folder.name.removeprefix(STEP)
        return _Place(t5x_folder, t5x_folder, int(step) if step.isdecimal() else None)
    raise CheckpointError(unknown_form_message(checkpoint_path(path_or_name)))


def _list_checkpoint_files(place: _Place) -> Iterator[tuple[str, pathlib.Path]]:
    """Yields the files that decide what a checkpoint computes, by their names in it."""
    weights = (
        ()
        if is_native(place.root)
        else tuple(
            form + end for form in (".safetensors", ".msgpack") for end in ("", ".index.json")
        )
    )
    for path in place.root.iterdir():
        named = path.name in (*COMPANIONS, CONFIG, FILE) or path.name.endswith(weights)
        if named and path.is_file():
            yield path.name, path
    tree = orbax_tree(place.folder) or place.folder / PARAMS
    inner = [tree, *place.folder.glob("target.*")]
    for path in (path for folder in inner for path in folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(place.folder).as_posix(), path


def file_content(path: pathlib.Path, is_whole: bool) -> tuple[int, str]:
    """Returns a file's size, and a SHA-256 of it, or of its ends and blocks between them."""
    size, digest = path.stat().st_size, hashlib.sha256()
    if is_whole or size <= 2 * _END_BYTES + _BLOCKS * _BLOCK_BYTES:
        return size, file_digest(path)
    between = range(_END_BYTES, size - _END_BYTES, (size - 2 * _END_BYTES) // _BLOCKS)
    blocks = [(start, _BLOCK_BYTES) for start in between[:_BLOCKS]]
    with path.open("rb") as file:
        for start, length in [(0, _END_BYTES), *blocks, (size - _END_BYTES, _END_BYTES)]:
            file.seek(start)
            digest.update(file.read(length))
    return size, digest.hexdigest()
