"""The run `report`: scored files as one HTML page."""

import heapq
import pathlib
from collections.abc import Sequence
from typing import Any

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.files import reserves, write_text
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.report.html import report_page
from faith_jax.report.panels import scorers_of
from faith_jax.report.salience import salience_picture, salience_section
from faith_jax.runs.options import ReportOptions
from faith_jax.statistics.auc_table import auc_rows, auc_table
from faith_jax.statistics.scored_corpora import (
    check_usable,
    chosen_scorers,
    read_corpora,
    row_notes,
)

_TEXTS = ("generated_text", "grounding", "perspectives", "history")


@reserves(lambda options: (options.files, {"--output": options.output}))
def report(options: ReportOptions) -> pathlib.Path:
    """Writes the page and returns its path."""
    target = pathlib.Path(options.output)
    rows = {path: list(read_scored_rows(pathlib.Path(path))) for path in options.files}
    corpora = chosen_scorers(read_corpora(rows), options.scorers)
    check_usable(corpora, labels=False)  # examples can be read without
    # All that is shown but the examples is of the rows that the table is of; where there are no
    # labels, distributions are of all.
    used = {
        name: corpus.part(corpus.usable()) if corpus.usable().any() else corpus
        for name, corpus in corpora.items()
    }
    try:
        table = auc_rows(
            auc_table(
                corpora,
                options.baseline,
                options.resamples,
                options.confidence,
                options.seed,
                options.test,
                options.cluster_field,
            )
        )
    except ValueError as error:
        raise ConfigError(str(error)) from None
    table = table._replace(notes=table.notes + row_notes(corpora))
    examples = _joined(rows.values())
    note = ""
    sections: list[dict[str, Any]] = []
    if options.salience_model:
        note, sections = _salience(examples, scorers_of(used)[0], options)
    page = report_page(
        options.title or ", ".join(pathlib.Path(path).name for path in options.files),
        used,
        table,
        examples[: options.most_examples],
        max(0, len(examples) - options.most_examples),
        note,
        sections,
    )
    write_text(target, page)
    return target


def _salience(
    rows: Sequence[dict[str, Any]], scorer: str, options: ReportOptions
) -> tuple[str, list[dict[str, Any]]]:
    """Returns which rows have a map, in words, and the maps as the page shows them.

    The rows with the lowest score of the scorer have one, the lowest first; where none has a score,
    the first rows. Rows without a response or a grounding are skipped.
    """
    usable = [row for row in rows if row["generated_text"].strip() and row["grounding"]]
    if not usable:
        raise InputError(
            "--salience-model: no row has generated_text and grounding, which the maps are of."
        )
    scored = [row for row in usable if row["scores"].get(scorer) is not None]
    chosen = heapq.nsmallest(options.salience_rows, scored, key=lambda row: row["scores"][scorer])
    rule = f"The {len(chosen)} rows with the lowest {scorer}, the lowest first."
    if not scored:
        chosen = usable[: options.salience_rows]
        rule = f"The first {len(chosen)} rows; none has a score of {scorer}."
    examples = [_example(row) for row in chosen]
    # JAX, which other reports do without.
    from faith_jax.scoring.salience.scorers import open_salience

    maps = open_salience(options.salience_model, method=options.salience_method)(examples)
    sections = [
        salience_section(salience_picture(example, found, options.salience_threshold))
        for example, found in zip(examples, maps, strict=True)
        if found is not None  # it is None for empty responses only
    ]
    return f"{rule} Gradients ({options.salience_method}) of {options.salience_model}.", sections


def _example(row: dict[str, Any]) -> GroundedExample:
    texts, sides = tuple(row["grounding"]), tuple(row["perspectives"])
    if sides and len(sides) != len(texts):
        raise InputError(
            f"{row['corpus']}, row {row['id']!r}: expected one of perspectives for each text of "
            f"grounding, got {len(sides)} for {len(texts)}."
        )
    name, history = f"{row['corpus']}: {row['id']}", tuple(row["history"])
    return GroundedExample(name, Grounding(texts, sides), history, row["generated_text"])


def _joined(files: Any) -> list[dict[str, Any]]:
    """Returns each example once, with the scores and words of all files that have it."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for rows in files:
        for row in rows:
            known = found.get((row["corpus"], row["id"]))
            if known is None:
                found[row["corpus"], row["id"]] = dict(row)
            else:
                label = row["label"] if known["label"] is None else known["label"]
                merged = {key: {**known[key], **row[key]} for key in ("scores", "words")}
                texts = {key: known[key] or row[key] for key in _TEXTS}
                known.update(merged, label=label, **texts)
    return [row | {"generated_text": row["generated_text"] or ""} for row in found.values()]
