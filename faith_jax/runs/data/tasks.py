"""The runs `tasks TASK` and `prepare`: show a task's rows as a model sees them, and make data."""

import itertools
import os
import pathlib
import textwrap
from collections.abc import Iterator
from typing import Any

from faith_jax.core.errors import ConfigError, InputError, did_you_mean, pluralize
from faith_jax.core.labels import labels_line
from faith_jax.core.rows import BadRows
from faith_jax.datasets import task_data
from faith_jax.datasets.builders.apache_beam import BeamPipeline
from faith_jax.datasets.builders.base import RawBuilder, manual_folder, prepare_builder
from faith_jax.datasets.builders.catalogue import BUILDERS
from faith_jax.datasets.raw_catalogue import DATASETS
from faith_jax.datasets.raw_files import ignored_files
from faith_jax.input.numpy_examples import feature_text, plain
from faith_jax.input.task_examples import TaskExamples
from faith_jax.tasks import lookup

_WIDTH = 96
_SAMPLE = 100  # rows whose tokens are counted
_NAMES = 6  # of files, in a message


def list_user_tasks() -> Iterator[str]:
    """Yields a line for each registered task or mixture that is not from this package."""
    for name in lookup.task_names():
        if name not in {*task_data.TASKS, *task_data.MIXTURES}:
            splits = ", ".join(lookup.get_task(name).splits)
            yield f"{name}  ({splits})"


def task_rows(name: str, split: str | None, count: int, lengths: dict[str, int]) -> Iterator[str]:
    """Yields lines that show the first rows of a task's split, by default of its last split.

    The last line gives the lengths of the first hundred rows, or of all shown rows if these are
    more. `lengths` has the number of tokens that fit each feature.
    """
    task = lookup.get_task(name, "TASK")
    if hasattr(task, "tasks"):
        parts = ", ".join(sorted(part.name for part in task.tasks))
        raise ConfigError(f"{name} is a mixture; look at one of its tasks: {parts}.")
    split = split or list(task.splits)[-1]
    lookup.check_split(task, split)
    from faith_jax.input.task_batches import DatasetConfig  # slow to import

    rows = TaskExamples(DatasetConfig(name, lengths, split), task)
    lengths = {feature: n for feature, n in lengths.items() if feature in task.output_features}
    read, tokens = 0, {feature: list[int]() for feature in lengths}
    for number, row in enumerate(itertools.islice(rows, max(count, _SAMPLE))):
        read += 1
        for feature in lengths:
            tokens[feature].append(_count_tokens(row[feature]))
        if number >= count:
            continue
        yield f"{name}, {split}, row {number}"
        for feature, length in lengths.items():
            text = feature_text(task, row, feature)
            yield from _text_lines(feature, row[feature], text, length)
        for feature in task.output_features.keys() - lengths.keys():
            texts = plain(row.get(f"{feature}_pretokenized"))
            if not isinstance(texts, list):  # shows only features that hold several texts
                continue
            for place, (text_tokens, text) in enumerate(zip(row[feature], texts, strict=True)):
                yield from _text_lines(f"{feature}[{place}]", text_tokens, text, lengths["targets"])
    if read:
        summaries = []
        for feature, limit in lengths.items():
            longest = pluralize(max(tokens[feature]), "token")
            over = sum(count > limit for count in tokens[feature])
            remedy = ": raise TASK_FEATURE_LENGTHS to train on them" if feature == "targets" else ""
            excess = f" (over {limit} in {over}{remedy})" if over else ""
            summaries.append(f"{feature} have up to {longest}{excess}")
        yield f"the first {pluralize(read, 'row')} of {split}: {'; '.join(summaries)}"
    if labels := lookup.error_labels(task):
        yield labels_line(labels)


def _count_tokens(tokens: Any) -> int:
    """Returns how many tokens are not padding."""
    return int((tokens != 0).sum())


def _text_lines(name: str, tokens: Any, text: str, length: int) -> Iterator[str]:
    """Yields a text with its number of tokens, and how many of them fit."""
    count = _count_tokens(tokens)
    cut = "" if name == "targets" else f": {count - length} would be cut"
    over = f"; {length} fit{cut}" if count > length else ""
    yield f"  {name} ({pluralize(count, 'token')}{over})"
    yield textwrap.fill(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")


def builder_of(name: str) -> tuple[type[RawBuilder], str]:
    """Returns the builder and the config of "<builder>/<config>"; default: its first config."""
    builder_name, _, config = name.partition("/")
    if builder_name not in BUILDERS:
        hint = did_you_mean(builder_name, BUILDERS) or f" There are: {', '.join(sorted(BUILDERS))}."
        raise ConfigError(f"There is no data set {builder_name!r}.{hint}")
    builder = BUILDERS[builder_name]
    return builder, config or next(iter(builder.builder_configs))


def prepare(
    name: str,
    data_dir: str | None = None,
    raw_folder: str | None = None,
    skip_bad_rows: bool = False,
    beam: BeamPipeline | None = None,
    tell_ignored: bool = True,
) -> Iterator[str]:
    """Prepares a data set, and yields lines that report on it.

    The name is `<builder>` or `<builder>/<config>`; without a config, the official files are used.
    `data_dir` defaults to FAITH_JAX_DATA_DIR or TFDS's own folder, `raw_folder` to TFDS's manual
    folder or else the files' source. `tell_ignored` reports neighbouring files that are not read.
    """
    builder, config = builder_of(name)
    if raw_folder is not None and not pathlib.Path(raw_folder).is_dir():
        raise ConfigError(f"--raw: {raw_folder}: no such folder.")
    bad_rows = BadRows(skip=skip_bad_rows)
    data_dir = data_dir or task_data.data_dir()
    ignored, builder_config = "", builder.builder_configs.get(config)
    if tell_ignored and builder_config is not None and not builder_config.sample:
        raw = builder_config.dataset
        if raw_folder is None:  # other files in TFDS's manual folder belong to other data sets
            full_builder = builder(
                config=config, data_dir=data_dir and os.path.expanduser(data_dir)
            )
            folders = [manual_folder(full_builder) / raw.folder]
        else:
            folders = [pathlib.Path(raw_folder) / raw.folder, pathlib.Path(raw_folder)]
        folder = next((path for path in folders if path.is_dir()), None)
        if folder is not None and (names := ignored_files(raw, folder, DATASETS)):
            listed, expected = (
                ", ".join(files[:_NAMES])
                + (f" and {len(files) - _NAMES} more" if len(files) > _NAMES else "")
                for files in (names, list(raw.files))
            )
            ignored = f"{folder}: {raw.name} does not read {listed}; its files are {expected}."
    try:
        dataset = prepare_builder(builder, config, data_dir, raw_folder, bad_rows, beam=beam)
    except InputError as error:
        raise InputError(f"{ignored}{' ' if ignored else ''}{error}") from None
    for split, info in dataset.info.splits.items():
        yield f"{dataset.info.full_name}  {split}: {info.num_examples:,} examples"
    yield from bad_rows.describe_skipped()
    if ignored:
        yield ignored
    yield str(dataset.data_dir)
