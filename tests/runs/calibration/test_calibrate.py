import json

import pytest

from faith_jax.cli import main
from faith_jax.core.errors import ConfigError
from faith_jax.runs.calibration import calibrate
from faith_jax.runs.calibration.stored import read_calibration
from tests.runs.calibration.worlds import SCORER, scored_rows, write_rows


@pytest.fixture
def run(tmp_path, capsys):
    """Returns a function that calibrates rows; it returns the status, output and error."""

    def run(rows, *options):
        path = write_rows(tmp_path / "labelled.jsonl", rows)
        output = tmp_path / "calibration.json"
        status = main(["calibrate", str(path), f"--output={output}", *options])
        captured = capsys.readouterr()
        assert output.exists() == (status == 0)
        return status, captured.out, captured.err

    return run


def test_a_calibration_accepts_rejects_and_says_what_it_promises(run, tmp_path):
    status, out, _ = run(scored_rows(900), "--target=0.1")
    assert status == 0
    decider = read_calibration(tmp_path / "calibration.json").corpora["bot"]
    assert (decider.rows, decider.groups, len(decider.sample)) == (900, 450, 450)
    # 70% are faithful, and the scores of both classes are four standard deviations apart.
    assert 0 < decider.reject < decider.accept < 4
    assert "with 95% confidence for each threshold, at most 10% of the accepted responses" in out
    assert "a random response of a random group" in out
    assert f">= {decider.accept:.4g}: " in out
    assert "450 groups of 900 rows" in out


def test_the_same_seed_writes_the_same_file(run, tmp_path):
    files = []
    for seed in (0, 0, 1):
        assert run(scored_rows(200), "--target=0.1", f"--seed={seed}")[0] == 0
        files.append((tmp_path / "calibration.json").read_bytes())
        (tmp_path / "calibration.json").unlink()
    assert files[0] == files[1] != files[2]


def test_each_corpus_and_all_together_have_thresholds(run, tmp_path):
    few = scored_rows(30, "few")
    rows = scored_rows(400, seed=1) + scored_rows(400, "web", seed=2, faithful=0.5) + few
    status, out, _ = run(rows, "--target=0.1")
    assert status == 0
    calibration = read_calibration(tmp_path / "calibration.json")
    assert list(calibration.corpora) == ["bot", "web"]
    assert calibration.pooled.mix == {"bot": 200, "web": 200, "few": 15}
    assert calibration.pooled.rows == 830
    needed = (
        "few is left out: only 15 groups of rows with the same grounding; at least 36 are needed"
    )
    assert needed in out
    assert "needed" in calibration.left_out["few"]


def test_conformal_risk_control_is_told_apart(run, tmp_path):
    options = ["--guarantee=conformal_risk_control", "--target=0.05"]
    status, out, _ = run(scored_rows(300), *options)
    assert status == 0
    assert "of all responses, at most 5% are accepted and unfaithful" in out
    assert "says nothing of the share among the accepted ones" in out
    assert read_calibration(tmp_path / "calibration.json").guarantee == "conformal_risk_control"


def test_a_scorer_that_sees_nothing_accepts_nothing(run):
    status, out, _ = run(scored_rows(400, effect=0.0), "--target=0.1")
    assert status == 0
    assert "of no threshold could the guarantee be shown for accepting" in out
    assert "of no threshold could the guarantee be shown for rejecting" in out
    assert "no better than the share of faithful rows" in out


ALL_FAITHFUL = scored_rows(200, faithful=1.1)
WITHOUT_LABELS = scored_rows(200, label=None)
TURNED = scored_rows(200, effect=-2.0)
OUTSIDE = [{**row, "scores": {"token_f1": 1.7}} for row in scored_rows(200)]
NO_DIRECTION = [{**row, "scores": {"first_person_count": row["label"]}} for row in scored_rows(200)]
TWO_SCORERS = [{**row, "scores": {"a": 1.0, "b": 1.0}} for row in scored_rows(9)]
CONFORMAL = "--guarantee=conformal_risk_control"


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (ALL_FAITHFUL, [], "bot: all 200 rows have the label 1; a calibration needs faithful"),
        (WITHOUT_LABELS, [], "bot: no row has a label (1 = faithful, 0 = not) and a score"),
        (scored_rows(144), [], "bot: only 72 groups of rows with the same grounding; at least 73"),
        (scored_rows(144), ["--confidence=0.99"], "at least 112 are needed"),
        (scored_rows(144), ["--simultaneous"], "at least 89 are needed, because a fifth of them"),
        (scored_rows(36), [CONFORMAL], "bot: only 18 groups of rows with the same grounding; at"),
        (scored_rows(40, of_a_page=40), [CONFORMAL, "--target=0.5"], "bot: only 1 group of rows"),
        (TURNED, ["--target=0.1"], "rows with the label 0 have higher scores of ours than those"),
        (OUTSIDE, [], "row '0': field 'scores.token_f1': expected a number from 0 to 1"),
        (NO_DIRECTION, [], "--scorer=first_person_count: says nothing of faithfulness by itself"),
        (TWO_SCORERS, [], "--scorer: the rows have scores of a, b; choose one."),
        (scored_rows(9), ["--target=0"], "--target: expected a share in (0, 1), got 0"),
        (scored_rows(9), [CONFORMAL, "--confidence=0.9"], "--confidence: goes with --guarantee="),
    ],
)
def test_what_cannot_be_calibrated(run, rows, options, message):
    status, _, error = run(rows, *options)
    assert status == 2
    assert message in error
    assert error.count("\n") == 1


def test_the_numbers_of_rows_that_errors_tell_are_enough(run):
    assert run(scored_rows(146))[0] == 0
    assert run(scored_rows(38), CONFORMAL)[0] == 0


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The output of a calibration."""
    folder = tmp_path_factory.mktemp("calibration")
    rows = write_rows(folder / "rows.jsonl", scored_rows(900))
    output = folder / "calibration.json"
    assert main(["calibrate", str(rows), f"--output={output}", "--target=0.1"]) == 0
    return output.read_text()


def changed(value, path, new):
    *parents, last = path
    for step in parents:
        value = value[step]
    if new is None:
        del value[last]
    else:
        value[last] = new


@pytest.mark.parametrize(
    ("path", "new", "message"),
    [
        (["format"], "calibration 0", "field 'format': expected 'faith_jax calibration 1'"),
        (["scorer"], None, "field 'scorer' is missing"),
        (["guarantee"], "learn", "field 'guarantee': expected one of learn_then_test"),
        (["corpora", "bot", "accept"], "0.5", "field 'corpora['bot'].accept': expected a number"),
        (["corpora", "bot", "accept"], -9.0, "a threshold of accept above that of reject"),
        (["corpora", "bot", "sample"], [], "field 'corpora['bot'].sample': expected a list of at"),
        (["corpora", "bot", "probabilities"], {"form": "x"}, "one of platt, beta, isotonic"),
    ],
)
def test_a_file_that_is_no_calibration_names_the_field(written, tmp_path, path, new, message):
    file = tmp_path / "calibration.json"
    value = json.loads(written)
    changed(value, path, new)
    file.write_text(json.dumps(value))
    with pytest.raises(ConfigError, match=r"calibration\.json") as caught:
        read_calibration(file)
    assert message in str(caught.value)


def test_the_picture_shows_more_accepted_at_higher_targets(run, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(calibrate, "save_acceptance", lambda panels, path: drawn.extend(panels))
    rows = scored_rows(600, effect=2.0, of_a_page=3)
    assert run(rows, "--target=0.1", f"--figure={tmp_path}/p.png")[0] == 0
    (panel,) = drawn
    assert panel.title == "bot: 200 groups (600 rows)"
    assert panel.target == 0.1
    assert 0.1 in panel.targets
    # Nothing can be promised at the smallest targets, and everything is accepted at the largest.
    assert (panel.guaranteed[0], panel.guaranteed[-1] > 0.9) == (0, True)
    assert (panel.risks[-1], panel.accepted[-1]) == pytest.approx((0.3, 1), abs=0.06)
    assert len(panel.risks) == len({row["scores"][SCORER] for row in rows})


def test_the_picture_is_written(run, tmp_path):
    figure = tmp_path / "accepted.png"
    assert run(scored_rows(300), "--target=0.1", f"--figure={figure}", CONFORMAL)[0] == 0
    assert figure.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_rows_without_a_grounding_are_warned_of(tmp_path, command):
    lines = [f"{n},{n % 10 / 10},{int(n % 10 > 3)},{n // 2}\n" for n in range(200)]
    path = tmp_path / "a.csv"
    path.write_text("id,mine,label,question\n" + "".join(lines))
    options = ("calibrate", path, "--scorer=mine", f"--output={tmp_path / 'c.json'}")
    status, out, _ = command(*options)
    assert status == 0
    assert "a: the rows have no grounding, so that each counts as independent" in out
    for field in ("question", "none"):
        status, out, _ = command(*options, f"--cluster-field={field}")
        assert status == 0
        assert "no grounding" not in out
