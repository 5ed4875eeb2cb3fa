"""What one process of several does for all of them."""

from collections.abc import Callable
from typing import TypeVar

from faith_jax.core.errors import ConfigError

T = TypeVar("T")


def on_first_process(make: Callable[[], T], what: str) -> T | None:
    """Calls `make` on process 0, while the others wait.

    Args:
      make: what only one process may do; whatever it raises is raised there.
      what: is made, for the error of the other processes.

    Returns:
      What `make` returns; None on the other processes.

    Raises:
      ConfigError: on the other processes, where process 0 has failed.
    """
    import jax
    import numpy as np
    from jax.experimental import multihost_utils

    made, failed = None, None
    if jax.process_index() == 0:
        try:
            made = make()
        except BaseException as error:  # whatever it is, the other processes wait below
            failed = error
    is_made = failed is None
    if jax.process_count() > 1:
        is_made = bool(multihost_utils.broadcast_one_to_all(np.bool_(is_made)))
    if failed is not None:
        raise failed
    if not is_made:
        raise ConfigError(f"process 0 could not make {what}; see what it says.")
    return made
