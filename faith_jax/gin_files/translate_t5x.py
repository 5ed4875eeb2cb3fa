"""Translates gin files written for T5X and prompt-tuning into our own.

A file is written for T5X if it includes 't5x/configs/runs/finetune.gin', for example, or binds
configurables of T5X's trainer such as `utils.DatasetConfig` or `trainer.Trainer`. Nothing that it
names is imported or run: `t5x_statements` reads the statements, `t5x_files` has stand-ins for T5X's
own files, and `t5x_counterparts` has our settings for each statement. The result is one text in the
form of our own files: our run file and model, then the settings in the order of the statements. A
binding without a counterpart is a one-line error.
"""

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.checkpoints.identity import step_of
from faith_jax.checkpoints.native import is_native
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.files.stores import path_of
from faith_jax.core.progress import log_once
from faith_jax.gin_files import t5x_counterparts
from faith_jax.gin_files.t5x_counterparts import (
    DECODED_LENGTHS,
    READS_WHOLE,
    RELATIVE_STEPS,
    RESTORE,
    RESTORE_MODE,
    RESTORED,
    Setting,
    settings_of,
)
from faith_jax.gin_files.t5x_statements import Read, Statement, T5XConfig, is_written_for_t5x
from faith_jax.gin_files.values import Macro, Reference, resolve

logger = logging.getLogger("faith_jax")

_RUN_FILES = {
    "train": ("runs/train.gin", "decoding/greedy.gin"),
    "eval": ("runs/eval.gin",),
    "infer": ("runs/infer.gin", "decoding/greedy.gin"),
}
_IMPORTS = (
    "from __gin__ import dynamic_registration",
    "from faith_jax.decoding import config as decoding_config",
    "from faith_jax.input import task_batches",
    "from faith_jax.models import config",
    "from faith_jax.models import soft_prompt",
    "from faith_jax.runs import train",
    "from faith_jax.training import optimizers",
)
_EVAL_SPLIT = "eval_split/task_batches.DatasetConfig"
# T5X's defaults for training.
_TRAINING = {
    "LOSS_NORMALIZING_FACTOR": 1.0,  # losses are sums
    "LEARNING_RATE_SCHEDULE": Reference("optimizers.factored_rate"),
    # The defaults of T5X's schedule replace our macros.
    "optimizers.factored_rate.factors": "constant * linear_warmup * rsqrt_decay",
    "optimizers.factored_rate.base_learning_rate": 0.5,
    "optimizers.factored_rate.warmup_steps": 1000,
    f"{_EVAL_SPLIT}.use_cached": False,
}
_STEP = re.compile(r"checkpoint_(\d+)(?:/checkpoint)?/*$")
_PARTS = ("models/", "prompts/", "objectives/", "decoding/")  # our files that bind no rate
# Our macros of learning rates, which T5X's schedule ignores, and the arguments that it reads.
_OF_OUR_RATES = {"LEARNING_RATE": "base_learning_rate", "WARMUP_STEPS": "warmup_steps"}


class Translation(NamedTuple):
    """A gin text in the form of our own files.

    Attributes:
      text: the whole text, including bindings of the command line.
      macros: the user's macros that the text must use, and the place where each is set.
    """

    text: str
    macros: Mapping[str, str]


def translate(gin_files: Sequence[str], bindings: Sequence[str], read: Read) -> Translation | None:
    """Returns the translated gin text; None if no file is written for T5X.

    Args:
      gin_files: the files, as the user gave them.
      bindings: `NAME=value` of the command line, with quoted values.
      read: returns the path and the text of a gin file of the user; None if there is no such file
        or it is the library's.

    Raises:
      ConfigError: a binding has no counterpart; names file, line, binding and the remedy.
    """
    if not any(is_written_for_t5x(name, read, []) for name in gin_files):
        return None
    config = T5XConfig(read, t5x_counterparts.CONFIGURABLES)
    for name in gin_files:
        config.add_file(name, "the command line")
    for binding in bindings:
        config.add_binding(binding)
    script = _find_script(config)
    pairs = _translate_statements(config, script)
    _check_decoding(config, pairs)
    settings = [setting for _, setting in pairs]
    last = dict(settings)
    values = {name: resolve(value, last) for name, value in last.items()}
    lines = [*_IMPORTS, *dict.fromkeys(config.imports.values())]
    for name, value in [
        *_default_settings(config, script, values),
        *settings,
        *_derived_settings(config, script, values),
    ]:
        if name not in t5x_counterparts.KEPT:
            lines.append(f"include {value!r}" if name == "include" else f"{name} = {value!r}")
    macros = {
        name: s.where
        for s, (name, _) in pairs
        if s.is_users and not s.selector and name == s.name and name not in config.read_macros
    }
    return Translation("\n".join(lines) + "\n", macros)


def _default_settings(
    config: T5XConfig, script: str, settings: Mapping[str, Any]
) -> Iterator[Setting]:
    """Yields our run file, and T5X's defaults."""
    for name in _RUN_FILES[script]:
        yield "include", name
    statements = config.statements
    if any(s.selector == t5x_counterparts.T5_CONFIG for s in statements) and not any(
        s.include.startswith("models/") for s in statements
    ):
        yield "include", "models/t5_1_1.gin"  # the files set all that T5X's model files would
    # T5X trims to TASK_FEATURE_LENGTHS. If they are None, it reads even the longest row whole, so
    # here a row that does not fit into our lengths is an error.
    is_trimmed = "TASK_FEATURE_LENGTHS" in settings and READS_WHOLE not in settings
    yield "CUT_POLICY", "end" if is_trimmed or script == "train" else "error"
    if script == "train":
        _check_rates(config)
        yield from _TRAINING.items()
        if not any(s.selector and s.name == "learning_rate" for s in statements):
            yield "train.Optimization.learning_rate", Macro("LEARNING_RATE_SCHEDULE")


def _find_script(config: T5XConfig) -> str:
    """Returns the T5X program that the files configure: "train", "eval" or "infer"."""
    selectors = {s.selector for s in config.statements}
    scripts = [script for name, script in t5x_counterparts.SCRIPTS.items() if name in selectors]
    if len(scripts) != 1:
        named = ", ".join(sorted(scripts)) or "none of them"
        raise ConfigError(
            "gin: expected a file of T5X's for one of train, eval and infer, got "
            f"{named}; include 't5x/configs/runs/finetune.gin', pretrain.gin, eval.gin or "
            "infer.gin. What Mesh TensorFlow read (operative_config.gin) is not translated."
        )
    return scripts[0]


def _translate_statements(config: T5XConfig, script: str) -> list[tuple[Statement, Setting]]:
    """Returns the settings of all statements, each with its statement, ordered for gin."""
    statements = sorted(config.statements, key=_comes_late)
    # T5X's files bind an argument to a macro, but the user may bind the argument to another value.
    # Our macro of that name then gets the argument's value, and other uses get T5X's macro value.
    rebound, pairs = frozenset[str](), list[tuple[Statement, Setting]]()
    for _ in range(2):
        pairs = [(s, pair) for s in statements for pair in settings_of(s, config, script, rebound)]
        rebound = frozenset(name for s, (name, _) in pairs if s.selector) & config.read_macros
    return sorted(pairs, key=lambda pair: bool(pair[0].selector) and pair[1][0] in rebound)


def _comes_late(statement: Statement) -> tuple[bool, bool]:
    """Returns a key that sorts statements: those that choose defaults first, scoped ones last.

    The former choose a decoder or a prompt's initialiser. A binding in a scope overrides bindings
    outside of it wherever it stands, so it comes last.
    """
    chooses = statement.name in ("decode_fn", "prompt_init")
    is_scoped = bool(statement.scope) and statement.selector != t5x_counterparts.DATASET
    return not chooses and not statement.include.startswith("prompts/"), is_scoped


def _check_decoding(config: T5XConfig, pairs: Sequence[tuple[Statement, Setting]]) -> None:
    """Raises ConfigError if T5X would sample several responses for each row and take the best."""
    decoder = getattr(config.argument("t5x.models.EncoderDecoderModel.decode_fn"), "name", "")
    counts = [(s.where, value) for s, (name, value) in pairs if name == "NUM_BEAMS"]
    where, written = counts[-1] if counts else ("", 1)
    count = resolve(written, config.macros)
    if decoder.endswith("temperature_sample") and isinstance(count, int) and count > 1:
        raise ConfigError(
            f"gin: {where}: num_decodes = {count} with @decoding.temperature_sample: T5X samples "
            f"{count} responses and takes the most probable; here one is sampled. Set num_decodes "
            "= 1, or take @decoding.beam_search."
        )


def _check_rates(config: T5XConfig) -> None:
    """Raises ConfigError for macros of our own rates, which T5X's schedule does not read."""
    for statement in config.statements:
        if statement.name == "LEARNING_RATE_SCHEDULE" or (
            statement.include and not statement.include.startswith(_PARTS)
        ):
            return  # one of our schedules or recipes may read them
    for statement in config.statements:
        name = statement.name
        if not statement.selector and name in _OF_OUR_RATES.keys() - config.read_macros:
            raise ConfigError(
                f"gin: {statement.where}: nothing reads the macro {name}; bind "
                f"utils.create_learning_rate_scheduler.{_OF_OUR_RATES[name]}, T5X's name of it."
            )


def _derived_settings(
    config: T5XConfig, script: str, settings: Mapping[str, Any]
) -> Iterator[Setting]:
    """Yields the settings that are derived from the other settings."""
    has_prompt = config.argument("prompt_tuning.prompts.Prompt.prompt_init") or any(
        s.include.startswith("prompts/") for s in config.statements
    )
    if has_prompt and "ENCODER_PROMPT_LENGTH" not in settings:
        yield "ENCODER_PROMPT_LENGTH", Macro("PROMPT_LENGTH")  # model files set it to 0
    if config.modules and not settings.get("MIXTURE_OR_TASK_MODULE"):
        yield "MIXTURE_OR_TASK_MODULE", _only_module(config)
    if {"DECODE_LENGTH", READS_WHOLE}.isdisjoint(settings):
        of_loss = f"{_EVAL_SPLIT}.task_feature_lengths"
        candidates = (settings.get(n) for n in (DECODED_LENGTHS, of_loss, "TASK_FEATURE_LENGTHS"))
        lengths = next((each for each in candidates if isinstance(each, dict)), {})
        if "targets" in lengths:  # T5X's limit when it generates
            yield "DECODE_LENGTH", lengths["targets"]
    if script == "train":
        yield from _choose_evaluation(config, settings)
    yield from _choose_checkpoint(config, script, settings)


def _only_module(config: T5XConfig) -> str:
    """Returns the user's only module that the files import, which registers the tasks."""
    modules = list(dict.fromkeys(config.modules))
    if len(modules) > 1:
        raise ConfigError(
            f"gin: imports {' and '.join(modules)}: set MIXTURE_OR_TASK_MODULE to the module that "
            "registers the tasks, which may import the others."
        )
    log_once(f"MIXTURE_OR_TASK_MODULE = {modules[0]!r}, which the gin files import")
    return modules[0]


def _choose_checkpoint(
    config: T5XConfig, script: str, settings: Mapping[str, Any]
) -> Iterator[Setting]:
    """Yields the checkpoint, if it differs from the one that is set, and the steps of training."""
    macro = "INITIAL_CHECKPOINT_PATH" if script == "train" else "CHECKPOINT_PATH"
    is_restored = settings.get(RESTORED, "") is not None
    path = settings.get(macro) if is_restored else None
    required = config.argument(f"{RESTORE}.path")
    if is_restored and isinstance(required, Macro):
        random = ", or =None to begin with random parameters" if script == "train" else ""
        raise ConfigError(
            f"{required.name} must be set, as T5X's files require: add "
            f"--gin.{required.name}=CHECKPOINT{random}."
        )
    if script == "train":
        if not is_restored:
            yield macro, None
        yield from _count_steps(settings, path)
    is_latest = settings.get(RESTORE_MODE, "latest") == "latest"  # T5X's default
    if is_latest and isinstance(path, str) and _is_run(path):
        newest = os.path.join(path, "checkpoints", "newest")
        log_once(f"RestoreCheckpointConfig.mode = 'latest': {macro} = {newest!r}")
        yield macro, newest


def _choose_evaluation(config: T5XConfig, settings: Mapping[str, Any]) -> Iterator[Setting]:
    """Yields None as the validation data if T5X has none for the loss, unless rows are decoded."""
    if config.argument("__main__.train.train_eval_dataset_cfg", "") is not None:
        return
    if settings.get("DECODING", "") is None:
        yield "train.Evaluation.dataset", None
    else:
        log_once(
            "train_eval_dataset_cfg = None: the rows of infer_eval are decoded; their loss is "
            "measured too, and selects a checkpoint"
        )


def _is_run(path: str) -> bool:
    """Returns whether a path is the MODEL_DIR of one of our runs."""
    folder = path_of(path)
    try:
        return is_native(folder) and (folder / "checkpoints").is_dir()
    except (CheckpointError, OSError):  # the run reports it
        return False


def _first_step(path: Any) -> int:
    """Returns the step at which T5X would begin: that of a T5X checkpoint, 0 for others."""
    if not isinstance(path, str):
        return 0
    if step := _STEP.search(path):
        return int(step[1])
    try:
        return 0 if is_native(checkpoint_path(path)) else step_of(path) or 0
    except (CheckpointError, OSError):  # the run reports it
        return 0


def _count_steps(settings: Mapping[str, Any], path: Any) -> Iterator[Setting]:
    """Yields TRAIN_STEPS as the steps of this run alone, and the step at which T5X would begin."""
    total, relative = settings.get("TRAIN_STEPS"), settings.get(RELATIVE_STEPS)
    first = _first_step(path)
    if first:
        yield "train.Optimization.counts_from_0", False
    yield "optimizers.factored_rate.first_step", first
    if "DECODED_EVAL_PERIOD" not in settings:  # T5X decodes whenever it evaluates
        yield "DECODED_EVAL_PERIOD", Macro("EVAL_PERIOD")
    if isinstance(relative, int) and relative:
        yield "TRAIN_STEPS", relative
    elif isinstance(total, int) and first:
        if total <= first:
            raise ConfigError(
                f"TRAIN_STEPS = {total}: in a file with T5X's includes it counts the {first:,} "
                f"steps of INITIAL_CHECKPOINT_PATH too; set TRAIN_STEPS to {first:,} plus the "
                "steps of this run, or TRAIN_STEPS_RELATIVE to these."
            )
        logger.info(
            "TRAIN_STEPS = %s counts the %s steps of INITIAL_CHECKPOINT_PATH, as in T5X: this run "
            "takes %s steps, counted from 0",
            *(f"{count:,}" for count in (total, first, total - first)),
        )
        yield "TRAIN_STEPS", total - first
