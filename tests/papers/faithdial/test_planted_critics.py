"""A critic that is right 90% of the time, and one whose calls are shuffled, through the table."""

import json

import numpy as np
import pytest

from faith_jax.core.rows import Row
from faith_jax.input import score_input
from tests.papers.planted import plant_classifiers, prepare, sentences, write_table
from tests.papers.workflows import figures, run_in_process, shown_commands
from tests.scoring.tiny_models import write_model

pytestmark = pytest.mark.usefixtures("offline_data_dir")

CLASSES = {
    "DECODE": ("contradiction", "not_contradiction"),
    "DNLI": ("entailment", "neutral", "contradiction"),
    "MNLI": ("CONTRADICTION", "NEUTRAL", "ENTAILMENT"),
    "FaithCritic": ("faithful", "unfaithful"),
}
FAITHFUL = {"DECODE": 1, "DNLI": 0, "MNLI": 2, "FaithCritic": 0}
COLUMNS = ("MNLI", "BEGIN", "FaithCritic")
COUNT = 100  # pairs of a column


@pytest.fixture(scope="module")
def critics(tmp_path_factory):
    folder = tmp_path_factory.mktemp("critics")
    return {n: write_model(folder / n, "roberta", label_names=c) for n, c in CLASSES.items()}


def write_data(raw, monkeypatch):
    """Makes FaithDial, BEGIN's first release and MultiNLI's pairs; returns the faithful pairs.

    Every other response repeats its sentence. BEGIN's others are hallucinations, and 20 more are
    generic. MultiNLI, which would come from TFDS, replaces the data of its task.
    """
    truth = {}
    for seed, column in enumerate(COLUMNS):
        texts = sentences(2 * COUNT, seed)
        for number, text in enumerate(texts[:COUNT]):
            response = text if number % 2 == 0 else texts[COUNT + number]
            truth[column, text, response] = number % 2 == 0
    pairs = {c: [(*key[1:], value) for key, value in truth.items() if key[0] == c] for c in COLUMNS}
    utterances = [
        {
            "history": ["Tell me more."],
            "knowledge": knowledge,
            "response": f"{response} Indeed.",
            "original_response": response,
            "BEGIN": ["Entailment" if faithful else "Hallucination"],
            "VRM": ["Disclosure"],
        }
        for knowledge, response, faithful in pairs["FaithCritic"]
    ]
    for name in ("train", "valid", "test"):
        (raw / f"{name}.json").write_text(json.dumps([{"dialog_idx": 0, "utterances": utterances}]))
    generic = [(text, "That is so nice to hear.", None) for text in sentences(20, seed=9)]
    labels = {True: "entailment", False: "hallucination", None: "generic"}
    rows = [
        {
            "evidence": knowledge,
            "previous turn": "Tell me more.",
            "response": response,
            "gold label": labels[faithful],
            "full label set": labels[faithful],
        }
        for knowledge, response, faithful in [*pairs["BEGIN"], *generic]
    ]
    for name in ("dev", "test"):
        write_table(raw / f"{name}_05_24_21.tsv", rows, "\t")
    mnli = [
        {"premise": premise, "hypothesis": text, "label": "entailment" if faithful else "neutral"}
        for premise, text, faithful in pairs["MNLI"]
    ]
    really = score_input.seqio_rows

    def seqio_rows(task, split, first=0):
        if task != "nli_mnli":
            return really(task, split, first)
        return (Row(task, row) for row in mnli[first:])

    monkeypatch.setattr(score_input, "seqio_rows", seqio_rows)
    return truth | {("BEGIN", text, response): True for text, response, _ in generic}


def planted_calls(truth, shuffle):
    """Returns whether each pair is called faithful, with every tenth call of a class wrong."""
    calls = {}
    for column in COLUMNS:
        keys = [key for key in truth if key[0] == column]
        column_calls = [truth[key] != (number // 2 % 10 == 0) for number, key in enumerate(keys)]
        if shuffle:
            column_calls = np.random.default_rng(0).permutation(column_calls).tolist()
        calls |= {key[1:]: call for key, call in zip(keys, column_calls, strict=True)}
    return calls


@pytest.mark.papers
@pytest.mark.parametrize("is_shuffled", [False, True], ids=["right 9 in 10 times", "shuffled"])
def test_accuracy(critics, tmp_path, monkeypatch, capfd, is_shuffled):
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(tmp_path / "prepared"))
    raw, table = tmp_path / "raw", tmp_path / "table"
    raw.mkdir()
    truth = write_data(raw, monkeypatch)
    for name in ("faith_critic", "begin_2021"):
        prepare(name, raw)
    calls = planted_calls(truth, is_shuffled)
    names = {folder: name for name, folder in critics.items()}

    def probabilities(model, *pair):
        """Returns class probabilities, unequal ones for the other classes."""
        faithful, count = FAITHFUL[names[model]], len(CLASSES[names[model]])
        unfaithful = [number for number in range(count) if number != faithful]
        probs = [0.3 / len(unfaithful)] * count
        probs[faithful if calls[pair] else unfaithful[len(pair[1]) % len(unfaithful)]] += 0.7
        return np.divide(probs, sum(probs))

    plant_classifiers(monkeypatch, lambda model: CLASSES[names[model]], probabilities)
    options = [f"--critics={name}={folder}" for name, folder in critics.items()]
    options += [f"--output={table}", "--resamples=200"]
    run_in_process(capfd, table, shown_commands(capfd, "faith_critic", *options))
    rows = figures(table, "faith_critic", "trained on", "tested on")
    assert len(rows) == len(CLASSES) * len(COLUMNS)
    for cell, row in rows.items():
        generic = cell == ("DECODE", "BEGIN")
        assert row["rows"] == (COUNT + 20 if generic else COUNT)
        assert row["published"] is not None
        if is_shuffled:
            # Of 60 faithful pairs (generic ones count), 52% are right by chance.
            assert row["accuracy"] == pytest.approx(0.5, abs=0.11)
            assert row["high"] < 0.75
        else:
            assert row["accuracy"] == pytest.approx(0.9)
            assert row["low"] > 0.8
