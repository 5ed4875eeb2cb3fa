"""Inputs and options of `evaluate`: joined files, undefined scores, users' own models."""

import json
import os
import shlex

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from faith_jax.cli import main
from faith_jax.runs.scores import evaluate_scores, report
from tests.paths import REPOSITORY
from tests.runs.scores.test_evaluate_scores import LABELS, SCORES, evaluate, write


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_scores_of_ones_own_model_need_little(capsys, tmp_path):
    """An id, a label and scores will do; the corpus is the file's name."""
    rows = [
        {"id": number, "label": label, "scores": {"mine": score}}
        for number, (score, label) in enumerate(zip(SCORES, LABELS, strict=True))
    ]
    own_path = write_rows(tmp_path / "own.jsonl", rows)
    expected = ["mine", "88.9"]
    status, lines, _ = evaluate(capsys, own_path)
    assert (status, lines[1].split()[1], lines[3].split()[:2]) == (0, "own", expected)
    for row in rows:
        row["label"] = float(row["label"])  # as pandas has labels where some are missing
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "own.parquet")
    status, lines, _ = evaluate(capsys, tmp_path / "own.parquet")
    assert (status, lines[3].split()[:2]) == (0, expected)
    ours = write(tmp_path / "ours.jsonl", SCORES, LABELS, corpus="own")
    status, lines, _ = evaluate(capsys, own_path, ours)
    assert (status, [line.split()[0] for line in lines[3:5]]) == (0, ["mine", "s"])
    assert main(["report", str(own_path), f"--output={tmp_path / 'r.html'}"]) == 0
    status, _, error = evaluate(capsys, own_path, "--protocol=pronouns")
    assert status == 2
    assert "own: rows without generated_text, in which pronouns are counted" in error


@pytest.mark.parametrize("form", ["json", "csv", "markdown", "latex"])
@pytest.mark.parametrize("labels", [LABELS, [None] * len(LABELS)])
def test_only_the_output_is_on_standard_output(capsys, tmp_path, form, labels):
    path, file = write(tmp_path / "rows.jsonl", SCORES, labels), tmp_path / f"out.{form}"
    status, table, _ = evaluate(capsys, path, f"--{form}={file}")
    assert (status, len(table) > 3) == (0, True)
    assert main(["evaluate", str(path), f"--{form}=-"]) == 0
    output, errors = capsys.readouterr()
    assert output == file.read_text(encoding="utf-8")
    assert errors.splitlines()[-len(table) :] == table
    assert evaluate(capsys, path) == (0, table, "")  # of the next command in this process


def test_standard_output_takes_one_output(capsys, tmp_path):
    path = write(tmp_path / "rows.jsonl", SCORES, LABELS)
    status, lines, error = evaluate(capsys, path, "--json=-", "--csv=-")
    assert (status, lines) == (2, [])
    assert error == "faith-jax: --csv: - is the output of --json too."


def test_the_rows_of_the_documentation(capsys, tmp_path):
    text = (REPOSITORY / "docs" / "scores.md").read_text(encoding="utf-8")
    path = tmp_path / "own.jsonl"
    path.write_text(text.split("```json\n")[1].split("```")[0])
    status, lines, _ = evaluate(capsys, path)
    assert (status, lines[3].split()[:2]) == (0, ["my_model", "100.0"])
    assert "own: of 3 rows, no label in 1." in lines


def test_files_of_other_texts_are_not_joined(capsys, tmp_path):
    """Two systems' answers.jsonl with row numbers as ids are not scores of the same rows."""
    for system in ("a", "b"):
        (tmp_path / system).mkdir()
        rows = [{"grounding": "Tea.", "generated_text": f"{system} {i}"} for i in range(3)]
        source = write_rows(tmp_path / system / "answers.jsonl", rows)
        scorer = {"a": "token_f1", "b": "bleu"}[system]
        scores = tmp_path / f"{system}.jsonl"
        assert (
            main(["score", f"--scorers={scorer}", f"--input={source}", f"--output={scores}"]) == 0
        )
    capsys.readouterr()
    status, _, error = evaluate(capsys, tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert status == 2
    assert "have different responses of 'answers', row '1'; compare systems with" in error
    assert "a corpus each (score --corpus=NAME" in error
    text = (tmp_path / "b.jsonl").read_text()
    changed = text.replace('"b ', '"a ').replace("Tea.", "Milk.")
    (tmp_path / "b.jsonl").write_text(changed)
    error = evaluate(capsys, tmp_path / "a.jsonl", tmp_path / "b.jsonl")[2]
    assert "have different groundings of 'answers', row '1'" in error


def test_a_scorer_that_is_undefined_everywhere_is_named(capsys, tmp_path):
    nothing = write(tmp_path / "one.jsonl", [None] * 6, LABELS, scorer="rouge1_f1")
    good = write(tmp_path / "two.jsonl", SCORES, LABELS, scorer="token_f1")
    for command in (["evaluate"], ["report", f"--output={tmp_path / 'r.html'}"]):
        assert main([*command, str(nothing), str(good)]) == 2
        error = capsys.readouterr().err
        assert "undefined: rouge1_f1 in 6 of 6 rows with a label. Choose others with" in error
    page = tmp_path / "r.html"
    assert main(["report", str(nothing), str(good), f"--output={page}", "--scorers=token_f1"]) == 0
    assert "rouge1_f1" not in page.read_text()
    capsys.readouterr()
    status, lines, _ = evaluate(capsys, nothing, good, "--scorers=token_f1")
    assert (status, lines[3].split()[:2]) == (0, ["token_f1", "88.9"])


def test_pictures_are_of_the_rows_of_the_table(capsys, tmp_path, monkeypatch):
    """The best row of s is not in the table, since t is undefined there."""
    first = write(tmp_path / "one.jsonl", SCORES, LABELS, scorer="s")
    second = write(tmp_path / "two.jsonl", [None, *SCORES[1:]], LABELS, scorer="t")
    drawn = []
    for name in ("save_histograms", "save_roc_curves"):
        monkeypatch.setattr(
            evaluate_scores.figures, name, lambda corpora, _: drawn.append(corpora) or []
        )
    pictures = [f"--{name}={tmp_path}/{name}.png" for name in ("histograms", "roc-curves")]
    assert evaluate(capsys, first, second, *pictures)[0] == 0
    for corpora in drawn:
        np.testing.assert_array_equal(corpora["c"].scores["s"], SCORES[1:])
    assert len(drawn) == 2
    page = report.report_page
    monkeypatch.setattr(report, "report_page", lambda *args: drawn.append(args[1]) or page(*args))
    assert main(["report", str(first), str(second), f"--output={tmp_path}/r.html"]) == 0
    np.testing.assert_array_equal(drawn[2]["c"].scores["s"], SCORES[1:])


def test_outputs_overwrite_no_input_and_not_each_other(capsys, tmp_path, monkeypatch):
    good = write(tmp_path / "good.jsonl", SCORES, LABELS)
    before = good.read_bytes()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.jsonl").symlink_to(good)
    os.link(good, tmp_path / "hard.jsonl")
    monkeypatch.chdir(tmp_path)
    for spelling in ("good.jsonl", "folder/../good.jsonl", good, "link.jsonl", "hard.jsonl"):
        for option in ("--json", "--markdown", "--csv"):
            status, _, error = evaluate(capsys, good, f"{option}={spelling}")
            assert (status, "would overwrite the input" in error) == (2, True), spelling
        assert main(["report", str(good), f"--output={spelling}"]) == 2
        assert "--output" in capsys.readouterr().err
    development = ("--protocol=begin", f"--development={tmp_path / 'hard.jsonl'}")
    assert "overwrite" in evaluate(capsys, "link.jsonl", *development, "--json=hard.jsonl")[2]
    error = evaluate(capsys, good, "--json=x.txt", "--markdown=folder/../x.txt")[2]
    assert "--markdown: folder/../x.txt is the output of --json too" in error
    assert "folder: cannot be written (a folder)" in evaluate(capsys, good, "--json=folder")[2]
    assert good.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--slice-field=x"],
            "--slice-field: goes with --protocol=balanced_accuracy or hallucinations or npov or "
            "npov_words, not with auc or systems",
        ),
        (
            ["--development=none.jsonl"],
            "--development: goes with --protocol=balanced_accuracy or begin or hallucinations or "
            "verifiable, not with auc or systems",
        ),
        (["--group-field=x"], "--group-field: goes with --protocol=begin"),
        (["--test=delong"], "--test: goes with --baseline"),
        (["--protocol=pronouns", "--baseline=s"], "--baseline: goes with --protocol=auc"),
        (
            ["--roc-curves=curve.pdf"],
            "--roc-curves: curve.pdf: what is written is PNG; name a .png",
        ),
    ],
)
def test_options_that_say_nothing_are_refused(capsys, tmp_path, arguments, message):
    good = write(tmp_path / "good.jsonl", SCORES, LABELS)
    status, lines, error = evaluate(capsys, good, *arguments)
    assert (status, lines) == (2, [])
    assert message in error


@pytest.mark.parametrize(
    ("protocol", "told", "message"),
    [
        ("systems", {"columns": {"A": {"scorer": "s", "digit": 1}}}, "unknown field `digit`"),
        ("accuracy", {"headings": ["a"]}, "Expected `array` of length 2 - at `$.headings`"),
    ],
)
def test_a_table_that_is_described_wrongly(capsys, tmp_path, protocol, told, message):
    good = write(tmp_path / "good.jsonl", SCORES, LABELS)
    (tmp_path / "t.json").write_text(json.dumps(told))
    table = f"--table={tmp_path / 't.json'}"
    status, lines, error = evaluate(capsys, good, f"--protocol={protocol}", table)
    assert (status, lines) == (2, [])
    assert "t.json: is not the description of a table" in error
    assert message in error
    told = {"title": "T", "columns": {"A": {"scorer": "s", "low": 0, "high": 0.01, "digits": 1}}}
    (tmp_path / "t.json").write_text(json.dumps(told | {"published": {"rows": {"c": {"A": 9}}}}))
    status, lines, _ = evaluate(capsys, good, "--protocol=systems", table)
    assert (status, lines[0]) == (0, "T")
    assert lines[4].split() == ["rows", "c", "(published)", "9"]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (
            "answers.csv",
            "id,document,response\n1,Tea.,Tea.\n",
            ": none of the columns id, document, response is named as a scorer; say which are "
            "scores with --scorers=NAMES (of calibrate: --scorer=NAME). "
            "Or score its responses first:",
        ),
        (
            "my answers.jsonl",
            '{"document": "Tea.", "response": "Tea."}\n',
            ":1: field 'scores' is missing. Score its responses first:",
        ),
    ],
)
def test_responses_without_scores_are_to_be_scored_first(capsys, tmp_path, name, content, problem):
    path = tmp_path / name
    path.write_text(content)
    quoted = shlex.quote(str(path))
    command = f"faith-jax score --scorers=NAMES --input={quoted} --output=scores.jsonl"
    status, lines, error = evaluate(capsys, path)
    assert (status, lines) == (2, [])
    assert error == f"faith-jax: {path}{problem} {command}"


def test_columns_of_a_table_know_the_ranges_of_their_scorers(capsys, tmp_path):
    """A share stays within 0 and 100%, also in users' tables."""
    values = {"a": [0, 0, 0, 0, 0.3], "b": [0, 0, 0, 0.2, 0.4]}
    rows = [
        {"id": str(n), "corpus": "c", "fields": {"system": system}, "scores": {"token_f1": score}}
        for system, scores in values.items()
        for n, score in enumerate(scores)
    ]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = {"F1, %": {"scorer": "token_f1", "high": 0.01, "digits": 1}}
    (tmp_path / "t.json").write_text(json.dumps({"columns": columns}))
    arguments = tmp_path / "s.jsonl", "--protocol=systems", "--scorers=token_f1"
    _, plain, _ = evaluate(capsys, *arguments)
    _, described, _ = evaluate(capsys, *arguments, f"--table={tmp_path / 't.json'}")
    mean = next(line for line in plain if line.startswith("c ")).split()[2:4]
    assert mean == ["0.060", "(0.006\u20130.404)"]
    assert next(line for line in described if line.startswith("c ")).split()[2:] == [
        "6.0", "(0.6\u201340.4)",
    ]  # fmt: skip


def test_integers_of_any_size_are_no_scores(capsys, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"id": "a", "label": 1, "scores": {"m": 1' + "0" * 400 + "}}\n")
    status, _, error = evaluate(capsys, path)
    assert (status, "field 'scores.m': expected a finite number or null" in error) == (2, True)
