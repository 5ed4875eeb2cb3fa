"""Pictures as PNG files: histograms, ROC curves, curves over steps, heat maps of salience."""

import itertools
import logging
import pathlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from faith_jax.core.errors import ConfigError
from faith_jax.core.files import atomic_file, report_write_errors
from faith_jax.core.files.whole import stream_kind
from faith_jax.core.table import printable
from faith_jax.report.panels import (
    CLASS_COLOURS,
    CLASSES,
    AcceptancePanel,
    CurvePanel,
    HistogramPanel,
    Line,
    RocPanel,
    histogram_panels,
    lines_of,
    roc_panel,
    scorers_of,
)
from faith_jax.report.salience import STAR, SaliencePicture, is_low
from faith_jax.statistics.scored_corpora import Corpus

logger = logging.getLogger("faith_jax")

_CURVE_COLUMNS = 3
# In inches: a cell of a heat map, and the largest map; in a larger one, cells shrink.
_CELL, _LARGEST = 0.24, 40.0
_LABEL = 24  # characters of a word beside a heat map
_MARKED = "#b34f00"


def save_histograms(corpora: Mapping[str, Corpus], path: pathlib.Path) -> list[pathlib.Path]:
    """Draws how the scores of faithful and of other responses are distributed.

    There is a panel for each corpus and scorer, at most 16 in a file; see `save_pages`.
    """
    panels = histogram_panels(corpora)
    return save_pages(panels, _draw_histogram, path, columns=4, lines=4, size=(4.2, 3.6))


def _draw_histogram(axes: Any, panel: HistogramPanel) -> None:
    # Use bin numbers as positions: edges may be too far apart for an axis.
    places = np.arange(len(panel.edges))
    for name, shares in panel.shares.items():
        filled, colour = name != CLASSES[1], CLASS_COLOURS[name]
        style: dict[str, Any] = {"fill": filled, "color": colour, "alpha": 0.45 if filled else 1}
        label = f"{name} ({panel.counts[name]:,})"
        axes.stairs(100 * shares, places, label=label, linewidth=1.8, **style)
    ticks = places[:: max(1, len(places) // 4)]
    axes.set_xticks(ticks, [f"{panel.edges[place]:.3g}" for place in ticks])
    title = f"{_plain_label(panel.corpus)}\n{_plain_label(panel.scorer)}"
    axes.set(title=title, xlabel="score", ylabel="% of the class")
    # Room for the legend above the bars.
    axes.set(xlim=(0, places[-1]), ylim=(0, 130 * panel.top))
    axes.legend(loc="upper center", ncols=2, fontsize="small", columnspacing=1)


def save_roc_curves(corpora: Mapping[str, Corpus], path: pathlib.Path) -> list[pathlib.Path]:
    """Draws the ROC curves of the ten best scorers.

    There is a panel for each corpus, at most six in a file; see `save_pages`.
    """
    lines = lines_of(scorers_of(corpora))
    panels = [roc_panel(corpus) for corpus in corpora.values()]

    def draw(axes: Any, panel: RocPanel) -> None:
        axes.plot([0, 1], [0, 1], linewidth=1, color="grey", label="chance (50.0)")
        for scorer, curve in panel.curves.items():
            label = f"{_plain_label(scorer)} ({100 * panel.areas[scorer]:.1f})"
            axes.plot(*curve, label=label, **_build_line_style(lines[scorer]))
        title = f"{_plain_label(panel.corpus)} ({panel.rows:,} rows)"
        axes.set(title=title, xlabel="unfaithful taken for faithful", ylabel="faithful found")
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        count = len(panel.curves)
        head = f"best {count} of {count + panel.left_out}, by AUC" if panel.left_out else "AUC"
        if not count:
            head = "no curves: one class, or equal scores"
        axes.legend(title=head, loc="center left", bbox_to_anchor=(1.02, 0.5), handlelength=3.5)

    return save_pages(panels, draw, path, columns=2, lines=3, size=(8.2, 4.4))


def _build_line_style(line: Line) -> dict[str, Any]:
    return {"color": line.colour, "linestyle": (0, line.dashes) if line.dashes else "-"}


def save_curves(panels: Sequence[CurvePanel], path: pathlib.Path) -> list[pathlib.Path]:
    """Draws curves over steps, four lines of three panels in a file; each run starts a new line.

    See `save_pages`.
    """
    places: list[CurvePanel | None] = []
    for _, panels_of_run in itertools.groupby(panels, key=lambda panel: panel.run):
        places += [None] * (-len(places) % _CURVE_COLUMNS)
        places += panels_of_run
    size = (6.4, 3.4)
    return save_pages(places, _draw_steps, path, columns=_CURVE_COLUMNS, lines=4, size=size)


def _draw_steps(axes: Any, panel: CurvePanel) -> None:
    for name, curve in panel.curves.items():
        marker = "." if len(curve.steps) < 30 else ""
        style = _build_line_style(panel.lines[name])
        axes.plot(curve.steps, curve.values, marker=marker, label=_plain_label(name), **style)
    if panel.logarithmic:
        axes.set_yscale("log")
    axes.locator_params(axis="x", integer=True)
    axes.set(xlabel="step", ylabel=panel.quantity)
    axes.set_title(_plain_label(panel.title), fontsize="medium", wrap=True)
    # Place the legend beside the curves, so that it does not cover their ends.
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.01, 0.5))


def save_acceptance(panels: Sequence[AcceptancePanel], path: pathlib.Path) -> list[pathlib.Path]:
    """Draws the share of accepted responses at each risk, six panels in a file.

    See `save_pages`.
    """

    def draw(axes: Any, panel: AcceptancePanel) -> None:
        style: dict[str, Any] = {"linewidth": 1.8, "drawstyle": "steps-post"}
        style |= {"label": "with the guarantee", "color": CLASS_COLOURS[CLASSES[0]]}
        axes.plot(100 * panel.targets, 100 * panel.guaranteed, **style)
        observed = "as observed in the calibration rows, not guaranteed"
        risks, accepted = 100 * panel.risks, 100 * panel.accepted
        axes.plot(risks, accepted, label=observed, color="grey", linewidth=1)
        target = f"the target, {100 * panel.target:.6g}%"
        colour = CLASS_COLOURS[CLASSES[1]]
        axes.axvline(100 * panel.target, label=target, color=colour, linestyle=":")
        axes.set_title(_plain_label(panel.title), fontsize="medium")
        axes.set(xlabel=panel.risk, ylabel="% of the responses accepted")
        axes.set(xlim=(0, 100 * panel.targets[-1]), ylim=(0, 102))
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), fontsize="small")

    return save_pages(panels, draw, path, columns=2, lines=3, size=(6.0, 4.6))


def _plain_label(text: str) -> str:
    """Returns a text that Matplotlib shows literally, also in a legend.

    Matplotlib reads dollar signs as mathematics, and hides names that begin with "_" in legends.
    """
    return (" " * text.startswith("_") + printable(text)).replace("$", r"\$")


def save_heat_map(picture: SaliencePicture, path: pathlib.Path) -> None:
    """Draws a salience map as PNG, with contributions at the side and attributions on top.

    Words with a low value are labelled in red, and foreign words of the response also have a star.
    A file that cannot be written is a ConfigError.
    """
    values = picture.salience.values
    rows, columns = values.shape
    cell = min(_CELL, _LARGEST / max(rows, columns, 1))
    size = (max(6.0, columns * cell + 3.5), max(3.5, rows * cell + 3.0))
    figure, grid = _import_pyplot().subplots(
        2, 3, figsize=size, squeeze=False,
        width_ratios=(1, max(columns, 4), 0.7), height_ratios=(1, max(rows, 4)),
    )  # fmt: skip
    for empty in (grid[0, 0], grid[0, 2]):
        empty.remove()
    top, side, middle = grid[0, 1], grid[1, 0], grid[1, 1]
    style: dict[str, Any] = {"cmap": "Blues", "vmin": 0.0, "vmax": 1.0, "aspect": "auto"}
    top.imshow(picture.attributions[None, :], **style)
    side.imshow(picture.contributions[:, None], **style)
    image = middle.imshow(values, **style)
    # Label every row and every column with its word.
    words = picture.salience.argument_words
    row_names = [_shorten_text(f"{word.perspective} {word.text}".strip(), _LABEL) for word in words]
    starred = zip(picture.salience.response_words, picture.foreign, strict=True)
    column_names = [_shorten_text(word.text, _LABEL) + STAR * foreign for word, foreign in starred]
    points = min(10.0, 72 * 0.6 * cell)
    top.set_xticks([])
    top.yaxis.tick_right()
    top.set_yticks([0], ["attribution"])
    side.set_xticks([0], ["contribution"], rotation=90)
    side.set_yticks(np.arange(rows), row_names, fontsize=points)
    middle.set_yticks([])
    middle.set_xticks(np.arange(columns), column_names, rotation=90, fontsize=points)
    labels = [*side.get_yticklabels(), *middle.get_xticklabels()]
    all_words = [*words, *picture.salience.response_words]
    shares = [*picture.contributions, *picture.attributions]
    foreign = [*(False for _ in row_names), *picture.foreign]
    for label, word, share, is_foreign in zip(labels, all_words, shares, foreign, strict=True):
        if is_foreign or is_low(word, share, picture.threshold):
            label.set_color(_MARKED)
    figure.colorbar(image, cax=grid[1, 2], label="share of the gradients")
    figure.suptitle(_shorten_text(picture.heading), fontsize="medium")
    save_figure(figure, path)


def _shorten_text(text: str, max_length: int = 80) -> str:
    text = _plain_label(text)
    return text if len(text) <= max_length else text[: max_length - 1] + "\u2026"


def save_pages(
    panels: Sequence[Any],
    draw: Callable[[Any, Any], None],
    path: pathlib.Path,
    columns: int,
    lines: int,
    size: tuple[float, float],
) -> list[pathlib.Path]:
    """Draws panels of a size in inches on grids, and returns the files: NAME.png, NAME-2.png ...

    `draw` draws a panel on Matplotlib axes; a panel None leaves its place empty.
    """
    panels_per_page = columns * lines
    written = numbered_paths(path, -(-len(panels) // panels_per_page))
    for number, target in enumerate(written):
        page = panels[number * panels_per_page :][:panels_per_page]
        wide = min(columns, len(page))
        high = -(-len(page) // wide)
        figure_size = (size[0] * wide, size[1] * high)
        figure, grid = _import_pyplot().subplots(high, wide, figsize=figure_size, squeeze=False)
        for axes, panel in itertools.zip_longest(grid.flat, page):
            if panel is None:
                axes.remove()
            else:
                draw(axes, panel)
        save_figure(figure, target)
    if len(written) > 1:
        logger.info("%s has %d pages, up to %s", path, len(written), written[-1].name)
    return written


def numbered_paths(path: pathlib.Path, count: int) -> list[pathlib.Path]:
    """Returns the paths of several pictures: NAME.png, NAME-2.png ...

    Raises:
      ConfigError: if they are several, and the path is standard output, a device or a pipe.
    """
    if count > 1 and (kind := stream_kind(path)):
        raise ConfigError(f"{path}: {kind} takes one picture of {count:,}; name a .png file.")
    further = (path.with_name(f"{path.stem}-{n}{path.suffix}") for n in range(2, count + 1))
    return [path, *further]


def _import_pyplot() -> Any:
    """Returns `matplotlib.pyplot`, set up to draw without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save_figure(figure: Any, path: pathlib.Path) -> None:
    """Writes a Matplotlib figure as PNG, whole or not at all, and closes it.

    A file that cannot be written is a ConfigError.
    """
    try:
        with warnings.catch_warnings(record=True) as caught:
            figure.tight_layout()
            with report_write_errors(path), atomic_file(path) as beside:
                figure.savefig(beside, format="png", dpi=150)
    finally:
        _import_pyplot().close(figure)
    if caught:  # mostly about characters that the font lacks
        logger.warning("%s: %s", path, printable(str(caught[0].message)))
