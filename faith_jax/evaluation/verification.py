"""DialFact's tables of claim verification (Gupta 2022, section 5.3), from predicted labels."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from faith_jax.errors import InputError
from faith_jax.evaluation.classification import ClassReport, class_report
from faith_jax.evaluation.dataset_statistics import Table
from faith_jax.labels import NOT_SUPPORTED, DialFactLabel, DialFactType, verification_label

_THREE = tuple(label.value for label in DialFactLabel)
_TWO = (DialFactLabel.SUPPORTS.value, NOT_SUPPORTED)
_OTHER = "no label"  # what a model says that is none of the labels

Claim = Mapping[str, Any]


def verification_table(
    claims: Sequence[Claim], predictions: Mapping[str, Mapping[str, str]]
) -> Table:
    """Returns accuracy and macro F1 of each system, in per cent.

    With three labels (claims that cannot be verified count as NOT ENOUGH INFO), with two (SUPPORTS
    or not), and with three on factual claims alone; over all claims, and over those that people
    wrote and that models generated. A prediction that is no label is wrong, and its class is left
    out of macro F1.

    Args:
      claims: of DialFact, with `id`, `response_label`, `type_label` and `data_type`.
      predictions: for each system the predicted label of each claim by its id, of three or of two.

    Raises:
      InputError: for a claim without a prediction, and where there are no claims.
    """
    if not claims:
        raise InputError("There are no claims to compare predictions with.")
    rows = []
    for system, by_id in predictions.items():
        missing = [claim["id"] for claim in claims if claim["id"] not in by_id]
        if missing:
            raise InputError(
                f"{system}: {len(missing)} of {len(claims)} claims have no prediction, "
                f"{missing[0]!r} the first."
            )
        for group, chosen in _GROUPS.items():
            members = [claim for claim in claims if chosen(claim)]
            if members:
                rows.append((system, group, len(members), *_figures(members, by_id)))
    figures = ("3-way Acc", "3-way F1", "2-way Acc", "2-way F1", "factual Acc", "factual F1")
    columns = ("system", "claims", "number", *figures)
    title = "Claim verification: accuracy and macro F1 in per cent (Gupta 2022, section 5.3)"
    return Table(title, columns, tuple(rows))


_GROUPS: dict[str, Callable[[Claim], bool]] = {
    "all": lambda claim: True,
    "written": lambda claim: claim["data_type"] == "written",
    "generated": lambda claim: claim["data_type"] == "generated",
}


def _figures(claims: Sequence[Claim], predictions: Mapping[str, str]) -> list[float]:
    factual = [c for c in claims if c["type_label"] == DialFactType.FACTUAL.value]
    found = []
    for part, ways in ((claims, 3), (claims, 2), (factual, 3)):
        report = _report(part, predictions, ways)
        found += [100 * report.accuracy, 100 * _macro_f1(report)]
    return found


def _report(claims: Sequence[Claim], predictions: Mapping[str, str], ways: int) -> ClassReport:
    known = _THREE if ways == 3 else _TWO
    labels = [verification_label(c["response_label"], c["type_label"], ways) for c in claims]
    said = [_prediction(predictions[claim["id"]], ways) for claim in claims]
    return class_report(labels, said, (*known, _OTHER))


def _prediction(text: str, ways: int) -> str:
    known = {label.casefold(): label for label in (*_THREE, *_TWO)}
    label = known.get(" ".join(text.split()).casefold(), _OTHER)
    if ways == 3:
        return label if label in _THREE else _OTHER
    if label == _OTHER:
        return label
    return label if label in _TWO else NOT_SUPPORTED


def _macro_f1(report: ClassReport) -> float:
    """Returns the mean F1 of the labels that occur or are predicted, the lack of one left out."""
    values = [report.f1(name) for name in report.classes if name != _OTHER]
    defined = [value for value in values if value == value]
    return sum(defined) / len(defined) if defined else float("nan")
