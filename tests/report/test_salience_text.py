import dataclasses
import re

from faith_jax.report.salience_picture import salience_picture
from faith_jax.report.salience_text import printable, salience_text
from tests.report.salience_example import EXAMPLE, word_salience


def test_without_colours_marked_words_stand_in_brackets():
    text = salience_text(
        salience_picture(EXAMPLE, word_salience(cut={"knowledge": 2, "history": 1})), False
    )
    assert "response: Tea calms, and [saves] money." in text
    assert "con 1: It keeps people [awake]." in text
    assert "\x1b" not in text
    assert "unsupported words: saves" in text
    assert "words not covered: awake" in text
    assert "3 tokens (2 of knowledge, 1 of history) did not fit" in text


def test_colours_change_nothing_but_colours():
    text = salience_text(salience_picture(EXAMPLE, word_salience()), True)
    bare = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert "response: Tea calms, and saves money." in bare
    assert "\x1b[4;31msaves\x1b[0m" in text
    # A larger value has a darker ground.
    assert "\x1b[48;5;69" in text.partition("response")[2] or "\x1b[48;5;27" in text


def test_texts_cannot_steer_the_terminal():
    example = dataclasses.replace(EXAMPLE, history=("Is \x1b[2J tea\nbetter?",))
    text = salience_text(salience_picture(example, word_salience()), False)
    assert "query: Is  [2J tea better?" in text
    assert printable("a\x07\x9b\u2028b") == "a   b"
