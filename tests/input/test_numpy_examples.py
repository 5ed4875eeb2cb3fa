import numpy as np
import tensorflow as tf

from faith_jax.input.numpy_examples import numpy_examples


def test_examples_in_their_order_as_numpy():
    dataset = tf.data.Dataset.range(5).map(lambda x: {"twice": 2 * x}, tf.data.AUTOTUNE)
    examples = list(numpy_examples(dataset))
    assert all(isinstance(example["twice"], np.generic) for example in examples)
    assert [example["twice"] for example in examples] == [0, 2, 4, 6, 8]


def fields(x):
    return {
        "number": x,
        "text": tf.strings.as_string(x),
        "ids": tf.range(x % 5),
        "texts": tf.strings.as_string(tf.range(x % 3)),
        "pair": tf.stack([x, 2 * x]),
        "table": tf.fill([x % 4, x % 7 + 1], x),
        "is_odd": x % 2 == 1,
    }


def test_each_example_is_what_it_is_alone():
    dataset = tf.data.Dataset.range(150).map(fields)
    examples = list(numpy_examples(dataset))
    assert len(examples) == 150
    for example, alone in zip(examples, dataset.as_numpy_iterator(), strict=True):
        assert set(example) == set(alone)
        for name, value in alone.items():
            if name == "table" and not len(value):
                assert not len(example[name])
                continue
            assert type(example[name]) is type(value)
            np.testing.assert_array_equal(example[name], value)
            assert getattr(example[name], "dtype", None) == getattr(value, "dtype", None)


def test_what_is_no_dict_and_shapes_that_are_not_known_are_read_too():
    pairs = tf.data.Dataset.range(3).map(lambda x: (x, {"twice": 2 * x}))
    assert [(int(i), int(row["twice"])) for i, row in numpy_examples(pairs)] == [
        (0, 0),
        (1, 2),
        (2, 4),
    ]
    unknown = tf.data.Dataset.range(3).map(
        lambda x: {"any": tf.numpy_function(lambda y: y, [x], tf.int64)}
    )
    assert [int(row["any"]) for row in numpy_examples(unknown)] == [0, 1, 2]


def test_no_tuning_thread_is_left_to_wait_for(monkeypatch):
    seen = []
    for name in ("as_numpy_iterator", "ragged_batch"):
        patched = lambda dataset, *_: seen.append(dataset.options()) or ()  # noqa: E731
        monkeypatch.setattr(tf.data.Dataset, name, patched)
    list(numpy_examples(tf.data.Dataset.range(5).repeat()))
    list(numpy_examples(tf.data.Dataset.range(5).map(lambda x: {"x": x})))
    assert [options.autotune.enabled for options in seen] == [False, False]
