"""Pictures of scores: histograms and ROC curves, as PNG files."""

import contextlib
import itertools
import logging
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from faith_jax.core.errors import ConfigError
from faith_jax.report.panels import (
    CLASS_COLOURS,
    CLASSES,
    HistogramPanel,
    Line,
    RocPanel,
    axis_top,
    histogram_panel,
    lines_of,
    roc_panel,
    scorers_of,
)
from faith_jax.statistics.scored_corpora import Corpus

logger = logging.getLogger("faith_jax")


def save_histograms(corpora: Mapping[str, Corpus], path: pathlib.Path) -> list[pathlib.Path]:
    """Draws how the scores of faithful and of other responses are distributed.

    A panel for each corpus and scorer, at most 16 in a file; those that follow are written as
    NAME-2.png and so on.

    Returns:
      The files.

    Raises:
      ConfigError: where a file cannot be written.
    """
    panels = [
        histogram_panel(corpus, scorer)
        for corpus in corpora.values()
        for scorer in scorers_of(corpora)
        if scorer in corpus.scores
    ]
    return save_pages(panels, _draw_histogram, path, columns=4, lines=4, size=(4.2, 3.6))


def save_roc_curves(corpora: Mapping[str, Corpus], path: pathlib.Path) -> list[pathlib.Path]:
    """Draws the ROC curves of the ten best scorers, a panel for each corpus.

    At most six panels are in a file; those that follow are written as NAME-2.png and so on.

    Returns:
      The files.

    Raises:
      ConfigError: where a file cannot be written.
    """
    lines = lines_of(scorers_of(corpora))
    panels = [roc_panel(corpus) for corpus in corpora.values()]

    def draw(axes: Any, panel: RocPanel) -> None:
        _draw_curves(axes, panel, lines)

    return save_pages(panels, draw, path, columns=2, lines=3, size=(8.2, 4.4))


def _draw_curves(axes: Any, panel: RocPanel, lines: Mapping[str, Line]) -> None:
    axes.plot([0, 1], [0, 1], linewidth=1, color="grey", label="chance (50.0)")
    for scorer, curve in panel.curves.items():
        colour, dashes = lines[scorer]
        style: Any = (0, dashes) if dashes else "-"
        name = f"{scorer} ({100 * panel.areas[scorer]:.1f})"
        axes.plot(curve.x, curve.y, color=colour, linestyle=style, label=name)
    title = f"{panel.corpus} ({panel.rows:,} rows)"
    axes.set(title=title, xlabel="unfaithful taken for faithful", ylabel="faithful found")
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    shown = len(panel.curves)
    head = f"best {shown} of {shown + panel.left_out}, by AUC" if panel.left_out else "AUC"
    if not shown:
        head = "one class: no curves"
    axes.legend(title=head, loc="center left", bbox_to_anchor=(1.02, 0.5), handlelength=3.5)


def _draw_histogram(axes: Any, panel: HistogramPanel) -> None:
    # By the number of the bin: edges may be too far apart for an axis.
    places = np.arange(len(panel.edges))
    for name, shares in panel.shares.items():
        filled, colour = name != CLASSES[1], CLASS_COLOURS[name]
        axes.stairs(
            100 * shares,
            places,
            fill=filled,
            color=colour,
            alpha=0.45 if filled else 1,
            linewidth=1.8,
            label=f"{name} ({panel.counts[name]:,})",
        )
    ticks = places[:: max(1, len(places) // 4)]
    axes.set_xticks(ticks, [f"{panel.edges[place]:.3g}" for place in ticks])
    axes.set(title=f"{panel.corpus}\n{panel.scorer}", xlabel="score", ylabel="% of the class")
    # Room for the legend above the bars.
    axes.set(xlim=(0, places[-1]), ylim=(0, 130 * axis_top(panel.shares)))
    axes.legend(loc="upper center", ncols=2, fontsize="small", columnspacing=1)


def save_pages(
    panels: Sequence[Any],
    draw: Callable[[Any, Any], None],
    path: pathlib.Path,
    columns: int,
    lines: int,
    size: tuple[float, float],
) -> list[pathlib.Path]:
    """Draws panels of a size in inches on a grid, as many files as they need.

    Args:
      panels: what is drawn; None = an empty place.
      draw: draws a panel on axes of Matplotlib's.
      path: of the first file.
      columns: of panels in a file, at most.
      lines: of panels in a file, at most.
      size: of a panel, inches.

    Returns:
      The files.

    Raises:
      ConfigError: where a file cannot be written.
    """
    written = []
    for number, page in enumerate(_batches(panels, columns * lines), 1):
        target = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        wide = min(columns, len(page))
        figure, grid = _grid(-(-len(page) // wide), wide, size)
        for axes, panel in itertools.zip_longest(grid.flat, page):
            if panel is None:
                axes.remove()
            else:
                draw(axes, panel)
        save_figure(figure, target)
        written.append(target)
    if len(written) > 1:
        logger.info("%s has %d pages, up to %s", path, len(written), written[-1].name)
    return written


def _batches(values: Iterable[Any], size: int) -> Iterable[list[Any]]:
    rest = iter(values)
    while batch := list(itertools.islice(rest, size)):
        yield batch


def _grid(lines: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    whole = (size[0] * columns, size[1] * lines)
    return pyplot.subplots(lines, columns, figsize=whole, squeeze=False)


def save_figure(figure: Any, path: pathlib.Path) -> None:
    """Writes a figure of Matplotlib's as PNG, whole or not at all, and closes it.

    Raises:
      ConfigError: where the file cannot be written.
    """
    from matplotlib import pyplot

    figure.tight_layout()
    beside = path.with_name(f".{path.name}.partial")
    try:
        figure.savefig(beside, format="png", dpi=150)
        os.replace(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise ConfigError(f"{path}: cannot be written ({error.strerror}).") from None
    finally:
        pyplot.close(figure)
