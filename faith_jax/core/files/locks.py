"""The only right to write an output: a lock, which the process loses when it ends."""

import contextlib
import errno
import functools
import logging
import os
import pathlib
import signal
import threading
from collections.abc import Iterator

from faith_jax.core.errors import ConfigError
from faith_jax.core.files import growing_rows
from faith_jax.core.files.leases import hold_lease, is_renewed
from faith_jax.core.files.private import link_error, lock_file, remove_leftovers
from faith_jax.core.files.stores import is_remote, path_of
from faith_jax.core.files.whole import (
    make_output_folder,
    remove_new_folders_on_error,
    report_write_errors,
)

logger = logging.getLogger("faith_jax")

LOCK = ".lock"
LEASE_SECONDS = 30.0  # after these, a lock whose process does not refresh it is gone
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)


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
    wait: bool | None = False,
) -> Iterator[int | None]:
    """Holds the only right to write an output, until the process ends, however that ends.

    Yields the descriptor that holds it. On a file system without locks, and on an object store,
    there is none: the right is a lease then, which expires when its process no longer refreshes it.

    Args:
      output: a file or a folder.
      lock: the file that is locked; None = `.<output>.lock` beside the output.
      option: that names the output.
      wait: for another process that holds it; None = on a store, not even to see whether it lives.

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
                stop = functools.partial(_interrupt_main_thread, output)
                lease = hold_lease(path, output, LEASE_SECONDS, wait, stop)
                is_taken = not held.enter_context(lease)
            else:
                try:
                    file = lock_file(path, bool(wait))
                    is_taken = file is None
                except OSError as error:
                    if error.errno == errno.ELOOP:
                        raise link_error(path, option) from None
                    if error.errno not in _NO_LOCKS:
                        raise
                    is_taken = not held.enter_context(_hold_lease(path, output, wait))
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


@contextlib.contextmanager
def _hold_lease(path: pathlib.Path, output: pathlib.Path, wait: bool | None) -> Iterator[bool]:
    """Holds a file whose process says that it lives; False = another process does."""
    import filelock  # takes a moment to import, and is rarely needed

    lease = filelock.SoftFileLease(
        path.with_suffix(".lease"),
        lease_duration=LEASE_SECONDS,
        on_compromise=lambda lost: _interrupt_main_thread(
            output, f"another run has taken it over ({lost.reason})"
        ),
    )
    if path.with_suffix(".lease").exists():
        logger.info("%s: waiting to see whether another run is writing it", output)
    try:
        # Whoever waits must see the file unchanged for as long as it lasts.
        lease.acquire(timeout=-1 if wait else 1.5 * LEASE_SECONDS)
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
