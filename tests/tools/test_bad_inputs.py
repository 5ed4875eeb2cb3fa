"""A short run of tools/bad_inputs.py, and tests that the tool notices problems."""

import sys

import pyarrow
import pytest

from faith_jax.core.errors import InputError
from faith_jax.datasets.tables import read_rows
from tests.paths import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tools"))

import bad_input_cases
import bad_inputs
import column_kinds
import spoiled_files
from bad_input_cases import Case
from column_kinds import spoil_column
from spoiled_files import UNIQUE, Change

ROWS = [
    {"id": str(i), "grounding": f"Tea number {i}.", "generated_text": "Tea.", "label": i % 2}
    for i in range(4)
]
REFUSED, EITHER = Change("bad", True), Change("odd")
LINE = "faith-jax: rows.jsonl:2: field 'label': expected 1, got 2.\n"


def cases(folder):
    """Cases of quick commands."""
    rows = {
        form: bad_input_cases.write_rows(folder / f"rows.{form}", ROWS)
        for form in ("jsonl", "csv", "tsv", "parquet")
    }
    score = ("score", "--scorers=token_f1", "--input={IN}", "--output={OUT}.jsonl")
    required = ("grounding", "generated_text", UNIQUE)
    scored = [
        {"id": r["id"], "scores": {"token_f1": float(r["id"])}, "label": r["label"]} for r in ROWS
    ]
    file = bad_input_cases.write_rows(folder / "scored.jsonl", scored)
    for form, path in rows.items():
        yield Case(f"score {form}", score, path, (), required, finds_encoding=True)
    yield Case("evaluate", ("evaluate", "{IN}", "--json={OUT}"), file, (), ("id", "scores"))
    arguments = ("train", "--gin_file=quickstart.gin", "--gin_file={IN}", "--gin.MODEL_DIR={OUT}")
    (folder / "wrong.gin").write_text("BATCH_SIZE = \n")
    yield Case("train gin file", arguments, folder / "wrong.gin", ())


@pytest.mark.slow
def test_some_spoiled_inputs(tmp_path, monkeypatch):
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "good").mkdir()
    (tmp_path / "work").mkdir()
    trials = [
        bad_inputs.trial(case, seed, tmp_path / "work")
        for case in cases(tmp_path / "good")
        for seed in range(1 if case.name.startswith("train") else 11)
    ]
    assert [trial for trial in trials if trial.problem] == []
    assert {trial.status for trial in trials} == {0, 2}
    assert any(trial.change.must_refuse for trial in trials)
    assert bad_inputs.table(trials).splitlines()[-1].startswith("| all | 56 | ")


ENDINGS = ["parquet", "arrow", "jsonl", "json", "csv", "tsv"]


def test_columns_of_all_types(tmp_path):
    (tmp_path / "work").mkdir()
    score = ("score", "--scorers=token_f1", "--input={IN}", "--output={OUT}.jsonl")
    trials = [
        bad_inputs.trial(Case(ending, score, path, spoil=spoil_column), seed, tmp_path / "work")
        for ending in ENDINGS
        for path in [bad_input_cases.write_rows(tmp_path / f"rows.{ending}", ROWS)]
        for seed in range(2)
    ]
    assert [trial for trial in trials if trial.problem] == []
    assert {trial.status for trial in trials if trial.change.must_refuse} == {2}
    assert {trial.status for trial in trials if trial.change.must_accept} == {0}


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_which_columns_can_be_read(tmp_path, ending):
    path = tmp_path / f"rows.{ending}"
    for is_read, columns in zip((True, False), column_kinds.arrow_columns(2), strict=True):
        for kind, column in columns.items():
            column_kinds.write_arrow(pyarrow.table({"a": ["x", "y"], "b": column}), path)
            if is_read:
                assert [row.fields["a"] for row in read_rows(path)] == ["x", "y"], kind
            else:
                with pytest.raises(InputError, match="column 'b': "):
                    list(read_rows(path))


def outcome(status=2, errors=LINE, raised="", before=("in",), after=("in",)):
    return bad_inputs.Outcome(status, errors, raised, frozenset(before), frozenset(after))


@pytest.mark.parametrize(
    ("found", "change", "told"),
    [
        (outcome(), REFUSED, ""),
        (outcome(), Change("odd", must_accept=True), 'refused: "faith-jax: rows.jsonl:2: field'),
        (outcome(errors=f"12:00:00 reading\n{LINE}"), REFUSED, ""),
        (outcome(status=0, errors=""), EITHER, ""),
        (outcome(status=0, errors=""), REFUSED, "accepted"),
        (outcome(status=None), REFUSED, "hangs"),
        (outcome(status=1, raised="KeyError: 'x'"), REFUSED, "traceback: KeyError: 'x'"),
        (outcome(status=1), REFUSED, "exit status 1"),
        (outcome(errors=""), REFUSED, "0 lines of errors"),
        (outcome(errors=LINE * 2), REFUSED, "2 lines of errors"),
        (outcome(errors=f"faith-jax: {'x' * 5000}\n"), REFUSED, "a line of 5011 characters"),
        (outcome(after=("in", "out")), REFUSED, "left behind: ['out']"),
        (outcome(0, "", after=("in", "out", ".out.lock")), EITHER, "written elsewhere"),
        (outcome(after=()), REFUSED, "the input is gone"),
    ],
)
def test_what_is_wrong(found, change, told):
    problem = bad_inputs.problem_of(found, change)
    assert problem.startswith(told)
    assert bool(problem) == bool(told)


def test_a_command_that_raises_writes_or_hangs(tmp_path, monkeypatch):
    monkeypatch.setattr(bad_inputs, "_HANGS", 1)
    (tmp_path / "good").write_text("{}")

    def raises(source, output):
        raise KeyError("x")

    def writes(source, output):
        source.with_name("elsewhere").touch()
        return 0

    def hangs(source, output):
        while True:
            pass

    trials = {
        run.__name__: bad_inputs.trial(
            Case("mine", good=tmp_path / "good", run=run), 0, tmp_path
        ).problem
        for run in (raises, writes, hangs)
    }
    assert trials["raises"].startswith("traceback: KeyError")
    assert trials["writes"] == "written elsewhere: ['elsewhere']"
    assert trials["hangs"] == "hangs"


@pytest.mark.parametrize(
    ("name", "content", "is_broken"),
    [
        ("a.jsonl", b'{"a": 1}\n\n{}\n', False),
        ("a.jsonl", b'{"a": 1}\n[]\n', True),
        ("a.json", b"[1", True),
        ("a.csv", b"a,\xff\n", True),
        ("a.parquet", b"PAR1", True),
        ("a.safetensors", b"\x00" * 8, True),
        ("a.bin", b"\x00", False),
    ],
)
def test_what_no_reader_can_read(tmp_path, name, content, is_broken):
    (tmp_path / name).write_bytes(content)
    assert spoiled_files.is_broken(tmp_path / name) == is_broken
