"""A run on our tasks with the tokenizer of a published folder."""

import re

import pytest

from tests.data import published_tokenizers
from tests.runs.conftest import TINY
from tests.runs.test_bad_input import assert_mistake

LENGTHS = "--gin.TASK_FEATURE_LENGTHS={'inputs': 1024, 'targets': 512}"


@pytest.fixture
def bart(tmp_path):
    folder = tmp_path / "bart"
    folder.mkdir()
    published_tokenizers.bart(folder)
    return folder


def test_a_run_trains_and_infers_with_a_published_tokenizer(command, bart, tmp_path, caplog):
    model, rows, output = tmp_path / "model", tmp_path / "rows.jsonl", tmp_path / "out"
    vocabulary = f"--gin.VOCABULARY={bart}"
    run = (f"--gin.MODEL_DIR={model}", "--gin.TRAIN_STEPS=1", "--gin.WARMUP_STEPS=0", LENGTHS)
    status, _, err = command(*TINY, *run, vocabulary, "--gin.VOCAB_SIZE=448")
    assert status == 0, err
    loss = float(re.search(r"step 1/1  loss (\S+)", caplog.text)[1])
    assert loss == pytest.approx(6.1, abs=1.5)  # about log 448, untrained
    rows.write_text('{"id": "a", "inputs": "The tea wasn\'t better than coffee."}\n')
    status, _, err = command(
        "infer",
        "--gin_file=runs/infer_file.gin",
        f"--gin.CHECKPOINT_PATH={model}",
        f"--gin.INPUT_FILE={rows}",
        f"--gin.INFER_OUTPUT_DIR={output}",
        "--gin.DECODE_LENGTH=4",
        vocabulary,
    )
    assert status == 0, err
    (written,) = output.glob("*.jsonl")
    assert len(written.read_text(encoding="utf-8").splitlines()) == 1


@pytest.mark.parametrize(
    ("vocabulary", "size", "parts"),
    [
        ("{tmp}/bart", 4224, ["421", "4224", "VOCABULARY"]),
        ("{tmp}", 448, ["the folder has none of", "tokenizer.json"]),
        ("{tmp}/bart/tokenizr.json", 448, ["there is no such file", "'tokenizer.json'"]),
    ],
)
def test_a_wrong_vocabulary_is_one_clear_line(vocabulary, size, parts, command, bart, tmp_path):
    given = vocabulary.format(tmp=tmp_path)
    found = command(
        *TINY,
        f"--gin.MODEL_DIR={tmp_path / 'model'}",
        LENGTHS,
        f"--gin.VOCABULARY={given}",
        f"--gin.VOCAB_SIZE={size}",
    )
    assert_mistake(found, *parts)
