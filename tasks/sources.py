"""SeqIO data sources of TFDS builders, which are prepared when they are first read.

Prepared data is in the folder that the environment variable FAITH_JAX_DATA_DIR names, otherwise in
TFDS's own folder (`~/tensorflow_datasets`, or TFDS_DATA_DIR). If several processes on one machine
start together, one prepares the data and the others wait.
"""

import contextlib
import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import seqio
import tensorflow as tf
import tensorflow_datasets as tfds

from faith_jax.core.errors import ConfigError, InputError, did_you_mean
from faith_jax.core.files import output_lock
from faith_jax.core.files.stores import is_remote, path_of
from faith_jax.datasets.task_data import data_dir

# (config, data_dir) -> a builder with its data prepared.
PrepareBuilder = Callable[[str, str | None], tfds.core.DatasetBuilder]


class _Part(NamedTuple):
    """A split of a prepared data set; examples get the field `source`, unless it is ""."""

    builder: tfds.core.DatasetBuilder
    split: str
    source: str = ""

    @property
    def num_examples(self) -> int:
        return self.builder.info.splits[self.split].num_examples

    def read(self, numbers: range) -> tf.data.Dataset:
        """Returns the examples with the given numbers, in the stored order."""
        # TensorFlow need not rewrite TFDS's functions, which would take a second.
        read = tf.autograph.experimental.do_not_convert(
            functools.partial(self.builder.as_dataset, shuffle_files=False)
        )
        if not numbers:
            dataset = read(split=self.split).take(0)
        elif numbers == range(self.num_examples):
            dataset = read(split=self.split)
        else:
            begin, end = numbers.start, numbers.stop
            dataset = read(split=tfds.core.ReadInstruction(self.split, begin, end, unit="abs"))
        if self.source:
            dataset = dataset.map(lambda example: {**example, "source": tf.constant(self.source)})
        return dataset


class _StoredSource(seqio.DataSource):
    """A source from which any range of examples can be read without reading earlier ones."""

    def _parts(self, split: str) -> list[_Part]:
        """Returns the data sets whose concatenation is a split.

        Raises:
          ConfigError: if there is no such split.
        """
        raise NotImplementedError

    @property
    def supports_arbitrary_sharding(self) -> bool:
        """True, because shards are ranges of examples, so there can be any number of them."""
        return True

    def list_shards(self, split: str) -> Sequence[str]:
        """Returns a single name, because SeqIO does not need to know the files."""
        return [split]

    def num_input_examples(self, split: str) -> int:
        """Returns the number of examples in a split."""
        return sum(part.num_examples for part in self._parts(split))

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
        """Returns the examples of a split or shard, in the stored order."""
        parts = self._parts(split)
        count = sum(part.num_examples for part in parts)
        index, shards = (shard_info.index, shard_info.num_shards) if shard_info else (0, 1)
        begin, end = count * index // shards, count * (index + 1) // shards
        datasets, first = list[tf.data.Dataset](), 0
        for part in parts:
            datasets.append(
                part.read(range(part.num_examples)[max(0, begin - first) : max(0, end - first)])
            )
            first += part.num_examples
        return functools.reduce(tf.data.Dataset.concatenate, datasets)


class PreparedTfdsSource(_StoredSource):
    """Reads one config of a TFDS builder, and prepares it first if necessary.

    No data is accessed before splits, sizes or examples are requested. `prepare` returns the
    prepared builder, given a config and a data folder.
    """

    def __init__(self, prepare: PrepareBuilder, name: str, config: str):
        super().__init__(splits=())
        self._prepare, self._name, self._config = prepare, name, config

    @property
    def dataset_name(self) -> str:
        """The builder's name and config, in the form for `faith-jax prepare`."""
        return f"{self._name}/{self._config}"

    def builder(self) -> tfds.core.DatasetBuilder:
        """Returns the builder with prepared data.

        Raises:
          InputError: if the raw data is missing or bad, or the data folder cannot be written.
        """
        folder = data_dir()
        with _lock(path_of(folder or tfds.core.constants.DATA_DIR), self._name):
            return self._prepare(self._config, folder)

    @property
    def splits(self) -> Sequence[str]:
        """The splits that have examples."""
        return tuple(self.builder().info.splits)

    def _parts(self, split: str) -> list[_Part]:
        builder = self.builder()
        _check_split(split, list(builder.info.splits), self.dataset_name)
        return [_Part(builder, split)]

    def __str__(self) -> str:
        return f"PreparedTfdsSource({self.dataset_name})"


class TfdsUnionSource(_StoredSource):
    """Reads several data sets of TFDS as one; each example names its data set.

    TFDS downloads and prepares them when they are first read. They must have the same features;
    `splits` maps our names of splits to TFDS's.
    """

    def __init__(self, names: Sequence[str], splits: Mapping[str, str]):
        super().__init__(splits=tuple(splits))
        self._names, self._tfds_splits = tuple(names), dict(splits)

    @property
    def dataset_name(self) -> str:
        """The names of the data sets in TFDS."""
        return ", ".join(self._names)

    def _parts(self, split: str) -> list[_Part]:
        _check_split(split, list(self._tfds_splits), self.dataset_name)
        return [_Part(self._prepared(n), self._tfds_splits[split], n) for n in self._names]

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


def _check_split(split: str, splits: Sequence[str], name: str) -> None:
    if split not in splits:
        raise ConfigError(
            f"{name} has no split {split!r}.{did_you_mean(str(split), splits)} Its splits: "
            f"{', '.join(splits)}."
        )


@contextlib.contextmanager
def _lock(folder: pathlib.Path, name: str) -> Iterator[None]:
    """Keeps out other processes of this machine; does nothing if the folder is not writable.

    A read-only folder may still have prepared data; if not, preparing the data reports the problem.
    """
    if is_remote(folder):
        yield  # each process has its own copy, and uploading prepared data has its own lock
        return
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError, ConfigError):
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(output_lock(folder / name, option="--data-dir", waits=True))
        yield
