import json
import shutil

import pytest
import tensorflow_datasets as tfds

from faith_jax.cli import main
from faith_jax.core.errors import InputError
from faith_jax.export.tfds import read_scored_tfds
from tests.export.data_sets import write_responses

ROWS = [
    {"id": "b", "prediction": "Zwei \u00e4pfel", "log_prob": -1.5, "num_tokens": 3},
    {"id": "a", "prediction": "", "log_prob": -0.25, "num_tokens": 1},
]


def test_rows_come_back_in_order_with_their_types(tmp_path, capfd):
    folder = write_responses(tmp_path / "out", "test", ROWS, "Two rows.")
    assert capfd.readouterr().out == ""
    # Only the data set's files: TFDS's own folders are gone.
    assert sorted(p.name for p in folder.iterdir()) == [
        "dataset_info.json",
        "features.json",
        "predictions-test.tfrecord-00000-of-00001",
    ]
    assert tfds.builder_from_directory(folder).info.full_name == "predictions/1.0.0"
    moved = tmp_path / "elsewhere"
    folder.rename(moved)
    builder = tfds.builder_from_directory(str(moved))
    assert builder.info.description == "Two rows."
    records = list(tfds.as_numpy(builder.as_dataset(split="test")))
    for row, expected in zip(records, ROWS, strict=True):
        assert row["id"].decode() == expected["id"]
        assert row["prediction"].decode() == expected["prediction"]
        assert float(row["log_prob"]) == expected["log_prob"]
        assert int(row["num_tokens"]) == expected["num_tokens"]


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A folder that `score` writes, of 20 rows."""
    folder = tmp_path_factory.mktemp("scored")
    rows = [{"grounding": "Tea is hot.", "generated_text": f"Tea is {i}."} for i in range(20)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = folder / "scores"
    command = ["score", "--scorers=token_f1", f"--input={folder / 'rows.jsonl'}", "--format=tfds"]
    assert main([*command, f"--output={out}"]) == 0
    assert len(list(read_scored_tfds(out))) == 20
    return out


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("dataset_info.json", "cut"),
        ("features.json", "empty"),
        ("*.tfrecord*", "cut"),
        ("*.tfrecord*", "garbled"),
    ],
)
def test_a_broken_folder_is_one_error(scored, tmp_path, name, how):
    broken = shutil.copytree(scored, tmp_path / "broken")
    (path,) = broken.rglob(name)
    whole = path.read_bytes()
    contents = {"cut": whole[: len(whole) // 2], "empty": b"", "garbled": bytes(len(whole))}
    path.write_bytes(contents[how])
    with pytest.raises(InputError, match=str(broken)) as error:
        list(read_scored_tfds(broken))
    assert "\n" not in str(error.value)


def test_rows_that_are_missing_are_counted(scored, tmp_path):
    broken = shutil.copytree(scored, tmp_path / "broken")
    (path,) = broken.rglob("*.tfrecord*")
    length = int.from_bytes(path.read_bytes()[:8], "little") + 16  # of a record with its checksums
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(InputError, match="expected to contain 20 elements but contained only 1"):
        list(read_scored_tfds(broken))
