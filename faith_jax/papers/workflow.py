"""Snakemake workflows of tables: finished steps are kept, and steps are redone if settings change.

A table is made by public commands, with the rules of `table.smk` or of the table's own file
`RULES`. The module that the table's options name has a function `check` for the options, and a
class `Table`, which lists the steps; these are written to `options.json` in the output folder.
"""

import dataclasses
import functools
import importlib
import importlib.util
import json
import logging
import os
import pathlib
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.checkpoints.identity import checkpoint_digest
from faith_jax.checkpoints.open import is_checkpoint
from faith_jax.core.errors import ConfigError, InputError, ProcessError
from faith_jax.core.files import is_finished, read_json_or_none, working_folder, write_json
from faith_jax.papers.options import Workflow
from faith_jax.report.table_pages import join_tidy_tables, write_tables
from faith_jax.runs.options import MODEL_OPTIONS

logger = logging.getLogger("faith_jax")

# Maps a task and a split to the number of rows; 0 = the data is not available.
CountRows = Callable[[str, str], int]
OPTIONS = "options.json"
RULES = pathlib.Path(__file__).with_name("table.smk")
_ROWS = "rows.json"


class GinRun(NamedTuple):
    """A training, or the responses to a data set; `inputs` are files that must exist first."""

    files: Sequence[str]
    bindings: Mapping[str, Any]
    inputs: Sequence[str] = ()

    @property
    def arguments(self) -> str:
        """The run's arguments for a shell."""
        flags = (f"--gin.{name}={value!r}" for name, value in self.bindings.items())
        return shlex.join([*(f"--gin_file={file}" for file in self.files), *flags])

    @property
    def models(self) -> list[str]:
        """The checkpoints that the run opens."""
        values = [self.bindings.get(f"{name}CHECKPOINT_PATH") or () for name in ("", "INITIAL_")]
        return [path for value in values for path in _list_checkpoint_paths(value)]


def _list_checkpoint_paths(value: Any) -> Iterator[str]:
    """Yields the paths in CHECKPOINT_PATH: a path, a list of paths, or a mapping by system."""
    if isinstance(value, str):
        yield value
        return
    for inner in value.values() if isinstance(value, Mapping) else value:
        yield from _list_checkpoint_paths(inner)


class Scores(NamedTuple):
    """A command that scores data sets; `models` are those of its scorers. See `GinRun`."""

    command: Sequence[str]
    inputs: Sequence[str] = ()
    models: Sequence[str] = ()

    @property
    def arguments(self) -> str:
        """The command's arguments for a shell."""
        return shlex.join(self.command)


class TableWorkflow:
    """A workflow, with its steps by the names of their outputs.

    Attributes:
      options: the table's options.
      rows: see `CountRows`.
      left_out: texts on parts that cannot be made.
      trainings: by folder below models/.
      responses: by folder below responses/.
      scores: by file below scores/, without its ending.
    """

    nothing: ClassVar[str] = ""  # the start of the error if nothing can be scored

    def __init__(self, options: Any, rows: CountRows):
        self.options, self.rows = options, rows
        self.left_out: list[str] = []
        self.trainings: dict[str, GinRun] = {}
        self.responses: dict[str, GinRun] = {}
        self.scores: dict[str, Scores] = {}

    def keep_available(self, places: Mapping[str, tuple[str, str]]) -> list[str]:
        """Returns the names of the tasks and splits with rows; records others as left out."""
        available = [name for name, place in places.items() if self.rows(*place)]
        self.left_out += [f"{name} (no data)" for name in places if name not in available]
        return available

    def left_out_notes(self) -> list[str]:
        """Returns a note on the parts that are left out, if any."""
        return [f"Left out: {'; '.join(self.left_out)}."] if self.left_out else []

    def layout(self) -> dict[str, Any]:
        """Returns columns, notes and published figures for `faith-jax evaluate --table`.

        If it is empty, `write` makes the table.
        """
        return {}

    def evaluation(self) -> list[str]:
        """Returns the arguments of `faith-jax evaluate`, except files and layout."""
        return []

    def write(self, folder: pathlib.Path) -> None:
        """Makes the table's files from the workflow's outputs in the folder."""

    def write_tables(
        self,
        folder: pathlib.Path,
        title: str,
        notes: Sequence[str],
        tables: Sequence[Any],
        figures: Mapping[str, Any],
    ) -> str:
        """Writes the tables as .md, .tex, .csv, and .json, which also has `figures`.

        Returns the title, which says whether the figures are of samples.
        """
        if self.is_sample:
            title = f"SAMPLES, not the paper's data: {title}"
        report = {"title": title, "notes": list(notes), "sample": self.is_sample, **figures}
        captioned = [table._replace(title=f"{title}: {table.title}") for table in tables]
        report["rows"] = join_tidy_tables(tables).records()
        write_tables(folder / self.file_name, report, tables, captioned)
        return title

    @property
    def file_name(self) -> str:
        """The name of the table's files, without ending."""
        return f"{self.options.name}{'_sample' if self.is_sample else ''}"

    @property
    def is_sample(self) -> bool:
        """Whether the figures are of samples."""
        return bool(self.options.sample)

    def steps(self) -> dict[str, Any]:
        """Returns the configuration that the rules of the workflow read."""
        files = [f"scores/{name}.jsonl" for name in self.scores]
        layout, tables = self.layout(), {}
        if layout:
            evaluation = self.evaluation()
            if "--protocol=systems" not in evaluation:  # its intervals need no resamples
                names = ("resamples", "seed")
                evaluation += [f"--{name}={getattr(self.options, name)}" for name in names]
            tables[self.file_name] = {
                "arguments": shlex.join(evaluation),
                "inputs": files,
                "layout": json.dumps(layout),
            }
        runs: dict[str, Mapping[str, GinRun | Scores]] = {
            "train": self.trainings,
            "infer": self.responses,
            "score": self.scores,
        }
        rules = {
            rule: {name: describe_step(step) for name, step in steps.items()}
            for rule, steps in runs.items()
        }
        return {"made": [f"{name}.md" for name in tables] or files, "evaluate": tables, **rules}


def describe_step(step: GinRun | Scores) -> dict[str, Any]:
    """Returns a step in the form that the Snakemake rules read."""
    state = [model_state(path) for path in dict.fromkeys(step.models)]
    return {"arguments": step.arguments, "inputs": step.inputs, "state": state}


def model_state(path: str) -> str:
    """Returns a text that changes if a given checkpoint does, so that Snakemake reruns its steps.

    It is empty for a checkpoint that the workflow makes, since this is an input of the step, and
    for a missing checkpoint, which the step itself reports.
    """
    is_given = not path.startswith("models/") and is_checkpoint(checkpoint_path(path))
    return checkpoint_digest(path)["digest"] if is_given else ""


def training_done_file(name: str) -> str:
    """Returns the file that marks a training as done."""
    return f"models/{name}.trained"


def make_table(options: Workflow) -> str:
    """Runs a table's workflow, and returns the table as text.

    Raises:
      InputError: if no data is available.
      ProcessError: if a step fails.
    """
    if importlib.util.find_spec("snakemake") is None:
        python = ".".join(map(str, sys.version_info[:2]))
        raise ConfigError(
            f"reproduce {options.name} needs Snakemake: pip install 'faith_jax[reproduce]', or in "
            f"a clone pip install -c tools/constraints-{python}.txt -e '.[reproduce]'."
        )
    page: Any = importlib.import_module(options.module)
    page.check(options)
    folder = pathlib.Path(options.output)
    table: TableWorkflow = page.Table(options, row_counter(folder))
    for reason in table.left_out:
        logger.warning("left out: %s", reason)
    if not table.scores:
        lacking = "; ".join(table.left_out) or "no such system"
        raise InputError(f"{table.nothing}: {lacking}. See `faith-jax prepare`.")
    # Snakemake runs in its own process, which reads only this configuration.
    config = {"options": dataclasses.asdict(options), **table.steps()}
    run_workflow(getattr(page, "RULES", RULES), config, options)
    if options.dry_run:
        return ""
    table.write(folder)
    return (folder / f"{table.file_name}.md").read_text(encoding="utf-8")


def run_workflow(rules: pathlib.Path, config: Mapping[str, Any], options: Workflow) -> None:
    """Runs the rules in the output folder.

    Raises:
      ProcessError: if a step fails.
    """
    output_flags = ["--dry-run", "--printshellcmds"] if options.dry_run else ["--quiet", "progress"]
    with working_folder(options.output) as (folder, lock):
        write_json(folder / OPTIONS, config)
        command = [
            *(sys.executable, "-m", "snakemake", "--snakefile", str(rules)),
            *("--directory", str(folder), "--configfile", str(folder / OPTIONS)),
            *("--cores", str(options.cores or "all"), "--rerun-incomplete", "--nolock"),
            *(output_flags if options.dry_run else [*output_flags, "rules"]),
            *options.snakemake,
        ]
        # Its own process group, so that a Ctrl-C or another stop reaches the steps once, through
        # us, and they save their state. Snakemake holds the lock too, in case it outlives us.
        process = subprocess.Popen(
            command, process_group=0, pass_fds=[lock] if lock is not None else []
        )
        try:
            status = process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)  # a process in the background may ignore SIGINT
            process.wait()
            raise
        if status:
            raise ProcessError(
                "a step failed; its message stands above. What is made is kept in "
                f"{options.output}; the same command resumes.",
                1,
            )
        for path in list(folder.iterdir()):
            is_finished(path)  # cleans up after a killed step


def row_counter(folder: pathlib.Path) -> CountRows:
    """Returns a function that counts the rows of a split of a task, or of a data set NAME/CONFIG.

    Counts are cached in the folder, so that a resumed workflow need not read the data.
    """
    from faith_jax.input.score_input import seqio_rows, tfds_rows

    path = folder / _ROWS
    counts: dict[str, int] = read_json_or_none(path) or {}

    @functools.cache  # missing data is retried, but only in another run
    def count(task: str, split: str) -> int:
        name, rows_of = f"{task}:{split}", tfds_rows if "/" in task else seqio_rows
        if not counts.get(name):
            try:
                counts[name] = sum(1 for _ in rows_of(task, split))
            except (InputError, ConfigError):
                return 0
            folder.mkdir(parents=True, exist_ok=True)
            write_json(path, counts)
        return counts[name]

    return count


def list_opened_checkpoints(options: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns the checkpoints that scorers open, given the scorers' options by name."""
    return [
        scorer_options[name]
        for scorer_options in options.values()
        for name in MODEL_OPTIONS
        if scorer_options.get(name)
    ]


def scorer_flags(options: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns scorers and their options as arguments of `faith-jax score`.

    Names are as in `--scorers`, including NAME=SCORER.

    >>> scorer_flags({"bertscore": {"model": "a b"}, "q2_f1": {}})
    ['--scorers=bertscore,q2_f1', "--scorer-option=bertscore.model='a b'"]
    """
    return [
        f"--scorers={','.join(options)}",
        *(
            f"--scorer-option={name.partition('=')[0]}.{option}={value!r}"
            for name, scorer_options in options.items()
            for option, value in scorer_options.items()
        ),
    ]


def model_notes(options: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns a note on each model, given scorers' options by model name.

    >>> model_notes({"base": {"model": "checkpoints/nli", "max_length": 512}})
    ['base: checkpoints/nli; max_length = 512.']
    """
    notes = []
    for name, its_options in options.items():
        settings = (f"{key} = {value}" for key, value in its_options.items() if key != "model")
        notes.append("; ".join((f"{name}: {its_options.get('model')}", *settings)) + ".")
    return notes


def leave_accelerators() -> None:
    """Makes this process use the CPU only: accelerators are for the steps' own processes."""
    import jax

    jax.config.update("jax_platforms", "cpu")
