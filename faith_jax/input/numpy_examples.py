"""Reading tf.data as NumPy."""

from collections.abc import Iterator
from typing import Any


def numpy_examples(dataset: Any) -> Iterator[dict[str, Any]]:
    """Returns an iterator over a tf.data data set, as NumPy arrays.

    tf.data's automatic tuning is off, because the thread that tunes may sleep for many seconds
    before it lets an iterator end; parallel maps then have a fixed number of threads.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options).as_numpy_iterator()
