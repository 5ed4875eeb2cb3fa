"""The processes of one run: how they connect, agree on their settings and share the work."""

import functools
import hashlib
import platform
from collections.abc import Callable, Iterator

import jax
import numpy as np

from faith_jax.core.errors import ConfigError
from faith_jax.core.processes import from_all, number_of_first_process, on_first_process
from faith_jax.runs.shards import Job, Shard
from faith_jax.version import __version__

_NONE, _FAILED = -1, "failed"


def join(
    address: tuple[str | None, int | None, int | None],
    found_by_cluster: bool,
    stops_together: bool = False,
) -> None:
    """Connects to the other processes of a run, if there are any.

    Args:
      address: the address of the first process, the number of processes, and the index of this one;
        all three or none.
      found_by_cluster: JAX finds the processes, as on Cloud TPU, or under Slurm or Open MPI.
      stops_together: JAX handles a SIGTERM, and notifies all processes.

    Raises:
      ConfigError: only a part of `address` is given, both ways are used, or there is no cluster.
    """
    are_given = [field is not None for field in address]
    if any(are_given) and not all(are_given):
        raise ConfigError(
            "Give --coordinator_address, --process_count and --process_index together."
        )
    if any(are_given) and found_by_cluster:
        raise ConfigError(
            "--multiprocess: the cluster says where the processes are; leave out "
            "--coordinator_address, --process_count and --process_index."
        )
    jax.config.update("jax_enable_preemption_service", stops_together)
    if any(are_given):
        jax.distributed.initialize(*address)
    elif found_by_cluster:
        try:
            jax.distributed.initialize()
        except (RuntimeError, ValueError) as error:
            raise ConfigError(
                f"--multiprocess: JAX finds no cluster here ({str(error).splitlines()[0]}); give "
                "--coordinator_address, --process_count and --process_index."
            ) from None


def configure_alike(configure: Callable[[], None]) -> None:
    """Reads the gin configuration and compares it with the other processes' configurations.

    Processes that do different things would wait for each other forever.

    Raises:
      ConfigError: configurations or versions differ, or another process could not read its own.
    """
    import gin  # not at the top: `score` does not need it

    failed = None
    try:
        configure()
    except BaseException as error:  # raised below, since the other processes wait for this one
        failed = error
    if jax.process_count() > 1:
        versions = f"faith_jax {__version__}, jax {jax.__version__}, {platform.python_version()}"
        digest = _hash_text(_FAILED if failed else f"{versions}\n{gin.config_str()}")
        digests = from_all(digest, "all have read their configurations")
        if failed is None:
            _check_equal_digests(digests)
    if failed is not None:
        raise failed


def _hash_text(text: str) -> np.ndarray:
    return np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8)


def _check_equal_digests(digests: np.ndarray) -> None:
    """Compares digests [processes, 32] of configurations and versions."""
    failed = (digests == _hash_text(_FAILED)).all(axis=1)
    if failed.any():
        raise ConfigError(
            f"process {np.flatnonzero(failed)[0]} could not read its configuration; see what it "
            "says."
        )
    differs = (digests != digests[0]).any(axis=1)
    if differs.any():
        names = ", ".join(map(str, np.flatnonzero(differs)))
        raise ConfigError(
            f"process {names} of this run has other gin files, --gin options or versions of "
            "faith_jax, JAX or Python than process 0; start all processes with the same command, "
            "but for --process_index."
        )


def begin_job(begin: Callable[[bool], Job], restart: bool) -> Job:
    """Begins a job: the first process plans it, and the others take part.

    `begin` takes `restart`, whether to discard the rows of a stopped run.
    """
    job = on_first_process(lambda: begin(restart), "the plan of the rows")
    # The others join once the plan exists, and must not discard it.
    return begin(False) if job is None else job


def take_shards(job: Job, together: bool, batch_size: int) -> Iterator[tuple[Shard, bool, int]]:
    """Yields the shards that this process computes.

    Args:
      job: the job.
      together: whether all processes compute the same shard, because one process cannot hold the
        model. Otherwise each process has its own share, and at the end waits for the others.
      batch_size: rows are resumed in whole batches of this size.

    Yields:
      A shard, whether this process writes its rows, and how many rows are written already.
    """
    first = jax.process_index() == 0
    several = jax.process_count() > 1
    if not together:
        share = (jax.process_index(), jax.process_count()) if several else None
        yield from ((shard, True, shard.done_rows(batch_size)) for shard in job.take_shards(share))
        return
    mine = job.take_shards((0, 1) if several else None) if first else iter(())

    def number() -> int:
        shard = next(mine, None)
        return _NONE if shard is None else shard.number

    while (shard_number := number_of_first_process(number, "a shard")) != _NONE:
        shard = job.shards[shard_number]
        count_done = functools.partial(shard.done_rows, batch_size)
        yield shard, first, number_of_first_process(count_done, str(shard.rows))
