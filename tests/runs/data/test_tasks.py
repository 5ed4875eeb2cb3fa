import json
import shutil

import pytest

from faith_jax.cli import main
from faith_jax.datasets.samples import sample_folder
from faith_jax.tasks import lookup

pytestmark = pytest.mark.usefixtures("offline_data_dir")


def run(capsys, *arguments):
    """Returns the exit status, the lines of standard output, and the errors."""
    status = main(list(arguments))
    output, errors = capsys.readouterr()
    return status, output.splitlines(), errors


def test_a_classifier_of_errors_says_what_yes_means(capsys):
    _, lines, _ = run(capsys, "tasks", "npov_hallucination_sample", "--rows=1")
    assert lines[-1] == "labels: YES = the response is free of the error, NO = it has the error"


def test_rows_as_a_model_sees_them(capsys):
    arguments = ("tasks", "faithdial_generate_sample", "--split=train", "--rows=1")
    status, lines, _ = run(capsys, *arguments, "--inputs_length=20")
    task = lookup.get_task("faithdial_generate_sample")
    row = next(task.get_dataset(None, "train", shuffle=False).as_numpy_iterator())
    count = len(row["inputs"])
    assert status == 0
    assert lines[0] == "faithdial_generate_sample, train, row 0"
    assert lines[1] == f"  inputs ({count} tokens; 20 fit: {count - 20} would be cut)"
    assert f"  targets ({len(row['targets'])} tokens)" in lines
    _, long, _ = run(capsys, *arguments, "--targets_length=4")
    assert f"  targets ({len(row['targets'])} tokens; 4 fit)" in long
    assert len([line for line in lines if line.startswith("faithdial_generate_sample, ")]) == 1
    dataset = task.get_dataset(None, "train", shuffle=False)
    counts = [len(row["targets"]) for row in dataset.as_numpy_iterator()]
    over = f"(over 4 in {len(counts)}: raise TASK_FEATURE_LENGTHS to train on them)"
    summary = f"; targets have up to {max(counts)} tokens"
    assert lines[-1].startswith(f"the first {len(counts)} rows of train: inputs have up to ")
    assert lines[-1].endswith(summary)
    assert long[-1].endswith(f"{summary} {over}")
    joined = " ".join(line.strip() for line in lines)
    assert row["inputs_pretokenized"].decode() in joined
    assert row["targets_pretokenized"].decode() in joined


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tasks", "faithdial_generte"), "Did you mean 'faithdial_generate'"),
        (("tasks", "begin_classify_sample", "--split=dev"), "has no split 'dev'"),
        (("tasks", "true_all_sample"), "is a mixture; look at one of its tasks: true_begin"),
        (("tasks", "begin_classify"), "cannot be fetched"),
        (("prepare", "begn"), "There is no data set 'begn'. Did you mean 'begin'"),
        (("prepare", "begin/wov"), "begin has no config 'wov'. Did you mean 'wow'"),
        (("prepare", "begin", "--raw=/dev/null/data"), "--raw: /dev/null/data: no such folder"),
    ],
)
def test_mistakes_are_one_line_and_status_2(capsys, arguments, message):
    status, _, errors = run(capsys, *arguments)
    assert status == 2
    line = errors.strip().splitlines()[-1]
    assert line.startswith("faith-jax: ")
    assert message in line


def test_a_step_of_a_task_that_fails_is_named(capsys, tmp_path):
    (tmp_path / "rows.tsv").write_text("Is tea hot?\tYes.\nA line without a tab\n")
    (tmp_path / "tabs.py").write_text(f"""
import seqio, tensorflow as tf
def split_at_tabs(lines):
    return lines.map(lambda line: dict(zip(("inputs", "targets"), tf.io.decode_csv(
        line, ["", ""], field_delim="\\t"))))
def shorten(rows, sequence_length):  # asks for the lengths
    return rows.map(lambda row: {{**row, "inputs": row["inputs"][:sequence_length["inputs"]]}})
feature = seqio.Feature(seqio.ByteVocabulary())
source = seqio.TextLineDataSource({{"train": {str(tmp_path / "rows.tsv")!r}}})
seqio.TaskRegistry.add("tabs", source,
    preprocessors=[split_at_tabs, seqio.preprocessors.tokenize, shorten],
    output_features={{"inputs": feature, "targets": feature}})
""")
    module = f"--task_module={tmp_path / 'tabs.py'}"
    arguments = ("tasks", "tabs", module, "--inputs_length=4")
    status, _, errors = run(capsys, *arguments)
    assert status == 2
    assert "its preprocessor split_at_tabs fails after 1 example: Invalid" in errors
    assert "Traceback" not in errors
    (tmp_path / "rows.tsv").write_text("Is tea hot?\tYes.\n")
    status, lines, _ = run(capsys, *arguments)
    assert (status, lines[1]) == (0, "  inputs (4 tokens)")


def test_prepare_from_files_of_ones_own(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(tmp_path / "data"))
    dialogues = json.loads((sample_folder("faithdial") / "train.json").read_text(encoding="utf-8"))
    dialogues[0]["utterances"][0]["knowledge"] = ""
    (tmp_path / "train.json").write_text(json.dumps(dialogues), encoding="utf-8")
    arguments = ("prepare", "faithdial", f"--raw={tmp_path}")
    status, lines, errors = run(capsys, *arguments)
    assert (status, lines) == (2, [])
    assert "train.json: [0]: field 'utterances[0].knowledge'" in errors
    status, lines, _ = run(capsys, *arguments, "--skip-bad-rows")
    assert status == 0
    assert lines[0] == "faithdial/official/1.0.0  train: 11 examples"
    assert lines[1] == "1 bad row skipped:"
    assert "train.json: [0]: field 'utterances[0].knowledge'" in lines[2]
    # What is prepared is what the tasks read, wherever the raw files were.
    status, lines, _ = run(capsys, "tasks", "faithdial_generate", "--rows=1")
    assert (status, lines[0]) == (0, "faithdial_generate, train, row 0")


def test_prepare_names_what_it_does_not_read(capsys, tmp_path):
    raw = tmp_path / "raw"
    shutil.copytree(sample_folder("faithdial"), raw)
    arguments = ("prepare", "faithdial", f"--raw={raw}", f"--data-dir={tmp_path / 'data'}")
    status, lines, _ = run(capsys, *arguments)
    assert (status, len(lines)) == (0, 4)  # control-tokens makes the other files that are there
    for name in (".hidden", "README.md", "val.json"):
        (raw / name).write_text("{}")
    message = (
        f"{raw}: faithdial does not read README.md, val.json; its files are train.json, "
        "valid.json, test.json."
    )
    status, lines, _ = run(capsys, *arguments)
    assert (status, lines[-2]) == (0, message)
    # So it does where a file is missing, and says nothing of a sample.
    for name in ("train.json", "valid.json", "test.json"):
        (raw / name).unlink()
    status, _, errors = run(capsys, *arguments)
    (line,) = errors.splitlines()
    assert (status, message in line.partition("no such file")[0]) == (2, True)
    status, lines, _ = run(capsys, "prepare", "faithdial/sample", *arguments[2:])
    assert (status, len(lines)) == (0, 4)
