"""The health of prompt-tuned runs as tables, and as JSON has it."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from faith_jax.statistics.dataset_statistics import Table
from faith_jax.statistics.prompt_health import Curve, Pair, Piece, PromptHealth, RunHealth, Spread

_DASH = "\u2013"
_VECTOR_COLUMNS = (
    "vector",
    "moved",
    "moved/start",
    "cosine to start",
    "norm",
    "longer than",
    "started as",
    "nearest by cosine",
    "nearest by L2",
)


class PromptReport(NamedTuple):
    """What a report of prompt-tuned runs says.

    Attributes:
      runs: in the order they were given.
      warnings: of each run, by its name.
      groups: the spread of final validation losses by initialiser.
      pairs: of runs of one base model.
      spread_warnings: where runs disagree.
    """

    runs: Sequence[RunHealth]
    warnings: dict[str, list[str]]
    groups: dict[str, Spread]
    pairs: Sequence[Pair]
    spread_warnings: Sequence[str]


def all_tables(report: PromptReport) -> list[Table]:
    """Returns a table for each prompt; of several runs, the runs, their spread and their pairs."""
    tables = [vector_rows(run, prompt) for run in report.runs for prompt in run.prompts.values()]
    if len(report.runs) > 1:
        tables += [run_rows(report), spread_rows(report)]
        tables += [pair_rows(report)] if report.pairs else []
    return tables


def all_warnings(report: PromptReport) -> list[str]:
    """Returns the warnings, a sentence each, with the run they are of."""
    own = [f"{name}: {line}" for name, lines in report.warnings.items() for line in lines]
    return own + list(report.spread_warnings)


def vector_rows(run: RunHealth, prompt: PromptHealth) -> Table:
    """Returns a prompt's vectors: movement, norms, nearest pieces."""
    length, width = prompt.vectors.shape
    rows = tuple(_vector_row(prompt, i) for i in range(length))
    step = "" if run.step is None else f", step {run.step:,}"
    seed = f", seed {run.settings['seed']}" if "seed" in run.settings else ""
    start = f"start: {run.initializer}{seed}"
    title = f"{run.name}: {prompt.name}, {length} x {width}{step}; {start}"
    return Table(title, _VECTOR_COLUMNS, rows, _vector_notes(run, prompt))


def _vector_row(prompt: PromptHealth, i: int) -> tuple[str, ...]:
    moved: tuple[Any, ...] = (None,) * 3
    if prompt.movement is not None:
        moved = tuple(values[i] for values in prompt.movement)
    rank = None if prompt.vocabulary is None else prompt.vocabulary.ranks[i]
    return (
        str(i),
        *map(number, moved),
        number(prompt.norms[i]),
        _DASH if rank is None else f"{100 * rank:.0f}%",
        prompt.start_pieces[i] or _DASH,
        pieces_text(prompt.by_cosine[i]),
        pieces_text(prompt.by_distance[i]),
    )


def pieces_text(pieces: Sequence[Piece]) -> str:
    """Returns pieces with their values, as "▁the 0.94, ▁a 0.29"."""
    return ", ".join(f"{piece.text} {number(piece.value)}" for piece in pieces) or _DASH


def number(value: Any) -> str:
    """Returns a number with three digits, a dash for none.

    >>> number(0.123456), number(1234.5)
    ('0.123', '1.23e+03')
    """
    return _DASH if value is None or math.isnan(value) else f"{value:.3g}"


def _vector_notes(run: RunHealth, prompt: PromptHealth) -> tuple[str, ...]:
    notes = []
    if prompt.vocabulary is not None:
        q = prompt.vocabulary.quantiles
        notes.append(
            f"Norms of the vocabulary's embeddings: median {number(q[0.5])}, 5% to 95% "
            f"{number(q[0.05])} to {number(q[0.95])}, all {number(q[0.0])} to {number(q[1.0])}; "
            '"longer than" is the share of them that a vector is at least as long as.'
        )
    if len(prompt.vectors) > 1:
        between = prompt.cosines[np.triu_indices(len(prompt.vectors), 1)]
        if not np.isnan(between).all():
            notes.append(
                f"Cosines between the vectors: mean {number(np.nanmean(between))}, "
                f"{number(np.nanmin(between))} to {number(np.nanmax(between))}."
            )
    steps, norms = prompt.gradient_norms
    if len(steps):
        whole = np.linalg.norm(norms, axis=1)
        notes.append(
            f"Gradient norm of all vectors: {number(whole[0])} at step {steps[0]}, median "
            f"{number(np.median(whole))}, {number(whole[-1])} at step {steps[-1]}."
        )
    else:
        notes.append("Gradient norms by vector were not logged.")
    notes.append(_loss_note(run))
    return (*notes, *(f"{note[:1].upper()}{note[1:]}" for note in run.notes))


def _loss_note(run: RunHealth) -> str:
    if math.isnan(run.final_loss):
        return "No validation loss was logged."
    step, lowest = run.lowest_loss
    last = run.validation_loss.steps[-1]
    return (
        f"Validation loss {run.final_loss:.4f} at step {last}; the lowest is {lowest:.4f} at step "
        f"{step}."
    )


def run_rows(report: PromptReport) -> Table:
    """Returns a row for each run: start, seed, losses."""
    columns = ("run", "start", "seed", "step", "validation loss", "lowest", "at step", "warnings")
    rows = []
    for run in report.runs:
        step, lowest = run.lowest_loss
        rows.append(
            (
                run.name,
                run.initializer,
                run.settings.get("seed", _DASH),
                _DASH if run.step is None else str(run.step),
                _loss(run.final_loss),
                _loss(lowest),
                _DASH if step < 0 else str(step),
                str(len(report.warnings[run.name])),
            )
        )
    return Table("Runs", columns, tuple(rows), ("Losses are means over target tokens in nats.",))


def spread_rows(report: PromptReport) -> Table:
    """Returns a row for each initialiser: the spread of its runs' final validation losses."""
    columns = ("start", "runs", "mean", "lowest", "highest", "standard deviation")
    rows = tuple(
        (name, str(found.runs), *(_loss(value) for value in found[1:]))
        for name, found in report.groups.items()
    )
    return Table("Final validation loss by start", columns, rows)


def pair_rows(report: PromptReport) -> Table:
    """Returns a row for each two runs: cosines of the best matching of their vectors."""
    columns = ("run", "and", "prompt", "mean cosine", "lowest", "highest", "between the starts")
    rows = tuple(
        (
            pair.first,
            pair.second,
            pair.prompt,
            number(pair.mean),
            number(min(pair.cosines)),
            number(max(pair.cosines)),
            number(pair.start_cosine),
        )
        for pair in report.pairs
    )
    note = "Vectors are matched one to one so that the sum of their cosines is largest."
    return Table("Prompts of two runs", columns, rows, (note,))


def _loss(value: float) -> str:
    return _DASH if math.isnan(value) else f"{value:.4f}"


def report_figures(report: PromptReport) -> dict[str, Any]:
    """Returns all figures of a report as JSON has them; what is undefined is None."""
    return {
        "runs": [_run_figures(run, report.warnings[run.name]) for run in report.runs],
        "validation_loss_by_start": {n: _plain(s._asdict()) for n, s in report.groups.items()},
        "pairs": [_plain(pair._asdict() | {"mean": pair.mean}) for pair in report.pairs],
        "warnings": list(report.spread_warnings),
    }


def _run_figures(run: RunHealth, warnings: Sequence[str]) -> dict[str, Any]:
    step, lowest = run.lowest_loss
    return {
        "run": run.name,
        "step": run.step,
        "start": run.initializer,
        "settings": dict(run.settings),
        "base": run.base,
        "validation_loss": _plain(run.final_loss),
        "lowest_validation_loss": _plain(lowest),
        "lowest_step": None if step < 0 else step,
        "curves": {
            "training_loss": _curve(run.training_loss),
            "validation_loss": _curve(run.validation_loss),
        },
        "prompts": {name: _prompt_figures(prompt) for name, prompt in run.prompts.items()},
        "notes": list(run.notes),
        "warnings": list(warnings),
    }


def _prompt_figures(prompt: PromptHealth) -> dict[str, Any]:
    vocabulary = prompt.vocabulary
    return {
        "length": len(prompt.vectors),
        "embed": prompt.vectors.shape[1],
        "movement": None if prompt.movement is None else _plain(prompt.movement._asdict()),
        "norms": _plain(prompt.norms),
        "vocabulary_norms": None
        if vocabulary is None
        else {f"{quantile:g}": _plain(value) for quantile, value in vocabulary.quantiles.items()},
        "norm_ranks": None if vocabulary is None else _plain(vocabulary.ranks),
        "started_as": [piece or None for piece in prompt.start_pieces],
        "nearest_by_cosine": [_pieces(pieces) for pieces in prompt.by_cosine],
        "nearest_by_l2": [_pieces(pieces) for pieces in prompt.by_distance],
        "cosines": _plain(prompt.cosines),
        "gradient_norms": _curve(prompt.gradient_norms),
        "movements": _curve(prompt.movements),
    }


def _pieces(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    return [_plain(piece._asdict()) for piece in pieces]


def _curve(curve: Curve) -> dict[str, Any]:
    return {"steps": curve.steps.tolist(), "values": _plain(curve.values)}


def _plain(value: Any) -> Any:
    """Returns a value with lists for arrays and None for what is not finite."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
