import pytest

from faith_jax.core import templates
from faith_jax.datasets.task_data import JUDGED, TASKS
from faith_jax.tasks import lookup

SAMPLES = [task for task in TASKS if task.startswith(JUDGED) and task.endswith("_sample")]


@pytest.mark.parametrize("name", SAMPLES)
def test_grounding_and_response_in_label_out(name):
    task = lookup.get_task(name)
    for split in task.splits:
        rows = list(task.get_dataset(None, split, shuffle=False).as_numpy_iterator())
        for row in rows:
            texts = row["grounding"].decode(), row["generated_text"].decode()
            assert row["inputs_pretokenized"].decode() == templates.nli_inputs(*texts)
            assert row["targets_pretokenized"].decode() == str(row["label"])
        assert {row["label"] for row in rows} == {0, 1}


def test_every_benchmark_has_a_task():
    assert len(SAMPLES) == 11
    assert all(any(name.startswith(prefix) for name in SAMPLES) for prefix in JUDGED)
