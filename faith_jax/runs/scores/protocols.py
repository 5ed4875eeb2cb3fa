"""Protocols, which evaluate scored files, and their registry by name.

The protocols of `_OWN` come with the library. Papers and users' packages add theirs by entry points
of "faith_jax.protocols"; a protocol in a user's file is called FILE.py:NAME.
"""

import dataclasses
import functools
import math
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from faith_jax.core.errors import ConfigError, InputError, did_you_mean
from faith_jax.core.files.stores import path_of, reason, storage_errors
from faith_jax.core.table import MARK, Table
from faith_jax.core.user_modules import entry_point_names, load_named
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.runs.options import Comparison, EvaluateOptions, split_names
from faith_jax.scoring.registry import scorer_card, scorer_names
from faith_jax.statistics.auc import area_components, warn_of_turned_labels
from faith_jax.statistics.auc_table import measure_missing_scores
from faith_jax.statistics.bootstrap import Draws
from faith_jax.statistics.intervals import Estimate
from faith_jax.statistics.measures import EMPTY
from faith_jax.statistics.scored_corpora import (
    EVERYTHING,
    Corpus,
    Kept,
    Range,
    chosen_scorers,
    is_outside,
    read_corpora,
    row_notes,
    with_ensembles,
)
from faith_jax.statistics.significance import SIGNIFICANT
from faith_jax.statistics.units import AUTO as AUTO_UNITS
from faith_jax.statistics.units import ROWS, Units

Schema = TypeVar("Schema")
ENTRY_POINTS = "faith_jax.protocols"
_OWN = {
    "auc": "faith_jax.runs.scores.evaluate_scores:AUC",
    "balanced_accuracy": "faith_jax.runs.scores.balanced_accuracy:BALANCED_ACCURACY",
    "hallucinations": "faith_jax.runs.scores.hallucinations:HALLUCINATIONS",
    "systems": "faith_jax.runs.scores.compare_systems:SYSTEMS",
    "thresholds": "faith_jax.runs.scores.thresholds:THRESHOLDS",
}


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The first table of an evaluation, the figures for JSON, and further tables.

    `corpora` are the scored rows by corpus, with the chosen scorers; {} = the files have no scores.
    Further tables are only shown as text, below the first one.
    """

    table: Table
    figures: Mapping[str, Any]
    corpora: Mapping[str, Corpus]
    further: tuple[Table, ...] = ()


@dataclasses.dataclass(frozen=True)
class ReportTables:
    """The tables that a protocol adds to each report, for corpora whose rows have the fields."""

    fields: tuple[str, ...]
    make: Callable[[Mapping[str, Corpus], Comparison], Sequence[Table]]


@dataclasses.dataclass(frozen=True)
class EvaluationProtocol:
    """A way to evaluate scored files.

    Attributes:
      evaluate: takes the paths of the files and the options.
      options: the names of the options, among `EvaluateOptions.OF_SOME_PROTOCOLS`, that this
        protocol reads; any other one that the user gives is an error.
      reads_scores: whether the files have scores, rather than predictions.
      report: the tables that the protocol adds to reports.
    """

    evaluate: Callable[[Sequence[str], EvaluateOptions], Evaluation]
    options: frozenset[str] = frozenset()
    reads_scores: bool = True
    report: ReportTables | None = None

    def __post_init__(self) -> None:
        option_names = EvaluateOptions.OF_SOME_PROTOCOLS
        for name in sorted(self.options - option_names):
            raise ConfigError(f"options: there is no {name!r}.{did_you_mean(name, option_names)}")


def protocol_names() -> list[str]:
    """Returns the names of the protocols of the library and of installed packages."""
    return sorted({*_OWN, *entry_point_names(ENTRY_POINTS)})


def load_protocol(name: str) -> EvaluationProtocol:
    """Returns a protocol, one of `protocol_names()` or FILE.py:NAME.

    Raises:
      ConfigError: there is no such protocol, or it cannot be imported.
    """
    protocol: EvaluationProtocol = load_named(
        name, ENTRY_POINTS, EvaluationProtocol, "--protocol", _OWN
    )
    return protocol


def report_tables() -> list[ReportTables]:
    """Returns the tables that protocols add to each report."""
    protocols = map(load_protocol, protocol_names())
    return [protocol.report for protocol in protocols if protocol.report]


def interval_draws(options: Comparison) -> Draws:
    """Returns the settings of the options for drawing intervals."""
    return Draws(options.resamples, options.confidence, options.seed)


def chosen_corpora(
    files: Sequence[str], options: EvaluateOptions, selection: Kept = EVERYTHING
) -> dict[str, Corpus]:
    """Returns the corpora of scored files with the scorers and ensembles of the options.

    Raises:
      FaithJaxError: for a bad file, an unknown scorer, a wrong ensemble, or a wrong --undefined.
    """
    rows = {path: read_scored_rows(path_of(path), options.score_columns) for path in files}
    corpora = read_corpora(rows, selection)
    ensembles = read_ensembles(options.ensemble)
    for name, ranges in ensembles.items():
        corpora = with_ensembles(
            corpora, {name: tuple(ranges)}, functools.partial(_find_range, ranges)
        )
    chosen = chosen_scorers(corpora, (*options.scorers, *ensembles) if options.scorers else ())
    check_undefined(chosen, options, dict.fromkeys(ensembles, Range(0, 1)))
    return chosen


def read_ensembles(texts: Iterable[str]) -> dict[str, dict[str, Range | None]]:
    """Returns each ensemble's scorers and their ranges (None = not given), by name."""
    ranges_by_ensemble: dict[str, dict[str, Range | None]] = {}
    for text in texts:
        name, _, listed = text.partition("=")
        members = [member.split(":") for member in split_names(listed)]
        try:
            ranges = {s: Range(*map(float, ends)) if ends else None for s, *ends in members}
        except (ValueError, TypeError):
            ranges = {}
        if not name or len(ranges) < 2 or name in ranges_by_ensemble:
            raise ConfigError(
                "--ensemble: expected NAME=SCORER,SCORER, each name once and each scorer as SCORER "
                f"or SCORER:LOW:HIGH, got {text!r}. -SCORER counts low scores as high ones."
            )
        ranges_by_ensemble[name] = ranges
    return ranges_by_ensemble


def _find_range(ranges: Mapping[str, Range | None], scorer: str) -> Range:
    """Returns the given range of a scorer, or the range that its card declares."""
    if (given_range := ranges[scorer]) is not None:
        return given_range
    scorer, low, high = scorer.removeprefix("-"), math.nan, math.nan
    if scorer in scorer_names():
        low, high = scorer_card(scorer).low, scorer_card(scorer).high
    if not math.isfinite(high - low):
        raise ConfigError(
            f"--ensemble: {scorer} has no known finite range; say it: {scorer}:LOW:HIGH, such as "
            f"{scorer}:0:1."
        )
    return Range(low, high)


def ensemble_note(texts: Iterable[str]) -> str:
    """Returns a note that names the scorers of each ensemble of --ensemble."""
    parts = []
    for name, members in read_ensembles(texts).items():
        ranges = {member: _find_range(members, member) for member in members}
        listed = ", ".join(f"{m} ({low:g} to {high:g})" for m, (low, high) in ranges.items())
        parts.append(f"{name} = {listed}")
    return f"Ensembles: the mean of scores mapped from their range to 0 to 1: {'; '.join(parts)}."


def check_undefined(
    corpora: Mapping[str, Corpus],
    options: Comparison,
    ranges: Mapping[str, Range] = types.MappingProxyType({}),
) -> None:
    """Raises a ConfigError if --undefined is outside of the range of a scorer that it counts for.

    Ranges that are not given are those of known scorers, unless other scores are outside of them
    too, as those of another scorer of this name.
    """
    value = undefined_score(options)
    known = set(scorer_names()) if options.undefined is not None else set[str]()
    for corpus in corpora.values() if known else ():
        for scorer, scores in corpus.scores.items():
            if not np.isnan(scores).any() or scorer not in {*known, *ranges}:
                continue
            low, high = ranges.get(scorer) or (scorer_card(scorer).low, scorer_card(scorer).high)
            is_wrong = is_outside(np.array(value), low, high)
            if is_wrong and not is_outside(scores, low, high).any():
                raise ConfigError(
                    f"--undefined={value:g}: {corpus.name} has undefined scores of {scorer}, whose "
                    f"scores are from {low:g} to {high:g}; give a value in this range, or leave "
                    "the scorer out (--scorers=NAMES)."
                )


def undefined_score(options: Comparison) -> float:
    """Returns the value to use for undefined scores; NaN = they stay undefined."""
    return math.nan if options.undefined is None else options.undefined


def counting_undefined(corpora: Mapping[str, Corpus], options: Comparison) -> Mapping[str, Corpus]:
    """Returns the corpora with undefined scores replaced by the value of --undefined, if given."""
    score = undefined_score(options)
    return {name: corpus.counting_undefined(score) for name, corpus in corpora.items()}


def development_notes(parts: Mapping[str, Corpus], options: Comparison) -> tuple[str, ...]:
    """Returns notes on rows of development parts that choose no threshold, and on few rows."""
    counted = counting_undefined(parts, options)
    return row_notes({f"{name} (development)": corpus for name, corpus in counted.items()})


def with_undefined_shares(outcome: Evaluation, meaning: str, options: Comparison) -> Evaluation:
    """Returns an evaluation with a report on undefined scores, as in `auc`.

    A further table has the shares of undefined scores, and notes warn if scorers differ in them: a
    scorer may owe its figures to the rows that it leaves undefined. The corpora must be as read,
    with undefined scores; for `meaning`, see `measure_missing_scores`.
    """
    compared = meaning, options.baseline, options.confidence, options.cluster_field
    missing = measure_missing_scores(outcome.corpora, *compared)
    shares = {label: row for label, row in missing.shares.items() if label != EMPTY}
    if not shares:
        return outcome
    table = outcome.table
    if options.undefined is None:  # the warnings advise to set it
        table = table._replace(notes=(*table.notes, *missing.warnings))
    rows = ((label, *(row.get(n, "") for n in outcome.corpora)) for label, row in shares.items())
    title = "Undefined scores of the rows with a label"
    note = f"{MARK} another share: p \u2264 {SIGNIFICANT:g} by Student's t, with Holm's correction."
    further = Table(title, ("scorer", *outcome.corpora), tuple(rows), (note,))
    figures = {**outcome.figures, "undefined": shares}
    return Evaluation(table, figures, outcome.corpora, (*outcome.further, further))


def cluster_fields(options: Comparison) -> tuple[str, ...]:
    """Returns the field that names the unit of independence, if it is a field of the rows."""
    return () if options.cluster_field in (AUTO_UNITS, ROWS, "") else (options.cluster_field,)


def half_notes(corpora: Mapping[str, Corpus], remedy: str = "") -> Iterator[str]:
    """Yields a warning for each scorer with scores outside 0 to 1, where 0.5 is no threshold."""
    for name, corpus in corpora.items():
        for scorer, scores in corpus.scores.items():
            if is_outside(scores, 0.0, 1.0).any():
                yield (
                    f"{name}: Warning: scores of {scorer} run from {np.nanmin(scores):g} to "
                    f"{np.nanmax(scores):g}, so that 0.5 is no threshold for them{remedy}."
                )


def turned_labels_notes(name: str, parts: Iterable[tuple[Corpus, Units]]) -> Iterator[str]:
    """Yields a warning if a corpus's labels seem to mean the opposite, as in `auc`.

    The parts have the usable rows of some of the corpus's scorers each.
    """
    areas = list[Estimate]()
    for part, units in parts:
        components = area_components([*part.scores.values()], part.labels, units.numbers.tolist())
        areas += map(components.estimate, np.eye(len(part.scores)))
    yield from warn_of_turned_labels(name, areas)


def check_several_rows(ids: Mapping[str, Sequence[str]]) -> None:
    """Raises InputError if no corpus has two rows, given the ids of each corpus's rows."""
    if max(map(len, ids.values()), default=0) == 1:
        name = next(iter(ids))
        raise InputError(
            f"{name}: has only the row {ids[name][0]!r}; an evaluation needs at least two rows, "
            "better twenty or more."
        )


def read_layout(path: str, schema: type[Schema]) -> Schema:
    """Reads the file that --table names.

    Raises:
      ConfigError: the file cannot be read, or does not fit the schema.
    """
    try:
        return msgspec.json.decode(path_of(path).read_bytes(), type=schema)
    except storage_errors() as error:
        raise ConfigError(f"--table: {path}: cannot be read ({reason(error)}).") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"--table: {path}: is not the description of a table: {error}") from None
