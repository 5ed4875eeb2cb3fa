"""The file of a calibration: what `faith-jax calibrate` writes, and `faith-jax accept` reads."""

import pathlib
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.files import write_json
from faith_jax.core.files.stores import path_of
from faith_jax.core.schema import read_json_as
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.runs.calibration.options import Guarantee
from faith_jax.runs.options import OpenShare
from faith_jax.statistics.calibration.maps import Map
from faith_jax.statistics.scored_corpora import (
    Corpus,
    chosen_scorers,
    is_outside,
    only_fields,
    read_corpora,
)
from faith_jax.statistics.units import AUTO, ROWS

# Beyond these bounds, numbers could become infinite, which JSON cannot hold.
_Finite = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]
_Count = Annotated[int, msgspec.Meta(ge=1)]
FORMAT: Literal["faith_jax calibration 1"] = "faith_jax calibration 1"
DECISIONS = ACCEPT, REJECT, ABSTAIN = ("accept", "reject", "abstain")


def _is_equal(score: float, threshold: float) -> bool:
    """Whether two numbers are the same in float32, as TFDS stores scores."""
    with np.errstate(over="ignore"):
        first, second = np.float32(score), np.float32(threshold)
    return bool(first == second and np.isfinite(first))


class Decider(msgspec.Struct, frozen=True, kw_only=True):
    """The calibration of the scores of a corpus, or of several together."""

    rows: _Count  # with a label and a score, on which the calibration is based
    groups: _Count  # independent groups among the rows
    # Rows are accepted from this score up, or rejected from this score down; None = no threshold
    # has the guarantee.
    accept: _Finite | None = None
    reject: _Finite | None = None
    probabilities: Map  # that a response is faithful, by its score
    sample: Annotated[list[_Finite], msgspec.Meta(min_length=1)]  # one score per group, ascending
    mix: dict[str, int] = {}  # number of the sample's rows by corpus, if there are several

    def __post_init__(self) -> None:
        if self.accept is not None and self.reject is not None and not self.accept > self.reject:
            raise ValueError("a threshold of accept above that of reject")

    def probability(self, score: float) -> float:
        """Returns the probability that a response with this score is faithful."""
        return float(self.probabilities.probabilities(np.array([score]))[0])

    def decide(self, score: float) -> tuple[str, str]:
        """Returns the decision, one of `DECISIONS`, on a response with this score, and a reason."""
        if self.accept is not None and (score >= self.accept or _is_equal(score, self.accept)):
            return ACCEPT, f"score {score:.4g} >= {self.accept:.4g}"
        if self.reject is not None and (score <= self.reject or _is_equal(score, self.reject)):
            return REJECT, f"score {score:.4g} <= {self.reject:.4g}"
        limits = [
            f"accepting from {self.accept:.4g} on" if self.accept is not None else "accepting none",
            f"rejecting up to {self.reject:.4g}" if self.reject is not None else "rejecting none",
        ]
        return ABSTAIN, f"score {score:.4g}: the guarantee covers {' and '.join(limits)}"


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Thresholds and probabilities of a scorer, with what they guarantee."""

    format: Literal["faith_jax calibration 1"]
    scorer: Annotated[str, msgspec.Meta(min_length=1)]  # higher scores = more faithful
    low: _Finite | None = None  # the smallest score; None = unknown
    high: _Finite | None = None  # the largest score; None = unknown
    guarantee: Guarantee
    target: OpenShare  # the largest share of unfaithful responses, for accepting
    reject_target: OpenShare  # the largest share of faithful responses, for rejecting
    confidence: OpenShare  # for each threshold, or for all at once
    simultaneous: bool = False
    cluster_field: str  # rows with the same value of this field depend on each other
    corpora: dict[str, Decider]
    pooled: Decider | None = None  # for all corpora together; None = only one corpus, or left out
    left_out: dict[str, str] = {}  # reasons why a corpus, or all together, has no thresholds

    def __post_init__(self) -> None:
        if not (self.corpora or self.pooled):
            raise ValueError("the thresholds of a corpus, or of several together")

    def promises(self) -> tuple[str, ...]:
        """Returns the guarantees of the thresholds, as sentences."""
        target, reject_target = percent(self.target), percent(self.reject_target)
        if self.guarantee == "conformal_risk_control":
            return (
                f"Guarantee (conformal risk control): of all responses, at most {target} are "
                f"accepted and unfaithful, and at most {reject_target} rejected and faithful, on "
                "average over calibrations. It says nothing of the share among the accepted ones.",
                _SCOPE,
            )
        together = "for all thresholds at once" if self.simultaneous else "for each threshold"
        return (
            f"Guarantee (Learn-then-Test): with {percent(self.confidence)} confidence {together}, "
            f"at most {target} of the accepted responses are unfaithful, and at most "
            f"{reject_target} of the rejected ones are faithful.",
            _SCOPE,
        )


def percent(share: float) -> str:
    """Returns a share in percent, without trailing zeros.

    >>> percent(0.05), percent(0.9975)
    ('5%', '99.75%')
    """
    return f"{100 * share:.6g}%"


_SCOPE = (
    "The shares are of a random response of a random group, so that each group weighs the same. "
    "The guarantee holds for new groups that are exchangeable with the calibration's: the same "
    "system, the same kind of questions and documents, and for pooled thresholds the same mix of "
    "corpora."
)


def read_scores(
    files: Sequence[str], scorer: str, cluster_field: str
) -> tuple[dict[str, Corpus], str]:
    """Returns the corpora of scored files with one scorer ("" = the only one), and its name.

    Raises:
      FaithJaxError: for a bad or missing file, an unknown scorer, or several scorers to choose.
    """
    fields = () if cluster_field in (AUTO, ROWS) else (cluster_field,)
    named = [scorer] if scorer else []
    rows = {path: read_scored_rows(path_of(path), named) for path in files}
    corpora = read_corpora(rows, only_fields(*fields))
    names = list(dict.fromkeys(name for corpus in corpora.values() for name in corpus.scores))
    if not scorer and len(names) > 1:
        raise ConfigError(f"--scorer: the rows have scores of {', '.join(names)}; choose one.")
    scorer = scorer or names[0]
    return chosen_scorers(corpora, (scorer,)), scorer


def mix_of(corpora: Sequence[Corpus], drawn: NDArray[np.intp]) -> dict[str, int]:
    """Returns how many drawn rows each corpus has; `drawn` are numbers over all corpora's rows."""
    ends = np.cumsum([len(corpus.ids) for corpus in corpora])
    counts = np.bincount(np.searchsorted(ends, drawn, side="right"), minlength=len(corpora))
    names = (corpus.name for corpus in corpora)
    return {name: count for name, count in zip(names, counts.tolist(), strict=True) if count}


def check_range(corpus: Corpus, low: float, high: float) -> None:
    """Checks that the scores of a corpus's only scorer lie in its range.

    Raises:
      InputError: names the row, its score and the range.
    """
    ((scorer, scores),) = corpus.scores.items()
    outside = is_outside(scores, low, high)
    if outside.any():
        place = int(np.argmax(outside))
        raise InputError(
            f"{corpus.name}: row {corpus.ids[place]!r}: field 'scores.{scorer}': expected a number "
            f"from {low:g} to {high:g}, the range of this scorer, got {scores[place]:g}; score the "
            "rows again with `faith-jax score`, or give a score of your own another name."
        )


def read_calibration(path: pathlib.Path) -> Calibration:
    """Returns a calibration.

    Raises:
      ConfigError: the file cannot be read, or is not a calibration.
    """
    try:
        return read_json_as(path, Calibration)
    except ConfigError as error:
        raise ConfigError(
            f"{error} A calibration is what faith-jax calibrate --output wrote."
        ) from None


def write_calibration(path: pathlib.Path, calibration: Calibration) -> None:
    """Writes a calibration to a file, whole or not at all."""
    write_json(path, msgspec.to_builtins(calibration))
