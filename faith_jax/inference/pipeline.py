"""Batches in turn: they are queued on the device while earlier ones run, and fetched in order.

JAX returns from a call before the device has computed it. So the batches of a call are queued one
after the other, and their results are fetched behind them. Between two calls, such as those for the
rows of a file, the device would still wait while rows are tokenized and packed. `ahead` therefore
makes the next call in another thread. Threads take turns: only one runs at a time, until it waits
for the device. Nothing of ours runs beside itself, and nothing needs a lock.
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

# Batches of a call that are queued, at most: the arrays of each take memory on the device.
_QUEUED = 32
# Calls that are under way: one waits for the device, and the next one is made.
_CALLS = 2


class _Turns:
    """Lets one call run at a time, until it waits or ends."""

    def __init__(self) -> None:
        self._lock, self._is_over = threading.Lock(), False

    def take(self) -> None:
        self._lock.acquire()
        if self._is_over:
            # Released first, so that the next one that waits finds the end too.
            self._lock.release()
            raise concurrent.futures.CancelledError

    def give(self) -> None:
        self._lock.release()

    def end(self) -> None:
        """Lets no call go on that waits for its turn, or for the device."""
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
    """Calls a function on each item, ahead of the one that is used, and yields results in order.

    An error comes in the place of its result, after the results before it. No thread is left when
    the iteration ends, however it ends.
    """
    turns = _Turns()

    def taking_turns(item: Item) -> Result:
        turns.take()
        ended = False
        try:
            _TURNS.set(turns)
            return call(item)
        except concurrent.futures.CancelledError:
            ended = True  # it waited, and got no further turn
            raise
        finally:
            if not ended:
                turns.give()

    pool = concurrent.futures.ThreadPoolExecutor(_CALLS, "score")
    pending = collections.deque[concurrent.futures.Future[Result]]()
    try:
        for item in items:
            # In a copy of the caller's context, in which `_TURNS` is set for this call alone.
            pending.append(pool.submit(contextvars.copy_context().run, taking_turns, item))
            # What is computed is taken before the next item is read.
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
    """Yields each batch with its results, in order, while those behind it are queued.

    Batches are `started` with what waits for their results.
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
    """Halves the batches once where the device's memory is not enough for them.

    Args:
      halve: makes the batches to come half as large.
    """

    def __init__(self, halve: Callable[[], None]):
        self._halve: Callable[[], None] | None = halve

    def fetch_results(
        self,
        started: Callable[[list[int]], Iterable[tuple[Item, Callable[[], Result]]]],
        left: Mapping[int, Any],
    ) -> Iterator[tuple[Item, Result]]:
        """Yields batches with their results; smaller ones after an error of the memory.

        Args:
          started: queues batches of some rows.
          left: the numbers of the rows without results; the caller removes those of each batch.

        Raises:
          ConfigError: where half of a batch does not fit either.
        """
        while left:
            # Read before the batches run: another call may halve them meanwhile.
            halve, problem = self._halve, None
            try:
                # After an error only the rows that have no results yet are batched again.
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
            if self._halve is None:  # another call has halved them meanwhile
                continue
            self._halve = None
            halve()
            logger.warning(
                "the device has too little memory for a batch (%s); batches are half as large from "
                "now on",
                problem,
            )


class _DeviceTime:
    """How long a device had batches queued, and how long none.

    Attributes:
      busy: seconds with a batch, from its call until its results are there.
      waited: seconds between the first batch and the last without any.
    """

    def __init__(self) -> None:
        self.busy, self.waited = 0.0, 0.0
        self._lock, self._queued, self._since = threading.Lock(), 0, 0.0

    def track_queue(self, results: PyTree) -> None:
        """Counts a batch from now on until its results are computed."""
        self._record_queue_change(1)

        # In a thread, since the caller goes on to queue further batches.
        def wait() -> None:
            with contextlib.suppress(jax.errors.JaxRuntimeError):  # told where they are fetched
                jax.block_until_ready(results)
            self._record_queue_change(-1)

        threading.Thread(target=wait, daemon=True).start()

    def _record_queue_change(self, change: int) -> None:
        with self._lock:
            now = time.perf_counter()
            # The time since the last change belongs to what was queued then; before the first batch
            # no time counts.
            seconds, was_busy = now - self._since if self._since else 0.0, self._queued > 0
            self.busy += seconds * was_busy
            self.waited += seconds * (not was_busy)
            self._queued, self._since = self._queued + change, now

    @property
    def waited_share(self) -> float | None:
        """The share of the time in which no batch was queued, in [0, 1]; None without batches."""
        return self.waited / (self.busy + self.waited) if self.busy else None


_device_times: list[_DeviceTime] = []


@contextlib.contextmanager
def timing_device() -> Iterator[_DeviceTime]:
    """Measures the batches that are queued within."""
    device_time = _DeviceTime()
    _device_times.append(device_time)
    try:
        yield device_time
    finally:
        _device_times.remove(device_time)


def compiles_ahead() -> bool:
    """Whether programs compile beside others; on a CPU both would have the same cores."""
    return jax.default_backend() != "cpu"


class CompiledAhead:
    """Programs that compile in threads of their own, before their first batch."""

    def __init__(self) -> None:
        self._calls: dict[Any, concurrent.futures.Future[Any]] = {}

    def begin(self, calls: Mapping[Any, Callable[[], Any]]) -> None:
        """Begins calls that compile programs, by what their batches have in common."""
        calls = {key: call for key, call in calls.items() if key not in self._calls}
        if not calls:
            return
        pool = concurrent.futures.ThreadPoolExecutor(len(calls), "compile")
        for key, call in calls.items():
            self._calls[key] = pool.submit(contextvars.copy_context().run, call)
        # The threads end with these calls, and nobody has to wait for them here.
        pool.shutdown(wait=False)

    def wait(self, key: Any) -> None:
        """Waits for a program that is being compiled; its errors come where a batch is computed."""
        if call := self._calls.get(key):
            with waiting():
                concurrent.futures.wait([call])


def queue(
    partitioner: Partitioner, function: Callable[..., PyTree], *batch: PyTree
) -> Callable[[], PyTree]:
    """Queues what `Partitioner.compute` computes of a batch, and returns what waits for it."""
    started = partitioner.start(function, *batch)
    for device_time in _device_times:
        device_time.track_queue(started.outputs)
    return functools.partial(partitioner.finish, started)
