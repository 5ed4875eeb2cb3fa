"""Numbers of steps by epochs."""

import math

import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.input.epochs import steps
from faith_jax.input.task_batches import DatasetConfig

LENGTHS = {"inputs": 8, "targets": 8}


@pytest.mark.parametrize("epochs", [0.5, 2, 7.3])
@pytest.mark.parametrize("rows", [1, 3, 16])
def test_steps_read_each_example_so_often(epochs, rows):
    config = DatasetConfig("labelled_responses_classify_sample", LENGTHS, batch_size=rows)
    examples = sum(1 for _ in config.task().source.get_dataset("train", shuffle=False))
    assert examples > 3
    count = steps(config, epochs)
    assert (count - 1) * rows < epochs * examples <= count * rows
    assert steps(config, epochs, at_least=1000) == max(1000, math.ceil(epochs * examples / rows))


def test_a_task_that_cannot_be_counted_says_what_to_set(monkeypatch):
    config = DatasetConfig("labelled_responses_classify_sample", LENGTHS)
    monkeypatch.setattr(type(config.task()), "num_input_examples", lambda self, split: None)
    with pytest.raises(ConfigError, match="is not known; set TRAIN_STEPS, EVAL_PERIOD and"):
        steps(config, 1)
