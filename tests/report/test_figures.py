import dataclasses
import itertools
import pathlib

import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.report import figures
from faith_jax.report.figures import (
    save_curves,
    save_heat_map,
    save_histograms,
    save_roc_curves,
)
from faith_jax.report.prompts import prompt_panels
from faith_jax.report.salience import salience_picture
from faith_jax.statistics.scored_corpora import Corpus
from tests.report.salience_example import EXAMPLE, word_salience
from tests.statistics.prompt_examples import healthy_run


def test_several_pictures_are_in_files(tmp_path):
    path = tmp_path / "a.png"
    assert figures.numbered_paths(path, 3) == [path, tmp_path / "a-2.png", tmp_path / "a-3.png"]
    stream = pathlib.Path("-")
    assert figures.numbered_paths(stream, 1) == [stream]
    with pytest.raises(ConfigError, match=r"^-: standard output takes one picture of 2; name a "):
        figures.numbered_paths(stream, 2)


def test_no_legend_covers_a_curve(tmp_path, monkeypatch):
    drawn = []

    def look(figure, path):
        figure.tight_layout()
        figure.canvas.draw()
        drawn.extend(
            (axes.get_legend().get_window_extent(), axes.get_window_extent(), figure.bbox)
            for axes in figure.axes
        )

    monkeypatch.setattr(figures, "save_figure", look)
    panels = prompt_panels([healthy_run("a"), healthy_run("b")])
    assert save_curves(panels, tmp_path / "p.png") == [tmp_path / "p.png"]
    assert len(drawn) == 7  # empty places have no axes
    for legend, axes, figure in drawn:
        assert axes.x1 < legend.x0
        assert legend.x1 <= figure.x1


def test_a_picture_is_written_whole(tmp_path):
    runs = [healthy_run(f"_run${i}$") for i in range(5)]
    panels = prompt_panels(runs)[1::3]  # one of each run, in five lines
    files = save_curves(panels, tmp_path / "curves.png")
    assert [file.name for file in files] == ["curves.png", "curves-2.png"]
    assert {path.name for path in tmp_path.iterdir()} == {"curves.png", "curves-2.png"}
    assert all(file.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" for file in files)
    with pytest.raises(ConfigError, match="cannot be written"):
        save_curves(panels[:1], tmp_path / "nowhere" / "curves.png")


def test_names_are_shown_as_they_are(tmp_path, monkeypatch, caplog):
    drawn = []
    save = figures.save_figure
    monkeypatch.setattr(figures, "save_figure", lambda f, p: (drawn.append(f), save(f, p)))
    names = ("_a $_$", "m\x1b[2J\u4e2d")
    scores = {name: np.linspace(0, 1, 4) for name in names}
    corpus = Corpus("c$_$", tuple("abcd"), np.array([0.0, 1, 0, 1]), scores, tuple("abcd"))
    save_histograms({"c": corpus}, tmp_path / "h.png")
    save_roc_curves({"c": corpus}, tmp_path / "r.png")
    legend = [text.get_text() for text in drawn[1].axes[0].get_legend().get_texts()]
    assert legend[1:] == [r" _a \$_\$ (75.0)", "m\\x1b[2J\u4e2d (75.0)"]
    assert "\x1b" not in caplog.text
    assert "missing from font" in caplog.text


def pixels(path):
    from matplotlib import pyplot

    return pyplot.imread(path)


def test_a_picture_of_the_map(tmp_path):
    path = tmp_path / "map.png"
    save_heat_map(salience_picture(EXAMPLE, word_salience()), path)
    image = pixels(path)
    dark_blue = (image[..., 2] > 0.3) & (image[..., 0] < 0.2) & (image[..., 1] < 0.45)
    assert dark_blue.sum() > 500  # the two copied words
    blank = tmp_path / "blank.png"
    save_heat_map(salience_picture(EXAMPLE, word_salience(values=np.zeros((5, 4)))), blank)
    image = pixels(blank)
    half = image[:, : image.shape[1] * 3 // 4]  # without the colour bar
    assert not ((half[..., 2] > 0.3) & (half[..., 0] < 0.2) & (half[..., 1] < 0.45)).any()
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["blank.png", "map.png"]


def test_words_that_are_not_in_the_grounding_have_a_star(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "save_figure", lambda figure, path: drawn.append(figure))
    save_heat_map(salience_picture(EXAMPLE, word_salience()), tmp_path / "map.png")
    (figure,) = drawn
    labels = [label.get_text() for label in figure.axes[2].get_xticklabels()]
    assert labels == ["Tea", "calms", "saves*", "money*"]
    figures._import_pyplot().close(figure)


def test_the_words_of_a_map_stand_apart_and_inside_the_picture(tmp_path, monkeypatch):
    count = 120
    boxes, words = [], [f"word{i}" for i in range(count - 1)] + ["x" * 60]
    example = dataclasses.replace(EXAMPLE, response=" ".join(words))

    def look(figure, path):
        figure.tight_layout()
        figure.canvas.draw()
        labels = figure.axes[2].get_xticklabels()
        names = [*words[:-1], "x" * 23 + "\u2026"]
        assert [label.get_text() for label in labels] == [f"{name}*" for name in names]
        assert all(label.get_window_extent().y0 >= 0 for label in labels)
        boxes.extend(label.get_window_extent() for label in labels)

    monkeypatch.setattr(figures, "save_figure", look)
    values = np.zeros((5, count))
    save_heat_map(salience_picture(example, word_salience(example, values)), tmp_path / "m.png")
    for left, right in itertools.pairwise(boxes):
        assert left.x1 <= right.x0 + 1
