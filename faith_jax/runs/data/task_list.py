"""The run `tasks` without TASK: what tasks there are. It needs neither SeqIO nor TensorFlow."""

import collections
from collections.abc import Iterator, Mapping

from faith_jax.datasets.task_data import MIXTURES, TASKS, TFDS_SPLITS, task_sizes


def task_list() -> Iterator[str]:
    """Yields lines that show all tasks with their splits and sizes, in alphabetical order.

    Data that is not prepared is not touched; its line says what prepares it.
    """
    for name in sorted({*TASKS, *MIXTURES}):
        parts = MIXTURES.get(name, (name,))
        sizes = {part: task_sizes(part) for part in parts}
        if missing := next((part for part, size in sizes.items() if size is None), None):
            yield f"{name}  (not prepared: {_describe_preparation(missing)})"
            continue
        yield f"{name}  ({_split_sizes(sizes)})"
        if name in MIXTURES:
            yield f"    a mixture of {', '.join(sorted(parts))}"


def _split_sizes(sizes: Mapping[str, Mapping[str, int] | None]) -> str:
    counts: collections.Counter[str] = collections.Counter()
    for part_sizes in sizes.values():
        counts.update(part_sizes or {})
    return ", ".join(f"{split} {count:,}" for split, count in counts.items())


def _describe_preparation(task: str) -> str:
    """Returns how the data of a task is prepared."""
    if TASKS[task] in TFDS_SPLITS:
        return f"TFDS fetches {', '.join(TASKS[task])} when it is read"
    return f"faith-jax prepare {TASKS[task][0]}"
