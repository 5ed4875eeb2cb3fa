"""What `score` reads: rows of a file, of a SeqIO task or of a TFDS data set."""

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator
from typing import Any

from faith_jax.core.errors import ConfigError
from faith_jax.core.rows import BadRows, Row
from faith_jax.datasets.grounded_rows import Columns, ExampleRow, example_rows, file_examples
from faith_jax.input.numpy_examples import numpy_examples


@dataclasses.dataclass(frozen=True)
class ScoreInput:
    """What is scored: exactly one of files, SeqIO tasks and TFDS data sets.

    Attributes:
      file: JSON lines, CSV, TSV or Parquet.
      task: the name of a SeqIO task; its examples' fields are the columns.
      tfds: NAME or NAME/CONFIG of a TFDS data set, ours or another's.
      more: files, tasks or data sets that follow it.
      file_format: of the files; "" = as their endings say.
      split: of the tasks or data sets; NAME@SPLIT says another one.
      columns: which hold what.
      corpus: of rows that name none; "" = the file's, task's or data set's name.
      system: that made the responses; "" = as the rows say.
    """

    file: str = ""
    task: str = ""
    tfds: str = ""
    more: tuple[str, ...] = ()
    file_format: str = ""
    split: str = ""
    columns: Columns = dataclasses.field(default_factory=Columns)
    corpus: str = ""
    system: str = ""

    def __post_init__(self):
        if sum(map(bool, (self.file, self.task, self.tfds))) != 1:
            raise ConfigError("Give one of --input, --task and --tfds.")
        if not self.file and not all(split for _, split in self._data_sets()):
            raise ConfigError("--split: say which split of the data set.")
        if self.file and self.split:
            raise ConfigError("--split: a file has no splits; it goes with --task or --tfds.")
        if self.file_format and not self.file:
            raise ConfigError("--input-format: goes with --input only.")

    @property
    def name(self) -> str:
        """What is scored, for messages."""
        return ", ".join(self._names)

    @property
    def _names(self) -> tuple[str, ...]:
        return (self.file or self.task or self.tfds, *self.more)

    def _data_sets(self) -> Iterator[tuple[str, str]]:
        """Yields the names of tasks or data sets with their splits."""
        for given in self._names:
            name, _, split = given.partition("@")
            yield name, split or self.split

    def rows(self, bad_rows: BadRows) -> Iterator[ExampleRow]:
        """Yields the examples with what else their rows say.

        Raises:
          FaithJaxError: for a missing or bad file, an unknown task, data set or split.
        """
        for row in itertools.chain.from_iterable(self._parts(bad_rows)):
            yield row._replace(fields={**row.fields, "system": self.system}) if self.system else row

    def _parts(self, bad_rows: BadRows) -> Iterator[Iterator[ExampleRow]]:
        if self.file:
            for path in map(pathlib.Path, self._names):
                corpus = self.corpus or path.stem
                yield file_examples(path, self.file_format, self.columns, corpus, bad_rows)
            return
        for name, split in self._data_sets():
            rows = dataset_rows(*((name, "") if self.task else ("", name)), split)
            yield example_rows(rows, self.columns, self.corpus or name, bad_rows)

    def fingerprint(self) -> dict[str, Any]:
        """Returns what changes with the input.

        Raises:
          ConfigError: for a file that is not there.
        """
        told = dataclasses.asdict(self)
        told["files"] = []
        for file in self._names if self.file else ():
            path = pathlib.Path(file)
            try:
                status = path.stat()
            except OSError as error:
                raise ConfigError(f"{path}: cannot be read ({error.strerror}).") from None
            told["files"].append([str(path.resolve()), status.st_size, status.st_mtime_ns])
        return told


def dataset_rows(task: str, tfds_name: str, split: str) -> Iterator[Row]:
    """Yields the examples of a SeqIO task or, where it is "", of a TFDS data set, NAME[/CONFIG].

    They are plain Python values; a data set's split may be a slice, such as "test[:10]".

    Raises:
      FaithJaxError: for an unknown name or split, and data that cannot be prepared.
    """
    import tensorflow_datasets as tfds

    if task:
        from faith_jax.tasks import lookup

        found = lookup.get_task(task)
        lookup.check_split(found, split)
        examples = numpy_examples(found.get_dataset(None, split, shuffle=False))
    else:
        builder = _tfds_builder(tfds_name)
        try:
            _ = builder.info.splits[split]
        except (KeyError, ValueError, AssertionError):
            known = ", ".join(builder.info.splits)
            raise ConfigError(
                f"--split: {tfds_name} has the splits {known}, or a slice of one such as "
                f"'{next(iter(builder.info.splits))}[:10]'."
            ) from None
        examples = tfds.as_numpy(builder.as_dataset(split=split, shuffle_files=False))
    for number, example in enumerate(examples, start=1):
        fields = {name: plain(value) for name, value in example.items()}
        yield Row(f"{task or tfds_name}, {split}: row {number}", fields)


def _tfds_builder(name: str) -> Any:
    import tensorflow_datasets as tfds

    from faith_jax.datasets.builders.base import prepared
    from faith_jax.datasets.builders.catalogue import BUILDERS
    from faith_jax.tasks import sources

    wanted, _, config = name.partition("/")
    if wanted in BUILDERS:
        config = config or next(iter(BUILDERS[wanted].builder_configs))
        return prepared(BUILDERS[wanted], config, sources.data_dir())
    try:
        builder = tfds.builder(name, data_dir=sources.data_dir())
    except (tfds.core.DatasetNotFoundError, ValueError) as error:
        raise ConfigError(f"--tfds: {name}: {str(error).splitlines()[0]}") from None
    if not builder.info.splits:
        raise ConfigError(f"--tfds: {name} is not prepared; run: tfds build {name}")
    return builder


def plain(value: Any) -> Any:
    """Returns a value of NumPy's as plain Python, texts decoded."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if hasattr(value, "to_list"):  # a ragged tensor, of a list of lists
        value = value.to_list()
    if isinstance(value, list):
        return [plain(item) for item in value]
    if getattr(value, "ndim", 0):
        return [plain(item) for item in value.tolist()]
    return value.item() if hasattr(value, "item") else value
