"""Translates gin files that were written for T5X and prompt-tuning into files of ours.

Such a file includes 't5x/configs/runs/finetune.gin' or binds `utils.DatasetConfig`,
`trainer.Trainer` and others of T5X's own trainer. Nothing that it names is imported or run: its
statements are parsed, and the tables of `t5x_counterparts` say what each of them is here. The
result is one text as our own files are: our run file and model, and then the user's statements in
their order. A binding without a counterpart is an error in one line.
"""

import dataclasses
import logging
import os
import re
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gin import config_parser

from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.checkpoints.identity import step_of
from faith_jax.checkpoints.native import is_native
from faith_jax.core.errors import CheckpointError, ConfigError, did_you_mean
from faith_jax.core.files.stores import is_remote, path_of
from faith_jax.gin_files import t5x_counterparts
from faith_jax.gin_files.log_once import log_once
from faith_jax.gin_files.t5x_counterparts import resolve

logger = logging.getLogger("faith_jax")

_ROOTS = ("t5x", "prompt_tuning", "__main__", "t5", "flaxformer")
# T5X's files import these too; they are dropped from a translated file.
_BESIDE = (*_ROOTS, "seqio", "clu", "jax", "flax", "__gin__", "gin")
_STEP = re.compile(r"checkpoint_(\d+)(?:/checkpoint)?/*$")
_MACRO_USE = re.compile(r"%([A-Za-z_]\w*)")
_RESTORE = "t5x.utils.RestoreCheckpointConfig"
_LOSS_DATASET = "__main__.train.train_eval_dataset_cfg"
_DECODED_DATASET = "__main__.train.infer_eval_dataset_cfg"
_MACRO_SET = re.compile(r"^([A-Za-z_]\w*) =", re.MULTILINE)
# Our macros of a rate that is not T5X's, and what sets T5X's.
_UNREAD_OF_PROMPTS = frozenset(("PROMPT_MOST_FREQUENT", "ENCODER_PROMPT_LENGTH"))
_PARTS = ("models/", "prompts/", "objectives/", "decoding/")  # files of ours that bind no rate
_OF_OUR_RATES = {"LEARNING_RATE": "base_learning_rate", "WARMUP_STEPS": "warmup_steps"}


@dataclasses.dataclass(frozen=True, repr=False)
class Reference:
    """`@name` or `@name()`; its `repr` is gin's form."""

    name: str
    evaluate: bool

    def __repr__(self) -> str:
        return f"@{self.name}{'()' if self.evaluate else ''}"


@dataclasses.dataclass(frozen=True, repr=False)
class Macro:
    """`%NAME`; its `repr` is gin's form."""

    name: str

    def __repr__(self) -> str:
        return f"%{self.name}"


class _Values(config_parser.ParserDelegate):
    """Makes values without looking up or running anything that they name."""

    def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> Reference:
        """Returns the reference as it is written."""
        return Reference(scoped_configurable_name, evaluate)

    def macro(self, name: str) -> Macro:
        """Returns the macro as it is written."""
        return Macro(name)


class Statement(NamedTuple):
    """A binding of a file, or an include of one of our own files.

    Attributes:
      where: file and line, for errors.
      scope: "train" of `train/utils.DatasetConfig.split`.
      selector: the full name, such as "t5x.utils.DatasetConfig"; "" = a macro.
      name: the argument, or the macro.
      value: as `_Values` makes it.
      include: a file of ours.
    """

    where: str
    scope: str = ""
    selector: str = ""
    name: str = ""
    value: Any = None
    include: str = ""


def is_t5x(text: str) -> bool:
    """Whether a gin file configures T5X's trainer: by its imports and includes."""
    for statement in _parse_statements(text, "", quietly=True):
        if isinstance(statement, config_parser.ImportStatement):
            if statement.module.split(".")[0] in _ROOTS:
                return True
        elif (
            isinstance(statement, config_parser.IncludeStatement)
            and t5x_counterparts.of_file(statement.filename) is not None
        ):
            return True
    return False


def translate(
    gin_files: Sequence[str],
    bindings: Sequence[str],
    read: Callable[[str], tuple[str, str] | None],
) -> "Translation | None":
    """Returns one gin text of ours; None where no file is written for T5X.

    Args:
      gin_files: as they are given.
      bindings: `NAME=value` of the command line, with quoted values.
      read: returns the path and the text of a gin file that is not the library's; None if there is
        no such file or the library has it.

    Raises:
      ConfigError: names file, line and binding that have no counterpart, and what to do.
    """
    if not any(_is_written_for_t5x(name, read, []) for name in gin_files):
        return None
    collected = _Collected(read)
    for name in gin_files:
        collected.add_file(name, "the command line")
    for binding in bindings:
        collected.add_text(binding, f"--gin.{binding}", collected.aliases)
    return _write_translation(collected)


class Translation(NamedTuple):
    """A gin text of ours.

    Attributes:
      text: the whole of it, bindings of the command line included.
      unread: macros that nothing need read: those of T5X's own files, and those of bindings that
        have nothing to set here.
    """

    text: str
    unread: frozenset[str]


def _is_written_for_t5x(
    name: str, read: Callable[[str], tuple[str, str] | None], seen: list[str]
) -> bool:
    if t5x_counterparts.of_file(name) is not None:
        return True
    opened = None if name in seen else read(name)
    seen.append(name)
    if opened is None:
        return False
    included = re.findall(r"^include\s+['\"]([^'\"]+)['\"]", opened[1], re.MULTILINE)
    return is_t5x(opened[1]) or any(_is_written_for_t5x(each, read, seen) for each in included)


class _Collected:
    """The statements of all files, in the order in which gin would read them."""

    def __init__(self, read: Callable[[str], tuple[str, str] | None]):
        self._read, self._reading = read, list[str]()
        self.statements: list[Statement] = []
        self.runs: list[str] = []  # the programs whose run files of T5X's were included
        self.standard: set[str] = set()  # macros of T5X's own files
        self.modules: list[str] = []  # of the user, for their tasks
        self.imports: dict[str, str] = {}  # of our own modules, by what they are called
        self.aliases: dict[str, str] = {}  # modules by what the files call them

    def add_file(self, name: str, where: str) -> None:
        """Adds a file's statements: the user's, a counterpart's, or an include of ours."""
        if (counterpart := t5x_counterparts.of_file(name)) is not None:
            if (opened := self._read(name)) is not None:
                log_once(
                    f"{where}: {name} stands for T5X's file of this name; {opened[0]} is not read. "
                    "Give it another name if you changed it."
                )
            if counterpart.run:
                self.runs.append(counterpart.run)
                self.aliases[f"{counterpart.run}_script"] = "__main__"  # as T5X's file calls it
            for include in counterpart.includes:
                self.statements.append(Statement(where, include=include))
            self.standard |= counterpart.macros.keys()
            for macro, value in counterpart.macros.items():
                self.statements.append(Statement(name, name=macro, value=value))
            return
        opened = self._read(name)
        if opened is None and name.startswith(("t5x/", "prompt_tuning/")):
            raise ConfigError(
                f"gin: {where}: include '{name}': there is no counterpart of this file here."
                f"{did_you_mean(name, t5x_counterparts.file_names())} docs/t5x.md lists those that "
                "have one."
            )
        if opened is None:
            self.statements.append(Statement(where, include=name))
            return
        path, text = opened
        if path in self._reading:
            circle = " includes ".join([*self._reading[self._reading.index(path) :], path])
            raise ConfigError(f"gin: files include each other in a circle: {circle}.")
        self._reading.append(path)
        self.add_text(text, path)
        self._reading.remove(path)

    def add_text(self, text: str, path: str, known: Mapping[str, str] | None = None) -> None:
        """Adds the statements of a text; `known` are modules by names that it does not import."""
        aliases = dict(known or {})
        for statement in _parse_statements(text, path):
            where = f"{path}, line {statement.location.line_num}" if "\n" in text else path
            if isinstance(statement, config_parser.ImportStatement):
                root = statement.module.split(".")[0]
                is_whole = statement.is_from or statement.alias
                aliases[statement.bound_name()] = statement.module if is_whole else root
                if root == "faith_jax":
                    self.imports[statement.bound_name()] = statement.format()
                elif root == "t5":
                    log_once(
                        f"{where}: the tasks of the package {statement.module} are not here; "
                        "MIXTURE_OR_TASK_MODULE names a module of yours"
                    )
                elif root not in _BESIDE:
                    self.modules.append(statement.module)
            elif isinstance(statement, config_parser.IncludeStatement):
                self.add_file(statement.filename, where)
            elif isinstance(statement, config_parser.BindingStatement):
                scope, selector, name = statement.scope, "", statement.arg_name
                if statement.selector and name:
                    selector = _full_name(statement.selector, aliases)
                else:  # a macro: NAME = value
                    scope, name = "", statement.selector or name
                value = _with_full_names(statement.value, aliases)
                self.statements.append(Statement(where, scope, selector, name, value))
        self.aliases |= aliases


def _parse_statements(text: str, path: str, quietly: bool = False) -> Iterator[Any]:
    try:
        yield from config_parser.ConfigParser(text, _Values())
    except (SyntaxError, ValueError, tokenize.TokenError, RecursionError) as error:
        if quietly:
            return
        if isinstance(error, RecursionError):
            raise ConfigError(f"gin: {path}: nested too deeply.") from None
        line = error.args[1].line_num if isinstance(error, SyntaxError) else "?"
        raise ConfigError(f"gin: {path}, line {line}: {error.args[0]}") from None


def _full_name(selector: str, aliases: Mapping[str, str]) -> str:
    """Returns the name of a configurable with its module, as the file's imports say."""
    first, _, rest = selector.partition(".")
    if first in aliases:
        full = f"{aliases[first]}.{rest}" if rest else aliases[first]
        # The same network; whether its layers are scanned is an argument of the configuration.
        return full.replace("t5x.examples.scalable_t5.", "t5x.examples.t5.")
    return t5x_counterparts.by_short_name(selector)


def _with_full_names(value: Any, aliases: Mapping[str, str]) -> Any:
    """Returns a value whose references have full names, but for those of our own modules."""
    if isinstance(value, Reference):
        scope, _, name = value.name.rpartition("/")
        full = _full_name(name, aliases)
        name = name if full.startswith("faith_jax.") else full
        return dataclasses.replace(value, name=f"{scope}/{name}" if scope else name)
    if isinstance(value, Macro):
        return value
    if isinstance(value, list | tuple):
        return type(value)(_with_full_names(each, aliases) for each in value)
    if isinstance(value, dict):
        return {key: _with_full_names(each, aliases) for key, each in value.items()}
    return value


def _write_translation(collected: _Collected) -> Translation:
    """Returns the text: our run file first, then each statement's counterpart."""
    script = _find_script(collected)
    roles = {s.scope: s.scope for s in collected.statements}
    # Of a training, which data set each scope is of: train, train_eval or infer_eval.
    for statement in collected.statements:
        role = t5x_counterparts.DATASETS.get(f"{statement.selector}.{statement.name}")
        if role and isinstance(statement.value, Reference) and "/" in statement.value.name:
            roles[statement.value.name.rpartition("/")[0]] = role
    if not collected.runs:  # the files say all that T5X's run files would
        roles["its own run"] = ""
    macros = {s.name: s.value for s in collected.statements if s.name and not s.selector}
    # The last value of each argument, whatever its scope.
    arguments = {
        f"{s.selector}.{s.name}": resolve(s.value, macros)
        for s in collected.statements
        if s.selector
    }
    _check_decoding(collected.statements, arguments, macros)
    evaluation = _translate_evaluation(arguments, macros) if script == "train" else []
    if script == "train" and arguments.get(_LOSS_DATASET, "") is None:
        part = {"train_eval": "unread", "infer_eval": "train_eval"}
        roles = {scope: part.get(role, role) for scope, role in roles.items()}
    lines: list[str] = []
    prompts: list[str] = []  # files of ours that set a prompt's initial values, the last one's used
    # Macros that the user's files read, though the text may not.
    unread = {name for s in collected.statements for name in _MACRO_USE.findall(repr(s.value))}
    # The decoder's defaults come before what the files set, wherever they name it.
    for statement in sorted(collected.statements, key=lambda s: s.name != "decode_fn"):
        if statement.include.startswith("prompts/"):
            prompts = [f"include {statement.include!r}"]
            continue
        if statement.include:
            lines.append(f"include {statement.include!r}")
            continue
        counterpart_lines = t5x_counterparts.counterpart(statement, script, roles, macros)
        if counterpart_lines and counterpart_lines[0].startswith("include 'prompts/"):
            prompts = counterpart_lines
            continue
        lines += counterpart_lines
        if not counterpart_lines:
            unread.add(statement.name)
    head = ["from __gin__ import dynamic_registration", *t5x_counterparts.IMPORTS]
    head += dict.fromkeys(collected.imports.values())
    head += [f"include {name!r}" for name in t5x_counterparts.RUN_FILES[script]]
    includes = [statement.include for statement in collected.statements]
    if any(s.selector == t5x_counterparts.T5_CONFIG for s in collected.statements) and not any(
        name.startswith("models/") for name in includes
    ):
        head.append("include 'models/t5_1_1.gin'")  # the files say all that T5X's model files would
    tail = []
    if prompts:
        # Where nothing is trained, the prompt is the checkpoint's, whatever it began with.
        from_file = script != "train" and prompts[0] == "include 'prompts/from_npy.gin'"
        # These files set a length and other macros, which those of T5X's files follow.
        head += ["include 'prompts/uniform.gin'"] if from_file else prompts
        if "ENCODER_PROMPT_LENGTH" not in macros:  # models, which lines include, set it to 0
            tail.append("ENCODER_PROMPT_LENGTH = %PROMPT_LENGTH")
    lengths = arguments.get(
        "t5x.utils.DatasetConfig.task_feature_lengths", macros.get("TASK_FEATURE_LENGTHS")
    )
    # T5X trims to TASK_FEATURE_LENGTHS. Where they are None, it reads the longest row whole, so
    # that a row which does not fit into ours is an error.
    reads_whole = script != "train" and resolve(lengths, macros) is None
    head.append(f"CUT_POLICY = {'error' if reads_whole else 'end'!r}")
    if script == "train":
        head.append("LOSS_NORMALIZING_FACTOR = 1.0")  # T5X's default: losses are sums
        head.append("LEARNING_RATE_SCHEDULE = @optimizers.factored_rate()")
        if not any(s.selector and s.name == "learning_rate" for s in collected.statements):
            head.append("train.Optimization.learning_rate = %LEARNING_RATE_SCHEDULE")
        _check_rates(collected.statements)
    if collected.modules and not any(s.name == "MIXTURE_OR_TASK_MODULE" and s.value
                                     for s in collected.statements):  # fmt: skip
        if len(set(collected.modules)) > 1:
            raise ConfigError(
                f"gin: imports {' and '.join(dict.fromkeys(collected.modules))}: set "
                "MIXTURE_OR_TASK_MODULE to the module that registers the tasks, which may import "
                "the others."
            )
        log_once(f"MIXTURE_OR_TASK_MODULE = {collected.modules[0]!r}, which the gin files import")
        tail.append(f"MIXTURE_OR_TASK_MODULE = {collected.modules[0]!r}")
    if script == "train":
        tail += evaluation
        tail += _translate_steps(collected.statements, arguments, macros)
    tail += _translate_latest(collected, script, arguments, macros)
    tail += _decode_length(collected.statements, macros)
    lines += _define_renamed("\n".join(lines), macros)
    return Translation(
        "\n".join([*head, *lines, *tail]) + "\n",
        frozenset(unread | collected.standard | _UNREAD_OF_PROMPTS),
    )


def _define_renamed(text: str, macros: Mapping[str, Any]) -> Iterator[str]:
    """Yields macros of T5X's that have another name here, where the files read them."""
    known = set(_MACRO_SET.findall(text))
    pending = set(_MACRO_USE.findall(text)) & macros.keys() - known
    while pending:
        name = pending.pop()
        known.add(name)
        value = macros[name]
        if value is not None and not isinstance(value, Reference) and "%gin" not in repr(value):
            yield f"{name} = {value!r}"
            pending |= set(_MACRO_USE.findall(repr(value))) & macros.keys() - known


def _check_rates(statements: Sequence[Statement]) -> None:
    """Raises ConfigError for macros of our own rates, which T5X's rate does not read."""
    read = {name for s in statements for name in _MACRO_USE.findall(repr(s.value))}
    # A schedule or a recipe of ours may read them.
    if any(
        s.name == "LEARNING_RATE_SCHEDULE" or (s.include and not s.include.startswith(_PARTS))
        for s in statements
    ):
        return
    for statement in statements:
        name = statement.name
        if not statement.selector and name in _OF_OUR_RATES and name not in read:
            raise ConfigError(
                f"gin: {statement.where}: nothing reads the macro {name}; bind "
                f"utils.create_learning_rate_scheduler.{_OF_OUR_RATES[name]}, T5X's name of it."
            )


def _check_decoding(
    statements: Sequence[Statement], arguments: Mapping[str, Any], macros: Mapping[str, Any]
) -> None:
    """Raises ConfigError for several samples of each row, of which T5X takes the best."""
    decoder = getattr(arguments.get("t5x.models.EncoderDecoderModel.decode_fn"), "name", "")
    argument = "t5x.models.EncoderDecoderModel.predict_batch_with_aux.num_decodes"
    names = (argument, ".NUM_BEAMS")  # the latter is of T5X's examples here
    counts = [s for s in statements if f"{s.selector}.{s.name}" in names]
    count = resolve(counts[-1].value, macros) if counts else 1
    if decoder.endswith("temperature_sample") and isinstance(count, int) and count > 1:
        raise ConfigError(
            f"gin: {counts[-1].where}: num_decodes = {count} with @decoding.temperature_sample: "
            f"T5X samples {count} responses and takes the most probable; here one is sampled. Set "
            "num_decodes = 1, or take @decoding.beam_search."
        )


def _translate_evaluation(arguments: Mapping[str, Any], macros: Mapping[str, Any]) -> list[str]:
    """Returns the lines of a training without T5X's train_eval data set.

    Its rows are then those of infer_eval, if these are decoded.
    """
    if arguments.get(_LOSS_DATASET, "") is not None:
        return []
    decoded = arguments.get(_DECODED_DATASET, macros.get("DECODING", ""))
    if decoded is None:
        return ["train.Evaluation.dataset = None"]
    log_once(
        "train_eval_dataset_cfg = None: the rows of infer_eval are decoded; their loss is measured "
        "too, and selects a checkpoint"
    )
    return []


def _find_script(collected: _Collected) -> str:
    """Returns which of T5X's programs the files configure: "train", "eval" or "infer"."""
    scripts = set(collected.runs)
    for statement in collected.statements:
        scripts |= {t5x_counterparts.SCRIPTS.get(statement.selector, "")} - {""}
    if len(scripts) != 1:
        named = ", ".join(sorted(scripts)) or "none of them"
        raise ConfigError(
            "gin: expected a file of T5X's for one of train, eval and infer, got "
            f"{named}; include 't5x/configs/runs/finetune.gin', pretrain.gin, eval.gin or "
            "infer.gin."
        )
    return scripts.pop()


def _decode_length(statements: Sequence[Statement], macros: Mapping[str, Any]) -> Iterator[str]:
    """Yields DECODE_LENGTH: T5X writes as many tokens as the targets may have."""
    lengths = None
    for statement in statements:
        if not statement.selector and statement.name == "DECODE_LENGTH":
            return
        if statement.name.lower() == "task_feature_lengths":
            value = resolve(statement.value, macros)
            lengths = value if isinstance(value, dict | None) else lengths
    if lengths and isinstance(lengths.get("targets"), int):
        yield f"DECODE_LENGTH = {lengths['targets']}"


def _translate_latest(
    collected: _Collected, script: str, arguments: Mapping[str, Any], macros: Mapping[str, Any]
) -> Iterator[str]:
    """Yields the newest step of a MODEL_DIR of ours, where T5X's mode is 'latest'."""
    mode = arguments.get(f"{_RESTORE}.mode", "specific" if collected.runs else "latest")
    macro = "INITIAL_CHECKPOINT_PATH" if script == "train" else "CHECKPOINT_PATH"
    path = _find_checkpoint(macro, arguments, macros)
    if resolve(mode, macros) == "latest" and isinstance(path, str) and not is_remote(path_of(path)):
        folder = path_of(path)
        if is_native(folder) and (folder / "checkpoints").is_dir():
            newest = os.path.join(path, "checkpoints", "newest")
            log_once(f"RestoreCheckpointConfig.mode = 'latest': {macro} = {newest!r}")
            yield f"{macro} = {newest!r}"


def _find_checkpoint(macro: str, arguments: Mapping[str, Any], macros: Mapping[str, Any]) -> Any:
    """Returns the path to restore from, which may be a macro's or the only one of a list.

    The macro itself = the files set none.
    """
    if arguments.get("t5x.utils.CheckpointConfig.restore", "") is None:
        return None
    path = resolve(arguments.get(f"{_RESTORE}.path", Macro(macro)), macros)
    return resolve(path[0], macros) if isinstance(path, list | tuple) and path else path


def _first_step(path: Any) -> int:
    """Returns the step at which T5X would begin: a checkpoint's of T5X's; 0 from others."""
    if not isinstance(path, str):
        return 0
    if step := _STEP.search(path):
        return int(step[1])
    if is_remote(path_of(path)):
        return 0
    try:
        return 0 if is_native(checkpoint_path(path)) else step_of(path) or 0
    except (CheckpointError, OSError):  # the run says what is wrong
        return 0


def _translate_steps(
    statements: Sequence[Statement], arguments: Mapping[str, Any], macros: Mapping[str, Any]
) -> Iterator[str]:
    """Yields TRAIN_STEPS as the steps of this run, and the step that T5X would begin with."""
    path = _find_checkpoint("INITIAL_CHECKPOINT_PATH", arguments, macros)
    fine_tunes = any(s.where in t5x_counterparts.FINE_TUNING for s in statements)
    if fine_tunes and getattr(path, "name", "") == "INITIAL_CHECKPOINT_PATH":
        raise ConfigError(
            "INITIAL_CHECKPOINT_PATH must be set, as T5X's finetune.gin requires: add "
            "--gin.INITIAL_CHECKPOINT_PATH=CHECKPOINT, or =None to begin with random parameters."
        )
    if path is None or (isinstance(path, str) and f"{_RESTORE}.path" in arguments):
        yield f"INITIAL_CHECKPOINT_PATH = {path!r}"  # the argument's, not the macro's
    # Arguments that are bound come before the macros that T5X's files bind to them.
    total, relative = (
        resolve(arguments.get(f"__main__.train.{argument}", Macro(macro)), macros)
        for argument, macro in (
            ("total_steps", "TRAIN_STEPS"), ("relative_steps", "TRAIN_STEPS_RELATIVE")
        )
    )  # fmt: skip
    first = _first_step(path)
    if first:
        yield "train.Optimization.counts_from_0 = False"
    yield f"optimizers.factored_rate.first_step = {first}"
    if "DECODED_EVAL_PERIOD" not in macros:  # T5X decodes whenever it evaluates
        yield "DECODED_EVAL_PERIOD = %EVAL_PERIOD"
    if isinstance(relative, int):
        yield f"TRAIN_STEPS = {relative}"
    elif isinstance(total, int) and not first:
        yield f"TRAIN_STEPS = {total}"
    elif isinstance(total, int):
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
        yield f"TRAIN_STEPS = {total - first}"
