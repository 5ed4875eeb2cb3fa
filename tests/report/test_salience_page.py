import dataclasses
import re

import numpy as np

from faith_jax.core.types import Grounding
from faith_jax.report.salience_page import salience_page
from faith_jax.report.salience_picture import salience_picture
from tests.report.salience_example import EXAMPLE, VALUES, word_salience

EVIL = "<script>alert(1)</script>"


def test_cells_are_the_map():
    page = salience_page("Title", [salience_picture(EXAMPLE, word_salience())])
    body = page.partition("<tbody>")[2]
    cells = re.findall(r"--share: ([0-9.]+)", body)
    found = np.array(cells, float).reshape(5, 5)
    np.testing.assert_allclose(found[:, 1:], VALUES, atol=5e-4)
    np.testing.assert_allclose(found[:, 0], VALUES.max(1), atol=5e-4)
    top = re.findall(r"--share: ([0-9.]+)", page.partition("attribution</th>")[2])[1:5]
    np.testing.assert_allclose(np.array(top, float), VALUES.max(0), atol=5e-4)
    assert '<span class="marked">awake</span>' in body
    assert "Unsupported words: saves." in page


def test_texts_cannot_leave_their_place():
    grounding = Grounding((f"Tea {EVIL} calms.", "It keeps people awake."), (EVIL, "con"))
    example = dataclasses.replace(EXAMPLE, id=EVIL, grounding=grounding, history=(EVIL,))
    salience = word_salience(example, np.full((9, 4), 0.5))
    page = salience_page(EVIL, [salience_picture(example, salience)])
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 5


def test_no_words_no_map():
    empty = dataclasses.replace(EXAMPLE, response="It is.")
    salience = word_salience(empty, np.zeros((5, 0)))
    page = salience_page("Title", [salience_picture(empty, salience)])
    assert "No content words, no map." in page
    assert "Hallucination score undefined" in page
