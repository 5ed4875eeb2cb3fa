"""Models and texts scored by reference implementations: see tools/make_scorer_fixtures.py."""

import json

import numpy as np

from tests.paths import REPOSITORY
from tests.scoring import tiny_models

DOCUMENTS = (
    "Tea is a leaf. It grows in the hills.",
    "The lake freezes in winter, and the children skate on it.",
    "The committee's report recommends smaller classes. It has 42 pages.",
)
RESPONSES = (
    "A leaf grows. Does it?",
    "The lake doesn't freeze!",
    "It says nothing of the kind, Dr. Lee.",
)
# The sentences of documents and responses, split by hand.
SENTENCES = (
    (("Tea is a leaf.", "It grows in the hills."), ("A leaf grows.", "Does it?")),
    ((DOCUMENTS[1],), (RESPONSES[1],)),
    (("The committee's report recommends smaller classes.", "It has 42 pages."), (RESPONSES[2],)),
)
LAYER = 2
NLI_LABELS = ("CONTRADICTION", "neutral", "Entailment")


def stored_scores():
    """Returns the scores of the reference implementations."""
    return json.loads((REPOSITORY / "tests" / "testdata" / "scorers.json").read_text())


def padded(ids, pad_id=0, step=64):
    """Returns one row, padded so that rows of different lengths share a program."""
    row = np.full((1, -(-len(ids) // step) * step), pad_id)
    row[0, : len(ids)] = ids
    return row


def write_models(folder):
    """Writes the models; returns their folders: "nli", "critic" and "encoder"."""
    critic = ("Hallucination", "Entailment")
    two, three = ({"num_encoder_layers": count} for count in (2, 3))
    return {
        "nli": tiny_models.write_model(
            folder / "nli", "deberta_nli", label_names=NLI_LABELS, **two
        ),
        "critic": tiny_models.write_model(
            folder / "critic", "roberta", 1, label_names=critic, **two
        ),
        "encoder": tiny_models.write_model(folder / "encoder", "roberta", 2, **three),
    }
