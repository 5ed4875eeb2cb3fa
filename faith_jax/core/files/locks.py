"""Exclusive locks for writing outputs, which are released when the process ends.

The lock is a locked file beside the output. Object stores and some network file systems have no
locks. For them, a file in the user's cache is locked, which only separates the runs of one machine.
Runs on several machines do not see each other: each makes a complete output, and the last one
stays; a training stops if another run has written to its MODEL_DIR.
"""

import contextlib
import errno
import functools
import hashlib
import logging
import os
import pathlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import ParamSpec, TypeVar

from faith_jax.core.errors import ConfigError
from faith_jax.core.files import growing_rows
from faith_jax.core.files.staging import cache_folder
from faith_jax.core.files.stores import is_remote, path_of
from faith_jax.core.files.whole import (
    is_stream,
    link_error,
    lock_file,
    make_output_folder,
    remove_leftovers,
    remove_new_folders_on_error,
    report_write_errors,
    stream_kind,
    through_links,
)

logger = logging.getLogger("faith_jax")

LOCK = ".lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)
# A mistyped path must not create folders.
NO_FOLDER = "cannot be written (no such folder); make its folder first"
P = ParamSpec("P")
T = TypeVar("T")


class TakenError(ConfigError):
    """Another process holds the lock of an output."""


@contextlib.contextmanager
def output_lock(
    output: pathlib.Path,
    lock: pathlib.Path | None = None,
    option: str = "--output",
    waits: bool = False,
) -> Iterator[int]:
    """Holds the exclusive lock for writing an output, which the end of the process also releases.

    Yields the descriptor of the locked file.

    Args:
      output: a file or a folder.
      lock: the file to lock; None = `.<output>.lock` beside the output, or beside what it leads to.
      option: the option that names the output, for errors.
      waits: wait until another process releases the lock.

    Raises:
      TakenError: if another process holds the lock.
      ConfigError: if the lock file cannot be written.
    """
    with contextlib.ExitStack() as held:
        with report_write_errors(f"{option}: {output}"):
            path = lock
            if path is None:
                place = through_links(output).resolve()
                path = place.with_name(f".{place.name}{LOCK}")
            try:
                path, file = _lock(path, waits)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise link_error(path, option) from None
                raise
        if file is None:
            raise TakenError(
                f"{option}: another run is writing {output}; wait for it, or name another output."
            )
        held.callback(os.close, file)
        held.callback(path.unlink, missing_ok=True)
        held.callback(growing_rows.close, output)
        if not is_remote(output):
            remove_leftovers(output)
        yield file


def _lock(path: pathlib.Path, waits: bool) -> tuple[pathlib.Path, int | None]:
    """Locks a path, or a file in the cache instead; returns the file and `lock_file`'s result."""
    if not is_remote(path):
        try:
            return path, lock_file(path, waits)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        _warn_of_no_locks(path.parent)
    folder = cache_folder() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(str(path).encode()).hexdigest()[:32]}{LOCK}"
    return path, lock_file(path, waits)


@functools.cache
def _warn_of_no_locks(folder: pathlib.Path) -> None:
    logger.warning(
        "%s: its file system has no locks: start no run with the same output on another machine",
        folder,
    )


@contextlib.contextmanager
def working_folder(
    output: str | pathlib.Path, option: str = "--output"
) -> Iterator[tuple[pathlib.Path, int]]:
    """Makes the folder that an option names, and holds the exclusive lock for writing into it.

    Yields the folder and the descriptor of `output_lock`.

    Raises:
      ConfigError: if the folder cannot be made, or another run is writing into it.
    """
    folder = path_of(output)
    with remove_new_folders_on_error(folder):
        make_output_folder(folder, option)
        with output_lock(folder, folder / LOCK, option) as lock:
            yield folder, lock


@contextlib.contextmanager
def output_locks(outputs: Mapping[str, str]) -> Iterator[None]:
    """Holds the locks of outputs, by option; "" = no output. Streams have no locks."""
    with contextlib.ExitStack() as held:
        for option, output in outputs.items():
            if output and not is_stream(path_of(output)):
                held.enter_context(output_lock(path_of(output), option=option))
        yield


def reserve_outputs(
    outputs: Callable[P, tuple[Iterable[str], Mapping[str, str]]],
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorates a function to check its outputs first, and to hold their locks while it runs.

    `outputs` maps the function's arguments to the arguments of `check_outputs`. Raises the errors
    of `check_outputs` and `output_lock`.
    """

    def reserve_around(run: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(run)
        def run_with_outputs(*args: P.args, **kwargs: P.kwargs) -> T:
            read, written = outputs(*args, **kwargs)
            check_outputs(read, written)
            with output_locks(written):
                return run(*args, **kwargs)

        return run_with_outputs

    return reserve_around


def check_outputs(
    inputs: Iterable[str], outputs: Mapping[str, str], folders: Collection[str] = ()
) -> None:
    """Checks that outputs can be written, and overwrite neither an input nor each other.

    `outputs` maps options to paths; "" = no output. Only options in `folders` may name folders.

    Raises:
      ConfigError: names the option and the path.
    """
    read = [(path, path_of(path).resolve()) for path in inputs if path]
    option_by_path: dict[pathlib.Path, str] = {}
    for option, output in outputs.items():
        path = path_of(output)
        kind = stream_kind(path) if output else ""
        if not output or kind == "a device":
            continue
        with report_write_errors(f"{option}: {output}"):
            is_file_or_pipe = kind != "standard output"
            place = through_links(path).resolve() if is_file_or_pipe else pathlib.Path(kind)
        problem = ""
        if not kind and not has_parent(path):
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
    """Whether a path's parent folder exists; always true on stores, which need no folders."""
    return is_remote(path) or through_links(path).absolute().parent.is_dir()
