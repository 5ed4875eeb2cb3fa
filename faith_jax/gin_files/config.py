"""Our gin files, in T5X's dialect: search paths, macros as `--gin.NAME=value`, clear errors.

Files that were written for T5X itself are first translated into ours (`translate_t5x`).
"""

import ast
import contextlib
import enum
import functools
import inspect
import io
import logging
import operator
import os
import pathlib
import re
import tokenize
import traceback
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gin

from faith_jax.core.errors import ConfigError, FaithJaxError, did_you_mean, storage_failure
from faith_jax.core.files.stores import is_folder, is_remote, path_of
from faith_jax.core.progress import log_once
from faith_jax.core.settings import check_value, describe_type, how_to_quote
from faith_jax.gin_files import t5x_files, t5x_statements, translate_t5x
from faith_jax.gin_files.former_names import with_present_names
from faith_jax.gin_files.safety import IMPORTABLE, check_calls, check_imports, check_macros_end
from faith_jax.gin_files.values import PARSE_ERRORS, gin_problem, parse_statements

logger = logging.getLogger("faith_jax")
_CHECKED = (int, float, bool, str, type(None))
_MACRO = re.compile(r"^[A-Za-z_]\w*$")
_REQUIRED = "%gin.REQUIRED"  # gin's repr of the value
_MACRO_USE = re.compile(r"%([A-Za-z_][A-Za-z0-9_.]*)")
_texts: dict[str, str] = {}  # texts of the user's files and bindings parsed last, by name
_MACRO_SET = re.compile(r"^([A-Za-z_]\w*)\s*=", re.MULTILINE)
_GIN_ERRORS = (
    ValueError, SyntaxError, OSError, ImportError, LookupError, NameError, TypeError,
    AttributeError,
)  # fmt: skip


def config_folder() -> pathlib.Path:
    """Returns the folder of the library's own gin files."""
    import faith_jax.gin_configs

    return pathlib.Path(faith_jax.gin_configs.__path__[0])


def parse(
    gin_files: Sequence[str],
    bindings: Sequence[str],
    search_paths: Sequence[str] = (),
    allow: Sequence[str] = (),
    unused: Mapping[str, Any] | None = None,
    uncalled: Mapping[str, Any] | None = None,
) -> None:
    """Parses gin files and bindings, as T5X's launcher does; mistakes are ConfigErrors.

    A gin file can call anything that it names. It may therefore import and name only modules and
    functions that `safety` lists or `allow` adds. The user's own macros must be used somewhere.

    Args:
      gin_files: paths that are absolute, or relative to the working folder, to a search path or to
        the library's own gin_configs folder; later files override earlier ones.
      bindings: "NAME=value" or "module.function.argument=value", which override the files.
      search_paths: folders to look in before the library's own.
      allow: further modules, with all their contents, or names of functions.
      unused: values for required macros that the job does not use, in case they are not set.
      uncalled: values for macros that files set to the result of a function.
    """
    gin.clear_config()
    log_once.cache_clear()
    _texts.clear()
    gin.config._LOCATION_PREFIXES[:] = [""]  # gin keeps search paths for the process's lifetime
    # Gin's own reader also tries 'runs/train.gin' as a file of a Python package `runs`, and fails
    # if the working folder has a folder of that name.
    user_macros: dict[str, str] = {}  # macros of the user's files, with the files
    reading: list[str] = []  # the open files, each included by the one before
    read = functools.partial(
        _open_gin_file, allowed=allow, user_macros=user_macros, reading=reading
    )
    gin.config._FILE_READERS[:] = [(read, _is_file)]
    for path in search_paths:
        if not is_folder(path):
            raise ConfigError(f"--gin_search_paths: {path}: no such folder.")
    paths = [*search_paths, str(config_folder())]
    for path in paths:
        gin.add_config_file_search_path(path)
    for name in gin_files:
        if t5x_files.stand_in(name) is None:
            _check_file(name, paths)
    translated = translate_t5x.translate(
        gin_files, [quote_value(b) for b in bindings], functools.partial(_users_file, paths)
    )
    # Gin logs an error for each search path that lacks the file.
    logging.getLogger().addFilter(_is_not_a_missed_search_path)
    where = ""
    try:
        if translated is not None:
            gin.parse_config(translated.text)
            gin_files, bindings = (), ()
            user_macros |= translated.macros
        gin.parse_config_files_and_bindings(list(gin_files), [], finalize_config=False)
        _check_bindings(bindings)
        for binding in bindings:
            _texts[f"--gin.{binding.partition('=')[0]}"] = binding
            where = f"--gin.{binding}: "
            _check_closed(quote_value(binding), f"--gin.{binding}")
            check_imports(binding, f"--gin.{binding}", allow)
            gin.parse_config(with_present_names(quote_value(binding)))
    except ConfigError:
        raise
    except RecursionError:
        raise ConfigError(f"gin: {where or ', '.join(gin_files)}: nested too deeply.") from None
    except _GIN_ERRORS as error:
        raise ConfigError(where + _gin_message(error, paths)) from None
    finally:
        logging.getLogger().removeFilter(_is_not_a_missed_search_path)
    check_calls(allow)
    check_macros_end()
    for name, value in (unused or {}).items():
        if repr(_read_macros().get(name)) == _REQUIRED:
            gin.parse_config(f"{name} = {value!r}")
    for name, value in (uncalled or {}).items():
        macros = _read_macros()
        # Follow a chain of macros to its last: A = %B, B = @count().
        while repr(macros.get(name)).startswith("%"):
            name = repr(macros[name])[1:]
        if repr(macros.get(name)).startswith("@"):
            gin.parse_config(f"{name} = {value!r}")
    _check_macros(user_macros)
    _check_types()
    gin.finalize()


def _users_file(paths: Sequence[str], name: str) -> tuple[str, str] | None:
    """Returns path and text of a gin file of the user; None for the library's own."""
    places = [name, *(os.path.join(path, name) for path in paths)]
    file = next(filter(_is_file, places), None)
    if file is None and name.partition("/")[0] not in t5x_statements.ROOTS:
        _check_file(name, paths)
    if file is None or pathlib.Path(file).resolve().is_relative_to(config_folder().resolve()):
        return None
    try:
        return file, with_present_names(path_of(file).read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        return None  # `_open_gin_file` reports it


def _is_file(path: str) -> bool:
    return path_of(path).is_file()


def _open_gin_file(
    path: str, allowed: Sequence[str], user_macros: dict[str, str], reading: list[str]
) -> typing.TextIO:
    """Opens a gin file for gin, reporting truncated files and those not in UTF-8, as gin does not.

    Forbidden imports are reported before they run. Adds the file's macros to `user_macros`, unless
    the file is the library's, and its path to `reading` until it is closed.
    """
    if path in reading:
        circle = " includes ".join([*reading[reading.index(path) :], path])
        raise ConfigError(f"gin: files include each other in a circle: {circle}.")
    try:
        text = path_of(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"gin: {path}: expected a text in UTF-8, got byte {error.object[error.start]:#04x} at "
            f"{error.start}."
        ) from None
    _check_closed(text, f"gin: {path}")
    check_imports(text, f"gin: {path}", allowed)
    if is_remote(path_of(path)) or not pathlib.Path(path).resolve().is_relative_to(
        config_folder().resolve()
    ):
        user_macros |= dict.fromkeys(_MACRO_SET.findall(text), path)
        _texts[path] = text
    return _NamedText(with_present_names(text), path, reading)


class _NamedText(io.StringIO):
    """A text with the name of its file for gin's errors; `reading` has the names of open files."""

    def __init__(self, text: str, name: str, reading: list[str]):
        super().__init__(text)
        self.name, self._reading = name, reading
        reading.append(name)

    def close(self) -> None:
        """Removes the file's name from `reading`."""
        if not self.closed:
            self._reading.remove(self.name)
        super().close()


def _check_closed(text: str, where: str) -> None:
    """Raises ConfigError for a text that leaves a bracket or a quotation open."""
    try:
        for _ in tokenize.generate_tokens(io.StringIO(text).readline):
            pass
    except tokenize.TokenError as error:
        is_deep = "too many nested" in str(error)  # from Python 3.12 on
        fault = "nested too deeply" if is_deep else "a bracket or a quotation is not closed"
        raise ConfigError(f"{where}: {fault}.") from None
    except SyntaxError:
        pass  # gin reports it with its line


def _is_not_a_missed_search_path(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Path not found")


def run(function: Callable[..., Any], **more: Any) -> Any:
    """Calls a run's function with the arguments that gin binds to it, and with `more`."""
    configured = _with_gin_arguments(function)
    if configured is None:
        name = function.__name__
        raise ConfigError(
            f"The gin files configure no `{name}`; include runs/{name}.gin or a recipe."
        )
    with _blaming_configurables(function):
        return configured(**more)


def arguments_of(function: Callable[..., Any]) -> dict[str, Any] | None:
    """Returns the arguments that a run would get, with its defaults; None if gin binds none.

    References that gin evaluates are called for this.
    """
    configured = _with_gin_arguments(function)
    with _blaming_configurables(function):
        bound = gin.get_bindings(configured) if configured else {}
    parameters = inspect.signature(function).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
    return {**defaults, **bound} if bound else None


@contextlib.contextmanager
def _blaming_configurables(run: Callable[..., Any]) -> Iterator[None]:
    """Turns errors of a run's configurables that values in gin files caused into ConfigErrors.

    These are errors raised by functions of other packages that gin calls, and by calls that fail
    because the arguments do not fit. Errors raised inside the run itself, inside our functions or
    inside those of the user's modules are not mistakes in a gin file.
    """
    try:
        yield
    except Exception as error:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        calls = [place for place, f in enumerate(frames) if f.f_code.co_name == "gin_wrapper"]
        if isinstance(error, FaithJaxError) or storage_failure(error) or not calls:
            raise
        call = frames[calls[-1]].f_locals
        configurable = call["fn_or_cls"]
        package = (getattr(configurable, "__module__", None) or "").partition(".")[0]
        is_called = any(
            not f.f_globals.get("__name__", "").startswith("gin.") for f in frames[calls[-1] :]
        )
        is_others = package in IMPORTABLE and package != "faith_jax"
        if configurable is run or (is_called and not is_others):
            raise
        message = " ".join(str(error).partition("\n")[0].split()).removesuffix(".")
        name = gin.config._REGISTRY.minimal_selector(call["selector"])
        raise ConfigError(
            f"gin: {_describe_place(call['name'])}@{name} cannot be called with what gin files "
            f"set: {type(error).__name__}: {message}."
        ) from error


def _describe_place(name: str) -> str:
    """Returns file and line of the last reference to a configurable; "" = no reference."""
    place = ""
    reference = re.compile(rf"@(?:[\w./]*[./])?{re.escape(name.rpartition('.')[2])}\b")
    for file, text in _texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            if reference.search(line.partition("#")[0]):
                place = f"{file}: " if file.startswith("--") else f"{file}, line {number}: "
    return place


def _with_gin_arguments(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Returns a function with gin's arguments applied; None if gin does not know the function."""
    is_named = gin.config._inverse_lookup(function) is not None
    return gin.get_configurable(function) if is_named else None


def quote_value(binding: str) -> str:
    """Returns "NAME=value", quoting a value that is not a Python literal.

    The shell removes quotes: --gin.MODEL_DIR="runs/a" arrives as runs/a. References (@name) and
    macros (%NAME) stay as they are.
    """
    name, _, value = binding.partition("=")
    if value.lstrip()[:1] not in ("@", "%"):
        try:
            literal = ast.literal_eval(value.strip())
            return f"{name}={literal!r}" if isinstance(literal, tuple) else binding  # 1,0 as (1, 0)
        except TypeError:
            return binding  # a key that cannot be one: parsing the binding says so
        except (ValueError, SyntaxError):
            try:  # succeeds for references and macros in a list, say, but not for 'train[:9%]'
                list(parse_statements(f"value = {value}"))
            except PARSE_ERRORS:
                return f"{name}={value.strip()!r}"
    return binding


def _check_file(name: str, paths: Sequence[str]) -> None:
    if _is_file(name) or any(_is_file(os.path.join(p, name)) for p in paths):
        return
    names = [str(file) for file in path_of(name).parent.glob("*.gin")]
    names += [
        str(file.relative_to(path))
        for path in paths
        if is_folder(path)
        for file in path_of(path).rglob("*.gin")
    ]
    # The name may be the path of a T5X file in a copy of T5X that is not installed here.
    stand_ins = [n for n in t5x_files.stand_in_names() if name.endswith(f"/{n}")]
    near = f" Did you mean {stand_ins[0]!r}?" if stand_ins else did_you_mean(name, names)
    raise ConfigError(f"There is no gin file {name!r}.{near}")


def _read_macros() -> dict[str, Any]:
    """Returns the values of all macros; gin keeps them as scopes of one configurable."""
    return {
        scope: values.get("value")
        for (scope, selector), values in gin.config._CONFIG.items()
        if selector == "gin.macro"
    }


def _list_used_macros() -> set[str]:
    return set(_MACRO_USE.findall(gin.config_str()))


def _check_bindings(bindings: Sequence[str]) -> None:
    macros = set(_read_macros()) | _list_used_macros()
    for name in (binding.partition("=")[0].strip() for binding in bindings):
        if _MACRO.match(name) and name not in macros:
            raise ConfigError(
                f"--gin.{name}: no gin file knows this macro.{did_you_mean(name, macros)}"
            )


def _check_macros(user_macros: Mapping[str, str]) -> None:
    """Raises ConfigError for a macro without a value, or for an unused macro of a user's file.

    `user_macros` has the macros of the user's files, with the files.
    """
    values, used = _read_macros(), _list_used_macros()
    unset = sorted(n for n, v in values.items() if repr(v) == _REQUIRED)
    if unset:
        flags = " ".join(f"--gin.{name}=…" for name in unset)
        raise ConfigError(f"{', '.join(unset)} must be set: add {flags}")
    for name in sorted(used - set(values)):
        if not gin.config._CONSTANTS.matching_selectors(name):
            hint = did_you_mean(name, values)
            if name == "MODEL":
                hint = " Add a model, such as --gin_file=models/t5_1_1_base.gin."
            raise ConfigError(f"The macro %{name} is used but has no value.{hint}")
    for name in sorted(user_macros.keys() - used):
        hint = did_you_mean(name, used)
        raise ConfigError(f"gin: {user_macros[name]}: nothing reads the macro {name}.{hint}")


def _check_types() -> None:
    """Checks the type, and the range if annotated, of arguments that gin files set."""
    macros = _read_macros()
    for (_, selector), values in gin.config._CONFIG.items():
        if selector == "gin.macro":
            continue
        configurable: Any = gin.config._REGISTRY[selector].wrapped
        function = configurable.__init__ if inspect.isclass(configurable) else configurable
        try:
            hints = typing.get_type_hints(function, include_extras=True)
        except (NameError, TypeError, AttributeError):  # the hints cannot be resolved
            hints = {}
        for argument, value in values.items():
            name, hint = f"{selector}.{argument}", hints.get(argument)
            macro = _MACRO_USE.fullmatch(repr(value))
            if macro is not None:
                name, value = macro.group(1), macros.get(macro.group(1))
            is_union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
            parts = typing.get_args(hint) if is_union else (hint,)
            kinds = [_strip_annotation(part) for part in parts]
            if isinstance(value, gin.config.ConfigurableReference):
                _check_reference(name, value, hint, kinds)
                continue
            if all(typing.get_origin(kind) is Sequence or kind is type(None) for kind in kinds):
                is_none = value is None and type(None) in kinds
                if not isinstance(value, str | list | tuple) and not is_none:
                    raise ConfigError(f"{name}: expected a list such as ('a', 'b'), got {value!r}.")
                continue
            if not all(kind in _CHECKED or _is_ours(kind) for kind in kinds):
                continue
            written = [part for part in parts if _strip_annotation(part) in _CHECKED]
            if (written == [type(None)] and value is not None) or not written:
                raise ConfigError(f"{name}: expected a reference such as @NAME(), got {value!r}.")
            try:
                check_value(name, value, functools.reduce(operator.or_, written))
            except ConfigError as error:
                remedy = how_to_quote(name, value) if str in written else ""
                raise ConfigError(f"{str(error).removesuffix('.')}{remedy}.") from None


def _check_reference(
    name: str, reference: gin.config.ConfigurableReference, hint: Any, kinds: Sequence[Any]
) -> None:
    """Raises ConfigError for a reference that cannot yield a value of an argument's kinds.

    A called function is not checked, as its result is not known yet.
    """
    configurable = reference.configurable.wrapped
    if hint is None or Any in kinds or not all(map(inspect.isclass, kinds)):
        return
    if any(getattr(kind, "_is_protocol", False) for kind in kinds):
        return
    if not reference.evaluate:
        if not isinstance(configurable, tuple(kinds)):
            raise ConfigError(
                f"{name}: {reference!r} is the function itself; to call it, write {reference!r}()."
            )
    elif inspect.isclass(configurable) and all(kind in _CHECKED for kind in kinds):
        raise ConfigError(f"{name}: expected {describe_type(hint)}, got {reference!r}.")


def _is_ours(kind: Any) -> bool:
    """Returns whether values of a type can only be referred to in gin, not written."""
    if inspect.isclass(kind) and not issubclass(kind, enum.Enum):
        return kind.__module__.partition(".")[0] in IMPORTABLE
    return typing.get_origin(kind) is Callable


def _strip_annotation(hint: Any) -> Any:
    """Returns a type without annotations such as a range."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint


def _gin_message(error: BaseException, paths: Sequence[str]) -> str:
    """Returns gin's error as one line, suggesting near names if a file is not found."""
    text = gin_problem(str(error))
    missing = re.search(r"[Uu]nable to (?:open|find) file:? ?'?([^ ',]+?)[.]?(?:[ ',]|$)", text)
    if missing:
        _check_file(missing.group(1), paths)
    return f"gin: {text}"
