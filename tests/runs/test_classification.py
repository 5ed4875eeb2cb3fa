"""Training of classification heads through the commands."""

import json
import logging
import shutil

import numpy as np
import pytest

from faith_jax.scoring.pair_classifier import pair_classifier
from tests.runs.conftest import settings
from tests.scoring import tiny_models

NLI = ("neutral", "contradiction", "entailment")
SETTINGS = (
    "--gin_file=nli_anli_augmented_finetune.gin",
    *settings(MIXTURE_OR_TASK_NAME="nli_anli_augmented_sample"),
    *settings(TASK_FEATURE_LENGTHS="{'inputs': 64, 'targets': 8}", TRAIN_STEPS=12, WARMUP_STEPS=2),
    *settings(LEARNING_RATE=0.003, BATCH_SIZE=4, LOG_PERIOD=1, EVAL_PERIOD=6, CHECKPOINT_PERIOD=6),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("classification")


@pytest.fixture(scope="module")
def nli(folder):
    return tiny_models.write_model(
        folder / "nli", "deberta_nli", label_names=NLI, num_encoder_layers=2
    )


def rows_of(folder, part):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if row["part"] == part]


@pytest.mark.slow
def test_an_nli_model_is_trained_and_scores(command, folder, nli, caplog):
    caplog.set_level(logging.INFO, logger="faith_jax")
    run = folder / "run"
    arguments = (f"--gin.INITIAL_CHECKPOINT_PATH={nli}", f"--gin.MODEL_DIR={run}")
    command.succeeds("train", *SETTINGS, *arguments)
    assert len(rows_of(run, "train")) == 12
    (first, last) = rows_of(run, "validation")
    assert last["weight"] == first["weight"] > 0
    assert last["loss"] < first["loss"]
    assert 0 <= last["accuracy"] <= 1
    # The same figures from the checkpoint, by another command and other batches.
    output = folder / "evaluation"
    command.succeeds(
        "eval",
        "--gin_file=runs/eval.gin",
        *settings(MIXTURE_OR_TASK_NAME="nli_anli_augmented_sample"),
        *settings(TASK_FEATURE_LENGTHS="{'inputs': 64, 'targets': 8}", SPLIT="'validation'"),
        *settings(BATCH_SIZE=3, CHECKPOINT_PATH=run, EVAL_OUTPUT_DIR=output),
    )
    evaluated = json.loads((output / "evaluation.json").read_text())["metrics"]
    for name in ("loss", "accuracy", "weight"):
        assert evaluated[name] == pytest.approx(last[name], rel=1e-4)
    summary = f"weight: {last['weight']:.0f} (target tokens; rows of a head's classes)"
    assert f"validation {summary}" in caplog.messages
    # And the scorers read the run, with the classes of the model that it began with.
    classify, before = pair_classifier(str(run)), pair_classifier(nli)
    assert classify.label_names == NLI
    pairs = [("Tea is a leaf.", "Tea is a plant.")]
    assert np.abs(classify(pairs)[0] - before(pairs)[0]).max() > 1e-3
    # A run whose validation got worse scores by the step before that.
    worse = shutil.copytree(run, folder / "worse")
    metrics = worse / "checkpoints" / "12" / "metrics" / "metrics"
    metrics.write_text(json.dumps(json.loads(metrics.read_text()) | {"loss": first["loss"] + 1}))
    by_step = {step: pair_classifier(f"{run}/checkpoints/{step}")(pairs)[0] for step in (6, 12)}
    assert np.abs(by_step[6] - by_step[12]).max() > 1e-4
    for path, step in ((run, 12), (worse, 6), (worse / "checkpoints" / "newest", 12)):
        np.testing.assert_array_equal(pair_classifier(str(path))(pairs)[0], by_step[step])


@pytest.mark.slow
def test_a_bart_gets_a_head_in_its_output_layers_place(command, tmp_path):
    bart = tiny_models.write_model(tmp_path / "bart", "bart")
    run, exported = tmp_path / "run", tmp_path / "exported"
    arguments = (f"--gin.INITIAL_CHECKPOINT_PATH={bart}", f"--gin.MODEL_DIR={run}")
    command.succeeds("train", *SETTINGS, *arguments, f"--gin.LABEL_NAMES={NLI}")
    command.succeeds("export-checkpoint", run, exported)
    config = json.loads((exported / "config.json").read_text())
    assert config["architectures"] == ["BartForSequenceClassification"]
    assert pair_classifier(str(exported)).label_names == NLI
    probabilities, expected = (
        pair_classifier(str(folder))([("Tea is a leaf.", "Tea grows.")])[0]
        for folder in (exported, run)
    )
    np.testing.assert_allclose(probabilities, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("--gin.LABEL_NAMES=('yes', 'no')", "its class is 'entailment', the model's classes are"),
        ("--gin.OBJECTIVE=@objectives.CrossEntropy()", "CrossEntropy is not for an encoder with"),
        ("--gin.MIXTURE_OR_TASK_NAME='npov_generate_sample'", "have no two texts to compare"),
    ],
)
def test_wrong_settings_are_one_line(command, nli, tmp_path, setting, message):
    run = tmp_path / "run"
    arguments = (f"--gin.INITIAL_CHECKPOINT_PATH={nli}", f"--gin.MODEL_DIR={run}", setting)
    assert message in command.refuses("train", *SETTINGS, *arguments)


def test_generators_have_another_objective(command, tmp_path):
    arguments = ("--gin.INITIAL_CHECKPOINT_PATH=mini", f"--gin.MODEL_DIR={tmp_path / 'run'}")
    assert "LabelCrossEntropy is not for a generator" in command.refuses(
        "train", *SETTINGS, *arguments
    )


def test_an_encoder_does_not_respond(command, nli, tmp_path):
    assert "cannot generate: give a language model" in command.refuses(
        "infer",
        "--gin_file=runs/infer.gin",
        *settings(CHECKPOINT_PATH=nli, MIXTURE_OR_TASK_NAME="npov_generate_sample"),
        *settings(INFER_OUTPUT_DIR=tmp_path / "out"),
    )
