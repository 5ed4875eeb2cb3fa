"""The run `tasks` without TASK: what tasks there are. It needs neither SeqIO nor TensorFlow."""

import collections
from collections.abc import Iterator

from faith_jax.datasets.task_data import MIXTURES, TASKS, TFDS_SPLITS, task_sizes


def task_list() -> Iterator[str]:
    """Yields lines that show all tasks with their splits and sizes, in alphabetical order.

    Data that is not prepared is not touched; its line says what prepares it.
    """
    for name in sorted({*TASKS, *MIXTURES}):
        parts = MIXTURES.get(name, (name,))
        sizes = {part: task_sizes(part) for part in parts}
        if missing := next((part for part, size in sizes.items() if size is None), None):
            data_sets = TASKS[missing]
            remedy = f"faith-jax prepare {data_sets[0]}"
            if data_sets in TFDS_SPLITS:
                remedy = f"TFDS fetches {', '.join(data_sets)} when it is read"
            yield f"{name}  (not prepared: {remedy})"
            continue
        counts = collections.Counter[str]()
        for part_sizes in sizes.values():
            counts.update(part_sizes or {})
        yield f"{name}  ({', '.join(f'{split} {count:,}' for split, count in counts.items())})"
        if name in MIXTURES:
            yield f"    a mixture of {', '.join(sorted(parts))}"
