"""Reading tf.data as NumPy."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

_ROWS = 64  # read at once: an example alone costs a call of TensorFlow for each of its fields


def numpy_examples(dataset: Any) -> Iterator[dict[str, Any]]:
    """Returns an iterator over a tf.data data set, as NumPy arrays.

    tf.data's automatic tuning is off, because the thread that tunes may sleep for many seconds
    before it lets an iterator end; parallel maps then have a fixed number of threads.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    dataset = dataset.with_options(options)
    specs = dataset.element_spec
    if isinstance(specs, dict) and all(
        isinstance(spec, tf.TensorSpec) and spec.shape.rank is not None for spec in specs.values()
    ):
        return _one_by_one(dataset.ragged_batch(_ROWS))
    return dataset.as_numpy_iterator()


def _one_by_one(batches: Any) -> Iterator[dict[str, Any]]:
    for batch in batches:
        names, columns = list(batch), [_column(values) for values in batch.values()]
        for values in zip(*columns, strict=True):
            yield dict(zip(names, values, strict=True))


def _column(values: Any) -> Sequence[Any]:
    """Returns the array of each example, of a tensor or, of several lengths, a ragged one."""
    if not hasattr(values, "row_splits"):
        return values.numpy()
    inner, splits = _column(values.values), values.row_splits.numpy().tolist()
    pieces = [inner[start:end] for start, end in itertools.pairwise(splits)]
    if isinstance(inner, np.ndarray):
        return pieces
    empty = np.zeros((0, 0), values.dtype.as_numpy_dtype)
    return [np.stack(piece) if piece else empty for piece in pieces]
