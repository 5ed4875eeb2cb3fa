"""TFDS records whose bytes depend on their examples alone.

TFDS itself writes the features of an example in the order of a hash table of protobuf, which each
process seeds anew. Readers of either order find the same examples.
"""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf
import tensorflow_datasets as tfds


class OrderedWriter(tfds.core.ExampleWriter):
    """Writes the features of each example in the order of their names."""

    def write(self, path: Any, examples: Iterable[tuple[Any, bytes]]) -> Any:
        """Writes a file of (key, record)."""
        ordered = (
            (key, tf.train.Example.FromString(record).SerializeToString(deterministic=True))
            for key, record in examples
        )
        return super().write(path, ordered)
