"""Agreement among the processes of a run, with limits on how long they wait for each other.

When a process dies, JAX ends all processes of the run: at once if it was the first process,
otherwise within 100 seconds. A process that is alive but does not arrive would be waited for
forever, so each agreement starts with a wait that has a time limit.
"""

import contextvars
import itertools
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np

from faith_jax.core.errors import (
    CheckpointError,
    ConfigError,
    FaithJaxError,
    InputError,
    ProcessError,
    StorageError,
    pluralize,
)

T = TypeVar("T")

_LONGEST_WAIT = 3600  # seconds
_NOWHERE = np.iinfo(np.int32).max
_TOLD = (InputError, CheckpointError, ConfigError, FaithJaxError, StorageError)
_END_WAIT = 10  # seconds within which other processes count as failing together
_SECONDS = contextvars.ContextVar("seconds", default=_LONGEST_WAIT)
_numbers = itertools.count()


def limit_waits(seconds: int) -> None:
    """Sets how long processes of this run wait for each other; initially `_LONGEST_WAIT`."""
    _SECONDS.set(seconds)


def wait_for_all(event: str) -> None:
    """Blocks until all processes of a run call this, which they must do in the same order.

    `event` describes this point in errors, such as "the output is written".

    Raises:
      ProcessError: names the processes that did not arrive in time.
    """
    if jax.process_count() > 1:
        _wait_at_barrier(f"faith_jax/{next(_numbers)}/{event}", event, _SECONDS.get())


def _wait_at_barrier(barrier: str, event: str, seconds: int) -> None:
    from jax._src import distributed  # has JAX's only barrier with a time limit

    client: Any = distributed.global_state.client
    try:
        client.wait_at_barrier(barrier, 1000 * seconds)
    except jax.errors.JaxRuntimeError as error:
        late = re.findall(r"(\d+)$", str(error).partition("task names:")[2], re.MULTILINE)
        who = f"process {', '.join(sorted(late, key=int))}" if late else "another process"
        has_waited = "DEADLINE_EXCEEDED" in str(error)  # otherwise JAX has noticed that it ended
        what = f"did not come within {pluralize(seconds, 'second')} to where"
        raise ProcessError(
            f"{who} of this run {what if has_waited else 'ended before'} {event}; see what it "
            "says. The same command resumes.",
            1,
        ) from error


def end_together(status: int) -> None:
    """Ends this process with `status` if the other processes do not end too.

    JAX would let this process wait for the others for five minutes, and then abort it.
    """
    if not jax.distributed.is_initialized():
        return
    error = sys.exception()
    try:
        _wait_at_barrier("faith_jax/end", "all end", _END_WAIT)
    except ProcessError:
        if error is not None:
            traceback.print_exception(error)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def from_all(value: Any, event: str) -> np.ndarray:
    """Gathers an array from each process: [processes, ...].

    `value` is this process's array, of the same shape in all; for `event` see `wait_for_all`.
    """
    value = np.asarray(value)
    if jax.process_count() == 1:
        return value[None]
    from jax.experimental import multihost_utils

    wait_for_all(event)
    return np.asarray(multihost_utils.process_allgather(value))


def from_first(value: Any, event: str) -> np.ndarray:
    """Returns process 0's array on all processes; `value` has the same shape on all of them."""
    value = np.asarray(value)
    if jax.process_count() == 1:
        return value
    from jax.experimental import multihost_utils

    wait_for_all(event)
    return np.asarray(multihost_utils.broadcast_one_to_all(value))


def on_first_process(make: Callable[[], T], product: str) -> T | None:
    """Calls `make` on process 0, while the others wait; returns its result, or None on the others.

    Exceptions of `make` are raised on process 0. `product` names the result in messages.

    Raises:
      ConfigError: on the other processes, if process 0 has failed.
    """
    result, failed = None, None
    if jax.process_index() == 0:
        try:
            result = make()
        except BaseException as error:  # in any case, the other processes wait below
            failed = error
    is_made = from_first(failed is None, f"process 0 has made {product}")
    if failed is not None:
        raise failed
    if not is_made:
        raise ConfigError(f"process 0 could not make {product}; see what it says.")
    return result


def raise_together(problem: BaseException | None, task: str, place: int = 0) -> None:
    """Raises the same error on all processes if one or several of them have a problem.

    Args:
      problem: this process's problem, or None.
      task: describes the failed task in the error of the other processes.
      place: position of the problem; of several problems, the one with the lowest place is raised.

    Raises:
      FaithJaxError: the same error on all processes.
      ConfigError: on the other processes, if the problem is an exception of another type.
    """
    if jax.process_count() == 1:
        if problem is not None:
            raise problem
        return
    event = f"all have tried to {task}"
    places = from_all(_NOWHERE if problem is None else place, event)
    if (places == _NOWHERE).all():
        return
    first = int(np.argmin(places))
    kind = next((kind for kind in _TOLD if isinstance(problem, kind)), None)
    message = f"{kind.__name__}\n{problem}" if kind else ""
    encoded = np.frombuffer(message.encode(), np.uint8)
    sizes = from_all(len(encoded), event)
    padded = from_all(np.pad(encoded, (0, int(sizes.max()) - len(encoded))), event)
    name, _, text = bytes(padded[first, : sizes[first]]).decode().partition("\n")
    if problem is not None and (kind is None or jax.process_index() == first):
        raise problem
    for kind in _TOLD:
        if kind.__name__ == name:
            raise kind(text)
    raise ConfigError(f"process {first} could not {task}; see what it says.")


def text_of_first_process(make: Callable[[], str], product: str) -> str:
    """Returns the text of `make` on process 0 to all processes; see `on_first_process`."""
    encoded = (on_first_process(make, product) or "").encode()
    event = f"process 0 has made {product}"
    length = int(from_first(np.int32(len(encoded)), event))
    return bytes(from_first(np.frombuffer(encoded or bytes(length), np.uint8), event)).decode()


def number_of_first_process(make: Callable[[], int], product: str) -> int:
    """Returns the number of `make` on process 0 to all processes; see `on_first_process`."""
    number = on_first_process(make, product) or 0
    return int(from_first(np.int32(number), f"process 0 has made {product}"))
