"""The run `evaluate`: tables and pictures of scored files."""

import dataclasses
import functools
import json
import math
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from faith_jax.core.errors import ConfigError, FaithJaxError, InputError
from faith_jax.core.fields import optional_text, text_field
from faith_jax.core.outputs import check_endings, check_outputs, write_text
from faith_jax.core.rows import read_jsonl
from faith_jax.core.table import Table
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.report import figures
from faith_jax.report.tables import rendered
from faith_jax.scoring.registry import scorer_card, scorer_names
from faith_jax.statistics import protocols
from faith_jax.statistics.auc_table import auc_figures, auc_rows, auc_table, npov_figures, npov_rows
from faith_jax.statistics.npov_detection import npov_cells, without_spans
from faith_jax.statistics.protocols import AccuracyLayout
from faith_jax.statistics.scored_corpora import (
    Corpus,
    Range,
    check_usable,
    chosen_scorers,
    few_rows,
    read_corpora,
    row_notes,
    with_ensembles,
)
from faith_jax.statistics.systems import Column, Layout, systems_table

_Layout = TypeVar("_Layout")
# Protocols with intervals, which depend on the seed.
_RESAMPLED = ("accuracy", "auc", "npov", "npov_words", "systems")


@dataclasses.dataclass(frozen=True)
class EvaluateOptions:
    """How scored files are evaluated.

    Attributes:
      protocol: "auc" (a table of ROC AUC by corpus), "begin" (Nandwani 2023, table 1),
        "pronouns" (Steen 2023, table 3), "npov" and "npov_words" (Chang 2024, tables 1
        and 3), "systems" (mean scores of systems on the same rows), "accuracy" (how often scores of
        at least 0.5 are right), or "dialfact" (Gupta 2022, section 5.3, for which the files are
        predictions of `t5x infer`).
      development: for "begin", the scored development part.
      group_field: for "begin", the field that parts the test rows; "" = none.
      baseline: for "auc", the scorer that others are compared with; for "systems", the system.
      compare: for "systems", by system the one that it is compared with, in place of `baseline`.
      table: for "systems" and "accuracy", a JSON file of columns and published figures, see
        `read_layout` and `faith_jax.statistics.protocols.AccuracyLayout`.
      test: for "auc", of `faith_jax.statistics.auc_table.TESTS`.
      cluster_field: for "auc", rows with the same value are resampled together.
      resamples: of the bootstrap, and rounds of the test.
      confidence: of the intervals.
      seed: of both.
      slice_field: for "npov", the field that names a row's slice; "" = each corpus is one.
      scorers: those to evaluate, in this order; empty = all that the files have.
      ensembles: by name the members' scorers, each with its range; None = as its card declares.
        For "auc", "begin" and "pronouns".
      dataset: for "dialfact", the data set with the claims.
      split: of the data set.
    """

    protocol: str = "auc"
    development: str = ""
    group_field: str = "source"
    baseline: str = ""
    compare: Mapping[str, str] = dataclasses.field(default_factory=dict)
    table: str = ""
    test: str = "approximate_randomization"
    cluster_field: str = ""
    resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0
    slice_field: str = ""
    scorers: tuple[str, ...] = ()
    ensembles: Mapping[str, Mapping[str, Range | None]] = dataclasses.field(default_factory=dict)
    dataset: str = "dialfact"
    split: str = "test"


def evaluate(
    files: Sequence[str],
    options: EvaluateOptions,
    json_path: str = "",
    tables: Mapping[str, str] | None = None,
    histograms: str = "",
    roc_curves: str = "",
) -> str:
    """Evaluates scored files, writes what is asked for, and returns the table as text.

    Args:
      files: from `faith-jax score`.
      options: see there.
      json_path: a file for all figures; "" = none.
      tables: files for the table by format: "markdown", "latex", "csv".
      histograms: a PNG file for the scores' distribution; "" = none.
      roc_curves: a PNG file for the ROC curves; "" = none.

    Raises:
      FaithJaxError: for a bad or missing file, files that do not match, and wrong options.
    """
    outputs = {"--json": json_path, "--histograms": histograms, "--roc-curves": roc_curves}
    outputs |= {f"--{form}": path for form, path in (tables or {}).items()}
    check_outputs([*files, options.development], outputs)
    check_endings({"--histograms": histograms, "--roc-curves": roc_curves}, ".png")
    if options.protocol == "dialfact" and (histograms or roc_curves):
        raise ConfigError("--protocol=dialfact has labels, and no scores to draw.")
    found = evaluation(files, options)
    write_evaluation(found, json_path, tables)
    # What is drawn is of the rows that the table is of.
    drawn = {name: corpus.part(corpus.usable()) for name, corpus in found.corpora.items()}
    if histograms:
        figures.save_histograms(drawn, pathlib.Path(histograms))
    if roc_curves:
        figures.save_roc_curves(drawn, pathlib.Path(roc_curves))
    return rendered(found.table)


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What an evaluation found.

    Attributes:
      table: for people.
      figures: for machines, as JSON has them.
      corpora: the scored rows, of the scorers that were chosen.
    """

    table: Table
    figures: Mapping[str, Any]
    corpora: Mapping[str, Corpus]


def evaluation(files: Sequence[str], options: EvaluateOptions) -> Evaluation:
    """Evaluates scored files.

    Args:
      files: from `faith-jax score`.
      options: see there.

    Raises:
      FaithJaxError: for a bad or missing file, files that do not match, and wrong options.
    """
    by_file = ("accuracy", "dialfact", "systems")
    corpora = {} if options.protocol in by_file else _corpora(files, options)
    try:
        table, found = _table(corpora, options, files)
    except FaithJaxError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if options.protocol not in (
        "accuracy",
        "auc",
        "systems",
    ):  # which tell of usable rows themselves
        sizes = {name: len(corpus.ids) for name, corpus in corpora.items()}
        table = table._replace(notes=table.notes + few_rows(sizes))
    if options.ensembles:
        table = table._replace(notes=table.notes + (_ensemble_note(options.ensembles),))
    drawn = ("resamples", "confidence", "seed") if options.protocol in _RESAMPLED else ()
    settings = {name: getattr(options, name) for name in ("protocol", *drawn)}
    return Evaluation(table, {**settings, **found}, corpora)


def write_evaluation(
    found: Evaluation, json_path: str = "", tables: Mapping[str, str] | None = None
) -> None:
    """Writes the figures and tables.

    Args:
      found: the evaluation.
      json_path: a file for all figures; "" = none.
      tables: files for the table by format: "markdown", "latex", "csv".

    Raises:
      ConfigError: for a file that cannot be written.
    """
    if json_path:
        told = {"title": found.table.title, "notes": list(found.table.notes)}
        text = json.dumps(told | dict(found.figures), indent=1, ensure_ascii=False)
        write_text(json_path, text + "\n")
    for form, path in (tables or {}).items():
        write_text(path, rendered(found.table, form))


def _corpora(files: Sequence[str], options: EvaluateOptions) -> dict[str, Corpus]:
    rows = {path: read_scored_rows(pathlib.Path(path)) for path in files}
    found = read_corpora(rows)
    for name, ranges in options.ensembles.items():
        found = with_ensembles(found, {name: tuple(ranges)}, functools.partial(_range, ranges))
    return chosen_scorers(found, (*options.scorers, *options.ensembles) if options.scorers else ())


def _range(given: Mapping[str, Range | None], scorer: str) -> Range:
    """Returns the range that is given, or the one that the scorer's card declares.

    Raises:
      ConfigError: for a scorer of one's own, and one without finite ends.
    """
    if (found := given[scorer]) is not None:
        return found
    say = f"say it: {scorer}:LOW:HIGH, such as {scorer}:0:1."
    if scorer not in scorer_names():
        raise ConfigError(f"--ensemble: the range of {scorer!r} is not known; {say}")
    card = scorer_card(scorer)
    if not math.isfinite(card.high - card.low):
        ends = f"{card.low:g} to {card.high:g}"
        raise ConfigError(f"--ensemble: {scorer} has no finite range ({ends}); {say}")
    return Range(card.low, card.high)


def _ensemble_note(ensembles: Mapping[str, Mapping[str, Range | None]]) -> str:
    """Returns what the ensembles are of."""
    told = []
    for name, members in ensembles.items():
        ranges = {member: _range(members, member) for member in members}
        listed = ", ".join(f"{m} ({low:g} to {high:g})" for m, (low, high) in ranges.items())
        told.append(f"{name} = {listed}")
    return f"Ensembles: the mean of scores mapped from their range to 0 to 1: {'; '.join(told)}."


def _table(
    corpora: Mapping[str, Corpus], options: EvaluateOptions, files: Sequence[str]
) -> tuple[Table, dict[str, Any]]:
    if options.protocol == "dialfact":
        table = protocols.verification_table(_claims(options), _predictions(files))
        return table, {"rows": table.records()}
    if options.protocol == "systems":
        return _systems(files, options)
    if options.protocol == "accuracy":
        return _accuracy(files, options)
    if options.protocol in ("npov", "npov_words"):
        return _npov(corpora, options)
    if options.protocol == "begin":
        if not options.development:
            raise ConfigError("--protocol=begin needs --development, the scored development part.")
        scored = _corpora([options.development], options)
        table = protocols.threshold_table(
            _only(scored, options.development),
            _only(corpora, "the test files"),
            options.group_field,
        )
        return table, {"rows": table.records()}
    if options.protocol == "pronouns":
        table = protocols.pronoun_table(corpora)
        return table, {"rows": table.records()}
    check_usable(corpora)
    found = auc_table(
        corpora,
        options.baseline,
        options.resamples,
        options.confidence,
        options.seed,
        options.test,
        options.cluster_field,
    )
    table = auc_rows(found)
    ids = {
        name: [i for i, used in zip(corpus.ids, corpus.usable().tolist(), strict=True) if not used]
        for name, corpus in corpora.items()
    }
    told = auc_figures(found) | {"left_out_ids": ids}
    return table._replace(notes=table.notes + row_notes(corpora)), told


def _npov(corpora: Mapping[str, Corpus], options: EvaluateOptions) -> tuple[Table, dict[str, Any]]:
    words = options.protocol == "npov_words"
    drawn = options.resamples, options.confidence, options.seed
    cells = npov_cells(corpora, options.slice_field, *drawn, words=words)
    notes = without_spans(corpora, options.slice_field) if words else ()
    if not cells:
        problem = notes[0] if notes else "None of the scorers has scores of words; see the scorers."
        raise InputError(problem)
    table = npov_rows(cells, options.confidence, words)
    return table._replace(notes=table.notes + notes), npov_figures(cells)


def _systems(files: Sequence[str], options: EvaluateOptions) -> tuple[Table, dict[str, Any]]:
    """Returns the table of systems; a file without a field `system` is one, named as its corpus."""
    places: dict[str, tuple[str, str]] = {}

    def rows(path: str) -> Iterator[dict[str, Any]]:
        for row in read_scored_rows(pathlib.Path(path)):
            fields = row["fields"]
            named = "system" in fields
            key = (row["corpus"], fields["system"]) if named else ("rows", row["corpus"])
            name = ", ".join(filter(None, (*key, fields.get("replicate"))))
            places[name] = key
            # Scorers may compare the same responses with different texts.
            yield {**row, "corpus": name, "grounding": []}

    found = read_corpora({path: rows(path) for path in files})
    grouped: dict[tuple[str, str], list[Corpus]] = {}
    for name, corpus in chosen_scorers(found, options.scorers).items():
        grouped.setdefault(places[name], []).append(corpus)
    baselines = dict(options.compare)
    if options.baseline:
        systems = dict.fromkeys(system for _, system in grouped)
        baselines = {name: options.baseline for name in systems if name != options.baseline}
    layout = read_layout(options.table) if options.table else Layout()
    table = systems_table(
        grouped, layout, baselines, options.resamples, options.confidence, options.seed
    )
    return table, {"rows": (table.tidy or table).records()}


def _accuracy(files: Sequence[str], options: EvaluateOptions) -> tuple[Table, dict[str, Any]]:
    """Returns the table of accuracies; rows without a system are of their scorer."""
    places: dict[str, tuple[str, str]] = {}
    cut: dict[tuple[str, str], int] = {}

    def rows(path: str) -> Iterator[dict[str, Any]]:
        for row in read_scored_rows(pathlib.Path(path)):
            scorers = options.scorers or tuple(row["scores"])
            if len(scorers) != 1 or scorers[0] not in row["scores"]:
                raise InputError(
                    f"{path}: has scores of {', '.join(row['scores'])}; choose one of them with "
                    "--scorers=NAME."
                )
            place = (row["fields"].get("system") or scorers[0], row["corpus"])
            name = ", ".join(place)
            places[name] = place
            cut[place] = cut.get(place, 0) + (row["cut_tokens"].get(scorers[0], 0) > 0)
            yield {**row, "corpus": name, "scores": {scorers[0]: row["scores"][scorers[0]]}}

    systems: dict[str, dict[str, Corpus]] = {}
    for name, corpus in read_corpora({path: rows(path) for path in files}).items():
        system, of = places[name]
        systems.setdefault(system, {})[of] = corpus
    layout = _read_table(options.table, _accuracy_layout) if options.table else AccuracyLayout()
    drawn = options.resamples, options.confidence, options.seed
    table = protocols.accuracy_table(systems, layout, *drawn)
    told = [
        f"{count:,} of {len(systems[system][of].ids):,} by {system} on {layout.corpora.get(of, of)}"
        for (system, of), count in cut.items()
        if count
    ]
    notes = (f"Inputs that were cut: {'; '.join(told)}.",) if told else ()
    return table._replace(notes=table.notes + notes), {"rows": (table.tidy or table).records()}


def _accuracy_layout(told: Mapping[str, Any]) -> AccuracyLayout:
    lists = {name: tuple(told[name]) for name in ("headings", "notes") if name in told}
    return AccuracyLayout(**{**told, **lists})


def read_layout(path: str) -> Layout:
    """Reads the columns and the published figures of a table of systems.

    The JSON file has `title`, `columns` (by name the attributes of
    `faith_jax.statistics.systems.Column`), and optionally `published`: {corpus: {system: {column:
    figure}}} and `notes` on these.

    Raises:
      ConfigError: for a file that cannot be read, or that has another form.
    """
    return _read_table(path, _systems_layout)


def _systems_layout(told: Mapping[str, Any]) -> Layout:
    columns = {name: Column(**given) for name, given in told["columns"].items()}
    published = {
        (corpus, system): figures
        for corpus, systems in told.get("published", {}).items()
        for system, figures in systems.items()
    }
    return Layout(told["title"], columns, published, tuple(told.get("notes", ())))


def _read_table(path: str, make: Callable[[Mapping[str, Any]], _Layout]) -> _Layout:
    """Returns what a file says of a table."""
    try:
        return make(json.loads(pathlib.Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"--table: {path}: cannot be read ({error.strerror}).") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"--table: {path}: is not the description of a table: {error}") from None


def _claims(options: EvaluateOptions) -> list[dict[str, Any]]:
    from faith_jax.input.score_input import dataset_rows

    return [dict(row.fields) for row in dataset_rows("", options.dataset, options.split)]


def _predictions(files: Sequence[str]) -> dict[str, dict[str, str]]:
    """Returns the predicted texts by claim, of each file under its name."""
    found: dict[str, dict[str, str]] = {}
    for path in files:
        by_id = {}
        for place, fields in read_jsonl(path):
            identifier = text_field(fields, "id", place)
            by_id[identifier] = optional_text(fields, "prediction", place)
        found[path] = by_id
    return found


def _only(corpora: Mapping[str, Corpus], what: str) -> Corpus:
    if len(corpora) > 1:
        raise InputError(f"{what}: expected one corpus, got {', '.join(corpora)}.")
    return next(iter(corpora.values()))
