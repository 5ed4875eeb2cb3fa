import collections

import pytest
import tensorflow_datasets as tfds

from faith_jax.datasets.builders.base import prepare_builder
from faith_jax.datasets.builders.catalogue import BUILDERS
from tests.paths import REAL, needs_shared

BEGIN = BUILDERS["begin"]
BEGIN_2021 = BUILDERS["begin_2021"]

HEADER = "evidence\tprevious turn\tresponse\tgold label\tfull label set\n"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("tfds")


@pytest.fixture(scope="module")
def real(data_dir):
    """The development parts alone, without a network for the others."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            patch.setenv(name, "http://127.0.0.1:9")
        return {
            config: prepare_builder(BEGIN, config, data_dir, REAL / "begin")
            for config in ("official", "wow", "cmu", "tc")
        }


def labels(builder, split):
    rows = tfds.as_numpy(builder.as_dataset(split=split))
    return [(row["begin_label"].decode(), int(row["label"])) for row in rows]


@needs_shared
@pytest.mark.parametrize(
    ("config", "count", "attributable"),
    [("official", 1229, 313), ("wow", 430, 180), ("cmu", 416, 59), ("tc", 383, 74)],
)
def test_counts_of_the_development_parts(real, config, count, attributable):
    assert list(real[config].info.splits) == ["validation"]
    counts = collections.Counter(label for _, label in labels(real[config], "validation"))
    assert counts == {1: attributable, 0: count - attributable}


@pytest.mark.parametrize("config", ["sample", "wow_sample", "cmu_sample", "tc_sample"])
def test_samples_have_both_labels(data_dir, config):
    builder = prepare_builder(BEGIN, config, data_dir)
    assert list(builder.info.splits) == ["validation", "test"]
    found = [pair for split in builder.info.splits for pair in labels(builder, split)]
    assert {label for _, label in found} == {0, 1}
    assert all((name == "Fully attributable") == label for name, label in found)


@pytest.mark.parametrize(("builder", "kinds"), [(BEGIN, 3), (BEGIN_2021, 5)])
def test_each_split_of_the_whole_sample_has_both_labels(data_dir, builder, kinds):
    made = prepare_builder(builder, "sample", data_dir)
    found = {split: labels(made, split) for split in made.info.splits}
    assert all({label for _, label in pairs} == {0, 1} for pairs in found.values())
    assert len({name for pairs in found.values() for name, _ in pairs}) == kinds


def test_the_first_release_reads_its_own_labels(tmp_path):
    raw = tmp_path / "begin_2021"
    raw.mkdir()
    row = "Tea is a leaf.\t\tTea is a leaf.\t{}\t{}\n"
    for part, gold in (("dev", "entailment"), ("test", "off-topic")):
        text = HEADER + row.format(gold, f"{gold},generic")
        (raw / f"{part}_05_24_21.tsv").write_text(text, encoding="utf-8")
    builder = prepare_builder(BEGIN_2021, "official", tmp_path / "d", tmp_path)
    assert labels(builder, "validation") == [("entailment", 1)]
    assert labels(builder, "test") == [("off-topic", 0)]


def test_configs_are_the_whole_and_the_sources():
    parts = ["official", "sample"]
    assert list(BEGIN_2021.builder_configs) == parts
    sources = [name for s in ("wow", "cmu", "tc") for name in (s, f"{s}_sample")]
    assert list(BEGIN.builder_configs) == parts + sources
