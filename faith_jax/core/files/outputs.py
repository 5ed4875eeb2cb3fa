"""Checks of outputs before a command begins."""

import contextlib
import functools
import pathlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import ParamSpec, TypeVar

from faith_jax.core.errors import ConfigError
from faith_jax.core.files.locks import output_lock
from faith_jax.core.files.private import is_stream
from faith_jax.core.files.stores import is_remote, path_of

P = ParamSpec("P")
T = TypeVar("T")
# A wrong path shall not make folders.
NO_FOLDER = "cannot be written (no such folder); make its folder first"


def reserve_outputs(
    outputs: Callable[P, tuple[Iterable[str], Mapping[str, str]]],
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Makes a function hold the only right to write its outputs, which are checked first.

    Args:
      outputs: returns, from the function's arguments, what `check_outputs` is given.

    Raises:
      ConfigError: see `check_outputs` and `output_lock`.
    """

    def reserve_around(run: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(run)
        def run_with_outputs(*args: P.args, **kwargs: P.kwargs) -> T:
            read, written = outputs(*args, **kwargs)
            check_outputs(read, written)
            with contextlib.ExitStack() as held:
                for option, output in written.items():
                    if output and not is_stream(path_of(output)):
                        held.enter_context(output_lock(path_of(output), option=option))
                return run(*args, **kwargs)

        return run_with_outputs

    return reserve_around


def check_outputs(
    inputs: Iterable[str], outputs: Mapping[str, str], folders: Collection[str] = ()
) -> None:
    """Checks that outputs can be written, and overwrite neither an input nor each other.

    Args:
      inputs: paths of files or folders.
      outputs: paths of files by the option that names them; "" = none.
      folders: the options that may name a folder.

    Raises:
      ConfigError: names the option and the path.
    """
    read = [(path, path_of(path).resolve()) for path in inputs if path]
    option_by_path: dict[pathlib.Path, str] = {}
    for option, output in outputs.items():
        path = path_of(output)
        place = path.resolve()
        if not output or is_stream(path):
            continue
        problem = ""
        if not has_parent(path):
            problem = f": {NO_FOLDER}"
        elif path.is_dir() and option not in folders:
            problem = ": cannot be written (a folder)"
        elif place in option_by_path:
            problem = f" is the output of {option_by_path[place]} too"
        for name, input_path in read:
            is_local = not is_remote(place) and not is_remote(input_path)
            if input_path in place.parents:
                problem = problem or f" lies in the input {name}; name another place"
            is_same = place == input_path
            # A local file may have several names.
            if is_same or (
                is_local and place.exists() and input_path.exists() and place.samefile(input_path)
            ):
                problem = problem or f" would overwrite the input {name}"
        if problem:
            raise ConfigError(f"{option}: {output}{problem}.")
        option_by_path[place] = option


def has_parent(path: pathlib.Path) -> bool:
    """Whether a file or folder can be made at a path: a store has no folders to be there first."""
    return is_remote(path) or path.absolute().parent.is_dir()
