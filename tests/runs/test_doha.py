"""DoHA from a published BART, through the command line."""

import json
import re

import numpy as np
import pytest

import faith_jax
from faith_jax.checkpoints.checkpoint import flatten
from faith_jax.checkpoints.doha import doha_from_bart
from faith_jax.checkpoints.native import write_native
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.cutting import fit
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.decoding.config import DecodingConfig, PMIConfig
from faith_jax.inference.batch_decoder import BatchDecoder
from faith_jax.input.task_batches import DatasetConfig, SplitRows
from faith_jax.models.transformer import Transformer
from faith_jax.tokenizers import vocabularies
from tests.runs.conftest import settings
from tests.scoring import tiny_models

TASK = "faithdial_generate_sample"
LENGTHS = {"inputs": 60, "targets": 90}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "bart"
    return tiny_models.write_model(folder, "bart", max_positions=256, num_decoder_layers=1)


@pytest.fixture
def bart(folder):
    with vocabularies.tasks_use(vocabularies.load_vocabulary(folder)):
        yield folder


def test_the_dialogue_is_read_alone_and_with_its_knowledge(bart):
    vocabulary = vocabularies.load_vocabulary(bart)
    model = open_checkpoint(bart).config.replace(knowledge_attention=True)
    dataset = DatasetConfig(TASK, LENGTHS, split="test", batch_size=2, shuffle=False)
    batch = next(SplitRows(dataset, model).evaluation_batches())
    examples = dataset.task().get_dataset(None, split="test", shuffle=False)
    for row, example in zip(range(2), examples, strict=False):
        text = example["inputs_pretokenized"].numpy().decode()
        _, tag, dialogue = text.partition(" <seeker>")
        assert tag  # the first turn is the seeker's
        ids = [*vocabulary.prefix_ids, *vocabulary.encode(f"<seeker>{dialogue}")]
        read = vocabulary.decode(batch["encoder_input_tokens"][row].tolist()).strip()
        assert read.endswith(vocabulary.decode(ids)[-20:].strip())
        assert "<knowledge>" not in read
        assert "<seeker>" in read
    plain = next(SplitRows(dataset, open_checkpoint(bart).config).evaluation_batches())
    assert "knowledge_input_tokens" not in plain
    whole = plain.pop("encoder_input_tokens")
    np.testing.assert_array_equal(batch["knowledge_input_tokens"], whole)
    assert "<knowledge>" in vocabulary.decode(whole[0].tolist())
    for name, array in plain.items():
        np.testing.assert_array_equal(batch[name], array)


def test_a_task_without_knowledge_is_one_clear_line(bart):
    model = open_checkpoint(bart).config.replace(knowledge_attention=True)
    dataset = DatasetConfig("text_to_text_sample", {"inputs": 200, "targets": 200}, split="train")
    with pytest.raises(InputError, match="DoHA reads the dialogue alone"):
        next(SplitRows(dataset, model).evaluation_batches())


def test_pmi_decode_is_refused(bart):
    model = Transformer(open_checkpoint(bart).config.replace(knowledge_attention=True))
    with pytest.raises(ConfigError, match="pmi is set; expected None for DoHA"):
        BatchDecoder(model, None, DecodingConfig(pmi=PMIConfig()), batch_size=2)


@pytest.mark.slow
def test_rows_are_decoded_with_their_knowledge(command, bart, tmp_path):
    checkpoint = doha_from_bart(open_checkpoint(bart))
    write_native(checkpoint, tmp_path / "doha")
    command.succeeds(
        "infer",
        "--gin_file=runs/infer.gin",
        *settings(CHECKPOINT_PATH=tmp_path / "doha", MIXTURE_OR_TASK_NAME=TASK),
        *settings(TASK_FEATURE_LENGTHS=LENGTHS, INFER_OUTPUT_DIR=tmp_path / "out", DECODE_LENGTH=4),
        *settings(FORMATS="('jsonl',)", VOCABULARY=bart),
    )
    lines = (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()
    row = json.loads(lines[0])
    vocabulary = vocabularies.load_vocabulary(bart)
    room = LENGTHS["inputs"] - 1 - len(vocabulary.prefix_ids)
    fitted = fit(vocabulary, row["inputs"], room, "knowledge", "row")
    pair = [
        np.array([[*vocabulary.prefix_ids, *ids, vocabulary.eos_id]])
        for ids in (fitted.without_knowledge, fitted.ids)
    ]
    model = faith_jax.load_model(str(tmp_path / "doha"))
    decoded = model.decode(tuple(pair), max_length=4)
    assert row["log_prob"] == pytest.approx(float(decoded.log_prob[0]), abs=1e-3)
    limits = {"max_input_length": LENGTHS["inputs"], "max_length": 4}
    text = model.respond(inputs=row["inputs"], vocabulary=bart, **limits)
    assert text == row["prediction"]


def test_rows_without_knowledge_are_one_clear_line(command, bart, tmp_path):
    write_native(doha_from_bart(open_checkpoint(bart)), tmp_path / "doha")
    (tmp_path / "rows.jsonl").write_text('{"id": "7", "inputs": "What is tea?"}\n')
    assert (
        "Row 7: DoHA needs the knowledge, but there is no <knowledge>, and no {key: value}"
        in command.refuses(
            "infer",
            "--gin_file=runs/infer_file.gin",
            *settings(CHECKPOINT_PATH=tmp_path / "doha", INPUT_FILE=tmp_path / "rows.jsonl"),
            *settings(INFER_OUTPUT_DIR=tmp_path / "out", MAX_INPUT_LENGTH=60, DECODE_LENGTH=4),
            *settings(VOCABULARY=bart),
        )
    )


def start_layers(folder):
    return open_checkpoint(folder).config.num_decoder_layers


@pytest.mark.slow
def test_the_recipe_trains_the_knowledge_attention_and_writes_doha(command, bart, tmp_path):
    command.succeeds(
        "train",
        "--gin_file=faithdial_generate_doha.gin",
        *settings(MIXTURE_OR_TASK_NAME=TASK, TASK_FEATURE_LENGTHS=LENGTHS, TRAIN_STEPS=2),
        *settings(WARMUP_STEPS=0, BATCH_SIZE=8, DECODING=None, LOG_PERIOD=1),
        *settings(INITIAL_CHECKPOINT_PATH=bart, VOCABULARY=bart, MODEL_DIR=tmp_path / "model"),
    )
    rows = [json.loads(x) for x in (tmp_path / "model" / "metrics.jsonl").read_text().splitlines()]
    assert len([row for row in rows if row["part"] == "train"]) == 2
    model = faith_jax.load_model(str(tmp_path / "model"))
    assert model.config.knowledge_attention
    start = flatten(doha_from_bart(open_checkpoint(bart)).params)
    moved = flatten(model.params)
    assert moved.keys() == start.keys()
    attention = [name for name in start if re.search("knowledge_attention/.*/kernel", name)]
    assert len(attention) == 4 * start_layers(bart)
    for name in attention:
        assert np.abs(np.asarray(moved[name]) - start[name]).max() > 0, name
    tokens = np.array([[0, 5, 6, 2]])
    assert model.generate((tokens, tokens[:, 1:]), max_length=3).shape == (1, 3)
    # What it learnt, it uses: another knowledge is another response's probability.
    log_probs = [model.target_log_probs((tokens, k), tokens) for k in (tokens, tokens[:, ::-1])]
    assert np.abs(log_probs[0] - log_probs[1]).max() > 1e-4


def test_the_recipe_on_a_model_without_cross_attention_is_one_clear_line(command, tmp_path):
    folder = tiny_models.write_model(tmp_path / "gpt2", "gpt2")
    assert (
        f"{folder}: DoHA is made of an encoder-decoder model (BART), but this one has"
        in command.refuses(
            "train",
            "--gin_file=faithdial_generate_doha.gin",
            *settings(MIXTURE_OR_TASK_NAME=TASK, TASK_FEATURE_LENGTHS=LENGTHS),
            *settings(INITIAL_CHECKPOINT_PATH=folder, MODEL_DIR=tmp_path / "model"),
        )
    )
    assert not (tmp_path / "model").exists()
