"""The parts in which the rows of a split are made: each process of a run makes its own.

How many parts there are depends on the data alone, and each is made as if it were the only one. So
rows and their numbers are the same for any number of processes.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from faith_jax.core.errors import ConfigError, ProcessError, StorageError
from faith_jax.core.files import report_write_errors
from faith_jax.core.files.stores import fetch_file, is_remote, upload_file
from faith_jax.core.files.whole import remove_tree
from faith_jax.core.processes import raise_together
from faith_jax.core.progress import Progress
from faith_jax.input.row_cache import Row, read_cache, write_cache

EXAMPLES = 2000  # of a part, which takes a fifth of a second beside what these take
MOST = 64  # parts, which then have more examples


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a task's rows.

    Attributes:
      name: of its file.
      fingerprint: of what its rows depend on.
      rows: makes them.
    """

    name: str
    fingerprint: str
    rows: Callable[[], Iterator[Row]]


def count_parts(task: Any, split: str, use_cached: bool) -> int:
    """Returns the number of parts in which the rows of a SeqIO task are made.

    That is 1 for a task that keeps the order of its rows. No example is read twice, so a source
    that is not read in ranges, as ours are, has at most as many parts as files.
    """
    if task.shuffle_buffer_size is None:
        return 1
    source = task._get_cached_source(split) if use_cached else task.source
    examples = source.num_input_examples(split)
    parts = MOST if examples is None else min(MOST, -(-examples // EXAMPLES))
    if not source.supports_arbitrary_sharding:
        parts = min(parts, len(source.list_shards(split)))
    return max(1, parts)


def make_parts(
    parts: Sequence[Part], local: pathlib.Path, shared: pathlib.Path | None, contents: str
) -> None:
    """Makes the parts that are not there yet; all are in the folder `local` then.

    Args:
      parts: of all tasks of a split.
      local: a folder of this machine.
      shared: a folder that all processes of this run share, where each makes its own parts: `local`
        itself, or one of a store, from which each copies what the others have made. None = each
        process makes all parts.
      contents: a name of the rows, for messages.

    Raises:
      FaithJaxError: on all processes, the same one: that of the first bad row. No part is kept,
        since the data will be another.
      ProcessError: another process does not come.
      ConfigError: `local` cannot be written, or `shared` is not shared.
      StorageError: the disk is full.
    """
    index, count = (jax.process_index(), jax.process_count()) if shared else (0, 1)
    progress, done, number = Progress(f"making {contents}: row"), 0, 0
    problem: BaseException | None = None

    def count_rows(rows: Iterator[Row]) -> Iterator[Row]:
        nonlocal done
        for row in rows:
            yield row
            done += 1
            progress.update(done)

    try:
        with report_write_errors(f"{local}: {contents}"):
            local.mkdir(parents=True, exist_ok=True)
        for number in range(index, len(parts), count):
            part = parts[number]
            if not _is_there(part, local, shared):
                write_cache(local / part.name, count_rows(part.rows()), part.fingerprint, contents)
                if shared and is_remote(shared):
                    with report_write_errors(f"{shared}: {contents}"):
                        upload_file(local / part.name, shared / part.name)
        progress.update(done, force=True)
    except BaseException as error:  # whatever it is, the other processes wait below
        problem = error
    try:
        raise_together(problem, f"make {contents}", number)
    except (ProcessError, StorageError):
        raise  # the same command resumes
    except Exception:
        if shared and index == 0:
            remove_tree(shared)
        raise
    try:
        missing = next((part.name for part in parts if not _is_there(part, local, shared)), None)
        if missing:
            problem = ConfigError(
                f"{shared or local}: process {index} does not find {missing}, which another one "
                "has made: MODEL_DIR is not on storage that all processes share."
            )
    except Exception as error:
        problem = error
    raise_together(problem, f"find {contents}")


def _is_there(part: Part, local: pathlib.Path, shared: pathlib.Path | None) -> bool:
    path = local / part.name
    if read_cache(path, part.fingerprint):
        return True
    if shared is None or not is_remote(shared) or not fetch_file(shared / part.name, path):
        return False
    return read_cache(path, part.fingerprint)
