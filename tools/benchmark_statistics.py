"""Measures the bootstrap of ROC AUCs beside a loop over scikit-learn, in one run.

DialFact's size in TRUE (8,689 rows) and eight scorers, half of them with ties. The loop is measured
on fewer resamples, which are the same draws, and its time scaled up; both must give the same areas.
"""

import argparse
import time

import numpy as np
from sklearn.metrics import roc_auc_score

from faith_jax.statistics.bootstrap import bootstrap_auc, resampled_counts

_SEED = 0


def main() -> None:
    """Runs the measurement and prints its figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=8689)
    parser.add_argument("--scorers", type=int, default=8)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--loop", type=int, default=25, help="resamples of the loop")
    options = parser.parse_args()
    generator = np.random.default_rng(_SEED)
    labels = (generator.random(options.rows) < 0.385).astype(int)
    scores = generator.normal(size=(options.scorers, options.rows)) + labels
    scores[::2] = np.round(scores[::2], 2)
    bootstrap_auc(scores[:1], labels, 2)  # imports and first touches
    start = time.perf_counter()
    areas = bootstrap_auc(scores, labels, options.resamples, _SEED)
    ours = time.perf_counter() - start
    counts = resampled_counts(options.rows, options.resamples, _SEED)[:, : options.loop]
    draws = [np.repeat(np.arange(options.rows), column) for column in counts.T]
    start = time.perf_counter()
    looped = [[roc_auc_score(labels[rows], row[rows]) for rows in draws] for row in scores]
    loop = (time.perf_counter() - start) * options.resamples / len(draws)
    difference = np.abs(areas[:, : len(draws)] - looped).max()
    print(
        f"bootstrap_auc: {ours:.2f} s; loop over roc_auc_score: {loop:.1f} s ({loop / ours:.0f}x)"
    )
    print(f"largest difference of areas: {difference:.1e}")


if __name__ == "__main__":
    main()
