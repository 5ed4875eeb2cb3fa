"""The commands that accept responses by their scores: calibrate and accept."""

from faith_jax.core.heavy_imports import quiet_tensorflow
from faith_jax.runs.calibration.options import AcceptOptions, CalibrateOptions


class Calibrate(CalibrateOptions):
    r"""Finds from which score on responses can be accepted, with a guarantee, by labelled scores.

    Reads what `score` wrote, with labels (1 = faithful), and writes a calibration: of each corpus,
    and of all together, a threshold from which on responses are accepted and one up to which they
    are rejected, so that few of them are wrong, and a map from scores to the probability that a
    response is faithful. `accept` applies it to new rows.

    Examples:
      %(prog)s labelled.jsonl --scorer=groundedness --target=0.1 --output=calibration.json
      %(prog)s q2.jsonl qags_c.jsonl --scorer=nli_e_minus_c --target=0.05 --confidence=0.9 \
          --output=calibration.json --figure=accepted.png
      %(prog)s labelled.jsonl --guarantee=conformal_risk_control --target=0.02 \
          --output=calibration.json
    """

    def run(self) -> str:
        from faith_jax.runs.calibration.calibrate import calibrate

        _quiet_for_folders(self.files)
        return str(calibrate(self))


class Accept(AcceptOptions):
    r"""Accepts or rejects responses by a calibration, or abstains, with the reason.

    Reads what `score` wrote of new responses and writes the rows with a decision. Warns where their
    scores do not look like those of the calibration, for which alone the guarantee holds.

    Examples:
      %(prog)s new.jsonl --calibration=calibration.json --corpus=labelled --output=decided.jsonl
      %(prog)s q2.jsonl qags_c.jsonl --calibration=calibration.json --pooled --output=decided.jsonl
    """

    def run(self) -> str:
        from faith_jax.runs.calibration.accept import accept

        _quiet_for_folders(self.files)
        return str(accept(self))


def _quiet_for_folders(files: tuple[str, ...]) -> None:
    from faith_jax.core.files.stores import is_folder

    if any(map(is_folder, files)):
        quiet_tensorflow()
