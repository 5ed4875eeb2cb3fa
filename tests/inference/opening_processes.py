"""Opens checkpoints on a mesh of eight devices and compares every shard with the whole.

Run as `python -m tests.inference.opening_processes [--process=ADDRESS/NUMBER] FOLDER…` by one
process with eight devices, or two with four. It prints a line for each folder: how many parameters
are split and how many are not, or the error.
"""

import sys
from typing import Any

import jax
import numpy as np

from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.errors import FaithJaxError
from faith_jax.models.partitioning import make_partitioner
from faith_jax.models.transformer import Transformer
from faith_jax.runs.setup import load_for_inference, matching_params


def check(folder: str) -> str:
    """Returns the counts of split parameters and others."""
    checkpoint = open_checkpoint(folder)
    counts = []
    for scan, dtype in ((False, "float32"), (True, "bfloat16")):
        config = checkpoint.config.replace(scan_layers=scan)
        module, params, _ = load_for_inference(
            folder, lambda config: make_partitioner(config, 8), Transformer(config), dtype
        )
        assert not module.config.scan_layers
        jax.tree.map(same, params, matching_params(checkpoint.read(), module.config))
        assert {leaf.dtype.name for leaf in jax.tree.leaves(params)} == {dtype}
        split = [not leaf.sharding.is_fully_replicated for leaf in jax.tree.leaves(params)]
        counts.append(f"{sum(split)} of {len(split)}")
    return ", ".join(counts)


def same(actual: jax.Array, expected: Any) -> None:
    """Checks that this process's shards equal the expected array bit by bit, in their dtype."""
    expected = np.asarray(expected).astype(actual.dtype)
    assert actual.shape == expected.shape
    for shard in actual.addressable_shards:
        assert np.asarray(shard.data).tobytes() == expected[shard.index].tobytes()


def main(*folders: str) -> None:
    for folder in folders:
        try:
            print(check(folder), flush=True)
        except FaithJaxError as error:
            print(f"{type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    if sys.argv[1].startswith("--process="):
        address, number = sys.argv.pop(1).removeprefix("--process=").rsplit("/", 1)
        jax.distributed.initialize(address, 2, int(number))
    main(*sys.argv[1:])
