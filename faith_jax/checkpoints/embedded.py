"""What may stand for a checkpoint's path: an embedded model's name, or a run's best step."""

import json
import math
import pathlib

BEST = "best"
_FOLDER = pathlib.Path(__file__).parents[1] / "models" / "embedded"


def embedded_models() -> list[str]:
    """Returns the names of the models in the package."""
    return sorted(config.parent.name for config in _FOLDER.glob("*/config.json"))


def reads_two_sides(path_or_name: str | pathlib.Path) -> bool:
    """Whether a path or name is of an embedded model, which knows arguments of two sides only."""
    return checkpoint_path(path_or_name).resolve().parent == _FOLDER


def checkpoint_path(path_or_name: str | pathlib.Path) -> pathlib.Path:
    """Returns the path of a checkpoint that is given as a path or an embedded model's name.

    A path that exists comes first. MODEL_DIR/checkpoints/best is the step with the lowest
    validation loss, or the newest if none was measured.
    """
    path = pathlib.Path(path_or_name).expanduser()
    if path.name == BEST and not path.exists():
        return _best_step(path.parent) or path
    if str(path_or_name) in embedded_models() and not path.exists():
        return _FOLDER / str(path_or_name)
    return path


def _best_step(checkpoints: pathlib.Path) -> pathlib.Path | None:
    """Returns the folder of the best step, by the metrics that Orbax keeps."""
    steps = [path for path in checkpoints.glob("*") if path.name.isdecimal()]
    return min(steps, key=lambda path: (_loss(path), -int(path.name)), default=None)


def _loss(step: pathlib.Path) -> float:
    try:
        loss = json.loads((step / "metrics" / "metrics").read_text(encoding="utf-8"))["loss"]
    except (OSError, ValueError, KeyError, TypeError):
        return math.inf
    return math.inf if math.isnan(loss) else float(loss)
