"""Scores texts with several scorers, as a table: `faith_jax.score`."""

import dataclasses
import functools
import logging
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from faith_jax.core.errors import ConfigError, InputError, did_you_mean, pluralize
from faith_jax.core.settings import sharing_programs
from faith_jax.core.types import GroundedExample, Grounding, Score
from faith_jax.datasets.grounded_rows import Columns, ExampleRow, example_rows, text_columns
from faith_jax.datasets.list_cells import ListColumns, is_plain_text
from faith_jax.datasets.table_notes import TableNotes
from faith_jax.datasets.tables import frame_rows, is_missing
from faith_jax.runs.options import split_scorer_name
from faith_jax.runs.scores.score_summary import ScoreCounts
from faith_jax.scoring.base import BaseScorer, ScoreRange, warn_of_equal_scores
from faith_jax.scoring.registry import load_scorer, scorer_options

logger = logging.getLogger("faith_jax")

_OPTION = re.compile(r"--(\w+)-column=([^\s;]*[^\s.,;])")
_PARTS = ("grounding", "response", "history", "label")
Texts = str | Sequence[str] | Mapping[str, Sequence[str]] | Grounding


def score(
    groundings: Sequence[Texts] | Any,
    responses: Sequence[str] | None = None,
    scorers: Sequence[str] | Mapping[str, Mapping[str, Any]] = ("groundedness",),
    histories: Sequence[Sequence[str] | str] | None = None,
    labels: Sequence[int | None] | None = None,
    columns: Mapping[str, str] | None = None,
    **options: Any,
) -> Any:
    """Returns the scores of responses, higher = more faithful, a row for each response.

    Args:
      groundings: for each response: a text, several, or a text or several by perspective, such as
        {"pro": […], "con": […]}. Without `responses`, a table that has both (a pandas or Polars
        frame, an Arrow table, mappings), or `GroundedExample`s.
      responses: as many as groundings. None, NaN and NA count as empty texts in both.
      scorers: names of scorers, or a mapping from names to options; "NAME=SCORER" names the column.
      histories: for each response, the turns before it, oldest first, or a single turn.
      labels: for each response, 1 = faithful, 0 = unfaithful, None = unknown.
      columns: the names of a table's columns, by content: grounding, response, history or label;
        default: the usual names that `faith-jax score` knows.
      **options: options of scorers, such as model="checkpoints/nli"; each scorer takes its own.

    Returns:
      For a pandas or Arrow table, the same table with a further column for each scorer. Otherwise a
      pandas DataFrame, with the index of the texts if they are Series; its columns are `grounding`,
      `response`, `history` and `label` if given (or those of the table), and one for each scorer.
      Undefined scores, such as that of an empty response, are NaN. A warning says how many there
      are and why, and how many inputs were cut.

    Raises:
      ConfigError: for an unknown scorer, an option that no scorer has, or a wrong value.
      InputError: for a row of a table without a grounding or a response; it names the row.
      ValueError: for lengths or indexes that differ, or arguments that are not texts.

    Examples:
      >>> rows = score(["Tea is hot."], ["The tea is hot!"], scorers=["token_f1"])
      >>> print(rows["token_f1"][0])
      1.0
    """
    loaded = _load_scorers(scorers, options)
    # The arguments are read more than once, which iterators do not allow.
    arguments: list[Any] = [groundings, responses, histories, labels]
    groundings, responses, histories, labels = (
        list(values) if isinstance(values, Iterator) else values for values in arguments
    )
    if responses is None:
        for name, values in {"histories": histories, "labels": labels}.items():
            if values is not None:
                raise ValueError(f"{name}: a table has them in a column; leave them out.")
        is_sequence = isinstance(groundings, list | tuple)
        if is_sequence and isinstance(next(iter(groundings), None), GroundedExample):
            examples = groundings
            groundings = [
                {**dataclasses.asdict(example), **dataclasses.asdict(example.grounding)}
                for example in examples
            ]
        else:
            examples = [row.example for row in table_examples(groundings, columns or {})]
        with sharing_programs():
            scores = {name: scorer.score(examples) for name, scorer in loaded.items()}
        return with_columns(groundings, _collect_score_values(scores))
    check_is_no_table(groundings)
    if columns is not None:
        raise ValueError("columns: name those of a table; leave out responses.")
    if labels is not None and len(labels) != len(responses):
        raise ValueError(f"{len(responses)} responses, {len(labels)} labels.")
    texts: dict[str, Any] = {"groundings": groundings, "responses": responses}
    texts |= {"histories": histories, "labels": labels}
    # If arguments are Series, their indexes must be equal.
    indexes = {name: series.index for name, series in texts.items() if hasattr(series, "iloc")}
    first, index = next(iter(indexes.items()), ("", None))
    for name, other in indexes.items():
        if not other.equals(index):
            raise ValueError(
                f"{first} and {name} have different indexes, so that it is unclear which belong "
                f"together; give {name}.reindex({first}.index), or lists."
            )
    groundings, responses, histories, labels = map(
        _as_list, (groundings, responses, histories, labels)
    )
    groundings = _with_lists(groundings, "grounding")
    histories = None if histories is None else _with_lists(histories, "history")
    table: dict[str, Sequence[Any]] = {"grounding": groundings, "response": responses}
    table |= {} if histories is None else {"history": histories}
    table |= {} if labels is None else {"label": labels}
    filled = _fill_missing(groundings, ()), _fill_missing(responses, "")
    turns = None if histories is None else _fill_missing(histories, ())
    with sharing_programs():
        scores = {name: scorer.score(*filled, turns) for name, scorer in loaded.items()}
    table |= _collect_score_values(scores)
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    return as_frame(rows, list(table), index)


def check_is_no_table(groundings: Any) -> None:
    """Raises ValueError if groundings that come with responses are a table."""
    if isinstance(groundings, Mapping) or hasattr(groundings, "columns"):
        raise ValueError(
            "responses: a table has them in a column; leave them out, or give one column of it."
        )


def _collect_score_values(scores: Mapping[str, Sequence[Score]]) -> dict[str, list[float]]:
    """Returns the values of scores by scorer; warns of equal and undefined ones, and of cuts."""
    warn_of_undefined_and_cut(scores)
    values = {name: [score.value for score in column] for name, column in scores.items()}
    for name, column in values.items():
        if defined := [value for value in column if not math.isnan(value)]:
            warn_of_equal_scores(name, ScoreRange(len(defined), min(defined), max(defined)))
    return values


def warn_of_undefined_and_cut(scores: Mapping[str, Sequence[Score]]) -> None:
    """Logs how many scores of each scorer are undefined, and why, and how many inputs were cut."""
    for name, column in scores.items():
        counts = ScoreCounts()
        counts.add_scores(name, column)
        for line in counts.lines(pluralize(len(column), "row")):
            logger.warning("%s", line)


def _as_list(values: Any) -> Any:
    """Returns a Series or an array as a list, converting arrays within it too."""
    if not hasattr(values, "tolist"):
        return values
    return [value.tolist() if hasattr(value, "tolist") else value for value in values.tolist()]


def _fill_missing(values: Sequence[Any], empty: Any) -> Sequence[Any]:
    """Returns values with missing ones replaced by `empty`."""
    if isinstance(values, str):  # the scorers refuse it
        return values
    return [empty if is_missing(value) else value for value in values]


def _with_lists(texts: Sequence[Any], name: str) -> Sequence[Any]:
    """Returns texts, parsing those that are printed lists, as in a CSV file of pandas."""
    if isinstance(texts, str):  # the scorers refuse it
        return texts
    notes = TableNotes()
    lists = ListColumns(notes, lambda: [name] if any(map(is_plain_text, texts)) else [])
    read = [lists.read(name, text, f"row {number}") for number, text in enumerate(texts)]
    _log_warnings(notes)
    return read


def _log_warnings(notes: TableNotes) -> None:
    for warning in notes.report()["warnings"]:
        logger.warning("%s", _name_arguments(warning))


def _name_arguments(message: str) -> str:
    """Returns a message with the command's options replaced by arguments of `score`."""
    return _OPTION.sub(r'columns={"\1": "\2"}', message)


def as_frame(rows: list[dict[str, Any]], names: list[str], index: Any = None) -> Any:
    """Returns rows as a pandas DataFrame."""
    import pandas  # slow to import

    return pandas.DataFrame(rows, columns=names, index=index)


def named_columns(columns: Mapping[str, str]) -> dict[str, Any]:
    """Returns arguments of `Columns` from names of columns by part.

    Raises:
      ValueError: a part is not grounding, response, history or label.
    """
    for part in columns:
        if part not in _PARTS:
            hint = did_you_mean(part, _PARTS)
            raise ValueError(f"columns: expected {', '.join(_PARTS)}, got {part!r}.{hint}")
    # Names of pandas may be numbers.
    return {f"{part}_column": str(name) for part, name in columns.items()}


class _TableColumns(Columns):
    label_remedy: ClassVar[str] = "write one of these in the table"
    # A retriever may find nothing for some rows; their scores are then undefined.
    accepts_empty: ClassVar[bool] = True


def table_examples(table: Any, columns: Mapping[str, str]) -> list[ExampleRow]:
    """Returns the examples of a table; `columns` is as in `score`.

    Raises:
      InputError: for a row without a response, or a table without a column known to hold the
        grounding or the response.
      ValueError: for a key of `columns` that is not a part of an example.
    """
    named = named_columns(columns)
    layout = _TableColumns(id_column="", corpus_column="", **{"label_column": "", **named})
    notes = TableNotes()
    try:
        read = frame_rows(table)
        find_text_columns = functools.partial(text_columns, read, layout.named_texts)
        rows = list(
            example_rows(read, layout, "table", notes=notes, find_text_columns=find_text_columns)
        )
    except InputError as error:
        raise InputError(_name_arguments(str(error))) from None
    _log_warnings(notes)
    return rows


def with_columns(table: Any, values: Mapping[str, list[Any]]) -> Any:
    """Returns a table with further columns, in the form that `score` returns."""
    if hasattr(table, "assign"):  # pandas
        return table.assign(**values)
    if hasattr(table, "append_column"):  # Arrow
        for name, column in values.items():
            place = table.schema.get_field_index(name)
            if place < 0:
                table = table.append_column(name, [column])
            else:
                table = table.set_column(place, name, [column])
        return table
    rows = [
        dict(row.fields) | {name: column[number] for name, column in values.items()}
        for number, row in enumerate(frame_rows(table))
    ]
    names = [*(name for row in rows for name in row), *values]
    return as_frame(rows, list(dict.fromkeys(names)))


def check_names(scorers: Any) -> None:
    """Raises ConfigError unless scorers are a list of names, or options by name."""
    if isinstance(scorers, str) or not all(isinstance(name, str) for name in scorers):
        raise ConfigError(
            f"scorers: expected a list of names, such as ['token_f1'], got {scorers!r}."
        )


def check_options(options: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raises ConfigError for an unknown option, which may be a misspelt argument."""
    for option in options:
        if option not in names:
            arguments = ("groundings", "responses", "scorers", "histories", "columns")
            hint = did_you_mean(option, [*names, *arguments])
            choices = f" There are: {', '.join(dict.fromkeys(names))}." if names else ""
            raise ConfigError(f"no scorer has an option {option!r}.{hint}{choices}")


def _load_scorers(
    scorers: Sequence[str] | Mapping[str, Mapping[str, Any]], options: Mapping[str, Any]
) -> dict[str, BaseScorer]:
    check_names(scorers)
    if not scorers:
        raise ConfigError("scorers: name at least one scorer.")
    options_by_name = scorers if isinstance(scorers, Mapping) else {name: {} for name in scorers}
    option_names = {name: scorer_options(split_scorer_name(name)[1]) for name in options_by_name}
    check_options(options, [name for names in option_names.values() for name in names])
    loaded: dict[str, BaseScorer] = {}
    for name, own_options in options_by_name.items():
        shared = {key: value for key, value in options.items() if key in option_names[name]}
        title, scorer = split_scorer_name(name)
        if title in loaded:
            raise ConfigError(f"scorers: {title!r} is given twice; rename one as NAME=SCORER.")
        if title in _PARTS:
            raise ConfigError(f"scorers: {title!r} is a column of the result; take another name.")
        loaded[title] = load_scorer(scorer, **{**shared, **own_options})
    return loaded
