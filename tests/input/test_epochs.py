"""Numbers of steps by epochs."""

import math

import pytest
import seqio

from faith_jax.core.errors import ConfigError
from faith_jax.input.epochs import steps
from faith_jax.input.task_batches import DatasetConfig
from faith_jax.tasks import lookup

LENGTHS = {"inputs": 8, "targets": 8}


@pytest.mark.parametrize(("epochs", "rows"), [(0.5, 1), (2, 3), (7.3, 16)])
def test_steps_read_each_example_so_often(epochs, rows):
    config = DatasetConfig("labelled_responses_classify_sample", LENGTHS, batch_size=rows)
    examples = sum(1 for _ in config.task().source.get_dataset("train", shuffle=False))
    assert examples > 3
    count = steps(config, epochs)
    assert (count - 1) * rows < epochs * examples <= count * rows
    assert steps(config, epochs, at_least=1000) == max(1000, math.ceil(epochs * examples / rows))


def test_a_task_that_cannot_be_counted_says_what_to_set(monkeypatch):
    config = DatasetConfig("labelled_responses_classify_sample", LENGTHS)
    monkeypatch.setattr(type(config.task().source), "num_input_examples", lambda self, split: None)
    with pytest.raises(ConfigError, match="is not known; set TRAIN_STEPS, EVAL_PERIOD and"):
        steps(config, 1)


def test_packed_rows_are_refused():
    config = DatasetConfig("labelled_responses_classify_sample", LENGTHS, pack=True)
    with pytest.raises(ConfigError, match=r"^PACK = True: how many packed .* set PACK = False"):
        steps(config, 1)


def test_a_cache_counts_its_own_examples(monkeypatch):
    config = DatasetConfig(
        "labelled_responses_classify_sample", LENGTHS, batch_size=2, use_cached=True
    )
    monkeypatch.setattr(lookup, "check_cached", lambda *_: None)
    cache = seqio.FunctionDataSource(lambda split, shuffle_files: None, ["train"], {"train": 1000})
    monkeypatch.setattr(type(config.task()), "_get_cached_source", lambda self, split: cache)
    assert steps(config, 3) == 1500
