"""The run `evaluate`: makes tables and pictures of scored files."""

import collections
import dataclasses
import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from faith_jax.core.errors import ConfigError, FaithJaxError
from faith_jax.core.files import reserve_outputs, write_json, write_text
from faith_jax.core.files.stores import path_of
from faith_jax.core.table import Table
from faith_jax.core.user_modules import describe_failure, is_of_a_file
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.report import figures
from faith_jax.report.claims import VERDICT, gold_table, verdict_table
from faith_jax.report.table_pages import render_table
from faith_jax.runs.options import (
    AUTO,
    CHOSEN_BY_LABELS,
    Comparison,
    EvaluateFiles,
    EvaluateOptions,
)
from faith_jax.runs.scores.compare_systems import systems_by_file
from faith_jax.runs.scores.protocols import (
    Evaluation,
    EvaluationProtocol,
    check_several_rows,
    chosen_corpora,
    cluster_fields,
    counting_undefined,
    ensemble_note,
    interval_draws,
    load_protocol,
    undefined_score,
)
from faith_jax.statistics.auc_table import AucTable, auc_figures, auc_rows, auc_table, best_rows
from faith_jax.statistics.scored_corpora import Corpus, check_usable, only_fields, row_notes

logger = logging.getLogger("faith_jax")


def _inputs_and_outputs(options: EvaluateFiles) -> tuple[list[str], dict[str, str]]:
    outputs = ("json", "markdown", "latex", "csv", "histograms", "roc_curves")
    named = {f"--{name.replace('_', '-')}": getattr(options, name) for name in outputs}
    return [*options.files, options.development], named


@reserve_outputs(_inputs_and_outputs)
def evaluate(options: EvaluateFiles) -> str:
    """Evaluates scored files, writes the outputs, and returns the table as text."""
    tables = {form: getattr(options, form) for form in ("markdown", "latex", "csv")}
    outcome = evaluation(options.files, options)
    write_evaluation(outcome, options.json, {form: path for form, path in tables.items() if path})
    # Pictures show the same rows as the table.
    counted = counting_undefined(outcome.corpora, options)
    drawn = {name: corpus.part(corpus.usable()) for name, corpus in counted.items()}
    pictures = []  # several files if there are many corpora or scorers
    if options.histograms:
        pictures += figures.save_histograms(drawn, path_of(options.histograms))
    if options.roc_curves:
        pictures += figures.save_roc_curves(drawn, path_of(options.roc_curves))
    for picture in pictures:
        logger.info("Written: %s", picture)
    return "\n".join(render_table(table) for table in (outcome.table, *outcome.further))


def evaluation(files: Sequence[str], options: EvaluateOptions) -> Evaluation:
    """Evaluates files that `faith-jax score` wrote.

    Raises:
      FaithJaxError: for a bad or missing file, files that do not match, and wrong options.
    """
    for path, count in collections.Counter(map(str, map(path_of, files))).items():
        if count > 1:
            raise ConfigError(f"{path} is given {count} times; name each file once.")
    if options.protocol == AUTO:
        with_labels, without = CHOSEN_BY_LABELS
        options = dataclasses.replace(
            options, protocol=with_labels if has_labels(files, options) else without
        )
    protocol = load_protocol(options.protocol)
    try:
        outcome = protocol.evaluate(files, options)
    except FaithJaxError:
        raise
    except Exception as error:
        if is_of_a_file(options.protocol):
            place = describe_failure(error)
            raise ConfigError(f"--protocol={options.protocol} fails: {place}.") from error
        if isinstance(error, ValueError):
            raise ConfigError(str(error)) from None
        raise
    if not isinstance(outcome, Evaluation):
        raise ConfigError(
            f"--protocol={options.protocol}: expected an Evaluation, got {type(outcome).__name__}."
        )
    table, figures_by_name, further = outcome.table, outcome.figures, outcome.further
    if protocol.reads_scores:
        for name, checked in tabulate_checked_claims(files, options).items():
            further = (*further, checked)
            figures_by_name = {**figures_by_name, name: checked.records()}
    notes = list(table.notes)
    if options.undefined is not None:
        notes.append(f"Undefined scores count as {options.undefined:g}.")
    counted = counting_undefined(outcome.corpora, options)
    notes += row_notes(counted)
    table = table._replace(notes=tuple(dict.fromkeys(notes)))
    if options.ensemble:
        table = table._replace(notes=(*table.notes, ensemble_note(options.ensemble)))
    drawn = ("resamples", "confidence", "seed")
    names = ("protocol", *(name for name in drawn if name in protocol.options))
    settings = {name: getattr(options, name) for name in names}
    return Evaluation(table, {**settings, **figures_by_name}, outcome.corpora, further)


def tabulate_checked_claims(files: Sequence[str], options: Comparison) -> dict[str, Table]:
    """Returns tables of claims that `check` wrote: verdicts and, with labels, their agreement.

    Empty if no file starts with a claim that `check` wrote.
    """
    systems = systems_by_file(files, options)

    def rows() -> Iterator[dict[str, Any]]:
        for path in files:
            named = {"system": systems[path]} if path in systems else {}
            for row in read_scored_rows(path_of(path), options.score_columns):
                if VERDICT not in row["fields"]:
                    break
                yield {**row, "fields": named | row["fields"]}

    tables = {"verdicts": verdict_table(rows())}
    if tables["verdicts"].rows:
        tables["verdicts_against_labels"] = gold_table(
            rows(), interval_draws(options), *cluster_fields(options)
        )
    return {name: table for name, table in tables.items() if table.rows}


def has_labels(files: Sequence[str], options: Comparison) -> bool:
    """Whether a row of scored files has a label."""
    paths = map(path_of, files)
    rows = (row for path in paths for row in read_scored_rows(path, options.score_columns))
    return any(row["label"] is not None for row in rows)


def write_evaluation(outcome: Evaluation, json_path: str, tables: Mapping[str, str]) -> None:
    """Writes figures as JSON ("" = nowhere), and the table in formats: markdown, latex, csv."""
    if json_path:
        heading = {"title": outcome.table.title, "notes": list(outcome.table.notes)}
        write_json(json_path, heading | dict(outcome.figures))
    for form, path in tables.items():
        write_text(path, render_table(outcome.table, form))


def area_tables(
    corpora: Mapping[str, Corpus], options: Comparison
) -> tuple[AucTable, tuple[Table, ...]]:
    """Returns how well scorers separate the classes of labels: the figures, and their tables.

    The first table has the AUCs, the second the best scorer against each other one.
    """
    areas = auc_table(
        corpora,
        options.baseline,
        options.resamples,
        options.confidence,
        options.seed,
        options.test,
        options.cluster_field,
        undefined=undefined_score(options),
    )
    table = auc_rows(areas)
    table = table._replace(notes=table.notes + row_notes(counting_undefined(corpora, options)))
    return areas, (table, *([best_rows(areas)] if areas.best else []))


def _evaluate_areas(files: Sequence[str], options: EvaluateOptions) -> Evaluation:
    corpora = chosen_corpora(files, options, only_fields(*cluster_fields(options)))
    filled = counting_undefined(corpora, options)
    check_usable(filled)
    check_several_rows({name: corpus.ids for name, corpus in corpora.items()})
    areas, (table, *further) = area_tables(corpora, options)
    # If most of their rows have the same ids and groundings, corpora are perhaps systems.
    keys = {
        name: {key for key in zip(corpus.ids, corpus.hashes["grounding"], strict=True) if key[1]}
        for name, corpus in corpora.items()
    }
    similar = {
        name
        for pair in itertools.combinations(keys, 2)
        if 2 * len(keys[pair[0]] & keys[pair[1]]) > max(len(keys[name]) for name in pair)
        for name in pair
    }
    if similar:
        note = (
            f"{', '.join(name for name in keys if name in similar)}: have rows of the same ids and "
            "groundings. If they are systems that answer the same questions, --protocol=systems "
            "compares them; the average takes corpora as independent of each other."
        )
        table = table._replace(notes=(*table.notes, note))
    ids = {
        name: [i for i, used in zip(corpus.ids, corpus.usable().tolist(), strict=True) if not used]
        for name, corpus in filled.items()
    }
    return Evaluation(table, auc_figures(areas) | {"left_out_ids": ids}, corpora, tuple(further))


AUC = EvaluationProtocol(
    _evaluate_areas,
    frozenset(
        ("baseline", "test", "cluster_field", "undefined", "resamples", "confidence", "seed")
        + ("scorers", "ensemble", "histograms", "roc_curves")
    ),
)
