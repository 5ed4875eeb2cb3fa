"""Users' mistakes: one line that names the mistake, status 2, no traceback, no partial files."""

import json
import logging

import pytest

from faith_jax import cli
from tests.runs.conftest import TINY, settings

INFER = ("infer", "--gin_file=runs/infer_file.gin", "--gin.DECODE_LENGTH=4")


def assert_mistake(result, *parts):
    status, _, err = result
    lines = [line for line in err.splitlines() if line.startswith("faith-jax: ")]
    assert status == 2, err
    assert len(lines) == 1, err
    assert "Traceback" not in err
    for part in parts:
        assert part in lines[0], f"{part!r} is not in {lines[0]!r}"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--gin.TRIAN_STEPS=5", "'TRAIN_STEPS'"),
        ("--gin.MIXTURE_OR_TASK_NAME=npov_generat_sample", "npov_generate_sample"),
        ("--gin.TASK_FEATURE_LENGTHS={'inputs': 224}", "'targets'"),
        ("--gin.MODEL_DIR={tmp}/own.gin/model", "cannot be written"),
        ("--gin.NUM_PARTITIONS=3", "NUM_PARTITIONS = 3"),
        ("--gin.WARMUP_STEPS=-5", "got -5 and"),
        ("--gin.TRAINABLE=('nothing.*',)", "nothing.*"),
        ("--gin.NUM_MICROBATCHES=3", "NUM_MICROBATCHES = 3"),
        ("--gin.KEEP_LAST=0", "KEEP_LAST: expected a positive whole"),
        ("--gin.MODEL_DIR", "--gin.MODEL_DIR: write --gin.MODEL_DIR=VALUE"),
        ("--MODEL_DIR={tmp}", "write --gin.MODEL_DIR=VALUE"),
        ("--steps=9", "A setting of the gin file is given as --gin.STEPS=9."),
        ("--gin.KEEP_LAST=%NOPE", "%NOPE is used but has no value"),
        ("--gin.OBJECTIVE=[[[]]]", "OBJECTIVE: expected a reference such as @NAME(), got [[[]]]."),
        ("--gin.LEARNING_RATE_SCHEDULE='x'", "_SCHEDULE: expected 0 or a positive number"),
        ("--gin.TRAINABLE=1e400", "TRAINABLE: expected a list such as ('a', 'b'), got inf."),
        ("--gin.RANDOM_SEED=" + "9" * 400, "RANDOM_SEED: expected a number of 64 bits"),
        ("--gin.OPTIMIZER=@optimizers.adafactor(", "not closed"),
        ("--gin.OPTIMIZER=@adafactr()", "No configurable"),
        ("--gin_search_paths={tmp}/nothing", "--gin_search_paths: {tmp}/nothing: no such folder."),
        ("--gin_file={tmp}/onw.gin", "Did you mean '{tmp}/own.gin'?"),
    ],
)
def test_wrong_settings_of_training(command, tmp_path, argument, message):
    (tmp_path / "own.gin").write_text("")
    options = (f"--gin.MODEL_DIR={tmp_path / 'model'}", argument.replace("{tmp}", str(tmp_path)))
    assert_mistake(command(*TINY, *options), message.replace("{tmp}", str(tmp_path)))
    assert [path.name for path in tmp_path.iterdir()] == ["own.gin"]


def test_what_must_be_given(command):
    assert_mistake(command(*TINY), "MODEL_DIR must be set", "--gin.MODEL_DIR=")
    assert_mistake(command("train"), "--gin_file=FILE")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BATCH_SIZE = = 3", "own.gin"),
        ("from nowhere import nothing", "own.gin"),
        ("include 'runs/trian.gin'", "'runs/train.gin'"),
        ("include 'own.gin'", "in a circle: "),
        (f"A = {'[' * 3000}{']' * 3000}", "own.gin: nested too deeply."),
        ("A = {[1]: 2}", "unhashable type: 'list'"),
    ],
)
def test_a_broken_gin_file_is_one_line(command, tmp_path, text, message):
    (tmp_path / "own.gin").write_text(f"include 'runs/train.gin'\n{text}\n")
    options = (f"--gin_file={tmp_path}/own.gin", f"--gin_search_paths={tmp_path}")
    assert_mistake(command("train", *options), message)


def test_a_checkpoint_of_other_dimensions_names_the_parameter(command, tiny_run, tmp_path):
    result = command(
        *TINY,
        *settings(MODEL_DIR=tmp_path, INITIAL_CHECKPOINT_PATH=tiny_run),
        "--gin.config.TransformerConfig.mlp_dim=32",
    )
    assert_mistake(result, "/mlp/", "(16, 32)", "(16, 16)")


def test_a_split_that_is_not_there(command, tiny_run, tmp_path):
    result = command(
        "infer",
        "--gin_file=runs/infer.gin",
        *settings(CHECKPOINT_PATH=tiny_run, INFER_OUTPUT_DIR=tmp_path / "out"),
        *settings(MIXTURE_OR_TASK_NAME="npov_generate_sample", SPLIT="tset"),
    )
    assert_mistake(result, "tset", "test")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ('{"query": "Should', ["rows.jsonl:2"]),
        ('{"query": "  "}', ["rows.jsonl:2", "query"]),
        ('{"query": "Should zebras vote?"}', ["rows.jsonl:2", "Should zebras vote?"]),
        (
            '{"query": "Why?", "pro_arguments": ["A."], "con_arguments": []}',
            ["rows.jsonl:2", "con_arguments"],
        ),
        ('{"id": "1", "inputs": "x"}', ["rows.jsonl:2", "'1'", "twice"]),
        (
            '{"inputs": "x", "inputs_without_document": ""}',
            ["rows.jsonl:2", "'inputs_without_document'", "expected a text"],
        ),
        ('{"inputs": "x", "knowledge": ["a", 1]}', ["rows.jsonl:2", "'knowledge[1]'"]),
    ],
)
def test_bad_rows_name_file_and_line(command, tiny_run, tmp_path, line, parts):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(f'{{"id": "1", "inputs": "fine"}}\n{line}\n')
    result = command(
        *INFER,
        *settings(INPUT_FILE=rows, CHECKPOINT_PATH=tiny_run, INFER_OUTPUT_DIR=tmp_path / "out"),
    )
    assert_mistake(result, *parts)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("binding", "parts"),
    [
        (
            "--gin.TEMPERATURE=-1.0",
            ["TEMPERATURE: expected 0 or a positive number or None, got -1.0"],
        ),
        ("--gin.FORMATS=('csv',)", ["FORMATS", "csv"]),
        ("--gin.VOCABULARY=englsh_4096", ["englsh_4096", "english_4096"]),
        ("--gin.KNOWLEDGE=procon_npv", ["procon_npv"]),
    ],
)
def test_wrong_settings_of_inference(command, tiny_run, tmp_path, binding, parts):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"query": "Should wild animals be kept in zoos?"}\n')
    result = command(
        *INFER,
        *settings(INPUT_FILE=rows, CHECKPOINT_PATH=tiny_run, INFER_OUTPUT_DIR=tmp_path / "out"),
        binding,
    )
    assert_mistake(result, *parts)
    assert not (tmp_path / "out").exists()


def test_wrong_paths_of_inference(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    for name in ("~/nosuch.csv", "*.jsonl"):
        arguments = (f"--gin.INPUT_FILE={name}", "--gin.INFER_OUTPUT_DIR=out")
        status, _, err = command(*INFER, "--gin.CHECKPOINT_PATH=mini", *arguments)
        assert (status, err) == (2, f"faith-jax: {name}: no such file.\n")
    arguments = ("--gin.INPUT_FILE=file", "--gin.INFER_OUTPUT_DIR=file/out/a")
    err = command.refuses(*INFER, "--gin.CHECKPOINT_PATH=mini", *arguments)
    assert err.startswith("faith-jax: INFER_OUTPUT_DIR = 'file/out' cannot be written to (Not a ")


@pytest.mark.parametrize("run", ["eval", "infer", "train"])
def test_nothing_is_said_of_the_vocabulary_of_a_missing_checkpoint(command, run, tmp_path, caplog):
    caplog.set_level("INFO", logger="faith_jax")
    missing, out = tmp_path / "nowhere", tmp_path / "out"
    of_run = {
        "eval": (f"--gin.CHECKPOINT_PATH={missing}", f"--gin.EVAL_OUTPUT_DIR={out}"),
        "infer": (f"--gin.CHECKPOINT_PATH={missing}", f"--gin.INFER_OUTPUT_DIR={out}"),
        "train": (f"--gin.INITIAL_CHECKPOINT_PATH={missing}", f"--gin.MODEL_DIR={out}"),
    }[run]
    files = TINY[1:] if run == "train" else (f"--gin_file=runs/{run}.gin",)
    named = "--gin.MIXTURE_OR_TASK_NAME=npov_generate_sample"
    assert_mistake(command(run, *files, *of_run, named), "there is no such checkpoint")
    assert "VOCABULARY" not in caplog.text


def test_rows_of_three_kinds_are_answered_and_keep_their_fields(command, tiny_run, tmp_path):
    rows = tmp_path / "rows.jsonl"
    long = "word " * 100
    rows.write_text(
        '{"query": "Should wild animals be kept in zoos?", "turn": 7, "weight": 0.5}\n'
        '{"id": 8, "turn": 8, "weight": null, "query": "Why?", "pro_arguments": ["A."],'
        ' "con_arguments": ["B."], "response": "Gold."}\n'
        f'{{"id": "long", "turn": 9, "inputs": "{long}"}}\n'
    )
    out = tmp_path / "out"
    printed = command.succeeds(
        *INFER,
        *settings(INPUT_FILE=rows, CHECKPOINT_PATH=tiny_run, INFER_OUTPUT_DIR=out),
        *settings(MAX_INPUT_LENGTH=32, CUT_POLICY="end", FORMATS="('jsonl', 'tfds')"),
    )
    answers = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
    assert [line.partition(": ")[0] for line in printed.splitlines()] == [
        "1",
        "8",
        "long",
        str(out),
    ]
    assert [row["id"] for row in answers] == ["1", "8", "long"]
    assert [row["turn"] for row in answers] == [7, 8, 9]
    assert [row.get("weight") for row in answers] == [0.5, None, None]
    assert answers[1]["pro_arguments"] == ["A."]
    assert answers[1]["inputs"] == "{query: Why?} {pro: A.} {con: B.}"
    assert [row.get("target") for row in answers] == [None, "Gold.", None]
    assert "target" not in answers[0]  # an empty text would be a reference
    from faith_jax.tokenizers.vocabularies import load_vocabulary

    tokens = len(load_vocabulary().encode(long)) + 1
    assert answers[2]["inputs_cut_tokens"] == tokens - 32
    assert answers[1]["inputs_cut_tokens"] == 0
    assert all(row["num_tokens"] <= 4 and row["log_prob"] < 0 for row in answers)

    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(str(out / "tfds"))
    stored = list(tfds.as_numpy(builder.as_dataset(split="rows")))
    assert [s["id"].decode() for s in stored] == ["1", "8", "long"]
    assert [int(s["turn"]) for s in stored] == [7, 8, 9]
    assert not stored[0].keys() & {"weight", "pro_arguments"}  # which other rows lack
    assert [s["prediction"].decode() for s in stored] == [row["prediction"] for row in answers]
    assert [int(s["inputs_cut_tokens"]) for s in stored] == [
        r["inputs_cut_tokens"] for r in answers
    ]
    # What has a grounding can be scored; a row without any is named.
    score = ("score", "--scorers=token_f1", f"--input={out / 'predictions.jsonl'}")
    command.succeeds(*score, f"--output={tmp_path / 'scores.jsonl'}", "--skip-bad-rows")
    scored = (tmp_path / "scores.jsonl").read_text().splitlines()
    assert [json.loads(line)["fields"]["turn"] for line in scored] == [7, 8]


def test_warnings_are_marked_in_the_log():
    formatted = [
        cli.LogFormat("%(message)s").format(
            logging.LogRecord("", level, "", 0, "%d rows", (3,), None)
        )
        for level in (logging.INFO, logging.WARNING, logging.ERROR)
    ]
    assert formatted == ["3 rows", "warning: 3 rows", "3 rows"]
