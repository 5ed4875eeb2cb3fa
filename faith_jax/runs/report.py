"""The run `report`: scored files as one HTML page."""

import pathlib
from collections.abc import Sequence
from typing import Any

from faith_jax.core.errors import ConfigError
from faith_jax.core.outputs import check_outputs, write_text
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.report.html import report_page
from faith_jax.report.panels import scorers_of
from faith_jax.report.salience import ReportSalience, report_pictures, salience_section
from faith_jax.statistics.auc_table import auc_rows, auc_table
from faith_jax.statistics.scored_corpora import (
    check_usable,
    chosen_scorers,
    read_corpora,
    row_notes,
)

_TEXTS = ("generated_text", "grounding", "perspectives", "history")


def report(
    files: Sequence[str],
    output: str,
    title: str = "",
    baseline: str = "",
    resamples: int = 1000,
    seed: int = 0,
    most_examples: int = 10_000,
    scorers: Sequence[str] = (),
    confidence: float = 0.95,
    test: str = "approximate_randomization",
    cluster_field: str = "",
    salience: ReportSalience | None = None,
) -> pathlib.Path:
    """Writes the page and returns its path.

    Args:
      files: from `faith-jax score`.
      output: the page.
      title: of the page; "" = the names of the files.
      baseline: the scorer that others are compared with; "" = none.
      resamples: of the bootstrap.
      seed: of the bootstrap.
      most_examples: that the page holds; the figures are of all rows.
      scorers: those to show, in this order; empty = all that the files have.
      confidence: of the intervals.
      test: of the differences to `baseline`, see `auc_table`.
      cluster_field: rows with the same value of this field are resampled together; "" = none.
      salience: which rows get a salience map; None = none.

    Raises:
      FaithJaxError: for bad or missing files, files that do not match, a model that cannot be read,
        and wrong options.
    """
    target = pathlib.Path(output)
    check_outputs(files, {"--output": output})
    rows = {path: list(read_scored_rows(pathlib.Path(path))) for path in files}
    corpora = chosen_scorers(read_corpora(rows), scorers)
    check_usable(corpora, labels=False)  # examples can be read without
    # All that is shown but the examples is of the rows that the table is of; where there are no
    # labels, distributions are of all.
    used = {
        name: corpus.part(corpus.usable()) if corpus.usable().any() else corpus
        for name, corpus in corpora.items()
    }
    try:
        table = auc_rows(
            auc_table(corpora, baseline, resamples, confidence, seed, test, cluster_field)
        )
    except ValueError as error:
        raise ConfigError(str(error)) from None
    table = table._replace(notes=table.notes + row_notes(corpora))
    examples = _joined(rows.values())
    note, sections = "", []
    if salience is not None:
        note, pictures = report_pictures(examples, scorers_of(used)[0], salience)
        sections = [salience_section(picture) for picture in pictures]
    page = report_page(
        title or ", ".join(pathlib.Path(path).name for path in files),
        used,
        table,
        examples[:most_examples],
        max(0, len(examples) - most_examples),
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
