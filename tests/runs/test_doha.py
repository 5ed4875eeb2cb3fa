"""DoHA from a published BART, through the command line."""

import json
import re
import shutil

import numpy as np
import pytest

import faith_jax
from faith_jax.data import vocabularies
from faith_jax.models.doha import doha_from_bart
from faith_jax.models.importers.checkpoint import Checkpoint, flatten
from faith_jax.models.importers.formats import open_checkpoint
from faith_jax.models.importers.huggingface import write_huggingface
from tests.data import published_tokenizers
from tests.models import families, tiny
from tests.runs.test_bad_input import assert_mistake

CONFIG = families.BART.replace(vocab_size=448, max_positions=600, num_decoder_layers=1)


@pytest.fixture(autouse=True)
def restore_default():
    before = vocabularies.default_vocabulary_setting()
    yield
    vocabularies.set_default_vocabulary(before.model_file, before.extra_ids)


@pytest.fixture
def bart(tmp_path):
    folder = tmp_path / "bart"
    folder.mkdir()
    published_tokenizers.bart(folder)
    params = tiny.model_and_params(CONFIG)[1]
    write_huggingface(Checkpoint(CONFIG, params), tmp_path / "weights")
    for file in (tmp_path / "weights").iterdir():
        shutil.copy(file, folder)
    return folder


def train(bart, model, task="faithdial_generate_sample", steps=2):
    return (
        "train",
        "--gin_file=runs/train.gin",
        "--gin_file=models/doha_from_bart.gin",
        f"--gin.MIXTURE_OR_TASK_NAME='{task}'",
        "--gin.TASK_FEATURE_LENGTHS={'inputs': 512, 'targets': 512}",
        f"--gin.TRAIN_STEPS={steps}",
        "--gin.WARMUP_STEPS=0",
        "--gin.BATCH_SIZE=2",
        "--gin.LOG_PERIOD=1",
        f"--gin.INITIAL_CHECKPOINT_PATH={bart}",
        f"--gin.VOCABULARY={bart}",
        f"--gin.MODEL_DIR={model}",
    )


def test_a_run_trains_the_knowledge_attention_and_writes_doha(command, bart, tmp_path):
    status, _, err = command(*train(bart, tmp_path / "model"))
    assert status == 0, err
    rows = [json.loads(x) for x in (tmp_path / "model" / "metrics.jsonl").read_text().splitlines()]
    assert len([row for row in rows if row["part"] == "train"]) == 2
    model = faith_jax.load_model(str(tmp_path / "model"))
    assert model.config.knowledge_attention
    start = flatten(doha_from_bart(open_checkpoint(bart)).params)
    moved = flatten(model.params)
    assert moved.keys() == start.keys()
    attention = [name for name in start if re.search("knowledge_attention/.*/kernel", name)]
    assert attention
    for name in attention:
        assert np.abs(np.asarray(moved[name]) - start[name]).max() > 0, name
    tokens = np.array([[0, 5, 6, 2]])
    assert model.generate((tokens, tokens[:, 1:]), max_length=3).shape == (1, 3)


def test_a_task_without_knowledge_is_one_clear_line(command, bart, tmp_path):
    found = command(*train(bart, tmp_path / "model", "npov_generate_sample"))
    assert_mistake(found, "npov_generate_sample", "have no field 'knowledge'")
