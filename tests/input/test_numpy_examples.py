import numpy as np
import tensorflow as tf

from faith_jax.input.numpy_examples import numpy_examples


def test_examples_in_their_order_as_numpy():
    dataset = tf.data.Dataset.range(5).map(lambda x: {"twice": 2 * x}, tf.data.AUTOTUNE)
    found = list(numpy_examples(dataset))
    assert all(isinstance(example["twice"], np.generic) for example in found)
    assert [example["twice"] for example in found] == [0, 2, 4, 6, 8]


def test_no_tuning_thread_is_left_to_wait_for(monkeypatch):
    seen = []
    monkeypatch.setattr(
        tf.data.Dataset, "as_numpy_iterator", lambda dataset: seen.append(dataset.options()) or ()
    )
    numpy_examples(tf.data.Dataset.range(5).repeat())
    assert not seen[0].autotune.enabled
