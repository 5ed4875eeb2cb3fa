"""`faith-jax score` on tables of other tools, and its file of the worst rows."""

import csv
import json

import pytest

from faith_jax.cli import main
from faith_jax.export.read_scored import read_scored_rows

ROWS = [
    ("When does the mill open?", ["The mill opens at ten.", "It's shut\non Sundays."], "At ten."),
    ("Who sells bread?", ['The baker sells "rye" bread.'], "The baker sells cakes."),
    ("How deep is the pond?", ["Carp live in the pond."], ""),
    ("Is there a ferry?", ["A ferry leaves hourly."], "A ferry leaves hourly."),
]
COLUMNS = ("user_input", "retrieved_contexts", "response")
PRECISIONS = [1.0, 3 / 4, None, 1.0]  # of the words of each response, those in the grounding


def write_table(path, encoding="utf-8", delimiter=","):
    """Writes a table as ragas and pandas do."""
    with open(path, "w", newline="", encoding=encoding) as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow([*COLUMNS, "run"])
        writer.writerows((q, repr(c), a, n) for n, (q, c, a) in enumerate(ROWS))


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "answers.csv"
    write_table(path)
    return path


def score(capsys, source, output, *options):
    """Returns the exit status, the lines of standard output, and the errors."""
    arguments = ("--scorers=rouge1_precision,coverage", f"--input={source}", f"--output={output}")
    status = main(["score", *map(str, (*arguments, *options))])
    out, errors = capsys.readouterr()
    return status, out.splitlines(), errors


def precisions(output):
    return [row["scores"]["rouge1_precision"] for row in read_scored_rows(output)]


def test_lists_in_cells_are_scored_as_lists(capsys, caplog, tmp_path, source):
    output = tmp_path / "scores.jsonl"
    with caplog.at_level("INFO", "faith_jax"):
        assert score(capsys, source, output)[0] == 0
    assert "  retrieved_contexts: 4 lists of 1 to 2 texts" in caplog.messages
    assert "  response: 4 answers, of which 1 empty" in caplog.messages
    rows = list(read_scored_rows(output))
    assert [row["grounding"] for row in rows] == [contexts for _, contexts, _ in ROWS]
    assert [row["history"] for row in rows] == [[question] for question, _, _ in ROWS]
    assert precisions(output) == PRECISIONS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--separator=;;",), "--separator: expected one character, got ';;'"),
        (("--encoding=utf-7x",), "--encoding: expected an encoding that Python knows"),
        (("--encoding=ascii",), "expected the encoding ascii, got other bytes"),
        (("--separator=|",), "the file seems to be separated by"),
        (("--worst=worst.txt",), "--worst: worst.txt: name a .csv or .jsonl file"),
        (("--worst=no/worst.csv",), "--worst: no/worst.csv"),
    ],
)
def test_wrong_options_are_one_line(capsys, tmp_path, source, options, message):
    source.write_text(source.read_text("utf-8").replace("pond", "pönd"), "utf-8")
    status, _, errors = score(capsys, source, tmp_path / "scores.jsonl", *options)
    assert (status, len(errors.splitlines())) == (2, 1)
    assert message in errors


def test_the_worst_rows_have_the_columns_of_the_input(capsys, tmp_path, source):
    worst = tmp_path / "worst.csv"
    status, lines, _ = score(
        capsys, source, tmp_path / "a.jsonl", f"--worst={worst}", "--worst-rows=2"
    )
    assert (status, lines[1]) == (0, f"{worst}: the 2 rows with the lowest scores")
    with open(worst, newline="", encoding="utf-8") as file:
        csv_rows = list(csv.DictReader(file))
    assert [row["id"] for row in csv_rows] == ["2", "1"]  # of equal scores the first
    for row, number in zip(csv_rows, (1, 0), strict=True):
        question, contexts, answer = ROWS[number]
        assert (row["user_input"], row["response"], row["run"]) == (question, answer, str(number))
        assert json.loads(row["retrieved_contexts"]) == contexts
        assert float(row["rouge1_precision"]) == PRECISIONS[number]
    # What it has written can be scored.
    assert score(capsys, worst, tmp_path / "b.jsonl")[0] == 0
    assert precisions(tmp_path / "b.jsonl") == [3 / 4, 1.0]


def test_the_worst_rows_as_json_lines_with_labels_and_sides(capsys, tmp_path):
    source, worst = tmp_path / "answers.jsonl", tmp_path / "worst.jsonl"
    rows = [
        {"key": f"k{n}", "pros": ["Tea calms.", "It warms."], "cons": "It stains.", "text": text,
         "good": label, "tags": ["x", n], "rouge1_precision": "mine"}
        for n, (text, label) in enumerate([("Tea calms.", "yes"), ("Tea sings.", "no")])
    ]  # fmt: skip
    source.write_text("\n".join(map(json.dumps, rows)))
    options = ("--grounding-column=pro=pros,con=cons", "--response-column=text", "--id-column=key")
    status, _, _ = score(
        capsys, source, tmp_path / "s.parquet", f"--worst={worst}", "--label-column=good", *options
    )
    assert status == 0
    first, second = map(json.loads, worst.read_text("utf-8").splitlines())
    assert first | {"coverage": None} == rows[1] | {
        "corpus": "answers", "cons": ["It stains."], "rouge1_precision (score)": 0.5,
        "coverage": None,
    }  # fmt: skip
    assert (second["key"], second["rouge1_precision (score)"]) == ("k0", 1.0)


def test_a_folder_of_parts_in_shards_is_scored_as_one_file(capsys, tmp_path, source):
    folder = tmp_path / "parts"
    folder.mkdir()
    with open(source, newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    for number, row in enumerate(lines * 5):
        with open(folder / f"part-{number:05d}.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, row])
    (folder / "_SUCCESS").touch()
    assert score(capsys, folder, tmp_path / "scores.jsonl", "--shards=7")[0] == 0
    rows = list(read_scored_rows(tmp_path / "scores.jsonl"))
    assert [row["id"] for row in rows] == [str(number) for number in range(1, 21)]
    assert {row["corpus"] for row in rows} == {"parts"}
    assert precisions(tmp_path / "scores.jsonl") == PRECISIONS * 5


def test_answers_of_other_programs(capsys, tmp_path):
    """Chat turns, documents and objects, without an option."""
    cases = {
        "langsmith": {
            "inputs": {"question": "Open?"}, "outputs": {"answer": "It opens at ten.",
            "documents": [{"page_content": "It opens at ten.", "metadata": {"page": 1}}]},
        },
        "openai": {
            "item": {"question": "Open?", "context": "It opens at ten."},
            "sample": {"output_text": "It opens at ten."},
        },
        "phoenix": {
            "attributes.input.value": "Open?", "attributes.output.value": "It opens at ten.",
            "attributes.retrieval.documents": [{"document.content": "It opens at ten."}],
        },
        "langchain": {
            "input": "Open?", "answer": "It opens at ten.",
            "context": "[Document(metadata={'page': 1}, page_content='It opens at ten.')]",
        },
        "llamaindex": {
            "query": "Open?", "response": "It opens at ten.",
            "source_nodes": [{"node": {"text": "It opens at ten.", "id_": "1"}, "score": 0.8}],
        },
        "chat": {
            "user_input": [{"role": "user", "content": "Open?"}], "response": "It opens at ten.",
            "retrieved_contexts": ["It opens at ten."],
        },
    }  # fmt: skip
    for name, row in cases.items():
        source, output = tmp_path / f"{name}.json", tmp_path / f"{name}.scores.jsonl"
        source.write_text(json.dumps([row]))
        assert score(capsys, source, output)[0] == 0, name
        (scored_row,) = read_scored_rows(output)
        assert scored_row["grounding"] == ["It opens at ten."], name
        assert scored_row["history"] == ["Open?"], name
        assert scored_row["scores"]["rouge1_precision"] == 1.0
