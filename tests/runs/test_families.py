"""Runs with models of other families than T5: features, training, inference, PMI-Decode."""

import json
import pathlib

import numpy as np
import pytest

from faith_jax.core.cutting import fit
from faith_jax.core.errors import ConfigError
from faith_jax.inference import load_model
from faith_jax.inference.texts.input_rows import InputLayout
from faith_jax.input.task_batches import DatasetConfig, SplitRows
from faith_jax.tokenizers.vocabularies import load_vocabulary, tasks_use
from tests.scoring import tiny_models

LENGTHS = {"inputs": 160, "targets": 90}
LIMITS = f"--gin.TASK_FEATURE_LENGTHS={LENGTHS}"
TASK = "faithdial_generate_sample"


@pytest.fixture(scope="module", params=["gpt2", pytest.param("bart", marks=pytest.mark.slow)])
def folder(request, tmp_path_factory):
    return tiny_models.write_model(
        tmp_path_factory.mktemp("model") / request.param, request.param, max_positions=256
    )


@pytest.fixture(autouse=True)
def vocabulary(folder):
    found = load_vocabulary(folder)
    with tasks_use(found):
        yield found


def test_features(folder, vocabulary):
    config = load_model(folder).config
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


def test_a_prompt_is_trained_and_decoded_with(command, folder, tmp_path):
    run, output = tmp_path / "run", tmp_path / "out"
    vocabulary = f"--gin.VOCABULARY={folder}"
    status, _, err = command(
        "train",
        "--gin_file=npov_generate_prompt_tune.gin",
        f"--gin.INITIAL_CHECKPOINT_PATH={folder}",
        f"--gin.MODEL_DIR={run}",
        f"--gin.MIXTURE_OR_TASK_NAME={TASK}",
        "--gin.TRAIN_STEPS=3",
        "--gin.WARMUP_STEPS=1",
        "--gin.BATCH_SIZE=2",
        "--gin.DECODE_LENGTH=4",
        vocabulary,
        LIMITS,
    )
    assert status == 0, err
    described = json.loads((run / "model.json").read_text())
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    assert described["family"] == config["model_type"]
    model = load_model(str(run))
    prompts = (model.config.encoder_prompt_length, model.config.decoder_prompt_length)
    assert prompts == ((0, 5) if model.config.is_decoder_only else (5, 0))
    status, _, err = command(
        "infer",
        "--gin_file=runs/infer.gin",
        f"--gin.CHECKPOINT_PATH={run}",
        f"--gin.MIXTURE_OR_TASK_NAME={TASK}",
        f"--gin.INFER_OUTPUT_DIR={output}",
        "--gin.DECODE_LENGTH=4",
        "--gin.FORMATS=('jsonl',)",
        vocabulary,
        LIMITS,
    )
    assert status == 0, err
    assert rows_of(output)


def rows_of(output):
    lines = (output / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_infer_with_pmi_decode(command, folder, vocabulary, tmp_path):
    output = tmp_path / "out"
    status, _, err = command(
        "infer",
        "--gin_file=runs/infer.gin",
        "--gin_file=decoding/pmi_beam.gin",
        f"--gin.CHECKPOINT_PATH={folder}",
        f"--gin.MIXTURE_OR_TASK_NAME={TASK}",
        f"--gin.INFER_OUTPUT_DIR={output}",
        "--gin.DECODE_LENGTH=5",
        "--gin.FORMATS=('jsonl',)",
        f"--gin.VOCABULARY={folder}",
        LIMITS,
    )
    assert status == 0, err
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
    found = model.decode_pmi(*inputs, max_length=5, num_beams=4)
    assert row["log_prob"] == pytest.approx(float(found.log_prob[0]), abs=1e-3)
    tokens = np.asarray(found.tokens)[0, : int(found.length[0])]
    assert row["prediction"] == vocabulary.decode(tokens.tolist())


def test_rows_without_a_document_are_refused(command, folder, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "7", "inputs": "What is tea?"}\n')
    arguments = (
        "infer",
        "--gin_file=runs/infer_file.gin",
        "--gin_file=decoding/pmi_greedy.gin",
        f"--gin.CHECKPOINT_PATH={folder}",
        f"--gin.INPUT_FILE={rows}",
        f"--gin.INFER_OUTPUT_DIR={tmp_path / 'out'}",
        f"--gin.VOCABULARY={folder}",
        "--gin.MAX_INPUT_LENGTH=64",
        "--gin.DECODE_LENGTH=3",
    )
    status, _, err = command(*arguments)
    assert status == 2
    assert "Row 7: PMI-Decode needs the input without its document" in err
    assert not (tmp_path / "out").exists()
    rows.write_text('{"inputs": "Tea. What is tea?", "inputs_without_document": "What is tea?"}\n')
    status, _, err = command(*arguments)
    assert status == 0, err
    assert len(rows_of(tmp_path / "out")) == 1


def test_lengths_beyond_the_table_and_packing_are_refused(folder):
    config = load_model(folder).config
    dataset = DatasetConfig(TASK, {"inputs": 300, "targets": 64}, batch_size=2)
    with pytest.raises(ConfigError, match=r"take \d+ positions .*, but the model has 256"):
        next(SplitRows(dataset, config).evaluation_batches())
    packed = DatasetConfig(TASK, LENGTHS, batch_size=2, pack=True)
    with pytest.raises(ConfigError, match="only T5's examples can be packed"):
        next(SplitRows(packed, config).training_batches(0))


def test_a_run_that_is_refused_writes_nothing(command, folder, tmp_path):
    for number, (setting, message) in enumerate(
        (
            ("TASK_FEATURE_LENGTHS={'inputs': 300, 'targets': 64}", "but the model has 256"),
            ("PACK=True", "only T5's examples can be packed"),
            ("DECODE_LENGTH=400", "but the model has 256"),
        )
    ):
        status, _, err = command(
            "train",
            "--gin_file=faithdial_generate_finetune.gin",
            f"--gin.MIXTURE_OR_TASK_NAME={TASK}",
            f"--gin.TASK_FEATURE_LENGTHS={LENGTHS}",
            "--gin.DECODE_LENGTH=4",
            f"--gin.INITIAL_CHECKPOINT_PATH={folder}",
            f"--gin.MODEL_DIR={tmp_path / str(number)}",
            f"--gin.{setting}",
        )
        assert status == 2
        assert message in err
        assert "Training" not in err
        assert not list(tmp_path.glob("*/*"))


def test_infer_writes_n_best_responses_with_their_scores(command, folder, vocabulary, tmp_path):
    rows, text = tmp_path / "rows.jsonl", "Is tea better than coffee?"
    rows.write_text(json.dumps({"inputs": text}) + "\n")
    common = (
        "infer",
        "--gin_file=runs/infer_file.gin",
        "--gin_file=decoding/beam.gin",
        f"--gin.CHECKPOINT_PATH={folder}",
        f"--gin.INPUT_FILE={rows}",
        "--gin.MAX_INPUT_LENGTH=32",
        "--gin.DECODE_LENGTH=5",
    )
    one, several = tmp_path / "one", tmp_path / "several"
    status, _, err = command(*common, f"--gin.INFER_OUTPUT_DIR={one}")
    assert status == 0, err
    status, _, err = command(
        *common,
        f"--gin.INFER_OUTPUT_DIR={several}",
        "--gin.NUM_RETURN=3",
        "--gin.FORMATS=('jsonl', 'tfds')",
    )
    assert status == 0, err
    (single,), (row,) = rows_of(one), rows_of(several)
    assert list(single) == [
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
    # The best one is what is written alone.
    assert {name: row[name] for name in single} == single
    model = load_model(folder)
    layout = InputLayout.of(model.config, vocabulary)
    inputs = np.array([layout.inputs(vocabulary.encode(text))])
    found = model.decode(inputs, max_length=5, num_beams=4, num_return=3)
    assert len(row["predictions"]) == 3
    for i, response in enumerate(row["predictions"]):
        tokens = np.asarray(found.tokens)[0, i, : int(found.length[0, i])]
        assert response["num_tokens"] == len(tokens)
        assert response["prediction"] == vocabulary.decode(tokens.tolist())
        assert response["log_prob"] == pytest.approx(float(found.log_prob[0, i]), abs=1e-3)
        assert response["score"] == pytest.approx(float(found.score[0, i]), abs=1e-3)
    scores = [response["score"] for response in row["predictions"]]
    assert scores == sorted(scores, reverse=True)
    first = row["predictions"][0]
    assert {name: first[name] for name in ("prediction", "log_prob", "num_tokens")} == {
        name: row[name] for name in ("prediction", "log_prob", "num_tokens")
    }
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(str(several / "tfds"))
    (stored,) = tfds.as_numpy(builder.as_dataset(split="rows"))
    texts = [text.decode() for text in stored["predictions"]["prediction"]]
    assert texts == [response["prediction"] for response in row["predictions"]]
    np.testing.assert_allclose(stored["predictions"]["score"], scores, rtol=1e-6)


@pytest.mark.parametrize(
    ("bindings", "parts"),
    [
        (("--gin.MAX_INPUT_LENGTH=300",), ["MAX_INPUT_LENGTH", "take 30"]),
        (("--gin.DECODE_LENGTH=300",), ["DECODE_LENGTH: ", "responses take 3"]),
        (
            ("--gin.MAX_INPUT_LENGTH=0",),
            ["MAX_INPUT_LENGTH: expected a positive whole number, got 0"],
        ),
        (
            ("--gin.BATCH_SIZE=0",),
            ["BATCH_SIZE: expected a whole number from 1 to 1,048,576, got 0"],
        ),
    ],
)
def test_limits_are_named_by_the_runs_own_macros(command, folder, tmp_path, bindings, parts):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"inputs": "Is tea better?"}\n')
    status, _, err = command(
        "infer",
        "--gin_file=runs/infer_file.gin",
        f"--gin.CHECKPOINT_PATH={folder}",
        f"--gin.INPUT_FILE={rows}",
        f"--gin.INFER_OUTPUT_DIR={tmp_path / 'out'}",
        "--gin.MAX_INPUT_LENGTH=32",
        "--gin.DECODE_LENGTH=5",
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
        f"--gin.CHECKPOINT_PATH={folder}",
        f"--gin.MIXTURE_OR_TASK_NAME={TASK}",
        LIMITS,
    )
    status, _, err = command(*arguments, "--gin.DECODE_LENGTH=4", "--gin.NUM_RETURN=2")
    assert (status, "NUM_RETURN = 2: expected 1" in err) == (2, True)
    status, _, err = command(*arguments, "--gin.DECODE_LENGTH=300")
    assert (status, "DECODE_LENGTH: " in err) == (2, True)
