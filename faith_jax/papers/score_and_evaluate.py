"""Tables of scorers: the data of a paper's table, scored by any scorers and evaluated.

Nothing is trained here and most scorers need no model, so a single process is enough: a workflow
would start a process for each data set.
"""

import dataclasses
import logging
import pathlib
from collections.abc import Mapping
from typing import Any

from faith_jax.core.errors import InputError
from faith_jax.core.files import check_settings, working_folder, write_json
from faith_jax.core.table import Table
from faith_jax.input.score_input import ScoreInput
from faith_jax.papers.judges import NEEDS_SPACY, difference, is_missing
from faith_jax.papers.options import ScorerTableOptions
from faith_jax.papers.tables import ScorerTable
from faith_jax.report.table_pages import render_table
from faith_jax.runs.options import ScoreOptions, scorer_options, split_scorer_name
from faith_jax.runs.scores.evaluate_scores import (
    EvaluateOptions,
    Evaluation,
    evaluation,
    write_evaluation,
)
from faith_jax.runs.scores.score import score
from faith_jax.scoring.registry import check_scorer
from faith_jax.statistics.scored_corpora import AVERAGE

logger = logging.getLogger("faith_jax")

ENDINGS = {"markdown": "md", "latex": "tex", "csv": "csv"}
# BEGIN's development split, on which thresholds are chosen.
_DEVELOPMENT = "validation"


def make_table(table: ScorerTable, options: ScorerTableOptions) -> str:
    """Scores the data that a table needs, evaluates it, and returns the table as text.

    Already scored files (`options.scored`) are evaluated instead of the table's data. Otherwise,
    the folder gets a scored file for each data set, which later runs with the same scorers keep.
    The table is written as TABLE.md, .tex, .csv and .json, or TABLE_sample. The paper's figures for
    the same scorers are shown below ours, except for samples, or if options change what scorers
    compute. Data sets without available raw files are left out with a warning.

    Raises:
      FaithJaxError: on an unknown scorer, and if no data is available.
    """
    scorers: dict[str, Mapping[str, Any]] = {}
    left_out: list[str] = []
    if not options.scored:
        requested = scorer_options(options.scorers or table.scorers, options.scorer_option)
        for scorer, its_options in requested.items():
            check_scorer(split_scorer_name(scorer)[1], its_options)
        left_out = [] if options.scorers else [name for name in requested if is_missing(name)]
        scorers = {
            scorer: {**table.defaults.get(scorer, {}), **its_options}
            for scorer, its_options in requested.items()
            if scorer not in left_out
        }
    missing_notes = tuple(f"{scorer} is left out: it needs {NEEDS_SPACY}." for scorer in left_out)
    with working_folder(options.output) as (folder, _):
        if options.scored:
            result = _evaluate_scored(table, options)
            systems = {scorer for corpus in result.corpora.values() for scorer in corpus.scores}
            scorers = {scorer: table.defaults.get(scorer, {}) for scorer in sorted(systems)}
        else:
            result = _score_and_evaluate(table, options, folder, scorers)
        source = table.title.partition(":")[0]
        title = f"{table.title}: {result.table.title.removesuffix(f' ({source})')}"
        final = result.table._replace(title=title, notes=(*result.table.notes, *missing_notes))
        path = folder / options.file_name
        if options.sample:
            path = folder / f"{options.file_name}_sample"
            final = final._replace(title=f"SAMPLES, not the paper's data: {title}")
            figures = {"sample": True, **result.figures}
        else:
            note, published = comparable(table, scorers)
            rows = [{"row": list(key), **values} for key, values in published.items()]
            final = with_published(final, note, published, table.shows_all)
            more = {"sample": False, "published": {"note": note, "rows": rows}}
            figures = {**result.figures, **more}
        result = dataclasses.replace(result, table=final, figures=figures)
        tables = {form: f"{path}.{ending}" for form, ending in ENDINGS.items()}
        write_evaluation(result, f"{path}.json", tables)
        return "\n".join(render_table(part) for part in (result.table, *result.further))


def _score_and_evaluate(
    table: ScorerTable,
    options: ScorerTableOptions,
    folder: pathlib.Path,
    scorers: Mapping[str, Mapping[str, Any]],
) -> Evaluation:
    """Scores and evaluates the available data.

    Raises:
      InputError: if there is none, or the protocol needs a split that is missing.
    """
    files: dict[str, list[str]] = {split: [] for split in table.splits}
    problems = []
    for data_set, split in table.data_sets(options.sample):
        score_input = ScoreInput(tfds=(data_set,), split=split)
        path = folder / f"{score_input.source.replace('/', '_')}_{score_input.split}.jsonl"
        try:
            _ensure_scored(score_input, scorers, path)
        except InputError as problem:
            reason = str(problem).partition(". ")[0]
            message = "%s is left out: %s; `faith-jax prepare %s` says more"
            logger.warning(message, path.stem, reason, score_input.source)
            problems.append(problem)
            continue
        files[score_input.split].append(str(path))
    if not all(files.values()):
        raise problems[0]
    settings = {
        name: value
        for name, value in table.options.items()
        if name != "baseline" or value in scorers
    }
    if _DEVELOPMENT in files:
        settings["development"] = files[_DEVELOPMENT][0]
    return evaluation(files["test"], EvaluateOptions(undefined=options.undefined, **settings))


def _evaluate_scored(table: ScorerTable, options: ScorerTableOptions) -> Evaluation:
    """Evaluates files that are already scored like the table's data."""
    settings = {name: value for name, value in table.options.items() if name != "baseline"}
    for name in ("scorers", "development", "cluster_field", "slice_field", "undefined"):
        if getattr(options, name) != getattr(ScorerTableOptions, name):
            settings[name] = getattr(options, name)
    return evaluation(options.scored, EvaluateOptions(**settings))


def _ensure_scored(
    score_input: ScoreInput, scorers: Mapping[str, Mapping[str, Any]], path: pathlib.Path
) -> None:
    """Scores a data set, unless the file already has scores by the same scorers.

    Raises:
      FaithJaxError: on a file with scores by others, and the errors of `score`.
    """
    noted = path.with_suffix(".settings.json")
    options_by_scorer = {f"scorer-option of {name}": options for name, options in scorers.items()}
    settings = {"scorers": sorted(scorers), **options_by_scorer}
    if path.exists():
        check_settings(noted, settings, path.name)
        logger.info("%s is kept", path)
        return
    write_json(noted, settings)  # written first, so that a kill leaves no file without settings
    score(score_input, scorers, ScoreOptions(output=str(path)))


Figures = Mapping[tuple[str, ...], Mapping[str, float]]


def comparable(table: ScorerTable, scorers: Mapping[str, Mapping[str, Any]]) -> tuple[str, Figures]:
    """Returns a note, and the paper's figures for scorers with the paper's options."""
    figures = table.figures()
    why = {name: difference(name, its_options) for name, its_options in scorers.items()}
    hidden = [f"Not beside {key[-1]}: {why[key[-1]]}." for key in figures if why.get(key[-1])]
    comparable_rows = {key: row for key, row in figures.items() if not why.get(key[-1])}
    return " ".join([table.note, *hidden]), comparable_rows


def with_published(table: Table, note: str, figures: Figures, shows_all: bool = False) -> Table:
    """Returns the table with a row of published figures below each row that has some.

    Args:
      table: our table; its tidy form must start with a row's first cells, the column, and the value
        as a share.
      note: a note on the figures.
      figures: by the first cells of our row, and by column; columns that our table lacks are added.
      shows_all: add figures for other rows than ours at the end.
    """
    size = len(next(iter(figures), ()))
    # Match column names whatever their case.
    names = {name.casefold(): name for values in figures.values() for name in values}
    table = table._replace(columns=tuple(names.get(c.casefold(), c) for c in table.columns))
    ours = [(row[:size], row) for row in table.rows]
    others = [key for key in figures if key not in dict(ours)] if shows_all else []
    paper = {key: figures.get(key, {}) for key in (*dict(ours), *others)}
    more = [name for values in paper.values() for name in values if name not in table.columns]
    columns = (*table.columns, *dict.fromkeys(more))
    has_intervals = any(isinstance(cell, str) for _, row in ours for cell in row[size:])
    rows, tidy = [], list(table.tidy.rows if table.tidy else ())
    for key, row in (*ours, *((key, None) for key in others)):
        if row is not None:
            rows.append((*row, *(None,) * (len(columns) - len(row))))
        if not (values := paper[key]):
            continue
        name = (*key[:-1], f"{key[-1]} (published)")
        cells: list[Any] = [values.get(column) for column in columns[size:]]
        if has_intervals:
            cells = [None if value is None else f"{value:.1f}" for value in cells]
        rows.append((*name, *cells))
        if table.tidy:
            empty = (None,) * (len(table.tidy.columns) - size - 2)
            tidy += [(*name, column, value / 100, *empty) for column, value in values.items()]
    absent = [name for name in dict.fromkeys(more) if name != AVERAGE]
    if absent and not set(table.columns) & {name for row in figures.values() for name in row}:
        note = (
            f"No part of ours is one that published figures are of ({', '.join(absent)}): "
            "--slice-field=NAME, the column 'corpus' or the file's name says which part rows are "
            f"of. {note}"
        )
    elif absent and AVERAGE in table.columns:
        note = (
            f"Averages of ours are without {', '.join(absent)}; published ones are of all. {note}"
        )
    tidied = table.tidy and table.tidy._replace(rows=tuple(tidy))
    return Table(table.title, columns, tuple(rows), (*table.notes, note), tidied)
