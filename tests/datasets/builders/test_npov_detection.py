"""The nested training sets of error classifiers."""

import itertools

import pytest

from faith_jax.core.errors import InputError
from faith_jax.datasets.builders.base import prepare_builder
from faith_jax.datasets.builders.catalogue import BUILDERS
from faith_jax.datasets.raw.npov import TRAINING_SETS
from faith_jax.datasets.raw_files import sample_files

NPOV_DETECTION = BUILDERS["npov_detection"]


def sample_rows(part, split):
    dataset = TRAINING_SETS[part]
    files = sample_files(dataset)
    return list(dataset.examples({name: files[name] for name in dataset.splits[split]}, split))


def test_each_set_begins_with_the_one_before():
    sets = [sample_rows(part, "train") for part in ("synth", "para", "dev", "org")]
    assert list(map(len, sets)) == [8, 16, 32, 35]
    for smaller, larger in itertools.pairwise(sets):
        assert larger[: len(smaller)] == smaller
    synth, para, dev, org = sets
    assert not any(row["paraphrased"] for row in synth)
    assert all(row["paraphrased"] for row in para[8:])
    assert [row["response"] for row in para[8:]] == [row["response"] for row in synth]
    topics = {row["topic"] for row in para}
    assert not topics & {row["topic"] for row in dev[16:]}
    assert [row["error"] for row in org[32:]] == ["organic"] * 3


def test_missing_files_name_the_command(tmp_path):
    with pytest.raises(InputError, match="faith-jax reproduce npov_detection --model=GENERATOR"):
        prepare_builder(NPOV_DETECTION, "dev", tmp_path, tmp_path)
