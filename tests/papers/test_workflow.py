"""Workflows through Snakemake itself, with steps that need no model."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.core.errors import ConfigError, ProcessError
from faith_jax.core.files import working_folder
from faith_jax.papers.pmi.options import PmiDecode
from faith_jax.papers.workflow import (
    GinRun,
    Scores,
    TableWorkflow,
    list_opened_checkpoints,
    make_table,
    row_counter,
    run_workflow,
)
from tests.paths import REPOSITORY

SMK = """
rule all:
    input: "sum.txt"

rule part:
    output: "part_{n}.txt"
    params: value=lambda w: config["values"][int(w.n)]
    shell: "echo part {wildcards.n} >> ran.txt; {config[command]} && echo {params.value} > {output}"

rule sum:
    input: expand("part_{n}.txt", n=range(len(config["values"])))
    output: "sum.txt"
    shell: "cat {input} > {output}"
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "made.smk").write_text(SMK)

    def run(values, command="true", **more):
        config = {"values": values, "command": command}
        options = PmiDecode(output=str(tmp_path / "out"), cores=1, **more)
        run_workflow(tmp_path / "made.smk", config, options)
        return (tmp_path / "out" / "sum.txt").read_text().split()

    return run


def ran(tmp_path):
    return (tmp_path / "out" / "ran.txt").read_text().splitlines()


def test_what_is_done_is_kept_and_what_a_setting_decides_is_made_anew(run, tmp_path):
    assert run([1, 2]) == ["1", "2"]
    out = tmp_path / "out"
    (out / ".part_0.txt.lock").touch()  # of a step that a kill stopped behind its end
    (out / ".part_0.txt.01234567.partial").mkdir()
    assert run([1, 5, 7]) == ["1", "5", "7"]
    assert not list(out.glob(".part_0*"))
    assert sorted(ran(tmp_path)) == ["part 0", "part 1", "part 1", "part 2"]


@pytest.mark.slow
def test_a_step_that_fails_ends_the_run_and_the_next_one_resumes(run, tmp_path, capfd):
    # The second step fails, whichever Snakemake begins with.
    command = "(test $(wc -l < ran.txt) != 2 || (echo broken 1>&2; false))"
    with pytest.raises(ProcessError, match="a step failed; its message stands above") as error:
        run([1, 2], command)
    assert error.value.status == 1
    assert "broken" in capfd.readouterr().err
    failed = ran(tmp_path)[1]
    # Snakemake's own lock of a killed run is in nobody's way.
    (tmp_path / "out" / ".snakemake" / "locks").mkdir(exist_ok=True)
    (tmp_path / "out" / ".snakemake" / "locks" / "0.input.lock").write_text("part_0.txt\n")
    assert run([1, 2], command) == ["1", "2"]
    assert ran(tmp_path)[2:] == [failed]


def test_a_second_command_is_refused_while_the_first_one_writes(run, tmp_path):
    with (
        working_folder(tmp_path / "out"),
        pytest.raises(ConfigError, match=r"another run is writing .*out"),
    ):
        run([1])


def test_a_folder_that_cannot_be_made(run, tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(ConfigError, match=r"--output: .*out: cannot be written"):
        run([1])


def test_without_snakemake(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'faith_jax\[reproduce\]'"):
        make_table(PmiDecode(output="none"))


@pytest.mark.faults
@pytest.mark.parametrize(
    ("number", "is_alone"),
    [(signal.SIGINT, False), (signal.SIGINT, True), (signal.SIGTERM, True)],
    ids=["Ctrl-C", "one process", "in the background"],
)
def test_a_run_that_is_stopped_stops_its_steps_and_resumes(run, tmp_path, number, is_alone):
    """Nothing is left running, and the next run resumes."""
    script = (
        "import pathlib\n"
        "from faith_jax.cli.shared import TerminatedError, raising_signals\n"
        "from faith_jax.papers.pmi.options import PmiDecode\n"
        "from faith_jax.papers.workflow import run_workflow\n"
        f"options = PmiDecode(output={str(tmp_path / 'out')!r}, cores=1)\n"
        "config = {'values': [1, 2], 'command': 'sleep 60'}\n"
        f"rules = pathlib.Path({str(tmp_path / 'made.smk')!r})\n"
        "try:\n"
        "    with raising_signals('faith-jax'):\n"
        "        run_workflow(rules, config, options)\n"
        "except KeyboardInterrupt as stopped:\n"
        "    raise SystemExit(143 if isinstance(stopped, TerminatedError) else 130)\n"
    )
    # A shell's background processes ignore SIGINT.
    ignored = signal.SIG_IGN if number == signal.SIGTERM else signal.SIG_DFL

    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, ignored),
    )
    started = time.monotonic()
    while not (tmp_path / "out" / "ran.txt").exists():
        assert time.monotonic() - started < 60
        time.sleep(0.05)
    (os.kill if is_alone else os.killpg)(process.pid, number)
    assert process.wait(30) == (130 if number == signal.SIGINT else 143)
    assert time.monotonic() - started < 60
    assert run([1, 2]) == ["1", "2"]


def test_a_given_checkpoint_that_changes_is_told_to_snakemake(tmp_path):
    folder = shutil.copytree(checkpoint_path("mini"), tmp_path / "mini")
    table = TableWorkflow(PmiDecode(output=""), lambda *_: 9)
    best = "models/own/checkpoints/best"
    table.trainings["first"] = GinRun([], {"INITIAL_CHECKPOINT_PATH": str(folder)})
    table.trainings["random"] = GinRun([], {"INITIAL_CHECKPOINT_PATH": None})
    table.responses["both"] = GinRun([], {"CHECKPOINT_PATH": {"a": [str(folder)], "b": [best]}})
    table.scores["judged"] = Scores(
        [], [], list_opened_checkpoints({"q2": {"nli_model": str(folder)}, "x": {}})
    )
    table.scores["nothing"] = Scores([], [], [str(tmp_path / "none")])

    def states():
        steps = table.steps()
        return [
            step["state"] for rule in ("train", "infer", "score") for step in steps[rule].values()
        ]

    before = states()
    digest = before[0][0]
    assert len(digest) == 64
    assert before == [[digest], [], [digest, ""], [digest], [""]]
    (folder / "spiece.model").write_bytes(b"another")
    after = states()[0][0]
    assert after != digest
    assert states() == [[after], [], [after, ""], [after], [""]]


def test_rows_are_counted_once(tmp_path, monkeypatch, offline_data_dir):
    count = row_counter(tmp_path)
    assert count("faithdial_generate_sample", "test") == 4
    assert count("faithdial_generate_sample", "no_such") == 0

    def refuse(task, split):
        assert split != "test", "is counted already"
        raise ConfigError("there is no such split")

    monkeypatch.setattr("faith_jax.input.score_input.seqio_rows", refuse)
    again = row_counter(tmp_path)
    assert again("faithdial_generate_sample", "test") == 4
    assert again("faithdial_generate_sample", "no_such") == 0
