"""Training the models of a table: each by a recipe, in a folder and a process of its own.

A process for each, because gin's settings and an accelerator's memory stay with a process. So a
caller trains all models that it needs before it opens the first: a process that has used an
accelerator keeps its memory from the others.
"""

import json
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from faith_jax.core.errors import ConfigError, ProcessError
from faith_jax.core.files import as_json, checkpoint_state, write_text
from faith_jax.runs.run_log import read_settings
from faith_jax.training.checkpoints import newest_step

# What decides a training, kept in MODEL_DIR.
SETTINGS = "recipe.json"
_INITIAL, _STATE = "INITIAL_CHECKPOINT_PATH", "state of the initial checkpoint's files"
_PROGRAM = "faith-jax: "
_WRONG_USE, _STOPPED = 2, 143


def train_recipe(
    gin_file: str, bindings: Mapping[str, Any], model_dir: str | pathlib.Path
) -> pathlib.Path:
    """Trains a model by a recipe, or finds that it is trained; returns its folder.

    A training that was stopped goes on from its newest checkpoint. One is finished where its newest
    checkpoint is of TRAIN_STEPS. What the training says goes to stderr.

    Args:
      gin_file: of a run `train`, looked up as `faith-jax train --gin_file` does.
      bindings: values of its macros by name, but MODEL_DIR; a text that begins with `@` or `%` is a
        reference. With the state of the files at INITIAL_CHECKPOINT_PATH they are the settings of
        the folder.
      model_dir: MODEL_DIR; made where it is not there.

    Raises:
      ConfigError: for a folder with checkpoints of other settings or of another command, and where
        the training ends with a user's mistake, in its words.
      ProcessError: where it ends otherwise, with its exit status.
      ValueError: for a binding of MODEL_DIR.
    """
    if "MODEL_DIR" in bindings:
        raise ValueError("MODEL_DIR is an argument of its own.")
    folder = pathlib.Path(model_dir).expanduser()
    settings = _settings(gin_file, bindings)
    done = check_training(gin_file, bindings, folder)
    if done is not None and done == (read_settings(folder) or {}).get("total_steps"):
        return folder
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror}).") from None
    write_text(folder / SETTINGS, json.dumps(settings, indent=1) + "\n")
    values = {**bindings, "MODEL_DIR": str(folder)}
    flags = [f"--gin.{name}={_gin_value(value)}" for name, value in values.items()]
    try:
        _run(["train", f"--gin_file={gin_file}", *flags], folder)
    except ConfigError:
        if is_new and [path.name for path in folder.iterdir()] == [SETTINGS]:
            shutil.rmtree(folder)
        raise
    return folder


def check_training(
    gin_file: str, bindings: Mapping[str, Any], model_dir: str | pathlib.Path
) -> int | None:
    """Checks that a folder holds no training of other settings; arguments as for `train_recipe`.

    Returns:
      The step of its newest checkpoint; None = there is none.

    Raises:
      ConfigError: see `train_recipe`.
    """
    folder = pathlib.Path(model_dir).expanduser()
    done = newest_step(folder)
    if done is not None:
        _check_settings(folder, _settings(gin_file, bindings))
    return done


def _settings(gin_file: str, bindings: Mapping[str, Any]) -> dict[str, Any]:
    told = {"recipe": gin_file, **bindings}
    if isinstance(initial := bindings.get(_INITIAL), str):
        told[_STATE] = checkpoint_state(initial)
    return as_json(told)


def _check_settings(folder: pathlib.Path, settings: Mapping[str, Any]) -> None:
    path = folder / SETTINGS
    try:
        before = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        raise ConfigError(
            f"{folder}: holds a training that another command began (it has no readable "
            f"{SETTINGS}); name another folder, or remove it."
        ) from None
    for name in {**before, **settings}:
        was, now = before.get(name), settings.get(name)
        if was != now:
            raise ConfigError(
                f"{folder}: holds a training with another value of {name} ({was}, not {now}); "
                "name another folder, or remove it."
            )


def _gin_value(value: Any) -> str:
    is_reference = isinstance(value, str) and value[:1] in ("@", "%")
    return value if is_reference else repr(value)


def _run(arguments: Sequence[str], folder: pathlib.Path) -> None:
    """Runs `faith-jax`, showing what it says.

    In a session of its own it does not see the terminal's Ctrl-C: it is told to stop, by which it
    saves its state.
    """
    process = subprocess.Popen(
        [*_command(), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    told = ""
    try:
        for line in process.stdout or ():
            if line.startswith(_PROGRAM):
                told = line.removeprefix(_PROGRAM).strip()
            else:
                sys.stderr.write(line)
        status = process.wait()
    except BaseException:
        process.terminate()
        rest, _ = process.communicate()
        sys.stderr.write(rest)
        raise
    finally:
        process.kill()
    where = f"training in {folder}"
    if status == _WRONG_USE:
        raise ConfigError(f"{where}: {told or 'its command was not understood'}")
    if status in (_STOPPED, -15):
        raise ProcessError(f"{where}: was stopped; the same command goes on.", _STOPPED)
    if status:
        raise ProcessError(f"{where}: {told or f'failed with exit status {status}'}", status)


def _command() -> list[str]:
    return [sys.executable, "-m", "faith_jax"]
