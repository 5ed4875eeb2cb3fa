"""Common parts of the commands: how they stop, and the cache of compiled programs."""

import _thread
import contextlib
import dataclasses
import hashlib
import os
import platform
import signal
import sys
import threading
import time
import types
from collections.abc import Iterator
from typing import IO, Any, ClassVar

from faith_jax.core.files.staging import user_cache
from faith_jax.core.settings import Positive
from faith_jax.core.table import printable

_LONGEST_LINE = 1000  # characters; bad files have names and columns of any length
_MOST_COMPILED = 4 * 1024**3  # bytes; the programs that were used last are kept


def first_line(error: BaseException) -> str:
    """Returns an error's message without the lines of the call stack that gin adds.

    Of a very long one the middle is left out: it begins with the place and ends with the remedy.
    """
    lines = str(error).strip().splitlines()
    line = printable(lines[0]) if lines else type(error).__name__
    if len(line) <= _LONGEST_LINE:
        return line
    return f"{line[: _LONGEST_LINE // 2]} ... {line[-_LONGEST_LINE // 2 + 5 :]}"


def show(text: object, file: IO[str] | None = None) -> None:
    """Prints a line, or several; what a terminal would obey is shown as escapes.

    All that commands print comes through here: names of files, claims and columns are the user's.
    """
    print(printable(str(text).removesuffix("\n"), "\n\t"), file=file)


class TerminatedError(KeyboardInterrupt):
    """The process was asked to end (SIGTERM); like a Ctrl-C, it unwinds what is going on."""


@contextlib.contextmanager
def raising_signals(program: str) -> Iterator[None]:
    """Within, a Ctrl-C raises KeyboardInterrupt, and a SIGTERM TerminatedError.

    While a module is imported, they end the process at once, as a kill does.
    """

    def raise_or_exit(number: int, frame: types.FrameType | None) -> None:
        terminated = number == signal.SIGTERM
        while frame and not frame.f_code.co_filename.startswith("<frozen importlib"):
            frame = frame.f_back
        if frame:  # a module is imported there
            # Extensions of JAX turn an exception there into an ImportError, or abort.
            kind = "terminated" if terminated else "interrupted"
            os.write(2, f"{program}: {kind}; run the same command again.\n".encode())
            os._exit(128 + number)
        raise TerminatedError if terminated else KeyboardInterrupt

    def repeat_dropped_signal(dropped: Any) -> None:
        error = dropped.exc_value
        if not isinstance(error, KeyboardInterrupt):
            return former_hook(dropped)
        # Python drops what is raised in finalizers and in callbacks of its garbage collector, of
        # which JAX has one. Another thread sends the signal once more, when these have ended. Not
        # one of `threading`, whose locks may be held where the garbage collector came in.
        number = signal.SIGTERM if isinstance(error, TerminatedError) else signal.SIGINT
        _thread.start_new_thread(_send_signal_later, (number,))

    former_hook, former_handlers = sys.unraisablehook, dict[int, Any]()
    # Only the main thread may say what happens to signals.
    if threading.current_thread() is threading.main_thread():
        for stopping in (signal.SIGINT, signal.SIGTERM):
            # Whoever started this process may want it to ignore a signal, as shells do in the
            # background.
            if signal.getsignal(stopping) != signal.SIG_IGN:
                former_handlers[stopping] = signal.signal(stopping, raise_or_exit)
    sys.unraisablehook = repeat_dropped_signal
    try:
        yield
    finally:
        sys.unraisablehook = former_hook
        for number, handler in former_handlers.items():
            signal.signal(number, handler)


def _send_signal_later(number: int) -> None:
    time.sleep(0.01)
    os.kill(os.getpid(), number)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneOfSeveral:
    """A process that may be one of several of a run.

    Attributes:
      coordinator_address (HOST:PORT): of the first of several processes
      process_count (N): processes of this run
      process_index (I): 0 … N-1, this one's
      multiprocess: join the processes of the cluster that has started this one: Cloud TPU, Slurm
        or Open MPI; JAX finds them without the three options above
      process_timeout (SECONDS): how long processes wait for each other before this is an error
    """

    group: ClassVar = "processes"
    coordinator_address: str | None = None
    process_count: int | None = None
    process_index: int | None = None
    multiprocess: bool = False
    process_timeout: Positive = 3600
    # Whether a SIGTERM is agreed on by all processes, instead of ending the one that has got it.
    stops_together: ClassVar = False

    def join_processes(self) -> None:
        """Joins the other processes of the run, where there are any."""
        address = (self.coordinator_address, self.process_count, self.process_index)
        if self.multiprocess or any(part is not None for part in address):
            from faith_jax.core.processes import limit_waits
            from faith_jax.runs import processes

            processes.join(address, self.multiprocess, self.stops_together)
            limit_waits(self.process_timeout)


def keep_compiled_programs() -> None:
    """Makes JAX keep compiled programs in a folder of the user's, for all commands.

    Programs for a CPU have the instructions of this one, so each kind of CPU has its own folder.
    Where JAX is imported already, nothing changes. JAX_COMPILATION_CACHE_DIR names another folder,
    and an empty value keeps nothing; that folder has no bound of ours, because JAX bounds only what
    it has kept with one: at a program without its time of use it writes no more.
    """
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            cpu = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        cpu = platform.processor()
    kind = f"{platform.machine()}-{hashlib.sha256(cpu.encode()).hexdigest()[:8]}"
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(user_cache() / "compiled" / kind)
        os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(_MOST_COMPILED))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
