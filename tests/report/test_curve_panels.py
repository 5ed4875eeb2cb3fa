import numpy as np
import pytest

from faith_jax.report.curve_panels import (
    axes_of,
    by_vector,
    curve_panel,
    label_of,
    points_of,
    prompt_panels,
)
from faith_jax.statistics.prompt_health import Curve
from tests.statistics.prompt_examples import curve, healthy_prompt, healthy_run, no_curve


def test_points_lie_in_the_unit_square():
    panel = curve_panel("a", "loss", {"one": curve([3, 1], [10, 30]), "two": curve([2], [20])})
    axes = axes_of(panel)
    assert axes == (10, 30, 1, 3)
    assert points_of(panel, "one", axes) == [(0, 1), (1, 0)]
    assert points_of(panel, "two", axes) == [(0.5, 0.5)]
    assert (label_of(panel, axes.low), label_of(panel, axes.high)) == ("1", "3")


def test_logarithms_leave_out_what_has_none():
    values = [1e-4, 0.0, np.nan, np.inf, 1.0]
    panel = curve_panel("a", "norm", {"one": curve(values, [1, 2, 3, 4, 5])}, logarithmic=True)
    assert panel.curves["one"].steps.tolist() == [1, 5]
    axes = axes_of(panel)
    assert (axes.low, axes.high) == (-4, 0)
    assert label_of(panel, axes.low) == "0.0001"
    nothing = curve_panel("a", "norm", {"one": curve([0.0], [1])}, logarithmic=True)
    assert nothing.curves == {}


@pytest.mark.parametrize("value", [0.0, 5.0, -2.0])
def test_a_constant_has_an_axis(value):
    panel = curve_panel("a", "loss", {"one": curve([value, value], [1, 2])})
    heights = [y for _, y in points_of(panel, "one", axes_of(panel))]
    np.testing.assert_allclose(heights, [0.5, 0.5])


def test_long_curves_are_thinned_and_keep_their_ends():
    steps = np.arange(10_000)
    found = curve_panel("a", "loss", {"one": Curve(steps, steps * 1.0)}).curves["one"]
    assert len(found.steps) == 400
    assert (found.steps[0], found.steps[-1]) == (0, 9999)


def test_many_vectors_are_summed_up():
    steps = np.array([1, 2])
    few = by_vector(Curve(steps, np.ones((2, 3))))
    assert list(few) == ["vector 0", "vector 1", "vector 2"]
    many = by_vector(Curve(steps, np.arange(22.0).reshape(2, 11)))
    assert {name: c.values.tolist() for name, c in many.items()} == {
        "smallest": [0, 11],
        "median": [5, 16],
        "largest": [10, 21],
    }
    assert by_vector(no_curve(11)) == {}


def test_panels_of_runs():
    one = prompt_panels([healthy_run("a")])
    assert [panel.quantity.split(",")[0] for panel in one] == [
        "loss",
        "gradient norm",
        "L2 distance from the start",
    ]
    assert [panel.logarithmic for panel in one] == [False, True, False]
    bare = healthy_run(
        "b",
        prompt=healthy_prompt(gradient_norms=np.zeros((0, 3))),
        training_loss=no_curve(),
        validation_loss=no_curve(),
    )
    assert [p.title for p in prompt_panels([bare])] == ["b"]
    assert prompt_panels([healthy_run("a"), bare])[0].title == "all runs"
