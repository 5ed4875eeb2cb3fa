"""Numbers of steps by epochs, for recipes of data of any size."""

import math

from faith_jax.core.errors import ConfigError
from faith_jax.core.settings import Positive, PositiveNumber
from faith_jax.input.task_batches import DatasetConfig


def steps(dataset: DatasetConfig, epochs: PositiveNumber, at_least: Positive = 1) -> int:
    """Returns how many steps some epochs of a split are.

    Args:
      dataset: the task and split, whose examples are counted before preprocessors drop or add any.
      epochs: how often each example is read.
      at_least: the number for a split of which that is fewer steps.

    Raises:
      ConfigError: for a task that does not know the number of its examples, and as
        `DatasetConfig.task`.
    """
    examples = dataset.task("TRAIN_SPLIT").num_input_examples(dataset.split)
    if examples is None:
        raise ConfigError(
            f"{dataset.mixture_or_task_name}: how many examples split {dataset.split!r} has is not "
            "known; set TRAIN_STEPS, EVAL_PERIOD and CHECKPOINT_PERIOD."
        )
    return max(at_least, math.ceil(epochs * examples / dataset.batch_size))
