from faith_jax.core.rows import read_jsonl
from faith_jax.datasets import samples
from faith_jax.tasks import lookup


def test_inputs_and_targets_are_the_files():
    dataset = lookup.get_task("text_to_text_sample").get_dataset(None, "train", shuffle=False)
    rows = [
        {
            "id": row["id"].decode(),
            "inputs": row["inputs_pretokenized"].decode(),
            "targets": row["targets_pretokenized"].decode(),
        }
        for row in dataset.as_numpy_iterator()
    ]
    path = samples.sample_folder("text_to_text") / "train.jsonl"
    assert rows == [row.fields for row in read_jsonl(path)]
    assert len(rows) == 12
