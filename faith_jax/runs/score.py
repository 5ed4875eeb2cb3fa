"""The run `score`: scores of every row by any number of scorers, in one pass.

Rows gather in `<output>.partial`, from which a run that was stopped goes on; the output appears
whole when the last row is scored.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import logging
import os
import pathlib
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from faith_jax.data.grounded_rows import Columns, ExampleRow, example_rows, read_rows
from faith_jax.data.rows import BadRows, Row
from faith_jax.errors import ConfigError, InputError
from faith_jax.export.jsonl import append_rows
from faith_jax.export.scored_rows import (
    ScoredRow,
    count_whole_rows,
    lines_of,
    scored_row,
    write_parquet,
)
from faith_jax.scoring.base import BaseScorer
from faith_jax.scoring.registry import load_scorer

logger = logging.getLogger("faith_jax")

OUTPUT_FORMATS = {".jsonl": "jsonl", ".parquet": "parquet"}
_REPORT_SECONDS = 10.0


@dataclasses.dataclass(frozen=True)
class ScoreInput:
    """What is scored: exactly one of a file, a SeqIO task and a TFDS data set.

    Attributes:
      file: JSON lines, CSV, TSV or Parquet.
      file_format: of the file; "" = as its ending says.
      task: the name of a SeqIO task; its examples' fields are the columns.
      tfds: NAME or NAME/CONFIG of a TFDS data set, ours or another's.
      split: of the task or data set.
      columns: which hold what.
      corpus: of rows that name none; "" = the file's, task's or data set's name.
    """

    file: str = ""
    file_format: str = ""
    task: str = ""
    tfds: str = ""
    split: str = ""
    columns: Columns = dataclasses.field(default_factory=Columns)
    corpus: str = ""

    def __post_init__(self):
        if sum(map(bool, (self.file, self.task, self.tfds))) != 1:
            raise ConfigError("Give one of --input, --task and --tfds.")
        if (self.task or self.tfds) and not self.split:
            raise ConfigError("--split: say which split of the data set.")

    def rows(self, bad_rows: BadRows) -> Iterator[ExampleRow]:
        """Yields the examples with what else their rows say.

        Raises:
          FaithJaxError: for a missing or bad file, an unknown task, data set or split.
        """
        if self.file:
            path = pathlib.Path(self.file)
            rows: Iterable[Row] = read_rows(path, self.file_format, bad_rows)
            name = path.stem
        else:
            name = self.task or self.tfds
            rows = dataset_rows(self.task, self.tfds, self.split)
        return example_rows(rows, self.columns, self.corpus or name, bad_rows)

    def fingerprint(self) -> str:
        """Returns what changes with the input."""
        told = dataclasses.asdict(self)
        if self.file:
            status = pathlib.Path(self.file).stat()
            told["file"] = [str(pathlib.Path(self.file).resolve()), status.st_size]
            told["changed"] = status.st_mtime_ns
        return json.dumps(told, sort_keys=True)


def dataset_rows(task: str, tfds_name: str, split: str) -> Iterator[Row]:
    """Yields the examples of a SeqIO task or of a TFDS data set as plain Python values.

    Args:
      task: the task's name, or "".
      tfds_name: NAME or NAME/CONFIG, where there is no task.
      split: of either.

    Raises:
      FaithJaxError: for an unknown name or split, and data that cannot be prepared.
    """
    import tensorflow_datasets as tfds

    if task:
        from faith_jax.tasks import lookup

        found = lookup.get_task(task)
        lookup.check_split(found, split)
        examples = found.get_dataset(None, split, shuffle=False).as_numpy_iterator()
    else:
        builder = _tfds_builder(tfds_name)
        if split not in builder.info.splits:
            known = ", ".join(builder.info.splits)
            raise ConfigError(f"--split: {tfds_name} has the splits {known}.")
        examples = tfds.as_numpy(builder.as_dataset(split=split, shuffle_files=False))
    for number, example in enumerate(examples, start=1):
        fields = {name: _plain(value) for name, value in example.items()}
        yield Row(f"{task or tfds_name}, {split}: row {number}", fields)


def _tfds_builder(name: str) -> Any:
    import tensorflow_datasets as tfds

    from faith_jax.data.builders.base import prepared
    from faith_jax.runs.show_tasks import raw_builders
    from faith_jax.tasks import sources

    wanted, _, config = name.partition("/")
    ours = {builder.name: builder for builder in raw_builders()}
    if wanted in ours:
        config = config or next(iter(ours[wanted].builder_configs))
        return prepared(ours[wanted], config, sources.data_dir())
    try:
        builder = tfds.builder(name, data_dir=sources.data_dir())
    except (tfds.core.DatasetNotFoundError, ValueError) as error:
        raise ConfigError(f"--tfds: {name}: {str(error).splitlines()[0]}") from None
    if not builder.info.splits:
        raise ConfigError(f"--tfds: {name} is not prepared; run: tfds build {name}")
    return builder


def _plain(value: Any) -> Any:
    """Returns a value of NumPy's as plain Python, texts decoded."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if getattr(value, "ndim", 0):
        return [_plain(item) for item in value.tolist()]
    return value.item() if hasattr(value, "item") else value


def score(
    given: ScoreInput,
    scorers: Mapping[str, Mapping[str, Any]],
    output: str,
    output_format: str = "",
    batch_size: int = 256,
    bad_rows: BadRows | None = None,
) -> tuple[pathlib.Path, int]:
    """Scores all rows and writes them; see `faith_jax.export.scored_rows` for their form.

    Args:
      given: what is scored.
      scorers: options of each scorer by its name.
      output: the file, or for TFDS the folder, which must not exist.
      output_format: "jsonl", "parquet" or "tfds"; "" = as the ending says, TFDS without one.
      batch_size: rows scored and written at once.
      bad_rows: what to do with bad rows; by default scoring stops.

    Returns:
      The output and how many rows it has.

    Raises:
      FaithJaxError: on wrong settings and input; nothing is left but what a further run goes on
        from.
    """
    target = pathlib.Path(output)
    form = _output_format(target, output_format)
    if not scorers:
        raise ConfigError("--scorers: name at least one scorer.")
    if batch_size < 1:
        raise ConfigError(f"--batch-size: expected a positive number, got {batch_size}.")
    loaded = {name: load_scorer(name, **options) for name, options in scorers.items()}
    if target.exists():
        raise ConfigError(f"{target} exists already; remove it or name another output.")
    bad_rows = bad_rows or BadRows()
    count = sum(1 for _ in given.rows(bad_rows))  # bad input is found before anything is scored
    if not count:
        raise InputError(f"{given.file or given.task or given.tfds}: no rows to score.")
    partial = _partial_folder(target, given.fingerprint(), scorers)
    lines = partial / "rows.jsonl"
    _score_rows(given.rows(bad_rows), loaded, lines, batch_size, count)
    _finish(lines, target, form, list(loaded), given.split or "rows")
    shutil.rmtree(partial)
    return target, count


def _output_format(target: pathlib.Path, form: str) -> str:
    form = form or OUTPUT_FORMATS.get(target.suffix, "" if target.suffix else "tfds")
    if form not in ("jsonl", "parquet", "tfds"):
        raise ConfigError(f"--output: {target}: name a .jsonl or .parquet file, or a folder.")
    if not target.parent.is_dir():
        raise ConfigError(f"--output: {target.parent}: no such folder.")
    return form


def _partial_folder(
    target: pathlib.Path, fingerprint: str, scorers: Mapping[str, Mapping[str, Any]]
) -> pathlib.Path:
    """Returns the folder of a run in progress: the one that was stopped, if it was the same run."""
    told = json.dumps([fingerprint, {k: dict(v) for k, v in scorers.items()}], default=str)
    mark = hashlib.sha256(told.encode()).hexdigest()
    folder = target.with_name(f"{target.name}.partial")
    note = folder / "run.txt"
    with contextlib.suppress(OSError):
        if note.read_text() == mark:
            return folder
    if folder.exists():
        logger.info("%s is of another run; starting anew", folder)
        shutil.rmtree(folder)
    try:
        folder.mkdir()
        note.write_text(mark)
    except OSError as error:
        raise ConfigError(f"--output: {target}: cannot be written ({error.strerror}).") from None
    return folder


def _score_rows(
    rows: Iterator[ExampleRow],
    scorers: Mapping[str, BaseScorer],
    lines: pathlib.Path,
    batch_size: int,
    total: int,
) -> None:
    """Appends the rows that are not scored yet."""
    done = count_whole_rows(lines)
    if done:
        logger.info("%d of %d rows are scored already", done, total)
    for _ in itertools.islice(rows, done):
        pass
    count, reported = done, time.monotonic()
    cut = dict.fromkeys(scorers, 0)
    while batch := list(itertools.islice(rows, batch_size)):
        examples = [row.example for row in batch]
        columns = {name: scorer.score(examples) for name, scorer in scorers.items()}
        scored = [
            scored_row(row, {name: scores[place] for name, scores in columns.items()})
            for place, row in enumerate(batch)
        ]
        append_rows(lines, scored)
        count += len(batch)
        for name, scores in columns.items():
            cut[name] += sum(score.cut_tokens > 0 for score in scores)
        if time.monotonic() - reported > _REPORT_SECONDS:
            reported = time.monotonic()
            logger.info("%d of %d rows scored", count, total)
    for name, number in cut.items():
        if number:
            logger.warning("%s cut %d of %d inputs that were too long", name, number, total)


def _finish(
    lines: pathlib.Path, target: pathlib.Path, form: str, scorers: Sequence[str], split: str
) -> None:
    """Turns the rows into the output, which appears whole."""
    if form == "jsonl":
        os.replace(lines, target)
        return
    rows: Iterator[ScoredRow] = lines_of(lines)
    made = lines.with_name("made")
    if form == "parquet":
        write_parquet(rows, made, scorers)
    else:
        from faith_jax.export.tfds import write_scored_tfds

        shutil.rmtree(made, ignore_errors=True)
        write_scored_tfds(made, "scores", split, rows, scorers)
    os.replace(made, target)
