"""The protocol `dialfact`: figures of DialFact's verifiers (Gupta 2022, section 5.3)."""

import collections
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from faith_jax.core.errors import InputError, pluralize
from faith_jax.core.labels import NOT_SUPPORTED, DialFactLabel, DialFactType, verification_label
from faith_jax.core.rows import read_jsonl
from faith_jax.core.schema import Text, convert_row
from faith_jax.core.table import Table
from faith_jax.runs.options import EvaluateOptions
from faith_jax.runs.scores.protocols import (
    Evaluation,
    EvaluationProtocol,
    interval_draws,
)
from faith_jax.statistics.bootstrap import DRAWS, Draws, interval_note
from faith_jax.statistics.classification import (
    ACCURACY,
    MACRO_F1,
    NO_LABEL,
    UNDEFINED,
    Figure,
    call_figures,
)
from faith_jax.statistics.units import AUTO, ROWS, Units, group_rows

_THREE = tuple(label.value for label in DialFactLabel)
_TWO = (DialFactLabel.SUPPORTS.value, NOT_SUPPORTED)
_DIALOGUE = "context_id"  # claims of a dialogue share it

Claim = Mapping[str, Any]


def verification_table(
    claims: Sequence[Claim],
    predictions: Mapping[str, Mapping[str, str]],
    draws: Draws = DRAWS,
    cluster_field: str = AUTO,
) -> Table:
    """Returns accuracy and macro F1 of each system, in per cent, with intervals.

    There are figures with three labels (claims that cannot be verified count as NOT ENOUGH INFO),
    with two (SUPPORTS or not), and with three labels on factual claims only; each for all claims,
    for written and for generated ones. A prediction that is not a label is wrong, but adds no class
    to macro F1. Predictions are by system and claim id, with three labels or two.

    Claims with the same value of `cluster_field` are drawn together: `AUTO` = claims of a dialogue,
    which have the same `context_id`, unless it is blank; `ROWS` or "" = each claim alone.

    Raises:
      InputError: on a claim without a prediction or the field, and if there are no claims.
    """
    if not claims:
        raise InputError("There are no claims to compare predictions with.")
    units = _units_of_claims(claims, cluster_field)
    clusters = dict(zip((claim["id"] for claim in claims), units.numbers.tolist(), strict=True))
    rows: list[tuple[Any, ...]] = []
    tidy: list[tuple[Any, ...]] = []
    for system, by_id in predictions.items():
        missing = [claim["id"] for claim in claims if claim["id"] not in by_id]
        if missing:
            raise InputError(
                f"{system}: {len(missing)} of {len(claims)} claims have no prediction, "
                f"{missing[0]!r} the first."
            )
        for group, belongs in _GROUPS.items():
            if members := [claim for claim in claims if belongs(claim)]:
                figures = _verification_figures(members, by_id, draws, clusters)
                lead = system, group, len(members)
                rows.append((*lead, *(figure.text for figure in figures.values())))
                ends = ((figure.value, *figure.interval) for figure in figures.values())
                tidy.append((*lead, *itertools.chain.from_iterable(ends)))
    heads = "system", "claims", "number"
    columns = [f"{part} {figure}" for part in _PARTS for figure in (ACCURACY, MACRO_F1)]
    named = [f"{column}{end}" for column in columns for end in ("", " low", " high")]
    title = "Claim verification: accuracy and macro F1 in per cent (Gupta 2022, section 5.3)"
    notes = (
        interval_note(draws.confidence, draws.resamples, "groups" if units.field else "claims"),
        *units.notes("The claims", resampled=True),
    )
    plain = Table("", (*heads, *named), tuple(tidy))
    return Table(title, (*heads, *columns), tuple(rows), notes, plain)


def _units_of_claims(claims: Sequence[Claim], field: str) -> Units:
    if field in (ROWS, ""):
        return Units(np.arange(len(claims)))
    if field == AUTO:
        # A claim without a dialogue, such as FEVER's, is a unit of its own.
        keys = [(claim.get(_DIALOGUE), claim["id"]) for claim in claims]
        keys = [(dialogue, "") if dialogue else ("", id_) for dialogue, id_ in keys]
        return group_rows(keys, _DIALOGUE)
    if lacking := [c["id"] for c in claims if c.get(field) in (None, "", [])]:
        raise InputError(
            f"--cluster-field={field}: the claim {lacking[0]!r} has no {field}, like "
            f"{len(lacking):,} of {pluralize(len(claims), 'claim')}."
        )
    values = (claim[field] for claim in claims)
    return group_rows([tuple(v) if isinstance(v, list) else v for v in values], field)


def confusion_table(claims: Sequence[Claim], predictions: Mapping[str, Mapping[str, str]]) -> Table:
    """Counts each system's calls on the claims of each label (Gupta 2022, figure 2).

    Figures are per cent of the label's claims, 0 to 100. A row adds up to 100; higher is better if
    label and call are the same. Labels are the three of `verification_table`, calls may also be
    none of them; predictions are as there.
    """
    labels = [verification_label(c["response_label"], c["type_label"]) for c in claims]
    calls = {
        system: [_parse_prediction(by_id[claim["id"]], 3) for claim in claims]
        for system, by_id in predictions.items()
    }
    answer_labels = [
        *_THREE,
        *([NO_LABEL] if any(NO_LABEL in answers for answers in calls.values()) else []),
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
# A filter of the claims, and the number of labels.
_PARTS: dict[str, tuple[Callable[[Claim], bool], int]] = {
    "3-way": (lambda claim: True, 3),
    "2-way": (lambda claim: True, 2),
    "factual": (lambda claim: claim["type_label"] == DialFactType.FACTUAL.value, 3),
}


def _verification_figures(
    claims: Sequence[Claim],
    predictions: Mapping[str, str],
    draws: Draws,
    clusters: Mapping[str, int],
) -> dict[tuple[str, str], Figure]:
    """Returns the figures by part of the claims and by name (accuracy or macro F1)."""
    by_part: dict[tuple[str, str], Figure] = {}
    for name, (belongs, ways) in _PARTS.items():
        part = [claim for claim in claims if belongs(claim)]
        labels = [verification_label(c["response_label"], c["type_label"], ways) for c in part]
        calls = [_parse_prediction(predictions[claim["id"]], ways) for claim in part]
        groups = [clusters[claim["id"]] for claim in part]
        figures = call_figures(labels, calls, draws, groups) if part else {}
        by_part |= {
            (name, figure): figures.get(figure, UNDEFINED) for figure in (ACCURACY, MACRO_F1)
        }
    return by_part


def _parse_prediction(text: str, ways: int) -> str:
    by_casefold = {label.casefold(): label for label in (*_THREE, *_TWO)}
    label = by_casefold.get(" ".join(text.split()).casefold(), NO_LABEL)
    if ways == 3:
        return label if label in _THREE else NO_LABEL
    if label == NO_LABEL:
        return label
    return label if label in _TWO else NOT_SUPPORTED


def _evaluate_verifiers(files: Sequence[str], options: EvaluateOptions) -> Evaluation:
    from faith_jax.input.score_input import tfds_rows

    claims = [dict(row.fields) for row in tfds_rows(options.dataset, options.split)]
    bare = [claim["id"] for claim in claims if not any(map(str.strip, claim["evidence"]))]
    predictions = {path: read_predictions(path, bare) for path in files}
    table = verification_table(claims, predictions, interval_draws(options), options.cluster_field)
    confusion = confusion_table(claims, predictions)
    figures = {"rows": table.records(), "confusion": confusion.records()}
    return Evaluation(table, figures, {}, (confusion,))


class _Prediction(msgspec.Struct):
    id: Text
    prediction: str  # a model may have answered with nothing


class _ClaimScores(msgspec.Struct):
    claim_supports: float
    claim_refutes: float
    claim_not_enough_info: float


class _ScoredClaim(msgspec.Struct):
    id: Text
    scores: _ClaimScores

    @property
    def prediction(self) -> str:
        """The most probable label."""
        return tuple(DialFactLabel)[int(np.argmax(msgspec.structs.astuple(self.scores)))].value


def read_predictions(path: str, without_evidence: Iterable[str]) -> dict[str, str]:
    """Reads the labels in a file of predictions, or of scores of the three labels, by claim.

    In a file of scores, claims without evidence, which are not scored, are NOT ENOUGH INFO.
    """
    by_id: dict[str, str] = {}
    is_scored = False
    for place, fields in read_jsonl(path):
        row: _Prediction | _ScoredClaim
        if "scores" in fields:
            row, is_scored = convert_row(fields, place, _ScoredClaim), True
        else:
            row = convert_row(fields, place, _Prediction)
        if row.id in by_id:
            raise InputError(f"{place}: field 'id': {row.id!r} occurs twice.")
        by_id[row.id] = row.prediction
    unscored = dict.fromkeys(without_evidence, DialFactLabel.NOT_ENOUGH_INFO.value)
    return unscored | by_id if is_scored else by_id


DIALFACT = EvaluationProtocol(
    _evaluate_verifiers,
    frozenset(("dataset", "split", "cluster_field", "resamples", "confidence", "seed")),
    reads_scores=False,
)


def best_ordered_thresholds(scores: ArrayLike, labels: ArrayLike) -> np.ndarray:
    """Returns the two thresholds that separate three ordered classes with the best macro F1.

    Args:
      scores: [rows], finite.
      labels: [rows], 0, 1 or 2; class 2 should have the highest scores.

    Returns:
      [2]: class 1 is called at or above the first threshold, class 2 at or above the second.
    """
    values, truth = np.asarray(scores, np.float64), np.asarray(labels)
    # No row reaches infinity, so a class may have no calls.
    places = np.append(np.unique(values), np.inf)
    # The number of rows of each class at or above each threshold: [thresholds, 3].
    parts = [np.sort(values[truth == label]) for label in range(3)]
    above = np.stack([part.size - np.searchsorted(part, places) for part in parts], axis=1)
    total = np.bincount(truth, minlength=3)
    # All pairs of a first and a second threshold: [thresholds, thresholds, 3].
    low, high = above[:, None], above[None]
    counts = (total - low, low - high, high + 0 * low)  # rows of each class called 0, 1 and 2
    # Maximising the sum over classes maximises the mean. A class without rows and calls has no
    # hits: divided by 1, it adds 0.
    f1 = sum(
        2 * called[..., label] / np.maximum(called.sum(axis=-1) + total[label], 1)
        for label, called in enumerate(counts)
    )
    # -1 is below any F1, so a pair in the wrong order is never best.
    f1 = np.where(places[:, None] <= places[None], f1, -1.0)
    best = np.unravel_index(int(np.argmax(f1)), f1.shape)
    return places[list(best)]
