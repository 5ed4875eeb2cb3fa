from faith_jax.report import figures
from faith_jax.report.curve_panels import prompt_panels
from faith_jax.report.prompt_figures import placed, save_curves
from tests.statistics.prompt_examples import healthy_run


def test_each_run_begins_a_line():
    panels = prompt_panels([healthy_run("a"), healthy_run("b")])
    assert [panel.run for panel in panels] == ["", "a", "a", "a", "b", "b", "b"]
    together, *own = panels
    assert placed(panels) == [together, None, None, *own]
    assert placed(own) == own
    assert placed(own[:2] + own[3:]) == [*own[:2], None, *own[3:]]


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
