"""Draws the loss of training runs over their steps.

    python tools/plot_training.py MODEL_DIR... --output LOSS.png

Draws training and validation loss in nats per token, from each run's metrics.jsonl; one panel per
run.
"""

import argparse
import pathlib
import sys
from collections.abc import Sequence

from faith_jax.core.errors import FaithJaxError, InputError
from faith_jax.report.figures import save_curves
from faith_jax.report.panels import CurvePanel, curve_panel
from faith_jax.runs.model_dir import RunLog
from faith_jax.training.metrics import METRICS


def loss_panel(folder: pathlib.Path) -> CurvePanel:
    """Returns the losses of a run.

    Raises:
      InputError: no losses are logged.
    """
    log = RunLog(folder)
    curves = {"training": log.training("loss"), "validation": log.validation("loss")}
    panel = curve_panel(folder.name, "loss, nats a token", curves)
    if not panel.curves:
        raise InputError(f"{folder / METRICS}: no loss is logged there; give a run's MODEL_DIR.")
    return panel


def main(argv: Sequence[str] | None = None) -> int:
    """Draws the picture; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="MODEL_DIR")
    parser.add_argument("--output", required=True, type=pathlib.Path, metavar="PNG")
    options = parser.parse_args(argv)
    try:
        for path in save_curves([loss_panel(run) for run in options.runs], options.output):
            print(path)
    except FaithJaxError as error:
        print(f"plot_training: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
