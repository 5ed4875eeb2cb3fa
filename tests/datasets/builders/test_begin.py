import pytest
import tensorflow_datasets as tfds

from faith_jax.datasets.builders.base import prepare_builder
from faith_jax.datasets.builders.catalogue import BUILDERS

BEGIN = BUILDERS["begin"]
BEGIN_2021 = BUILDERS["begin_2021"]

HEADER = "evidence\tprevious turn\tresponse\tgold label\tfull label set\n"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("tfds")


def labels(builder, split):
    rows = tfds.as_numpy(builder.as_dataset(split=split))
    return [(row["begin_label"].decode(), int(row["label"])) for row in rows]


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
