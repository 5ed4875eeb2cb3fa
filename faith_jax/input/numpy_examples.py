"""Reads tf.data as NumPy, and NumPy as plain Python."""

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from faith_jax.core.errors import InputError

_ROWS = 64  # read at once: reading a single example calls TensorFlow once per field


def numpy_examples(dataset: Any) -> Iterator[dict[str, Any]]:
    """Yields the examples of a tf.data data set, as NumPy arrays.

    tf.data's autotuning is off, because its thread may sleep for many seconds before it lets an
    iterator end; parallel maps then have a fixed number of threads.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    dataset = dataset.with_options(options)
    specs = dataset.element_spec
    if isinstance(specs, dict) and all(
        isinstance(spec, tf.TensorSpec) and spec.shape.rank is not None for spec in specs.values()
    ):
        for batch in dataset.ragged_batch(_ROWS):
            names, columns = list(batch), [_split_by_example(values) for values in batch.values()]
            for values in zip(*columns, strict=True):
                yield dict(zip(names, values, strict=True))
    else:
        yield from dataset.as_numpy_iterator()


def _split_by_example(values: Any) -> Sequence[Any]:
    """Returns one array per example of a batched tensor or ragged tensor."""
    if not hasattr(values, "row_splits"):
        return values.numpy()
    inner, splits = _split_by_example(values.values), values.row_splits.numpy().tolist()
    pieces = [inner[start:end] for start, end in itertools.pairwise(splits)]
    if isinstance(inner, np.ndarray):
        return pieces
    empty = np.zeros((0, 0), values.dtype.as_numpy_dtype)
    return [np.stack(piece) if piece else empty for piece in pieces]


def plain(value: Any) -> Any:
    """Returns a NumPy value as plain Python, with texts decoded."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if hasattr(value, "to_list"):  # a ragged tensor holds a list of lists
        value = value.to_list()
    if isinstance(value, list):
        return [plain(item) for item in value]
    if getattr(value, "ndim", 0):
        return [plain(item) for item in value.tolist()]
    return value.item() if hasattr(value, "item") else value


def feature_text(task: Any, example: Mapping[str, Any], feature: str) -> str:
    """Returns the text of a feature of a task's example, "" if the task has no such feature.

    If the task does not keep the text from before tokenization, the ids are decoded.
    """
    if (text := example.get(f"{feature}_pretokenized")) is not None:
        return str(plain(text))
    if feature not in task.output_features:
        return ""
    return str(task.output_features[feature].vocabulary.decode(example[feature].tolist()))


@contextlib.contextmanager
def utf8_in(where: str) -> Iterator[None]:
    """Turns a UnicodeDecodeError into an InputError that names the example."""
    try:
        yield
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise InputError(f"{where}: expected UTF-8, got a text with byte 0x{byte:02x}.") from None
