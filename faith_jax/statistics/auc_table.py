"""ROC AUCs of scorers on several corpora, compared with baselines and with the best scorer.

All scorers of a corpus are compared on the rows for which every scorer has a score. The layout
follows Steen 2023, tables 1 and 2.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from faith_jax.core.errors import ConfigError, join_in_sentence, pluralize
from faith_jax.core.table import MARK, MINUS, Table, difference_text, figure_text, plain
from faith_jax.statistics.auc import area_components, warn_of_turned_labels
from faith_jax.statistics.bootstrap import Interval
from faith_jax.statistics.intervals import (
    NO_INTERVAL,
    Estimate,
    corrected_text,
    mean_estimate,
    name_with_p_value,
    p_value_text,
)
from faith_jax.statistics.measures import EMPTY, UNDEFINED, compare_measures, missing_share
from faith_jax.statistics.scored_corpora import AVERAGE, Corpus
from faith_jax.statistics.significance import (
    SIGNIFICANT,
    Exchanges,
    approximate_randomization,
    delong_test,
    exchanges,
    hanley_mcneil_test,
    holm,
    holm_by_baseline,
)
from faith_jax.statistics.units import AUTO, ROWS, Units, settling_text, units_of

T_TEST, RANDOMIZATION = "t", "approximate_randomization"
TESTS = (T_TEST, RANDOMIZATION, "delong", "hanley_mcneil")
ONE_CLASS, ALL_EQUAL = "one class", "all scores equal"
_SHARE = (0.0, 1.0)  # the ends of an AUC's scale
_ROUNDING = 1e-12  # smaller differences of areas count as ties
_LISTED = 5  # maximum number of scorers that a verdict names one by one
_Pair = tuple[str, str]  # a scorer and its baseline


@dataclasses.dataclass(frozen=True)
class Compared:
    """The difference of a scorer's AUC from a baseline's; above 0, the scorer is better.

    The p-value is two-sided; `corrected` has Holm's correction over all scorers of this baseline
    and column (a corpus, or the average). NaN if there is no interval or the test is undefined.
    """

    difference: float
    interval: Interval
    p_value: float
    corrected: float

    @property
    def better(self) -> bool:
        """Whether the scorer is significantly better after the correction."""
        return self.difference > 0 and self.corrected <= SIGNIFICANT

    @property
    def better_uncorrected(self) -> bool:
        """Whether the scorer is significantly better without the correction."""
        return self.difference > 0 and self.p_value <= SIGNIFICANT

    def text(self) -> str:
        """Returns the difference in points, with its interval and p-value."""
        if math.isnan(self.difference):
            return ""
        low, high = (100 * end for end in self.interval)
        text = difference_text(100 * self.difference, (low, high), 1)
        if not math.isnan(self.p_value):
            text += f", {corrected_text(self.p_value, self.corrected)}"
        return text


@dataclasses.dataclass(frozen=True)
class AucCell:
    """A scorer's AUC on a corpus or on average, and its comparisons by baseline.

    `undefined` is the reason why the AUC is NaN, shown in its place.
    """

    auc: float
    interval: Interval
    compared: Mapping[str, Compared] = dataclasses.field(default_factory=dict)
    undefined: str = ONE_CLASS

    def text(self, baseline: str = "") -> str:
        """Returns the AUC in per cent, marked if it is significantly above the baseline's."""
        if math.isnan(self.auc):
            return self.undefined
        better = baseline in self.compared and self.compared[baseline].better
        low, high = (100 * end for end in self.interval)
        return figure_text(100 * self.auc, (low, high), 1, MARK if better else "")

    def figures(self, baseline: str = "") -> dict[str, Any]:
        """Returns the figures as a dictionary for JSON."""
        compared = self.compared.get(baseline)
        figures = {"auc": self.auc, "low": self.interval.low, "high": self.interval.high}
        p_value = compared.corrected if compared else None
        better = compared is not None and compared.better
        return plain(figures | {"p_value": p_value, "better": better})


@dataclasses.dataclass(frozen=True)
class Best:
    """The scorer with the largest AUC of a corpus, or on average.

    Attributes:
      scorer: the scorer's name; the first in case of a tie.
      others: for each other scorer, how far the best is above it; p-values are corrected over all
        pairs of scorers, because the scores themselves choose the best.
      settling: for each other scorer, text with the number of rows or groups that would settle a
        difference of this size; "" = settled or unknown.
    """

    scorer: str
    others: Mapping[str, Compared]
    settling: Mapping[str, str]

    @property
    def tied(self) -> list[str]:
        """The other scorers with the same AUC."""
        return [name for name, versus in self.others.items() if abs(versus.difference) < _ROUNDING]

    def verdict(self) -> str:
        """Returns text on which scorers the best one beats, and which are undecided (no ties)."""
        parts = []
        better = {name: versus for name, versus in self.others.items() if versus.better}
        if len(better) > _LISTED:
            largest = max(versus.corrected for versus in better.values())
            at_most = p_value_text(largest).replace("p = ", "p \u2264 ")
            parts.append(f"better than {len(better)} others ({at_most})")
        elif better:
            texts = [name_with_p_value(name, versus.corrected) for name, versus in better.items()]
            parts.append(f"better than {join_in_sentence(texts)}")
        undecided = [
            name_with_p_value(name, versus.corrected, self.settling[name])
            for name, versus in self.others.items()
            if name not in {*better, *self.tied}
        ]
        if undecided:
            parts.append(f"undecided against {join_in_sentence(undecided)}")
        return ", ".join(parts)


@dataclasses.dataclass(frozen=True)
class AucTable:
    """The cells of all scorers and corpora.

    Attributes:
      rows: number of used rows, by corpus.
      left_out: number of rows without a label or with an undefined score, by corpus.
      cells: by scorer, then corpus.
      averaged: the corpora of the average, which have both classes.
      average: by scorer; empty with fewer than two averaged corpora.
      tested: for each baseline, the scorers that are compared with it.
      test: one of `TESTS`, for each corpus; averages are compared by t, or for any other test by
        approximate randomization.
      resamples: number of rounds of the randomization, which uses `seed`.
      cluster_field: see `faith_jax.statistics.units.units_of`.
      best: the best scorer, by column; empty with one scorer.
      units: units of the used rows, by corpus.
      missing_shares: shares of undefined scores and of empty answers, by the table row's name (such
        as "coverage: undefined, %") and corpus.
      warnings: on scorers that differ in which rows are undefined, or score all rows alike, and on
        labels that seem to mean the opposite.
      undefined: the score that replaces undefined ones; NaN = none.
    """

    rows: Mapping[str, int]
    left_out: Mapping[str, int]
    cells: Mapping[str, Mapping[str, AucCell]]
    averaged: tuple[str, ...] = ()
    average: Mapping[str, AucCell] = dataclasses.field(default_factory=dict)
    tested: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    test: str = T_TEST
    resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0
    cluster_field: str = AUTO
    best: Mapping[str, Best] = dataclasses.field(default_factory=dict)
    units: Mapping[str, Units] = dataclasses.field(default_factory=dict)
    missing_shares: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    undefined: float = math.nan

    @property
    def baseline(self) -> str:
        """The first baseline; "" = no baseline."""
        return next(iter(self.tested), "")

    @property
    def columns(self) -> list[str]:
        """The corpora, and the average if there is one."""
        return [*self.rows, *([AVERAGE] if self.average else [])]

    def row(self, scorer: str) -> dict[str, AucCell]:
        """Returns a scorer's cells by column."""
        average = {AVERAGE: self.average[scorer]} if self.average else {}
        return {**self.cells[scorer], **average}


def auc_table(
    corpora: Mapping[str, Corpus],
    baselines: str | Mapping[str, Sequence[str]] = "",
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    test: str = T_TEST,
    cluster_field: str = AUTO,
    averaged: Collection[str] | None = None,
    undefined: float = math.nan,
) -> AucTable:
    """Computes the table; `AucTable` describes the arguments that it keeps.

    `baselines` is the scorer that all others are compared with ("" = none), or maps each baseline
    to the scorers that are compared with it; scorers without scores are left out. The average is
    over the `averaged` corpora (None = all) that have both classes.

    Raises:
      ValueError: on corpora with different scorers, and on an unknown baseline or test.
      ConfigError: on Hanley and McNeil's test with clusters, which it cannot respect.
      InputError: if a row lacks the cluster field.
    """
    scorers = shared_scorers(corpora)
    tested = _choose_compared(scorers, baselines)
    _check_test(test, cluster_field)
    used = _select_rows(corpora, undefined)
    ignored = list[str]()
    if test == "hanley_mcneil":
        # Its formula uses only counts of rows and cannot respect units.
        ignored += _warn_of_ignored_units(used, cluster_field)
        cluster_field = ROWS
    units = {name: units_of([rows], cluster_field) for name, rows in used.items()}
    pairs = [(scorer, baseline) for baseline, compared in tested.items() for scorer in compared]
    columns = _compute_columns(used, units, scorers, pairs, test, resamples, seed)
    two_class_names = [
        name
        for name, column in columns.items()
        if (averaged is None or name in averaged) and column.num_defined
    ]
    # With a single corpus, the average would repeat its column.
    average = (
        _average_columns([columns[name] for name in two_class_names])
        if len(two_class_names) > 1
        else None
    )
    missing = measure_missing_scores(
        {name: corpus.only(scorers) for name, corpus in corpora.items()},
        "AUCs are of the {rows} that every scorer has",
        next(iter(tested), ""),
        confidence,
        cluster_field,
    )
    cells = {name: _build_cells(column, pairs, confidence) for name, column in columns.items()}
    candidates = columns | ({AVERAGE: average} if average else {})
    return AucTable(
        rows={name: len(rows.ids) for name, rows in used.items()},
        left_out={n: len(corpus.ids) - len(used[n].ids) for n, corpus in corpora.items()},
        cells={s: {name: of_corpus[s] for name, of_corpus in cells.items()} for s in scorers},
        averaged=tuple(two_class_names),
        average=_build_cells(average, pairs, confidence, "undefined") if average else {},
        tested=tested,
        test=test,
        resamples=resamples,
        confidence=confidence,
        seed=seed,
        cluster_field=cluster_field,
        # The best scorer needs another one to be compared with.
        best={
            name: _find_best_scorer(column, confidence)
            for name, column in candidates.items()
            if column.num_defined > 1
        },
        units=units,
        missing_shares=missing.shares,
        warnings=(
            # Warnings of missing scores advise --undefined, which is pointless once it is given.
            *(missing.warnings if math.isnan(undefined) else ()),
            *ignored,
            *_warn_of_single_classes(used),
            *_warn_of_single_units(used, units),
            *_warn_of_equal_scores(used, columns),
            *_warn_of_turned_labels(columns),
        ),
        undefined=undefined,
    )


def _check_test(test: str, cluster_field: str) -> None:
    if test not in TESTS:
        raise ValueError(f"There is no test {test!r}: choose of {', '.join(TESTS)}.")
    if test == "hanley_mcneil" and cluster_field not in (AUTO, ROWS):
        raise ConfigError(
            "hanley_mcneil takes all rows as independent, and cannot respect the clusters of "
            f"{cluster_field!r}; t, approximate_randomization and delong can."
        )


def _warn_of_ignored_units(corpora: Mapping[str, Corpus], cluster_field: str) -> Iterator[str]:
    """Yields a warning for each corpus whose rows are taken as independent but share a property."""
    for name, corpus in corpora.items():
        units = units_of([corpus], cluster_field)
        if units.field:
            yield (
                f"{name}: Warning: {units.text()} share a {units.field}, but hanley_mcneil, with "
                "the intervals beside it, takes rows as independent; other tests do not (--test)."
            )


def _select_rows(corpora: Mapping[str, Corpus], undefined: float) -> dict[str, Corpus]:
    """Returns each corpus's rows with a label and a score of every scorer.

    AUCs are compared on the same rows: otherwise a scorer could gain by being undefined on hard
    rows. `undefined` is the score that replaces undefined ones; NaN = none.
    """
    filled = {name: corpus.counting_undefined(undefined) for name, corpus in corpora.items()}
    return {name: corpus.part(corpus.usable()) for name, corpus in filled.items()}


def shared_scorers(corpora: Mapping[str, Corpus]) -> list[str]:
    """Returns the scorers of all corpora; raises a ValueError if they differ."""
    first = next(iter(corpora.values()))
    for corpus in corpora.values():
        if set(corpus.scores) != set(first.scores):
            raise ValueError(
                f"The corpus {corpus.name!r} has scores of {', '.join(corpus.scores)}, but "
                f"{first.name!r} of {', '.join(first.scores)}. If they are of the same responses, "
                f'give the rows the same corpus, as by "corpus": "{first.name}" in each (without '
                "it a row's is the file's name); otherwise score all corpora with the same scorers."
            )
    return list(first.scores)


def _choose_compared(
    scorers: Sequence[str], baselines: str | Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Returns, for each baseline, the scorers that are compared with it."""
    if isinstance(baselines, str):
        if baselines and baselines not in scorers:
            raise ValueError(f"The baseline {baselines!r} is none of {', '.join(scorers)}.")
        baselines = {baselines: scorers} if baselines else {}
    return {
        baseline: [scorer for scorer in compared if scorer in scorers and scorer != baseline]
        for baseline, compared in baselines.items()
        if baseline in scorers
    }


class _Column(NamedTuple):
    """The AUCs of a corpus, or of the average.

    Attributes:
      areas: [scorers]; NaN if a class is missing, and for constant scorers.
      constant: the scorers that score all rows alike.
      estimate: maps weights [scorers] to the weighted sum of the areas, such as a difference.
      units: units of the rows; None for the average.
      p_values: p-values of pairs of scorers, by a test other than t.
      exchanged: the exchanges of pairs of scorers, if any were made.
    """

    scorers: Sequence[str]
    areas: np.ndarray
    constant: Collection[str]
    estimate: Callable[[np.ndarray], Estimate]
    units: Units | None = None
    p_values: Mapping[_Pair, float] = {}
    exchanged: Mapping[_Pair, Exchanges] = {}

    def estimate_area(self, scorer: str, baseline: str = "") -> Estimate:
        """Returns a scorer's AUC, less the baseline's if there is one."""
        weights = [float(name == scorer) - float(name == baseline) for name in self.scorers]
        return self.estimate(np.array(weights))

    @property
    def num_defined(self) -> int:
        """The number of scorers with an AUC."""
        return int((~np.isnan(self.areas)).sum())


def _compute_columns(
    used: Mapping[str, Corpus],
    units: Mapping[str, Units],
    scorers: Sequence[str],
    pairs: Sequence[_Pair],
    test: str,
    resamples: int,
    seed: int,
) -> dict[str, _Column]:
    """Returns the AUCs of each corpus with their tests."""
    # Approximate randomization exchanges scores; DeLong's and Hanley and McNeil's tests need that
    # only for the average.
    needs_exchanges = test == RANDOMIZATION or (test != T_TEST and len(used) > 1)
    rounds = resamples if needs_exchanges else 0
    return {
        # With one seed for all, corpora of the same size would be exchanged alike.
        name: _compute_column(rows, units[name], scorers, pairs, test, rounds, (seed, number))
        for number, (name, rows) in enumerate(used.items())
    }


def _compute_column(
    rows: Corpus,
    units: Units,
    scorers: Sequence[str],
    pairs: Sequence[_Pair],
    test: str,
    rounds: int,
    seed: Sequence[int],
) -> _Column:
    """Returns the AUCs of a corpus with their tests; with 0 `rounds` nothing is exchanged."""
    # [scorers, rows]
    scores = np.stack([rows.scores[scorer] for scorer in scorers])
    groups = units.numbers.tolist()
    components = area_components(scores, rows.labels, groups)
    # Ties count half, so constant scores would get an AUC of 0.5 with no uncertainty, as if the
    # scorer had been shown to be no better than chance.
    is_constant = (scores == scores[:, :1]).all(axis=1) & ~np.isnan(components.areas)
    constant = list(itertools.compress(scorers, is_constant))
    areas = np.where(is_constant, math.nan, components.areas)
    column = _Column(scorers, areas, constant, components.estimate, units)
    if test == T_TEST or not column.num_defined:
        return column
    p_values, exchanged = {}, {}
    for scorer, baseline in pairs:
        # A scorer without an AUC is not tested.
        if {scorer, baseline} & {*constant}:
            continue
        pair = rows.scores[scorer], rows.scores[baseline], rows.labels
        # Other tests need exchanges too, to compare averages.
        if rounds:
            exchanged[scorer, baseline] = exchanges(*pair, rounds, seed, groups)
        if test == "delong":
            comparison = delong_test(*pair, groups)
        elif test == "hanley_mcneil":
            comparison = hanley_mcneil_test(*pair)
        else:
            comparison = approximate_randomization([exchanged[scorer, baseline]])
        p_values[scorer, baseline] = comparison.p_value
    return column._replace(p_values=p_values, exchanged=exchanged)


def _average_columns(columns: Sequence[_Column]) -> _Column:
    """Returns the unweighted average of corpora, which are taken as independent."""

    def estimate(weights: np.ndarray) -> Estimate:
        return mean_estimate([column.estimate(weights) for column in columns])

    # [scorers]; NaN if one of the corpora has no AUC: means over different corpora are not
    # comparable.
    areas = np.stack([column.areas for column in columns], axis=1).mean(axis=1)
    p_values = {
        pair: approximate_randomization([c.exchanged[pair] for c in columns]).p_value
        for pair in columns[0].exchanged
        if all(pair in column.exchanged for column in columns)
    }
    return _Column(columns[0].scorers, areas, (), estimate, p_values=p_values)


def _build_cells(
    column: _Column, pairs: Sequence[_Pair], confidence: float, undefined: str = ONE_CLASS
) -> dict[str, AucCell]:
    """Returns the cells of a column by scorer; `undefined` is the reason for NaN AUCs."""
    areas = dict(zip(column.scorers, column.areas.tolist(), strict=True))
    defined = {scorer for scorer, area in areas.items() if not math.isnan(area)}
    differences = {pair: column.estimate_area(*pair) for pair in pairs if defined.issuperset(pair)}
    # Tests other than t give only p-values; intervals are always by t.
    p_values = {
        pair: column.p_values.get(pair, difference.p_value())
        for pair, difference in differences.items()
    }
    corrected = holm_by_baseline(p_values)
    compared: dict[str, dict[str, Compared]] = {scorer: {} for scorer in column.scorers}
    for pair, difference in differences.items():
        scorer, baseline = pair
        interval = difference.difference_interval(confidence, _SHARE)
        compared[scorer][baseline] = Compared(
            difference.value, interval, p_values[pair], corrected[pair]
        )
    return {
        scorer: AucCell(
            area,
            column.estimate_area(scorer).interval(confidence, _SHARE)
            if scorer in defined
            else NO_INTERVAL,
            compared[scorer],
            ALL_EQUAL if scorer in column.constant else undefined,
        )
        for scorer, area in areas.items()
    }


def _find_best_scorer(column: _Column, confidence: float) -> Best:
    order = np.argsort(-column.areas, kind="stable").tolist()
    ranked = [column.scorers[place] for place in order if not np.isnan(column.areas[place])]
    # Any scorer could have come out best, so the correction is over all pairs, not only over the
    # pairs with the best one.
    pairs = list(itertools.combinations(ranked, 2))
    estimates = {pair: column.estimate_area(*pair) for pair in pairs}
    p_values = [estimate.p_value() for estimate in estimates.values()]
    corrected = dict(zip(pairs, holm(p_values).tolist(), strict=True))
    # `ranked` is in descending order, so no difference is below 0.
    margins, settling = {}, {}
    for name in ranked[1:]:
        pair = ranked[0], name
        estimate = estimates[pair]
        interval = estimate.difference_interval(confidence, _SHARE)
        margins[name] = Compared(estimate.value, interval, estimate.p_value(), corrected[pair])
        # An average has no rows or groups of its own that could be added to settle it.
        settling[name] = settling_text(estimate, len(pairs), column.units) if column.units else ""
    return Best(ranked[0], margins, settling)


class MissingScores(NamedTuple):
    """Shares of undefined scores and of empty answers, by the table row's name and corpus."""

    shares: Mapping[str, Mapping[str, str]]
    warnings: Sequence[str]


def measure_missing_scores(
    corpora: Mapping[str, Corpus],
    meaning: str,
    baseline: str,
    confidence: float,
    cluster_field: str,
) -> MissingScores:
    """Compares how often scorers are undefined, since that may flatter a scorer's figures.

    Shares are of the rows with a label. They are compared with the baseline's or, without a
    baseline (""), with the scorer that is defined most often. Warnings include `meaning`, the
    effect on the figures; its {rows} tells how many rows with a label have all scores.
    """
    shares: dict[str, dict[str, str]] = {}
    warnings: list[str] = []
    for name, corpus in corpora.items():
        labelled = corpus.part(~np.isnan(corpus.labels))
        units = units_of([labelled], cluster_field).numbers
        missing = {scorer: np.isnan(scores) for scorer, scores in labelled.scores.items()}
        if any(is_missing.any() for is_missing in missing.values()):
            reference = baseline or min(missing.items(), key=lambda item: item[1].sum())[0]
            baselines = {scorer: reference for scorer in missing if scorer != reference}
            measures = {s: {UNDEFINED: missing_share([values])} for s, values in missing.items()}
            compared = compare_measures(measures, baselines, confidence, units)
            cells = {scorer: row[UNDEFINED] for scorer, row in compared.items()}
            for scorer, cell in cells.items():
                # Each scorer that lacks scores gets a row; if it differs from the reference, also a
                # second row and a warning.
                if cell.value > 0:
                    shares.setdefault(f"{scorer}: {UNDEFINED}", {})[name] = cell.text(1)
                if cell.differs:
                    label = f"{scorer} {MINUS} {reference}: {UNDEFINED}"
                    shares.setdefault(label, {})[name] = cell.difference_text(1)
                    size = f"{corpus.usable().sum():,} of {pluralize(len(labelled.ids), 'row')}"
                    warnings.append(
                        f"{corpus.name}: Warning: {scorer} is undefined in {cell.value:.1f}% of "
                        f"the rows with a label, {reference} in {cells[reference].value:.1f}%"
                        f"{cell.test_text()}. {meaning.format(rows=size)}; --undefined=VALUE "
                        "counts an undefined score as VALUE."
                    )
        # Empty answers are the same for all scorers, so they get one row.
        if (labelled.is_empty == 1).any():
            measures = {"": {EMPTY: missing_share([labelled.is_empty])}}
            cell = compare_measures(measures, {}, confidence, units)[""][EMPTY]
            shares.setdefault(EMPTY, {})[name] = cell.text(1)
    return MissingScores(shares, warnings)


def _warn_of_single_classes(used: Mapping[str, Corpus]) -> Iterator[str]:
    """Yields a warning for each corpus whose rows all have the same label."""
    for name, rows in used.items():
        labels = np.unique(rows.labels)
        if len(labels) == 1:
            yield (
                f"{name}: Warning: all {pluralize(len(rows.ids), 'row')} have the label "
                f"{labels[0]:g}, so that there is no AUC, and {name} is in no average."
            )


def _warn_of_single_units(used: Mapping[str, Corpus], units: Mapping[str, Units]) -> Iterator[str]:
    """Yields a warning for each class of a corpus whose rows are all one unit."""
    for name, rows in used.items():
        for label, kind in ((1, "faithful"), (0, "unfaithful")):
            if len(np.unique(units[name].numbers[rows.labels == label])) == 1:
                yield (
                    f"{name}: its {kind} rows are one unit, of which there is neither an interval "
                    "nor a test, nor of the average."
                )


def _warn_of_equal_scores(
    used: Mapping[str, Corpus], columns: Mapping[str, _Column]
) -> Iterator[str]:
    for name, column in columns.items():
        for scorer in column.constant:
            yield (
                f"{name}: Warning: all scores of {scorer} are {used[name].scores[scorer][0]:g}, "
                "so that its AUC is undefined; check its model and options."
            )


def _warn_of_turned_labels(columns: Mapping[str, _Column]) -> Iterator[str]:
    for name, column in columns.items():
        defined = itertools.compress(column.scorers, ~np.isnan(column.areas))
        yield from warn_of_turned_labels(name, map(column.estimate_area, defined))


CELL_COLUMNS = ("auc", "low", "high", "p_value", "significantly_better")


def auc_rows(table: AucTable) -> Table:
    """Returns AUCs in per cent, with a row for each scorer; for at most one baseline."""
    rows, tidy = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
    for scorer in table.cells:
        # Readable rows: the scorer's AUCs, followed by its differences from the baseline.
        cells = table.row(scorer)
        texts = (
            # The average has no rows of its own, hence the 1.
            cell.text(table.baseline) if table.rows.get(c, 1) else "no labels"
            for c, cell in cells.items()
        )
        rows.append((scorer, *texts))
        if scorer in table.tested.get(table.baseline, ()):
            versus = [cells[c].compared.get(table.baseline) for c in table.columns]
            name = f"{scorer} {MINUS} {table.baseline}"
            rows.append((name, *("" if pair is None else pair.text() for pair in versus)))
        for corpus, cell in cells.items():
            # Machine-readable rows: one figure in each cell.
            counts = table.rows.get(corpus), table.left_out.get(corpus)
            figures = cell.figures(table.baseline)
            is_better = None if figures["p_value"] is None else int(figures["better"])
            values = (figures[name] for name in ("auc", "low", "high", "p_value"))
            tidy.append((scorer, corpus, *counts, *values, is_better))
    for label, texts_by_corpus in table.missing_shares.items():
        rows.append((label, *(texts_by_corpus.get(c, "") for c in table.columns)))
    sizes_by_name = {"rows": table.rows}
    if any(table.left_out.values()):
        sizes_by_name["rows left out"] = table.left_out
    for name, sizes in sizes_by_name.items():
        rows.append((name, *(f"{sizes[c]:,}" if c in sizes else "" for c in table.columns)))
    title = f"ROC AUC in per cent, with {100 * table.confidence:g}% intervals"
    return Table(
        title,
        ("scorer", *table.columns),
        tuple(rows),
        _collect_table_notes(table),
        Table("", ("scorer", "corpus", "rows", "left_out", *CELL_COLUMNS), tuple(tidy)),
    )


def best_rows(table: AucTable) -> Table:
    """Returns how far each column's best scorer is above each other scorer, in points."""
    rows = tuple(
        (column, best.scorer, rival, compared_with.text())
        for column, best in table.best.items()
        for rival, compared_with in best.others.items()
    )
    title = "The best scorer against each other one: difference of ROC AUC in points"
    pairs = max(_num_pairs(best) for best in table.best.values())
    notes = (
        "p by Student's t; corrected by Holm over the pairs of scorers of a corpus "
        f"({pairs}), because the best is chosen by the same rows.",
    )
    columns = ("corpus", "best", "other", "best less other")
    return Table(title, columns, rows, notes, _tidy_best(table))


def _tidy_best(table: AucTable) -> Table:
    """Returns the machine-readable figures of `best_rows`, one in each cell."""
    names = ("difference", "low", "high", "p_value", "p_corrected")
    tidy = tuple(
        (column, best.scorer, rival, pair.difference, *pair.interval, pair.p_value, pair.corrected)
        for column, best in table.best.items()
        for rival, pair in best.others.items()
    )
    return Table("", ("corpus", "best", "other", *names), tidy)


def _num_pairs(best: Best) -> int:
    return math.comb(1 + len(best.others), 2)


def _format_verdicts(table: AucTable) -> Iterator[str]:
    """Yields, for each column, text on which scorer is best and how certain that is."""
    for column, best in table.best.items():
        pairs = _num_pairs(best)
        area = 100 * table.row(best.scorer)[column].auc
        over = f"; corrected over {pluralize(pairs, 'pair')} of scorers" if pairs > 1 else ""
        largest = [best.scorer, *best.tied]
        have = f"{join_in_sentence(largest)} {'have' if best.tied else 'has'}"
        text = ": ".join(filter(None, (f"{have} the largest AUC ({area:.1f})", best.verdict())))
        text += over
        if column == AVERAGE:
            yield f"{column}: Verdict: {text}; on average."
        else:
            units = table.units[column]
            yield f"{column}: {units.verdict(text, units.text())}"


def _collect_table_notes(table: AucTable) -> tuple[str, ...]:
    """Returns the verdicts, warnings, and explanations of the figures and marks."""
    notes = [*_format_verdicts(table), *table.warnings]
    more = "" if table.test != T_TEST else " and p-values"
    notes.append(
        f"Intervals{more}: DeLong's standard error, for groups as Obuchowski 1997, and Student's t."
    )
    for name, units in table.units.items():
        notes += units.notes(name)
    if any(table.left_out.values()):
        notes.append("Left out: rows without a label, or without a defined score of every scorer.")
    if not math.isnan(table.undefined):
        notes.append(f"Undefined scores count as {table.undefined:g}.")
    count = len(table.tested.get(table.baseline, ()))
    if not count:
        return tuple(notes)
    rounds = f"approximate randomization of {pluralize(table.resamples, 'round')}"
    test = {
        "t": "Student's t",
        "delong": "DeLong's test",
        "hanley_mcneil": "Hanley and McNeil's test",
    }.get(table.test, rounds)
    columns = "corpus, and of the average," if table.average else "corpus"
    notes.append(
        f"{MARK} significantly better than {table.baseline} on the same rows: two-sided p \u2264 "
        f"{SIGNIFICANT:g} by {test}, with Holm's correction for the "
        f"{pluralize(count, 'comparison')} of each {columns} on its own."
    )
    if table.test != T_TEST:
        notes.append(
            f"Marks and p-values are by {test}, as --test asks; they decide where the interval, "
            "which is by another procedure, says otherwise."
        )
    is_drawn = table.test == RANDOMIZATION
    if table.average and table.test not in (T_TEST, RANDOMIZATION):
        notes.append(f"Averages are compared by {rounds}.")
        is_drawn = True
    # The smallest p-value is 1 / (rounds + 1), and Holm's first step multiplies it by the number
    # of comparisons.
    least = round(count / SIGNIFICANT) - 1  # fewer rounds allow no significant p-value
    if table.resamples < least and is_drawn:
        notes.append(
            f"So few rounds allow no mark, whatever the scores; at least {least:,} are needed."
        )
    return tuple(notes)


def auc_figures(table: AucTable) -> dict[str, Any]:
    """Returns all figures of a table with at most one baseline, as a dictionary for JSON."""
    settings = ("test", "resamples", "confidence", "seed", "cluster_field")
    baseline = table.baseline
    return {
        "baseline": baseline,
        **{name: getattr(table, name) for name in settings},
        "rows": dict(table.rows),
        "left_out": dict(table.left_out),
        "corpora": {
            scorer: {corpus: cell.figures(baseline) for corpus, cell in cells.items()}
            for scorer, cells in table.cells.items()
        },
        "average": {scorer: cell.figures(baseline) for scorer, cell in table.average.items()},
        "units": {name: units.total for name, units in table.units.items()},
        "best": _tidy_best(table).records(),
        "undefined_and_empty": {label: dict(row) for label, row in table.missing_shares.items()},
    }
