"""Leases: the only right to write an output on an object store, for as long as it is renewed.

A lease is an object that is made only if there is none, written again every few seconds, and
removed at the end. Whoever finds one watches it: if it changes, its process lives; if it stays as
it is for as long as it says, its process is gone, and it is taken over. So no clocks are compared.
Every write has the version of the last one as its condition, so that of two processes one succeeds.
"""

import contextlib
import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from faith_jax.core.files.stores import content, put_if, remove_if, storage_errors, version

logger = logging.getLogger("faith_jax")

_RENEWALS = 3  # of a lease before it expires


class _Seen(NamedTuple):
    """The lease of another process, as this process saw it last."""

    version: str
    since: float  # when this version was seen first
    seconds: float  # that it says it lasts
    renewed: bool  # it had another version before: its process lives


_seen: dict[str, _Seen] = {}  # by path


@contextlib.contextmanager
def hold_lease(
    path: Any, output: Any, seconds: float, wait: bool | None, lost: Callable[[str], None]
) -> Iterator[bool]:
    """Holds a lease; yields False, and holds none, if another process does.

    Args:
      path: the object.
      output: what it is the right to write, for messages.
      seconds: after these without a renewal, it has expired.
      wait: for another process that holds it; False = only until it is renewed or expires; None =
        not at all, one that was seen before may have expired.
      lost: is called, in another thread, with the reason if it is lost meanwhile.
    """
    lease = _Lease(path, seconds, lost)
    if not lease.take(output, wait):
        yield False
        return
    renewing = threading.Thread(target=lease.renew, name=f"lease of {output}", daemon=True)
    renewing.start()
    try:
        yield True
    finally:
        lease.ended.set()
        renewing.join()
        lease.release()


def is_renewed(path: Any) -> bool:
    """Whether this process has seen that the holder of a lease renews it."""
    return str(path) in _seen and _seen[str(path)].renewed


class _Lease:
    def __init__(self, path: Any, seconds: float, lost: Callable[[str], None]):
        self._path, self._seconds, self._lost = path, seconds, lost
        self._token, self._count = secrets.token_hex(8), 0
        self._version: str | None = None
        self.ended = threading.Event()

    def take(self, output: Any, wait: bool | None) -> bool:
        """Makes the object, or takes over one that has expired; False = another process lives."""
        is_logged = wait is None
        if wait is not None:
            _seen.pop(str(self._path), None)
        while True:
            current_version = version(self._path)
            if current_version is None or self._has_expired(current_version):
                with contextlib.suppress(FileExistsError):
                    self._write_lease(current_version)
                    _seen.pop(str(self._path), None)
                    return True
            elif wait is None or (not wait and is_renewed(self._path)):
                return False
            else:
                if not is_logged:
                    logger.info("%s: waiting to see whether another run is writing it", output)
                    is_logged = True
                time.sleep(min(1.0, self._seconds / 10))

    def _has_expired(self, current_version: str) -> bool:
        """Whether a lease was seen unchanged for as long as it says."""
        before = _seen.get(str(self._path))
        if before is None or before.version != current_version:
            try:
                seconds = float(json.loads(content(self._path))["seconds"])
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                seconds = self._seconds
            _seen[str(self._path)] = _Seen(
                current_version, time.monotonic(), seconds, before is not None
            )
            return False
        return time.monotonic() - before.since > before.seconds

    def _write_lease(self, match: str | None) -> None:
        self._count += 1
        fields = {"token": self._token, "renewed": self._count, "seconds": self._seconds}
        data = json.dumps({**fields, "host": os.uname().nodename, "pid": os.getpid()}).encode()
        try:
            self._version = put_if(self._path, data, match)
        except FileExistsError:
            # Also the answer to a write that is repeated because the first answer was lost.
            if not self._is_own():
                raise
            self._version = version(self._path)

    def _is_own(self) -> bool:
        try:
            return bool(json.loads(content(self._path))["token"] == self._token)
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return False

    def renew(self) -> None:
        """Writes the object again and again, until `ended`; tells if the lease is lost."""
        last = time.monotonic()
        while not self.ended.wait(self._seconds / _RENEWALS):
            try:
                self._write_lease(self._version)
                last = time.monotonic()
            except FileExistsError:
                return self._lost("another run has taken it over")
            except storage_errors() as error:
                if time.monotonic() - last > self._seconds:
                    return self._lost(f"its storage does not answer: {error}")
        return None

    def release(self) -> None:
        """Removes the object, if it is still this process's; else leaves it to expire."""
        with contextlib.suppress(*storage_errors()):
            remove_if(self._path, str(self._version))
