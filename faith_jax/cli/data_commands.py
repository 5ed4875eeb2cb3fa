"""The commands about data: tasks, prepare, describe, negatives, mutate-claims and so on."""

import dataclasses
import itertools
from collections.abc import Iterable
from typing import ClassVar

from faith_jax.core.errors import ConfigError
from faith_jax.core.quiet_tensorflow import quiet_tensorflow
from faith_jax.core.settings import Positive
from faith_jax.datasets.task_data import TASK_ENTRY_POINTS, check_task_name
from faith_jax.runs.data.options import (
    MutateClaimsOptions,
    NegativesOptions,
    NpovInputs,
    NpovSets,
)


@dataclasses.dataclass(frozen=True)
class Tasks:
    """Lists all tasks, or shows rows of one as a model sees them.

    Without TASK: all tasks with their splits and sizes, or the command that prepares their data.
    With TASK: its first rows as a model sees them, with token counts and what would not fit, and
    the lengths of the first hundred.

    Attributes:
      task (TASK): the name of a task
      task_module (MODULE): that registers tasks of your own, my_tasks.py or my_package.tasks
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
        from faith_jax.core.user_modules import has_entry_points, import_user_module

        has_others = bool(self.task_module) or has_entry_points(TASK_ENTRY_POINTS)
        if self.task and not has_others:
            check_task_name(self.task)  # before TensorFlow is imported, which takes seconds
        if self.task or has_others:
            quiet_tensorflow()
        if self.task_module:
            import_user_module(self.task_module, "--task_module")
        if not self.task:
            from faith_jax.runs.data.task_list import task_list

            if not has_others:
                return task_list()
            from faith_jax.runs.data.tasks import list_user_tasks

            return itertools.chain(task_list(), list_user_tasks())
        from faith_jax.runs.data.tasks import task_rows

        lengths = {"inputs": self.inputs_length, "targets": self.targets_length}
        return task_rows(self.task, self.split, self.rows, lengths)


@dataclasses.dataclass(frozen=True)
class _DataSet:
    """Which data set.

    Attributes:
      dataset (DATASET): NAME or NAME/CONFIG
      raw (FOLDER): where the raw files are
      data_dir (FOLDER): where prepared data goes
    """

    dataset: str
    _: dataclasses.KW_ONLY
    raw: str | None = None
    data_dir: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepare(_DataSet):
    """Makes a data set ready for the tasks, from its source or from files of your own.

    Attributes:
      skip_bad_rows: skip bad rows, count and list them
      beam (OPTIONS): build in parallel with Apache Beam; its pipeline options, separated by commas
        (without: all cores of this machine)
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

    Counts, averages and extractiveness of whatever splits are at hand.

    Attributes:
      plot (PNG): draw density over coverage
      wow (FOLDER): Wizard of Wikipedia's .json files, by which edited turns of FaithDial's Seekers
        are counted

    Examples:
      %(prog)s faithdial/sample --plot=extractiveness.png
      %(prog)s faithdial --wow=raw/wizard_of_wikipedia
      %(prog)s true_benchmark --raw=true_files
    """

    plot: str | None = None
    wow: str | None = None

    def run(self) -> Iterable[str]:
        quiet_tensorflow()
        from faith_jax.runs.data.describe import describe

        return describe(self.dataset, self.data_dir, self.raw, self.plot, self.wow)


@dataclasses.dataclass(frozen=True)
class ControlTokens:
    """Adds to training responses what they are like, for CTRL.

    Adds control tokens (Rashkin 2021) to the turns of FaithDial, or to those of Wizard of Wikipedia
    that have knowledge: whether a response has a first-person pronoun, in which third of its file's
    responses its lexical precision lies, and whether a natural language inference model finds it
    entailed by the knowledge. Writes FILE_control-tokens.json beside each file of training and
    validation. Give one of --model, --nli and --pairs. Needs spaCy (extra augmentation).

    Attributes:
      folder (FOLDER): of train.json and valid.json (FaithDial), or of train.json,
        valid_random_split.json and valid_topic_split.json (Wizard of Wikipedia)
      model (FOLDER): of the inference model
      nli (FILE): or its labels: JSON lines of id and label
      pairs (FILE): or only write the pairs to label
      labels: the model's classes in order, if its configuration does not say
      max_length (TOKENS): of a pair; premises are cut

    Examples:
      %(prog)s downloads/faithdial --model=checkpoints/roberta-large-mnli
      %(prog)s downloads/wizard_of_wikipedia --pairs=pairs.jsonl
      %(prog)s downloads/faithdial --nli=labels_of_pairs.jsonl
    """

    opens_checkpoints: ClassVar = True
    folder: str
    _: dataclasses.KW_ONLY
    model: str = ""
    nli: str = ""
    pairs: str = ""
    labels: str | None = None
    max_length: int | None = None

    def run(self) -> str | list[str]:
        if sum(map(bool, (self.model, self.nli, self.pairs))) != 1:
            raise ConfigError("Give one of --model, --nli and --pairs.")
        from faith_jax.runs.data import control_tokens

        if self.pairs:
            return str(control_tokens.write_pairs(self.folder, self.pairs))
        from faith_jax.statistics.text_metrics import english_tokenizer

        english_tokenizer()  # before a model classifies for hours
        if self.nli:
            labels = control_tokens.read_labels(self.nli)
        else:
            labels = control_tokens.classified(
                self.folder, self.model, self.labels, max_length=self.max_length
            )
        return control_tokens.add_control_tokens(self.folder, labels)


class Negatives(NegativesOptions):
    r"""Makes unfaithful responses for FaithDial's turns, for InfoNCE.

    Perturb and generate (Dziri 2022): gives each turn's knowledge other entities or other verbs,
    lets a model that was trained on Wizard of Wikipedia respond to it, and adds the response to the
    turn as an unfaithful one. A run that was stopped resumes.

    Examples:
      %(prog)s sample --model=mini --tagger=rules --output=runs/negatives
      %(prog)s downloads/faithdial --model=runs/t5_wow --output=faithdial_negatives

    then:
      FAITH_JAX_DATA_DIR=faithdial_negatives/tfds t5x train \
          --gin_file=faithdial_generate_infonce.gin …
    """

    opens_checkpoints = True

    def run(self) -> list[str]:
        quiet_tensorflow()
        from faith_jax.runs.data.negatives import negatives

        return negatives(self)


class MutateClaims(MutateClaimsOptions):
    r"""Makes claims to train verifiers on, from Wizard of Wikipedia.

    The weak supervision of DialFact (Gupta 2022, Aug-WoW): negates claims, replaces their entities
    and adjectives, lets models respond to other sentences and fill in masked words, and gives
    claims other evidence. A run that was stopped resumes.

    Examples:
      %(prog)s sample --tagger=rules --antonyms=list --output=runs/claims
      %(prog)s downloads/wizard_of_wikipedia --model=runs/bart_wow --infiller=checkpoints/t5_base \
          --language-model=checkpoints/gpt2 --verifiers=checkpoints/dnli,checkpoints/vitaminc \
          --output=aug_wow

    then:
      FAITH_JAX_DATA_DIR=aug_wow/tfds t5x train --gin_file=dialfact_verify_finetune.gin …
    """

    opens_checkpoints = True

    def run(self) -> list[str]:
        quiet_tensorflow()
        from faith_jax.runs.data.mutated_claims import mutate_claims

        return mutate_claims(self)


class Inputs(NpovInputs):
    """Writes what a generator responds to.

    Combinations of each topic's arguments, in a file for each temperature.
    """

    def run(self) -> list[str]:
        from faith_jax.runs.data.npov_sets import write_inputs

        return write_inputs(self)


class Sets(NpovSets):
    """Writes training and test sets of responses with errors.

    Finds the responses that are free of errors, and puts errors into them.
    """

    def run(self) -> str:
        from faith_jax.runs.data.npov_sets import write_sets

        return write_sets(self)


class Npov:
    r"""Makes inputs of NPOV responses, and sets of responses with errors.

    The data of Chang 2024's study of error detection, which `faith-jax reproduce npov_detection`
    runs as a whole (docs/detection.md).

    Examples:
      %(prog)s inputs --output=inputs
      t5x infer --gin_file=runs/infer_file.gin --gin.CHECKPOINT_PATH=runs/npov \
          --gin.INPUT_FILE=inputs/t0.0.jsonl --gin.INFER_OUTPUT_DIR=responses
      %(prog)s sets --input=responses/predictions.jsonl --output=data
    """

    parts = (Inputs, Sets)
