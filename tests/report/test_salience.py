import dataclasses
import json
import math
import re

import numpy as np
import pytest

from faith_jax.cli import main
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.report.salience import salience_page, salience_picture, salience_text
from faith_jax.scoring.salience.scorers import open_salience
from tests.report.salience_example import EXAMPLE, VALUES, word_salience
from tests.scoring import tiny_models

SCRIPT = "<script>alert(1)</script>"
EVIL = "<script>alert(1)</script><b>Tea</b> burns"


def test_words_below_the_threshold_are_marked():
    picture = salience_picture(EXAMPLE, word_salience(), 0.1)
    assert picture.unsupported_words == ("saves",)
    assert picture.uncovered_words == ("awake",)
    assert salience_picture(EXAMPLE, word_salience(), 0.25).uncovered_words == ("keeps", "awake")
    assert salience_picture(EXAMPLE, word_salience(), 0.0).unsupported_words == ()
    assert picture.query == "Is tea better?"


def test_words_that_no_text_has_are_starred_and_change_no_value():
    example = dataclasses.replace(
        EXAMPLE, response="PJ teas calmed 3 better.", history=("Hi, PJ.", "Is 30 better?")
    )
    values = np.full((5, 5), 0.5)
    picture = salience_picture(example, word_salience(example, values), 0.1)
    # Only the query counts of the history; "teas" and "calmed" have stems of the grounding.
    assert picture.foreign_words == ("PJ", "3")
    assert picture.foreign == (True, False, False, True, False)
    assert picture.unsupported_words == ()
    assert picture.scores["salience_hallucination"] == pytest.approx(0.5)
    text = salience_text(picture, False)
    assert "response: [PJ*] teas calmed [3*] better." in text
    assert "[brackets] = below 0.1, or not in the grounding or the query (*)" in text
    assert "not in the grounding or the query: PJ, 3\n" in text
    page = salience_page("Title", [picture])
    assert 'title="0.500, not in the grounding">PJ</span>*' in page
    assert "Not in the grounding or the query (*): PJ, 3." in page
    assert '<th scope="col" class="word"><span class="marked">PJ*</span></th>' in page
    unstarred = dataclasses.replace(EXAMPLE, response="Tea calms.")
    plain = salience_picture(unstarred, word_salience(unstarred, np.full((5, 2), 0.5)))
    assert "*" not in str(plain)
    assert "Not in the grounding" not in salience_page("Title", [plain])


def test_pieces_are_the_texts():
    picture = salience_picture(EXAMPLE, word_salience())
    assert "".join(piece.text for piece in picture.response.pieces) == EXAMPLE.response
    for argument, text in zip(picture.arguments, EXAMPLE.grounding.texts, strict=True):
        assert "".join(piece.text for piece in argument.pieces) == text
    valued = {piece.text: piece.value for piece in picture.response.pieces if piece.value}
    assert valued == {"Tea": 0.8, "calms": 0.7, "saves": 0.06, "money": 0.3}
    assert [argument.title for argument in picture.arguments] == ["pro 1", "con 1"]


def test_scores_are_the_papers():
    picture = salience_picture(EXAMPLE, word_salience())
    attributions = math.prod([0.8, 0.7, 0.06, 0.3]) ** (1 / 4)
    assert picture.scores["salience_hallucination"] == pytest.approx(attributions)
    # Con has the smaller mean: 0.2, 0.3 and 0.04.
    contributions = math.prod([0.2, 0.3, 0.04]) ** (1 / 3)
    assert picture.scores["salience_coverage"] == pytest.approx(contributions)


def test_without_colours_marked_words_stand_in_brackets():
    text = salience_text(
        salience_picture(EXAMPLE, word_salience(cut={"knowledge": 2, "history": 1})), False
    )
    assert "response: Tea calms, and [saves*] [money*]." in text
    assert "not in the grounding or the query: saves, money\n" in text
    assert "con 1: It keeps people [awake]." in text
    assert "\x1b" not in text
    scores = [line for line in text.splitlines() if "higher = more faithful" in line]
    assert scores == [
        "salience_hallucination 0.317 (0 to 1, higher = more faithful); low attribution: saves",
        "salience_coverage 0.134 (0 to 1, higher = more faithful); low contribution: awake",
    ]
    assert "3 tokens (2 of knowledge, 1 of history) did not fit" in text


def test_texts_cannot_steer_the_terminal():
    example = dataclasses.replace(EXAMPLE, history=("Is \x1b[2J tea\nbetter?",))
    text = salience_text(salience_picture(example, word_salience()), False)
    assert r"query: Is \x1b[2J tea better?" in text
    evil = dataclasses.replace(EXAMPLE, history=("a\x07\u2028\u202eb",))
    picture = salience_picture(evil, word_salience())
    assert r"query: a\x07 \u202eb" in salience_text(picture, True)


def test_framing_words_are_marked_nowhere():
    salience = word_salience()
    words = (salience.response_words[0]._replace(text="Supporters"), *salience.response_words[1:])
    values = salience.values.copy()
    values[:, 0] = 0.01
    salience = dataclasses.replace(salience, response_words=words, values=values)
    picture = salience_picture(EXAMPLE, salience)
    assert "Supporters" not in picture.unsupported_words
    assert '<th scope="col" class="word"><span>Supporters</span>' in salience_page("T", [picture])


def test_cells_are_the_map():
    page = salience_page("Title", [salience_picture(EXAMPLE, word_salience())])
    body = page.partition("<tbody>")[2]
    cells = re.findall(r"--share: ([0-9.]+)", body)
    values = np.array(cells, float).reshape(5, 5)
    np.testing.assert_allclose(values[:, 1:], VALUES, atol=5e-4)
    np.testing.assert_allclose(values[:, 0], VALUES.max(1), atol=5e-4)
    top = re.findall(r"--share: ([0-9.]+)", page.partition("attribution</th>")[2])[1:5]
    np.testing.assert_allclose(np.array(top, float), VALUES.max(0), atol=5e-4)
    assert '<span class="marked">awake</span>' in body
    assert "Low attribution: saves." in page


def test_texts_cannot_leave_their_place_in_the_page():
    grounding = Grounding((f"Tea {SCRIPT} calms.", "It keeps people awake."), (SCRIPT, "con"))
    example = dataclasses.replace(EXAMPLE, id=SCRIPT, grounding=grounding, history=(SCRIPT,))
    salience = word_salience(example, np.full((9, 4), 0.5))
    page = salience_page(SCRIPT, [salience_picture(example, salience)])
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 5


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
    text = page.read_text(encoding="utf-8").replace("<wbr>", "")
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
    (salience,) = open_salience(model)([example])
    assert f"salience_<wbr>hallucination {salience.attribution_score():.3f}" in text


def test_without_scores_the_first_rows_and_none_that_lack_texts(model, tmp_path):
    # Row 3 makes the file usable; it lacks a response, and so has no map.
    rows = [{"scores": {"s": None}} for _ in range(3)]
    rows.append({"generated_text": " "})
    rows[0]["grounding"] = rows[0]["perspectives"] = []
    status, page = report(write(tmp_path / "s.jsonl", *rows), f"--salience-model={model}")
    assert (status, titles(page)) == (0, ["c: 1", "c: 2"])
    assert "The first 2 rows; none has a score of s." in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_options_of_the_maps(model, tmp_path):
    path = write(tmp_path / "s.jsonl", {}, {})
    options = [f"--salience-model={model}", "--salience-method=gradient_l2"]
    counts = []
    for threshold in ("0", "1"):
        status, page = report(path, *options, f"--salience-threshold={threshold}")
        text = page.read_text(encoding="utf-8")
        assert status == 0
        assert "(gradient_l2)" in text
        counts.append((text.count('class="marked"'), text.count('not in the grounding">')))
    (few, foreign), (many, same) = counts
    # With 0 only words that no text has are marked, in the response and above the map.
    assert (few, foreign) == (2 * foreign, same)
    assert many > few


def test_markup_is_text_and_the_policy_stays(model, tmp_path):
    path = write(tmp_path / "s.jsonl", {"generated_text": EVIL, "id": EVIL})
    status, page = report(path, f"--salience-model={model}")
    text = page.read_text(encoding="utf-8")
    assert status == 0
    assert text.count("<script") == 2
    assert "<b>Tea" not in text
    assert titles(page) == ["c: &lt;script&gt;alert(1)&lt;/script&gt;&lt;b&gt;Tea&lt;/b&gt; burns"]
    assert "default-src 'none'" in text


@pytest.mark.parametrize(
    ("row", "arguments", "message"),
    [
        ({}, ["--salience-rows=2"], "--salience-rows: goes with --salience-model"),
        ({}, ["{m}", "--salience-method=lime"], "method: expected one of gradient_x_input"),
        ({"generated_text": None}, ["{m}"], "no row has generated_text and grounding"),
        ({"perspectives": ["pro"]}, ["{m}"], "c, row '0': expected one of perspectives for each"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(model, tmp_path, capsys, row, arguments, message):
    path = write(tmp_path / "s.jsonl", row)
    formatted = [a.replace("{m}", f"--salience-model={model}") for a in arguments]
    status, page = report(path, *formatted)
    error = capsys.readouterr().err
    assert status == 2
    assert message in error
    assert error.count("\n") == 1
    assert not page.exists()
