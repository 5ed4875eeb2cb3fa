"""Heat maps of salience as PNG files."""

import pathlib
from typing import Any

import numpy as np

from faith_jax.report.figures import save_figure
from faith_jax.report.salience_picture import SaliencePicture

# Inches of a cell, and of a picture at most; a larger map has smaller cells.
_CELL, _LARGEST = 0.24, 40.0
_COLOURS = "Blues"
_MARKED = "#d55e00"


def save_heat_map(picture: SaliencePicture, path: pathlib.Path) -> None:
    """Draws the map, contributions at the side and attributions on top.

    Words below the threshold have a red name.

    Args:
      picture: with content words in response and grounding.
      path: of the PNG.

    Raises:
      ConfigError: where the file cannot be written.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    values = picture.salience.values
    rows, columns = values.shape
    cell = min(_CELL, _LARGEST / max(rows, columns, 1))
    size = (max(6.0, columns * cell + 3.5), max(3.5, rows * cell + 3.0))
    figure, grid = pyplot.subplots(
        2, 3, figsize=size, squeeze=False,
        width_ratios=(1, max(columns, 4), 0.7), height_ratios=(1, max(rows, 4)),
    )  # fmt: skip
    for empty in (grid[0, 0], grid[0, 2]):
        empty.remove()
    style: dict[str, Any] = {"cmap": _COLOURS, "vmin": 0.0, "vmax": 1.0, "aspect": "auto"}
    grid[0, 1].imshow(picture.attributions[None, :], **style)
    grid[1, 0].imshow(picture.contributions[:, None], **style)
    image = grid[1, 1].imshow(values, **style)
    _name_words(grid, picture)
    figure.colorbar(image, cax=grid[1, 2], label="share of the gradients")
    figure.suptitle(_plain(picture.heading), fontsize="medium")
    save_figure(figure, path)


def _name_words(grid: Any, picture: SaliencePicture) -> None:
    top, side, middle = grid[0, 1], grid[1, 0], grid[1, 1]
    columns = [_plain(word.text) for word in picture.salience.response_words]
    rows = [
        _plain(f"{word.perspective} {word.text}".strip())
        for word in picture.salience.argument_words
    ]
    top.set_xticks([])
    top.yaxis.tick_right()
    top.set_yticks([0], ["attribution"])
    side.set_xticks([0], ["contribution"], rotation=90)
    side.set_yticks(np.arange(len(rows)), rows)
    middle.set_yticks([])
    middle.set_xticks(np.arange(len(columns)), columns, rotation=90)
    for labels, values in (
        (side.get_yticklabels(), picture.contributions),
        (middle.get_xticklabels(), picture.attributions),
    ):
        for label, value in zip(labels, values, strict=True):
            if value < picture.threshold:
                label.set_color(_MARKED)


def _plain(text: str, most: int = 80) -> str:
    """Returns a text that Matplotlib does not take for mathematics, cut at a length."""
    text = text.replace("$", r"\$")
    return text if len(text) <= most else text[: most - 1] + "\u2026"
