"""FaithDial's tables 5 and 8 as text and as figures."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from faith_jax.errors import counted
from faith_jax.evaluation.dataset_statistics import Table
from faith_jax.evaluation.decodings import Cell
from faith_jax.evaluation.published_faithdial import NOTE, SYSTEMS
from faith_jax.evaluation.scored_corpora import few_rows
from faith_jax.report.tables import MARK
from faith_jax.reproduce.faithdial_options import COLUMNS, MODEL_SCORERS, FaithDialOptions
from faith_jax.reproduce.faithdial_systems import CROSS_ENTROPY
from faith_jax.reproduce.reproduce import of_samples
from faith_jax.reproduce.scorers import NEEDS_SPACY, difference, is_missing
from faith_jax.reproduce.table_files import by_column
from faith_jax.runs.evaluate_scores import Evaluation

# By data set that is responded to, training data and system: figures by column.
Cells = Mapping[tuple[str, str, str], Mapping[str, Cell]]


def report(
    cells: Cells,
    by_seed: Sequence[tuple[Any, ...]],
    cut: Mapping[str, int],
    left_out: Sequence[str],
    options: FaithDialOptions,
) -> Evaluation:
    """Returns the table and the figures.

    Args:
      cells: the figures by column, of each data set that is responded to, training data and system.
      by_seed: of each seed: these three, the column, the seed and the value.
      cut: by data set, how many inputs were cut for the system with the most such inputs.
      left_out: what is, in words.
      options: of the run.
    """
    columns = list(dict.fromkeys(name for row in cells.values() for name in row))
    rows: list[tuple[Any, ...]] = []
    tidy: list[tuple[Any, ...]] = []
    shown = False
    differences = _differences(options)
    for key, found in cells.items():
        spread = _spread(key, by_seed)
        rows.append((*key, *(_text(c, found[c], spread) if c in found else "" for c in columns)))
        theirs = {} if options.sample else SYSTEMS.get(key, {})
        theirs = {column: value for column, value in theirs.items() if column not in differences}
        if theirs:
            shown = True
            cells_of_theirs = (_published(theirs.get(column)) for column in columns)
            rows.append((*key[:2], f"{key[2]} (published)", *cells_of_theirs))
        for column, cell in found.items():
            p_value = None if cell.p_value != cell.p_value else cell.p_value
            tidy.append(
                (*key, column, cell.rows, cell.value, *cell.interval, spread.get(column), p_value)
                + (None if p_value is None else int(cell.significant), theirs.get(column))
            )
    first = ("tested_on", "trained_on", "system")
    names = (*first, "column", "responses", "value", "low", "high", "seeds_sd", "p_value")
    plain = Table("", (*names, "significant", "published"), tuple(tidy))
    title = "Systems by training data, with 95% bootstrap intervals (Dziri 2022, tables 5 and 8)"
    if options.limit:
        title += f", first {counted(options.limit, 'row')} of each data set"
    told = [NOTE, *(f"No published {c}: {why}." for c, why in differences.items())]
    notes = (*_notes(cells, cut, left_out, options), *(told if shown else ()))
    table = Table(title, (*first, *columns), tuple(rows), notes, plain)
    figures = {
        "sample": options.sample,
        "models": dict(options.models),
        "rows": by_column(plain),
        "by_seed": by_column(Table("", (*first, "column", "seed", "value"), tuple(by_seed))),
    }
    found_all = Evaluation(table, figures, {})
    return of_samples(found_all) if options.sample else found_all


def _differences(options: FaithDialOptions) -> dict[str, str]:
    """Returns why columns are not to be compared with the paper's."""
    found = {
        column: difference(scorer, options.scorers[scorer])
        for column, (scorer, _) in COLUMNS.items()
        if scorer in options.scorers
    }
    return {column: why for column, why in found.items() if why}


def _spread(key: tuple[str, str, str], by_seed: Sequence[tuple[Any, ...]]) -> dict[str, float]:
    """Returns the standard deviation over seeds by column; nothing of one seed."""
    values: dict[str, list[float]] = {}
    for row in by_seed:
        if row[:3] == key:
            values.setdefault(row[3], []).append(row[5])
    return {column: statistics.stdev(v) for column, v in values.items() if len(v) > 1}


def _text(column: str, cell: Cell, spread: Mapping[str, float]) -> str:
    if cell.value != cell.value:
        return "undefined"
    digits = 2 if column == "BERTScore" else 1
    low, high = (f"{end:.{digits}f}" for end in cell.interval)
    seeds = f" \u00b1{spread[column]:.{digits}f}" if column in spread else ""
    mark = MARK if cell.significant else ""
    return f"{cell.value:.{digits}f}{mark} ({low}\u2013{high}){seeds}"


def _published(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _notes(
    cells: Cells, cut: Mapping[str, int], left_out: Sequence[str], options: FaithDialOptions
) -> Iterator[str]:
    """Yields what the figures are and what is left out."""
    given = (f"{name} = {path}" for name, path in options.models.items())
    yield f"Models: {', '.join(given)}; responses by nucleus sampling with p = 0.6."
    yield (
        "Critic: per cent of responses that it calls unfaithful (lower is better), Q\u00b2, F1 "
        "(the paper's: spaCy's tokens without stop words and punctuation) and TRUE F1 (TRUE's "
        "token F1) in per cent and BERTScore, against the knowledge; BLEU-4 of the corpus in lower "
        "case (0 to 100) and ROUGE-L (F1 of Porter stems, per cent) against the gold response."
    )
    over = ", of each row's responses by all seeds together" if len(options.seeds) > 1 else ""
    resamples = counted(options.resamples, "resample")
    yield f"Intervals: percentile bootstrap over rows{over}, {resamples}."
    if len(options.seeds) > 1:
        yield (
            f"Figures are of {len(options.seeds)} trainings (seeds "
            f"{', '.join(map(str, options.seeds))}); \u00b1 is their standard deviation."
        )
    if CROSS_ENTROPY in options.methods and len(options.methods) > 1:
        yield (
            f"{MARK} differs from the same model trained by cross-entropy alone: two-sided p "
            f"\u2264 0.05 by approximate randomisation of {counted(options.resamples, 'round')}, "
            "with Holm's correction over the methods."
        )
    shown = {column for row in cells.values() for column in row}
    for column, (scorer, _) in COLUMNS.items():
        if column in shown:
            continue
        if scorer in MODEL_SCORERS:
            yield f"{column} is left out: it needs {MODEL_SCORERS[scorer]}."
        elif is_missing(scorer):
            yield f"{column} is left out: it needs {NEEDS_SPACY}."
    if left_out:
        yield f"Left out: {'; '.join(left_out)}."
    missing = [
        f"{' '.join(key)} ({column}: {cell.rows:,} scored)"
        for key, row in cells.items()
        for column, cell in row.items()
        if cell.rows < max(c.rows for c in row.values())
    ]
    if missing:
        yield f"Some responses' scores are undefined, and not in the mean: {'; '.join(missing)}."
    sizes: dict[str, int] = {}
    for (corpus, _, _), row in cells.items():
        sizes[corpus] = max(sizes.get(corpus, 0), *(cell.rows for cell in row.values()))
    seeds = len(options.seeds)  # a row has a response by each
    yield from few_rows({corpus: size // seeds for corpus, size in sizes.items()})
    longer = [f"{counted(rows, 'input')} of {corpus}" for corpus, rows in cut.items() if rows]
    if longer:
        yield (
            f"Cut at {options.training.input_length} tokens, counted for the system with the most: "
            f"{'; '.join(longer)}."
        )
