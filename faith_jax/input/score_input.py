"""The input of `score`: rows of files and folders, SeqIO tasks or TFDS data sets."""

import codecs
import dataclasses
import functools
import pathlib
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, ClassVar

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.files import stamp
from faith_jax.core.files.stores import check_readable, path_of, reason, storage_errors
from faith_jax.core.heavy_imports import quiet_tensorflow
from faith_jax.core.rows import BadRows, Row, Seen
from faith_jax.core.settings import InputFormat, unescape
from faith_jax.core.user_modules import import_user_module
from faith_jax.datasets.grounded_rows import (
    Columns,
    ExampleRow,
    example_rows,
    file_examples,
    response_key,
    text_columns,
)
from faith_jax.datasets.raw_dataset import sample_config
from faith_jax.datasets.table_notes import TableNotes
from faith_jax.datasets.tables import TableForm, table_files


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreInput(Columns):
    r"""The rows to score, as the command line names them: files, SeqIO tasks or TFDS data sets.

    Attributes:
      input (FILE): .jsonl, .json, .csv, .tsv, .parquet or .arrow, also packed (.gz, .bz2, .zst), or
        a folder of parts (repeatable)
      input_format: the format of FILE (default: by its ending)
      separator (TEXT): between the cells of CSV and TSV, such as ';' or '\t' (default: detected)
      encoding (NAME): of a text file, such as cp1252 or utf-16 (default: detected)
      task (NAME): a SeqIO task instead of files; NAME@SPLIT for another split (repeatable)
      task_module (MODULE): registers your own tasks, my_tasks.py or my_package.tasks
      tfds (NAME): a TFDS data set instead of files: NAME[/CONFIG] or its folder; NAME@SPLIT for
        another split (repeatable)
      split: of tasks or data sets; of a data set also a slice, such as test[:10]
      corpus (NAME): of rows that name none (default: the name of the file, task or data set)
      system (NAME): the system that made the responses
    """

    group: ClassVar = "input"
    empty_remedy: ClassVar[str] = "--skip-bad-rows leaves out what has no grounding"
    input: tuple[str, ...] = ()
    input_format: InputFormat | None = None
    separator: Annotated[str, unescape] = ""
    encoding: str = ""
    task: tuple[str, ...] = ()
    task_module: str = ""
    tfds: tuple[str, ...] = ()
    split: str = ""
    corpus: str = ""
    system: str = ""

    def __post_init__(self):
        if sum(map(bool, (self.input, self.task, self.tfds))) != 1:
            raise ConfigError("Give one of --input, --task and --tfds.")
        if not self.input and not all(split for _, split in self._data_sets()):
            raise ConfigError("--split: say which split of the data set.")
        if self.input and self.split:
            raise ConfigError("--split: a file has no splits; it goes with --task or --tfds.")
        if self.task_module and not self.task:
            raise ConfigError("--task-module: goes with --task only.")
        if any((self.input_format, self.separator, self.encoding)) and not self.input:
            raise ConfigError("--input-format, --separator, --encoding: go with --input only.")
        if len(self.separator) > 1:
            raise ConfigError(f"--separator: expected one character, got {self.separator!r}.")
        _ = self.table_form
        super().__post_init__()

    @functools.cached_property
    def table_form(self) -> TableForm:
        """The form of the files, as far as options give it."""
        try:
            encoding = codecs.lookup(self.encoding).name if self.encoding else ""
        except LookupError:
            raise ConfigError(
                f"--encoding: expected an encoding that Python knows, such as utf-8, utf-16 or "
                f"cp1252, got {self.encoding!r}."
            ) from None
        form = self.input_format or ""
        return TableForm(form=form, separator=self.separator, encoding=encoding)

    @property
    def source(self) -> str:
        """The names of the files, tasks or data sets that are scored, for messages."""
        return ", ".join(self.input or self.task or self.tfds)

    @functools.cached_property
    def _find_text_columns(self) -> Callable[..., frozenset[str]]:
        # Shards are read separately, so the columns of a split are kept.
        return functools.cache(lambda read, *key: text_columns(read(*key), self.named_texts))

    def _data_sets(self) -> Iterator[tuple[str, str]]:
        """Yields the names of tasks or data sets with their splits."""
        for full_name in self.task or self.tfds:
            name, _, split = full_name.partition("@")
            yield name, split or self.split

    def rows(
        self,
        bad_rows: BadRows,
        place: tuple[int, int] = (0, 0),
        notes: TableNotes | None = None,
    ) -> Iterator[ExampleRow]:
        """Yields the examples with the other fields of their rows, starting at a place.

        Raises:
          FaithJaxError: a file is missing or bad, a task, data set or split is unknown, or an id
            occurs in two inputs.
        """
        (begin, first), names = place, self.input or self.task or self.tfds
        # A first pass reads the whole input before scoring; it alone compares ids across parts.
        seen = Seen() if place == (0, 0) and len(names) > 1 else None
        for part in range(begin, len(names)):
            first_row = first if part == begin else 0
            if self.input:
                path = path_of(self.input[part])
                corpus = self.corpus or path.stem
                read = functools.partial(
                    file_examples, path, self.table_form, self, corpus, bad_rows, first_row, notes
                )
                rows = _blame_raw_files(read, path) if self.reads_grounding else read()
            else:
                if self.task_module:
                    quiet_tensorflow()  # the module imports TensorFlow
                    import_user_module(self.task_module, "--task-module")
                key = list(self._data_sets())[part]
                rows_of = seqio_rows if self.task else tfds_rows
                rows = example_rows(
                    rows_of(*key, first_row),
                    self,
                    self.corpus or key[0],
                    bad_rows,
                    first=first_row,
                    notes=notes,
                    find_text_columns=functools.partial(self._find_text_columns, rows_of, *key),
                )
            for row in rows:
                if part:
                    row = row._replace(place=(part, row.place[1]))
                if self.system:
                    row_system = row.fields.get("system") or self.system
                    if row_system != self.system:
                        raise InputError(
                            f"{names[part]}: row {row.example.id!r} is of the system "
                            f"{row_system!r}, as its field 'system' says, not of "
                            f"--system={self.system}; leave out --system, or rename the field."
                        )
                    row = row._replace(fields={**row.fields, "system": self.system})
                if seen is not None and not seen.add(response_key(row)):
                    raise InputError(
                        f"{names[part]}: the id {row.example.id!r} of the corpus "
                        f"{row.corpus!r} is also in {', '.join(names[:part])}; give "
                        "each in a run of its own: score takes another --corpus=NAME for it or, "
                        "where they answer the same questions, another --system=NAME."
                    )
                yield row

    def stamp(self) -> list[Any]:
        """Returns the stamps of the files, which change when the files do."""
        return stamp(file for name in self.input for file in table_files(path_of(name)))

    def options(self) -> dict[str, Any]:
        """Returns the options that determine which rows are read, and how.

        Raises:
          FaithJaxError: a file is missing or is a pipe.
        """
        for file in self.input:
            try:
                check_readable(file)
                path_of(file).stat()
            except storage_errors() as error:
                raise ConfigError(f"{file}: cannot be read ({reason(error)}).") from None
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(ScoreInput)}


class Responses(ScoreInput):
    """Responses whose evidence has yet to be retrieved."""

    reads_grounding: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("response",)


def _blame_raw_files(
    read: Callable[[], Iterator[ExampleRow]], path: pathlib.Path
) -> Iterator[ExampleRow]:
    """Yields the rows of a file; if the first fails in a known raw file, says how to score it."""
    try:
        rows = read()
        first = next(rows, None)
    except InputError as error:
        from faith_jax.datasets.raw_catalogue import raw_dataset_of

        if (raw_dataset := raw_dataset_of(path)) is None:
            raise
        dataset, split = raw_dataset
        is_whole = sample_config(dataset.config) == "sample"
        name = dataset.name if is_whole else f"{dataset.name}/{dataset.config}"
        raise InputError(
            f"{error} It looks like a raw file of {dataset.name}: run `faith-jax prepare {name} "
            f"--raw={shlex.quote(str(path.parent))}`, then score --tfds={name} --split={split} in "
            "place of --input."
        ) from None
    if first is not None:
        yield first
        yield from rows


def seqio_rows(task: str, split: str, first: int = 0) -> Iterator[Row]:
    """Yields the examples of a SeqIO task, starting at example `first`, from 0.

    Raises:
      FaithJaxError: the task or split is unknown, or a text is not UTF-8.
    """
    quiet_tensorflow()
    from faith_jax.input.task_batches import DatasetConfig
    from faith_jax.input.task_examples import TaskExamples
    from faith_jax.tasks import lookup

    seqio_task = lookup.get_task(task, "--task")
    lookup.check_split(seqio_task, split)
    lengths = {"inputs": 1 << 20, "targets": 1 << 20}  # so large that nothing is cut
    examples = TaskExamples(DatasetConfig(task, lengths, split), seqio_task, first=first)
    yield from _plain_rows(examples, f"{task}, {split}", first)


def tfds_rows(name: str, split: str, first: int = 0) -> Iterator[Row]:
    """Yields the examples of a TFDS data set, starting at example `first`, from 0.

    `name` is NAME[/CONFIG], or the folder of a data set, such as `infer` writes. The split may be a
    slice, such as "test[:10]".

    Raises:
      FaithJaxError: the name or split is unknown, the data cannot be prepared, or a text is not
        UTF-8.
    """
    quiet_tensorflow(with_seqio=False)
    import tensorflow_datasets as tfds

    from faith_jax.datasets.builders.base import prepare_builder
    from faith_jax.datasets.builders.catalogue import BUILDERS
    from faith_jax.datasets.task_data import data_dir

    builder_name, _, config = name.partition("/")
    if (path_of(name) / "dataset_info.json").is_file():
        builder: Any = tfds.builder_from_directory(path_of(name))
    elif builder_name in BUILDERS:
        config = config or next(iter(BUILDERS[builder_name].builder_configs))
        builder = prepare_builder(BUILDERS[builder_name], config, data_dir())
    else:
        try:
            builder = tfds.builder(name, data_dir=data_dir())
        except (tfds.core.DatasetNotFoundError, ValueError) as error:
            raise ConfigError(f"--tfds: {name}: {str(error).splitlines()[0]}") from None
        if not builder.info.splits:
            raise ConfigError(f"--tfds: {name} is not prepared; run: tfds build {name}")
    try:
        is_empty = not builder.info.splits[split].num_examples
    except (KeyError, ValueError, AssertionError):
        raise ConfigError(
            f"--split: {name} has the splits {', '.join(builder.info.splits)}, or a slice of one "
            f"such as '{next(iter(builder.info.splits))}[:10]'."
        ) from None
    if is_empty:
        raise ConfigError(f"--split: {split} of {name} has no rows.")
    dataset = builder.as_dataset(split=split, shuffle_files=False).skip(first)
    yield from _plain_rows(tfds.as_numpy(dataset), f"{name}, {split}", first)


def _plain_rows(examples: Iterable[Any], source: str, first: int) -> Iterator[Row]:
    from faith_jax.input.numpy_examples import plain, utf8_in

    for number, example in enumerate(examples, start=first + 1):
        with utf8_in(place := f"{source}: row {number}"):
            row = Row(place, plain(example))
        yield row
