"""The commands about scored files: evaluate and report."""

import os
from collections.abc import Mapping
from typing import Any

from faith_jax.core.quiet_tensorflow import quiet_tensorflow
from faith_jax.runs.options import EvaluateFiles, ReportOptions, check_draws, listed_names

__all__ = ["Evaluate", "Report", "check_numbers", "listed_names"]


class Evaluate(EvaluateFiles):
    """Makes tables and pictures of scored files.

    Compares scorers by what `score` wrote. Files of one corpus are joined by the ids of their rows.

    Examples:
      %(prog)s q2.jsonl qags_c.jsonl --baseline=token_f1 --markdown=table.md --json=figures.json
      %(prog)s begin_test.jsonl --protocol=begin --development=begin_dev.jsonl
      %(prog)s q2.jsonl --ensemble=both=summac_zs,nli_e_minus_c --baseline=summac_zs
      %(prog)s q2.jsonl begin_2021.jsonl --protocol=pronouns
      %(prog)s npov_scores.jsonl --protocol=npov
      %(prog)s critic_scores.jsonl --protocol=accuracy --scorers=faith_critic_call
      %(prog)s old_system.jsonl new_system.jsonl --protocol=systems --baseline=old_system
      %(prog)s runs/verify/predictions.jsonl --protocol=dialfact --dataset=dialfact/official
    """

    def run(self) -> None:
        if self.protocol == "dialfact" or any(map(os.path.isdir, [*self.files, self.development])):
            quiet_tensorflow()
        from faith_jax.runs.evaluate_scores import evaluate

        print(evaluate(self), end="")


class Report(ReportOptions):
    """Makes one HTML page of scored files.

    Tables with intervals, ROC curves, histograms, and the examples to sort, filter and read, in one
    page that needs no network. With --salience-model, heat maps show where the words of the
    responses come from, in the rows with the lowest score of the first scorer.

    Examples:
      %(prog)s q2.jsonl qags_c.jsonl --output=report.html
      %(prog)s npov.jsonl --salience-model=runs/npov --salience-rows=3 --output=report.html
    """

    def run(self) -> None:
        if any(map(os.path.isdir, self.files)):
            quiet_tensorflow()
        from faith_jax.runs.report import report

        print(report(self))


def check_numbers(given: Mapping[str, Any]) -> None:
    """Checks the numbers of resamples and seeds; see `check_draws`."""
    check_draws(**{name: given[name] for name in ("resamples", "seed") if name in given})
