"""The examples of tasks, read once for all tests of a process."""

import functools

from faith_jax.tasks import lookup


@functools.cache
def examples(name, split="train"):
    """Returns the examples of a task, in order and with all their tokens."""
    task = lookup.get_task(name)
    return list(task.get_dataset(None, split, shuffle=False).as_numpy_iterator())


def texts(name, split="train", feature="targets"):
    return [row[f"{feature}_pretokenized"].decode() for row in examples(name, split)]


def strings(values):
    return [value.decode() for value in values]
