"""The statements of gin files written for T5X, in gin's own order: the last one wins."""

import dataclasses
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from gin import config_parser

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.core.progress import log_once
from faith_jax.gin_files.t5x_files import stand_in, stand_in_names
from faith_jax.gin_files.values import (
    PARSE_ERRORS,
    Macro,
    Reference,
    gin_problem,
    parse_statements,
    resolve,
)

ROOTS = (
    "t5x", "prompt_tuning", "__main__", "t5", "flaxformer", "t5x_retrieval", "mesh_tensorflow"
)  # fmt: skip
# T5X's files also import these modules; the imports are dropped from a translated file.
_BESIDE = (*ROOTS, "seqio", "clu", "jax", "flax", "__gin__", "gin")
_SAME_NETWORK = re.compile(r"^t5x\.(examples\.scalable_t5|contrib\.gpu\.t5)\.")
_MACRO_USE = re.compile(r"%([A-Za-z_]\w*)")
# Returns the path and the text of a gin file of the user; None for other files.
Read = Callable[[str], tuple[str, str] | None]


class Statement(NamedTuple):
    """A binding of a file, or an include of one of our own files.

    Attributes:
      where: file and line, for errors.
      scope: the scope, such as "train" in `train/utils.DatasetConfig.split`.
      selector: the full name, such as "t5x.utils.DatasetConfig"; "" = a macro.
      name: the argument, or the macro.
      value: the value as `parse_statements` returns it, with full names.
      include: one of our files.
      is_users: whether the statement comes from the user, not from a T5X file.
    """

    where: str
    scope: str = ""
    selector: str = ""
    name: str = ""
    value: Any = None
    include: str = ""
    is_users: bool = True


def is_t5x(text: str) -> bool:
    """Returns whether a gin file configures T5X's trainer, judging by its imports and includes."""
    for statement in _parse_text(text, "", quietly=True):
        if isinstance(statement, config_parser.ImportStatement):
            if statement.module.split(".")[0] in ROOTS:
                return True
        elif (
            isinstance(statement, config_parser.IncludeStatement)
            and stand_in(statement.filename) is not None
        ):
            return True
    return False


def is_written_for_t5x(name: str, read: Read, seen: list[str]) -> bool:
    """Returns whether a gin file, or a file that it includes, configures T5X's trainer."""
    if stand_in(name) is not None:
        return True
    opened = None if name in seen else read(name)
    seen.append(name)
    if opened is None:
        return False
    included = re.findall(r"^include\s+['\"]([^'\"]+)['\"]", opened[1], re.MULTILINE)
    return is_t5x(opened[1]) or any(is_written_for_t5x(each, read, seen) for each in included)


class T5XConfig:
    """The configuration that results from files and bindings, read one after the other as by gin.

    Args:
      read: opens the files.
      configurables: full names, which files may abbreviate by leaving out modules.

    Attributes:
      read_macros: macros that any statement reads, even one that was replaced later.
      imports: statements that import our own modules, by the names that they bind.
      modules: the user's modules, which register tasks.
    """

    def __init__(self, read: Read, configurables: Collection[str]):
        self._read, self._configurables = read, configurables
        self._reading = list[str]()  # the open files, each included by the one before
        self._aliases: dict[str, str] = {}  # modules by their names in the files
        self._last: dict[tuple[str, str, str], Statement] = {}
        self.read_macros: set[str] = set()
        self.imports: dict[str, str] = {}
        self.modules: list[str] = []

    @property
    def statements(self) -> list[Statement]:
        """The statements in effect, in the order of the files."""
        return list(self._last.values())

    @property
    def macros(self) -> dict[str, Any]:
        """The values of macros."""
        return {s.name: s.value for s in self.statements if not s.selector and not s.include}

    def argument(self, name: str, default: Any = None) -> Any:
        """Returns an argument's value outside of scopes, with macros replaced by their values."""
        selector, _, argument = name.rpartition(".")
        statement = self._last.get(("", selector, argument))
        return default if statement is None else resolve(statement.value, self.macros)

    def origin(self, statement: Statement) -> str:
        """Returns the place where a statement's value is written, following macros."""
        for _ in self._last:  # bounded, in case macros refer to each other in a circle
            if isinstance(statement.value, Macro):
                statement = self._last.get(("", "", statement.value.name), statement)
        return statement.where

    def is_seen_in(self, scope: str, statement: Statement) -> bool:
        """Returns whether a statement applies in a scope: no scoped statement overrides it."""
        place = (scope, statement.selector, statement.name)
        return statement.scope == scope or (not statement.scope and place not in self._last)

    def is_reached(self, statement: Statement, roots: Collection[str]) -> bool:
        """Returns whether arguments of `roots` refer, even indirectly, to what a statement sets."""
        pending = [s for s in self.statements if s.selector in roots]
        reached = set[str]()
        while pending:
            value = resolve(pending.pop().value, self.macros)
            if not isinstance(value, Reference) or value.name in reached:
                continue
            reached.add(value.name)
            scope, _, name = value.name.rpartition("/")
            if name == statement.selector and self.is_seen_in(scope, statement):
                return True
            pending += [s for s in self.statements
                        if s.selector == name and self.is_seen_in(scope, s)]  # fmt: skip
        return False

    def is_entered(self, scope: str) -> bool:
        """Returns whether anything refers to a configurable with this scope."""
        return any(f"@{scope}/" in repr(statement.value) for statement in self.statements)

    def add_file(self, name: str, where: str, is_users: bool = True) -> None:
        """Adds the statements of a file, or an include if it is one of our files."""
        text, opened = stand_in(name), self._read(name)
        if text is not None:
            if opened is not None:
                log_once(
                    f"{where}: {name} stands for T5X's file of this name; {opened[0]} is not read. "
                    "Give it another name if you changed it."
                )
            self.add_text(text, name, is_users=False)
        elif opened is not None:
            path, text = opened
            if path in self._reading:
                circle = " includes ".join([*self._reading[self._reading.index(path) :], path])
                raise ConfigError(f"gin: files include each other in a circle: {circle}.")
            self._reading.append(path)
            self.add_text(text, path)
            self._reading.remove(path)
        elif (root := name.partition("/")[0]) in ROOTS:
            counterparts = [n for n in stand_in_names() if n.startswith(f"{root}/")]
            raise ConfigError(
                f"gin: {where}: include '{name}': there is no counterpart of this file here."
                f"{did_you_mean(name, counterparts)} docs/t5x.md lists those that have one."
            )
        else:
            self._add_statement(Statement(where, include=name, is_users=is_users))

    def add_binding(self, binding: str) -> None:
        """Adds a binding of the command line, which may use the files' names for modules."""
        self.add_text(binding, f"--gin.{binding}", self._aliases)

    def add_text(
        self, text: str, path: str, modules: Mapping[str, str] | None = None, is_users: bool = True
    ) -> None:
        """Adds the statements of a text; `modules` are names that it may use without an import."""
        aliases = dict(modules or {})
        for statement in _parse_text(text, path):
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
                self.add_file(statement.filename, where, is_users)
            elif isinstance(statement, config_parser.BindingStatement):
                scope, selector, name = statement.scope, "", statement.arg_name
                if statement.selector and name:
                    selector = self._full_name(statement.selector, aliases)
                else:  # a macro: NAME = value
                    scope, name = "", statement.selector or name
                value = self._with_full_names(statement.value, aliases)
                self._add_statement(
                    Statement(where, scope, selector, name, value, is_users=is_users)
                )
        self._aliases |= aliases

    def _add_statement(self, statement: Statement) -> None:
        place = (statement.scope, statement.selector, statement.include or statement.name)
        self._last.pop(place, None)  # a repeated binding moves to the end
        self._last[place] = statement
        self.read_macros |= set(_MACRO_USE.findall(repr(statement.value)))

    def _full_name(self, selector: str, aliases: Mapping[str, str]) -> str:
        """Returns the name of a configurable with its module, resolved by the file's imports."""
        first, _, rest = selector.partition(".")
        if first in aliases:
            full = f"{aliases[first]}.{rest}" if rest else aliases[first]
            # All variants are one network: scanning its layers is an argument of the configuration.
            return re.sub(_SAME_NETWORK, "t5x.examples.t5.", full)
        names = [n for n in self._configurables if f".{n}".endswith(f".{selector}")]
        return min(names, key=len, default=selector)

    def _with_full_names(self, value: Any, aliases: Mapping[str, str]) -> Any:
        """Returns a value whose references have full names, except those to our own modules."""
        if isinstance(value, Reference):
            scope, _, name = value.name.rpartition("/")
            full = self._full_name(name, aliases)
            name = name if full.startswith("faith_jax.") else full
            return dataclasses.replace(value, name=f"{scope}/{name}" if scope else name)
        if isinstance(value, list | tuple):
            return type(value)(self._with_full_names(each, aliases) for each in value)
        if isinstance(value, dict):
            return {key: self._with_full_names(each, aliases) for key, each in value.items()}
        return value


def _parse_text(text: str, path: str, quietly: bool = False) -> Iterator[Any]:
    try:
        yield from parse_statements(text)
    except (*PARSE_ERRORS, RecursionError) as error:
        if quietly:
            return
        if isinstance(error, RecursionError):
            raise ConfigError(f"gin: {path}: nested too deeply.") from None
        place = f"{path}, line {error.lineno}" if isinstance(error, SyntaxError) else path
        raise ConfigError(f"gin: {place}: {gin_problem(str(error.args[0]))}") from None
