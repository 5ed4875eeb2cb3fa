"""A SeqIO data source over a TFDS builder that is prepared when it is first read.

Prepared data lies in the folder that the environment variable FAITH_JAX_DATA_DIR names, else in
TFDS's own (`~/tensorflow_datasets`, or TFDS_DATA_DIR). Processes on one machine that start
together prepare it once: the others wait.
"""

import contextlib
import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import seqio
import tensorflow as tf
import tensorflow_datasets as tfds

from faith_jax.core.errors import ConfigError, InputError, did_you_mean
from faith_jax.core.files import output_lock
from faith_jax.core.files.stores import is_remote, path_of
from faith_jax.datasets.task_data import data_dir

# (config, data_dir) -> a builder with its data prepared.
PrepareBuilder = Callable[[str, str | None], tfds.core.DatasetBuilder]


class _StoredSource(seqio.DataSource):
    """A source of which any examples can be read without those before them."""

    @property
    def supports_arbitrary_sharding(self) -> bool:
        """True: a shard is a range of examples, of which there can be any number."""
        return True

    def list_shards(self, split: str) -> Sequence[str]:
        """Returns one name: SeqIO need not know files."""
        return [split]


def _stored(
    builder: tfds.core.DatasetBuilder, split: str, count: int, numbers: range
) -> tf.data.Dataset:
    """Returns the examples that have these numbers, of so many in a split, in the stored order."""
    # TensorFlow need not rewrite TFDS's functions, which takes a second.
    read = tf.autograph.experimental.do_not_convert(
        functools.partial(builder.as_dataset, shuffle_files=False)
    )
    if numbers == range(count):
        return read(split=split)
    if not numbers:
        return read(split=split).take(0)
    return read(
        split=tfds.core.ReadInstruction(split, from_=numbers.start, to=numbers.stop, unit="abs")
    )


def _range(count: int, shard_info: seqio.ShardInfo | None) -> range:
    """Returns which of so many examples belong to a shard, all of them without one."""
    index, shards = (shard_info.index, shard_info.num_shards) if shard_info else (0, 1)
    return range(count * index // shards, count * (index + 1) // shards)


class PreparedTfdsSource(_StoredSource):
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
        count = self._checked_splits(builder, split)[split].num_examples
        return _stored(builder, split, count, _range(count, shard_info))

    def _checked_splits(self, builder: tfds.core.DatasetBuilder, split: str) -> Any:
        splits = builder.info.splits
        if split not in splits:
            split_names = list(splits)
            raise ConfigError(
                f"{self._name}/{self._config} has no split {split!r}."
                f"{did_you_mean(str(split), split_names)} Its splits: {', '.join(split_names)}."
            )
        return splits

    def __str__(self) -> str:
        return f"PreparedTfdsSource({self._name}/{self._config})"


class TfdsUnionSource(_StoredSource):
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
        return sum(self._count(self._prepared(name), split) for name in self._names)

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
        numbers = _range(self.num_input_examples(split), shard_info)
        parts, first = list[tf.data.Dataset](), 0
        for name in self._names:
            builder = self._prepared(name)
            count = self._count(builder, split)
            own = range(count)[max(0, numbers.start - first) : max(0, numbers.stop - first)]
            part = _stored(builder, self._tfds_splits[split], count, own)
            parts.append(self._named(part, name))
            first += count
        dataset = parts[0]
        for part in parts[1:]:
            dataset = dataset.concatenate(part)
        return dataset

    def _count(self, builder: tfds.core.DatasetBuilder, split: str) -> int:
        return builder.info.splits[self._tfds_splits[split]].num_examples

    @staticmethod
    def _named(examples: tf.data.Dataset, name: str) -> tf.data.Dataset:
        return examples.map(lambda example: {**example, "source": tf.constant(name)})

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
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError, ConfigError):
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(output_lock(folder / name, option="--data-dir", wait=True))
        yield
