"""Gin in T5X's dialect: files, search paths, macros as `--gin.NAME=value`, and clear errors."""

import ast
import inspect
import io
import logging
import os
import pathlib
import re
import tokenize
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

import gin

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.runs.renamed import with_present_names

_MACRO = re.compile(r"^[A-Z][A-Z0-9_]*$")
_MACRO_USE = re.compile(r"%([A-Za-z_][A-Za-z0-9_.]*)")


def config_folder() -> pathlib.Path:
    """Returns the folder of the gin files that come with the library."""
    import faith_jax.gin_configs

    return pathlib.Path(faith_jax.gin_configs.__path__[0])


def parse(
    gin_files: Sequence[str], bindings: Sequence[str], search_paths: Sequence[str] = ()
) -> None:
    """Parses gin files and bindings, as T5X's launcher does.

    Args:
      gin_files: paths, absolute, relative to the working folder, to a search path or to the
        library's own gin_configs folder; later ones override earlier ones.
      bindings: "NAME=value" or "module.function.argument=value", which override the files.
      search_paths: folders to look in before the library's own.

    Raises:
      ConfigError: on a missing file, a syntax error, an unknown macro or a required one that
        has no value.
    """
    gin.clear_config()
    gin.config._LOCATION_PREFIXES[:] = [""]  # gin keeps search paths for the process's lifetime
    # Gin would also take 'runs/train.gin' for a file of a Python package `runs`, and break where
    # the working folder has a folder of that name.
    gin.config._FILE_READERS[:] = [(_opened, os.path.isfile)]
    paths = [*search_paths, str(config_folder())]
    for path in paths:
        gin.add_config_file_search_path(path)
    for name in gin_files:
        _check_file(name, paths)
    # Gin logs an error for each search path that does not hold a file.
    logging.getLogger().addFilter(_is_not_a_missed_search_path)
    where = ""
    try:
        gin.parse_config_files_and_bindings(list(gin_files), [], finalize_config=False)
        _check_bindings(bindings)
        for binding in bindings:
            where = f"--gin.{binding}: "
            _check_closed(quoted(binding), f"--gin.{binding}")
            gin.parse_config(with_present_names(quoted(binding)))
    except ConfigError:
        raise
    except (
        ValueError,
        SyntaxError,
        OSError,
        ImportError,
        LookupError,
        NameError,
        TypeError,
    ) as error:
        raise ConfigError(where + _gin_message(error, paths)) from None
    finally:
        logging.getLogger().removeFilter(_is_not_a_missed_search_path)
    _check_macros()
    _check_types()
    gin.finalize()


def _opened(path: str) -> typing.TextIO:
    """Opens a gin file for gin, which names neither a file that is cut off nor one not in UTF-8."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"gin: {path}: expected a text in UTF-8, got byte {error.object[error.start]:#04x} at "
            f"{error.start}."
        ) from None
    _check_closed(text, f"gin: {path}")
    file = _Text(with_present_names(text))
    file.name = path
    return file


class _Text(io.StringIO):
    """A text with the name of its file, which gin tells in errors."""

    name: str


def _check_closed(text: str, where: str) -> None:
    """Checks that what a text opens, it closes.

    Raises:
      ConfigError: naming where the text is from.
    """
    try:
        for _ in tokenize.generate_tokens(io.StringIO(text).readline):
            pass
    except tokenize.TokenError:
        raise ConfigError(f"{where}: a bracket or a quotation is not closed.") from None
    except SyntaxError:
        pass  # gin says it with the line


def _is_not_a_missed_search_path(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Path not found")


def run(function: Callable[..., Any], **more: Any) -> Any:
    """Calls a run with the arguments that gin binds to it, and more.

    Raises:
      ConfigError: where the gin files bind nothing to it.
    """
    try:
        return gin.get_configurable(function)(**more)
    except ValueError as error:
        if isinstance(error, ConfigError) or "No configurable matching" not in str(error):
            raise
    name = function.__name__
    raise ConfigError(f"The gin files configure no `{name}`; include runs/{name}.gin or a recipe.")


def quoted(binding: str) -> str:
    """Returns "NAME=value" with a value that is no Python literal made a string.

    A shell eats quotes, so that --gin.MODEL_DIR="runs/a" arrives as runs/a. References (@name)
    and macros (%NAME) stay as they are.
    """
    name, _, value = binding.partition("=")
    if value.lstrip()[:1] not in ("@", "%"):
        try:
            ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            if "@" not in value and "%" not in value:
                return f"{name}={value.strip()!r}"
    return binding


def _check_file(name: str, paths: Sequence[str]) -> None:
    if os.path.isfile(name) or any(os.path.isfile(os.path.join(p, name)) for p in paths):
        return
    known = [
        str(file.relative_to(path))
        for path in paths
        if os.path.isdir(path)
        for file in pathlib.Path(path).rglob("*.gin")
    ]
    raise ConfigError(f"There is no gin file {name!r}.{did_you_mean(name, known)}")


def _macros() -> dict[str, Any]:
    """Returns the values of all macros; gin keeps them as scopes of one configurable."""
    return {
        scope: values.get("value")
        for (scope, selector), values in gin.config._CONFIG.items()
        if selector == "gin.macro"
    }


def _used_macros() -> set[str]:
    return set(_MACRO_USE.findall(gin.config_str()))


def _check_bindings(bindings: Sequence[str]) -> None:
    known = set(_macros()) | _used_macros()
    for binding in bindings:
        name, separator, _ = binding.partition("=")
        name = name.strip()
        if not separator:
            raise ConfigError(f"--gin.{binding}: expected --gin.NAME=value.")
        if _MACRO.match(name) and name not in known:
            raise ConfigError(
                f"--gin.{name}: no gin file knows this macro.{did_you_mean(name, known)}"
            )


def _check_macros() -> None:
    values = _macros()
    unset = sorted(n for n, v in values.items() if repr(v) == "%gin.REQUIRED")
    if unset:
        flags = " ".join(f"--gin.{name}=…" for name in unset)
        raise ConfigError(f"{', '.join(unset)} must be set: add {flags}")
    for name in sorted(_used_macros() - set(values)):
        if _MACRO.match(name):
            raise ConfigError(
                f"The macro %{name} is used but has no value.{did_you_mean(name, values)}"
            )


def _check_types() -> None:
    """Checks what is bound to arguments whose annotation is a number, a truth value or a text."""
    macros = _macros()
    for (_, selector), values in gin.config._CONFIG.items():
        if selector == "gin.macro":
            continue
        hints = _hints(gin.config._REGISTRY[selector].wrapped)
        for argument, value in values.items():
            name = f"{selector}.{argument}"
            macro = _MACRO_USE.fullmatch(repr(value))
            if macro is not None:
                name, value = macro.group(1), macros.get(macro.group(1))
            wanted = _plain_types(hints.get(argument))
            if wanted and not _is_reference(value) and not _fits(value, wanted):
                kinds = " or ".join(_KINDS[kind] for kind in wanted)
                raise ConfigError(f"{name}: expected {kinds}, got {value!r}.")


_KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a text",
    type(None): "None",
}


def _hints(configurable: Any) -> dict[str, Any]:
    """Returns the types of a function's or a class's arguments, none where they cannot be told."""
    function = configurable.__init__ if inspect.isclass(configurable) else configurable
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        return {}


def _plain_types(hint: Any) -> tuple[type, ...]:
    """Returns the types of an annotation that has none but those of `_KINDS`, else nothing."""
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return tuple(parts) if all(part in _KINDS for part in parts) else ()


def _fits(value: Any, wanted: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in wanted
    return isinstance(value, wanted) or (isinstance(value, int) and float in wanted)


def _is_reference(value: Any) -> bool:
    return repr(value)[:1] in "@%" or isinstance(value, gin.config.ConfigurableReference)


def _gin_message(error: BaseException, paths: Sequence[str]) -> str:
    """Makes one line of gin's errors, with the nearest names where a name is wrong."""
    text = " ".join(str(error).split())
    missing = re.search(r"[Uu]nable to (?:open|find) file:? ?'?([^ ',]+?)[.]?(?:[ ',]|$)", text)
    if missing:
        _check_file(missing.group(1), paths)
    return f"gin: {text}"
