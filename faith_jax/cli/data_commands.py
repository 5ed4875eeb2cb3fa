"""The commands for data sets: tasks, prepare and describe."""

import dataclasses
import itertools
from collections.abc import Iterable
from typing import ClassVar

from faith_jax.core.heavy_imports import quiet_tensorflow
from faith_jax.core.settings import OutputPath, Positive


@dataclasses.dataclass(frozen=True)
class Tasks:
    """Lists all tasks, or shows rows of one as a model sees them.

    Without TASK: all tasks with their splits and sizes, or the command that prepares their data.
    With TASK: its first rows as a model sees them, with token counts and the texts that would not
    fit, and the lengths of the first hundred rows.

    Attributes:
      task (TASK): the name of a task
      task_module (MODULE): registers your own tasks, my_tasks.py or my_package.tasks
      split: the split to show (default: the task's last one)
      rows (N): rows to show
      inputs_length (TOKENS): tokens of inputs that fit; longer ones are cut
      targets_length (TOKENS): tokens of targets that fit; longer ones are an error in training

    Examples:
      %(prog)s
      %(prog)s faithdial_generate_sample --split=train --rows=2
      %(prog)s colours --task_module=my_tasks.py
    """

    underscores: ClassVar = True
    task: str = ""
    _: dataclasses.KW_ONLY
    task_module: str = ""
    split: str | None = None
    rows: Positive = 3
    inputs_length: Positive = 512
    targets_length: Positive = 128

    def run(self) -> Iterable[str]:
        from faith_jax.core.user_modules import entry_point_names, import_user_module
        from faith_jax.datasets import task_data

        has_others = bool(self.task_module) or entry_point_names(task_data.TASK_ENTRY_POINTS)
        if self.task and not has_others:
            # Before TensorFlow is imported, which takes seconds.
            task_data.check_task_name(self.task, "TASK")
        if self.task or has_others:
            quiet_tensorflow()
        if self.task_module:
            import_user_module(self.task_module, "--task_module")
        if not (self.task or has_others):
            return task_data.describe_tasks()
        from faith_jax.runs.data.tasks import list_user_tasks, task_rows

        if not self.task:
            return itertools.chain(task_data.describe_tasks(), list_user_tasks())
        lengths = {"inputs": self.inputs_length, "targets": self.targets_length}
        return task_rows(self.task, self.split, self.rows, lengths)


@dataclasses.dataclass(frozen=True)
class _DataSet:
    """The choice of a data set.

    Attributes:
      dataset (DATASET): NAME or NAME/CONFIG
      raw (FOLDER): the folder of the raw files
      data_dir (FOLDER): the folder for prepared data
    """

    dataset: str
    _: dataclasses.KW_ONLY
    raw: str | None = None
    data_dir: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepare(_DataSet):
    """Makes a data set ready for the tasks, from its source or from your own files.

    Attributes:
      skip_bad_rows: skip bad rows, count and list them
      beam (OPTIONS): build in parallel with Apache Beam and these pipeline options, separated by
        commas (without OPTIONS: on all cores of this machine)
      beam_parts (N): parts that each split is cut into (default: this machine's cores)

    Examples:
      %(prog)s begin
      %(prog)s faithdial --raw=downloads/faithdial --skip-bad-rows
      %(prog)s true_benchmark/summeval --raw=true_csv_files
      %(prog)s wizard_of_wikipedia --beam
    """

    skip_bad_rows: bool = False
    beam: str | bool = False
    beam_parts: int | None = None

    def run(self) -> Iterable[str]:
        quiet_tensorflow()
        from faith_jax.datasets.builders.apache_beam import BeamPipeline
        from faith_jax.runs.data.tasks import prepare

        options = "" if self.beam is True else self.beam
        beam = None if options is False else BeamPipeline(options, self.beam_parts or 0)
        return prepare(self.dataset, self.data_dir, self.raw, self.skip_bad_rows, beam)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Describe(_DataSet):
    """Prints the papers' statistics of a data set.

    Prints counts, averages and extractiveness of all splits that are available.

    Attributes:
      plot (PNG): draw density over coverage
      wow (FOLDER): Wizard of Wikipedia's .json files, needed to count the edited turns of
        FaithDial's Seekers

    Examples:
      %(prog)s faithdial/sample --plot=extractiveness.png
      %(prog)s faithdial --wow=raw/wizard_of_wikipedia
      %(prog)s true_benchmark --raw=true_files
    """

    plot: OutputPath = ""
    wow: str | None = None

    def run(self) -> Iterable[str]:
        quiet_tensorflow()
        from faith_jax.runs.data.describe import describe

        return describe(self.dataset, self.data_dir, self.raw, self.plot, self.wow)
