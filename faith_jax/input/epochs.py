"""Converts epochs to steps, so that a recipe fits data of any size."""

import math

from faith_jax.core.errors import ConfigError
from faith_jax.core.settings import Positive, PositiveNumber
from faith_jax.input.task_batches import DatasetConfig


def steps(dataset: DatasetConfig, epochs: PositiveNumber, at_least: Positive = 1) -> int:
    """Returns the number of steps in some epochs of a split, and no fewer than `at_least`.

    Examples are counted before preprocessors drop or add any; with SeqIO's cache, only before the
    preprocessors that follow it.

    Raises:
      ConfigError: the task does not know the number of its examples, rows are packed, or
        `DatasetConfig.task` raises it.
    """
    if dataset.pack:
        raise ConfigError(
            "PACK = True: how many packed rows an epoch has is not known before they are made; set "
            "PACK = False, or TRAIN_STEPS, EVAL_PERIOD and CHECKPOINT_PERIOD to numbers."
        )
    task = dataset.task("TRAIN_SPLIT")
    examples = 0
    for part in getattr(task, "tasks", [task]):
        if dataset.split not in part.splits:
            continue
        source = part._get_cached_source(dataset.split) if dataset.use_cached else part.source
        try:
            count = source.num_input_examples(dataset.split)
        except (KeyError, NotImplementedError):  # a user's source need not count all splits
            count = None
        if count is None:
            raise ConfigError(
                f"{part.name}: how many examples split {dataset.split!r} has is not known; set "
                "TRAIN_STEPS, EVAL_PERIOD and CHECKPOINT_PERIOD."
            )
        examples += count
    return max(at_least, math.ceil(epochs * examples / dataset.batch_size))
