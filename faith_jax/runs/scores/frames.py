"""Evaluates, compares and reports scores in data frames, such as `faith_jax.score` returns.

Frames of pandas, Polars and Arrow, lists of mappings and mappings of columns are read like files of
`faith-jax score`, so that the figures equal those of the commands `evaluate` and `report`.
"""

import dataclasses
import functools
import html
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from faith_jax.core.errors import ConfigError, InputError, did_you_mean, reason
from faith_jax.datasets.grounded_rows import cell_text, text_columns
from faith_jax.datasets.tables import frame_rows
from faith_jax.export.read_scored import ScoredColumns, score_columns, scored_fields
from faith_jax.runs.options import EvaluateOptions, ReportOptions
from faith_jax.runs.scores.evaluate_scores import evaluation
from faith_jax.runs.scores.score_frames import as_frame, check_names, named_columns

_Options = TypeVar("_Options", EvaluateOptions, ReportOptions)


def evaluate(
    frame: Any,
    scorers: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    **options: Any,
) -> Any:
    """Returns how well scores tell faithful responses from others, or their means without labels.

    Args:
      frame: a row for each response: its scores and, where known, its label (1 = faithful), its
        texts and other columns.
      scorers: the columns of scores; default: all columns that have the name of a scorer.
      columns: the names of other columns by content, see `faith_jax.score`.
      **options: options of `faith-jax evaluate`, such as baseline="token_f1",
        cluster_field="grounding" or protocol="begin".

    Returns:
      A frame of the figures: a pandas DataFrame, whose `attrs` have the `title` and the `notes` of
      the printed table, which notebooks show too.

    Raises:
      ConfigError: for wrong options, or if no column has the name of a scorer.
      InputError: for an invalid score, label or text; it names the row.
    """
    return _evaluate_frames({"frame": frame}, scorers, columns, options)


def compare(
    first: Any,
    second: Any,
    *further_frames: Any,
    names: Sequence[str] = ("a", "b"),
    scorers: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    **options: Any,
) -> Any:
    """Returns which of several systems is better: means, differences, intervals and p-values.

    Rows of the frames are matched by their column `id` or the frames' index. Differences are from
    the first system, unless `baseline` names another, on the rows that both systems have.

    Args:
      first: the responses and scores of a system, as for `evaluate`.
      second: those of another system.
      *further_frames: those of more systems.
      names: the names of the systems.
      scorers: as for `evaluate`.
      columns: as for `evaluate`.
      **options: options of `faith-jax evaluate --protocol=systems`.

    Returns:
      A frame like that of `evaluate`; its notes begin with the verdict in words.

    Raises:
      ConfigError: as `evaluate`, or if there is not one distinct name per frame.
      InputError: as `evaluate`, or if the frames have no rows in common.
    """
    frames = (first, second, *further_frames)
    if len(names) != len(frames) or len(set(names)) < len(names):
        raise ConfigError(f"names: expected {len(frames)} different ones, got {', '.join(names)}.")
    systems = dict(zip(names, frames, strict=True))
    return _evaluate_frames(systems, scorers, columns, {"protocol": "systems", **options})


def write_report(
    frames: Any,
    output: str,
    scorers: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    **options: Any,
) -> str:
    """Writes scores and texts as one HTML page, as `faith-jax report` does.

    Args:
      frames: a frame as for `evaluate`, or a mapping from names of systems to frames.
      output: the path of the page.
      scorers: as for `evaluate`.
      columns: as for `evaluate`.
      **options: options of `faith-jax report`, such as title="Tuesday's answers".

    Returns:
      The path of the page.

    Raises:
      FaithJaxError: as `evaluate`, or if the page cannot be written.
    """
    from faith_jax.runs.scores.report import report

    several = isinstance(frames, Mapping) and all(map(_is_table, frames.values()))
    systems = frames if several else {"frame": frames}
    with tempfile.TemporaryDirectory() as folder:
        files = _write_frames(systems, scorers, columns or {}, pathlib.Path(folder), compared=False)
        named = {"title": " and ".join(systems), "scorers": tuple(scorers), **options}
        return str(report(_make_options(ReportOptions, files, output=output, **named)))


def _is_table(value: Any) -> bool:
    is_records = isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)
    return is_records or isinstance(value, Mapping) or hasattr(value, "columns")


def _evaluate_frames(
    systems: Mapping[str, Any],
    scorers: Sequence[str],
    columns: Mapping[str, str] | None,
    options: Mapping[str, Any],
) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        files = _write_frames(systems, scorers, columns or {}, pathlib.Path(folder), compared=True)
        evaluate_options = _make_options(EvaluateOptions, scorers=tuple(scorers), **options)
        table = evaluation(files, evaluate_options).table
    frame = as_frame(table.records(), list((table.tidy or table).columns))
    # Printed tables have per cent where the frame, like their JSON, has shares.
    title = table.title.replace(" in per cent", "")
    frame.attrs |= {"title": title, "notes": list(table.notes)}
    # Only for this frame: frames that pandas derives from it, such as slices, show no notes.
    frame._repr_html_ = functools.partial(_show_with_notes, frame)
    return frame


def _make_options(kind: type[_Options], *arguments: Any, **options: Any) -> _Options:
    """Returns the options of a command; raises ConfigError for an unknown or mistyped one."""
    names = [field.name for field in dataclasses.fields(kind)]
    for name in options:
        if name not in names:
            raise ConfigError(f"there is no option {name!r}.{did_you_mean(name, names)}")
    for field in dataclasses.fields(kind):
        value = options.get(field.name)
        if isinstance(value, str) and isinstance(field.default, tuple):
            options[field.name] = (value,)  # a single one of a repeatable option
        elif isinstance(field.default, str) and not isinstance(value, str | os.PathLike | None):
            raise ConfigError(f"{field.name}: expected a text, got a {type(value).__name__}.")
    try:
        return kind(*arguments, **options)
    except TypeError as error:
        raise ConfigError(f"an option has a value of a wrong type: {reason(error)}.") from None


def _show_with_notes(frame: Any) -> str:
    """Returns a pandas frame between its title and its notes, as HTML for notebooks."""
    title, *notes = (html.escape(text) for text in (frame.attrs["title"], *frame.attrs["notes"]))
    note_items = "".join(f"<li>{note}</li>" for note in notes)
    return f"<p><b>{title}</b></p>{type(frame)._repr_html_(frame)}<ul>{note_items}</ul>"


def _write_frames(
    systems: Mapping[str, Any],
    scorers: Sequence[str],
    columns: Mapping[str, str],
    folder: pathlib.Path,
    compared: bool,
) -> tuple[str, ...]:
    """Writes each frame as a file of scored rows, named after its system; returns the files.

    Frames that are `compared` must have rows in common.
    """
    check_names(scorers)
    files, ids = [], dict[str, dict[str, None]]()
    for name, frame in systems.items():
        if not name or {"/", "\\"} & set(name):
            raise ConfigError(
                f"names: expected the name of a system without slashes, got {name!r}."
            )
        path = folder / f"{name}.jsonl"
        with path.open("wb") as file:
            for row in _scored_rows(name, frame, scorers, columns):
                ids.setdefault(name, {})[row["id"]] = None
                file.write(msgspec.json.encode(row) + b"\n")
        files.append(str(path))
    first, *rest = ids
    for second in rest if compared else ():
        if ids[first].keys().isdisjoint(ids[second]):
            raise InputError(
                f"{first} and {second} have no rows in common: their first ids are "
                f"{next(iter(ids[first]))!r} and {next(iter(ids[second]))!r}; give both the same "
                "index, or a column 'id'."
            )
    return tuple(files)


def _scored_rows(
    name: str, frame: Any, scorers: Sequence[str], columns: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    rows = frame_rows(frame, name)
    if not rows:
        raise InputError(f"{name}: the frame has no rows.")
    index = getattr(frame, "index", None)
    if index is not None and hasattr(frame, "iloc"):
        # Labels become ids: 1.0 becomes "1", and other labels are printed.
        ids = [
            (isinstance(label, float) and cell_text(label, row.place, "index")) or str(label)
            for row, label in zip(rows, index.tolist(), strict=True)
        ]
        rows = [
            row._replace(fields={"id": name, **row.fields})
            for row, name in zip(rows, ids, strict=True)
        ]
    fields = list(rows[0].fields)
    scorer_names = list(scorers) or score_columns(fields, ())
    for scorer in scorer_names:
        if scorer not in fields:
            hint = did_you_mean(scorer, fields)
            raise ConfigError(f"scorers: {name} has no column {scorer!r}.{hint}")
    if not scorer_names:
        raise ConfigError(
            f"scorers: no column of {name} is named as a scorer; say which ones are scores. Its "
            f"columns: {', '.join(fields)}."
        )
    layout = ScoredColumns(**named_columns(columns))
    find_text_columns = functools.partial(text_columns, rows, layout.named_texts)
    for row in scored_fields(rows, scorer_names, layout, "", find_text_columns=find_text_columns):
        # Rows without a corpus are of the corpus that the file names.
        yield {key: value for key, value in row.fields.items() if key != "corpus" or value}
