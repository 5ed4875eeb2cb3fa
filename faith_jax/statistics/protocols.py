"""The protocols by which papers compare scorers and verifiers, beside plain ROC AUC."""

import collections
import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from faith_jax.core.errors import InputError
from faith_jax.core.labels import NOT_SUPPORTED, DialFactLabel, DialFactType, verification_label
from faith_jax.core.table import DASH, Table, figure_text
from faith_jax.core.words import STEEN_PRONOUNS, first_person_count
from faith_jax.statistics.bootstrap import (
    RESAMPLES,
    Interval,
    drawn_counts,
    interval_note,
    percentile_interval,
)
from faith_jax.statistics.estimates import NO_INTERVAL
from faith_jax.statistics.scored_corpora import Corpus


class Figure(NamedTuple):
    """A figure in per cent and its bootstrap interval; NaN = undefined."""

    value: float
    interval: Interval

    @property
    def text(self) -> str:
        """As a table shows it."""
        if math.isnan(self.value):
            return DASH
        return figure_text(self.value, self.interval, 1)


class Draws(NamedTuple):
    """How intervals are drawn: see `faith_jax.statistics.bootstrap`."""

    resamples: int = RESAMPLES
    confidence: float = 0.95
    seed: int = 0


DRAWS = Draws()


UNDEFINED = Figure(math.nan, NO_INTERVAL)
ACCURACY, _MACRO_F1 = "Acc", "F1"
_KINDS = ("non-verifiable", "verifiable")  # by the label


def threshold_table(development: Corpus, test: Corpus, group_field: str = "source") -> Table:
    """Returns BEGIN's table of Nandwani 2023 (table 1), in per cent.

    Each scorer's threshold is the one with the best F1 on the whole development part; precision,
    recall, F1 (of class 1) and accuracy are those of the test part at that threshold, and F1 also
    for each value of `group_field` ("" = no groups). Undefined scores reach no threshold.

    Raises:
      ValueError: for scorers that one part lacks.
      InputError: where a test row lacks the group field.
    """
    _check_same_scorers(development, test)
    groups = np.array(test.field(group_field) if group_field else [])
    names = sorted(set(groups.tolist()))
    labelled = ~np.isnan(test.labels)
    rows = []
    for scorer, scores in test.scores.items():
        defined = ~np.isnan(development.scores[scorer] + development.labels)
        threshold = best_threshold(development.scores[scorer][defined], development.labels[defined])
        calls = scores >= threshold
        figures = _class_figures(test.labels[labelled], calls[labelled], threshold)
        parts = [labelled & (groups == name) for name in names]
        by_group = [_class_figures(test.labels[p], calls[p], threshold)[2] for p in parts]
        rows.append((scorer, threshold, *figures, *by_group))
    columns = ("scorer", "threshold", "P", "R", "F1", "Acc", *(f"F1 {name}" for name in names))
    title = "Threshold of the best f1 on development, figures of test in per cent"
    return Table(title, columns, tuple(rows))


def verifiable_table(development: Corpus, test: Corpus, draws: Draws = DRAWS) -> Table:
    """Returns Gupta 2022's table 3, in per cent with intervals: which claims can be verified (1).

    Of each scorer, development chooses the threshold and whether claims are verifiable at or above
    it or at or below it, by the best macro F1; the paper does not say by which figure it chooses,
    nor which way its scores point. Undefined scores call a claim not verifiable. The row "random"
    calls half of the claims verifiable: the accuracy, and the F1 of the expected counts.

    Raises:
      ValueError: for scorers that one part lacks.
    """
    _check_same_scorers(development, test)
    labelled = ~np.isnan(test.labels)
    labels = test.labels[labelled]
    rows: list[tuple[str, DirectedThreshold, list[Figure]]] = []
    for scorer, scores in test.scores.items():
        cut = directed_threshold(development.scores[scorer], development.labels)
        figures: dict[str, Figure] = {}
        if labels.size and not math.isnan(cut.threshold):
            truth, calls = (
                [_KINDS[int(value)] for value in side]
                for side in (labels, cut.calls(scores[labelled]))
            )
            figures = call_figures(truth, calls, draws)
        rows.append((scorer, cut, [figures.get(name, UNDEFINED) for name in (ACCURACY, *_KINDS)]))
    share = float(labels.mean()) if labels.size else math.nan
    expected = (50.0, *(100 * part / (part + 0.5) for part in (1 - share, share)))
    rows.append(("random", NO_THRESHOLD, [Figure(value, NO_INTERVAL) for value in expected]))
    order = (0, 2, 1)  # the class of those that can be verified comes first
    columns = (ACCURACY, "F1 verifiable", "F1 non-verifiable")
    ends = (f"{name}{end}" for name in columns for end in ("", " low", " high"))
    return Table(
        "Verifiable claims: threshold of the best macro F1 on development (Gupta 2022, table 3)",
        ("scorer", "verifiable", "F1 development", *columns),
        tuple(
            (scorer, *cut.texts, *(figures[place].text for place in order))
            for scorer, cut, figures in rows
        ),
        (interval_note(draws.confidence, draws.resamples),),
        Table(
            "",
            ("scorer", "threshold", "direction", "F1 development", *ends),
            tuple(
                (
                    *(scorer, cut.threshold, cut.direction, cut.macro_f1),
                    *(x for n in order for x in (figures[n].value, *figures[n].interval)),
                )
                for scorer, cut, figures in rows
            ),
        ),
    )


class DirectedThreshold(NamedTuple):
    """Where scores call a row 1, and what development says of it.

    Attributes:
      threshold: of the score; NaN = none.
      direction: "high", if the scores of 1 are at or above the threshold; "low", at or below.
      macro_f1: the mean F1 of both classes on development, in per cent.
    """

    threshold: float
    direction: str
    macro_f1: float

    @property
    def texts(self) -> tuple[str, str]:
        """The threshold and the macro F1, as a table shows them."""
        if math.isnan(self.threshold):
            return DASH, DASH
        sign = "≥" if self.direction == "high" else "≤"
        return f"{sign} {self.threshold:.4g}", f"{self.macro_f1:.1f}"

    def calls(self, scores: np.ndarray) -> np.ndarray:
        """Returns bool [rows]; no undefined score is a 1."""
        return scores >= self.threshold if self.direction == "high" else scores <= self.threshold


NO_THRESHOLD = DirectedThreshold(math.nan, "", math.nan)


def directed_threshold(scores: ArrayLike, labels: ArrayLike) -> DirectedThreshold:
    """Returns the threshold and direction with the best macro F1; of equal ones "high".

    Scores are [rows], labels [rows], 1 or 0; rows where one of them is NaN do not count.
    """
    from sklearn import metrics

    values, truth = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    defined = ~np.isnan(values + truth)
    values, truth = values[defined], truth[defined]
    best = NO_THRESHOLD
    for direction, sign in (("high", 1), ("low", -1)):
        threshold = sign * best_threshold(sign * values, truth, macro=True)
        if math.isnan(threshold):
            return NO_THRESHOLD
        candidate = DirectedThreshold(threshold, direction, 0.0)
        f1 = metrics.f1_score(truth, candidate.calls(values), average="macro", zero_division=0)
        if direction == "high" or 100 * f1 > best.macro_f1 + 1e-9:
            best = candidate._replace(macro_f1=100 * float(f1))
    return best


def _check_same_scorers(development: Corpus, test: Corpus) -> None:
    if set(development.scores) != set(test.scores):
        raise ValueError(
            f"The development part has scores of {', '.join(development.scores)}, the test part of "
            f"{', '.join(test.scores)}."
        )


def best_threshold(scores: ArrayLike, labels: ArrayLike, macro: bool = False) -> float:
    """Returns the score at or above which F1 is best; of several the highest.

    Args:
      scores: [rows], finite.
      labels: [rows], 1 or 0; NaN is returned where a class is missing.
      macro: the mean F1 of both classes instead of class 1's.
    """
    values, truth = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    if len(np.unique(truth)) < 2:
        return math.nan
    order = np.argsort(-values, kind="stable")
    falling = values[order]
    ends = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))
    calls, hits = ends + 1, np.cumsum(truth[order])[ends]
    ones, zeros = truth.sum(), truth.size - truth.sum()
    f1 = 2 * hits / (calls + ones)
    if macro:
        zero_calls = truth.size - calls
        f1 = (f1 + 2 * (zero_calls - (ones - hits)) / (zero_calls + zeros)) / 2
    return float(falling[ends][f1 >= f1.max() - 1e-12][0])  # equal but for rounding


def best_ordered_thresholds(scores: ArrayLike, labels: ArrayLike) -> np.ndarray:
    """Returns the two scores that part three classes in rising order with the best macro F1.

    Args:
      scores: [rows], finite.
      labels: [rows], 0, 1 or 2, the class of the highest scores.

    Returns:
      [2]: at or above the first begins class 1, at or above the second class 2.
    """
    values, truth = np.asarray(scores, np.float64), np.asarray(labels)
    places = np.append(np.unique(values), np.inf)
    # By threshold and class the rows at or above it: [thresholds, 3].
    parts = [np.sort(values[truth == label]) for label in range(3)]
    above = np.stack([part.size - np.searchsorted(part, places) for part in parts], axis=1)
    total = np.bincount(truth, minlength=3)
    low, high = above[:, None], above[None]
    counts = (total - low, low - high, high + 0 * low)  # of each class that is called 0, 1 and 2
    f1 = sum(
        2 * called[..., label] / np.maximum(called.sum(axis=-1) + total[label], 1)
        for label, called in enumerate(counts)
    )
    f1 = np.where(places[:, None] <= places[None], f1, -1.0)
    best = np.unravel_index(int(np.argmax(f1)), f1.shape)
    return places[list(best)]


def _class_figures(labels: np.ndarray, calls: np.ndarray, threshold: float) -> list[float]:
    """Returns precision, recall and F1 of class 1, and accuracy, in per cent."""
    from sklearn import metrics

    if math.isnan(threshold) or not labels.size:
        return [math.nan] * 4
    *figures, _ = metrics.precision_recall_fscore_support(
        labels, calls, labels=[1], zero_division=np.nan
    )
    accuracy = metrics.accuracy_score(labels, calls)
    return [100 * float(figure) for figure in (*(f[0] for f in figures), accuracy)]


def pronoun_table(
    corpora: Mapping[str, Corpus], pronouns: frozenset[str] = STEEN_PRONOUNS
) -> Table:
    """Returns Steen 2023's table 3: correlations with first-person pronouns (Kendall's tau-b).

    A scorer that goes down where the label does not distrusts whoever speaks of themselves. Rows
    without a label, or with an undefined score, are left out of that figure. As in the authors'
    code, a response has a pronoun or has none ("I" in the paper), however often.
    """
    columns: dict[str, dict[str, Any]] = {}
    for name, corpus in corpora.items():
        if not corpus.responses:
            raise InputError(f"{name}: rows without generated_text, in which pronouns are counted.")
        occurs = [first_person_count(text, pronouns) > 0 for text in corpus.responses]
        series = {"label": corpus.labels, **corpus.scores}
        columns[name] = {scorer: _tau(values, occurs) for scorer, values in series.items()}
    names = dict.fromkeys(scorer for column in columns.values() for scorer in column)
    rows = tuple(
        (scorer, *(column.get(scorer, math.nan) for column in columns.values())) for scorer in names
    )
    named = ", ".join(f'"{"I" if word == "i" else word}"' for word in sorted(pronouns))
    title = f"Kendall's tau of labels and scores with having {named} or not (Steen 2023, table 3)"
    undefined = any(math.isnan(value) for row in rows for value in row[1:])
    notes = ("\u2013: no correlation: all values are equal, or all or no responses have one.",)
    return Table(title, ("", *columns), rows, notes if undefined else ())


def _tau(values: np.ndarray, occurs: Sequence[bool]) -> float:
    defined = ~np.isnan(values)
    values, present = values[defined], np.asarray(occurs, int)[defined]
    if values.size < 2 or np.ptp(values) == 0 or np.ptp(present) == 0:
        return math.nan
    from scipy import stats  # takes a second to import

    return float(stats.kendalltau(values, present).statistic)


_THREE = tuple(label.value for label in DialFactLabel)
_TWO = (DialFactLabel.SUPPORTS.value, NOT_SUPPORTED)
_OTHER = "no label"  # what a model says that is none of the labels

Claim = Mapping[str, Any]


def call_figures(
    labels: Sequence[str],
    calls: Sequence[str],
    draws: Draws = DRAWS,
    clusters: Sequence[Hashable] | None = None,
) -> dict[str, Figure]:
    """Returns in per cent accuracy ("Acc"), macro F1 ("F1"), and the F1 of each class by its name.

    Args:
      labels: [rows], the class of each.
      calls: [rows], the class that each is called; "no label" is wrong, and no class.
      draws: of the intervals.
      clusters: [rows], what each is drawn together with; None = alone.

    Macro F1 is over the classes that rows have or are called, in a resample over its own.
    """
    names = sorted({*labels, *calls} - {_OTHER})
    places = {name: place for place, name in enumerate((*names, _OTHER))}
    cells = np.zeros((len(labels), len(names), len(names) + 1), np.float32)
    pairs = [(places[label], places[call]) for label, call in zip(labels, calls, strict=True)]
    cells[np.arange(len(labels)), *np.transpose(pairs)] = 1
    rows = cells.reshape(len(labels), -1)
    drawn = drawn_counts(len(labels), draws.resamples, draws.seed, clusters)
    tables = [counts.astype(np.float32) @ rows for counts in drawn]
    figures = _of_confusions(np.concatenate([rows.sum(axis=0)[None], *tables]), len(names))
    # Of one group all draws are the same, which is no certainty.
    is_drawn = len(set(range(len(labels)) if clusters is None else clusters)) > 1
    return {
        figure: Figure(
            float(values[0]),
            percentile_interval(values[1:], draws.confidence) if is_drawn else NO_INTERVAL,
        )
        for figure, values in zip((ACCURACY, _MACRO_F1, *names), 100 * figures, strict=True)
    }


def _of_confusions(counts: np.ndarray, classes: int) -> np.ndarray:
    """Returns accuracy, macro F1, and F1 by class, [2 + classes, tables], NaN = undefined.

    Counts are [tables, classes * (classes + 1)], by the label and by what is said, last no class.
    """
    tables = counts.astype(np.float64).reshape(-1, classes, classes + 1)
    hits = np.diagonal(tables, axis1=1, axis2=2)
    sizes = tables.sum(axis=2) + tables.sum(axis=1)[:, :classes]
    f1 = np.divide(2 * hits, sizes, out=np.full_like(hits, np.nan), where=sizes > 0)
    accuracy = hits.sum(axis=1) / tables.sum(axis=(1, 2))
    return np.stack([accuracy, np.nanmean(f1, axis=1), *f1.T])


def verification_table(
    claims: Sequence[Claim],
    predictions: Mapping[str, Mapping[str, str]],
    draws: Draws = DRAWS,
    cluster_field: str = "",
) -> Table:
    """Returns accuracy and macro F1 of each system, in per cent, with intervals.

    With three labels (claims that cannot be verified count as NOT ENOUGH INFO), with two (SUPPORTS
    or not), and with three on factual claims alone; over all claims, and over those that people
    wrote and that models generated. A prediction that is no label is wrong, and its class is left
    out of macro F1. Predictions are by system and claim id, of three labels or of two. Claims with
    the same value of `cluster_field` are drawn together.

    Raises:
      InputError: for a claim without a prediction or the field, and where there are no claims.
    """
    if not claims:
        raise InputError("There are no claims to compare predictions with.")
    if cluster_field and (
        lacking := [claim["id"] for claim in claims if cluster_field not in claim]
    ):
        raise InputError(f"{lacking[0]}: the claim has no field {cluster_field!r}.")
    rows: list[tuple[Any, ...]] = []
    tidy: list[tuple[Any, ...]] = []
    for system, by_id in predictions.items():
        missing = [claim["id"] for claim in claims if claim["id"] not in by_id]
        if missing:
            raise InputError(
                f"{system}: {len(missing)} of {len(claims)} claims have no prediction, "
                f"{missing[0]!r} the first."
            )
        for group, chosen in _GROUPS.items():
            if members := [claim for claim in claims if chosen(claim)]:
                figures = _verification_figures(members, by_id, draws, cluster_field)
                lead = system, group, len(members)
                rows.append((*lead, *(figure.text for figure in figures.values())))
                ends = ((figure.value, *figure.interval) for figure in figures.values())
                tidy.append((*lead, *itertools.chain.from_iterable(ends)))
    heads = "system", "claims", "number"
    columns = [f"{part} {figure}" for part in _PARTS for figure in (ACCURACY, _MACRO_F1)]
    named = [f"{column}{end}" for column in columns for end in ("", " low", " high")]
    title = "Claim verification: accuracy and macro F1 in per cent (Gupta 2022, section 5.3)"
    notes = [interval_note(draws.confidence, draws.resamples)]
    if cluster_field:
        notes.append(f"Claims with the same {cluster_field} are drawn together.")
    plain = Table("", (*heads, *named), tuple(tidy))
    return Table(title, (*heads, *columns), tuple(rows), tuple(notes), plain)


def confusion_table(claims: Sequence[Claim], predictions: Mapping[str, Mapping[str, str]]) -> Table:
    """Counts each system's answers on the claims of each label (Gupta 2022, figure 2).

    Figures are per cent of the label's claims, 0 to 100. A row adds up to 100, and more is better
    where label and call are the same. Labels are the three of `verification_table`, and what is
    said may also be none of them; predictions are as there.
    """
    labels = [verification_label(c["response_label"], c["type_label"]) for c in claims]
    calls = {
        system: [_prediction(by_id[claim["id"]], 3) for claim in claims]
        for system, by_id in predictions.items()
    }
    answer_labels = [
        *_THREE,
        *([_OTHER] if any(_OTHER in answers for answers in calls.values()) else []),
    ]
    rows: list[tuple[Any, ...]] = []
    tidy: list[tuple[Any, ...]] = []
    for system, answers in calls.items():
        counts = collections.Counter(zip(labels, answers, strict=True))
        for label in filter(labels.count, _THREE):
            size = labels.count(label)
            shares = [100 * counts[label, call] / size for call in answer_labels]
            rows.append((system, label, size, *(f"{share:.1f}" for share in shares)))
            tidy += [
                (system, label, call, size, counts[label, call], share)
                for call, share in zip(answer_labels, shares, strict=True)
            ]
    title = "Claims of each label by what is said of them, per cent (Gupta 2022, figure 2)"
    plain = Table("", ("system", "label", "said", "claims", "count", "value"), tuple(tidy))
    return Table(title, ("system", "label", "claims", *answer_labels), tuple(rows), (), plain)


_GROUPS: dict[str, Callable[[Claim], bool]] = {
    "all": lambda claim: True,
    "written": lambda claim: claim["data_type"] == "written",
    "generated": lambda claim: claim["data_type"] == "generated",
}
# Of the claims, and the number of labels.
_PARTS: dict[str, tuple[Callable[[Claim], bool], int]] = {
    "3-way": (lambda claim: True, 3),
    "2-way": (lambda claim: True, 2),
    "factual": (lambda claim: claim["type_label"] == DialFactType.FACTUAL.value, 3),
}


def _verification_figures(
    claims: Sequence[Claim], predictions: Mapping[str, str], draws: Draws, cluster_field: str
) -> dict[tuple[str, str], Figure]:
    """Returns the figures by part of the claims and by what they are."""
    by_part: dict[tuple[str, str], Figure] = {}
    for name, (chosen, ways) in _PARTS.items():
        part = [claim for claim in claims if chosen(claim)]
        labels = [verification_label(c["response_label"], c["type_label"], ways) for c in part]
        calls = [_prediction(predictions[claim["id"]], ways) for claim in part]
        clusters = [claim[cluster_field] for claim in part] if cluster_field else None
        figures = call_figures(labels, calls, draws, clusters) if part else {}
        by_part |= {
            (name, figure): figures.get(figure, UNDEFINED) for figure in (ACCURACY, _MACRO_F1)
        }
    return by_part


def _prediction(text: str, ways: int) -> str:
    by_casefold = {label.casefold(): label for label in (*_THREE, *_TWO)}
    label = by_casefold.get(" ".join(text.split()).casefold(), _OTHER)
    if ways == 3:
        return label if label in _THREE else _OTHER
    if label == _OTHER:
        return label
    return label if label in _TWO else NOT_SUPPORTED


class Accuracy(NamedTuple):
    """The share of right calls, its bootstrap interval over rows, and how many rows count."""

    value: float
    interval: Interval
    rows: int


class AccuracyLayout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a table of accuracies looks, and what a paper prints for it.

    Attributes:
      title: of the table.
      headings: what systems and corpora are called.
      corpora: how each is called in the table; those not named keep their names.
      marks: what stands behind figures, by system and corpus.
      published: per cent by system and corpus, as they are called in the table.
      notes: on the figures.
    """

    title: str = "Accuracy with bootstrap intervals"
    headings: tuple[str, str] = ("system", "corpus")
    corpora: Mapping[str, str] = {}
    marks: Mapping[str, Mapping[str, str]] = {}
    published: Mapping[str, Mapping[str, int | float]] = {}
    notes: tuple[str, ...] = ()


def accuracy(
    scores: ArrayLike,
    labels: ArrayLike,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
) -> Accuracy:
    """Returns how often scores call rows as the labels do (Dziri 2022, table 4).

    Scores are [rows], at least 0.5 = 1, NaN = no call; labels [rows], NaN = unknown.
    """
    values, truth = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    defined = ~np.isnan(values + truth)
    hits = ((values[defined] >= 0.5) == (truth[defined] == 1)).astype(np.float64)
    if not hits.size:
        return Accuracy(math.nan, Interval(math.nan, math.nan), 0)
    drawn = [counts @ hits for counts in drawn_counts(hits.size, resamples, seed)]
    interval = percentile_interval(np.concatenate(drawn) / hits.size, confidence)
    return Accuracy(float(hits.mean()), interval, int(hits.size))


def accuracy_table(
    systems: Mapping[str, Mapping[str, Corpus]],
    layout: AccuracyLayout,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
) -> Table:
    """Returns the share of right calls of each system on each corpus, in per cent.

    `systems` has by system and corpus the rows, each with one scorer.
    """
    evaluated = dict.fromkeys(corpus for by_corpus in systems.values() for corpus in by_corpus)
    corpora = {name: layout.corpora.get(name, name) for name in [*layout.corpora, *evaluated]}
    columns = [shown for name, shown in corpora.items() if name in evaluated]
    rows: list[tuple[Any, ...]] = []
    tidy: list[tuple[Any, ...]] = []
    for system, by_corpus in systems.items():
        cells = {}
        for name, corpus in by_corpus.items():
            (scores,) = corpus.scores.values()
            cell = accuracy(scores, corpus.labels, resamples, confidence, seed)
            cells[corpora[name]] = cell
        marks = {c: layout.marks.get(system, {}).get(c, "") for c in columns}
        shown = (_accuracy_text(cells[c], marks[c]) if c in cells else "" for c in columns)
        rows.append((system, *shown))
        if theirs := layout.published.get(system, {}):
            shown = (f"{theirs[c]:.1f}{marks[c]}" if c in theirs else "" for c in columns)
            rows.append((f"{system} (published)", *shown))
        for column in (c for c in columns if c in cells):
            value, interval, count = cells[column]
            share = round(theirs[column] / 100, 6) if column in theirs else None
            tidy.append((system, column, count, value, *interval, share))
    names = (*layout.headings, "rows", "accuracy", "low", "high", "published")
    return Table(
        layout.title,
        (layout.headings[0], *columns),
        tuple(rows),
        (*layout.notes, interval_note(confidence, resamples)),
        Table("", names, tuple(tidy)),
    )


def _accuracy_text(cell: Accuracy, mark: str) -> str:
    if math.isnan(cell.value):
        return "no labels"
    low, high = cell.interval
    return figure_text(100 * cell.value, (100 * low, 100 * high), 1, mark)
