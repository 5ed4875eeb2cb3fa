"""The commands that gin files configure: train, eval, infer and plan."""

import dataclasses
import os
import sys
from collections.abc import Iterator
from typing import ClassVar

from faith_jax.cli.shared import OneOfSeveral, first_line, show
from faith_jax.core.errors import ConfigError
from faith_jax.core.heavy_imports import quiet_tensorflow
from faith_jax.runs.options import Names, PlanOptions

# `--gin.NAME=VALUE` is read as this option with the value NAME=VALUE.
BINDING = "--gin.NAME=VALUE"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _GinFiles:
    """The gin files and bindings that configure a run.

    Attributes:
      gin_file (FILE): a gin file (repeatable; later ones override); looked up in the working
        folder, the search paths and faith_jax's own gin_configs
      gin_search_paths (FOLDERS): folders of gin files, separated by commas
      gin_allow (MODULE): a further module whose functions gin files can name (repeatable), besides
        faith_jax, seqio, t5x, optax, flax and jax. A gin file is code
      bindings (--gin.NAME=VALUE): set a macro or a parameter; VALUE is a Python literal, or else a
        string
    """

    underscores: ClassVar = True
    gin_file: tuple[str, ...] = ()
    gin_search_paths: Names = ()
    gin_allow: tuple[str, ...] = ()
    bindings: tuple[str, ...] = ()

    def __post_init__(self):
        if not self.gin_file:
            name = type(self).__name__.lower()
            raise ConfigError(f"{name} needs --gin_file=FILE, such as --gin_file=quickstart.gin.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _GinRun(_GinFiles, OneOfSeveral):
    """A run of one or several processes.

    Attributes:
      seqio_additional_cache_dirs (FOLDERS): where USE_CACHED_TASKS looks for cached tasks,
        separated by commas
      tfds_data_dir (FOLDER): where data sets of TFDS and of faith_jax are prepared, instead of
        FAITH_JAX_DATA_DIR
    """

    opens_checkpoints: ClassVar = True
    seqio_additional_cache_dirs: Names = ()
    tfds_data_dir: str | None = None

    def prepare(self, needs_tensorflow: bool = True) -> None:
        """Reads the gin files, and joins the other processes of the run, if there are any."""
        if needs_tensorflow:
            quiet_tensorflow()
        from faith_jax.gin_files import config as gin_config
        from faith_jax.runs import processes

        if self.tfds_data_dir is not None:
            import seqio

            os.environ["FAITH_JAX_DATA_DIR"] = self.tfds_data_dir
            seqio.set_tfds_data_dir_override(self.tfds_data_dir)
        for folder in self.seqio_additional_cache_dirs:
            if "://" not in folder and not os.path.isdir(folder):
                raise ConfigError(f"--seqio_additional_cache_dirs: {folder}: no such folder.")
        if self.seqio_additional_cache_dirs:  # SeqIO takes seconds to import
            import seqio

            seqio.add_global_cache_dirs(self.seqio_additional_cache_dirs)
        self.join_processes()
        processes.configure_alike(
            lambda: gin_config.parse(
                self.gin_file, self.bindings, self.gin_search_paths, self.gin_allow
            )
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _WithDryRun(_GinRun):
    """A run that can say what it would read.

    Attributes:
      dry_run: only report the data that the run would read: rows and epochs of each kind, texts
        that are cut, the first examples. Nothing is trained or generated, and the report is also
        written as JSON beside the output folder
    """

    dry_run: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(_WithDryRun):
    r"""Trains a model, or only its soft prompt, as gin files say.

    Examples:
      %(prog)s --gin_file=quickstart.gin --gin.MODEL_DIR=runs/first
      %(prog)s --gin_file=models/t5_1_1_base.gin --gin_file=npov_generate_prompt_tune.gin \
          --gin.INITIAL_CHECKPOINT_PATH=checkpoints/t5_1_1_base \
          --gin.MODEL_DIR=runs/npov
      %(prog)s --dry_run --gin_file=quickstart.gin --gin.MODEL_DIR=runs/first
    """

    stops_together: ClassVar = True
    kept: ClassVar = "checkpoints are kept; the same command resumes from the newest."

    def run(self) -> int:
        self.prepare()
        from faith_jax.gin_files import config as gin_config
        from faith_jax.runs import train
        from faith_jax.training.trainer import Stopped

        try:
            gin_config.run(train.train, dry_run=self.dry_run)
        except Stopped as stopped:
            show(first_line(stopped), sys.stderr)
            return 143
        return 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Eval(_GinRun):
    r"""Measures a checkpoint: loss, and metrics of decoded responses.

    Examples:
      %(prog)s --gin_file=runs/eval.gin --gin.CHECKPOINT_PATH=runs/quickstart/prompt \
          --gin.MIXTURE_OR_TASK_NAME=npov_generate_sample --gin.SPLIT=test
    """

    def run(self) -> None:
        self.prepare()
        from faith_jax.gin_files import config as gin_config
        from faith_jax.runs import evaluate

        gin_config.run(evaluate.evaluate)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Infer(_WithDryRun):
    r"""Generates a response for each row of a task or a file.

    Prints the first three responses, and the folder that holds all.

    Attributes:
      restart: discard the work of a stopped run with other settings
      join: generate nothing; make the output from the responses of other processes

    Examples:
      %(prog)s --gin_file=runs/infer.gin --gin.CHECKPOINT_PATH=runs/quickstart/prompt \
          --gin.MIXTURE_OR_TASK_NAME=npov_generate_sample \
          --gin.INFER_OUTPUT_DIR=runs/responses
      %(prog)s --gin_file=runs/infer_file.gin --gin.CHECKPOINT_PATH=runs/quickstart/prompt \
          --gin.INPUT_FILE=queries.jsonl --gin.INFER_OUTPUT_DIR=runs/responses
    """

    restart: bool = False
    join: bool = False

    kept: ClassVar = "responses so far are kept; the same command resumes there."

    def run(self) -> list[str]:
        # Responses to a file need no TensorFlow. A given gin file may also set INPUT_FILE.
        reads_file = "runs/infer_file.gin" in self.gin_file or any(
            binding.startswith("INPUT_FILE=") for binding in self.bindings
        )
        self.prepare(needs_tensorflow=not reads_file)
        from faith_jax.gin_files import config as gin_config
        from faith_jax.runs import infer

        output = gin_config.run(
            infer.infer, restart=self.restart, dry_run=self.dry_run, joins_only=self.join
        )
        if self.dry_run or not output.exists():
            return []
        return [*infer.first_responses(output), str(output)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan(PlanOptions, _GinFiles):
    r"""Plans a recipe for TPUs or GPUs that need not be present: does it fit, how fast is it?

    Compiles the run `train` (with its evaluations) or `infer` of gin files for the topology,
    without its hardware, data or checkpoint, and prints for each device: memory, operations, bytes
    moved, collectives, and the shortest time of a step (docs/plan.md). TPUs need the extra
    tpu-plan. If the recipe does not fit, suggests settings that do.

    Examples:
      %(prog)s --topology=v4:4x4x4 --gin_file=models/t5_1_1_xxl.gin \
          --gin_file=npov_generate_prompt_tune.gin --gin.MODEL=@transformer.Transformer\(\) \
          --gin.DTYPE=bfloat16 --gin.PARAMS_DTYPE=bfloat16 --gin.NUM_PARTITIONS=16
      %(prog)s --topology=v5e:4x4 --gin_file=npov_generate_finetune.gin \
          --gin.INITIAL_CHECKPOINT_PATH=checkpoints/t5_1_1_xl --sweep --figure=plan.png
      %(prog)s --topology=h100:8 --gin_file=runs/infer_file.gin \
          --gin.CHECKPOINT_PATH=runs/npov --gin.BATCH_SIZE=64
    """

    def run(self) -> Iterator[str]:
        from faith_jax.planning import plan
        from faith_jax.planning.worker import Recipe

        for name in ("partitions", "figure"):
            if getattr(self, name) and not self.sweep:
                raise ConfigError(f"--{name}: goes with --sweep.")
        recipe = Recipe(
            self.gin_file, self.bindings, self.gin_search_paths, self.gin_allow, self.job
        )
        return plan.lines(plan.plan(recipe, self))
