"""DialFact's figures of verifiers (Gupta 2022, section 5.3)."""

from collections.abc import Sequence

import msgspec
import numpy as np

from faith_jax.core.errors import InputError
from faith_jax.core.labels import DialFactLabel
from faith_jax.core.rows import read_jsonl
from faith_jax.core.schema import Text, converted
from faith_jax.runs.options import EvaluateOptions
from faith_jax.runs.scores.protocols import Evaluation, Protocol, cluster_fields, interval_draws
from faith_jax.statistics.protocols import confusion_table, verification_table


def _evaluate_verifiers(files: Sequence[str], options: EvaluateOptions) -> Evaluation:
    from faith_jax.input.score_input import dataset_rows

    claims = [dict(row.fields) for row in dataset_rows("", options.dataset, options.split)]
    bare = [claim["id"] for claim in claims if not any(map(str.strip, claim["evidence"]))]
    predictions = _predictions(files, bare)
    table = verification_table(
        claims, predictions, interval_draws(options), *cluster_fields(options)
    )
    confusion = confusion_table(claims, predictions)
    tables = {"rows": table, "confusion": confusion}
    figures = {name: (shown.tidy or shown).records() for name, shown in tables.items()}
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


def _predictions(
    files: Sequence[str], without_evidence: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Returns the predicted labels by claim, of each file under its name.

    Files are predictions, or scores of the three labels; claims without evidence, which are not
    scored, are NOT ENOUGH INFO.
    """
    labels_by_file: dict[str, dict[str, str]] = {}
    for path in files:
        by_id = labels_by_file[path] = {}
        bare: Sequence[str] = ()
        for place, fields in read_jsonl(path):
            row: _Prediction | _ScoredClaim
            if "scores" in fields:
                row, bare = converted(fields, place, _ScoredClaim), without_evidence
            else:
                row = converted(fields, place, _Prediction)
            if row.id in by_id:
                raise InputError(f"{place}: field 'id': {row.id!r} occurs twice.")
            by_id[row.id] = row.prediction
        for identifier in bare:
            by_id.setdefault(identifier, DialFactLabel.NOT_ENOUGH_INFO.value)
    return labels_by_file


DIALFACT = Protocol(
    _evaluate_verifiers,
    frozenset(("dataset", "split", "cluster_field", "resamples", "confidence", "seed")),
    reads_scores=False,
)
