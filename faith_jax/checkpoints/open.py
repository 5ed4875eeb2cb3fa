"""Opening of checkpoints of any known form."""

import dataclasses
import functools
import pathlib
import threading
from collections.abc import Iterator

import numpy as np

from faith_jax.checkpoints.checkpoint import (
    PROMPTS,
    Checkpoint,
    check_params,
    content_hash,
    flatten,
    stack_layers,
    unflatten,
    unstack_layers,
)
from faith_jax.checkpoints.contents import describe_contents
from faith_jax.checkpoints.embedded import checkpoint_path, missing_message
from faith_jax.checkpoints.hugging_face.folder import (
    is_huggingface,
    read_huggingface,
    weights_of,
)
from faith_jax.checkpoints.lazy_arrays import Box, LazyArray, lazy
from faith_jax.checkpoints.lora import merge_lora, read_lora
from faith_jax.checkpoints.manifest import finite
from faith_jax.checkpoints.native import (
    PARAMS,
    is_native,
    params_folder,
    part_of,
    read_native,
    run_folder,
)
from faith_jax.checkpoints.peft import adapter_message, is_peft, method_of
from faith_jax.checkpoints.t5x import is_t5x, newest_t5x, read_t5x, stored_params
from faith_jax.core.errors import CheckpointError
from faith_jax.models.config import TransformerConfig


def open_checkpoint(
    path_or_name: str | pathlib.Path,
    *,
    config: TransformerConfig | None = None,
    base: str | None = None,
) -> Checkpoint:
    """Opens a checkpoint of any form.

    Parameters are read on access, in part or whole (`Checkpoint.read`), and then verified and
    checked.

    Args:
      path_or_name: a Hugging Face folder, a T5X or native checkpoint, or an embedded model's name.
      config: if given, the parameters must have its dimensions.
      base: where the base model of a prompt-tuned native checkpoint is, if it has moved; or the
        base model of a PEFT LoRA adapter, to merge the adapter with.

    Raises:
      CheckpointError: if there is no known checkpoint, or it is broken or differs from its
        manifest. When a parameter is read: if it differs from the manifest, is NaN or infinite, or
        the base is another model.
    """
    path = checkpoint_path(path_or_name)
    checkpoint = _open_any(path, base, (), config)
    if config is not None:
        check_params(config, checkpoint.params, str(path))
    flat = flatten(checkpoint.params)
    params = {name: finite(name, lazy(array), path) for name, array in flat.items()}
    return dataclasses.replace(checkpoint, params=unflatten(params))


def _open_any(
    path: pathlib.Path,
    base: str | None = None,
    above: tuple[pathlib.Path, ...] = (),
    config: TransformerConfig | None = None,
) -> Checkpoint:
    """Opens a checkpoint; `above` are the checkpoints that it is a base of."""
    if is_native(path):
        checkpoint = read_native(path)
        if checkpoint.base is not None:
            opened = _open_base(checkpoint, base, (*above, run_folder(path)))
            params = opened.params
            if checkpoint.config.scan_layers != opened.config.scan_layers:
                params = (
                    unstack_layers(params) if opened.config.scan_layers else stack_layers(params)
                )
            # The checkpoint's prompt replaces the base's.
            params = {name: part for name, part in params.items() if name not in PROMPTS}
            params = unflatten(flatten(params) | flatten(checkpoint.params))
            checkpoint = dataclasses.replace(
                checkpoint, params=params, base=None, content_hash=None
            )
        check_params(checkpoint.config, checkpoint.params, checkpoint.metadata["source"])
        return checkpoint
    if base is not None and is_peft(path) and method_of(path) == "LORA":
        lora = read_lora(path)
        try:
            opened = _open_any(checkpoint_path(base))
        except CheckpointError as error:
            raise CheckpointError(
                f"{path}: a LoRA adapter whose base model cannot be opened ({error}) Say where it "
                "is with --base."
            ) from None
        return merge_lora(lora, opened)
    if is_huggingface(path):
        return read_huggingface(path)
    if is_t5x(path):
        return read_t5x(path, config)
    raise CheckpointError(unknown_form_message(path))


def stored_tensors(
    path_or_name: str | pathlib.Path,
) -> tuple[pathlib.Path, Iterator[tuple[str, np.ndarray]]]:
    """Returns the folder of a checkpoint's manifest, and its tensors one by one.

    Names and values are the files', not our parameters'.

    Raises:
      CheckpointError: if there is no known checkpoint, or it is broken.
    """
    path = checkpoint_path(path_or_name)
    if is_native(path):
        params = flatten(read_native(path).params)
        folder, arrays = params_folder(path).parent, {f"{PARAMS}/{n}": a for n, a in params.items()}
    elif is_huggingface(path):
        folder, arrays = path, {name: tensor.array for name, tensor in weights_of(path).items()}
    elif (t5x_folder := newest_t5x(path)) is not None:
        folder, arrays = t5x_folder, stored_params(t5x_folder)
    else:
        raise CheckpointError(unknown_form_message(path))
    return folder, ((name, np.asarray(array)) for name, array in arrays.items())


def is_checkpoint(path: pathlib.Path) -> bool:
    """Whether a folder looks like a checkpoint or an adapter, readable or not."""
    return is_native(path) or is_huggingface(path) or is_t5x(path) or is_peft(path)


def _open_base(
    checkpoint: Checkpoint, base: str | None, above: tuple[pathlib.Path, ...]
) -> Checkpoint:
    """Opens a checkpoint's base model; its identity is checked before a parameter is read."""
    source, described = checkpoint.metadata["source"], checkpoint.base or {}
    where = base or described["path"]
    path = checkpoint_path(where)
    if is_native(path) and run_folder(path) in above and base is None:
        raise CheckpointError(
            f"{source}: model.json: field 'base': {where} names this checkpoint as its own base; "
            "say where the base is with base=."
        )
    try:
        opened = _open_any(path, above=above)
    except CheckpointError as error:
        raise CheckpointError(
            f"{source}: its base model cannot be opened ({error}); say where it is with base=."
        ) from None

    lock = threading.Lock()
    hash_once = functools.cache(lambda: opened.content_hash or content_hash(opened.params))

    def check() -> None:
        with lock:  # several threads may read parameters
            base_hash = hash_once()
        if base_hash != described["content_hash"]:
            raise CheckpointError(
                f"{source}: its base model has the content hash "
                f"{described['content_hash'][:12]}… but {where} has {base_hash[:12]}…; it belongs "
                "to another model."
            )

    def check_first(array: LazyArray) -> LazyArray:
        def read(box: Box) -> np.ndarray:
            check()
            return array.read(box)

        return dataclasses.replace(array, read=read)

    if opened.content_hash is not None:
        check()
    params = {name: check_first(lazy(array)) for name, array in flatten(opened.params).items()}
    return dataclasses.replace(opened, params=unflatten(params))


def unknown_form_message(path: pathlib.Path) -> str:
    """Returns the message for a path that `open_checkpoint` does not know."""
    if not path.exists():
        return missing_message(path)
    if path.is_file():
        return f"{path}: is a file; give the folder of a checkpoint."
    if is_peft(path):
        return f"{path}: {adapter_message(path)}"
    if (checkpoint_path := part_of(path)) is not None:
        return f"{path}: a part of the checkpoint {checkpoint_path}; give that path."
    # Also look at snapshots/*, the layout of the Hugging Face hub's cache.
    inside = [*sorted(path.iterdir()), *sorted(path.glob("snapshots/*"))]
    folders = [folder for folder in inside if folder.is_dir() and is_checkpoint(folder)]
    names = [f"{folder.relative_to(path)}/" for folder in folders]
    if len(folders) > 1 and all(is_peft(f) and not is_huggingface(f) for f in folders):
        lies = f"{', '.join(names)} are adapters of PEFT's; give the path of one"
    elif folders:
        lies = f"{names[0]} is one; give its path"
    else:
        lies = describe_contents(path)
    return (
        f"{path}: no checkpoint here: expected config.json and model.safetensors (Hugging Face), "
        f"a file named checkpoint (T5X), or model.json (faith_jax), but {lies}."
    )
