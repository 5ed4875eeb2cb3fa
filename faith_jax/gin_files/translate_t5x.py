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

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.gin_files import t5x_counterparts
from faith_jax.gin_files.log_once import log_once

logger = logging.getLogger("faith_jax")

_ROOTS = ("t5x", "prompt_tuning", "__main__", "t5", "flaxformer")
# T5X's files import these too; they are dropped from a translated file.
_BESIDE = (*_ROOTS, "seqio", "clu", "jax", "flax", "__gin__", "gin")
_STEP = re.compile(r"checkpoint_(\d+)/*$")
_MACRO_USE = re.compile(r"%([A-Za-z_]\w*)")


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
        collected.add_text(binding, f"--gin.{binding}")
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

    def add_file(self, name: str, where: str) -> None:
        """Adds a file's statements: the user's, a counterpart's, or an include of ours."""
        if (counterpart := t5x_counterparts.of_file(name)) is not None:
            if counterpart.run:
                self.runs.append(counterpart.run)
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

    def add_text(self, text: str, path: str) -> None:
        """Adds the statements of a text."""
        aliases: dict[str, str] = {}
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
    lines: list[str] = []
    dropped: set[str] = set()
    # The decoder's defaults come before what the files set, wherever they name it.
    for statement in sorted(collected.statements, key=lambda s: s.name != "decode_fn"):
        if statement.include:
            # Where nothing is trained, the prompt is the checkpoint's, whatever it began with.
            from_file = script != "train" and statement.include == "prompts/from_npy.gin"
            include = "prompts/uniform.gin" if from_file else statement.include
            lines.append(f"include {include!r}")
            continue
        counterpart_lines = t5x_counterparts.counterpart(statement, script, roles, macros)
        lines += counterpart_lines
        if not counterpart_lines:
            dropped.update(_MACRO_USE.findall(repr(statement.value)), [statement.name])
    head = ["from __gin__ import dynamic_registration", *t5x_counterparts.IMPORTS]
    head += dict.fromkeys(collected.imports.values())
    head += [f"include {name!r}" for name in t5x_counterparts.RUN_FILES[script]]
    includes = [statement.include for statement in collected.statements]
    if any(s.selector == t5x_counterparts.T5_CONFIG for s in collected.statements) and not any(
        name.startswith("models/") for name in includes
    ):
        head.append("include 'models/t5_1_1.gin'")  # the files say all that T5X's model files would
    if script == "train":
        head.append("LOSS_NORMALIZING_FACTOR = 1.0")  # T5X's default: losses are sums
    tail = []
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
        tail += _translate_steps(collected.statements)
    tail += _decode_length(collected.statements)
    return Translation(
        "\n".join([*head, *lines, *tail]) + "\n",
        frozenset(dropped | collected.standard | {"PROMPT_MOST_FREQUENT"}),
    )


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


def _decode_length(statements: Sequence[Statement]) -> Iterator[str]:
    """Yields DECODE_LENGTH: T5X writes as many tokens as the targets may have."""
    lengths = None
    for statement in statements:
        if not statement.selector and statement.name == "DECODE_LENGTH":
            return
        if statement.name.lower() == "task_feature_lengths" and isinstance(statement.value, dict):
            lengths = statement.value
    if lengths and isinstance(lengths.get("targets"), int):
        yield f"DECODE_LENGTH = {lengths['targets']}"


def _translate_steps(statements: Sequence[Statement]) -> Iterator[str]:
    """Yields TRAIN_STEPS as the steps of this run, and the step that T5X would begin with."""
    values = {s.name: s.value for s in statements if not s.selector and not s.include}
    for statement in statements:  # bindings that name the argument itself
        argument = f"{statement.selector}.{statement.name}"
        macro = {
            "__main__.train.total_steps": "TRAIN_STEPS",
            "__main__.train.relative_steps": "TRAIN_STEPS_RELATIVE",
            "t5x.utils.RestoreCheckpointConfig.path": "INITIAL_CHECKPOINT_PATH",
        }.get(argument)
        if macro and not isinstance(statement.value, Macro):
            values[macro] = statement.value
    fine_tunes = any(s.where in t5x_counterparts.FINE_TUNING for s in statements)
    if fine_tunes and "INITIAL_CHECKPOINT_PATH" not in values:
        raise ConfigError(
            "INITIAL_CHECKPOINT_PATH must be set, as T5X's finetune.gin requires: add "
            "--gin.INITIAL_CHECKPOINT_PATH=CHECKPOINT, or =None to begin with random parameters."
        )
    path, relative = values.get("INITIAL_CHECKPOINT_PATH"), values.get("TRAIN_STEPS_RELATIVE")
    total = values.get("TRAIN_STEPS")
    step = _STEP.search(os.fspath(path)) if isinstance(path, str) else None
    first = int(step[1]) if step else 0
    if first:
        yield "train.Optimization.counts_from_0 = False"
    yield f"optimizers.factored_rate.first_step = {first}"
    if "DECODED_EVAL_PERIOD" not in values:  # T5X decodes whenever it evaluates
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
