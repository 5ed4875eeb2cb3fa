import json

import pytest
import tensorflow_datasets as tfds

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.datasets import npov
from faith_jax.datasets.builders.base import prepare_builder
from faith_jax.datasets.builders.catalogue import BUILDERS

PROCON_NPOV = BUILDERS["procon_npov"]

TOPIC = {"title": "T", "split": "train", "pro": ["P."], "con": ["C one.", "C two."]}
TOPICS = [
    TOPIC | {"id": "a", "question": "A?"},
    TOPIC | {"id": "b", "question": "B?", "split": "test"},
    TOPIC | {"id": "c", "question": "C?", "split": "validation"},
]
RESPONSES = [
    {"id": "b-1", "topic": "b", "pro": [0], "con": [1], "response": "Über b."},
    {"id": "a-2", "topic": "a", "pro": [0], "con": [0], "response": "On a."},
    {"id": "a-1", "topic": "a", "pro": [0], "con": [1], "response": "On a again."},
]


@pytest.fixture(scope="module")
def sample_builder(tmp_path_factory):
    return prepare_builder(PROCON_NPOV, "sample", tmp_path_factory.mktemp("tfds"))


def write_raw(folder, topics=TOPICS, responses=RESPONSES):
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in ((npov.TOPICS_FILE, topics), (npov.RESPONSES_FILE, responses)):
        (folder / name).write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")


def rows_of(builder, split):
    def text_of(value):
        return value.decode() if isinstance(value, bytes) else [text.decode() for text in value]

    rows = tfds.as_numpy(builder.as_dataset(split=split))
    return [{name: text_of(value) for name, value in row.items()} for row in rows]


def test_a_second_preparation_gives_the_same_bytes(sample_builder, tmp_path):
    again = prepare_builder(PROCON_NPOV, "sample", tmp_path)
    files = sorted(path.name for path in sample_builder.data_path.iterdir())
    assert any("train.tfrecord" in name for name in files)
    for name in (name for name in files if "tfrecord" in name):
        first, second = (b.data_path.joinpath(name).read_bytes() for b in (sample_builder, again))
        assert first == second


def test_full_reads_the_manual_folder_in_order_without_empty_splits(tmp_path):
    write_raw(tmp_path / "manual" / "procon_npov")
    builder = prepare_builder(PROCON_NPOV, "full", tmp_path / "data", tmp_path / "manual")
    assert [row["id"] for row in rows_of(builder, "train")] == ["a-2", "a-1"]
    assert rows_of(builder, "test") == [
        {
            "id": "b-1",
            "topic": "b",
            "query": "B?",
            "pro_arguments": ["P."],
            "con_arguments": ["C two."],
            "response": "Über b.",
        }
    ]
    assert list(builder.info.splits) == ["train", "test"]


def test_errors_name_the_remedy(tmp_path):
    with pytest.raises(InputError, match=r"no config 'ful'\. Did you mean 'full'"):
        prepare_builder(PROCON_NPOV, "ful", tmp_path)
    with pytest.raises(InputError, match=r"python tools/prepare_procon\.py PAGES_FOLDER"):
        prepare_builder(PROCON_NPOV, "full", tmp_path, tmp_path)
    write_raw(tmp_path / "raw", responses=[])
    with pytest.raises(InputError, match=r"responses\.jsonl: holds no responses"):
        prepare_builder(PROCON_NPOV, "full", tmp_path, tmp_path / "raw")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"--data-dir: .* cannot be written"):
        prepare_builder(PROCON_NPOV, "sample", tmp_path / "file" / "data")


def test_errors_of_the_sample(data_folder, sample_builder):
    builder = prepare_builder(BUILDERS["npov_errors"], "sample", data_folder)
    for split, info in sample_builder.info.splits.items():
        rows = list(tfds.as_numpy(builder.as_dataset(split=split)))
        # The sample's topics have more arguments than any response tells: each kind is possible.
        assert len(rows) == 4 * info.num_examples
        kinds = {row["error"].decode() for row in rows}
        assert kinds == {"none", "hallucination", "coverage", "both"}
        for row in rows:
            removed, added = row["removed_argument"], row["added_argument"]
            arguments = {*row["pro_arguments"], *row["con_arguments"]}
            assert (row["has_hallucination"], row["has_coverage_error"]) == (
                removed != b"",
                added != b"",
            )
            assert removed not in arguments
            assert (added in arguments) == (added != b"")
