"""The models inside the package: wherever a checkpoint's path is expected, the name will do."""

import pathlib

_FOLDER = pathlib.Path(__file__).parents[1] / "models" / "embedded"


def embedded_models() -> list[str]:
    """Returns the names of the models in the package."""
    return sorted(config.parent.name for config in _FOLDER.glob("*/config.json"))


def checkpoint_path(path_or_name: str | pathlib.Path) -> pathlib.Path:
    """Returns the path of a checkpoint that is given as a path, or as an embedded model's name.

    A folder of that name where the command runs comes first.
    """
    path = pathlib.Path(path_or_name).expanduser()
    if str(path_or_name) in embedded_models() and not path.exists():
        return _FOLDER / str(path_or_name)
    return path
