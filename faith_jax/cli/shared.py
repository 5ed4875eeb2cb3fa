"""Common parts of the commands: output, signals, and the cache of compiled programs."""

import _thread
import contextlib
import dataclasses
import hashlib
import os
import platform
import re
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
_LINES_OF_GIN = re.compile(r"\n  In (?:call to configurable|file|bindings string)\b.*", re.DOTALL)
_MOST_COMPILED = 4 * 1024**3  # bytes; the most recently used programs are kept


def first_line(error: BaseException) -> str:
    """Returns an error's message in one line, without the lines of the call stack that gin adds.

    A very long message loses its middle, since it begins with the place and ends with the remedy.
    """
    message = _LINES_OF_GIN.sub("", str(error)).strip()  # names in it may have line breaks
    line = printable(message) or type(error).__name__
    if len(line) <= _LONGEST_LINE:
        return line
    return f"{line[: _LONGEST_LINE // 2]} ... {line[-_LONGEST_LINE // 2 + 5 :]}"


def show(text: object, file: IO[str] | None = None, keep: str = "") -> None:
    """Prints one or several lines, with control characters shown as escapes, except `keep`.

    All output of commands goes through here: it may contain names and texts from users' files.
    """
    print(printable(str(text).removesuffix("\n"), f"\n\t{keep}"), file=file)


class TerminatedError(KeyboardInterrupt):
    """A request to end the process (SIGTERM); like a Ctrl-C, it unwinds the stack."""


@contextlib.contextmanager
def raising_signals(program: str) -> Iterator[None]:
    """Makes a Ctrl-C raise KeyboardInterrupt, and a SIGTERM TerminatedError, inside the context.

    While a module is being imported, both end the process at once, as a kill does.
    """

    def raise_or_exit(number: int, frame: types.FrameType | None) -> None:
        terminated = number == signal.SIGTERM
        while frame and not frame.f_code.co_filename.startswith("<frozen importlib"):
            frame = frame.f_back
        if frame:  # a module is being imported
            # JAX's extension modules would turn an exception into an ImportError, or abort.
            kind = "terminated" if terminated else "interrupted"
            os.write(2, f"{program}: {kind}; run the same command again.\n".encode())
            os._exit(128 + number)
        raise TerminatedError if terminated else KeyboardInterrupt

    def repeat_dropped_signal(dropped: Any) -> None:
        error = dropped.exc_value
        if not isinstance(error, KeyboardInterrupt):
            return former_hook(dropped)
        # Python drops exceptions raised in finalizers and in garbage collector callbacks, of which
        # JAX has one. Another thread sends the signal again once these have ended. It is not a
        # `threading` thread, because the interrupted code may hold `threading`'s locks.
        number = signal.SIGTERM if isinstance(error, TerminatedError) else signal.SIGINT
        _thread.start_new_thread(_send_signal_later, (number,))

    former_hook, former_handlers = sys.unraisablehook, dict[int, Any]()
    # Only the main thread may set signal handlers.
    if threading.current_thread() is threading.main_thread():
        for stopping in (signal.SIGINT, signal.SIGTERM):
            # Keep ignoring a signal if the parent process asked for it, as shells do for background
            # jobs.
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
    """A process that may be one of several in a run.

    Attributes:
      coordinator_address (HOST:PORT): address of the first process, if there are several
      process_count (N): number of processes of this run
      process_index (I): index of this process, 0 … N-1
      multiprocess: join the processes of the cluster that has started this one: Cloud TPU, Slurm
        or Open MPI; JAX finds them without the three options above
      process_timeout (SECONDS): how long processes wait for each other before they fail
    """

    group: ClassVar = "processes"
    coordinator_address: str | None = None
    process_count: int | None = None
    process_index: int | None = None
    multiprocess: bool = False
    process_timeout: Positive = 3600
    # Whether processes agree to stop together on a SIGTERM, instead of only the one that gets it.
    stops_together: ClassVar = False

    def join_processes(self) -> None:
        """Joins the other processes of the run, if there are any."""
        address = (self.coordinator_address, self.process_count, self.process_index)
        if self.multiprocess or any(part is not None for part in address):
            from faith_jax.core.processes import limit_waits
            from faith_jax.runs import processes

            processes.join(address, self.multiprocess, self.stops_together)
            limit_waits(self.process_timeout)


def keep_compiled_programs() -> None:
    """Makes JAX keep compiled programs in a cache folder of the user, for all commands.

    Each kind of CPU has its own folder, because programs use the instructions of their CPU. If JAX
    is imported already, nothing changes. JAX_COMPILATION_CACHE_DIR names another folder; an empty
    value keeps nothing. We set no size limit for such a folder: JAX stops writing to a limited
    cache if it holds a program without a time of use, as caches made without a limit do.
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
