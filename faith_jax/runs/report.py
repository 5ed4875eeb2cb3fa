"""The run `report`: scored files as one HTML page."""

import pathlib
from typing import Any

from faith_jax.core.errors import ConfigError
from faith_jax.core.files import check_outputs, write_text
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.report.html import report_page
from faith_jax.report.panels import scorers_of
from faith_jax.report.salience import ReportSalience, report_pictures, salience_section
from faith_jax.runs.options import ReportOptions
from faith_jax.statistics.auc_table import auc_rows, auc_table
from faith_jax.statistics.scored_corpora import (
    check_usable,
    chosen_scorers,
    read_corpora,
    row_notes,
)

_TEXTS = ("generated_text", "grounding", "perspectives", "history")


def report(options: ReportOptions) -> pathlib.Path:
    """Writes the page and returns its path.

    Raises:
      FaithJaxError: for bad or missing files, files that do not match, a model that cannot be read,
        and wrong options.
    """
    target = pathlib.Path(options.output)
    check_outputs(options.files, {"--output": options.output})
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
    note, sections = "", []
    if options.salience_model:
        salience = ReportSalience(
            options.salience_model,
            options.salience_rows,
            options.salience_threshold,
            options.salience_method,
        )
        note, pictures = report_pictures(examples, scorers_of(used)[0], salience)
        sections = [salience_section(picture) for picture in pictures]
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
