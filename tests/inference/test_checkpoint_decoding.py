"""Decoding with the settings of a checkpoint's generation_config.json."""

import dataclasses
import json
import logging
import pathlib

import pytest

from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.errors import ConfigError, FaithJaxError
from faith_jax.decoding.config import DecodingConfig
from faith_jax.gin_files import config as gin_config
from faith_jax.inference.checkpoint_decoding import from_checkpoint, log_ignored
from tests.gin_files.test_config import macro
from tests.scoring import tiny_models

BART = {
    "_from_model_config": True,
    "bos_token_id": 0,
    "decoder_start_token_id": 2,
    "early_stopping": True,
    "eos_token_id": 2,
    "forced_bos_token_id": 0,
    "forced_eos_token_id": 2,
    "length_penalty": 2.0,
    "max_length": 142,
    "min_length": 56,
    "no_repeat_ngram_size": 3,
    "num_beams": 4,
    "pad_token_id": 1,
    "transformers_version": "4.27.0",
}
SUMMARY = DecodingConfig(
    max_length=141,  # theirs counts the start token
    min_length=56,
    num_beams=4,
    length_penalty=2.0,
    early_stopping=True,
    no_repeat_ngram=3,
    forced_bos_id=0,
    forced_eos_id=2,
    eos_id=2,
    pad_id=1,
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "bart": tiny_models.write_model(folder / "bart", "bart", max_positions=200),
        "gpt2": tiny_models.write_model(folder / "gpt2", "gpt2"),
    }


@pytest.fixture
def says(folders):
    """Writes a checkpoint's decoding settings; returns its folder."""
    written = []

    def write(fields, family="bart", name="generation_config.json"):
        path = pathlib.Path(folders[family]) / name
        before = path.read_text() if path.exists() else None
        written.append((path, before))
        if name == "config.json":
            fields = json.loads(before) | fields
        path.write_text(fields if isinstance(fields, str) else json.dumps(fields))
        return folders[family]

    yield write
    for path, before in reversed(written):
        path.unlink() if before is None else path.write_text(before)


def test_all_of_a_summariser_is_applied(says, caplog):
    caplog.set_level(logging.INFO, "faith_jax")
    assert from_checkpoint(says(BART)) == SUMMARY
    assert "generation_config.json says: early_stopping = true, eos_token_id = 2" in caplog.text
    assert "ignored" not in caplog.text


def test_what_is_given_comes_before_it(says):
    config = from_checkpoint(says(BART), max_length=60, num_beams=2, no_repeat_ngram=0)
    assert config == dataclasses.replace(SUMMARY, max_length=60, num_beams=2, no_repeat_ngram=0)
    sampled = from_checkpoint(says(BART), temperature=0.7)
    assert sampled == dataclasses.replace(SUMMARY, num_beams=1, temperature=0.7)


def test_older_folders_say_it_in_their_config(says):
    fields = {n: v for n, v in BART.items() if "token_id" not in n or "forced" in n}
    config = from_checkpoint(says(fields, name="config.json"))
    assert config == dataclasses.replace(SUMMARY, eos_id=None, pad_id=None)


def test_new_tokens_override_whole_lengths(says, caplog):
    fields = {"max_length": 30, "max_new_tokens": 12, "min_length": 9, "min_new_tokens": 4}
    config = from_checkpoint(says(fields))
    # Theirs may end behind 4 tokens, with its fifth.
    assert config == DecodingConfig(max_length=12, min_length=5)
    assert "max_length = 30 is ignored: max_new_tokens overrides it" in caplog.text


def test_a_decoder_only_models_lengths_count_its_prompt(says, caplog):
    fields = {"max_length": 30, "min_length": 5, "forced_bos_token_id": 3, "num_beams": 2}
    config = from_checkpoint(says(fields, "gpt2"))
    assert config == DecodingConfig(max_length=512, num_beams=2)
    for name in ("max_length = 30", "min_length = 5", "forced_bos_token_id = 3"):
        assert f"{name} is ignored: " in caplog.text
    assert from_checkpoint(says({"max_new_tokens": 8}, "gpt2")) == DecodingConfig(max_length=8)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"do_sample": True}, {"temperature": 1.0, "top_k": 50}),
        (
            {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": 0},
            {"temperature": 0.6, "top_p": 0.9},
        ),
        ({"temperature": 0.6, "top_p": 0.9}, {}),
        ({"do_sample": True, "num_beams": 3}, {"num_beams": 3}),
        ({"eos_token_id": [2, 5], "repetition_penalty": 1.0}, {"eos_id": (2, 5)}),
    ],
)
def test_sampling_and_end_tokens(says, fields, expected):
    assert from_checkpoint(says(fields)) == DecodingConfig(max_length=512, **expected)


def test_what_there_is_not_is_said(says, caplog):
    fields = {"num_beams": 2, "repetition_penalty": 1.3, "suppress_tokens": [3], "odd": None}
    from_checkpoint(says(fields))
    for setting in ("repetition_penalty = 1.3", "suppress_tokens = [3]"):
        assert f"{setting} is ignored: there is no such setting here" in caplog.text
    assert "odd" not in caplog.text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_beams": "4"}, "num_beams: expected a positive whole number, got '4'."),
        ({"forced_eos_token_id": []}, "forced_eos_token_id: expected a token id or several"),
        ({"early_stopping": "no"}, "early_stopping: expected True or False or 'never', got 'no'."),
        ({"do_sample": 1}, "do_sample: expected True or False, got 1."),
        ({"max_length": 5, "min_length": 9}, "min_length: expected at most max_length = 4, got 9"),
        ("[1]", "expected a JSON object, got [1]."),
    ],
)
def test_wrong_fields_are_errors_that_name_the_file(says, fields, message):
    with pytest.raises(FaithJaxError) as caught:
        from_checkpoint(says(fields))
    assert "generation_config.json: " in str(caught.value)
    assert message in str(caught.value)


def test_a_checkpoint_that_says_nothing_is_an_error(folders):
    with pytest.raises(ConfigError, match=r"bart: has no generation_config\.json and no decoding"):
        from_checkpoint(folders["bart"])


def test_the_log_says_what_a_run_ignores(says, caplog):
    folder = says(BART | {"repetition_penalty": 1.2})
    model = open_checkpoint(folder).config
    log_ignored(folder, DecodingConfig(max_length=141, num_beams=4), model)
    (record,) = caplog.records
    assert record.message.startswith(f"{folder}/generation_config.json asks for ")
    text = record.message.partition(" asks for ")[2].partition(", which this run ignores")[0]
    names = {part.partition(" = ")[0] for part in text.split(", ")}
    assert names == {
        "early_stopping", "forced_bos_token_id", "forced_eos_token_id", "length_penalty",
        "min_length", "no_repeat_ngram_size", "repetition_penalty",
    }  # fmt: skip
    caplog.clear()
    log_ignored(says(BART), SUMMARY, model)
    log_ignored("mini", DecodingConfig(), open_checkpoint("mini").config)
    assert not caplog.records


def test_the_gin_file_asks_for_it_behind_any_decoding(says):
    folder = says(BART)
    required = [f"CHECKPOINT_PATH={folder}", "INFER_OUTPUT_DIR=x", "MIXTURE_OR_TASK_NAME=x"]
    for first in ("runs/infer.gin", "faithdial_pmi_decode.gin"):
        files = [first, "decoding/from_checkpoint.gin"]
        gin_config.parse(files, required)
        assert macro("DECODING") == SUMMARY
        gin_config.parse(files, [*required, "NUM_BEAMS=1", "DECODE_LENGTH=70"])
        config = dataclasses.replace(SUMMARY, num_beams=1, max_length=70)
        assert macro("DECODING") == config


@pytest.mark.slow
def test_a_run_says_what_it_ignores(says, command, tmp_path, caplog):
    folder = says(BART | {"max_length": 7, "min_length": 0, "no_repeat_ngram_size": 1})
    settings = (
        "--gin_file=runs/eval.gin",
        f"--gin.CHECKPOINT_PATH={folder}",
        "--gin.MIXTURE_OR_TASK_NAME=faithdial_generate_sample",
        "--gin.TASK_FEATURE_LENGTHS={'inputs': 60, 'targets': 90}",
    )
    status, _, err = command("eval", *settings, "--gin.DECODE_LENGTH=2")
    assert status == 0, err
    assert "no_repeat_ngram_size = 1, num_beams = 4" in caplog.text
    assert "which this run ignores" in caplog.text
