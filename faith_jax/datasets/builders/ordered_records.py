"""TFDS records whose bytes depend only on their examples.

TFDS itself writes the features of an example in the order of a protobuf hash table, which differs
between processes. Readers get the same examples from either order.
"""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf
import tensorflow_datasets as tfds


class OrderedWriter(tfds.core.ExampleWriter):
    """Writes the features of each example in the order of their names."""

    def write(self, path: Any, examples: Iterable[tuple[Any, bytes]]) -> Any:
        """Writes a file of (key, record) pairs."""
        ordered = (
            (key, tf.train.Example.FromString(record).SerializeToString(deterministic=True))
            for key, record in examples
        )
        return super().write(path, ordered)
