"""The run `calibrate`: probabilities, and thresholds with a guarantee, from labelled scores.

The thresholds are computed by `statistics.calibration.guarantees`, the probabilities by `.maps`.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from faith_jax.core.errors import ConfigError, InputError, pluralize
from faith_jax.core.files import reserve_outputs
from faith_jax.core.files.stores import path_of
from faith_jax.core.table import Table
from faith_jax.core.types import Direction
from faith_jax.report.figures import save_acceptance
from faith_jax.report.panels import AcceptancePanel
from faith_jax.report.table_pages import render_table
from faith_jax.runs.calibration.options import CalibrateOptions
from faith_jax.runs.calibration.stored import (
    FORMAT,
    Calibration,
    Decider,
    check_range,
    mix_of,
    percent,
    read_scores,
    write_calibration,
)
from faith_jax.scoring.registry import scorer_card, scorer_names
from faith_jax.statistics.auc import area_components, below_chance
from faith_jax.statistics.calibration.guarantees import (
    controlling_threshold,
    one_row_of_each,
    rows_to_control,
    rows_to_test,
    safe_thresholds,
    unit_weights,
    units_to_test,
    widest_pair,
)
from faith_jax.statistics.calibration.maps import CONSTANT, choose_map
from faith_jax.statistics.scored_corpora import pool_corpora, row_notes
from faith_jax.statistics.units import AUTO, Units, units_of

logger = logging.getLogger("faith_jax")

Floats = NDArray[np.float64]
_COLUMNS = ("corpus", "groups", "accept", "reject", "probability", "log loss (nats)")
# The name of all corpora together in the table, which no corpus may have.
_TOGETHER = "all together"
# Points of the figure's curve.
_TARGETS = 60


class _LabelledScores(NamedTuple):
    """The usable rows of a corpus, or of several."""

    name: str  # of the corpus, for display
    scores: Floats  # [rows], higher = more faithful
    labels: Floats  # [rows], 1 = faithful, 0 = not
    units: Units  # which rows depend on each other
    drawn: NDArray[np.intp]  # [units], the number of one row of each unit

    def accepting(self, options: CalibrateOptions, level: float, target: float) -> Floats:
        """Returns the lowest scores at which rows may be accepted, from strict to lenient."""
        return self._find_thresholds(self.scores, self.labels == 0, options, level, target)

    def rejecting(self, options: CalibrateOptions, level: float, target: float) -> Floats:
        """Returns the highest scores at which rows may be rejected, from strict to lenient."""
        # Rejecting is accepting by negated scores, with faithful rows as the errors.
        return -self._find_thresholds(-self.scores, self.labels == 1, options, level, target)

    def _find_thresholds(
        self,
        scores: Floats,
        is_wrong: NDArray[np.bool_],
        options: CalibrateOptions,
        level: float,
        target: float,
    ) -> Floats:
        if options.guarantee == "learn_then_test":
            drawn, seed = self.drawn, (options.seed, 1)
            return safe_thresholds(scores[drawn], is_wrong[drawn], target, level, seed)
        threshold = controlling_threshold(scores, is_wrong, self.units.numbers, target)
        # A stricter threshold has no higher loss, so it has the guarantee too.
        return np.unique(scores[scores >= threshold])[::-1]

    def share(self, rows: NDArray[np.bool_]) -> float:
        """Returns the probability that a random row of a random unit is among `rows` [rows]."""
        return float(np.mean(np.bincount(self.units.numbers, rows * self.weights)))

    @property
    def weights(self) -> Floats:
        """One over the number of rows in each row's unit: [rows]."""
        return unit_weights(self.units.numbers)


@reserve_outputs(
    lambda options: (options.files, {"--output": options.output, "--figure": options.figure})
)
def calibrate(options: CalibrateOptions) -> str:
    """Calibrates labelled scores, writes the outputs, and returns the table as text.

    Raises:
      FaithJaxError: for a bad or missing file, wrong options, or scores that allow no guarantee:
        too few groups, only one class, or inverted labels.
    """
    corpora, scorer = read_scores(options.files, options.scorer, options.cluster_field)
    if _TOGETHER in corpora:
        raise InputError(f"{_TOGETHER!r}: stands for all corpora; give this one another name.")
    low, high = _range_of(scorer)
    for corpus in corpora.values():
        check_range(corpus, low, high)
    parts = [corpus.part(corpus.usable()) for corpus in corpora.values()]
    together = [pool_corpora(_TOGETHER, parts)] if len(parts) > 1 else []
    groups = parts + together
    # Bonferroni: each corpus has an accepting and a rejecting threshold.
    level = (1 - options.confidence) / (2 * len(groups) if options.simultaneous else 1)
    reports, left_out = [], {}
    for corpus in groups:
        units = units_of([corpus], options.cluster_field)
        (scores,) = corpus.scores.values()
        drawn = one_row_of_each(units.numbers, (options.seed, 0))
        rows = _LabelledScores(corpus.name, scores, corpus.labels, units, drawn)
        if problem := _why_unusable(rows, options, level):
            left_out[corpus.name] = problem
        else:
            reports.append(_calibrate_scores(rows, scorer, options, level, (low, high)))
    if not reports:
        raise InputError(" ".join(f"{name}: {problem}" for name, problem in left_out.items()))
    deciders = {report.rows.name: report.decider for report in reports}
    pooled = deciders.pop(_TOGETHER) if together and _TOGETHER not in left_out else None
    if pooled is not None:
        pooled = msgspec.structs.replace(pooled, mix=mix_of(parts, reports[-1].rows.drawn))
    calibration = Calibration(
        format=FORMAT,
        scorer=scorer,
        low=low if math.isfinite(low) else None,
        high=high if math.isfinite(high) else None,
        guarantee=options.guarantee,
        target=options.target,
        reject_target=options.reject_target or options.target,
        confidence=options.confidence,
        simultaneous=options.simultaneous,
        cluster_field=options.cluster_field,
        corpora=deciders,
        pooled=pooled,
        left_out=left_out,
    )
    # Notes on corpora whose rows count as independent only because they have no grounding.
    independent = [
        f"{name}: the rows have no grounding, so that each counts as independent of the others. If "
        "some share a question or a document, or are of several systems, the guarantee does not "
        "hold: give --cluster-field=COLUMN, which says what they share."
        for name, corpus in corpora.items()
        if options.cluster_field == AUTO and not corpus.hashes["grounding"].any()
    ]
    for note in independent:
        logger.warning("%s", note)
    table = _build_threshold_table(calibration, reports, (*row_notes(corpora), *independent))
    if options.figure:
        panels = [_build_acceptance_panel(report.rows, options, level) for report in reports]
        save_acceptance(panels, path_of(options.figure))
    write_calibration(path_of(options.output), calibration)
    return render_table(table)


def _range_of(scorer: str) -> tuple[float, float]:
    """Returns the ends of a scorer's range, infinite if unknown.

    Raises:
      ConfigError: higher scores do not mean more faithful.
    """
    if scorer not in scorer_names():
        return -math.inf, math.inf
    card = scorer_card(scorer)
    if card.direction is not Direction.FAITHFUL:
        raise ConfigError(
            f"--scorer={scorer}: {card.direction}, so that no threshold of it accepts responses; "
            "choose one that `faith-jax scorers` lists with higher = more faithful."
        )
    return card.low, card.high


def _why_unusable(rows: _LabelledScores, options: CalibrateOptions, level: float) -> str:
    """Returns the reason why rows cannot be calibrated, with a remedy; "" = they can."""
    if not rows.labels.size:
        return (
            "no row has a label (1 = faithful, 0 = not) and a score; name the labels' column "
            "'label', or score the rows with --label-column=NAME."
        )
    if np.ptp(rows.labels) == 0:
        return (
            f"all {pluralize(rows.labels.size, 'row')} have the label {rows.labels[0]:.0f}; a "
            "calibration needs faithful rows (1) and others (0)."
        )
    is_tested = options.guarantee == "learn_then_test"
    if is_tested:
        needed = units_to_test(options.target, level)
        why = (
            f"a fifth of them chooses thresholds, and {rows_to_test(options.target, level)} "
            f"accepted ones without a single error show with {percent(1 - level)} confidence that "
            f"at most {percent(options.target)} are unfaithful"
        )
    else:
        # One unit is held out to judge the probabilities.
        needed = max(rows_to_control(options.target), 2)
        why = (
            "1 / (their number + 1) must not be more than the target, and one is held out to judge "
            "probabilities"
        )
    if rows.units.total >= needed:
        return ""
    field = rows.units.field
    noun = f"of rows with the same {field}" if field else "with a label and a score"
    return (
        f"only {pluralize(rows.units.total, 'group' if field else 'row')} {noun}; at least "
        f"{needed} are needed, because {why}. Label more, or ask for a larger --target"
        f"{' or a smaller --confidence' if is_tested else ''}."
    )


class _Calibrated(NamedTuple):
    """The rows of a corpus, their decider, and the log losses of maps by name."""

    rows: _LabelledScores
    decider: Decider
    losses: Mapping[str, float]


def _calibrate_scores(
    rows: _LabelledScores,
    scorer: str,
    options: CalibrateOptions,
    level: float,
    ends: tuple[float, float],
) -> _Calibrated:
    areas = area_components([rows.scores], rows.labels, rows.units.numbers.tolist())
    if figures := below_chance(areas.estimate([1.0])):
        raise InputError(
            f"{rows.name}: rows with the label 0 have higher scores of {scorer} than those with 1 "
            f"({figures}). 1 must mean faithful, and higher scores more faithful; score "
            "--label-values=1=0,0=1 turns labels that mean an error."
        )
    accepting = rows.accepting(options, level, options.target)
    rejecting = rows.rejecting(options, level, options.reject_target or options.target)
    # All of these thresholds have the guarantee, so any pair may be chosen.
    accept, reject = widest_pair(accepting, rejecting, rows.scores, rows.weights)
    fitted, losses = choose_map(rows.scores, rows.labels, rows.units.numbers, *ends, options.seed)
    decider = Decider(
        rows=rows.labels.size,
        groups=rows.units.total,
        accept=None if math.isnan(accept) else accept,
        reject=None if math.isnan(reject) else reject,
        probabilities=fitted,
        sample=np.sort(rows.scores[rows.drawn]).tolist(),
    )
    return _Calibrated(rows, decider, losses)


def _build_acceptance_panel(
    rows: _LabelledScores, options: CalibrateOptions, level: float
) -> AcceptancePanel:
    """Returns a panel of the accepted shares at targets around the requested one."""
    is_tested = options.guarantee == "learn_then_test"
    # Up to the risk of accepting all responses, and a little beyond.
    order = np.argsort(-rows.scores, kind="stable")
    weights = rows.weights / rows.units.total
    accepted, wrong = (
        np.cumsum((weights * counted)[order]) for counted in (np.ones(order.size), rows.labels == 0)
    )
    # The last row of each group of equal scores: they are accepted all together or not at all.
    last = np.append(np.diff(rows.scores[order]) != 0, True)
    risks = (wrong / accepted if is_tested else wrong)[last]
    highest = min(max(1.3 * wrong[-1], 1.3 * options.target), 0.99)
    targets = np.unique([*np.linspace(highest / _TARGETS, highest, _TARGETS), options.target])
    guaranteed = []
    for target in targets:
        thresholds = rows.accepting(options, level, float(target))
        guaranteed.append(rows.share(rows.scores >= thresholds[-1]) if thresholds.size else 0.0)
    return AcceptancePanel(
        title=f"{rows.name}: {rows.units.text()}",
        risk="% unfaithful among the accepted" if is_tested else "% accepted and unfaithful",
        targets=targets,
        guaranteed=np.array(guaranteed),
        risks=risks,
        accepted=accepted[last],
        target=options.target,
    )


def _build_threshold_table(
    calibration: Calibration, reports: Sequence[_Calibrated], row_notes: Sequence[str]
) -> Table:
    cells, notes = [], list[str]()
    for rows, decider, losses in reports:
        accept, reject = decider.accept, decider.reject
        accepted = rejected = "none"
        if accept is not None:
            accepted = f">= {accept:.4g}: {rows.share(rows.scores >= accept):.1%}"
        if reject is not None:
            rejected = f"<= {reject:.4g}: {rows.share(rows.scores <= reject):.1%}"
        best, loss = next(item for item in losses.items() if item[0] != CONSTANT)
        compared = f"{loss:.3f} (constant {losses[CONSTANT]:.3f})"
        cells.append((rows.name, decider.groups, accepted, rejected, best, compared))
        notes += rows.units.notes(rows.name)
        if accept is None:
            notes.append(
                f"{rows.name}: of no threshold could the guarantee be shown for accepting. More "
                "groups, a better scorer or a larger --target can help; --figure draws from which "
                "target on anything is accepted. Once you have chosen a target by these rows, "
                "calibrate with others."
            )
        if reject is None:
            notes.append(
                f"{rows.name}: of no threshold could the guarantee be shown for rejecting, so that "
                "none are rejected; a larger --reject-target can help."
            )
        if loss >= losses[CONSTANT]:
            notes.append(
                f"{rows.name}: on held-out rows, probabilities by the score are no better than the "
                "share of faithful rows."
            )
    notes += [f"{name} is left out: {why}" for name, why in calibration.left_out.items()]
    notes = [*calibration.promises(), *notes, *row_notes]
    return Table(f"Calibration of {calibration.scorer}", _COLUMNS, tuple(cells), tuple(notes))
