"""The run `report`: scored files as one HTML page."""

import os
import pathlib
from collections.abc import Sequence
from typing import Any

from faith_jax.errors import ConfigError
from faith_jax.evaluation.auc_table import auc_table
from faith_jax.evaluation.scored_corpora import read_corpora
from faith_jax.export.scored_rows import read_scored_rows
from faith_jax.report.html import report_page
from faith_jax.report.tables import auc_rows


def report(
    files: Sequence[str],
    output: str,
    title: str = "",
    baseline: str = "",
    resamples: int = 1000,
    seed: int = 0,
    most_examples: int = 10_000,
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

    Raises:
      FaithJaxError: for bad or missing files, files that do not match, and wrong options.
    """
    target = pathlib.Path(output)
    if not target.absolute().parent.is_dir():
        raise ConfigError(f"--output: {target}: cannot be written (no such folder).")
    rows = {path: list(read_scored_rows(pathlib.Path(path))) for path in files}
    corpora = read_corpora(rows)
    try:
        table = auc_rows(auc_table(corpora, baseline, resamples, seed=seed))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    examples = _joined(rows.values())
    page = report_page(
        title or ", ".join(pathlib.Path(path).name for path in files),
        corpora,
        table,
        examples[:most_examples],
        max(0, len(examples) - most_examples),
    )
    beside = target.with_name(f".{target.name}.partial")
    try:
        beside.write_text(page, encoding="utf-8")
        os.replace(beside, target)
    except OSError as error:
        raise ConfigError(f"--output: {target}: cannot be written ({error.strerror}).") from None
    return target


def _joined(files: Any) -> list[dict[str, Any]]:
    """Returns each example once, with the scores and words of all files that have it."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for rows in files:
        for row in rows:
            known = found.setdefault((row["corpus"], row["id"]), dict(row))
            if known is not row:
                label = row["label"] if known["label"] is None else known["label"]
                merged = {key: {**known[key], **row[key]} for key in ("scores", "words")}
                known.update(merged, label=label)
    return list(found.values())
