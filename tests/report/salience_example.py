"""An example with a map made by hand, for the pictures' tests."""

import numpy as np

from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.statistics.texts.salience_scores import PlacedWord, WordSalience
from faith_jax.statistics.texts.text_metrics import content_words

EXAMPLE = GroundedExample(
    "tea-1",
    Grounding(("Tea calms.", "It keeps people awake."), ("pro", "con")),
    ("Is tea better?",),
    "Tea calms, and saves money.",
)
# Rows: Tea, calms, keeps, people, awake. Columns: Tea, calms, saves, money.
VALUES = np.array(
    [
        [0.8, 0.1, 0.02, 0.0],
        [0.1, 0.7, 0.01, 0.0],
        [0.0, 0.0, 0.06, 0.2],
        [0.0, 0.0, 0.05, 0.3],
        [0.0, 0.0, 0.04, 0.0],
    ]
)


def word_salience(example=EXAMPLE, values=VALUES, cut=None):
    rows = [
        PlacedWord(w.text, w.start, w.end, number, side)
        for number, (text, side) in enumerate(
            zip(example.grounding.texts, example.grounding.perspectives, strict=True)
        )
        for w in content_words(text)
    ]
    columns = [PlacedWord(w.text, w.start, w.end) for w in content_words(example.response)]
    return WordSalience(tuple(rows), tuple(columns), values, cut or {})
