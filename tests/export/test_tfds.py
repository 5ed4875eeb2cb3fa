import tensorflow_datasets as tfds

from faith_jax.export.tfds import write_tfds

ROWS = [
    {"id": "b", "prediction": "Zwei \u00e4pfel", "log_prob": -1.5, "num_tokens": 3},
    {"id": "a", "prediction": "", "log_prob": -0.25, "num_tokens": 1},
]


def test_rows_come_back_in_order_with_their_types(tmp_path, capfd):
    folder = write_tfds(tmp_path, "predictions", "test", ROWS, "Two rows.")
    assert capfd.readouterr().out == ""
    # Only the data set: TFDS's own download folder is gone.
    assert [p.name for p in tmp_path.iterdir()] == ["predictions"]
    moved = tmp_path / "elsewhere"
    folder.rename(moved)
    builder = tfds.builder_from_directory(str(moved))
    assert builder.info.description == "Two rows."
    found = list(tfds.as_numpy(builder.as_dataset(split="test")))
    for row, expected in zip(found, ROWS, strict=True):
        assert row["id"].decode() == expected["id"]
        assert row["prediction"].decode() == expected["prediction"]
        assert float(row["log_prob"]) == expected["log_prob"]
        assert int(row["num_tokens"]) == expected["num_tokens"]
