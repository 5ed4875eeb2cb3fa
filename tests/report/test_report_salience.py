import json

import pytest

from faith_jax.cli import main
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.scoring.salience.scorers import open_salience
from tests.scoring import tiny_models

EVIL = "<script>alert(1)</script><b>Tea</b> burns"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bart") / "m"
    return tiny_models.write_model(folder, "bart", max_positions=512)


def write(path, *rows):
    full = [
        {
            "id": str(number),
            "corpus": "c",
            "grounding": ["Tea calms.", "It wakes people."],
            "perspectives": ["pro", "con"],
            "history": ["Is tea better?"],
            "generated_text": f"Tea calms {number} people.",
            "label": number % 2,
            "scores": {"s": number / 10},
        }
        | row
        for number, row in enumerate(rows)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in full), encoding="utf-8")
    return path


def report(path, *arguments):
    page = path.with_suffix(".html")
    status = main(["report", str(path), f"--output={page}", "--resamples=100", *arguments])
    return status, page


def titles(page):
    text = page.read_text(encoding="utf-8")
    return [part.split("</h2>")[0] for part in text.split('<section class="salience">\n<h2>')[1:]]


def test_the_rows_with_the_lowest_score_get_maps(model, tmp_path):
    scores = [0.5, 0.1, None, 0.3, 0.2]
    path = write(tmp_path / "s.jsonl", *({"scores": {"s": s, "t": 1.0}} for s in scores))
    status, page = report(path, f"--salience-model={model}", "--salience-rows=3")
    assert status == 0
    assert titles(page) == ["c: 1", "c: 4", "c: 3"]
    text = page.read_text(encoding="utf-8")
    assert "The 3 rows with the lowest s, the lowest first. Gradients (gradient_x_input)" in text
    example = GroundedExample(
        "1", Grounding(("Tea calms.", "It wakes people."), ("pro", "con")), ("Is tea better?",),
        "Tea calms 1 people.",
    )  # fmt: skip
    (found,) = open_salience(model)([example])
    assert f"Hallucination score {1 - found.attribution_score():.3f}" in text


def test_the_first_scorer_is_the_first_of_scorers(model, tmp_path):
    rows = [{"scores": {"s": i, "t": -i}} for i in range(3)]
    path = write(tmp_path / "s.jsonl", *rows)
    options = [f"--salience-model={model}", "--salience-rows=1", "--scorers=t,s"]
    status, page = report(path, *options)
    assert (status, titles(page)) == (0, ["c: 2"])


def test_without_scores_the_first_rows_and_none_that_lack_texts(model, tmp_path):
    # Row 3 makes the file usable; it lacks a response, and so has no map.
    rows = [{"scores": {"s": None}} for _ in range(3)]
    rows.append({"generated_text": " "})
    rows[0]["grounding"] = rows[0]["perspectives"] = []
    status, page = report(write(tmp_path / "s.jsonl", *rows), f"--salience-model={model}")
    assert (status, titles(page)) == (0, ["c: 1", "c: 2"])
    assert "The first 2 rows; none has a score of s." in page.read_text(encoding="utf-8")


def test_options_of_the_maps(model, tmp_path):
    path = write(tmp_path / "s.jsonl", {}, {})
    options = [f"--salience-model={model}", "--salience-method=gradient_l2"]
    for threshold, marked in (("0", False), ("1", True)):
        status, page = report(path, *options, f"--salience-threshold={threshold}")
        text = page.read_text(encoding="utf-8")
        assert status == 0
        assert "(gradient_l2)" in text
        assert ('class="marked"' in text) is marked


def test_markup_is_text_and_the_policy_stays(model, tmp_path):
    path = write(tmp_path / "s.jsonl", {"generated_text": EVIL, "id": EVIL})
    status, page = report(path, f"--salience-model={model}")
    text = page.read_text(encoding="utf-8")
    assert status == 0
    assert text.count("<script") == 2
    assert "<b>Tea" not in text
    assert titles(page) == ["c: &lt;script&gt;alert(1)&lt;/script&gt;&lt;b&gt;Tea&lt;/b&gt; burns"]
    assert "default-src 'none'" in text


def test_without_the_option_nothing_is_added(tmp_path):
    status, page = report(write(tmp_path / "s.jsonl", {}, {}))
    assert status == 0
    assert "alience" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("row", "arguments", "message"),
    [
        ({}, ["--salience-rows=2"], "--salience-rows: goes with --salience-model"),
        ({}, ["{m}", "--salience-rows=0"], "--salience-rows: expected 1 or more, got 0"),
        ({}, ["{m}", "--salience-threshold=2"], "--salience-threshold: expected a share from 0"),
        ({}, ["{m}", "--salience-method=lime"], "method: expected one of gradient_x_input"),
        ({}, ["--salience-model=/no/such"], "/no/such"),
        ({"generated_text": None}, ["{m}"], "no row has generated_text and grounding"),
        ({"perspectives": ["pro"]}, ["{m}"], "c, row '0': expected one of perspectives for each"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(model, tmp_path, capsys, row, arguments, message):
    path = write(tmp_path / "s.jsonl", row)
    given = [a.replace("{m}", f"--salience-model={model}") for a in arguments]
    status, page = report(path, *given)
    error = capsys.readouterr().err
    assert status == 2
    assert message in error
    assert error.count("\n") == 1
    assert not page.exists()
