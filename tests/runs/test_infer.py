"""Inference and evaluation of a tiny model on the sample's tasks."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from faith_jax.datasets.augmentation.control_tokens import FAITHFUL_TOKENS
from faith_jax.datasets.input_rows import InputRow
from faith_jax.inference.batch_decoder import BatchDecoder, DecodedRow
from faith_jax.papers.dialfact import verification
from faith_jax.papers.dialfact.verification import verification_table
from faith_jax.runs import infer, setup
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.runs.conftest import settings
from tests.scoring import tiny_models


@pytest.fixture(scope="module", autouse=True)
def windows_of_one_batch():
    """A kill is then between batches."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(infer, "WINDOW", 1)
        yield


TASK = "--gin.MIXTURE_OR_TASK_NAME=npov_generate_sample"


def arguments(tiny_run, out, *more):
    return (
        "infer",
        "--gin_file=runs/infer.gin",
        *settings(CHECKPOINT_PATH=tiny_run, INFER_OUTPUT_DIR=out),
        TASK,
        *settings(SPLIT="validation", DECODE_LENGTH=6, TEMPERATURE=1.0, BATCH_SIZE=4),
        *settings(FORMATS="('jsonl',)"),
        *more,
    )


@pytest.fixture(scope="module")
def unbroken(succeed, tiny_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken") / "responses"
    succeed(*arguments(tiny_run, folder))
    return (folder / "predictions.jsonl").read_bytes()


def rows_of(content):
    return [json.loads(line) for line in content.decode().split("\n")[:-1]]


def test_rows_are_the_splits(unbroken):
    rows = rows_of(unbroken)
    assert len(rows) == len({row["id"] for row in rows}) == 18
    assert all(row["inputs"].startswith("{query: ") and row["target"] for row in rows)
    assert all(row["inputs_cut_tokens"] == 0 for row in rows)
    assert all(argument in row["inputs"] for row in rows for argument in row["pro_arguments"])


@pytest.mark.faults
def test_a_killed_run_goes_on_where_it_was(command, tiny_run, tmp_path, unbroken, monkeypatch):
    out = tmp_path / "broken"
    calls = []
    append = infer.append_rows

    def fail_at_third_batch(path, rows):
        calls.append(1)
        if len(calls) == 3:
            # Half a line reaches the disk, as in a kill.
            with path.open("a") as file:
                file.write('{"id": "cut')
            raise KeyboardInterrupt
        append(path, rows)

    monkeypatch.setattr(infer, "append_rows", fail_at_third_batch)
    assert command(*arguments(tiny_run, out))[0] == 130
    assert not out.exists()
    monkeypatch.setattr(
        infer, "append_rows", lambda path, rows: calls.append(1) or append(path, rows)
    )
    calls.clear()
    command.succeeds(*arguments(tiny_run, out))
    # 18 rows in batches of 4 are five batches, of which two were done.
    assert len(calls) == 3
    assert (out / "predictions.jsonl").read_bytes() == unbroken
    assert not out.with_name("broken.partial").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("lines", "redone"), [(11, 3), (16, 1)])
def test_a_file_is_cut_back_to_whole_batches(
    command, tiny_run, tmp_path, unbroken, monkeypatch, lines, redone
):
    """A batch cut in two by a kill is made again; a complete one is not, even as the last."""

    def interrupted(*_):
        raise KeyboardInterrupt

    out, partial = tmp_path / "broken", tmp_path / "broken.partial"
    append = infer.append_rows
    monkeypatch.setattr(infer, "_write_output", interrupted)
    assert command(*arguments(tiny_run, out))[0] == 130
    written = (partial / "rows.jsonl").read_bytes()
    assert written == unbroken
    (partial / "rows.jsonl").write_bytes(b"".join(written.splitlines(True)[:lines]))
    monkeypatch.undo()
    calls = []
    monkeypatch.setattr(
        infer, "append_rows", lambda path, rows: calls.append(1) or append(path, rows)
    )
    command.succeeds(*arguments(tiny_run, out))
    assert len(calls) == redone
    assert (out / "predictions.jsonl").read_bytes() == unbroken
    assert sorted(path.name for path in out.iterdir()) == ["predictions.jsonl", "summary.json"]


@pytest.mark.slow
def test_a_run_stays_with_the_step_with_which_it_began(command, tiny_run, tmp_path, monkeypatch):
    """A training run writes its second step between two parts of an inference run."""
    model, out = shutil.copytree(tiny_run, tmp_path / "model"), tmp_path / "out"
    second = (model / "checkpoints" / "2").rename(tmp_path / "2")
    assert command(*arguments(model, tmp_path / "unbroken"))[0] == 0
    append, calls = infer.append_rows, []

    def fail_at_third_batch(path, rows):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        append(path, rows)

    monkeypatch.setattr(infer, "append_rows", fail_at_third_batch)
    assert command(*arguments(model, out))[0] == 130
    monkeypatch.undo()
    second.rename(model / "checkpoints" / "2")
    left = shutil.copytree(f"{out}.partial", tmp_path / "left")
    command.succeeds(*arguments(model, out))
    whole = (tmp_path / "unbroken" / "predictions.jsonl").read_bytes()
    assert (out / "predictions.jsonl").read_bytes() == whole
    step = json.loads((out / "summary.json").read_text())["run"]["checkpoint"]["step"]
    assert step == 1
    # The next run has the second step, and other responses; a first step that is gone is an error.
    assert command(*arguments(model, tmp_path / "second"))[0] == 0
    assert (tmp_path / "second" / "predictions.jsonl").read_bytes() != whole
    shutil.rmtree(model / "checkpoints" / "1")
    left.rename(tmp_path / "gone.partial")
    assert "the run began with step 1, which is gone; step 2 is there now" in command.refuses(
        *arguments(model, tmp_path / "gone")
    )


def test_an_output_that_is_there_is_not_touched(command, tiny_run, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    message = f"INFER_OUTPUT_DIR: {tmp_path} is a folder of something else; name another folder."
    assert message in command.refuses(*arguments(tiny_run, tmp_path))
    file = f"INFER_OUTPUT_DIR: {tmp_path / 'notes.txt'} is a file; name another folder."
    assert file in command.refuses(*arguments(tiny_run, tmp_path / "notes.txt"))
    out = command.succeeds(*arguments(tiny_run, tmp_path, "--dry-run"))
    assert out.startswith("npov_generate_sample: ")
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.slow
def test_evaluation_is_the_mean_over_target_tokens(command, tiny_run, tmp_path):
    command.succeeds(
        "eval",
        "--gin_file=runs/eval.gin",
        *settings(CHECKPOINT_PATH=tiny_run, EVAL_OUTPUT_DIR=tmp_path),
        TASK,
        *settings(DECODING=None, TASK_FEATURE_LENGTHS="{'inputs': 224, 'targets': 224}"),
    )
    described = json.loads((tmp_path / "evaluation.json").read_text())
    metrics = described["metrics"]
    losses = {
        int(file.parent.parent.name): json.loads(file.read_text())["loss"]
        for file in tiny_run.glob("checkpoints/*/metrics/metrics")
    }
    assert described["step"] == min(losses, key=losses.__getitem__)
    import seqio

    import faith_jax.tasks

    examples = list(
        seqio.get_mixture_or_task("npov_generate_sample")
        .get_dataset(None, split="validation", shuffle=False)
        .as_numpy_iterator()
    )
    model = faith_jax.load_model(str(tiny_run))
    padded = [
        np.stack([np.pad(example[name], (0, 224 - len(example[name]))) for example in examples])
        for name in ("inputs", "targets")
    ]
    total = -model.target_log_probs(*padded).sum()
    count = sum(len(example["targets"]) for example in examples)
    assert metrics["weight"] == count
    np.testing.assert_allclose(metrics["negative_log_likelihood"], total / count, rtol=1e-5)


TEXTS = ["{label: NO}", "Use {x} or {y}.", "  spaces \n", "", "{response: Views differ.} x"]


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """A tiny model whose tokenizer loses no byte."""
    return tiny_models.write_model(tmp_path_factory.mktemp("m") / "gpt2", "gpt2", max_positions=256)


@pytest.fixture
def forced(gpt2, monkeypatch):
    """Makes row number i respond with TEXTS[i % 5]."""
    vocabulary = load_vocabulary(gpt2)

    class ForcedDecoder(BatchDecoder):
        def __call__(self, params, inputs, numbers, second_inputs=None, on_done=None):
            texts = [TEXTS[number % len(TEXTS)] for number in numbers]
            ends = [vocabulary.eos_id]
            rows = [np.array(vocabulary.encode(t) + ends) for t in texts]
            finished = [text != TEXTS[1] for text in texts]
            pairs = zip(rows, finished, strict=True)
            return [[DecodedRow(ids, -1.0, -1.0, is_finished)] for ids, is_finished in pairs]

    monkeypatch.setattr(setup, "BatchDecoder", ForcedDecoder)


def responses(command, gpt2, out, *more, file="infer_file"):
    command.succeeds(
        "infer",
        f"--gin_file=runs/{file}.gin",
        *settings(CHECKPOINT_PATH=gpt2, VOCABULARY=gpt2, INFER_OUTPUT_DIR=out, DECODE_LENGTH=20),
        *settings(BATCH_SIZE=2),
        *more,
    )
    return rows_of((out / "predictions.jsonl").read_bytes())


def test_texts_of_a_file_are_written_byte_for_byte(command, gpt2, forced, tmp_path, caplog):
    caplog.set_level("INFO", logger="faith_jax")
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out"
    gold = " {a} b} "
    sides = {"pro_arguments": ["A."], "con_arguments": ["B."]}
    questions = [{"inputs": "Why?", "response": gold, "knowledge": "{x}"}] * 4 + [
        {"query": "Why?", "response": gold, "knowledge": "{x}"} | sides
    ]
    rows.write_text("".join(json.dumps(row) + "\n" for row in questions))
    answers = responses(
        *(command, gpt2, out, f"--gin.INPUT_FILE={rows}", "--gin.MAX_INPUT_LENGTH=64"),
        "--gin.FORMATS=jsonl,tfds",
    )
    assert [row["prediction"] for row in answers] == [*TEXTS[:4], "Views differ."]
    lines = [f"{number}: {' '.join(text.split())}" for number, text in enumerate(TEXTS[:3], 1)]
    assert list(infer.first_responses(out)) == lines
    assert [row["target"] for row in answers] == [gold] * 5
    finished = [True, False, True, True, True]
    assert [row["finished"] for row in answers] == finished
    assert json.loads((out / "summary.json").read_text())["unfinished"] == 1
    assert caplog.messages[-1] == f"5 responses in {out}, 1 of them not finished at DECODE_LENGTH"
    # The TFDS data set says the same, and so does the file when it is scored.
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(str(out / "tfds"))
    stored = list(tfds.as_numpy(builder.as_dataset(split="rows")))
    assert [row["prediction"].decode() for row in stored] == [row["prediction"] for row in answers]
    assert [bool(row["finished"]) for row in stored] == finished
    command.succeeds(
        "score", "--scorers=token_f1,rouge1_precision", f"--input={out / 'predictions.jsonl'}",
        f"--output={tmp_path / 'scores.jsonl'}",
    )  # fmt: skip
    scored = rows_of((tmp_path / "scores.jsonl").read_bytes())
    # Around what is scored there is no white space.
    expected = [text.strip() for text in TEXTS[:4]] + ["Views differ."]
    assert [row["generated_text"] for row in scored] == expected
    # "use", "x", "or", "y" beside "x": a precision of 1/4 and a recall of 1.
    assert scored[1]["scores"]["token_f1"] == pytest.approx(0.4)


@pytest.mark.parametrize("second", [None, "Tea?"])
def test_control_tokens_stand_before_the_inputs_of_both_branches(second):
    system = infer._System("", pathlib.Path(), {}).with_control_tokens(FAITHFUL_TOKENS, 100)
    row = system.row(InputRow("1", "Is tea hot?", second_inputs=second))
    prefix = "<extra_id_99> <extra_id_95> <extra_id_94> "
    assert row.inputs == f"{prefix}Is tea hot?"
    assert row.second_inputs == (second and f"{prefix}Tea?")
    assert system.row(row) == row
    own_row = InputRow("2", "<extra_id_98> <extra_id_97> <extra_id_94> Tea?")
    assert system.row(own_row) == own_row


def test_dialfact_s_table_reads_labels_as_they_were_decoded(tmp_path):
    claim = {"response_label": "SUPPORTS", "type_label": "factual", "data_type": "written"}
    claims = [{"id": str(i)} | claim for i in range(4)]
    label_texts = [" SUPPORTS\n", "supports", "{label: SUPPORTS}", ""]
    path = tmp_path / "predictions.jsonl"
    rows = [{"id": str(i), "prediction": text} for i, text in enumerate(label_texts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    predictions = {str(path): verification.read_predictions(str(path), [])}
    table = verification_table(claims, predictions)
    assert table.tidy.rows[0][:4] == (str(path), "all", 4, 50.0)
