"""The command, and the process that compiles."""

import importlib.util
import json
import os
import re
import signal

import pytest

from faith_jax import cli
from faith_jax.core.errors import ConfigError, ProcessError
from faith_jax.planning.plan import lines, report_of
from faith_jax.planning.planner import CompilingProcess, keep_plans_in_file
from faith_jax.planning.topologies import CHIPS, parse_topology
from faith_jax.planning.worker import PlanRequest, RecipeFacts
from faith_jax.runs.options import PlanOptions
from tests.planning.conftest import FOLDERS

TINY = [f"--gin_search_paths={FOLDERS[0]}", "--gin_file=tiny.gin", "--gin.BATCH_SIZE=8"]


def axes(plan):
    return {op["axes"] for op in plan["work"]["step"]["collectives"] if op["kind"] == "all-reduce"}


@pytest.mark.slow
def test_partitions_split_parameters_and_change_what_is_sent(eight):
    whole, split = eight({"num_partitions": 1}), eight({"num_partitions": 2})
    assert whole["mesh"] == {"data": 8, "model": 1}
    assert split["mesh"] == {"data": 4, "model": 2}
    assert axes(whole) == {"data"}
    assert "model" in axes(split)
    # Norms, relative positions and positions of heads are not all split: more than a half.
    sizes = [entry["memory"]["arguments"]["trained_parameters"] for entry in (whole, split)]
    assert 0.5 <= sizes[1] / sizes[0] < 0.52
    # Gradients are added up over "data", where a ring of 8 sends 7/8 twice: of all parameters, of
    # the embedding for both stacks, and of the position biases before they are gathered.
    sent = sum(entry["sent_bytes"] for entry in whole["work"]["step"]["collectives"])
    added = sizes[0] + 4 * 4224 * 16 + 4 * 2 * (2 * 224 * 224)
    assert sent == pytest.approx(2 * 7 / 8 * added, rel=0.001)


@pytest.mark.slow
def test_parameters_in_two_dimensions_take_an_eighth(eight):
    sizes = [
        eight({"num_partitions": 2, "parameter_partitioning_dims": dims})["memory"]["arguments"]
        for dims in (1, 2)
    ]
    ratio = sizes[1]["trained_parameters"] / sizes[0]["trained_parameters"]
    assert 0.25 <= ratio < 0.27
    assert sizes[1]["optimizer_state"] < sizes[0]["optimizer_state"]


@pytest.mark.faults
def test_after_a_mistake_the_process_answers_on(eight):
    with pytest.raises(ConfigError, match=r"NUM_PARTITIONS = 3 .* give one of 1, 2, 4, 8\."):
        eight({"num_partitions": 3})
    assert eight({"num_partitions": 8})["mesh"] == {"data": 1, "model": 8}


@pytest.mark.faults
def test_a_process_that_is_killed_is_told_with_its_last_words(tiny):
    with CompilingProcess(tiny(), parse_topology("cpu:1")) as ask:
        os.kill(ask._process.pid, signal.SIGKILL)
        # Waits for the end: before it, the pipe could still take the question.
        os.waitid(os.P_PID, ask._process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(ProcessError, match="has ended with status -9") as raised:
            ask(PlanRequest())
    assert raised.value.status == 128 + 9


@pytest.mark.faults
def test_a_sweep_that_was_stopped_resumes_recommends_and_writes(tmp_path, monkeypatch, capsys):
    out, picture = tmp_path / "plan.json", tmp_path / "plan.png"
    arguments = ["plan", "--topology=h100:4", *TINY, "--sweep", "--partitions=1,2"]
    arguments += [f"--json={out}", f"--figure={picture}"]
    whole = CompilingProcess.__call__

    def killed(self, question):
        if question.choice["num_partitions"] == 2:
            raise KeyboardInterrupt
        return whole(self, question)

    monkeypatch.setattr(CompilingProcess, "__call__", killed)
    assert cli.main(arguments) == 130
    numbers = []

    def counted(self, question):
        numbers.append(question.choice["num_partitions"])
        return whole(self, question)

    monkeypatch.setattr(CompilingProcess, "__call__", counted)
    assert cli.main([*arguments, "--gin.LEARNING_RATE=0.5"]) == 2
    assert re.search(r"keeps \d rows of another run", capsys.readouterr().err)
    assert cli.main(arguments) == 0
    assert numbers[0] == 2
    assert {item.name for item in tmp_path.iterdir()} == {"plan.json", "plan.png"}

    report = json.loads(out.read_text())
    assert {item["settings"]["NUM_PARTITIONS"] for item in report["tried"]} == {1, 2}
    best = min(
        report["tried"], key=lambda item: item["plan"]["work"]["step"]["roofline"]["seconds"]
    )
    assert report["recommended"] == best["settings"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    number = best["settings"]["NUM_PARTITIONS"]
    assert f"recommended: --gin.NUM_PARTITIONS={number} " in printed
    assert f"train on h100:4: 4 devices (data {4 // number}, model {number})" in printed
    assert "decoded evaluation" not in printed  # tiny.gin decodes nothing
    assert "evaluation: memory of a device" in printed
    assert "bottleneck" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topology=v4:4x4x"], "Did you mean 'v4:4x4x8' or 'v4:4x4x4'"),
        (["--topology=h100:8", "--partitions=2"], "--partitions: goes with --sweep."),
        (["--topology=h100:8", "--figure=a.png"], "--figure: goes with --sweep."),
        (["--topology=h100:8", "--free=1.5"], "a share in [0, 1)"),
        (["--topology=h100:8", "--sweep", "--figure=no/a.png"], "make its folder first."),
        (["--topology=h100:8", "--json=-"], "-: standard output is no place for an output that"),
    ],
)
def test_a_mistake_is_one_line(arguments, message, capsys, tmp_path):
    assert cli.main(["plan", f"--json={tmp_path}/plan.json", *arguments, *TINY]) == 2
    messages = [line for line in capsys.readouterr().err.splitlines() if "faith-jax" in line]
    assert len(messages) == 1
    assert message in messages[0]
    assert not list(tmp_path.iterdir())


def test_without_libtpu_the_command_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert cli.main(["plan", "--topology=v4:2x2x1", *TINY]) == 2
    assert 'pip install "faith_jax[tpu-plan]"' in capsys.readouterr().err


def fits_with(total):
    """Returns a planner of a recipe with these needs by remat policy, and its questions."""
    questions = []

    def ask(question):
        questions.append(question)
        needed = total[question.choice.get("remat_policy")]
        return {
            "job": "train",
            "topology": "v4:2x2x1",
            "devices": 4,
            "compiler": "libtpu",
            "settings": {"BATCH_SIZE": 4, "REMAT_POLICY": "none"},
            "mesh": {"data": 4, "model": 1},
            "fits": needed <= 100,
            "free_share": 1 - needed / 100,
            "memory": {
                "arguments": {"parameters": 10},
                "total": needed,
                "available": 100,
                "free": 100 - needed,
                "free_share": 1 - needed / 100,
                "is_whole": True,
            },
            **({"work": {"step": work(needed)}} if needed <= 100 else {}),
        }

    return ask, questions


def work(seconds):
    parts = dict.fromkeys(
        ("compute_seconds", "memory_seconds", "network_seconds", "seconds"), seconds
    )
    line = parts | {"bottleneck": "compute"}
    return {"operations": 1.0, "bytes_moved": 1.0, "collectives": [], "roofline": line}


FACTS = RecipeFacts("train", rows=4, devices=4, slices=1, summed=0, config="", versions={})


def test_what_does_not_fit_is_answered_with_what_would():
    ask, _ = fits_with({None: 300, "none": 300, "minimal": 200, "full": 70})
    report, tried = report_of(ask, FACTS, CHIPS["v4"], PlanOptions(topology="v4:4x4x4"))
    assert [trial.choice["remat_policy"] for trial in tried] == ["minimal", "full"]
    assert report["recommended"]["REMAT_POLICY"] == "full"
    text = list(lines(report))
    assert "  DOES NOT FIT" in text
    assert text[-1].startswith("recommended: --gin.NUM_PARTITIONS=1 ")
    assert text[-1].endswith("--gin.REMAT_POLICY=full")


def test_only_what_is_recommended_is_planned_with_its_evaluations():
    ask, questions = fits_with({"none": 50, "minimal": 60})
    report, tried = report_of(ask, FACTS, CHIPS["v4"], PlanOptions(topology="v4:4x4x4", sweep=True))
    assert len(tried) == len(questions) - 1
    assert [question.evaluations for question in questions] == [False] * len(tried) + [True]
    assert report["plan"] == ask(questions[-1])


def test_a_plan_that_was_made_is_not_asked_for_again(tmp_path):
    ask, requests = fits_with({"none": 50, "full": 30})
    path = tmp_path / "rows.jsonl"
    questions = [
        PlanRequest({"remat_policy": "none"}),
        PlanRequest({"remat_policy": "full"}, False),
    ]
    first = [keep_plans_in_file(ask, path)(question) for question in questions]
    assert len(requests) == 2
    path.write_text(path.read_text() + '{"question": {"cho')  # a kill cut this
    assert [keep_plans_in_file(ask, path)(question) for question in questions] == first
    assert len(requests) == 2
    keep_plans_in_file(ask, path)(PlanRequest({"remat_policy": "none"}, False))
    assert len(requests) == 3


needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="needs libtpu: the extra tpu-plan"
)


@needs_libtpu
@pytest.mark.parametrize(
    ("topology", "gib"),
    [("v4:2x2x1", 30.75), ("v5e:2x2", 15.75), ("v5p:2x2x1", 95.74), ("v6e:2x2", 31.25)],
)
def test_libtpu_compiles_for_chips_and_their_memory(tiny, topology, gib):
    with CompilingProcess(tiny("NUM_PARTITIONS=2"), parse_topology(topology)) as ask:
        plan = ask(PlanRequest())
    assert plan["devices"] == 4
    assert plan["mesh"] == {"data": 2, "model": 2}
    assert "model" in axes(plan)
    assert plan["memory"]["available"] == int(gib * 2**30)
    assert plan["memory"]["arguments"]["padding"] > 0  # 16 channels in tiles of 128
    assert plan["fits"]


@needs_libtpu
def test_two_slices_add_up_their_gradients(tiny):
    with CompilingProcess(tiny("NUM_PARTITIONS=2"), parse_topology("2xv5e:2x2")) as ask:
        assert (ask.facts.devices, ask.facts.slices) == (8, 2)
        plan = ask(PlanRequest(evaluations=False))
    assert plan["mesh"] == {"slice": 2, "data": 2, "model": 2}
    between = [op for op in plan["work"]["step"]["collectives"] if op["axes"] == "slice"]
    assert {op["kind"] for op in between} == {"all-reduce"}
    assert {op["bytes_per_second"] for op in between} == {3.125e9}
    # Each of the two devices of a slice that have the same parameters sends a half of their
    # gradients, in tiles of 8 x 128: mostly those of the embedding's 2,112 x 16, for both stacks.
    embedding = 2112 * 128 * 4 / 2
    assert 2 * embedding < sum(op["sent_bytes"] for op in between) < 3 * embedding


@needs_libtpu
def test_the_memory_in_the_table_is_libtpus(tiny):
    # 2**22 tokens, of which each layer keeps states of 2 GiB, in tiles of 8 x 128 float32.
    lengths = "TASK_FEATURE_LENGTHS={'inputs': 16, 'targets': 16}"
    bindings = (lengths, f"BATCH_SIZE={2**18}", "REMAT_POLICY='none'")
    with CompilingProcess(tiny(*bindings), parse_topology("v5e:1x1")) as ask:
        plan = ask(PlanRequest(evaluations=False))
    assert not plan["fits"]
    assert plan["memory"]["total"] > plan["memory"]["available"]


def test_what_fits_nowhere_says_so():
    ask, _ = fits_with(dict.fromkeys((None, "none", "minimal", "full"), 300))
    report, tried = report_of(ask, FACTS, CHIPS["v4"], PlanOptions(topology="v4:4x4x4"))
    assert len(tried) == 12  # and no more
    assert report["recommended"] is None
    assert list(lines(report))[-1].startswith("Nothing that was tried fits")
