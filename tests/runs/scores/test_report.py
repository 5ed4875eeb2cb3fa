import json

import pytest

from faith_jax.cli import main


def write(path, scorer, labels=(1, 0, 1), corpus="c"):
    rows = [
        {
            "id": str(number),
            "corpus": corpus,
            "grounding": ["G."],
            "generated_text": f"R {number}.",
            "label": label,
            "scores": {scorer: number / 10},
            "words": {scorer: [[0, 1, 0.5, None]]},
            "fields": {},
        }
        for number, label in enumerate(labels)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def report(capsys, *arguments):
    status = main(["report", *map(str, arguments)])
    output, errors = capsys.readouterr()
    return status, output, (errors.strip().splitlines() or [""])[-1]


def test_scorers_of_two_files_meet_in_one_page(capsys, tmp_path):
    first = write(tmp_path / "one.jsonl", "s", labels=(1, None, 1))
    second = write(tmp_path / "two.jsonl", "t", labels=(1, 0, None))
    page = tmp_path / "report.html"
    status, output, _ = report(
        capsys, first, second, f"--output={page}", "--title=Mine", "--baseline=s"
    )
    assert (status, output) == (0, f"{page}\n")
    html = page.read_text(encoding="utf-8")
    assert "<title>Mine</title>" in html
    data = json.loads(html.split('id="data">')[1].split("</script>")[0])
    assert [row["label"] for row in data] == [1, 0, 1]
    assert data[2]["scores"] == [0.2, 0.2]
    assert set(data[2]["words"]) == {"0", "1"}
    assert {path.name for path in tmp_path.iterdir()} == {"one.jsonl", "two.jsonl", "report.html"}


def test_examples_without_labels_are_shown(capsys, tmp_path):
    path = write(tmp_path / "s.jsonl", "s", labels=(None, None))
    page = tmp_path / "report.html"
    assert report(capsys, path, f"--output={page}")[0] == 0
    html = page.read_text(encoding="utf-8")
    assert len(json.loads(html.split('id="data">')[1].split("</script>")[0])) == 2
    assert "<caption>Systems</caption>" in html
    assert "ROC" not in html
    assert ">c: s (2 rows)" in html


def test_two_files_of_one_corpus_are_two_systems(capsys, tmp_path):
    first = write(tmp_path / "old.jsonl", "s", labels=(None, None))
    second = write(tmp_path / "new.jsonl", "s", labels=(None, None, None))
    page = tmp_path / "report.html"
    assert report(capsys, first, second, f"--output={page}")[0] == 0
    html = page.read_text(encoding="utf-8")
    data = json.loads(html.split('id="data">')[1].split("</script>")[0])
    assert [row["corpus"] for row in data] == ["old"] * 2 + ["new"] * 3
    assert "new \N{MINUS SIGN} old" in html
    labelled = [write(path, "s") for path in (first, second)]
    assert report(capsys, *labelled, f"--output={page}")[0] == 0
    data = json.loads(page.read_text(encoding="utf-8").split('id="data">')[1].split("</script>")[0])
    assert [row["corpus"] for row in data] == ["old"] * 3 + ["new"] * 3


def test_the_page_begins_with_the_verdict(capsys, tmp_path):
    page = tmp_path / "report.html"
    for name, shift in {"old": 0, "new": 0.5}.items():
        rows = [
            {"id": str(n), "grounding": [f"G {n}."], "scores": {"s": shift + n % 7 / 20}}
            | {"corpus": "c", "generated_text": f"R {n}.", "label": None, "fields": {}, "words": {}}
            for n in range(40)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(text)
    files = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    assert report(capsys, *files, f"--output={page}")[0] == 0
    html = page.read_text(encoding="utf-8")
    before_figures = html.partition('<h2 id="figures">')[0]
    verdict = before_figures.partition('<p class="verdict">')[2].partition("</p>")[0]
    assert verdict == "c: Verdict: new is better by s (p &lt; 0.001); 40 rows."
    assert html.count(verdict) == 1


def test_corpora_of_other_scorers_have_tables_of_their_own(capsys, tmp_path):
    first = write(tmp_path / "one.jsonl", "s", corpus="c")
    second = write(tmp_path / "two.jsonl", "t", corpus="d")
    page = tmp_path / "report.html"
    assert report(capsys, first, second, f"--output={page}")[0] == 0
    html = page.read_text(encoding="utf-8")
    assert html.count("<caption>ROC AUC") == 2
    assert html.count("<caption>Means</caption>") == 1
    assert "\u2212" not in html  # corpora with labels are no systems


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.jsonl"], "none.jsonl: no such file"),
        (["{s}", "--baseline=x"], "The baseline 'x' is none of s"),
        (["{s}", "--resamples=0"], "--resamples: expected a whole number from 100 to 1,000,000"),
        (["{s}", "--most-examples=0"], "--most-examples: expected a positive whole number, got 0"),
        (["{s}", "--output=/no/where.html"], "cannot be written (no such folder)"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(capsys, tmp_path, arguments, message):
    path = write(tmp_path / "s.jsonl", "s")
    formatted = [argument.replace("{s}", str(path)) for argument in arguments]
    status, output, error = report(capsys, f"--output={tmp_path}/r.html", *formatted)
    assert (status, output) == (2, "")
    assert message in error
    assert [path.name for path in tmp_path.iterdir()] == ["s.jsonl"]


def test_errors_of_npov_responses_are_labels(capsys, tmp_path):
    path = write(tmp_path / "s.jsonl", "npov_rouge1_coverage", labels=(None,) * 4)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row, has_error in zip(rows, (1, 0, 1, 0), strict=True):
        row["fields"] = {"has_hallucination": 0, "has_coverage_error": has_error}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = tmp_path / "report.html"
    assert report(capsys, path, f"--output={page}", "--resamples=100")[0] == 0
    html = page.read_text(encoding="utf-8")
    assert "Detection of errors, ROC AUC" in html
    assert "75.0" in html  # three of the four pairs of an error and none are in order
    rows[0]["fields"] = {}  # one that does not say it
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert report(capsys, path, f"--output={page}")[0] == 0
    assert "Detection of errors" not in page.read_text(encoding="utf-8")
