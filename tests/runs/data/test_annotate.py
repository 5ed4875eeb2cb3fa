"""`faith-jax annotate` from responses to a table of detection."""

import csv
import json
import re

import pytest

from faith_jax.annotation.sheets import ERRORS
from faith_jax.cli import main

RESPONSES = [
    {
        "id": f"{topic}-{number}",
        "topic": topic,
        "query": f"Is {topic} good?",
        "pro_arguments": [f"{topic} is easy on the stomach.", f"{topic} is cheap."],
        "con_arguments": [f"{topic} stains teeth.", f"Few people like {topic}."],
        "response": response.format(topic),
    }
    for topic in ("tea", "coffee")
    for number, response in enumerate(
        [
            "{0} is easy on the stomach and cheap. It stains teeth, and few people like {0}.",
            "=Views on {0} differ: it is easy on the stomach, but it stains teeth.",
            "{0} is easy on the stomach, cheap, and cures colds. Few like {0}; it stains teeth.",
            "{0} is cheap and easy on the stomach. It ruins teeth, and few people like {0}.",
        ]
    )
]


@pytest.fixture
def responses(tmp_path):
    path = tmp_path / "responses.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in RESPONSES))
    return path


@pytest.fixture
def annotate(capsys):
    """Runs `faith-jax annotate`; returns status, lines of output and the last line of errors."""

    def run(*arguments, command="annotate"):
        status = main([command, *map(str, arguments)])
        output, errors = capsys.readouterr()
        return status, output.splitlines(), (errors.strip().splitlines() or [""])[-1]

    return run


def fill(path, marks_of, output=None, delimiter=","):
    """Fills a sheet as a spreadsheet program does: rewrites it, without a byte order mark."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        header, *rows = csv.reader(file)
    with open(output or path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(header)
        for row in rows:
            cells = dict(zip(header, row, strict=True))
            marks = marks_of(cells["id"])
            if marks is not None:
                cells |= dict.fromkeys(ERRORS, "no") | marks
            writer.writerow(cells.values())


def truth(identifier):
    """The marks of an annotator for the errors in a response."""
    return {
        "0": {},
        "1": {"coverage": "yes", "missing_arguments": "pro 2, con 2"},
        "2": {"hallucination": "yes", "unsupported_spans": "cures colds"},
        "3": {"partial_hallucination": "yes", "unsupported_spans": "ruins teeth"},
    }[identifier[-1]]


def careless(identifier):
    marks = truth(identifier)
    return {"hallucination": "1", "unsupported_spans": "and cures"} if "colds" in str(marks) else {}


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_from_responses_to_a_table(annotate, responses, tmp_path):
    sheets = tmp_path / "sheet_{annotator}.csv"
    names = ("ada", "ben", "eve")
    status, lines, _ = annotate(
        "write", "--input", responses, "--output", sheets, "--annotators=ada,ben, eve"
    )
    assert status == 0
    files = [tmp_path / f"sheet_{name}.csv" for name in names]
    assert lines[0] == f"{files[0]}: 8 responses, 8 rows to fill in for ada"
    fill(files[0], truth)
    fill(files[1], truth, delimiter=";")
    fill(files[2], careless, delimiter="\t")
    marks, slices = tmp_path / "marks.jsonl", tmp_path / "slices"
    status, lines, error = annotate(
        "read", *files, f"--input={responses}", f"--output={marks}", f"--slices={slices}"
    )
    assert (status, error) == (0, "")
    labels = tmp_path / "marks_labels.jsonl"
    assert lines == [
        f"{marks}: 24 rows of 3 annotators",
        f"{labels}: 8 responses: 2 error-free, 4 with a full error (hallucination 2, coverage 2), "
        "2 with ambiguous errors only",
        f"{slices}/full_organic.jsonl: 2 error-free against 4 full",
        f"{slices}/ambiguous_organic.jsonl: 2 error-free against 2 ambiguous",
    ]
    assert [(row["id"], row["annotator"]) for row in rows_of(marks)][8] == ("tea-0", "ben")
    rows_by_id = {row["id"]: row for row in rows_of(labels)}
    for original in RESPONSES:
        row = rows_by_id[original["id"]]
        assert {name: row[name] for name in original} == original  # the topic comes along too
    assert [rows_by_id[f"tea-{i}"]["label"] for i in range(4)] == [1, 0, 0, None]
    row = rows_by_id["coffee-2"]
    ((start, end),) = row["hallucinated_spans"]
    assert row["response"][start:end] == "cures colds"
    assert rows_by_id["coffee-1"]["missing_arguments"] == ["pro 2", "con 2"]
    assert rows_by_id["tea-3"]["slice"] == "ambiguous_organic"
    detection(annotate, slices, tmp_path)


def detection(annotate, slices, folder):
    """Scores the slices and evaluates them with the same commands as other rows."""
    scored = []
    for name in ("full_organic", "ambiguous_organic"):
        scored.append(folder / f"scored_{name}.jsonl")
        status, _, error = annotate(
            "--scorers=npov_rouge1_hallucination,npov_rouge1_coverage",
            f"--input={slices}/{name}.jsonl",
            f"--output={scored[-1]}",
            command="score",
        )
        assert status == 0, error
    figures = folder / "figures.json"
    status, lines, error = annotate(
        *scored, "--protocol=npov", f"--json={figures}", command="evaluate"
    )
    assert status == 0, error
    assert lines[1].split() == ["error", "scorer", "full_organic", "ambiguous_organic"]
    assert lines[3].split()[:3] == ["hallucination", "npov_rouge1_hallucination", "100.0"]
    assert lines[4].split()[:3] == ["coverage", "npov_rouge1_coverage", "100.0"]


def test_agreement(annotate, responses, tmp_path):
    sheet = tmp_path / "sheet.csv"
    annotate("write", f"--input={responses}", f"--output={sheet}", "--annotators=ada")
    ada, ben = tmp_path / "ada.csv", tmp_path / "ben.csv"
    fill(sheet, truth, ada)
    fill(sheet, lambda i: careless(i) if i != "tea-0" else None, ben)
    ben.write_text(ben.read_text().replace(",ada,", ",ben,"))
    figures = tmp_path / "figures.json"
    status, lines, error = annotate("agreement", ada, ben, f"--json={figures}", "--resamples=200")
    assert (status, error) == (0, "")
    assert lines[0] == "Agreement of annotators, with 95% bootstrap intervals"
    (row,) = [line for line in lines if line.startswith("hallucination")]
    assert row.split()[:2] == ["hallucination", "7"]
    assert "2 annotators: 7 responses marked by 2, 1 response marked by 1." in lines
    assert "Not annotated yet: 1 row." in lines
    assert lines[-1].startswith("Chang 2024, section 4.1.1 (another model's responses")
    report = json.loads(figures.read_text())
    assert (report["rows"], report["not_annotated"], report["seed"]) == (15, 1, 0)
    assert report["marks"]["hallucination"]["alpha"] == 1
    assert report["marks"]["hallucination"]["kappa"] == 1
    # Ada: cures, colds; Ben: cures ("and" is a stop word), in both topics.
    assert report["named"]["unsupported words"]["f1"] == pytest.approx(2 / 3)
    assert report["named"]["missing arguments"]["f1"] == 0
    assert annotate("agreement", ada, ben, "--resamples=200")[1] == lines


def test_a_sample_is_drawn_by_its_seed(annotate, responses, tmp_path):
    drawn = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        path = tmp_path / f"{name}.jsonl"
        arguments = (f"--input={responses}", f"--output={path}", "--sample=4", f"--seed={seed}")
        status, lines, _ = annotate("write", *arguments)
        assert (status, lines) == (0, [f"{path}: 4 responses, 4 rows to fill in"])
        drawn.append([row["id"] for row in rows_of(path)])
    assert drawn[0] == drawn[1] != drawn[2]
    order = [row["id"] for row in RESPONSES]
    assert drawn[0] == sorted(drawn[0], key=order.index)


def tie(identifier):
    return {} if identifier == "tea-2" else truth(identifier)


def test_ties(annotate, responses, tmp_path):
    sheet = tmp_path / "sheet_{annotator}.csv"
    annotate("write", f"--input={responses}", f"--output={sheet}", "--annotators=ada,ben")
    files = [tmp_path / f"sheet_{name}.csv" for name in ("ada", "ben")]
    for path, marks_of in zip(files, (truth, tie), strict=True):
        fill(path, marks_of)
    output = tmp_path / "marks.jsonl"
    labels = tmp_path / "labels.jsonl"
    for ties, expected, message in (
        ("error", 0, "1 response with as many yes as no to an error, taken as errors (--ties)"),
        (
            "no-error",
            1,
            "1 response with as many yes as no to an error, taken as no errors (--ties)",
        ),
        ("drop", None, "1 response left out for ties"),
    ):
        arguments = (f"--output={output}", f"--labels={labels}", f"--ties={ties}")
        status, lines, _ = annotate("read", *files, *arguments)
        assert (status, lines[-1]) == (0, message)
        labels_by_id = {row["id"]: row["label"] for row in rows_of(labels)}
        assert labels_by_id.get("tea-2") == expected
        assert len(labels_by_id) == (7 if ties == "drop" else 8)
    status, _, error = annotate("read", *files, f"--output={tmp_path / 'm.jsonl'}", "--ties=refuse")
    assert status == 2
    assert re.search(r"sheet_ada\.csv:\d+: field 'hallucination': .*1 yes of 2.*settle it", error)


def test_nothing_is_written_of_a_bad_sheet(annotate, responses, tmp_path):
    sheet = tmp_path / "sheet.csv"
    annotate("write", f"--input={responses}", f"--output={sheet}", "--annotators=ada")
    fill(sheet, lambda i: truth(i) | ({"missing_arguments": "pro 9"} if i == "coffee-3" else {}))
    before = sorted(tmp_path.iterdir())
    slices, output = tmp_path / "slices", tmp_path / "marks.jsonl"
    status, lines, error = annotate(
        "read", sheet, f"--output={output}", f"--slices={slices}", f"--input={responses}"
    )
    assert (status, lines) == (2, [])
    assert re.search(
        r"sheet\.csv:\d+: field 'missing_arguments': expected arguments of this", error
    )
    assert sorted(tmp_path.iterdir()) == before


def test_a_filled_sheet_is_not_lost(annotate, responses, tmp_path):
    sheet = tmp_path / "sheet.csv"
    arguments = ("write", f"--input={responses}", f"--output={sheet}")
    annotate(*arguments)
    sheet.write_text("filled in")
    status, _, error = annotate(*arguments)
    assert (status, sheet.read_text()) == (2, "filled in")
    assert "sheet.csv exists already, and may be filled in; name another file, or give" in error
    assert annotate(*arguments, "--overwrite")[0] == 0
    assert sheet.read_text(encoding="utf-8-sig").startswith('"id"')


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("write --input={r} --output={t}/a.xlsx", "a sheet is a .csv or .jsonl file"),
        ("write --input={r} --output={r}", "responses.jsonl would overwrite the input"),
        ("write --input={r} --output={t}/a.csv --sample=9", "from 1 to 8, the responses"),
        (
            "write --input={r} --output={t}/a.csv --annotators=Ada,ada",
            "--annotators: a name is given twice: Ada, ada",
        ),
        (
            "write --input={r} --output={t}/{{annotator}}.csv",
            "{annotator} in a name goes with --annotators",
        ),
        (
            "write --input={r} --output={t}/{{annotator}}.csv --annotators=a/b",
            "'a/b' cannot be part of a file's name",
        ),
        ("read {t}/empty.csv --output={t}/m.jsonl", "none of 8 rows is annotated yet; fill"),
        (
            "read {t}/empty.csv --output={t}/m.jsonl --complete",
            "empty.csv:2: not annotated yet, the first of 8 such rows",
        ),
        (
            "read {t}/empty.csv --output={t}/m.jsonl --labels={t}/m.jsonl",
            "is the output of --output too",
        ),
        (
            "read {t}/filled.csv --output={t}/m.jsonl --slices={r}",
            "--slices: {r}: cannot be written (File exists)",
        ),
        ("agreement {t}/no.csv", "no.csv: no such file"),
    ],
)
def test_mistakes_are_one_line_and_status_2(annotate, responses, tmp_path, arguments, message):
    annotate("write", f"--input={responses}", f"--output={tmp_path / 'empty.csv'}")
    fill(tmp_path / "empty.csv", truth, tmp_path / "filled.csv")
    filled = (tmp_path / "filled.csv").read_text()
    (tmp_path / "filled.csv").write_text(re.sub(r"^([\w-]+),,", r"\1,ada,", filled, flags=re.M))
    before = sorted(tmp_path.iterdir())
    paths = {"r": responses, "t": tmp_path}
    status, lines, error = annotate(*arguments.format(**paths).split())
    assert (status, lines) == (2, [])
    assert message.replace("{t}", str(tmp_path)).replace("{r}", str(responses)) in error
    assert sorted(tmp_path.iterdir()) == before


def test_arguments_that_cannot_be_told_apart_are_told(annotate, tmp_path):
    path, sheet = tmp_path / "predictions.jsonl", tmp_path / "sheet.csv"
    row = {"id": "1", "inputs": "{query: Tea?} {pro: Calm.} {con: Weak.}", "prediction": "So."}
    path.write_text(json.dumps(row))
    status, lines, _ = annotate("write", f"--input={path}", f"--output={sheet}")
    assert status == 0
    assert lines[1].startswith("1 response with arguments that are not in procon_npov: there, each")
