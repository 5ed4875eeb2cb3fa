import json

import numpy as np

from faith_jax.report.prompt_tables import (
    PromptReport,
    all_tables,
    all_warnings,
    report_figures,
    vector_rows,
)
from faith_jax.statistics.prompt_health import by_initializer, pairs, run_warnings, spread_warnings
from tests.statistics.prompt_examples import START, healthy_prompt, healthy_run, no_curve


def report_of(*runs):
    return PromptReport(
        runs,
        {run.name: run_warnings(run) for run in runs},
        by_initializer(runs),
        pairs(runs),
        spread_warnings(runs, pairs(runs)),
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


def test_what_is_not_known_is_a_dash():
    prompt = healthy_prompt(start=None, embedding=None, gradient_norms=np.zeros((0, 3)))
    run = healthy_run(
        prompt=prompt,
        step=None,
        settings={},
        validation_loss=no_curve(),
        notes=("its start is x.",),
    )
    table = vector_rows(run, prompt)
    assert table.title == "runs/a: encoder_prompt, 3 x 4; start: sampled_vocabulary"
    assert table.rows[0][1:4] == ("\u2013",) * 3
    assert table.rows[0][5] == "\u2013"
    assert table.notes[-1] == "Its start is x."
    assert "Gradient norms by vector were not logged." in table.notes


def test_several_runs_are_compared():
    report = report_of(
        healthy_run("a"),
        healthy_run("b", losses=(3.0, 2.5), settings={"seed": "1", "task": "npov_generate"}),
        healthy_run("c", initializer="uniform", losses=(1.9,)),
    )
    titles = [table.title.split(":")[0] for table in all_tables(report)]
    assert titles[3:] == ["Runs", "Final validation loss by start", "Prompts of two runs"]
    runs, groups, two = all_tables(report)[3:]
    assert runs.rows[1][:6] == ("b", "sampled_vocabulary", "1", "80", "2.5000", "2.5000")
    assert groups.rows == (
        ("sampled_vocabulary", "2", "2.2000", "1.9000", "2.5000", "0.4243"),
        ("uniform", "1", "1.9000", "1.9000", "1.9000", "\u2013"),
    )
    assert two.rows[0] == ("a", "b", "encoder_prompt", "1", "1", "1", "1")
    (warning,) = all_warnings(report)
    assert warning.startswith("the runs disagree")


def test_json_has_all_figures_and_no_nan():
    still = healthy_run("still", prompt=healthy_prompt(START), validation_loss=no_curve())
    found = report_figures(report_of(healthy_run("a"), still))
    parsed = json.loads(json.dumps(found, allow_nan=False))
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
