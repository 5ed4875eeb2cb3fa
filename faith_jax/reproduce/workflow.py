"""Runs a table's Snakemake workflow: what is done is kept, and what a setting changes is done anew.

A workflow is TABLE.smk beside this file, a sequence of public commands. Its output folder has
`options.json`, from which the workflow reads its options, and `.snakemake`.
"""

import contextlib
import dataclasses
import fcntl
import importlib.util
import json
import pathlib
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.core.errors import ConfigError, ProcessError
from faith_jax.core.files import write_text

OPTIONS = "options.json"
_ROWS = "rows.json"
_LOCK = ".lock"


class Training(NamedTuple):
    """One training: a recipe with its bindings, after another one.

    Attributes:
      recipe: the gin file.
      bindings: of its macros.
      after: the name of the training that it begins from; "" = none.
    """

    recipe: str
    bindings: Mapping[str, Any]
    after: str = ""


class Scores(NamedTuple):
    """One command that scores data sets.

    Attributes:
      arguments: of `faith-jax score`, but the output.
      after: the name of the training whose model scores; "" = none.
      models: the state of the files of other models, so that scores of changed ones are made anew.
    """

    arguments: Sequence[str]
    after: str = ""
    models: Sequence[str] = ()


def run_workflow(
    table: str,
    options: Mapping[str, Any],
    output: str,
    cores: int = 0,
    dry_run: bool = False,
    more: Sequence[str] = (),
) -> None:
    """Runs a workflow in its output folder.

    Args:
      table: whose TABLE.smk is run.
      options: of the table, as JSON has them; paths in them are absolute.
      output: the folder.
      cores: how many the steps share; 0 = all of the machine.
      dry_run: only say what would be done.
      more: further arguments for Snakemake, such as a profile's.

    Raises:
      ConfigError: where Snakemake is not installed, or the folder is in use or cannot be written.
      ProcessError: where a step fails.
    """
    if importlib.util.find_spec("snakemake") is None:
        raise ConfigError(f"reproduce {table} needs Snakemake: pip install 'faith_jax[reproduce]'.")
    folder = pathlib.Path(output)
    with locked(folder):
        write_text(folder / OPTIONS, json.dumps(options, indent=1, ensure_ascii=False) + "\n")
        command = [
            *(sys.executable, "-m", "snakemake"),
            *("--snakefile", str(pathlib.Path(__file__).with_name(f"{table}.smk"))),
            *("--directory", str(folder), "--configfile", str(folder / OPTIONS)),
            *("--cores", str(cores) if cores else "all", "--rerun-incomplete"),
            "--nolock",
            *(["--dry-run", "--printshellcmds"] if dry_run else ["--quiet", "progress", "rules"]),
            *more,
        ]
        _run(command, output)


def table_of_workflow(
    name: str, options: Any, table: Any, output: str, given: Mapping[str, Any]
) -> str:
    """Runs the workflow of a table, and returns the table as text.

    A table that has a method `write` makes its files of what the workflow leaves in the folder.

    Args:
      name: of the table.
      options: a dataclass.
      table: the class that knows the table's tasks and data.
      output: the folder.
      given: `cores`, `dry_run` and `snakemake`, where they were given.

    Raises:
      InputError: where no data is at hand.
      FaithJaxError: see `run_workflow`.
    """
    folder = pathlib.Path(output)
    rows = count_rows(table.tasks(options), folder)
    found = table(options, rows)
    found.check_data()
    config = {"options": dataclasses.asdict(options), "rows": rows}
    is_dry = bool(given.get("dry_run"))
    run_workflow(name, config, output, given.get("cores", 0), is_dry, given.get("snakemake", ()))
    if is_dry:
        return ""
    if hasattr(found, "write"):
        found.write(folder)
    made = folder / f"{name}{'_sample' if options.sample else ''}.md"
    return made.read_text(encoding="utf-8")


def _run(command: Sequence[str], output: str) -> None:
    """Runs Snakemake; when we are stopped, so is it, and its steps save their state."""
    process = subprocess.Popen(command)
    try:
        status = process.wait()
    except BaseException:
        process.send_signal(signal.SIGINT)
        process.wait()
        raise
    if status:
        raise ProcessError(
            f"a step failed; its message stands above. What is made is kept in {output}; the same "
            "command resumes.",
            1,
        )


@contextlib.contextmanager
def locked(folder: pathlib.Path) -> Iterator[None]:
    """Holds the only right to write into a folder, which is made where it is missing.

    Raises:
      ConfigError: where another process holds it, or the folder cannot be written.
    """
    with contextlib.ExitStack() as opened:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = opened.enter_context(open(folder / _LOCK, "w"))
        except OSError as error:
            raise ConfigError(
                f"--output: {folder}: cannot be written ({error.strerror})."
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"--output: {folder}: another command is writing there.") from None
        yield


def count_rows(tasks: Iterable[tuple[str, str]], folder: pathlib.Path) -> dict[str, int]:
    """Returns how many rows the splits of tasks have, for those whose data is at hand.

    The counts are kept in the folder, so that a workflow that resumes need not read the data.

    Args:
      tasks: names of tasks, or of data sets as NAME/CONFIG, with their splits.
      folder: the workflow's.

    Returns:
      The counts by "TASK:SPLIT".
    """
    from faith_jax.core.errors import InputError
    from faith_jax.input.score_input import dataset_rows

    path = folder / _ROWS
    try:
        known: dict[str, int | None] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    before = dict(known)
    for task, split in tasks:
        source = ("", task) if "/" in task else (task, "")
        name = f"{task}:{split}"
        if known.get(name) is None:  # data that was missing may be there now
            try:
                known[name] = sum(1 for _ in dataset_rows(*source, split))
            except (InputError, ConfigError):
                known[name] = None
    if known != before:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(known, indent=1) + "\n")
    return {name: count for name, count in known.items() if count}


def flags(bindings: Mapping[str, Any]) -> str:
    """Returns gin bindings as arguments for a shell.

    >>> flags({"TRAIN_STEPS": 5, "DECODING": None})
    '--gin.TRAIN_STEPS=5 --gin.DECODING=None'
    """
    return " ".join(shlex.quote(f"--gin.{name}={value!r}") for name, value in bindings.items())


def scorer_flags(options: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> str:
    """Returns scorers' options as arguments of `faith-jax score` for a shell.

    Names are those of `--scorers`, also NAME=SCORER.

    >>> scorer_flags({"bertscore": {"model": "a b"}, "q2_f1": {}}, ["bertscore", "token_f1"])
    "'--scorer-option=bertscore.model=a b'"
    """
    return " ".join(
        shlex.quote(f"--scorer-option={name.partition('=')[0]}.{option}={value}")
        for name in names
        for option, value in options.get(name, {}).items()
    )


def leave_accelerators() -> None:
    """Opens models on the CPU from here on: accelerators are for the steps' own processes."""
    import jax

    jax.config.update("jax_platforms", "cpu")


def absolute(path: str) -> str:
    """Returns a path as a workflow finds it, which runs in its own folder; names stay names."""
    there = pathlib.Path(path).expanduser()
    return str(there.absolute()) if path and there.exists() else path
