"""The report of prompt-tuned runs, through the command line."""

import json
import shutil

import numpy as np
import pytest

from faith_jax.checkpoints.checkpoint import Checkpoint
from faith_jax.checkpoints.native import write_native
from faith_jax.runs.model_dir import PROMPT_START, read_prompt_starts, write_prompt_starts
from faith_jax.runs.prompt_report import make_report
from tests.checkpoints.synthetic import tiny_params
from tests.checkpoints.test_native import prompt_run
from tests.models.families import FAMILIES
from tests.models.tiny import TINY as TINY_CONFIG
from tests.runs.test_bad_input import assert_mistake


@pytest.fixture(scope="module")
def runs(tiny_run, tuned_run, tmp_path_factory):
    """A base model, and prompt-tuned runs of two seeds and another start."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.copytree(tiny_run, folder / "base")
    starts, origin = read_prompt_starts(tuned_run)
    uniform = np.random.default_rng(0).uniform(-0.5, 0.5, (5, 16)).astype(np.float32)
    for name, changes, vectors in (
        ("seed0", {}, starts["encoder_prompt"]),
        ("seed1", {"seed": "1"}, starts["encoder_prompt"]),
        ("uniform", {"initializer": "uniform"}, uniform),
    ):
        shutil.copytree(tuned_run, folder / name)
        write_prompt_starts(folder / name, {"encoder_prompt": vectors}, origin | changes)
    return folder


def test_figures_are_those_of_the_vectors(command, runs, tmp_path):
    file = tmp_path / "report.json"
    out = command.succeeds("prompt-report", runs / "seed0", "--nearest=2", f"--json={file}")
    lines = out.splitlines()
    assert lines[0] == (
        f"{runs / 'seed0'}: encoder_prompt, 5 x 16, step 4; start: sampled_vocabulary, seed 0"
    )
    assert lines[3].split()[0] == "0"
    assert len(lines[3].split()) == 7 + 2 * 2 * 2
    assert "Gradient norm of all vectors" in out
    assert "Validation loss" in out
    assert "unknown" not in out
    (run,) = json.loads(file.read_text())["runs"]
    prompt = run["prompts"]["encoder_prompt"]
    rows = [json.loads(x) for x in (runs / "seed0" / "metrics.jsonl").read_text().splitlines()]
    train = [row for row in rows if row["part"] == "train"]
    np.testing.assert_allclose(
        prompt["movement"]["distance"], train[-1]["encoder_prompt_movements"], rtol=1e-5
    )
    assert prompt["gradient_norms"]["values"][2] == train[2]["encoder_prompt_gradient_norms"]
    assert prompt["gradient_norms"]["steps"] == [1, 2, 3, 4]
    losses = [row["loss"] for row in rows if row["part"] == "validation"]
    assert run["curves"]["validation_loss"]["values"] == losses
    assert run["validation_loss"] == losses[-1]
    # All vectors began as pieces, and moved little from them in four steps.
    assert all(prompt["started_as"])
    assert prompt["nearest_by_l2"][0][0]["text"] == prompt["started_as"][0]
    assert run["settings"]["seed"] == "0"
    assert run["start"] == "sampled_vocabulary"


def test_a_step_is_reported_as_it_was(runs):
    step = runs / "seed0" / "checkpoints" / "2"
    (whole,), (early,) = (make_report([str(p)]).runs for p in (runs / "seed0", step))
    assert (early.step, whole.step) == (2, 4)
    assert early.validation_loss.steps.tolist() == [2]
    moved = [run.prompts["encoder_prompt"].movement.distance for run in (early, whole)]
    logged = whole.prompts["encoder_prompt"].movements
    np.testing.assert_allclose(moved[0], logged.values[1], rtol=1e-5)
    assert np.all(moved[1] > moved[0])


def test_several_runs_and_their_page(command, runs, tmp_path):
    paths = [runs / name for name in ("seed0", "seed1", "uniform")]
    html = tmp_path / "a.html"
    out = command.succeeds("prompt-report", *paths, f"--html={html}")
    assert "Final validation loss by start" in out
    spread = next(line for line in out.splitlines() if line.startswith("sampled_vocabulary"))
    assert spread.split()[1] == "2"
    assert out.count("encoder_prompt ") >= 3  # each two runs
    page = html.read_text()
    assert page.count("<polyline") > 10
    assert {path.name for path in tmp_path.iterdir()} == {"a.html"}
    report = make_report([str(path) for path in paths])
    assert report.groups["sampled_vocabulary"].runs == 2
    assert report.groups["uniform"].runs == 1
    assert len(report.pairs) == 3
    assert report.runs[2].prompts["encoder_prompt"].start_pieces == [""] * 5


def test_what_is_not_there_is_said(command, runs, tmp_path):
    run = shutil.copytree(runs / "seed0", tmp_path / "run")
    for name in (PROMPT_START, "metrics.jsonl", "config.gin"):
        (run / name).unlink()
    described = json.loads((run / "model.json").read_text())
    described["base"]["path"] = str(tmp_path / "gone")
    (run / "model.json").write_text(json.dumps(described))
    out = command.succeeds("prompt-report", run)
    assert "start: unknown" in out
    assert "Its start is unknown: it was not kept with the prompt." in out
    assert "Its base model is not compared with" in out
    assert "No validation loss was logged." in out
    described["base"]["path"] = str(runs / "seed1")  # a model, but with another content
    described["base"]["content_hash"] = "0" * 64
    del described["sha256"]
    (run / "model.json").write_text(json.dumps(described))
    assert "another model than the one" in command("prompt-report", run)[1]


def test_prompts_without_a_tokenizer_or_a_run(command, tmp_path):
    write_native(Checkpoint(TINY_CONFIG, tiny_params(TINY_CONFIG)), tmp_path / "base")
    run = prompt_run(tmp_path / "run", tmp_path / "base", tiny_params(TINY_CONFIG))
    write_prompt_starts(run, {"encoder_prompt": np.ones((4, 8), np.float32)}, {})
    out = command.succeeds("prompt-report", run, "--nearest=60")
    assert "#49 " in out
    assert "the one that was kept is (4, 8)" in out
    assert "Pieces are shown by their ids" in out


def test_each_prompt_is_compared_with_the_embedding_that_it_stands_beside(tmp_path):
    """T5Gemma's decoder has a token embedding of its own."""
    config = FAMILIES["t5gemma"].replace(encoder_prompt_length=2, decoder_prompt_length=2)
    params = dict(tiny_params(config))
    for name, embedder in (("encoder", params), ("decoder", params["decoder"])):
        params[f"{name}_prompt"] = {"embedding": embedder["token_embedder"]["embedding"][5:7]}
    write_native(Checkpoint(config, params), tmp_path / "both")
    (run,) = make_report([str(tmp_path / "both")], 1).runs
    for health in run.prompts.values():
        assert [pieces[0].token for pieces in health.by_distance] == [5, 6]
        assert [pieces[0].value for pieces in health.by_distance] == pytest.approx([0, 0], abs=1e-6)


def test_mistakes_are_one_line(command, runs, tmp_path):
    report = "prompt-report"
    assert_mistake(command(report, runs / "base"), "base: has no soft prompt")
    assert_mistake(command(report, runs / "sead0"), "no such checkpoint", "'seed0'")
    step = runs / "seed0" / "checkpoints" / "3"
    assert_mistake(command(report, step), "no checkpoint of this step; there are 2, 4")
    assert_mistake(command(report, runs / "seed0", runs / "seed0"), "given twice")
    assert "--nearest: expected" in command(report, runs / "seed0", "--nearest=0")[2]
    html = tmp_path / "out.html"
    before = (f"--html={html}", f"--png={tmp_path / 'nowhere' / 'a.png'}")
    assert_mistake(command(report, runs / "seed0", *before), "--png", "no such folder")
    over = f"--json={runs / 'seed0' / 'metrics.jsonl'}"
    assert_mistake(command(report, runs / "seed0", over), "lies in the input")
    assert_mistake(command(report, runs / "seed0", f"--json={html}", f"--html={html}"), "too")
    broken = shutil.copytree(runs / "seed0", tmp_path / "broken")
    start = broken / PROMPT_START
    start.write_bytes(start.read_bytes()[:-5])
    assert_mistake(command(report, broken, f"--html={html}"), PROMPT_START, "cut short")
    assert {path.name for path in tmp_path.iterdir()} == {"broken"}
    (broken / "metrics.jsonl").unlink()
    start.unlink()
    assert_mistake(command(report, broken, f"--png={tmp_path / 'a.png'}"), "no metrics to draw")
