"""Names that stand for a checkpoint's path: an embedded model, a run's best or newest step."""

import json
import logging
import math
import pathlib
from collections.abc import Iterable, Sequence

from faith_jax.core.errors import CheckpointError, did_you_mean
from faith_jax.core.files.stores import is_remote, path_of
from faith_jax.core.progress import log_once
from faith_jax.core.types import Grounding

BEST, NEWEST = "best", "newest"
_SIGNS = ("config.json", "model.json", "checkpoint", "checkpoints")  # entries of any checkpoint
_FOLDER = pathlib.Path(__file__).parents[1] / "models" / "embedded"


# A warning about `mini`.
TWO_SIDES_ONLY = (
    "%s was trained on arguments of two sides; its responses to other texts are of no use. Give "
    "pro and con, or take another model."
)


def embedded_models() -> list[str]:
    """Returns the names of the models in the package."""
    return sorted(config.parent.name for config in _FOLDER.glob("*/config.json"))


def reads_two_sides(path_or_name: str | pathlib.Path) -> bool:
    """Whether a path or name is `mini`'s, which only knows arguments of two sides."""
    return checkpoint_path(path_or_name).resolve() == _FOLDER / "mini"


def warn_of_other_texts(path: str | pathlib.Path | None, groundings: Iterable[Grounding]) -> None:
    """Warns once if `mini` is given texts other than arguments of two sides."""
    if path is not None and reads_two_sides(path) and not all(g.perspectives for g in groundings):
        log_once(
            f"{path} was trained on arguments of two sides: its scores and gradients say little "
            "about other texts. Score with groundedness, or give another model.",
            logging.WARNING,
        )


def checkpoint_path(path_or_name: str | pathlib.Path) -> pathlib.Path:
    """Returns the path of a checkpoint that is given as a path or an embedded model's name.

    An existing path takes precedence. MODEL_DIR/checkpoints/best is the step with the lowest
    validation loss, or the newest if none was measured; MODEL_DIR/checkpoints/newest the newest.
    """
    path = path_of(path_or_name)
    if path.name in (BEST, NEWEST) and not path.exists():
        steps = step_folders(path.parent)
        if steps:
            return best_step(steps) if path.name == BEST else _find_newest_step(steps)
    if str(path_or_name) in embedded_models() and not path.exists():
        return _FOLDER / str(path_or_name)
    return path


def missing_message(path: pathlib.Path) -> str:
    """Returns the message for a path that does not exist."""
    names = embedded_models()
    beside = path.parent.iterdir() if path.parent.is_dir() else []
    near = [*names, *(p.name for p in beside if any((p / sign).exists() for sign in _SIGNS))]
    named = f", or one of the package's models: {', '.join(names)}" if names else ""
    download = ""
    is_name = len(path.parts) == 2 and path.parts[0] not in ("checkpoints", "runs")
    if is_name and not path.parent.exists():  # perhaps a model on the hub
        download = (
            f" (a model of the Hugging Face hub: hf download {path} "
            f"--local-dir checkpoints/{path.name})"
        )
    return (
        f"{path}: there is no such checkpoint.{did_you_mean(path.name, near)} Give the path of "
        "a Hugging Face folder, a T5X checkpoint, an imported checkpoint or a run's MODEL_DIR"
        f"{named}; nothing is fetched from a network{download}."
    )


def check_is_there(path_or_name: str | pathlib.Path) -> None:
    """Raises a CheckpointError if there is no such checkpoint, without importing JAX."""
    path = checkpoint_path(path_or_name)
    if not path.exists():
        raise CheckpointError(missing_message(path))


def step_folders(checkpoints: pathlib.Path) -> list[pathlib.Path]:
    """Returns the folders of a run's complete steps.

    On a store, a step has its final name before it is complete; a file in it marks completion.
    """
    steps = [
        path
        for path in checkpoints.glob("*")
        if path.name.isdecimal() and (path / "params").is_dir()
    ]
    if is_remote(checkpoints):
        ends = ("commit_success.txt", "manifest.json")  # Orbax's, or from a copied local run
        steps = [path for path in steps if any((path / name).exists() for name in ends)]
    return steps


def model_dir_of(path: pathlib.Path) -> pathlib.Path:
    """Returns MODEL_DIR for the path MODEL_DIR/checkpoints/<step>, and another path unchanged."""
    step = path.absolute()
    return step.parents[1] if step.parent.name == "checkpoints" and step.name.isdecimal() else path


def newest_step(model_dir: str | pathlib.Path) -> int | None:
    """Returns the step of a run's newest complete checkpoint, or None."""
    steps = step_folders(path_of(model_dir) / "checkpoints")
    return max((int(path.name) for path in steps), default=None)


def best_step(steps: Sequence[pathlib.Path]) -> pathlib.Path:
    """Returns the step with the lowest validation loss; the newest if none was measured.

    Logs the step once if it is not the newest.
    """
    best = min(steps, key=lambda step: (_read_loss(step), -int(step.name)))
    newest = _find_newest_step(steps)
    if best != newest:
        log_once(
            f"{best.parent.parent}: step {int(best.name):,}, which has the lowest validation loss; "
            f"the newest is {int(newest.name):,} (checkpoints/{NEWEST})"
        )
    return best


def _find_newest_step(steps: Sequence[pathlib.Path]) -> pathlib.Path:
    return max(steps, key=lambda step: int(step.name))


def _read_loss(step: pathlib.Path) -> float:
    try:
        loss = json.loads((step / "metrics" / "metrics").read_text(encoding="utf-8"))["loss"]
    except (OSError, ValueError, KeyError, TypeError):
        return math.inf
    return math.inf if math.isnan(loss) else float(loss)
