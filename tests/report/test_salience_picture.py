import dataclasses
import math

import pytest

from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.report.salience_picture import argument_titles, salience_picture
from tests.report.salience_example import EXAMPLE, word_salience


def test_words_below_the_threshold_are_marked():
    picture = salience_picture(EXAMPLE, word_salience(), 0.1)
    assert picture.unsupported_words == ("saves",)
    assert picture.uncovered_words == ("awake",)
    assert salience_picture(EXAMPLE, word_salience(), 0.25).uncovered_words == ("keeps", "awake")
    assert salience_picture(EXAMPLE, word_salience(), 0.0).unsupported_words == ()
    assert picture.query == "Is tea better?"


def test_the_heading_says_what_is_the_query():
    def heading(identifier, history):
        example = dataclasses.replace(EXAMPLE, id=identifier, history=history)
        return salience_picture(example, word_salience()).heading

    # A response that was given by itself has no name of its own.
    assert heading("response", ("Is tea better?",)) == "query: Is tea better?"
    assert heading("r2", ("Is tea better?",)) == "r2, query: Is tea better?"
    assert heading("r2", ()) == "r2"
    assert heading("response", ()) == "response"


def test_pieces_are_the_texts():
    picture = salience_picture(EXAMPLE, word_salience())
    assert "".join(piece.text for piece in picture.response.pieces) == EXAMPLE.response
    for shown, text in zip(picture.arguments, EXAMPLE.grounding.texts, strict=True):
        assert "".join(piece.text for piece in shown.pieces) == text
    valued = {piece.text: piece.value for piece in picture.response.pieces if piece.value}
    assert valued == {"Tea": 0.8, "calms": 0.7, "saves": 0.06, "money": 0.3}
    assert [shown.title for shown in picture.arguments] == ["pro 1", "con 1"]


def test_scores_are_the_papers():
    picture = salience_picture(EXAMPLE, word_salience())
    attributions = math.prod([0.8, 0.7, 0.06, 0.3]) ** (1 / 4)
    assert picture.hallucination_score == pytest.approx(1 - attributions)
    # Con has the smaller mean: 0.2, 0.3 and 0.04.
    contributions = math.prod([0.2, 0.3, 0.04]) ** (1 / 3)
    assert picture.coverage_error_score == pytest.approx(1 - contributions)


def test_titles_without_sides():
    example = GroundedExample("1", Grounding(("A.", "B.")), (), "C.")
    assert argument_titles(example) == ["grounding 1", "grounding 2"]
