import math

import pytest

from faith_jax.core import templates
from faith_jax.core.labels import BeginLabel
from faith_jax.datasets.raw.true_benchmark import AVERAGED, CORPORA
from faith_jax.datasets.task_data import JUDGED, TASKS
from faith_jax.tasks import lookup, metrics
from tests.tasks.examples import examples

SAMPLES = [task for task in TASKS if task.startswith(JUDGED) and task.endswith("_sample")]


def test_targets_are_the_authors_labels():
    rows = [r for split in ("validation", "test") for r in examples("begin_classify_sample", split)]
    assert {row["targets_pretokenized"].decode() for row in rows} == {str(x) for x in BeginLabel}
    for row in rows:
        label = BeginLabel(row["targets_pretokenized"].decode())
        assert row["label"] == label.faithfulness
        assert row["inputs_pretokenized"].decode().startswith("{knowledge: ")


def test_classification_counts_unknown_labels_as_wrong():
    figures = metrics.classification(["a", "a", "b", "b"], ["a", "x", "b", "a"])
    assert figures["accuracy"] == 0.5
    # F1 of a: one hit, two predictions, two targets; of b: one hit, one prediction, two targets.
    assert figures["macro_f1"] == pytest.approx((2 * 1 / (2 + 2) + 2 * 1 / (1 + 2)) / 2)
    assert figures["unknown_labels"] == 0.25
    assert all(math.isnan(value) for value in metrics.classification([], []).values())


@pytest.mark.parametrize("name", ["faithbench_judge_sample", "true_frank_sample"])
def test_grounding_and_response_in_label_out(name):
    for split in lookup.get_task(name).splits:
        rows = examples(name, split)
        for row in rows:
            texts = row["grounding"].decode(), row["generated_text"].decode()
            assert row["inputs_pretokenized"].decode() == templates.nli_inputs(*texts)
            assert row["targets_pretokenized"].decode() == str(row["label"])
        assert {row["label"] for row in rows} == {0, 1}


def test_every_benchmark_has_a_task():
    assert len(SAMPLES) == 11
    assert all(any(name.startswith(prefix) for name in SAMPLES) for prefix in JUDGED)
    for name in (*SAMPLES, *(f"true_{corpus}_sample" for corpus in CORPORA)):
        assert lookup.get_task(name).output_features.keys() == {"inputs", "targets"}


def test_the_mixture_of_nine():
    mixture = lookup.get_task("true_all_sample")
    assert {task.name for task in mixture.tasks} == {f"true_{c}_sample" for c in AVERAGED}
    sizes = [task.num_input_examples("test") for task in mixture.tasks]
    assert mixture.num_input_examples("test") == sum(sizes)
