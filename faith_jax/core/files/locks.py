"""The only right to write an output: a lock, which the process loses when it ends.

On an object store, and on a file system without locks, it is a lease, for as long as it is renewed.
On a store, this is an object that is made only if there is none, written again every few seconds,
and removed at the end. Whoever finds one watches it: if it changes, its process lives; if it stays
as it is for as long as a lease lasts, its process is gone, and it is taken over. So no clocks are
compared. Every write has the version of the last one as its condition, so that of two processes one
succeeds.
"""

import contextlib
import errno
import functools
import json
import logging
import os
import pathlib
import secrets
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar

from faith_jax.core.errors import ConfigError
from faith_jax.core.files import growing_rows
from faith_jax.core.files.stores import (
    content,
    is_remote,
    path_of,
    put_if,
    remove_if,
    storage_errors,
    version,
)
from faith_jax.core.files.whole import (
    is_stream,
    link_error,
    lock_file,
    make_output_folder,
    remove_leftovers,
    remove_new_folders_on_error,
    report_write_errors,
)

logger = logging.getLogger("faith_jax")

LOCK = ".lock"
LEASE_SECONDS = 30.0  # after these, a lease that its process does not renew has expired
_RENEWALS = 3  # of a lease before it expires
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)
# A wrong path shall not make folders.
NO_FOLDER = "cannot be written (no such folder); make its folder first"
# How long to wait for another process that holds an output, see `output_lock`.
Wait = Literal["until_free", "until_certain", "not_at_all"]
P = ParamSpec("P")
T = TypeVar("T")


class TakenError(ConfigError):
    """Another process holds the right to write an output.

    Attributes:
      is_certain: False = on a store, it may have been killed a moment ago.
    """

    is_certain = True


@contextlib.contextmanager
def output_lock(
    output: pathlib.Path,
    lock: pathlib.Path | None = None,
    option: str = "--output",
    wait: Wait = "until_certain",
    stops_when_lost: bool = True,
) -> Iterator[int | None]:
    """Holds the only right to write an output, until the process ends, however that ends.

    Yields the descriptor that holds it; None = it is a lease.

    Args:
      output: a file or a folder.
      lock: the file that is locked; None = `.<output>.lock` beside the output.
      option: that names the output.
      wait: for another process that holds it: until it lets go ("until_free"); only, on a store,
        until its lease is renewed or expires, which shows whether it lives ("until_certain"); or
        "not_at_all": then only a lease that was seen before can have expired.
      stops_when_lost: a lease that another process has taken over interrupts this one.

    Raises:
      TakenError: another process holds it.
      ConfigError: the lock cannot be written.
    """
    path = lock
    if path is None:
        place = output.resolve()
        if not is_remote(output) and output.name not in ("", ".."):
            place = output.parent.resolve() / output.name  # of a link, not where it leads
        path = place.with_name(f".{place.name}{LOCK}")
    with contextlib.ExitStack() as held:
        with report_write_errors(f"{option}: {output}"):
            file = None
            if is_remote(path):
                is_taken = not held.enter_context(_hold_object(path, output, wait, stops_when_lost))
            else:
                try:
                    file = lock_file(path, wait == "until_free")
                    is_taken = file is None
                except OSError as error:
                    if error.errno == errno.ELOOP:
                        raise link_error(path, option) from None
                    if error.errno not in _NO_LOCKS:
                        raise
                    lease_file = _hold_lease_file(path, output, wait, stops_when_lost)
                    is_taken = not held.enter_context(lease_file)
        if is_taken:
            refusal = TakenError(
                f"{option}: another run is writing {output}; wait for it, or name another output."
            )
            refusal.is_certain = not is_remote(path) or is_renewed(path)
            raise refusal
        if file is not None:
            held.callback(os.close, file)
            held.callback(path.unlink, missing_ok=True)
        held.callback(growing_rows.close, output)
        if not is_remote(output):
            remove_leftovers(output)
        yield file


@contextlib.contextmanager
def working_folder(
    output: str | pathlib.Path, option: str = "--output"
) -> Iterator[tuple[pathlib.Path, int | None]]:
    """Makes the folder of an option, and holds the only right to write into it.

    Yields the folder and the descriptor of `output_lock`.

    Raises:
      ConfigError: it cannot be made, or another run is writing into it.
    """
    folder = path_of(output)
    with remove_new_folders_on_error(folder):
        make_output_folder(folder, option)
        with output_lock(folder, folder / LOCK, option) as lock:
            yield folder, lock


def reserve_outputs(
    outputs: Callable[P, tuple[Iterable[str], Mapping[str, str]]],
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Makes a function hold the only right to write its outputs, which are checked first.

    `outputs` returns, from the function's arguments, those of `check_outputs`, whose errors and
    those of `output_lock` are raised.
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

    The outputs are paths by the options that name them; "" = none. Only those of the options in
    `folders` may be folders.

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


@contextlib.contextmanager
def _hold_lease_file(
    path: pathlib.Path, output: pathlib.Path, wait: Wait, stops_when_lost: bool
) -> Iterator[bool]:
    """Holds a file whose process says that it lives; False = another process does."""
    import filelock  # takes a moment to import, and is rarely needed

    def interrupt(lost: Any) -> None:
        if stops_when_lost:
            _interrupt_main_thread(output, f"another run has taken it over ({lost.reason})")

    lease = filelock.SoftFileLease(
        path.with_suffix(".lease"), lease_duration=LEASE_SECONDS, on_compromise=interrupt
    )
    if path.with_suffix(".lease").exists():
        logger.info("%s: waiting to see whether another run is writing it", output)
    try:
        # Whoever waits must see the file unchanged for as long as it lasts.
        lease.acquire(timeout=-1 if wait == "until_free" else 1.5 * LEASE_SECONDS)
    except filelock.Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lease.release()


def _interrupt_main_thread(output: pathlib.Path, why: str) -> None:
    """Logs why this run must stop writing an output, and sends the main thread a signal."""
    logger.error("%s: %s; this one stops", output, why)
    # A shell lets what it starts in the background ignore Ctrl-C.
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    number = signal.SIGTERM if ignored else signal.SIGINT
    signal.pthread_kill(threading.main_thread().ident or 0, number)  # wakes it


class _Seen(NamedTuple):
    """The lease of another process, as this process saw it last."""

    version: str
    since: float  # when this version was seen first
    renewed: bool  # it had another version before: its process lives


_seen: dict[str, _Seen] = {}  # by path


def is_renewed(path: Any) -> bool:
    """Whether this process has seen that the holder of a lease on a store renews it."""
    return str(path) in _seen and _seen[str(path)].renewed


@contextlib.contextmanager
def _hold_object(
    path: Any, output: pathlib.Path, wait: Wait, stops_when_lost: bool
) -> Iterator[bool]:
    """Holds a lease on a store; yields False, and holds none, if another process does."""
    lease = _Lease(path, output, stops_when_lost)
    if not lease.take(wait):
        yield False
        return
    renewing = threading.Thread(target=lease.renew, name=f"lease of {output}", daemon=True)
    renewing.start()
    try:
        yield True
    finally:
        lease.ended.set()
        renewing.join()
        # One that is another process's by now is left.
        with contextlib.suppress(*storage_errors()):
            remove_if(path, str(lease.version))


class _Lease:
    def __init__(self, path: Any, output: pathlib.Path, stops_when_lost: bool):
        self._path, self._output, self._stops_when_lost = path, output, stops_when_lost
        self._token, self._count = secrets.token_hex(8), 0
        self.version: str | None = None
        self.ended = threading.Event()

    def take(self, wait: Wait) -> bool:
        """Makes the object, or takes over one that has expired; False = another process lives."""
        is_logged = False
        if wait != "not_at_all":
            _seen.pop(str(self._path), None)
        while True:
            current_version = version(self._path)
            if current_version is None or self._has_expired(current_version):
                with contextlib.suppress(FileExistsError):
                    self._write(current_version)
                    _seen.pop(str(self._path), None)
                    return True
            elif wait == "not_at_all" or (wait == "until_certain" and is_renewed(self._path)):
                return False
            else:
                if not is_logged:
                    logger.info(
                        "%s: waiting to see whether another run is writing it", self._output
                    )
                    is_logged = True
                time.sleep(min(1.0, LEASE_SECONDS / 10))

    def _has_expired(self, current_version: str) -> bool:
        before = _seen.get(str(self._path))
        if before is None or before.version != current_version:
            seen = _Seen(current_version, time.monotonic(), before is not None)
            _seen[str(self._path)] = seen
            return False
        return time.monotonic() - before.since > LEASE_SECONDS

    def _write(self, match: str | None) -> None:
        self._count += 1
        fields = {"token": self._token, "renewed": self._count}
        data = json.dumps({**fields, "host": os.uname().nodename, "pid": os.getpid()}).encode()
        try:
            self.version = put_if(self._path, data, match)
        except FileExistsError:
            # Also the answer to a write that is repeated because the first answer was lost.
            try:
                is_own = json.loads(content(self._path))["token"] == self._token
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                is_own = False
            if not is_own:
                raise
            self.version = version(self._path)

    def renew(self) -> None:
        """Writes the object again and again, until `ended`; interrupts the run if it is lost."""
        last = time.monotonic()
        while not self.ended.wait(LEASE_SECONDS / _RENEWALS):
            try:
                self._write(self.version)
                last = time.monotonic()
            except FileExistsError:
                if self._stops_when_lost:
                    _interrupt_main_thread(self._output, "another run has taken it over")
                return None
            except storage_errors() as error:
                if time.monotonic() - last > LEASE_SECONDS:
                    return _interrupt_main_thread(
                        self._output, f"its storage does not answer: {error}"
                    )
        return None
