"""The report of prompt-tuned runs: tables, curves, one self-contained HTML page, and JSON.

The page fetches nothing and runs no scripts; all text is escaped.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from faith_jax.core.table import Table, plain
from faith_jax.report.inks import NEGATIVE, POSITIVE, ink
from faith_jax.report.panels import MOST_CURVES, CurvePanel, curve_panel
from faith_jax.report.table_pages import page_template
from faith_jax.statistics.prompt_health import (
    Curve,
    PromptHealth,
    PromptPair,
    RunHealth,
    Spread,
    VocabularyPiece,
    by_initializer,
    pairs,
    run_warnings,
    spread_warnings,
)

_DASH = "\u2013"
# Vectors in a grid of cosines; a larger grid is not readable.
_LARGEST_GRID = 30
# Height of a panel in the page, relative to its width.
_HEIGHT = 0.65


class PromptReport(NamedTuple):
    """A report of prompt-tuned runs: warnings by run and between runs, and pairs with one base.

    `groups` are the spreads of final validation losses by initialiser.
    """

    runs: Sequence[RunHealth]
    warnings: Mapping[str, Sequence[str]]
    groups: Mapping[str, Spread]
    pairs: Sequence[PromptPair]
    spread_warnings: Sequence[str]

    def all_warnings(self) -> list[str]:
        """Returns all warnings, one sentence each, with the names of their runs."""
        lines_of_runs = [
            f"{name}: {line}" for name, lines in self.warnings.items() for line in lines
        ]
        return [*lines_of_runs, *self.spread_warnings]


def report_of(runs: Sequence[RunHealth]) -> PromptReport:
    """Compares the runs, and collects warnings."""
    warnings, compared = {run.name: run_warnings(run) for run in runs}, pairs(runs)
    between = spread_warnings(runs, compared)
    return PromptReport(runs, warnings, by_initializer(runs), compared, between)


def all_tables(report: PromptReport) -> list[Table]:
    """Returns a table for each prompt and, for several runs, tables of runs, spread and pairs."""
    tables = [vector_rows(run, prompt) for run in report.runs for prompt in run.prompts.values()]
    if len(report.runs) < 2:
        return tables
    columns: tuple[str, ...]
    columns = ("run", "start", "seed", "step", "validation loss", "lowest", "at step", "warnings")
    rows = []
    for run in report.runs:
        at, lowest = run.lowest_loss
        seed, step = run.settings.get("seed", _DASH), _DASH if run.step is None else str(run.step)
        losses = _format_loss(run.final_loss), _format_loss(lowest), _DASH if at < 0 else str(at)
        warnings = str(len(report.warnings[run.name]))
        rows.append((run.name, run.initializer, seed, step, *losses, warnings))
    note = "Losses are means over target tokens in nats."
    tables.append(Table("Runs", columns, tuple(rows), (note,)))
    columns = ("start", "runs", "mean", "lowest", "highest", "standard deviation")
    spreads = tuple(
        (name, str(spread.runs), *(_format_loss(value) for value in spread[1:]))
        for name, spread in report.groups.items()
    )
    tables.append(Table("Final validation loss by start", columns, spreads))
    columns = ("run", "and", "prompt", "mean cosine", "lowest", "highest", "between the starts")
    pair_rows = []
    for pair in report.pairs:
        cosines = pair.mean, min(pair.cosines), max(pair.cosines), pair.start_cosine
        pair_rows.append((pair.first, pair.second, pair.prompt, *map(number, cosines)))
    note = "Vectors are matched one to one so that the sum of their cosines is largest."
    if pair_rows:
        tables.append(Table("Prompts of two runs", columns, tuple(pair_rows), (note,)))
    return tables


def vector_rows(run: RunHealth, prompt: PromptHealth) -> Table:
    """Returns a prompt's vectors: movement, norms, nearest pieces."""
    length, width = prompt.vectors.shape
    step = "" if run.step is None else f", step {run.step:,}"
    seed = f", seed {run.settings['seed']}" if "seed" in run.settings else ""
    title = f"{run.name}: {prompt.name}, {length} x {width}{step}; start: {run.initializer}{seed}"
    columns = (
        "vector", "moved", "moved/start", "cosine to start", "norm", "longer than", "started as",
        "nearest by cosine", "nearest by L2",
    )  # fmt: skip
    ranks = None if prompt.vocabulary is None else prompt.vocabulary.ranks
    rows = tuple(
        (
            str(i),
            *(number(column[i]) for column in prompt.movement or ([None] * length,) * 3),
            number(prompt.norms[i]),
            _DASH if ranks is None else f"{100 * ranks[i]:.0f}%",
            prompt.start_pieces[i] or _DASH,
            _pieces_text(prompt.by_cosine[i]),
            _pieces_text(prompt.by_distance[i]),
        )
        for i in range(length)
    )
    notes = []
    if prompt.vocabulary is not None:
        q = {share: number(value) for share, value in prompt.vocabulary.quantiles.items()}
        notes.append(
            f"Norms of the vocabulary's embeddings: median {q[0.5]}, 5% to 95% {q[0.05]} to "
            f'{q[0.95]}, all {q[0.0]} to {q[1.0]}; "longer than" is the share of them that a '
            "vector is at least as long as."
        )
    between = prompt.cosines[np.triu_indices(len(prompt.vectors), 1)]
    if not np.isnan(between).all():
        notes.append(
            f"Cosines between the vectors: mean {number(np.nanmean(between))}, "
            f"{number(np.nanmin(between))} to {number(np.nanmax(between))}."
        )
    steps, norms = prompt.gradient_norms
    if len(steps):
        total_norms = np.linalg.norm(norms, axis=1)
        notes.append(
            f"Gradient norm of all vectors: {number(total_norms[0])} at step {steps[0]}, median "
            f"{number(np.median(total_norms))}, {number(total_norms[-1])} at step {steps[-1]}."
        )
    else:
        notes.append("Gradient norms by vector were not logged.")
    if math.isnan(run.final_loss):
        notes.append("No validation loss was logged.")
    else:
        at, lowest = run.lowest_loss
        notes.append(
            f"Validation loss {run.final_loss:.4f} at step {run.validation_loss.steps[-1]}; the "
            f"lowest is {lowest:.4f} at step {at}."
        )
    notes += (f"{note[:1].upper()}{note[1:]}" for note in run.notes)
    return Table(title, columns, rows, tuple(notes))


def _pieces_text(pieces: Sequence[VocabularyPiece]) -> str:
    return ", ".join(f"{piece.text} {number(piece.value)}" for piece in pieces) or _DASH


def number(value: Any) -> str:
    """Returns a number with three digits, or a dash if it is missing.

    >>> number(0.123456), number(1234.5)
    ('0.123', '1.23e+03')
    """
    return _DASH if value is None or math.isnan(value) else f"{value:.3g}"


def _format_loss(value: float) -> str:
    return _DASH if math.isnan(value) else f"{value:.4f}"


def prompt_panels(runs: Sequence[RunHealth]) -> list[CurvePanel]:
    """Returns the panels of a report; quantities that were not logged have no panel.

    They show the validation losses of several runs, and for each run its losses and, by vector,
    gradient norms and movement.
    """
    panels = []
    if len(runs) > 1:
        together = {run.name: run.validation_loss for run in runs[:MOST_CURVES]}
        panels.append(curve_panel("all runs", "validation loss, nats a token", together))
    for run in runs:
        losses = {"training": run.training_loss, "validation": run.validation_loss}
        run_panels = [curve_panel(run.name, "loss, nats a token", losses)]
        for name, prompt in run.prompts.items():
            title = run.name if len(run.prompts) == 1 else f"{run.name} {name}"
            run_panels += [
                curve_panel(title, "gradient norm", by_vector(prompt.gradient_norms), True),
                curve_panel(title, "L2 distance from the start", by_vector(prompt.movements)),
            ]
        panels += [panel._replace(run=run.name) for panel in run_panels]
    return [panel for panel in panels if panel.curves]


def by_vector(curve: Curve) -> dict[str, Curve]:
    """Returns a curve for each vector or, of many, the smallest, median and largest value."""
    steps, values = curve
    if not len(steps):
        return {}
    if values.shape[1] <= MOST_CURVES:
        return {f"vector {i}": Curve(steps, column) for i, column in enumerate(values.T)}
    return {
        "smallest": Curve(steps, values.min(axis=1)),
        "median": Curve(steps, np.median(values, axis=1)),
        "largest": Curve(steps, values.max(axis=1)),
    }


def prompt_page(title: str, report: PromptReport) -> str:
    """Returns the page: warnings, tables, curves, and cosines between each prompt's vectors."""

    def shade_cosine(cosine: float) -> dict[str, Any]:
        if math.isnan(cosine):
            return {"text": _DASH, "weight": "0", "negative": False, "ink": ink(POSITIVE, 0)}
        weight, is_negative = 0.6 * abs(cosine), cosine < 0
        return {
            "text": f"{cosine:.2f}",
            "weight": f"{weight:.2f}",
            "negative": is_negative,
            "ink": ink(NEGATIVE if is_negative else POSITIVE, weight),
        }

    grids = [
        {
            "title": f"{run.name}: {prompt.name}",
            "rows": [[shade_cosine(value) for value in row] for row in prompt.cosines.tolist()],
        }
        for run in report.runs
        for prompt in run.prompts.values()
        if 1 < len(prompt.vectors) <= _LARGEST_GRID
    ]
    return page_template("prompts.html").render(
        title=title,
        warnings=report.all_warnings(),
        tables=all_tables(report),
        panels=[draw_panel(panel) for panel in prompt_panels(report.runs)],
        grids=grids,
    )


def draw_panel(panel: CurvePanel) -> dict[str, Any]:
    """Returns a panel for SVG: points in [0, 1] x [0, 0.65], with y downwards."""
    scaled = {
        name: Curve(steps, np.log10(values) if panel.logarithmic else values)
        for name, (steps, values) in panel.curves.items()
    }
    steps = np.concatenate([curve.steps for curve in scaled.values()])
    values = np.concatenate([curve.values for curve in scaled.values()])
    first, last, low, high = int(steps.min()), int(steps.max()), values.min(), values.max()
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-9):  # a constant
        around = abs(low) / 10 or 1.0
        low, high = low - around, high + around
    curves = []
    for name, line in panel.lines.items():
        x = (scaled[name].steps - first) / max(1, last - first)
        y = _HEIGHT * (1 - (scaled[name].values - low) / (high - low))
        points = [(f"{a:.4f}", f"{b:.4f}") for a, b in zip(x, y, strict=True)]
        curves.append(
            {
                "name": name,
                "points": " ".join(f"{a},{b}" for a, b in points),
                "dot": points[0] if len(points) == 1 else None,
                "colour": line.colour,
                "dashes": " ".join(f"{0.01 * length:g}" for length in line.dashes),
            }
        )
    ends = (10**end if panel.logarithmic else end for end in (low, high))
    low_text, high_text = (f"{end:.3g}" if math.isfinite(end) else _DASH for end in ends)
    return {
        "title": panel.title,
        "quantity": panel.quantity,
        "logarithmic": panel.logarithmic,
        "curves": curves,
        "first": first,
        "last": last,
        "low": low_text,
        "high": high_text,
    }


def report_figures(report: PromptReport) -> dict[str, Any]:
    """Returns all figures of a report as a JSON object."""
    runs = []
    for run in report.runs:
        step, lowest = run.lowest_loss
        runs.append(
            {
                "run": run.name,
                "step": run.step,
                "start": run.initializer,
                "settings": run.settings,
                "base": run.base,
                "validation_loss": run.final_loss,
                "lowest_validation_loss": lowest,
                "lowest_step": None if step < 0 else step,
                "curves": {
                    "training_loss": run.training_loss._asdict(),
                    "validation_loss": run.validation_loss._asdict(),
                },
                "prompts": {
                    name: {
                        "length": len(prompt.vectors),
                        "embed": prompt.vectors.shape[1],
                        "movement": prompt.movement and prompt.movement._asdict(),
                        "norms": prompt.norms,
                        "vocabulary_norms": prompt.vocabulary
                        and {f"{q:g}": value for q, value in prompt.vocabulary.quantiles.items()},
                        "norm_ranks": prompt.vocabulary and prompt.vocabulary.ranks,
                        "started_as": [piece or None for piece in prompt.start_pieces],
                        "nearest_by_cosine": [
                            [p._asdict() for p in row] for row in prompt.by_cosine
                        ],
                        "nearest_by_l2": [[p._asdict() for p in row] for row in prompt.by_distance],
                        "cosines": prompt.cosines,
                        "gradient_norms": prompt.gradient_norms._asdict(),
                        "movements": prompt.movements._asdict(),
                    }
                    for name, prompt in run.prompts.items()
                },
                "notes": run.notes,
                "warnings": report.warnings[run.name],
            }
        )
    figures = {
        "runs": runs,
        "validation_loss_by_start": {n: spread._asdict() for n, spread in report.groups.items()},
        "pairs": [pair._asdict() | {"mean": pair.mean} for pair in report.pairs],
        "warnings": report.spread_warnings,
    }
    return plain(figures)
