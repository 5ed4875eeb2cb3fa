"""Queueing of batches on the device while earlier ones run, with results fetched in order.

JAX returns from a call before the device has computed it. So the batches of a call are queued one
after the other, and their results are fetched later. Between two calls, such as those for chunks of
a file, the device would still idle while rows are tokenized and packed. `ahead` therefore makes the
next call in another thread. Threads take turns: only one runs at a time, until it waits for the
device. So our code never runs concurrently with itself and needs no locks.
"""

import collections
import concurrent.futures
import contextlib
import contextvars
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import jax

from faith_jax.core.errors import ConfigError
from faith_jax.core.types import PyTree
from faith_jax.models.partitioning import Partitioner

logger = logging.getLogger("faith_jax")

Item = TypeVar("Item")
Result = TypeVar("Result")

# Maximum number of queued batches of a call: the arrays of each take memory on the device.
_QUEUED = 32
# Concurrent calls: one waits for the device while the next one is prepared.
_CALLS = 2


class _Turns:
    """Lets one call run at a time, until it waits or ends."""

    def __init__(self) -> None:
        self._lock, self._is_over = threading.Lock(), False

    def take(self) -> None:
        self._lock.acquire()
        if self._is_over:
            # Release first, so that the next waiting call finds the end too.
            self._lock.release()
            raise concurrent.futures.CancelledError

    def give(self) -> None:
        self._lock.release()

    def end(self) -> None:
        """Cancels calls that wait for their turn or for the device."""
        self._is_over = True


_TURNS = contextvars.ContextVar[_Turns | None]("turns", default=None)


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """Gives the turn to another call while this one waits."""
    turns = _TURNS.get()
    if turns is None:
        yield
        return
    turns.give()
    try:
        yield
    finally:
        turns.take()


def ahead(call: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Calls a function on items ahead of the one being consumed, and yields results in order.

    An error is raised in place of its result, after earlier results. No thread is left when the
    iteration ends, however it ends.
    """
    turns = _Turns()

    def taking_turns(item: Item) -> Result:
        turns.take()
        ended = False
        try:
            _TURNS.set(turns)
            return call(item)
        except concurrent.futures.CancelledError:
            ended = True  # cancelled while it waited, so it holds no turn to give back
            raise
        finally:
            if not ended:
                turns.give()

    pool = concurrent.futures.ThreadPoolExecutor(_CALLS, "score")
    pending = collections.deque[concurrent.futures.Future[Result]]()
    try:
        for item in items:
            # Run in a copy of the caller's context, so that `_TURNS` is set only for this call.
            pending.append(pool.submit(contextvars.copy_context().run, taking_turns, item))
            # Yield finished results before reading the next item.
            while pending and (pending[0].done() or len(pending) > _CALLS):
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        turns.end()
        pool.shutdown(cancel_futures=True)


def fetch_results(
    started: Iterable[tuple[Item, Callable[[], Result]]],
) -> Iterator[tuple[Item, Result]]:
    """Yields each batch with its results, in order, while later batches are queued.

    `started` yields each batch with a function that waits for its results.
    """
    queue = collections.deque[tuple[Item, Callable[[], Result]]]()

    def oldest() -> tuple[Item, Result]:
        batch, fetch = queue.popleft()
        # Another call may prepare its batches while this one waits for the device.
        with waiting():
            return batch, fetch()

    for batch in started:
        queue.append(batch)
        if len(queue) > _QUEUED:
            yield oldest()
    while queue:
        yield oldest()


class Memory:
    """Halves the batches once if they exceed the device's memory.

    Args:
      halve: halves the size of later batches.
    """

    def __init__(self, halve: Callable[[], None]):
        self._halve: Callable[[], None] | None = halve

    def fetch_results(
        self,
        started: Callable[[list[int]], Iterable[tuple[Item, Callable[[], Result]]]],
        left: Mapping[int, Any],
    ) -> Iterator[tuple[Item, Result]]:
        """Yields batches with their results; batches are halved after an out-of-memory error.

        Args:
          started: queues the batches of some rows, as in the function `fetch_results`.
          left: numbers of the rows without results; the caller removes each finished batch's rows.

        Raises:
          ConfigError: if half of a batch does not fit either.
        """
        while left:
            # Read before the batches run: another call may halve them meanwhile.
            halve, problem = self._halve, None
            try:
                # After an error, only the rows that have no results yet are batched again.
                yield from fetch_results(started(list(left)))
                return
            except jax.errors.JaxRuntimeError as error:
                if "RESOURCE_EXHAUSTED" not in str(error):
                    raise
                problem = str(error).splitlines()[0]
            if halve is None:
                raise ConfigError(
                    f"the device has too little memory, also for half of a batch ({problem}); give "
                    "tokens_per_batch=…, fewer than before, or a smaller model."
                )
            if self._halve is None:  # another call has halved the batches meanwhile
                continue
            self._halve = None
            halve()
            logger.warning(
                "the device has too little memory for a batch (%s); batches are half as large from "
                "now on",
                problem,
            )


class _DeviceTime:
    """The time that a device had batches queued, and the time that it had none.

    Attributes:
      busy: seconds with a queued batch, from its call until its results are ready.
      waited: seconds without a queued batch, between the first batch and the last.
    """

    def __init__(self) -> None:
        self.busy, self.waited = 0.0, 0.0
        self._lock, self._queued, self._since = threading.Lock(), 0, 0.0

    def track_queue(self, results: PyTree) -> None:
        """Counts a batch from now on until its results are computed."""
        self._record_queue_change(1)

        # Wait in a thread, since the caller goes on to queue further batches.
        def wait() -> None:
            with contextlib.suppress(jax.errors.JaxRuntimeError):  # raised when results are fetched
                jax.block_until_ready(results)
            self._record_queue_change(-1)

        threading.Thread(target=wait, daemon=True).start()

    def _record_queue_change(self, change: int) -> None:
        with self._lock:
            now = time.perf_counter()
            # The time since the last change counts as busy if a batch was queued then; before the
            # first batch, no time counts.
            seconds, was_busy = now - self._since if self._since else 0.0, self._queued > 0
            self.busy += seconds * was_busy
            self.waited += seconds * (not was_busy)
            self._queued, self._since = self._queued + change, now

    @property
    def waited_share(self) -> float | None:
        """The share of the time without a queued batch, in [0, 1]; None without batches."""
        return self.waited / (self.busy + self.waited) if self.busy else None


_device_times: list[_DeviceTime] = []


@contextlib.contextmanager
def timing_device() -> Iterator[_DeviceTime]:
    """Measures the device time of batches that are queued within the context."""
    device_time = _DeviceTime()
    _device_times.append(device_time)
    try:
        yield device_time
    finally:
        _device_times.remove(device_time)


def compiles_ahead() -> bool:
    """Whether to compile while batches run; on a CPU both would compete for the same cores."""
    return jax.default_backend() != "cpu"


class CompiledAhead:
    """Programs that compile in threads of their own, before their first batch."""

    def __init__(self) -> None:
        self._calls: dict[Any, concurrent.futures.Future[Any]] = {}

    def begin(self, calls: Mapping[Any, Callable[[], Any]]) -> None:
        """Starts calls that compile programs, keyed by the shape of their batches."""
        calls = {key: call for key, call in calls.items() if key not in self._calls}
        if not calls:
            return
        pool = concurrent.futures.ThreadPoolExecutor(len(calls), "compile")
        for key, call in calls.items():
            self._calls[key] = pool.submit(contextvars.copy_context().run, call)
        # The threads end with these calls; `wait` waits for them.
        pool.shutdown(wait=False)

    def wait(self, key: Any) -> None:
        """Waits until a program is compiled; its errors are raised when a batch is computed."""
        if call := self._calls.get(key):
            with waiting():
                concurrent.futures.wait([call])


def queue(
    partitioner: Partitioner, function: Callable[..., PyTree], *batch: PyTree
) -> Callable[[], PyTree]:
    """Queues a batch as `Partitioner.compute` does; returns a function that waits for results."""
    started = partitioner.start(function, *batch)
    for device_time in _device_times:
        device_time.track_queue(started.outputs)
    return functools.partial(partitioner.finish, started)
