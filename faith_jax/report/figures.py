"""Pictures of scores: histograms and ROC curves, as PNG files."""

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from faith_jax.errors import ConfigError
from faith_jax.evaluation.roc import roc_auc, roc_curve
from faith_jax.evaluation.scored_corpora import Corpus


def save_histograms(corpora: Mapping[str, Corpus], path: pathlib.Path) -> None:
    """Draws how the scores of faithful and of other responses are distributed.

    A row of panels for each corpus, a column for each scorer.

    Raises:
      ConfigError: where the file cannot be written.
    """
    scorers = _scorers(corpora)
    figure, panels = _panels(len(corpora), len(scorers))
    for line, corpus in zip(panels, corpora.values(), strict=True):
        for panel, scorer in zip(line, scorers, strict=True):
            values = corpus.scores.get(scorer, np.full(len(corpus.ids), np.nan))
            known = ~np.isnan(values)
            edges = np.histogram_bin_edges(values[known], 20) if known.any() else 20
            for label, name in ((1, "faithful"), (0, "not")):
                shown = values[known & (corpus.labels == label)]
                panel.hist(shown, edges, alpha=0.6, label=f"{name} ({len(shown):,})")
            panel.set(title=f"{corpus.name}: {scorer}", xlabel="score", ylabel="responses")
            panel.legend()
    save_figure(figure, path)


def save_roc_curves(corpora: Mapping[str, Corpus], path: pathlib.Path) -> None:
    """Draws the ROC curves of all scorers, a panel for each corpus.

    Raises:
      ConfigError: where the file cannot be written.
    """
    figure, panels = _panels(1, len(corpora))
    for panel, corpus in zip(panels[0], corpora.values(), strict=True):
        panel.plot([0, 1], [0, 1], linestyle=":", color="grey", label="chance")
        for scorer, values in corpus.scores.items():
            known = ~(np.isnan(values) | np.isnan(corpus.labels))
            labels = corpus.labels[known]
            if len(set(labels.tolist())) < 2:
                continue
            curve, area = roc_curve(values[known], labels), roc_auc(values[known], labels)
            panel.plot(curve.x, curve.y, label=f"{scorer} ({100 * area:.1f})")
        panel.set(
            title=corpus.name, xlabel="unfaithful taken for faithful", ylabel="faithful found"
        )
        panel.legend()
    save_figure(figure, path)


def _scorers(corpora: Mapping[str, Corpus]) -> list[str]:
    return list(dict.fromkeys(name for corpus in corpora.values() for name in corpus.scores))


def _panels(rows: int, columns: int) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot.subplots(rows, columns, figsize=(4.5 * columns, 3.8 * rows), squeeze=False)


def save_figure(figure: Any, path: pathlib.Path) -> None:
    """Writes a figure of Matplotlib's as PNG and closes it.

    Raises:
      ConfigError: where the file cannot be written.
    """
    from matplotlib import pyplot

    figure.tight_layout()
    try:
        figure.savefig(path, format="png", dpi=150)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}).") from None
    finally:
        pyplot.close(figure)
