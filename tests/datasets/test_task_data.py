"""The list of tasks is the one that SeqIO has, with the same data and sizes."""

import json

import pytest

from faith_jax.datasets import task_data
from faith_jax.datasets.builders.catalogue import BUILDERS
from faith_jax.tasks import lookup


def test_every_task_is_listed_with_its_data():
    names = {*task_data.TASKS, *task_data.MIXTURES}
    data_sets = {name.partition("_")[0] for name in names}
    # Other tests may have registered tasks of their own.
    ours = {name for name in lookup.task_names() if name.partition("_")[0] in data_sets}
    assert ours == names
    for name, data_sets in task_data.TASKS.items():
        assert lookup.get_task(name).source.dataset_name == ", ".join(data_sets)
    for name, parts in task_data.MIXTURES.items():
        assert [part.name for part in lookup.get_task(name).tasks] == sorted(parts)


def test_every_data_set_of_ours_has_a_builder():
    for data_sets in task_data.TASKS.values():
        if data_sets not in task_data.TFDS_SPLITS:
            name, _, config = data_sets[0].partition("/")
            assert config in BUILDERS[name].builder_configs


@pytest.mark.usefixtures("offline_data_dir")
@pytest.mark.parametrize("name", ["faithdial_generate_ctrl_sample", "npov_hallucination_sample"])
def test_a_samples_sizes_are_those_of_its_prepared_data(name):
    source = lookup.get_task(name).source
    sizes = {split: source.num_input_examples(split) for split in source.splits}
    assert task_data.task_sizes(name) == sizes
    assert task_data._prepared_sizes(source.dataset_name) == sizes


def noted(folder, **shards):
    """Writes what TFDS notes of prepared data."""
    folder.mkdir(parents=True)
    splits = [{"name": name, "shardLengths": lengths} for name, lengths in shards.items()]
    (folder / "dataset_info.json").write_text(json.dumps({"splits": splits}), encoding="utf-8")


def test_sizes_of_other_data_are_those_noted_when_it_was_prepared(tmp_path, monkeypatch):
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(tmp_path))
    assert task_data.task_sizes("faithdial_generate") is None
    noted(tmp_path / "faithdial" / "official" / "1.0.0", train=["7", "6"], test=["2"])
    assert task_data.task_sizes("faithdial_generate") == {"train": 13, "test": 2}
    noted(
        tmp_path / "multi_nli/1.1.0", train=[9], validation_matched=[3], validation_mismatched=[1]
    )
    assert task_data.task_sizes("nli_mnli") == {"train": 9, "validation": 3, "test": 1}


def test_tfdss_own_data_sets_count_together_under_our_splits(tmp_path, monkeypatch):
    monkeypatch.delenv("FAITH_JAX_DATA_DIR", raising=False)
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    for number in (1, 2):
        noted(tmp_path / f"anli/r{number}/0.1.0", train=[number], validation=[1], test=[2])
    assert task_data.task_sizes("nli_anli") is None
    noted(tmp_path / "anli/r3/0.1.0", train=[10], validation=[1], test=[2])
    assert task_data.task_sizes("nli_anli") == {"train": 13, "validation": 3, "test": 6}
