"""Rows to a TFDS data set that `tfds.builder_from_directory` opens."""

import contextlib
import io
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from typing import Any


def write_tfds(
    folder: pathlib.Path,
    name: str,
    split: str,
    rows: Sequence[Mapping[str, Any]],
    description: str,
    version: str = "1.0.0",
) -> pathlib.Path:
    """Writes rows of equal fields as one split of a data set.

    Args:
      folder: the data set lies in folder/name/version.
      name: of the data set, lower case with underscores.
      split: name of the split.
      rows: str, int and float fields; every row has the same ones.
      description: what the rows are, stored with them.
      version: of the data set.

    Returns:
      folder/name/version, what `tfds.builder_from_directory` takes.
    """
    import tensorflow as tf
    import tensorflow_datasets as tfds

    kinds = {str: tfds.features.Text, int: lambda: tf.int64, float: lambda: tf.float32}
    first = rows[0]
    features = tfds.features.FeaturesDict({k: kinds[type(v)]() for k, v in first.items()})
    types = {str: tf.string, int: tf.int64, float: tf.float32}
    dataset = tf.data.Dataset.from_tensor_slices(
        {k: tf.constant([row[k] for row in rows], types[type(v)]) for k, v in first.items()}
    )
    # TFDS reports to stdout, which belongs to the command's own result.
    tfds.disable_progress_bar()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            tfds.dataset_builders.store_as_tfds_dataset(
                name=name,
                version=version,
                features=features,
                split_datasets={split: dataset},
                data_dir=str(folder),
                description=description,
                release_notes={version: description},
                disable_shuffling=True,
            )
    finally:
        tfds.enable_progress_bar()
    shutil.rmtree(folder / "downloads", ignore_errors=True)  # made by TFDS, and empty
    return folder / name / version
