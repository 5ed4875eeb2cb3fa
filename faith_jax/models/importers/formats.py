"""Opens a checkpoint of any known form."""

import pathlib

from faith_jax.errors import CheckpointError, did_you_mean
from faith_jax.models.config import TransformerConfig
from faith_jax.models.embedded_models import checkpoint_path, embedded_models
from faith_jax.models.importers.checkpoint import Checkpoint, check_params
from faith_jax.models.importers.huggingface import is_huggingface, read_huggingface
from faith_jax.models.importers.native import is_native, read_native
from faith_jax.models.importers.peft import is_peft
from faith_jax.models.importers.t5x import is_t5x, read_t5x


def open_checkpoint(
    path_or_name: str | pathlib.Path,
    *,
    config: TransformerConfig | None = None,
    base: str | None = None,
) -> Checkpoint:
    """Opens a checkpoint, whatever its form.

    Args:
      path_or_name: a Hugging Face folder, a T5X checkpoint, one of ours, or an embedded name.
      config: if given, the parameters must have its dimensions.
      base: for a prompt-tuned checkpoint of ours, where its base model is, if it has moved.

    Raises:
      CheckpointError: where nothing known is there, or what is there is broken.
    """
    path = checkpoint_path(path_or_name)
    if is_native(path):
        checkpoint = read_native(path, base)
    elif is_huggingface(path):
        checkpoint = read_huggingface(path)
    elif is_t5x(path):
        checkpoint = read_t5x(path, config)
    else:
        raise CheckpointError(_nothing_known(path))
    if config is not None:
        check_params(config, checkpoint.params, str(path))
    return checkpoint


def _is_checkpoint(path: pathlib.Path) -> bool:
    return path.is_dir() and (is_native(path) or is_huggingface(path) or is_t5x(path))


def _accepted() -> str:
    """Returns what can be opened, for people."""
    names = embedded_models()
    named = f", or one of the package's models: {', '.join(names)}" if names else ""
    return (
        "Give the path of a Hugging Face folder, a T5X checkpoint, an imported checkpoint or a "
        f"run's MODEL_DIR{named}; nothing is fetched from a network."
    )


def _nothing_known(path: pathlib.Path) -> str:
    if not path.exists():
        beside = path.parent.iterdir() if path.parent.is_dir() else []
        names = [*embedded_models(), *(p.name for p in beside if _is_checkpoint(p))]
        return f"{path}: there is no such checkpoint.{did_you_mean(path.name, names)} {_accepted()}"
    if path.is_file():
        return f"{path}: is a file; give the folder of a checkpoint."
    if is_peft(path):
        return (
            f"{path}: an adapter of PEFT's, no whole model; `faith-jax import-prompt` joins a "
            "prompt to its base model."
        )
    return (
        f"{path}: no checkpoint here: expected config.json and model.safetensors (Hugging Face), "
        "a file named checkpoint (T5X), or model.json (faith_jax)."
    )
