"""SeqIO tasks with an unreadable row, for runs that import their tasks by name."""

import tensorflow as tf

from tests.runs.conftest import seqio_task


def _long_target(split, shuffle_files, seed=None):
    rows = {"inputs": ["tea", "mate"], "targets": ["leaf", "leaf " * 40]}
    return tf.data.Dataset.from_tensor_slices(rows)


def _no_number(split, shuffle_files, seed=None):
    rows = tf.data.Dataset.from_tensor_slices({"inputs": ["1", "two"], "targets": ["leaf"] * 2})
    return rows.map(lambda row: row | {"number": tf.strings.to_number(row["inputs"])})


seqio_task("bad_rows_long_target", _long_target)
seqio_task("bad_rows_no_number", _no_number)
