"""Tables of scorers: the data of a paper's table, scored by any scorers and evaluated.

The tables and the papers' figures are in reproduce.json. Nothing is trained here and most scorers
need no model, so one process does it all: a workflow would start one for each data set.
"""

import dataclasses
import json
import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from faith_jax.core.errors import InputError
from faith_jax.core.files import check_settings, working_folder, write_json
from faith_jax.core.table import Table
from faith_jax.input.score_input import ScoreInput
from faith_jax.report.table_pages import rendered
from faith_jax.reproduce.options import ScorerTable
from faith_jax.reproduce.scorers import NEEDS_SPACY, as_published, difference, is_missing
from faith_jax.runs.options import scorer_options
from faith_jax.runs.scores.evaluate_scores import (
    EvaluateOptions,
    Evaluation,
    evaluation,
    write_evaluation,
)
from faith_jax.runs.scores.score import score
from faith_jax.scoring.registry import check_scorer

logger = logging.getLogger("faith_jax")

ENDINGS = {"markdown": "md", "latex": "tex", "csv": "csv"}
# Begin's development split, on which thresholds are chosen.
_DEVELOPMENT = "validation"


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A table's data, scorers and evaluation, and the paper's figures of it.

    Attributes:
      title: which table it is.
      data: the data set.
      corpora: its configs; those of the sample are `sample` of one, `…_sample` of several.
      scorers: those that need no model; others by option.
      options: of the evaluation.
      note: which table the paper's figures stand in, and what to know when comparing.
      splits: of the data set.
      columns: of the paper's figures.
      published: the first cells of our row (such as the scorer), and the paper's figures of it.
    """

    title: str
    data: str
    corpora: Sequence[str]
    scorers: Sequence[str]
    options: Mapping[str, Any]
    note: str
    splits: Sequence[str] = ("test",)
    columns: Sequence[str] = ()
    published: Sequence[Sequence[Any]] = ()

    def inputs(self, sample: bool) -> list[ScoreInput]:
        """Returns the data to score, a file each."""
        names = list(self.corpora)
        if sample:
            names = [f"{name}_sample" for name in names] if len(names) > 1 else ["sample"]
        return [
            ScoreInput(tfds=(f"{self.data}/{name}",), split=split)
            for name in names
            for split in self.splits
        ]

    def figures(self) -> dict[tuple[str, ...], dict[str, float]]:
        """Returns the paper's figures by the first cells of our row, and by column."""
        by_row = {}
        for row in self.published:
            *key, values = row[: -len(self.columns)], row[-len(self.columns) :]
            pairs = zip(self.columns, values, strict=True)
            by_row[tuple(key[0])] = {column: value for column, value in pairs if value is not None}
        return by_row


RECIPES = {
    name: Recipe(**recipe)
    for name, recipe in json.loads(
        pathlib.Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    ).items()
}


def make_table(options: ScorerTable) -> str:
    """Scores what a table needs, evaluates it, and returns the table as text.

    The folder gets a scored file for each data set, which a further run with the same scorers
    keeps, and the table as TABLE.md, .tex, .csv and .json, or TABLE_sample. Figures that the paper
    prints for the same scorers stand below ours, unless these are of samples, or of options that
    make them other functions. Data sets without raw files at hand are left out with a warning.

    Raises:
      FaithJaxError: for an unknown scorer, and where no data is at hand.
    """
    scorers = scorer_options(
        options.scorers or RECIPES[options.name].scorers, options.scorer_option
    )
    for scorer, its_options in scorers.items():
        check_scorer(scorer.rpartition("=")[2], its_options)
    with working_folder(options.output) as (folder, _):
        return _recipe_table(options, scorers, folder)


def _recipe_table(
    options: ScorerTable, scorers: Mapping[str, Mapping[str, Any]], folder: pathlib.Path
) -> str:
    name, sample = options.name, options.sample
    recipe = RECIPES[name]
    left_out = (
        [] if options.scorers else [scorer for scorer in recipe.scorers if is_missing(scorer)]
    )
    chosen = {
        scorer: dict(its_options)
        for scorer, its_options in scorers.items()
        if scorer not in left_out
    }
    if name == "begin":
        chosen = as_published(chosen)
    result = _score_and_evaluate(recipe, folder, chosen, sample)
    missing_notes = tuple(f"{scorer} is left out: it needs {NEEDS_SPACY}." for scorer in left_out)
    shown = result.table._replace(notes=(*result.table.notes, *missing_notes))
    if sample:
        shown = shown._replace(title=f"SAMPLES, not the paper's data: {shown.title}")
        figures = {"sample": True, **result.figures}
    else:
        note, published = comparable(recipe, chosen)
        rows = [{"row": list(key), **values} for key, values in published.items()]
        shown = with_published(shown, note, published)
        more = {"sample": False, "published": {"note": note, "rows": rows}}
        figures = {**result.figures, **more}
    result = dataclasses.replace(result, table=shown, figures=figures)
    path = folder / (f"{name}_sample" if sample else name)
    tables = {form: f"{path}.{ending}" for form, ending in ENDINGS.items()}
    write_evaluation(result, f"{path}.json", tables)
    return rendered(result.table)


def _score_and_evaluate(
    recipe: Recipe, folder: pathlib.Path, scorers: Mapping[str, Mapping[str, Any]], sample: bool
) -> Evaluation:
    """Scores and evaluates the data that is at hand.

    Raises:
      InputError: where there is none, or not all that the protocol needs.
    """
    files: dict[str, list[str]] = {split: [] for split in recipe.splits}
    problems = []
    for score_input in recipe.inputs(sample):
        path = folder / f"{score_input.source.replace('/', '_')}_{score_input.split}.jsonl"
        try:
            _score(score_input, scorers, path)
        except InputError as problem:
            reason = str(problem).partition(". ")[0]
            message = "%s is left out: %s; `faith-jax prepare %s` says more"
            logger.warning(message, path.stem, reason, score_input.source)
            problems.append(problem)
            continue
        files[score_input.split].append(str(path))
    if not all(files.values()):
        raise problems[0]
    options = {
        name: value
        for name, value in recipe.options.items()
        if name != "baseline" or value in scorers
    }
    if _DEVELOPMENT in files:
        options["development"] = files[_DEVELOPMENT][0]
    return evaluation(files["test"], EvaluateOptions(**options))


def _score(
    score_input: ScoreInput, scorers: Mapping[str, Mapping[str, Any]], path: pathlib.Path
) -> None:
    """Scores a data set, unless the file has it already by the same scorers.

    Raises:
      FaithJaxError: for a file by others, and what `score` raises.
    """
    noted = path.with_suffix(".settings.json")
    options_by_scorer = {f"scorer-option of {name}": options for name, options in scorers.items()}
    settings = {"scorers": sorted(scorers), **options_by_scorer}
    if path.exists():
        check_settings(noted, settings, path.name)
        logger.info("%s is kept", path)
        return
    write_json(noted, settings)  # before: no kill leaves a file without its settings
    score(score_input, scorers, str(path))


Figures = Mapping[tuple[str, ...], Mapping[str, float]]


def comparable(recipe: Recipe, scorers: Mapping[str, Mapping[str, Any]]) -> tuple[str, Figures]:
    """Returns a note and the paper's figures of the scorers that have the paper's options."""
    figures = recipe.figures()
    why = {name: difference(name, its_options) for name, its_options in scorers.items()}
    hidden = [f"Not beside {key[-1]}: {why[key[-1]]}." for key in figures if why.get(key[-1])]
    shown = {key: row for key, row in figures.items() if not why.get(key[-1])}
    return " ".join([recipe.note, *hidden]), shown


def with_published(table: Table, note: str, figures: Figures) -> Table:
    """Returns the table with a row of published figures below each of ours that has some.

    Args:
      table: ours; its tidy form must have our row's first cells, the column, and the value as a
        share.
      note: on the figures.
      figures: by our row's first cells, and by column; columns that our table lacks are added.
    """
    size = len(next(iter(figures), ()))
    shown = {row[:size]: figures.get(row[:size], {}) for row in table.rows}
    more = [name for values in shown.values() for name in values if name not in table.columns]
    columns = (*table.columns, *dict.fromkeys(more))
    rows, tidy = [], list(table.tidy.rows if table.tidy else ())
    for row in table.rows:
        rows.append((*row, *(None,) * (len(columns) - len(row))))
        if not (values := shown[row[:size]]):
            continue
        name = (*row[: size - 1], f"{row[size - 1]} (published)")
        cells: list[Any] = [values.get(column) for column in columns[size:]]
        if isinstance(row[-1], str):  # ours have intervals
            cells = [None if value is None else f"{value:.1f}" for value in cells]
        rows.append((*name, *cells))
        if table.tidy:
            empty = (None,) * (len(table.tidy.columns) - size - 2)
            tidy += [(*name, column, value / 100, *empty) for column, value in values.items()]
    tidied = table.tidy and table.tidy._replace(rows=tuple(tidy))
    return Table(table.title, columns, tuple(rows), (*table.notes, note), tidied)
