import contextlib
import datetime
import json
import pydoc
import subprocess
import sys

import pyarrow as pa
import pytest
from pyarrow import parquet

from faith_jax.cli import main
from faith_jax.cli.score_commands import scorer_options
from faith_jax.datasets.samples import sample_folder
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.input.score_input import ScoreInput
from faith_jax.runs.options import ScoreOptions
from faith_jax.runs.scores import score as run
from faith_jax.scoring.registry import load_scorer
from tests.paths import REAL, needs_shared

pytestmark = pytest.mark.usefixtures("offline_data_dir")

ROWS = [
    {"id": f"r{i}", "grounding": f"Tea number {i} is hot.", "generated_text": t, "label": i % 2}
    for i, t in enumerate(["Tea is hot.", "I like number 1.", "", "Tea 3", "Cold.", "Hot number 5"])
]


@pytest.fixture
def rows_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


def score(capsys, *arguments):
    """Returns the exit status, the lines of standard output, and the errors."""
    status = main(["score", *map(str, arguments)])
    output, errors = capsys.readouterr()
    return status, output.splitlines(), errors


def visible(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_scores_of_a_file(capsys, tmp_path, rows_file):
    output = tmp_path / "scores.jsonl"
    names = "token_f1,rouge1_precision,first_person_count"
    status, lines, _ = score(
        capsys, f"--scorers={names}", f"--input={rows_file}", f"--output={output}"
    )
    assert (status, lines) == (
        0,
        [f"{output}: 6 rows, 3 scorers"]
        + [
            f"{name} is undefined in 1 of 6 rows: the response is empty (1)"
            for name in names.split(",")
        ],
    )
    rows = list(read_scored_rows(output))
    assert [row["id"] for row in rows] == [row["id"] for row in ROWS]
    assert [row["label"] for row in rows] == [0, 1] * 3
    for name in names.split(","):
        expected = load_scorer(name).score(
            [row["grounding"] for row in ROWS], [row["generated_text"] for row in ROWS]
        )
        for row, value in zip(rows, expected, strict=True):
            assert row["scores"][name] == (value.value if value.value == value.value else None)
    assert rows[2]["scores"] == dict.fromkeys(names.split(","))
    assert rows[2]["undefined"] == dict.fromkeys(names.split(","), "the response is empty")
    assert not any(row["undefined"] for row in rows[:2] + rows[3:])
    assert visible(tmp_path) == ["rows.jsonl", "scores.jsonl"]


def test_equal_scores_are_told_at_the_end(tmp_path, caplog, capsys):
    rows = tmp_path / "rows.jsonl"
    texts = ["Tea is hot.", "Tea is cold.", "Tea is.", "Tea.", "Hot tea."]
    rows.write_text(
        "".join(
            json.dumps({"grounding": "Tea is hot.", "generated_text": text}) + "\n"
            for text in (*texts, "")
        )
    )
    arguments = ("--scorers=first_person_count,token_f1", f"--output={tmp_path / 's.jsonl'}")
    assert score(capsys, f"--input={rows}", "--shards=3", *arguments)[0] == 0
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [
        "first_person_count: all 5 scores are 0, so that they tell no response from another; "
        "check the scorer's model and options, and the columns that it reads"
    ]


def test_a_scorer_under_names_of_its_own(capsys, tmp_path, rows_file):
    output = tmp_path / "scores.jsonl"
    arguments = (f"--input={rows_file}", f"--output={output}")
    forms = ("true", "squad")
    options = [f"--scorer-option={form}.normalization={form}" for form in forms]
    names = "--scorers=true=token_f1,squad=token_f1,bleu"
    assert score(capsys, names, *options, *arguments)[0] == 0
    row_scores = [row["scores"] for row in read_scored_rows(output)]
    assert all(list(scores) == [*forms, "bleu"] for scores in row_scores)
    texts = [[row[name] for row in ROWS] for name in ("grounding", "generated_text")]
    for form in forms:
        expected = load_scorer("token_f1", normalization=form).score(*texts)
        values = [None if score.undefined else score.value for score in expected]
        assert [scores[form] for scores in row_scores] == values
    status, _, error = score(capsys, "--scorers=a=bleu,a=token_f1", *arguments)
    assert (status, "--scorers: 'a' is given twice" in error) == (2, True)


def test_options_columns_and_parquet(capsys, tmp_path):
    source, output = tmp_path / "answers.tsv", tmp_path / "scores.parquet"
    source.write_text("doc\tanswer\tbad\tsystem\nin our tea\tour tea\t1\ta\nTea\tMilk\t0\tb\n")
    status, _, _ = score(
        capsys,
        "--scorers=token_recall",
        "--scorer-option=token_recall.normalization=squad",
        f"--input={source}",
        "--grounding-column=doc",
        "--response-column=answer",
        "--label-column=bad",
        "--labels-are-errors",
        "--corpus=mine",
        f"--output={output}",
    )
    assert status == 0
    first, second = parquet.read_table(output).to_pylist()
    assert first["scores"]["token_recall"] == pytest.approx(2 / 3)
    assert (first["label"], second["label"]) == (0, 1)
    assert (first["id"], first["corpus"], dict(first["fields"])) == (
        "1",
        "mine",
        {"bad": "1", "system": "a"},
    )


@pytest.mark.slow
def test_a_task_and_a_data_set(capsys, tmp_path):
    arguments = ["--scorers=npov_rouge1_coverage", "--split=test"]
    task, data = tmp_path / "task.jsonl", tmp_path / "data"
    import tensorflow_datasets as tfds

    status, lines, _ = score(capsys, *arguments, "--task=npov_coverage_sample", f"--output={task}")
    assert status == 0
    status, lines, _ = score(capsys, *arguments, "--tfds=npov_errors/sample", f"--output={data}")
    assert (status, lines) == (0, [f"{data}: 144 rows, 1 scorer"])
    (row, *_) = read_scored_rows(task)
    assert set(row["perspectives"]) == {"pro", "con"}
    assert row["words"]["npov_rouge1_coverage"]
    # The folder that is named is the one that TFDS opens.
    assert tfds.builder_from_directory(data).info.splits["test"].num_examples == 144


def test_several_data_sets_and_names_of_scorers(capsys, tmp_path):
    output, costs = tmp_path / "s.jsonl", tmp_path / "costs.json"
    status, lines, err = score(
        capsys,
        "--tfds=true_benchmark/q2_sample",
        "--tfds=begin_2021/sample@test",
        "--split=test[:2]",
        "--scorers=plain=token_f1,squad=token_f1",
        "--scorer-option=squad.normalization=squad",
        "--system=mine",
        "--label-column=begin_label,label",
        "--label-values=Entailment=1,generic=,off-topic=0",
        f"--costs={costs}",
        f"--output={output}",
    )
    assert (status, lines[0]) == (0, f"{output}: 5 rows, 2 scorers"), err
    rows = list(read_scored_rows(output))
    assert [row["corpus"] for row in rows] == ["q2"] * 2 + ["begin_2021/sample@test"[:-5]] * 3
    assert [row["label"] for row in rows[2:]] == [1, 0, None]
    assert {row["fields"]["system"] for row in rows} == {"mine"}
    texts = [row["grounding"] for row in rows], [row["generated_text"] for row in rows]
    token_scores = load_scorer("token_f1", normalization="squad").score(*texts)
    assert [row["scores"]["squad"] for row in rows] == [score.value for score in token_scores]
    content = json.loads(costs.read_text())
    assert list(content) == ["plain", "squad"]
    assert (content["plain"]["rows"], content["plain"]["corpus"]) == (2, "q2")
    assert content["plain"]["examples_per_second"] > 0
    assert content["plain"]["millions"] == []


class StoppedError(Exception):
    """Stands in for anything that stops a run."""


def test_a_stopped_run_goes_on(tmp_path, rows_file, monkeypatch):
    score_input, scorers = ScoreInput(input=(str(rows_file),)), {"token_f1": {}}
    whole = tmp_path / "whole.jsonl"
    run.score(score_input, scorers, ScoreOptions(output=str(whole), batch_size=2))
    append, left = run.append_rows, [2]

    def stopping(path, rows):
        if not left[0]:
            path.open("a").write('{"id": "half a l')
            raise StoppedError
        left[0] -= 1
        append(path, rows)

    output = tmp_path / "scores.jsonl"
    monkeypatch.setattr(run, "append_rows", stopping)
    with pytest.raises(StoppedError):
        run.score(score_input, scorers, ScoreOptions(output=str(output), batch_size=2))
    assert not output.exists()
    scored = []
    monkeypatch.setattr(
        run, "append_rows", lambda path, rows: (scored.extend(rows), append(path, rows))
    )
    run.score(score_input, scorers, ScoreOptions(output=str(output), batch_size=4))
    assert output.read_bytes() == whole.read_bytes()
    assert len(scored) == len(ROWS) - 2 * 2
    assert visible(tmp_path) == ["rows.jsonl", "scores.jsonl", "whole.jsonl"]


_HELPED = """
import json, os, sys, time
from faith_jax.core.errors import InputError
from faith_jax.core.types import Score, ScorerCard
from faith_jax.input.score_input import ScoreInput
from faith_jax.runs.options import ScoreOptions
from faith_jax.runs.scores.score import score
from faith_jax.scoring.registry import register_scorer
from faith_jax.scoring.words.text_scorer import TextScorer

os.sched_getaffinity = lambda _: {0, 1, 2}
bad = sys.argv[1]

def judge(example):
    assert example.id.startswith("r")  # a row of the file, not one that was made up
    if example.id == bad:
        raise InputError(f"row {bad} cannot be judged by {os.getpid() == first}.")
    time.sleep(0.002)  # so that no process does all
    return Score(float(os.getpid()))

first = os.getpid()
card = ScorerCard("pid", "The process.", 0, float("inf"), "none")
register_scorer("pid", lambda: TextScorer(card, judge))
try:
    given = ScoreInput(input=("rows.jsonl",))
    summary = score(given, {"pid": {}}, ScoreOptions(output="pids.jsonl", shards=12, batch_size=8))
    print(summary.is_whole, summary.rows)
except InputError as error:
    print(error)
"""


@pytest.mark.faults
def test_other_cores_take_shards_too(tmp_path):
    rows = [{"id": f"r{n}", "grounding": "Tea.", "response": f"Tea {n}."} for n in range(600)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    processes = {}
    for bad in ("r599", ""):  # the second run resumes
        command = [sys.executable, "-c", _HELPED, bad]
        processes[bad] = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
        )
    # Whichever process met it, this one tells it.
    assert processes["r599"].stdout == "row r599 cannot be judged by True.\n"
    assert processes[""].stdout == "True 600\n"
    assert processes["r599"].stderr == processes[""].stderr == ""
    rows_read = list(read_scored_rows(tmp_path / "pids.jsonl"))
    assert [row["id"] for row in rows_read] == [row["id"] for row in rows]
    assert len({row["scores"]["pid"] for row in rows_read}) > 1
    assert visible(tmp_path) == ["pids.jsonl", "rows.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--scorers=,",), "--scorers: name at least one scorer"),
        (("--scorers=bleu", "--task=x"), "Give one of --input, --task and --tfds"),
        (("--scorers=bleu", "--scorer-option=x.y=1"), "'x' is not among --scorers"),
        (("--scorers=bleu", "--label-values=x=2"), "--label-values: expected LABEL=1, LABEL=0 or"),
        (("--scorers=bleu", "--costs=no/c.json"), "--costs: no/c.json: cannot be written"),
        (("--scorers=bleu", "--response-column=txt"), "column 'txt' is missing"),
        (("--scorers=bleu", "--split=test"), "--split: a file has no splits"),
        (("--scorers=bleu", "--format=parquet"), "the ending says jsonl, --format says parquet"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(capsys, tmp_path, rows_file, arguments, message):
    output = tmp_path / "scores.jsonl"
    status, lines, errors = score(capsys, *arguments, f"--input={rows_file}", f"--output={output}")
    assert (status, lines) == (2, [])
    assert message in errors.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


@pytest.mark.parametrize("output", ["s.jsonl", "1.0.0"])
def test_a_finished_run_is_left_as_it_is(capsys, tmp_path, rows_file, output, caplog):
    target = tmp_path / output
    run = (f"--input={rows_file}", f"--output={target}")
    first = score(capsys, *run, "--scorers=token_f1")
    contents = {path: path.stat().st_mtime_ns for path in (target, *target.rglob("*"))}
    caplog.clear()
    again = score(capsys, *run, "--scorers=token_f1")
    assert first[:2] == again[:2] == (0, [f"{target}: 6 rows, 1 scorer", *first[1][1:]])
    assert caplog.messages == [f"{target} is finished: these rows, scorers and options"]
    for extra in ("--scorers=token_recall", "--scorers=token_f1 --restart", "--scorers=token_f1 -"):
        if extra.endswith(" -"):  # other rows of the same file
            rows_file.write_text(rows_file.read_text() * 2)
        status, _, err = score(capsys, *run, *extra.removesuffix(" -").split())
        assert (status, "exists already; remove it" in err) == (2, True)
    (tmp_path / "d.jsonl").mkdir()  # is no place for a file
    status, _, err = score(capsys, *run[:-1], f"--output={tmp_path / 'd.jsonl'}")
    assert (status, "d.jsonl: cannot be written (a folder)." in err) == (2, True)
    assert contents == {path: path.stat().st_mtime_ns for path in (target, *target.rglob("*"))}


@pytest.mark.parametrize("output", ["s.jsonl", "1.0.0"])
@pytest.mark.parametrize("last", ["core.files.whole.sync_entry", "runs.shards.release_partial"])
def test_a_run_that_was_stopped_when_its_output_was_there_is_finished(
    capsys, tmp_path, rows_file, output, last, monkeypatch
):
    target = tmp_path / output
    run = (f"--input={rows_file}", f"--output={target}", "--scorers=token_f1")
    done = pydoc.locate(f"faith_jax.{last}")

    def stop(*args, **more):
        if target.exists():
            raise MemoryError
        return done(*args, **more)

    with monkeypatch.context() as patched:
        patched.setattr(f"faith_jax.{last}", stop)
        with contextlib.suppress(MemoryError):
            score(capsys, *run)
    assert (tmp_path / f"{output}.partial").is_dir()
    assert score(capsys, *run)[0] == 0
    assert not [*tmp_path.glob("*.partial"), *tmp_path.glob(".*.partial")]


def test_another_file_in_the_place_of_an_output_is_not_taken_for_it(capsys, tmp_path, rows_file):
    target, worst = tmp_path / "s.jsonl", tmp_path / "worst.csv"
    run = (f"--input={rows_file}", f"--output={target}", "--scorers=token_f1", f"--worst={worst}")
    assert score(capsys, *run)[0] == score(capsys, *run)[0] == 0
    lines = worst.read_text().splitlines()
    worst.write_text("old")  # whatever is there, the worst rows are of the finished output
    assert score(capsys, *run)[0] == 0
    assert worst.read_text().splitlines() == lines
    assert score(capsys, *run, "--worst-rows=2")[0] == 0
    assert worst.read_text().splitlines() == lines[:3]
    assert "exists already; remove it" in score(capsys, *run, f"--costs={tmp_path / 'c.json'}")[2]
    assert score(capsys, *run[:-1])[0] == 0
    target.write_text("{}\n")
    assert "exists already; remove it" in score(capsys, *run[:-1])[2]
    target.unlink()
    assert score(capsys, *run[:-1])[0] == 0
    assert len(target.read_text().splitlines()) == 6


def test_mistakes_about_the_output(capsys, tmp_path, rows_file):
    base = ("--scorers=bleu", f"--input={rows_file}")
    before = rows_file.read_bytes()
    message = f"--output: {rows_file} would overwrite the input {rows_file}."
    assert message in score(capsys, *base, f"--output={rows_file}")[2]
    good = (*base, f"--output={tmp_path}/s.jsonl")
    for option in ("--worst", "--costs"):
        message = f"{option}: {rows_file} would overwrite the input {rows_file}."
        assert message in score(capsys, *good, f"{option}={rows_file}")[2]
        message = f"{option}: {tmp_path}/s.jsonl is the output of --output too."
        assert message in score(capsys, *good, f"{option}={tmp_path}/s.jsonl")[2]
    assert rows_file.read_bytes() == before
    in_folder = ("--scorers=bleu", f"--input={tmp_path}", good[-1])
    message = f"--output: {tmp_path}/s.jsonl lies in the input {tmp_path}; name another place."
    assert message in score(capsys, *in_folder)[2]
    assert "no such folder" in score(capsys, *base, f"--output={tmp_path}/no/s.jsonl")[2]
    assert "name a .jsonl or .parquet file" in score(capsys, *base, "--output=s.txt")[2]
    tfds = ("--scorers=bleu", "--tfds=begin/sample", f"--output={tmp_path}/s.jsonl")
    assert "--split: say which split" in score(capsys, *tfds)[2]
    assert "has the splits validation, test" in score(capsys, *tfds, "--split=dev")[2]
    assert "or a slice of one" in score(capsys, *tfds, "--split=test[:x]")[2]
    unknown = ("--scorers=bleu", "--tfds=nothing_such", "--split=x", f"--output={tmp_path}/s.jsonl")
    status, _, errors = score(capsys, *unknown)
    assert (status, "nothing_such" in errors.splitlines()[-1]) == (2, True)


def test_a_raw_file_of_a_known_data_set_names_the_commands(capsys, tmp_path):
    path = sample_folder("dialfact") / "test_split.jsonl"
    arguments = ("--scorers=bleu", f"--input={path}", f"--output={tmp_path}/s.jsonl")
    status, _, errors = score(capsys, *arguments)
    assert status == 2
    (line,) = errors.splitlines()
    assert "is known to hold the grounding" in line
    assert line.endswith(
        f"It looks like a raw file of dialfact: run `faith-jax prepare dialfact "
        f"--raw={path.parent}`, then score --tfds=dialfact --split=test in place of --input."
    )


def test_a_bad_row_at_the_end_is_found_before_anything_is_scored(capsys, tmp_path, rows_file):
    with open(rows_file, "a") as file:
        file.write('{"grounding": "", "generated_text": "x"}\n')
    output = tmp_path / "scores.jsonl"
    arguments = ("--scorers=bleu", f"--input={rows_file}", f"--output={output}", "--batch-size=1")
    status, _, errors = score(capsys, *arguments)
    assert status == 2
    assert "rows.jsonl:7: field 'grounding': expected a text" in errors.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]
    status, lines, _ = score(capsys, *arguments, "--skip-bad-rows")
    assert (status, lines[0]) == (0, f"{output}: 6 rows, 1 scorer")
    assert lines[2] == "1 bad row skipped:"
    rows_file.write_text('{"grounding": "", "generated_text": "x"}\n')
    output.unlink()
    for more in ((), ("--dry-run",)):
        status, _, errors = score(capsys, *arguments, "--skip-bad-rows", *more)
        assert status == 2
        assert "no rows to score: 1 bad row skipped. The first one: " in errors
        assert "rows.jsonl:1: field 'grounding'" in errors
        errors = score(capsys, *arguments[:2], "--output=-", *more)[2]
        assert "-: standard output is no place" in errors


def test_words_stay_as_they_were_typed():
    typed = {
        "label_words=1,0": "1,0",
        "label_words=True,None": "True,None",
        "label_words=1.50,007": "1.50,007",
        "label_words=('yes', 0)": ["yes", "0"],
        "label_words=None": None,
        "model=2024": "2024",
        "labels=0,1,2": "0,1,2",
        "seed=3": 3,
        "dropout_rate=0.10": 0.1,
        "score_cue=false": False,
        "score_cue=TRUE": True,
        "model=true": "true",
    }
    for scorer in ("nli_entailment", "name=nli_entailment", "no_scorer"):
        for option, value in typed.items():
            key = scorer.partition("=")[0]
            parsed = scorer_options([scorer], [f"{key}.{option}"])[scorer]
            assert parsed == {option.partition("=")[0]: value}
    for text in ("no,0", "0,no", "['no', 0]"):
        options = scorer_options(["q2_f1"], [f"q2_f1.no_answers={text}"])["q2_f1"]
        assert sorted(options["no_answers"]) == ["0", "no"]
    # A number may be meant where an option takes numbers too.
    options = ["faith_critic.faithful_label=0", "faith_critic.form=1"]
    assert scorer_options(["faith_critic"], options)["faith_critic"] == {
        "faithful_label": 0,
        "form": "1",
    }
    options = ["npov_coverage.error_label=None", "npov_coverage.no_error_label=0"]
    words = scorer_options(["npov_coverage"], options)["npov_coverage"]
    assert words == {"error_label": "None", "no_error_label": "0"}


def test_prompts_may_hold_line_breaks():
    typed = [
        r"a.cue_prompt=\n\tA\\n: \x",
        r'a.turn_prompt="{turn}\n"',
        "a.document_prompt={document}\n",
        r"a.vocabulary=C:\new",
    ]
    assert scorer_options(["a"], typed)["a"] == {
        "cue_prompt": "\n\tA\\n: \\x",
        "turn_prompt": "{turn}\n",
        "document_prompt": "{document}\n",
        "vocabulary": r"C:\new",
    }


@needs_shared
def test_trues_own_file(capsys, tmp_path):
    source = REAL / "summeval" / "true_summeval.csv"
    output = tmp_path / "scores.jsonl"
    arguments = ("--scorers=token_f1", f"--input={source}", f"--output={output}")
    status, _, errors = score(capsys, *arguments)
    assert status == 2
    assert "another --id-column; --id-column= takes the rows' numbers." in errors


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"generated_text": b"\xff"},
            "field 'generated_text': expected a text, got \"b'\\\\xff'\"; decode the column's",
        ),
        (
            {"label": datetime.date(2024, 5, 1)},
            "field 'label': expected 1 or yes (faithful), 0 or no, ",
        ),
    ],
)
def test_parquet_of_other_types_is_one_line(capsys, tmp_path, row, message):
    source, output = tmp_path / "rows.parquet", tmp_path / "scores.jsonl"
    rows = [{"grounding": "Tea", "generated_text": "Tea"} | row]
    parquet.write_table(pa.Table.from_pylist(rows), source)
    status, _, errors = score(capsys, "--scorers=bleu", f"--input={source}", f"--output={output}")
    assert status == 2
    assert message in errors.splitlines()[-1]


def test_a_row_of_another_system_is_an_error(capsys, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("system,knowledge,response\nours,a,a\nothers,a,b\n")
    arguments = (f"--input={path}", "--scorers=token_f1", f"--output={tmp_path / 's.jsonl'}")
    status, _, error = score(capsys, *arguments, "--system=ours")
    assert (status, "row '2' is of the system 'others', as its field" in error) == (2, True), error
    assert not (tmp_path / "s.jsonl").exists()
