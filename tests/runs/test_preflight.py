import json

import numpy as np
import pytest
import tensorflow as tf

from faith_jax.core.cutting import CutTokens, Kind
from faith_jax.inference import load_model
from faith_jax.input.task_batches import DatasetConfig, SplitRows
from faith_jax.runs.preflight import (
    cut_of_inputs,
    cut_report,
    cut_warnings,
    percentiles,
    tell,
    training_report,
)
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.runs.conftest import TINY, seqio_task

pytestmark = pytest.mark.usefixtures("own_seqio_tasks")

NUMBERS = {
    "train": [*range(100, 160), *range(100, 160)],
    "validation": [*range(160, 168), 107, 108],
}


def facts(split, shuffle_files, seed=None):
    inputs = [f"<knowledge> Fact {number}. <seeker> Why?" for number in NUMBERS[split]]
    return tf.data.Dataset.from_tensor_slices({"inputs": inputs, "targets": ["So."] * len(inputs)})


def report(name, steps, inputs=40):
    model = load_model("mini").config
    config = DatasetConfig(name, {"inputs": inputs, "targets": 16}, batch_size=10)
    held_out = DatasetConfig(name, config.task_feature_lengths, "validation", shuffle=False)
    rows = SplitRows(config, model), steps, SplitRows(held_out, model)
    return training_report(*rows, load_vocabulary())


def test_a_run_of_less_than_an_epoch_says_how_many_rows_it_never_reads():
    preflight = report(seqio_task("preflight_in_order", facts, keeps_order=True), steps=4)
    (member,) = preflight["members"]
    assert (member["read"], member["epochs"], member["never_read"]) == (40, 0.3333, 80)
    warnings = "\n".join(preflight["warnings"])
    assert "80 of 120 rows are never read: the run ends after 0.33 epochs" in warnings
    assert "in its own order" in warnings


def test_a_run_of_whole_epochs_warns_of_nothing_but_shared_groundings():
    """And its first examples are those that the model sees first."""
    preflight = report(seqio_task("preflight_shuffled", facts), steps=24)
    assert preflight["members"][0]["epochs"] == 2.0
    assert preflight["validation"]["shared_groundings"] == 2
    assert preflight["warnings"] == [
        "2 of 10 rows of validation have a grounding that training rows have too."
    ]
    model = load_model("mini").config
    config = DatasetConfig("preflight_shuffled", {"inputs": 40, "targets": 16}, batch_size=10)
    batch = next(SplitRows(config, model).training_batches())
    decode = load_vocabulary().decode
    shown = [example["inputs"] for example in preflight["examples"]]
    assert shown == [decode(row) for row in batch["encoder_input_tokens"][:3]]
    assert all(text.endswith("<seeker> Why?") for text in shown)


def test_what_is_cut_is_told_by_part(capsys):
    whole = len(load_vocabulary().encode("<knowledge> Fact 100. <seeker> Why?")) + 1
    preflight = report(seqio_task("preflight_shuffled", facts), steps=12, inputs=whole - 2)
    cut = preflight["cut"]["knowledge"]
    assert set(preflight["cut"]) == {"knowledge"}
    assert cut["max"] == 2
    assert cut["rows"] == pytest.approx(120 * cut["share"])
    tell(preflight | {"task": "\x1b[2Jtask"}, None, dry_run=True)
    out = capsys.readouterr().out
    assert "cut of knowledge" in out
    assert "\\x1b[2Jtask" in out  # as text, which no terminal obeys
    assert any("knowledge, which their targets may need" in text for text in preflight["warnings"])


def test_lengths_that_are_mostly_padding_are_told(capsys):
    task = seqio_task("preflight_shuffled", facts)
    result = report(task, steps=12, inputs=100)
    lengths = result["shorter_lengths"]
    longest = len(load_vocabulary().encode("<knowledge> Fact 100. <seeker> Why?")) + 1
    assert lengths["inputs"] % 8 == 0
    assert longest <= lengths["inputs"] < longest + 8
    assert lengths["targets"] == 8
    assert report(task, steps=12, inputs=lengths["inputs"])["shorter_lengths"] == {}
    tell(result, None, dry_run=True)
    out = capsys.readouterr().out
    assert f"TASK_FEATURE_LENGTHS = {lengths} has room for all rows" in out
    assert f'{result["times_shorter"]} times fewer tokens: add --gin.TASK_FEATURE_LENGTHS="' in out
    assert 1.5 < result["times_shorter"] < 200 / sum(lengths.values()) + 0.1


def test_percentiles_of_a_cut_are_of_the_rows_that_are_cut():
    cut = np.zeros(200, int)
    cut[:30] = np.arange(1, 31)
    assert percentiles(cut) == {"p50": 0, "p90": 11, "p99": 29, "max": 30}
    cuts = cut_report({"history": cut, "knowledge": np.zeros(200, int)})
    assert cuts == {"history": {"rows": 30, "share": 0.15} | percentiles(np.arange(1, 31))}
    assert cut_report({"knowledge": np.array([0, 8])})["knowledge"]["p50"] == 8


def lost(knowledge=0, history=0, before=10, last_turn=False):
    tokens = {Kind.KNOWLEDGE: knowledge, Kind.HISTORY: history}
    return CutTokens({kind: n for kind, n in tokens.items() if n}, before, last_turn)


def test_inputs_that_lose_most_of_their_knowledge_or_their_last_turn_are_warned_of():
    half = [lost(knowledge=5)] * 100
    assert list(cut_warnings(cut_of_inputs(half))) == []
    assert list(cut_warnings(cut_of_inputs(half), training=True)) == [
        "100.0% of the inputs lose tokens of their knowledge, which their targets may need."
    ]
    assert list(cut_warnings(cut_of_inputs([lost(knowledge=6)] * 5 + half[5:]))) == []
    assert list(cut_warnings(cut_of_inputs([lost(knowledge=6)] * 6 + half[6:]))) == [
        "6.0% of the inputs lose more than half of their knowledge."
    ]
    few = [lost(knowledge=1)] * 5 + [lost()] * 95
    assert list(cut_warnings(cut_of_inputs(few), training=True)) == []
    last = cut_of_inputs([lost(history=1, last_turn=True)] + [lost()] * 99)
    assert last["history"]["last_turns"] == 1
    assert list(cut_warnings(last)) == [
        "The last turn, which the response answers, is cut in 1 input."
    ]


@pytest.mark.usefixtures("uncosted")
def test_a_dry_run_trains_nothing_and_says_what_it_would(command, tmp_path):
    folder = tmp_path / "model"
    out = command.succeeds(*TINY, "--dry_run", f"--gin.MODEL_DIR={folder}")
    assert out.startswith("npov_generate_sample, split 'train': 48 examples in 12 steps of 4 rows")
    assert "warning: npov_generate_sample: 60 of 108 rows are never read" in out
    assert [path.name for path in tmp_path.iterdir()] == ["model.preflight.json"]
    preflight = json.loads((tmp_path / "model.preflight.json").read_text())
    assert preflight["model"]["frozen"] == 0
    assert preflight["model"]["trained"] > 1000
    assert len(preflight["examples"]) == 3
    assert preflight["members"][0]["never_read"] == preflight["members"][0]["rows"] - 48


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        ("CUT_POLICY=error", "example "),
        ("TASK_FEATURE_LENGTHS={'inputs': 12, 'targets': 224}", "no room for the last turn"),
    ],
)
def test_data_that_a_run_cannot_read_is_one_line_and_leaves_nothing(
    command, tmp_path, binding, message
):
    more = ["--gin.TASK_FEATURE_LENGTHS={'inputs': 90, 'targets': 224}"]
    more = more if binding == "CUT_POLICY=error" else []
    folder = tmp_path / "model"
    assert message in command.refuses(*TINY, f"--gin.MODEL_DIR={folder}", f"--gin.{binding}", *more)
    assert list(tmp_path.iterdir()) == []
