"""Log lines about the progress of long loops, and lines that are logged only once."""

import collections
import functools
import logging
import time
from typing import NamedTuple

from faith_jax.core.errors import ProcessError

logger = logging.getLogger("faith_jax")

_LINE_SECONDS = 10.0  # minimum time between two lines
_PATIENCE = 3600.0  # seconds without a change after which waiting fails


@functools.lru_cache(maxsize=1024)
def log_once(line: str, level: int = logging.INFO) -> None:
    """Logs a line, unless it was already logged since `log_once.cache_clear()`."""
    logger.log(level, "%s", line)


class Progress:
    """Logs the progress of a long loop, with rate and time left, at most every few seconds.

    Rate and time left are estimated from the second half of the time so far, because the first
    steps may compile or be cheap. The first line, and lines of a loop of unknown length
    (total = 0), have no time left. The last line has the overall rate.

    Args:
      unit: name of the counted items, such as "step".
      total: number of items.
      done: number of items that an earlier run has done.
      work: total work in any unit, if items take different times; `add` gets the work of items.
    """

    def __init__(self, unit: str, total: int = 0, done: int = 0, work: int = 0):
        self._unit, self.total, self._work = unit, total, work
        self._done, self._worked = done, 0
        self._start = _Mark(time.monotonic(), done, 0 if work else done)
        self._lines = collections.deque[_Mark]()

    def add(self, count: int, work: int = 0) -> None:
        """Counts `count` more items as done, and logs a line if it is time for one."""
        self._done += count
        self._worked += work
        self.update(self._done)

    def others(self, count: int) -> None:
        """Counts items that another process or an earlier run has done."""
        self._done += count
        worked = 0 if self._work else count

        def later(mark: _Mark) -> _Mark:
            return mark._replace(done=mark.done + count, work=mark.work + worked)

        self._start, self._lines = later(self._start), collections.deque(map(later, self._lines))

    def update(self, done: int, text: str = "", force: bool = False) -> None:
        """Logs a line if it is time for one, or if `force` is set for the last line."""
        now = _Mark(time.monotonic(), done, self._worked if self._work else done)
        lines, is_last = self._lines, force or done == self.total
        if not force and now.time - (lines[-1] if lines else self._start).time < _LINE_SECONDS:
            return
        while len(lines) > 1 and lines[1].time <= (self._start.time + now.time) / 2:
            lines.popleft()
        since = lines[0] if lines and not is_last else self._start
        seconds = max(now.time - since.time, 1e-9)
        line = f"{self._unit} {done}"
        if self.total:
            line += f"/{self.total}  {text}"
        line += f"  {(done - since.done) / seconds:.2f}/s"
        if self.total and lines and not is_last and now.work > since.work:
            left = (self._work or self.total) - now.work
            line += f"  {clock(left / (now.work - since.work) * seconds)} left"
        logger.info("%s", line)
        lines.append(now)


class _Mark(NamedTuple):
    """A time, and the items and work done by then."""

    time: float
    done: int
    work: int


def clock(seconds: float) -> str:
    """Returns seconds as "1:02:03" or "2:03"."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


class Patience:
    """Waits for other processes as long as they make progress.

    Args:
      awaited: describes the awaited result in the error, such as "the shards of other processes".
    """

    def __init__(self, awaited: str):
        self._awaited = awaited
        self._seen: object = None
        self._since = time.monotonic()

    def wait(self, seen: object, seconds: float = 1.0) -> None:
        """Sleeps until the next check.

        `seen` is the observed state, such as file sizes, which changes if the others make progress.

        Raises:
          ProcessError: if `seen` has been the same for too long.
        """
        now = time.monotonic()
        if seen != self._seen:
            self._seen, self._since = seen, now
        elif now - self._since > _PATIENCE:
            raise ProcessError(
                f"{self._awaited}: nothing has changed for {_PATIENCE:,.0f} seconds; see what "
                "the other processes say, end them, and run the same command again.",
                1,
            )
        time.sleep(seconds)
