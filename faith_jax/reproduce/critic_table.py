"""Dziri 2022, table 4, in one run: critics trained on one data set, tested on another.

The output folder keeps the pairs of each column (<column>.jsonl), for each row its training and the
calls on each column (<row>/<column>.jsonl), and settings.json, which decides the calls. A further
run with the same settings goes on from there, and may add rows and columns.
"""

import json
import logging
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.core.errors import ConfigError, InputError, counted
from faith_jax.core.kept_settings import (
    SETTINGS,
    check_same,
    checkpoint_state,
    made_folder,
    read_settings_file,
    write_settings,
)
from faith_jax.core.labels import Begin2021Label, NliLabel
from faith_jax.core.outputs import write_text
from faith_jax.core.progress import Progress
from faith_jax.core.rows import read_jsonl
from faith_jax.input.rows import PAIRS
from faith_jax.input.score_input import dataset_rows
from faith_jax.report.tables import rendered
from faith_jax.reproduce.critic_models import (
    CRITIC_TABLE,
    EPOCHS,
    PUBLISHED_SETS,
    ROWS,
    CriticTableOptions,
    check_critics,
    faithful_number,
    trained_critics,
)
from faith_jax.reproduce.reproduce import ENDINGS, of_samples
from faith_jax.runs.evaluate_scores import Evaluation, write_evaluation
from faith_jax.scoring.pair_classifier import PairClassifier, pair_classifier
from faith_jax.statistics.dataset_statistics import Table
from faith_jax.statistics.protocols import Accuracy, critic_accuracy
from faith_jax.statistics.published import PUBLISHED

logger = logging.getLogger("faith_jax")

ZERO_SHOT = "\u2020"
# Each column's task and split; `validation` of MultiNLI is its matched part.
COLUMNS = {
    "MNLI": ("nli_mnli", "validation"),
    "BEGIN": ("begin_2021_classify", "test"),
    "FaithCritic": ("faith_critic", "test"),
}
_AT_ONCE = 256  # pairs classified between two lines of progress


class Cell(NamedTuple):
    """A critic's accuracy on a data set, and how many of its pairs were cut."""

    accuracy: Accuracy
    cut: int


def critic_table(options: CriticTableOptions, output: str) -> str:
    """Trains and tests critics, and returns the table.

    It is written as faith_critic.md, .tex, .csv and .json too.

    Args:
      options: see there.
      output: the folder; with samples, the table's files are named faith_critic_sample.

    Raises:
      FaithJaxError: for a wrong option or critic, for a folder with calls of other settings, and
        where no critic or no data is at hand.
      ProcessError: for a training that failed or was stopped.
    """
    check_critics(options)
    folder = made_folder(output)
    settings = _read_settings(folder / SETTINGS, options)
    pairs, missing = _columns(folder, options)
    # All trainings come first: each is a process that needs the accelerator to itself.
    critics, untrained = trained_critics(folder, options)
    if not critics:
        raise InputError(f"{CRITIC_TABLE}: no data to train a critic on: {_listed(untrained)}.")
    cells: dict[str, dict[str, Cell]] = {}
    for row, critic in critics.items():
        _check_critic(folder, row, critic, settings)
        classify = None
        cells[row] = {}
        for column, whole in pairs.items():
            tested = asked(row, whole)
            path = folder / row / f"{column}.jsonl"
            if path.exists():
                logger.info("%s is kept", path)
            else:
                classify = classify or pair_classifier(
                    critic, ROWS[row].form, max_length=options.max_length
                )
                number = faithful_number(row, classify.label_names)
                path.parent.mkdir(exist_ok=True)
                settings["critics"][row] = _told(critic)
                write_settings(folder, settings)
                write_text(path, _calls(f"{row} on {column}", tested, classify, number))
            calls = [made for _, made in read_jsonl(path)]
            found = critic_accuracy(
                [made["faithful"] for made in calls],
                [pair["faithful"] for pair in tested],
                options.resamples,
                options.seed,
            )
            cells[row][column] = Cell(found, sum(made["cut_tokens"] > 0 for made in calls))
    found_all = _evaluation(cells, critics, missing | untrained, options)
    name = f"{CRITIC_TABLE}_sample" if options.sample else CRITIC_TABLE
    tables = {form: str(folder / f"{name}.{ending}") for form, ending in ENDINGS.items()}
    write_evaluation(found_all, str(folder / f"{name}.json"), tables)
    return rendered(found_all.table)


def _read_settings(path: pathlib.Path, options: CriticTableOptions) -> dict[str, Any]:
    """Returns what the folder's calls were made with, or is to be; refuses other settings."""
    settings: dict[str, Any] = {
        "table": CRITIC_TABLE,
        "sample": options.sample,
        "sets": options.sets,
        "max-length": options.max_length,
    }
    if not path.exists():
        return settings | {"critics": {}}
    before = read_settings_file(path, "critics")
    check_same(path.parent, before, settings, "calls")
    return settings | {"critics": dict(before["critics"])}


def _told(critic: str) -> dict[str, str]:
    path = checkpoint_path(critic).absolute()
    return {"folder": str(path), "state of its files": checkpoint_state(str(path))}


def _check_critic(folder: pathlib.Path, row: str, critic: str, settings: Mapping[str, Any]) -> None:
    """Refuses a critic where calls of another one are kept."""
    kept = [column for column in COLUMNS if (folder / row / f"{column}.jsonl").exists()]
    before = settings["critics"].get(row)
    if kept and before != _told(critic):
        was = (before or {}).get("folder", "an unknown one")
        raise ConfigError(
            f"--output: {folder / row} keeps calls of another critic ({was}, or its files have "
            f"changed), not of {critic}; name another folder, or remove that one."
        )


def _columns(
    folder: pathlib.Path, options: CriticTableOptions
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, str]]:
    """Returns the pairs of each column, and of the columns that are left out the reasons."""
    pairs, missing = {}, {}
    for column, (task, split) in COLUMNS.items():
        path = folder / f"{column}.jsonl"
        try:
            if not path.exists():
                write_text(path, "".join(_pairs(options.task(task), split)))
            pairs[column] = [dict(pair) for _, pair in read_jsonl(path)]
        except InputError as problem:
            missing[f"tested on {column}"] = str(problem).partition(". ")[0]
            logger.warning("%s is left out: %s", column, problem)
    if not pairs:
        raise InputError(f"{CRITIC_TABLE}: no data to test a critic on: {_listed(missing)}.")
    return pairs, missing


def _pairs(task: str, split: str) -> Iterator[str]:
    """Yields the pairs of a task as JSON lines: premise, hypothesis, and whether it is faithful.

    That is null of the generic responses of BEGIN's first release.
    """
    for _, fields in dataset_rows(task, "", split):
        premise, hypothesis = next(pair for pair in PAIRS if pair[0] in fields)
        generic = fields.get("begin_label") == Begin2021Label.GENERIC.value
        pair = {
            "premise": fields[premise],
            "hypothesis": fields[hypothesis],
            "faithful": None if generic else fields["label"] in (1, NliLabel.ENTAILMENT.value),
        }
        yield json.dumps(pair, ensure_ascii=False) + "\n"


def asked(row: str, pairs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the pairs of a column that a row's critic is asked about.

    As in the authors' code (critic_data.py of FaithDial), generic responses are not among them,
    but for a critic of contradiction, which has to find that they are none.

    >>> pairs = [{"faithful": True}, {"faithful": None}]
    >>> asked("MNLI", pairs), asked("DECODE", pairs)
    ([{'faithful': True}], [{'faithful': True}, {'faithful': True}])
    """
    return [
        {**pair, "faithful": pair["faithful"] is not False}
        for pair in pairs
        if row == "DECODE" or pair["faithful"] is not None
    ]


def _calls(
    what: str, pairs: list[dict[str, Any]], classify: PairClassifier, faithful_class: int
) -> str:
    """Returns JSON lines of a critic's call on each pair."""
    lines: list[str] = []
    progress = Progress(what, len(pairs))
    for start in range(0, len(pairs), _AT_ONCE):
        part = [(p["premise"], p["hypothesis"]) for p in pairs[start : start + _AT_ONCE]]
        probabilities, cuts = classify(part)
        calls = probabilities.argmax(axis=1) == faithful_class  # of equal classes the first
        for call, row, cut in zip(calls, probabilities, cuts, strict=True):
            made = {
                "faithful": bool(call),
                "probability": float(row[faithful_class]),
                "cut_tokens": sum(cut.values()),
            }
            lines.append(json.dumps(made) + "\n")
        progress.update(len(lines), force=len(lines) == len(pairs))
    return "".join(lines)


def _evaluation(
    cells: Mapping[str, Mapping[str, Cell]],
    critics: Mapping[str, str],
    missing: Mapping[str, str],
    options: CriticTableOptions,
) -> Evaluation:
    """Returns the table and the figures."""
    is_published = not options.sample and options.sets == PUBLISHED_SETS
    published = PUBLISHED[CRITIC_TABLE].rows if is_published else {}
    columns = [c for c in COLUMNS if any(c in found for found in cells.values())]
    rows: list[tuple[Any, ...]] = []
    tidy: list[tuple[Any, ...]] = []
    for row, found in cells.items():
        rows.append((row, *(_text(row, c, found[c].accuracy) for c in columns)))
        theirs = published.get((row,), {})
        if theirs:
            shown = (f"{theirs[c]:.1f}{_mark(row, c)}" for c in columns)
            rows.append((f"{row} (published)", *shown))
        for column, cell in found.items():
            value, interval, count = cell.accuracy
            figure = theirs[column] / 100 if theirs else None
            tidy.append((row, column, count, value, *interval, int(row != column), figure))
    names = ("trained on", "tested on", "rows", "accuracy", "low", "high", "zero_shot", "published")
    plain = Table("", names, tuple(tidy))
    notes = [*_notes(cells, missing, options)]
    if published:
        notes.append(PUBLISHED[CRITIC_TABLE].note)
    title = "Transfer of critics: accuracy with 95% bootstrap intervals (Dziri 2022, table 4)"
    table = Table(title, ("trained on", *columns), tuple(rows), tuple(notes), plain)
    figures = {
        "sample": options.sample,
        "sets": options.sets,
        "model": options.model,
        "critics": dict(critics),
        "left_out": dict(missing),
        "rows": [dict(zip(names, row, strict=True)) for row in tidy],
    }
    found_all = Evaluation(table, figures, {})
    return of_samples(found_all) if options.sample else found_all


def _mark(row: str, column: str) -> str:
    return "" if row == column else ZERO_SHOT


def _text(row: str, column: str, found: Accuracy) -> str:
    low, high = (f"{100 * end:.1f}" for end in found.interval)
    return f"{100 * found.value:.1f}{_mark(row, column)} ({low}\u2013{high})"


def _notes(
    cells: Mapping[str, Mapping[str, Cell]],
    missing: Mapping[str, str],
    options: CriticTableOptions,
) -> Iterator[str]:
    """Yields what the figures are and what is left out."""
    yield f"{ZERO_SHOT} zero-shot: tested on other data than it was trained on."
    published = options.sets == PUBLISHED_SETS
    yield (
        "A pair is called faithful where the critic's most probable class is entailment, faithful "
        "or not_contradiction; it is faithful where its label is entailment (MNLI), "
        f"{'entailment' if published else 'Fully attributable'} (BEGIN) or faithful (FaithCritic)."
    )
    yield (
        "Tested on MNLI's matched validation pairs, on the test split of BEGIN's "
        + (
            "first release without generic responses (but DECODE's critic, to which these are "
            "not_contradiction), and on FaithCritic's test pairs, all of Wizard of Wikipedia's "
            "responses."
            if published
            else "second release, and on FaithCritic's test pairs, edited responses among them; "
            "published figures, which are of other sets, are not shown."
        )
    )
    own = [row for row in cells if row not in options.critics]
    if own:
        steps = (
            counted(options.train_steps, "step")
            if options.train_steps
            else f"{EPOCHS} epochs of their data"
        )
        yield (
            f"Trained from {options.model}, {steps} in batches of {options.batch_size}: "
            f"{', '.join(own)}."
        )
    given = [f"{row} ({options.critics[row]})" for row in cells if row in options.critics]
    if given:
        yield f"Given critics: {', '.join(given)}."
    yield f"Intervals: percentile bootstrap over pairs, {counted(options.resamples, 'resample')}."
    cut = [
        f"{cell.cut:,} of {cell.accuracy.rows:,} by {row} on {column}"
        for row, found in cells.items()
        for column, cell in found.items()
        if cell.cut
    ]
    if cut:
        yield f"Pairs cut to {options.max_length} tokens: {'; '.join(cut)}."
    if missing:
        yield f"Left out: {_listed(missing)}."


def _listed(reasons: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
