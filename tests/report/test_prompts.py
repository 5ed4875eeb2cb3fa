import json
import re

import numpy as np

from faith_jax.report.panels import curve_panel
from faith_jax.report.prompts import (
    all_tables,
    by_vector,
    draw_panel,
    prompt_page,
    report_figures,
    report_of,
    vector_rows,
)
from faith_jax.statistics.prompt_health import Curve
from tests.statistics.prompt_examples import (
    START,
    VECTORS,
    curve,
    healthy_prompt,
    healthy_run,
    no_curve,
)


def test_a_row_for_each_vector():
    run = healthy_run()
    table = vector_rows(run, run.prompts["encoder_prompt"])
    assert table.title == (
        "runs/a: encoder_prompt, 3 x 4, step 80; start: sampled_vocabulary, seed 0"
    )
    assert len(table.columns) == len(table.rows[0])
    # moved by 0.5 from a start of norm 1; half of the vocabulary has norm 1, half 2
    expected = ("0", "0.5", "0.5", "0.894", "1.12", "50%", "\u2581a")
    assert table.rows[0][:7] == expected
    assert table.rows[1][6] == "\u2013"
    assert table.rows[0][7] == "<b>\u2581the</b> 0.9"
    notes = " ".join(table.notes)
    assert "median 1.5" in notes
    assert "Validation loss 1.9000 at step 30; the lowest is 1.9000 at step 30." in notes
    assert "Gradient norm of all vectors: 1.73 at step 10" in notes


def test_several_runs_are_compared():
    other_task = {"seed": "1", "task": "npov_generate"}
    runs = [
        healthy_run("a"),
        healthy_run("b", losses=(3.0, 2.5), settings=other_task),
        healthy_run("c", initializer="uniform", losses=(1.9,)),
    ]
    report = report_of(runs)
    titles = [table.title.split(":")[0] for table in all_tables(report)]
    assert titles[3:] == ["Runs", "Final validation loss by start", "Prompts of two runs"]
    runs, groups, two = all_tables(report)[3:]
    assert runs.rows[1][:6] == ("b", "sampled_vocabulary", "1", "80", "2.5000", "2.5000")
    assert groups.rows == (
        ("sampled_vocabulary", "2", "2.2000", "1.9000", "2.5000", "0.4243"),
        ("uniform", "1", "1.9000", "1.9000", "1.9000", "\u2013"),
    )
    assert two.rows[0] == ("a", "b", "encoder_prompt", "1", "1", "1", "1")
    (warning,) = report.all_warnings()
    assert warning.startswith("the runs disagree")


def test_json_has_all_figures_and_no_nan():
    still = healthy_run("still", prompt=healthy_prompt(START), validation_loss=no_curve())
    figures = report_figures(report_of([healthy_run("a"), still]))
    parsed = json.loads(json.dumps(figures, allow_nan=False))
    first, second = parsed["runs"]
    assert first["validation_loss"] == 1.9
    assert second["validation_loss"] is None
    assert second["lowest_step"] is None
    prompt = first["prompts"]["encoder_prompt"]
    assert prompt["movement"]["distance"] == [0.5, 0.5, 0.5]
    assert prompt["vocabulary_norms"]["0.5"] == 1.5
    piece = {"token": 1, "text": "<b>\u2581the</b>", "value": 0.9}
    assert prompt["nearest_by_l2"][0] == [piece]
    assert prompt["started_as"] == ["\u2581a", None, None]
    assert prompt["gradient_norms"]["steps"][0] == 10
    assert parsed["validation_loss_by_start"]["sampled_vocabulary"]["deviation"] is None
    assert parsed["pairs"][0]["first"] == "a"
    assert "no vector moved" in second["warnings"][0]


def page(*runs):
    return prompt_page("<script>alert(1)</script>", report_of(runs))


def test_texts_cannot_leave_their_place():
    html = page(healthy_run("<i>a</i>"))
    assert "<script" not in html
    assert "<i>" not in html
    assert "<b>" not in html
    assert "&lt;b&gt;\u2581the&lt;/b&gt; 0.9" in html
    assert "&lt;script&gt;alert(1)" in html


def test_the_page_needs_no_network():
    html = page(healthy_run())
    assert not re.search(r"(?:src|href)=|url\(|@import|https?:", html)
    assert "default-src 'none'" in html


def test_the_page_shows_tables_curves_warnings_and_cosines():
    html = page(healthy_run("a"), healthy_run("b", prompt=healthy_prompt(VECTORS * 9)))
    for part in ("<h1>", "vectors 0, 1, 2 much longer", "Prompts of two runs", "gradient norm"):
        assert part in html
    assert html.count("<polyline") == 2 + 2 * (2 + 3 + 3)
    assert html.count("Cosines between the vectors of") == 2
    # The cosine of vectors 0 and 1: 0.5 over 1.25.
    assert "0.40" in html


def test_points_are_drawn_downwards():
    panel = curve_panel("a", "loss", {"one": curve([3, 1], [1, 3]), "two": curve([2], [3])})
    drawn = draw_panel(panel)
    assert drawn["curves"][0]["points"] == "0.0000,0.0000 1.0000,0.6500"
    assert (drawn["first"], drawn["last"], drawn["low"], drawn["high"]) == (1, 3, "1", "3")
    assert drawn["curves"][0]["dot"] is None
    assert drawn["curves"][1]["dot"] == ("1.0000", "0.3250")


def test_long_curves_are_thinned_and_keep_their_ends():
    steps = np.arange(10_000)
    thinned = curve_panel("a", "loss", {"one": Curve(steps, steps * 1.0)}).curves["one"]
    assert len(thinned.steps) == 400
    assert (thinned.steps[0], thinned.steps[-1]) == (0, 9999)


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


def test_logarithms_leave_out_what_has_none():
    values = [1e-4, 0.0, np.nan, np.inf, 1.0]
    panel = curve_panel("a", "norm", {"one": curve(values, [1, 2, 3, 4, 5])}, logarithmic=True)
    assert panel.curves["one"].steps.tolist() == [1, 5]
    drawn = draw_panel(panel)
    assert (drawn["low"], drawn["high"]) == ("0.0001", "1")
    assert drawn["curves"][0]["points"] == "0.0000,0.6500 1.0000,0.0000"
    nothing = curve_panel("a", "norm", {"one": curve([0.0], [1])}, logarithmic=True)
    assert nothing.curves == {}
