"""How far a long loop is."""

import logging
import time

logger = logging.getLogger("faith_jax")


class Progress:
    """Logs how a long loop goes, with rate and time left, at most every few seconds.

    A loop of unknown length (total = 0) has no time left.
    """

    def __init__(self, what: str, total: int = 0, done: int = 0, every_seconds: float = 10.0):
        self._what, self._total, self._first = what, total, done
        self._every = every_seconds
        self._done = done
        self._start = self._last = time.monotonic()

    def add(self, count: int) -> None:
        """Logs a line where it is time for one, after `count` more are done."""
        self._done += count
        self.update(self._done)

    def update(self, done: int, text: str = "", force: bool = False) -> None:
        """Logs a line where it is time for one."""
        now = time.monotonic()
        if not force and now - self._last < self._every:
            return
        self._last = now
        rate = (done - self._first) / max(now - self._start, 1e-9)
        if not self._total:
            logger.info("%s %d  %.2f/s", self._what, done, rate)
            return
        left = (self._total - done) / rate if rate > 0 else float("inf")
        logger.info(
            "%s %d/%d  %s  %.2f/s  %s left", self._what, done, self._total, text, rate, clock(left)
        )


def clock(seconds: float) -> str:
    """Returns seconds as "1:02:03" or "2:03"."""
    if seconds == float("inf"):
        return "?"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
