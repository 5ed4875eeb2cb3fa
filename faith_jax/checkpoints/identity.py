"""The identity of a checkpoint: its step and digest, which a run stores to resume with the same.

The digest covers contents only, not modification times, paths or the optimizer's state, so a copied
checkpoint has the same digest.
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

_WHOLE_BYTES = 256 * 2**20  # a checkpoint of at most this size is read whole
_END_BYTES, _BLOCK_BYTES, _BLOCKS = 2**20, 2**16, 32  # the parts to read of a larger one's files


class CheckpointDigest(TypedDict):
    """The step and the digest that identify a checkpoint."""

    step: int | None  # step of a training run or of T5X; None = the form has no steps
    digest: str  # hexadecimal


def checkpoint_digest(path_or_name: str | pathlib.Path) -> CheckpointDigest:
    """Returns the step that opening a checkpoint selects, and a digest of the contents.

    The digest covers the parameters, the model's description, and the tokenizer and generation
    files, by their names, sizes and contents; a base model is covered by its content hash in
    model.json. With a manifest, the digest covers the manifest's digests, which are verified when
    parameters are read, so no large file is read. Without a manifest, for more than 256 MiB, it
    covers the first and last MiB of each file and 32 blocks of 64 KiB between them: this
    distinguishes models that were trained differently, but not copies that differ only in bytes
    between the blocks.

    Raises:
      CheckpointError: if there is no known checkpoint.
    """
    place = _locate_checkpoint(path_or_name)
    files, manifest = dict(_list_checkpoint_files(place)), read_manifest(place.folder)
    content: list[Any] = []
    if manifest is not None:
        # The manifest of a run's step has digests of the optimizer's state too.
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
        # Use the config as written, since a later version adds fields.
        config = read_json(place.root / MODEL_JSON, CheckpointError)["config"]
        content.append((config, described.family, base))
    text = json.dumps(content, sort_keys=True)
    return {"step": place.step, "digest": hashlib.sha256(text.encode()).hexdigest()}


def checkpoint_stamp(path_or_name: str | pathlib.Path) -> tuple[str, tuple[Any, ...]]:
    """Returns the path of a checkpoint, and a stamp that changes when its files do.

    The stamp has sizes and times, or an object store's versions from one listing, so no file is
    read. It does not cover the base model's files.
    """
    path = path_of(path_or_name)
    if is_remote(path):
        folder = path.parent if path.name in (BEST, NEWEST) else path
        # Ignore metrics, which an ongoing run keeps writing.
        return str(path), tuple(
            (name, version)
            for name, version in versions(folder).items()
            if not name.endswith(".jsonl") and "tensorboard/" not in name
        )
    place = _locate_checkpoint(path_or_name)
    files = sorted(path for _, path in _list_checkpoint_files(place))
    if is_native(place.root):
        files.append(place.root / MODEL_JSON)
    # The selected step, or the target of a link, may change without a change of any file.
    stamps = os.path.realpath(place.folder), *map(tuple, stamp(files))
    return str(checkpoint_path(path_or_name).absolute()), stamps


def step_of(path_or_name: str | pathlib.Path) -> int | None:
    """Returns the step that opening a checkpoint selects; None = it has no steps."""
    return _locate_checkpoint(path_or_name).step


def opened_path(path_or_name: str | pathlib.Path) -> str:
    """Returns the path that a checkpoint resolves to now, which stays valid when a run goes on.

    A MODEL_DIR resolves to its best step, a T5X folder to its newest; an embedded model's name
    stays a name.
    """
    if str(path_or_name) in embedded_models() and not path_of(path_or_name).exists():
        return str(path_or_name)
    return str(_locate_checkpoint(path_or_name).folder)


def pin_step(path_or_name: str | pathlib.Path, step: int | None) -> pathlib.Path:
    """Returns the path of a given step of a checkpoint, whichever step is newest or best now.

    Raises:
      CheckpointError: if the step does not exist; the message also names the step that is there.
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

    root: pathlib.Path  # the folder with the description; for a run's step, MODEL_DIR
    folder: pathlib.Path  # the folder with the parameters; for a MODEL_DIR, the selected step
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
    """Yields the files that determine a checkpoint's computation, with their names in it."""
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
    """Returns a file's size and SHA-256, for a large file of its ends and blocks between them."""
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
