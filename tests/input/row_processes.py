"""One of several processes that make the rows of a split; see test_row_processes.py.

Run as `python -m tests.input.row_processes ADDRESS COUNT INDEX JOBS.json`; the file has a list of
jobs. Each job has the arguments of `run`, whose result goes to `output`/INDEX.json.
"""

import itertools
import json
import os
import pathlib
import signal
import sys
import time

import jax
import numpy as np

from faith_jax.core import processes
from faith_jax.core.errors import FaithJaxError, ProcessError
from faith_jax.input import row_cache, rows
from faith_jax.input.row_cache import RowCache
from faith_jax.input.task_batches import DatasetConfig, SplitRows
from faith_jax.models.config import TransformerConfig
from faith_jax.models.partitioning import make_partitioner

EXAMPLES = 400  # in each part of the cache
MODEL = TransformerConfig(vocab_size=4096)
BATCH_SIZE = 16


def run(output, folder, targets=40, starts=(), dies=-1):
    """Makes the rows of text_to_text, or takes them from a folder, and reads batches.

    Args:
      output: the folder for the result and for the arrays of batches.
      folder: the folder of rows that the processes share.
      targets: the longest targets, in tokens.
      starts: first steps, at each of which two batches are read.
      dies: the process that is killed when it has made 100 rows.

    Returns:
      The ids of the rows made, the numbers of the rows read for each start, and the error.
    """
    rows_made, read = [], []
    make, get, examples = rows._make_text_row, RowCache.__getitem__, row_cache.EXAMPLES

    def counted_row(*args):
        example = args[-2]
        rows_made.append(example["id"].decode())
        if len(rows_made) == 100 and jax.process_index() == dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return make(*args)

    def counted_get(self, number):
        read.append(number)
        return get(self, number)

    rows._make_text_row, RowCache.__getitem__ = counted_row, counted_get
    row_cache.EXAMPLES = EXAMPLES
    report = {"made": rows_made, "read": [], "error": ""}
    lengths = {"inputs": 32, "targets": targets}
    config = DatasetConfig("text_to_text", lengths, batch_size=BATCH_SIZE, seed=3)
    output = pathlib.Path(output)
    output.mkdir(exist_ok=True)
    try:
        split = SplitRows(config, MODEL, pathlib.Path(folder))
        local_rows = make_partitioner(MODEL).local_rows(BATCH_SIZE)
        for start in starts:
            batches = [split._training_batch(step, local_rows) for step in (start, start + 1)]
            report["read"].append(list(read))
            read.clear()
            again = list(itertools.islice(split.training_batches(start, local_rows), 2))
            for batch, same in zip(batches, again, strict=True):
                assert all((batch[name] == same[name]).all() for name in batch)
            both = {n: np.stack([batch[n] for batch in batches]) for n in batches[0]}
            np.savez(output / f"{jax.process_index()}-{start}.npz", **both)
            time.sleep(0.2)  # waits for reading ahead
            read.clear()
    except (FaithJaxError, ProcessError) as error:
        report["error"] = f"{type(error).__name__}: {error}"
    finally:
        rows._make_text_row, RowCache.__getitem__, row_cache.EXAMPLES = make, get, examples
    (output / f"{jax.process_index()}.json").write_text(json.dumps(report))
    return report


def main(address, count, index, jobs):
    jax.distributed.initialize(address, int(count), int(index))
    processes.limit_waits(300)
    for job in json.loads(pathlib.Path(jobs).read_text()):
        if "dies" in job:
            processes.limit_waits(10)
        failed = "ProcessError" in run(**job)["error"]
    if failed:  # JAX would wait for the killed process
        time.sleep(3 if index == "0" else 0)
        os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
