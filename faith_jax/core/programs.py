"""Whether the programs that calls have compiled serve later calls of other sizes."""

import contextlib
import contextvars
from collections.abc import Iterator

_IS_SHARING = contextvars.ContextVar("is_sharing", default=False)


def are_programs_shared() -> bool:
    """Whether this is within `sharing_programs`."""
    return _IS_SHARING.get()


@contextlib.contextmanager
def sharing_programs() -> Iterator[None]:
    """Within, rows are padded to shapes of earlier calls where that is cheaper than a program.

    For a service, whose calls are small and of any size. Not for jobs: the last digits of a score
    depend on its batch's shape, and a job that resumes has had other calls before.
    """
    former = _IS_SHARING.set(True)
    try:
        yield
    finally:
        _IS_SHARING.reset(former)
