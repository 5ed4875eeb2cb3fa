"""Users' own modules, named by an option: scorers and tasks outside of this package."""

import ast
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import pathlib
import sys
import traceback
from collections.abc import Iterator, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from faith_jax.core.errors import ConfigError, FaithJaxError, did_you_mean, reason


def import_user_module(place: str, option: str) -> ModuleType:
    """Imports a module by its dotted name, or a file that ends in .py, once per process.

    The working folder is appended to Python's path; for a file, its folder is appended instead, so
    that it can import its neighbours. `option` names the option in messages.

    Raises:
      ConfigError: if the module is missing or fails to import.
    """
    try:
        if place.endswith(".py"):
            return _import_file(str(pathlib.Path(place).expanduser().resolve()))
        _append_to_path(os.getcwd())
        return importlib.import_module(place)
    except FaithJaxError as error:
        raise ConfigError(f"{option} = {place!r}: {error}") from error
    except (Exception, SystemExit) as error:  # whatever the user's code raises
        raise ConfigError(f"{option} = {place!r} cannot be imported ({reason(error)}).") from error


def locate_user_module(place: str) -> tuple[str, pathlib.Path | None]:
    """Returns the name by which Python imports a module, and the folder that must be on its path.

    The folder is None for an installed package. `import_user_module` must have imported the module.
    """
    if place.endswith(".py"):
        file = pathlib.Path(place).expanduser().resolve()
        return file.stem, file.parent
    module = sys.modules[place]
    if not module.__file__:
        return place, None
    file = pathlib.Path(module.__file__).resolve()
    is_package = hasattr(module, "__path__")
    folder = file.parents[place.count(".") + is_package]
    return place, None if "site-packages" in file.parts else folder


@functools.cache
def _import_file(path: str) -> ModuleType:
    file = pathlib.Path(path)
    if not file.is_file():
        raise ConfigError("there is no such file.")
    _append_to_path(str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Registered under its name, like an imported module, unless another module has this name.
    is_known = sys.modules.setdefault(file.stem, module) is not module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if not is_known:
            del sys.modules[file.stem]
        raise
    return module


def _append_to_path(folder: str) -> None:
    if folder not in sys.path:
        sys.path.append(folder)


def module_digest(module: ModuleType) -> str:
    """Returns a digest of a module's file and of the files below its folder that it imports.

    The digest shows whether the code has changed; other packages do not count.
    """
    if not module.__file__:
        return ""
    depth = module.__name__.count(".")
    folder = pathlib.Path(module.__file__).resolve().parents[depth]
    files, waiting = set[pathlib.Path](), [module]
    while waiting:
        current = waiting.pop()
        file = pathlib.Path(getattr(current, "__file__", None) or "/").resolve()
        if file in files or not file.is_relative_to(folder) or "site-packages" in file.parts:
            continue
        files.add(file)
        names = _imported_names(file, current.__package__ or "")
        waiting += [sys.modules[name] for name in names if name in sys.modules]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _imported_names(file: pathlib.Path, package: str) -> Iterator[str]:
    """Yields the names of modules that a file imports, and names in them that may be modules."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            base = importlib.util.resolve_name(base, package) if node.level else base
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _entry_points(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    return _entry_points_on(tuple(sys.path), group)


@functools.cache
def _entry_points_on(path: tuple[str, ...], group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Returns the entry points of a group in all installed packages, by name.

    `importlib.metadata.entry_points` only reads the first of several copies of a package's
    metadata, which may be an older copy that a build has left in the working folder.
    """
    return {
        point.name: point
        for package in importlib.metadata.distributions(path=list(path))
        for point in package.entry_points
        if point.group == group
    }


def entry_point_names(group: str) -> list[str]:
    """Returns the names of the objects that installed packages offer in an entry point group."""
    return sorted(_entry_points(group))


def load_named(
    name: str,
    group: str,
    kinds: type | tuple[type, ...],
    option: str,
    places: Mapping[str, str] = MappingProxyType({}),
) -> Any:
    """Returns an object by its name in an entry point group, or by FILE.py:NAME.

    Args:
      name: name of the object.
      group: the entry point group, such as "faith_jax.protocols".
      kinds: the class, or several allowed classes, of the object.
      option: the option that names the object, for messages.
      places: maps names of objects without entry points to module:object.

    Raises:
      ConfigError: if no object has this name and class, or it cannot be imported.
    """
    if is_of_a_file(name):
        file, _, attribute = name.rpartition(":")
        module = import_user_module(file, option)
        if not hasattr(module, attribute):
            names = [n for n, value in vars(module).items() if isinstance(value, kinds)]
            raise ConfigError(
                f"{option}: {file} has no {attribute!r}.{did_you_mean(attribute, names)}"
            )
        loaded_object = getattr(module, attribute)
    elif name.endswith(".py"):
        raise ConfigError(f"{option}: {name}: say which of its objects: {name}:NAME.")
    elif name in places:
        place, _, attribute = places[name].partition(":")
        loaded_object = getattr(importlib.import_module(place), attribute)
    else:
        points = _entry_points(group)
        if name not in points:
            names = sorted({*places, *points})
            raise ConfigError(
                f"{option}: there is no {name!r}.{did_you_mean(name, names)} There are: "
                f"{', '.join(names)}; one of your own is FILE.py:NAME."
            )
        loaded_object = _load_entry_point(points[name])
    if not isinstance(loaded_object, kinds):
        kind = kinds if isinstance(kinds, type) else kinds[0]
        raise ConfigError(f"{option}: {name} is no {kind.__name__}.")
    return loaded_object


def is_of_a_file(name: str) -> bool:
    """Returns whether a name has the form FILE.py:NAME."""
    file, colon, _ = name.rpartition(":")
    return bool(colon) and file.endswith(".py")


def describe_failure(error: Exception) -> str:
    """Returns the place and the error of a failure in user code: "FILE:LINE: KeyError: 'count'"."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename}:{frame.lineno}: {reason(error)}"


def _load_entry_point(point: importlib.metadata.EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:  # whatever the package raises
        package = point.dist.name if point.dist else point.name
        raise ConfigError(
            f"The package {package} cannot be loaded, which has the entry point {point.value} "
            f"of {point.group} ({reason(error)}); repair or remove it."
        ) from error


def load_entry_points(group: str) -> None:
    """Imports the modules that installed packages name in an entry point group."""
    for point in _entry_points(group).values():
        _load_entry_point(point)
