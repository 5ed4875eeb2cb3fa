import math

import pytest

from faith_jax.core.labels import Begin2021Label, BeginLabel
from faith_jax.tasks import lookup, metrics


@pytest.mark.parametrize(
    ("name", "labels"),
    [("begin_classify_sample", BeginLabel), ("begin_2021_classify_sample", Begin2021Label)],
)
def test_targets_are_the_authors_labels(name, labels):
    task = lookup.get_task(name)
    rows = [
        row
        for split in ("validation", "test")
        for row in task.get_dataset(None, split, shuffle=False).as_numpy_iterator()
    ]
    assert {row["targets_pretokenized"].decode() for row in rows} == {str(x) for x in labels}
    for row in rows:
        label = labels(row["targets_pretokenized"].decode())
        assert row["label"] == label.faithfulness
        assert row["inputs_pretokenized"].decode().startswith("{knowledge: ")


def test_classification_counts_unknown_labels_as_wrong():
    found = metrics.classification(["a", "a", "b", "b"], ["a", "x", "b", "a"])
    assert found["accuracy"] == 0.5
    # F1 of a: one hit, two predictions, two targets; of b: one hit, one prediction, two targets.
    assert found["macro_f1"] == pytest.approx((2 * 1 / (2 + 2) + 2 * 1 / (1 + 2)) / 2)
    assert found["unknown_labels"] == 0.25
    assert all(math.isnan(value) for value in metrics.classification([], []).values())
