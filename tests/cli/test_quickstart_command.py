"""The command `quickstart`: killed between two steps, resumed, finished; and its errors."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from faith_jax import cli
from faith_jax.cli import quickstart_command
from faith_jax.core.rows import read_jsonl
from tests.paths import REPOSITORY

STEPS = 2  # of training
# Runs the command, which kills itself before its third step.
KILLED = """
import os, signal, sys
from faith_jax import command
from faith_jax.cli import quickstart_command

def run(step, folder, steps, run=quickstart_command._Step.run):
    if step is quickstart_command._STEPS[2]:
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    return run(step, folder, steps)

quickstart_command._Step.run = run
sys.exit(command.main())
"""


def scores(path):
    return {row.fields["id"]: row.fields["scores"] for row in read_jsonl(path)}


def run(*command, data_folder=None):
    environment = os.environ | ({"FAITH_JAX_DATA_DIR": str(data_folder)} if data_folder else {})
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=REPOSITORY, check=False
    )


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory, data_folder):
    """Returns the folder of a run that was killed after its second step, and both processes."""
    folder = tmp_path_factory.mktemp("quickstart") / "runs" / "first"
    arguments = ("quickstart", str(folder), f"--steps={STEPS}")
    killed = run(sys.executable, "-c", KILLED, *arguments, data_folder=data_folder)
    entry = pathlib.Path(sys.executable).with_name("faith-jax")
    resumed = run(str(entry), *arguments, data_folder=data_folder)
    assert resumed.returncode == 0, resumed.stderr
    return folder, killed, resumed


@pytest.mark.faults
def test_a_killed_run_goes_on_behind_its_last_finished_step(quickstart):
    folder, killed, resumed = quickstart
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert "1/6  Scores" in killed.stdout
    assert f"2/6  Training: {STEPS} steps" in killed.stdout
    assert f"{folder}: going on behind step 2 of 6" in resumed.stdout
    assert "2/6" not in resumed.stdout
    assert [f"{number}/6" in resumed.stdout for number in (3, 4, 5, 6)] == [True] * 4
    assert resumed.stdout.count("     $ ") == 5
    assert not list(folder.rglob("*.partial"))


@pytest.mark.slow
def test_the_first_look_is_the_readmes(quickstart, tmp_path):
    folder, killed, _ = quickstart
    answers = REPOSITORY / "docs" / "first_steps" / "answers.csv"
    arguments = ["--scorers=groundedness", f"--input={answers}", f"--output={tmp_path}/s.jsonl"]
    assert cli.main(["score", *arguments]) == 0
    alone = scores(tmp_path / "s.jsonl")
    assert scores(folder / "answers.jsonl") == alone
    lowest = sorted(alone, key=lambda name: alone[name]["groundedness"])
    assert lowest[:3] == ["7", "5", "3"]
    printed = [
        line.split()[1] for line in killed.stdout.splitlines() if line.startswith("answers  ")
    ]
    assert printed[1:] == ["7", "5", "3", "6"]  # behind the line of means


@pytest.mark.slow
def test_training_is_measured_before_and_after(quickstart):
    folder, killed, _ = quickstart
    rows = map(json.loads, (folder / "prompt" / "metrics.jsonl").read_text().splitlines())
    losses = {row["step"]: row["loss"] for row in rows if row["part"] == "validation"}
    assert list(losses) == [0, STEPS]
    assert losses[STEPS] < losses[0]
    message = f"validation loss {losses[0]:.3f} before, {losses[STEPS]:.3f} after {STEPS} steps"
    assert message in killed.stdout


@pytest.mark.slow
def test_responses_and_scores_equal_those_of_the_single_commands(quickstart, tmp_path):
    folder, _, resumed = quickstart
    commands = [
        cli_arguments.replace(f"{folder}/responses", f"{tmp_path}/responses").replace(
            f"--output={folder}", f"--output={tmp_path}"
        )
        for cli_arguments in resumed.stdout.split("     $ ")[1:3]
    ]
    infer, score = (command.splitlines()[0].split() for command in commands)
    assert (infer[:2], score[:2]) == (["t5x", "infer"], ["faith-jax", "score"])
    assert cli.t5x_main(infer[1:]) == 0
    assert cli.main(score[1:]) == 0
    for name in ("responses/predictions.jsonl", "scores.jsonl"):
        assert (folder / name).read_bytes() == (tmp_path / name).read_bytes()
    responses = [row.fields for row in read_jsonl(folder / "responses" / "predictions.jsonl")]
    assert [row["id"] for row in responses] == ["compulsory-voting", "zoos", "rent-control"]
    assert all(row["inputs_cut_tokens"] == 0 and row["finished"] for row in responses)
    texts = [" ".join(row["prediction"].split()) for row in responses]
    assert all(text in resumed.stdout for text in texts)
    page = (folder / "report.html").read_text()
    assert all(row["query"] in page for row in responses)
    for picture in ("salience.png", "salience-2.png", "salience-3.png"):
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")


def files_below(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{folder}/theirs"], "OUTPUT: {folder}/theirs holds something else than a quickstart"),
        (["{folder}/theirs/a.txt"], "OUTPUT: {folder}/theirs/a.txt: cannot be written"),
        (["/proc/quickstart"], "OUTPUT: /proc/quickstart: cannot be written"),
        (["gs://bucket/quickstart"], "gs://bucket/quickstart: expected a folder of this machine."),
        (["{folder}/new", "--steps=0"], "--steps"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(arguments, message, tmp_path, capsys):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "a.txt").write_text("theirs")
    filled = [argument.format(folder=tmp_path) for argument in arguments]
    assert cli.main(["quickstart", *filled]) == 2
    captured = capsys.readouterr()
    assert message.format(folder=tmp_path) in captured.err
    assert (len(captured.err.splitlines()), captured.out) == (1, "")
    assert files_below(tmp_path) == ["theirs", "theirs/a.txt"]


@pytest.fixture
def three_steps(monkeypatch):
    """Replaces the steps by three quick ones; returns the errors that they are to raise."""
    raised = {}

    def write(name):
        def prepare(folder):
            if name in raised:
                raise raised.pop(name)
            (folder / name).write_text(name)

        return prepare

    steps = tuple(
        quickstart_command._Step(name, "…", {name: name}, ("faith-jax scorers",), write(name))
        for name in ("one", "two", "three")
    )
    monkeypatch.setattr(quickstart_command, "_STEPS", steps)
    return raised


def test_ctrl_c_keeps_the_finished_steps(three_steps, tmp_path, capsys):
    three_steps["two"] = KeyboardInterrupt()
    assert cli.main(["quickstart", str(tmp_path)]) == 130
    message = "faith-jax: interrupted; the same command goes on where this one was.\n"
    assert capsys.readouterr().err == message
    assert files_below(tmp_path) == ["one", "quickstart.json", "quickstart.log"]
    assert cli.main(["quickstart", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "going on behind step 1 of 3" in output
    assert ["1/3" in output, "2/3" in output, "3/3" in output] == [False, True, True]


def test_a_step_whose_command_fails_ends_the_run_with_its_status(
    three_steps, tmp_path, capsys, monkeypatch
):
    failing = quickstart_command._STEPS[1]._replace(commands=("faith-jax evaluate {output}/no",))
    steps = (quickstart_command._STEPS[0], failing)
    monkeypatch.setattr(quickstart_command, "_STEPS", steps)
    assert cli.main(["quickstart", str(tmp_path)]) == 2
    error = capsys.readouterr().err.splitlines()
    assert str(tmp_path / "no") in error[0]
    assert error[1:] == [
        "faith-jax quickstart: stopped in step 2; the same command goes on with it."
    ]


def test_a_step_whose_output_is_gone_is_taken_again_with_those_behind_it(
    three_steps, tmp_path, capsys
):
    assert cli.main(["quickstart", str(tmp_path)]) == 0
    (tmp_path / "two").unlink()
    capsys.readouterr()
    assert cli.main(["quickstart", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert ["1/3" in output, "2/3" in output, "3/3" in output] == [False, True, True]
    assert (tmp_path / "two").read_text() == "two"


def test_a_finished_run_says_so_and_changes_nothing(three_steps, tmp_path, capsys):
    assert cli.main(["quickstart", str(tmp_path), f"--steps={STEPS}"]) == 0
    capsys.readouterr()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert cli.main(["quickstart", str(tmp_path), f"--steps={STEPS}"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith(f"{tmp_path} is finished; remove it to begin anew.")
    assert captured.out.endswith(f"{tmp_path / 'three'}\n")
    assert ({path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}, captured.err) == (
        before,
        "",
    )
    assert cli.main(["quickstart", str(tmp_path)]) == 2
    expected = f"holds a quickstart with --steps={STEPS}; give the same, or name a new folder.\n"
    assert capsys.readouterr().err.endswith(expected)


def test_two_runs_do_not_write_into_the_same_folder(three_steps, tmp_path, capsys):
    from faith_jax.core.files import working_folder

    with working_folder(tmp_path, "OUTPUT"):
        assert cli.main(["quickstart", str(tmp_path)]) == 2
    assert "OUTPUT: another run is writing" in capsys.readouterr().err
