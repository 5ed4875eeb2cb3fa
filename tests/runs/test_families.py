"""Runs with models of other families than T5: features, training, inference, PMI-Decode."""

import json
import pathlib

import numpy as np
import pytest

from faith_jax.core.cutting import fit
from faith_jax.inference import load_model
from faith_jax.inference.texts.row_tokens import InputLayout
from faith_jax.input.task_batches import DatasetConfig, SplitRows
from faith_jax.tokenizers.vocabularies import load_vocabulary, tasks_use
from tests.runs.conftest import settings
from tests.scoring import tiny_models

LENGTHS = {"inputs": 160, "targets": 90}
LIMITS = f"--gin.TASK_FEATURE_LENGTHS={LENGTHS}"
TASK = "faithdial_generate_sample"


def write(folder, family):
    return tiny_models.write_model(folder / family, family, max_positions=256)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("model"), "gpt2")


@pytest.fixture
def vocabulary(folder):
    tokenizer = load_vocabulary(folder)
    with tasks_use(tokenizer):
        yield tokenizer


@pytest.mark.parametrize("family", ["gpt2", "bart"])
def test_features(tmp_path, family):
    folder = write(tmp_path, family)
    vocabulary = load_vocabulary(folder)
    with tasks_use(vocabulary):
        check_features(load_model(folder).config, vocabulary)


def check_features(config, vocabulary):
    dataset = DatasetConfig(TASK, LENGTHS, split="test", batch_size=4, shuffle=False)
    batch = next(SplitRows(dataset, config).evaluation_batches())
    example = next(iter(dataset.task().get_dataset(None, split="test", shuffle=False)))
    source, target = (
        vocabulary.encode(example[f"{n}_pretokenized"].numpy().decode())
        for n in ("inputs", "targets")
    )
    source, eos = [*vocabulary.prefix_ids, *source], [vocabulary.eos_id]
    weights = batch["decoder_loss_weights"][0]
    if config.is_decoder_only:
        sequence = [*source, *target, *eos]
        fed, predicted, width = sequence[:-1], sequence[1:], 160 + 90 - 1
        counted = [0] * (len(source) - 1) + [1] * (len(target) + 1)
        assert "encoder_input_tokens" not in batch
    else:
        predicted = [*vocabulary.prefix_ids, *target, *eos]
        fed, width = [config.decoder_start_id, *predicted[:-1]], 90
        counted = [1] * len(predicted)
        encoder = batch["encoder_input_tokens"][0]
        expected = [*source, *eos]
        assert encoder.tolist() == expected + [1] * (160 - len(expected))
    for name, ids in (("input", fed), ("target", predicted)):
        row = batch[f"decoder_{name}_tokens"][0].tolist()
        assert row == ids + [config.pad_id] * (width - len(ids))
    assert weights.tolist() == counted + [0] * (width - len(counted))


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "bart"])
def test_a_prompt_is_trained_and_decoded_with(command, tmp_path, family):
    folder = write(tmp_path, family)
    run, output = tmp_path / "run", tmp_path / "out"
    vocabulary = f"--gin.VOCABULARY={folder}"
    command.succeeds(
        "train",
        "--gin_file=npov_generate_prompt_tune.gin",
        *settings(INITIAL_CHECKPOINT_PATH=folder, MODEL_DIR=run, MIXTURE_OR_TASK_NAME=TASK),
        *settings(TRAIN_STEPS=3, WARMUP_STEPS=1, BATCH_SIZE=2, DECODING=None),
        vocabulary,
        LIMITS,
    )
    described = json.loads((run / "model.json").read_text())
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    assert described["family"] == config["model_type"]
    model = load_model(str(run))
    prompts = (model.config.encoder_prompt_length, model.config.decoder_prompt_length)
    assert prompts == ((0, 5) if model.config.is_decoder_only else (5, 0))
    command.succeeds(
        "infer",
        "--gin_file=runs/infer.gin",
        *settings(CHECKPOINT_PATH=run, MIXTURE_OR_TASK_NAME=TASK, INFER_OUTPUT_DIR=output),
        *settings(DECODE_LENGTH=4, FORMATS="('jsonl',)"),
        vocabulary,
        LIMITS,
    )
    assert rows_of(output)


def rows_of(output):
    lines = (output / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_infer_with_pmi_decode(command, folder, vocabulary, tmp_path):
    output = tmp_path / "out"
    command.succeeds(
        "infer",
        "--gin_file=runs/infer.gin",
        "--gin_file=decoding/pmi_beam.gin",
        *settings(CHECKPOINT_PATH=folder, MIXTURE_OR_TASK_NAME=TASK, INFER_OUTPUT_DIR=output),
        *settings(DECODE_LENGTH=5, FORMATS="('jsonl',)", VOCABULARY=folder),
        LIMITS,
    )
    row = rows_of(output)[0]
    model = load_model(folder)
    layout = InputLayout.of(model.config, vocabulary)
    document, _, turns = row["inputs"].partition(" <seeker>")
    assert document.startswith("<knowledge>")
    whole = vocabulary.encode(row["inputs"])
    history = fit(vocabulary, row["inputs"], len(whole), "error", "row").without_knowledge
    assert whole[-len(history) :] == history
    assert vocabulary.decode(history).strip() == f"<seeker>{turns}"
    inputs = [np.array([layout.inputs(ids)]) for ids in (whole, history)]
    decoded = model.decode_pmi(*inputs, max_length=5, num_beams=4)
    assert row["log_prob"] == pytest.approx(float(decoded.log_prob[0]), abs=1e-3)
    tokens = np.asarray(decoded.tokens)[0, : int(decoded.length[0])]
    assert row["prediction"] == vocabulary.decode(tokens.tolist())


def test_rows_without_a_document_are_refused(command, folder, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "7", "inputs": "What is tea?"}\n')
    arguments = (
        "infer",
        "--gin_file=runs/infer_file.gin",
        "--gin_file=decoding/pmi_greedy.gin",
        *settings(CHECKPOINT_PATH=folder, INPUT_FILE=rows, INFER_OUTPUT_DIR=tmp_path / "out"),
        *settings(VOCABULARY=folder, MAX_INPUT_LENGTH=64, DECODE_LENGTH=3),
    )
    assert "Row 7: PMI-Decode needs the input without its document" in command.refuses(*arguments)
    assert not (tmp_path / "out").exists()


def test_a_run_that_is_refused_writes_nothing(command, folder, tmp_path):
    status, _, err = command(
        "train",
        "--gin_file=faithdial_generate_finetune.gin",
        f"--gin.MIXTURE_OR_TASK_NAME={TASK}",
        LIMITS,
        *settings(DECODE_LENGTH=400, INITIAL_CHECKPOINT_PATH=folder, MODEL_DIR=tmp_path / "model"),
    )
    assert status == 2
    assert "but the model has 256" in err
    assert "Training" not in err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_infer_writes_n_best_responses_with_their_scores(command, folder, vocabulary, tmp_path):
    rows, text = tmp_path / "rows.jsonl", "Is tea better than coffee?"
    question = {"knowledge": "Tea is a leaf. " * 12, "history": ["Hi!", "What is tea?"]}
    rows.write_text(json.dumps({"inputs": text}) + "\n" + json.dumps(question) + "\n")
    common = (
        "infer",
        "--gin_file=runs/infer_file.gin",
        "--gin_file=decoding/beam.gin",
        *settings(CHECKPOINT_PATH=folder, INPUT_FILE=rows, MAX_INPUT_LENGTH=96, DECODE_LENGTH=5),
    )
    several = tmp_path / "several"
    command.succeeds(
        *common, *settings(INFER_OUTPUT_DIR=several, NUM_RETURN=3, FORMATS="('jsonl', 'tfds')")
    )
    row, of_dialogue = rows_of(several)
    assert [name for name in row if name != "predictions"] == [
        "id",
        "inputs",
        "prediction",
        "log_prob",
        "num_tokens",
        "finished",
        "inputs_cut_tokens",
        "inputs_cut_knowledge",
        "inputs_cut_history",
        "inputs_cut_response",
    ]
    model = load_model(folder)
    layout = InputLayout.of(model.config, vocabulary)
    inputs = np.array([layout.inputs(vocabulary.encode(text))])
    search = {"max_length": 5, "num_beams": 4, "num_return": 3}
    # `respond` writes and cuts the same.
    assert of_dialogue["inputs_cut_knowledge"] > 0
    assert model.respond(**question, max_input_length=96, **search) == [
        response["prediction"] for response in of_dialogue["predictions"]
    ]
    decoded = model.decode(inputs, **search)
    assert len(row["predictions"]) == 3
    for i, response in enumerate(row["predictions"]):
        tokens = np.asarray(decoded.tokens)[0, i, : int(decoded.length[0, i])]
        assert response["num_tokens"] == len(tokens)
        assert response["prediction"] == vocabulary.decode(tokens.tolist())
        assert response["log_prob"] == pytest.approx(float(decoded.log_prob[0, i]), abs=1e-3)
        assert response["score"] == pytest.approx(float(decoded.score[0, i]), abs=1e-3)
    scores = [response["score"] for response in row["predictions"]]
    assert scores == sorted(scores, reverse=True)
    # The best one is what is written alone.
    first = row["predictions"][0]
    assert {name: first[name] for name in ("prediction", "log_prob", "num_tokens")} == {
        name: row[name] for name in ("prediction", "log_prob", "num_tokens")
    }
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(str(several / "tfds"))
    stored, _ = tfds.as_numpy(builder.as_dataset(split="rows"))
    texts = [text.decode() for text in stored["predictions"]["prediction"]]
    assert texts == [response["prediction"] for response in row["predictions"]]
    np.testing.assert_allclose(stored["predictions"]["score"], scores, rtol=1e-6)


@pytest.mark.parametrize(
    ("bindings", "parts"),
    [
        (("--gin.MAX_INPUT_LENGTH=300",), ["MAX_INPUT_LENGTH", "take 30"]),
        (("--gin.DECODE_LENGTH=300",), ["DECODE_LENGTH: ", "responses take 3"]),
    ],
)
def test_limits_are_named_by_the_runs_own_macros(command, folder, tmp_path, bindings, parts):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"inputs": "Is tea better?"}\n')
    status, _, err = command(
        "infer",
        "--gin_file=runs/infer_file.gin",
        *settings(CHECKPOINT_PATH=folder, INPUT_FILE=rows, INFER_OUTPUT_DIR=tmp_path / "out"),
        *settings(MAX_INPUT_LENGTH=32, DECODE_LENGTH=5),
        *bindings,
    )
    assert status == 2
    assert "TASK_FEATURE_LENGTHS" not in err
    for part in parts:
        assert part in err


def test_metrics_are_of_one_response_within_the_positions(command, folder):
    arguments = (
        "eval",
        "--gin_file=runs/eval.gin",
        "--gin_file=decoding/beam.gin",
        *settings(CHECKPOINT_PATH=folder, MIXTURE_OR_TASK_NAME=TASK),
        LIMITS,
    )
    status, _, err = command(*arguments, "--gin.DECODE_LENGTH=4", "--gin.NUM_RETURN=2")
    assert (status, "NUM_RETURN = 2: expected 1" in err) == (2, True)
    status, _, err = command(*arguments, "--gin.DECODE_LENGTH=300")
    assert (status, "DECODE_LENGTH: " in err) == (2, True)
