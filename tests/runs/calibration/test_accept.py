import json

import msgspec
import numpy as np
import pytest

from faith_jax.cli import main
from faith_jax.runs.calibration.stored import read_calibration
from tests.runs.calibration.worlds import SCORER, scored_rows, write_rows


@pytest.fixture(scope="module")
def calibration(tmp_path_factory):
    """A calibration of two corpora, one of which has more faithful responses."""
    folder = tmp_path_factory.mktemp("calibration")
    rows = scored_rows(600, seed=1) + scored_rows(400, "web", seed=2, faithful=0.5)
    path = write_rows(folder / "labelled.jsonl", rows)
    output = folder / "calibration.json"
    assert main(["calibrate", str(path), f"--output={output}", "--target=0.1"]) == 0
    return output


@pytest.fixture
def run(calibration, tmp_path, capsys, caplog):
    """Returns a function that runs `accept` on rows: status, rows, output and errors."""

    def run(rows, *options):
        caplog.clear()
        capsys.readouterr()
        path = write_rows(tmp_path / "new.jsonl", rows)
        output = tmp_path / "decided.jsonl"
        output.unlink(missing_ok=True)
        further = [option.format(new=path) for option in options]
        arguments = [str(path), f"--calibration={calibration}", f"--output={output}", *further]
        status = main(["accept", *arguments])
        captured = capsys.readouterr()
        assert output.exists() == (status == 0)
        lines = output.read_text().splitlines() if output.exists() else []
        return status, [json.loads(line) for line in lines], captured.out, captured.err

    return run


def with_score(score, **fields):
    return {**scored_rows(1)[0], "scores": {SCORER: score}, **fields}


def test_each_row_gets_a_decision_a_probability_and_a_reason(run, calibration):
    decider = read_calibration(calibration).corpora["bot"]
    low, high = decider.reject, decider.accept
    scores = {"r": low, "a": high, "b": (low + high) / 2, "u": None}
    rows = [with_score(score, id=name) for name, score in scores.items()]
    rows[3]["undefined"] = {SCORER: "the response is empty"}
    rows.append(with_score(9.0, id="x", corpus="elsewhere"))
    status, decided, out, _ = run(rows)
    assert status == 0
    assert [row["decision"] for row in decided] == ["reject", "accept", *["abstain"] * 3]
    assert decided[0]["reason"] == f"score {low:.4g} <= {low:.4g}"
    assert decided[1]["reason"] == f"score {high:.4g} >= {high:.4g}"
    assert f"accepting from {high:.4g} on and rejecting up to {low:.4g}" in decided[2]["reason"]
    assert decided[3]["reason"] == "the score is undefined: the response is empty"
    assert decided[4]["reason"] == "the calibration has no corpus 'elsewhere'"
    rounded = [
        float(np.nextafter(np.float32(end), np.float32(way))) for end, way in ((low, 9), (high, 0))
    ]
    as_stored = [(low, "reject"), (high, "accept"), *zip(rounded, ["abstain"] * 2, strict=True)]
    for score, decision in as_stored:  # TFDS keeps float32
        assert decider.decide(float(np.float32(score)))[0] == decision
    sure = msgspec.structs.replace(decider, accept=1.0)
    assert sure.decide(1 - 2**-24)[0] == "abstain"  # the next smaller float32
    assert sure.decide(1 - 2**-30)[0] == "accept"  # 1 in float32
    probabilities = [row["probability"] for row in decided]
    assert probabilities[0] < probabilities[2] < probabilities[1]
    assert probabilities[3:] == [None, None]
    # All else of a row stays, and the file can be evaluated as before.
    assert decided[0]["grounding"] == rows[0]["grounding"]
    assert "bot" in out


def test_accepted_rows_keep_the_promise_and_labels_tell(run):
    status, decided, out, _ = run(scored_rows(2000, seed=7))
    accepted = [row for row in decided if row["decision"] == "accept"]
    rejected = [row for row in decided if row["decision"] == "reject"]
    assert status == 0
    assert len(accepted) > 1000
    assert sum(row["label"] == 0 for row in accepted) <= 0.1 * len(accepted)
    assert sum(row["label"] == 1 for row in rejected) <= 0.1 * len(rejected)
    # Where the probability is 0.8, about 80% are faithful.
    means = [sum(row[key] for row in decided) / len(decided) for key in ("probability", "label")]
    assert means[0] == pytest.approx(means[1], abs=0.03)
    assert f"of {len(accepted):,} accepted rows with a label, " in out


def test_other_scores_are_alarming(run, caplog):
    assert run(scored_rows(300, seed=8))[0] == 0
    assert "do not look like" not in caplog.text
    status, _, out, _ = run(scored_rows(300, seed=8, effect=2.0))
    assert status == 0
    assert "FOUND" in out
    assert "bot: the scores do not look like those of the calibration" in caplog.text
    # Of few rows no change would be found, and the table says so.
    assert "of so few rows, none would be" in run([with_score(3.0)])[2]


def test_corpora_of_other_names_are_named(run):
    rows = scored_rows(40, "new", seed=9)
    status, _, _, error = run(rows)
    assert status == 2
    assert "decides about rows of bot, web, not of new" in error
    assert "--corpus=NAME" in error
    status, decided, _, _ = run(rows, "--corpus=web")
    assert status == 0
    assert {"accept", "reject"} <= {row["decision"] for row in decided}
    status, _, _, error = run(rows, "--corpus=wep")
    assert (status, "only of bot, web. Did you mean 'web'?" in error) == (2, True)


def test_pooled_thresholds_are_for_the_same_mix(run, caplog):
    same = scored_rows(150, seed=3) + scored_rows(100, "web", seed=4, faithful=0.5)
    status, decided, out, _ = run(same, "--pooled")
    assert status == 0
    assert "FOUND" not in out
    assert len({row["reason"].split()[-1] for row in decided if row["decision"] == "accept"}) == 1
    mixed = scored_rows(250, seed=3, faithful=0.6) + scored_rows(10, "web", seed=4, faithful=0.5)
    _, _, out, _ = run([*mixed, with_score(9.0, id="x", corpus="elsewhere")], "--pooled")
    assert "FOUND: another mix" in out
    assert "another mix of corpora" in caplog.text
    assert "not compared" in out


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([with_score(1.0)], ["--pooled", "--corpus=bot"], "Give either --corpus or --pooled."),
        ([{**with_score(1.0), "scores": {"f1": 1}}], [], "bot has no scores of 'ours', only of f1"),
        ([with_score(1.0)], ["--output=decided.csv"], "--output: decided.csv: name a .jsonl file."),
        ([with_score(1.0)], ["--alarm=0"], "--alarm: expected a share in (0, 1)"),
        ([with_score(1.0)], ["--calibration={new}"], "is what faith-jax calibrate --output wrote"),
        ([with_score(1.0)], ["--cluster-field=page"], "'page'"),
    ],
)
def test_what_cannot_be_decided(run, rows, options, message):
    status, _, _, error = run(rows, *options)
    assert status == 2
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("output", ["-", "/proc/self/fd/1", "/dev/null"])
def test_rows_are_written_to_a_stream(calibration, tmp_path, capfd, output):
    path = write_rows(tmp_path / "new.jsonl", [with_score(1.0)])
    assert main(["accept", str(path), f"--calibration={calibration}", f"--output={output}"]) == 0
    written = capfd.readouterr().out
    if output == "/dev/null":
        assert written.startswith("Decisions by")
    else:
        assert [json.loads(line)["decision"] for line in written.splitlines()] == ["abstain"]


def test_scores_outside_of_the_range_of_the_calibration(tmp_path, capsys):
    scored = [{**row, "scores": {"token_f1": row["label"] * 0.5}} for row in scored_rows(300)]
    path = write_rows(tmp_path / "labelled.jsonl", scored)
    output = tmp_path / "calibration.json"
    assert main(["calibrate", str(path), f"--output={output}", "--target=0.1"]) == 0
    new = write_rows(tmp_path / "new.jsonl", [{**scored[0], "scores": {"token_f1": -0.1}}])
    decided = tmp_path / "decided.jsonl"
    status = main(["accept", str(new), f"--calibration={output}", f"--output={decided}"])
    assert status == 2
    assert "expected a number from 0 to 1, the range of this scorer, got -0.1" in (
        capsys.readouterr().err
    )
    assert not decided.exists()
