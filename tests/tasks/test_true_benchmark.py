import pytest

from faith_jax.core import templates
from faith_jax.datasets.raw.true_benchmark import AVERAGED, CORPORA
from faith_jax.tasks import lookup


@pytest.mark.parametrize("corpus", list(CORPORA))
def test_grounding_and_text_in_label_out(corpus):
    task = lookup.get_task(f"true_{corpus}_sample")
    rows = list(task.get_dataset(None, "test", shuffle=False).as_numpy_iterator())
    for row in rows:
        texts = row["grounding"].decode(), row["generated_text"].decode()
        assert row["inputs_pretokenized"].decode() == templates.nli_inputs(*texts)
        assert row["targets_pretokenized"].decode() == str(row["label"])
    assert {row["label"] for row in rows} == {0, 1}


def test_the_mixture_of_nine():
    mixture = lookup.get_task("true_all_sample")
    assert {task.name for task in mixture.tasks} == {f"true_{c}_sample" for c in AVERAGED}
    sizes = [task.num_input_examples("test") for task in mixture.tasks]
    assert mixture.num_input_examples("test") == sum(sizes)
