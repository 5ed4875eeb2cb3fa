"""A SeqIO data source over a TFDS builder that is prepared when it is first read.

Prepared data lies in the folder that the environment variable FAITH_JAX_DATA_DIR names, else in
TFDS's own (`~/tensorflow_datasets`, or TFDS_DATA_DIR). Processes on one machine that start
together prepare it once: the others wait.
"""

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import seqio
import tensorflow as tf
import tensorflow_datasets as tfds

from faith_jax.core.errors import ConfigError, InputError, did_you_mean
from faith_jax.core.files.stores import is_remote, path_of
from faith_jax.datasets.task_data import data_dir

# (config, data_dir) -> a builder with its data prepared.
PrepareBuilder = Callable[[str, str | None], tfds.core.DatasetBuilder]


class _UnshardedSource(seqio.DataSource):
    """A source whose data is not split into files that hosts could share out."""

    @property
    def supports_arbitrary_sharding(self) -> bool:
        """False: SeqIO deals the examples out itself."""
        return False

    def list_shards(self, split: str) -> Sequence[str]:
        """Returns one name."""
        return [split]

    @staticmethod
    def _dealt_out(dataset: tf.data.Dataset, shard_info: seqio.ShardInfo | None) -> tf.data.Dataset:
        if shard_info and shard_info.num_shards > 1:
            return dataset.shard(shard_info.num_shards, shard_info.index)
        return dataset


class PreparedTfdsSource(_UnshardedSource):
    """Reads one config of a TFDS builder, preparing it first where that is not done.

    Nothing is touched before splits, sizes or examples are asked for. Examples come in the
    stored order; the task shuffles them.

    Args:
      prepare: makes the prepared builder, given a config and a data folder.
      name: the builder's name.
      config: the builder's config.
    """

    def __init__(self, prepare: PrepareBuilder, name: str, config: str):
        super().__init__(splits=())
        self._prepare, self._name, self._config = prepare, name, config

    @property
    def dataset_name(self) -> str:
        """The builder's name and config, as `faith-jax prepare` takes them."""
        return f"{self._name}/{self._config}"

    def builder(self) -> tfds.core.DatasetBuilder:
        """Returns the builder, its data prepared.

        Raises:
          InputError: the raw data is missing or bad, or the data folder cannot be written.
        """
        folder = data_dir()
        with _lock(path_of(folder or tfds.core.constants.DATA_DIR), self._name):
            return self._prepare(self._config, folder)

    @property
    def splits(self) -> Sequence[str]:
        """The splits that have examples."""
        return tuple(self.builder().info.splits)

    def num_input_examples(self, split: str) -> int:
        """Returns the number of examples in a split."""
        return self._checked_splits(self.builder(), split)[split].num_examples

    def get_dataset(
        self,
        split: str = "train",
        shuffle: bool = True,
        seed: int | None = None,
        shard_info: seqio.ShardInfo | None = None,
        *,
        sequence_length: Mapping[str, int] | None = None,
        use_cached: bool = False,
        num_epochs: int | None = 1,
    ) -> tf.data.Dataset:
        """Returns the examples of a split, in the stored order."""
        builder = self.builder()
        self._checked_splits(builder, split)
        dataset = builder.as_dataset(split=split, shuffle_files=False)
        return self._dealt_out(dataset, shard_info)

    def _checked_splits(self, builder: tfds.core.DatasetBuilder, split: str) -> Any:
        splits = builder.info.splits
        if split not in splits:
            known = list(splits)
            raise ConfigError(
                f"{self._name}/{self._config} has no split {split!r}."
                f"{did_you_mean(str(split), known)} Its splits: {', '.join(known)}."
            )
        return splits

    def __str__(self) -> str:
        return f"PreparedTfdsSource({self._name}/{self._config})"


class TfdsUnionSource(_UnshardedSource):
    """Reads data sets that TFDS itself has, one after the other, as one.

    TFDS fetches and prepares them when they are first read.

    Args:
      names: of data sets with the same features, with their configs.
      splits: TFDS's name of each split by ours.
    """

    def __init__(self, names: Sequence[str], splits: Mapping[str, str]):
        super().__init__(splits=tuple(splits))
        self._names, self._tfds_splits = tuple(names), dict(splits)

    @property
    def dataset_name(self) -> str:
        """The names, as TFDS has them."""
        return ", ".join(self._names)

    def num_input_examples(self, split: str) -> int:
        """Returns the number of examples in a split."""
        wanted = self._tfds_splits[split]
        return sum(self._prepared(name).info.splits[wanted].num_examples for name in self._names)

    def get_dataset(
        self,
        split: str = "train",
        shuffle: bool = True,
        seed: int | None = None,
        shard_info: seqio.ShardInfo | None = None,
        *,
        sequence_length: Mapping[str, int] | None = None,
        use_cached: bool = False,
        num_epochs: int | None = 1,
    ) -> tf.data.Dataset:
        """Returns the examples of a split, in the stored order, each with its `source`.

        Raises:
          ConfigError: for an unknown split.
        """
        if split not in self._tfds_splits:
            raise ConfigError(
                f"{self.dataset_name}: there is no split {split!r}."
                f"{did_you_mean(str(split), self._tfds_splits)}"
            )
        parts = [self._part(name, self._tfds_splits[split]) for name in self._names]
        dataset = parts[0]
        for part in parts[1:]:
            dataset = dataset.concatenate(part)
        return self._dealt_out(dataset, shard_info)

    def _part(self, name: str, split: str) -> tf.data.Dataset:
        part = self._prepared(name).as_dataset(split=split, shuffle_files=False)
        return part.map(lambda example: {**example, "source": tf.constant(name)})

    def _prepared(self, name: str) -> tfds.core.DatasetBuilder:
        builder = tfds.builder(name, data_dir=data_dir())
        try:
            builder.download_and_prepare()
        except Exception as error:  # TFDS raises whatever its downloads and parsers raise
            first = str(error).strip().splitlines()
            raise InputError(
                f"{name}: TFDS cannot prepare it ({type(error).__name__}: "
                f"{first[0] if first else ''}). Its home page is {builder.info.homepage}; copy a "
                f"prepared data set into {builder.data_dir}."
            ) from error
        return builder


@contextlib.contextmanager
def _lock(folder: pathlib.Path, name: str) -> Iterator[None]:
    """Holds off other processes of this machine; without a writable folder, does nothing.

    A folder that cannot be written may well hold prepared data; if not, preparing it says so.
    """
    if is_remote(folder):
        yield  # each process has a copy, and the upload of what one prepares has a lock of its own
        return
    try:
        import fcntl  # not on Windows

        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / f".{name}.lock", "w", encoding="utf-8")  # noqa: SIM115
    except (ImportError, OSError):
        yield
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed
        yield
