import csv

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.datasets.augmentation.control_tokens import (
    FAITHFUL_TOKENS,
    Terciles,
    control_tokens,
    lexical_precision,
    terciles,
)
from tests.paths import REAL, needs_shared


def test_lexical_precision_counts_every_token_of_the_response():
    # "TEA" is another token than "tea", and punctuation counts; of five tokens two are known.
    assert lexical_precision("Tea, tea and", "TEA, tea is hot") == 0.5
    assert lexical_precision("tea!", "tea is hot") == 0.5
    assert lexical_precision("hot", "tea is hot, hot") == 1.0
    # "I'm" is two tokens, "don't" also.
    assert lexical_precision("I'm", "I don't") == 0.5
    assert lexical_precision("", "tea") == lexical_precision("!", "tea") == 0.0
    assert lexical_precision("tea", "") == 0.0


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40))
def test_terciles_are_the_ends_of_three_equal_parts(values):
    low, medium, _ = np.array_split(np.sort(values), 3)
    assert terciles(values) == (low[-1], medium[-1])


def test_terciles_of_a_single_response():
    assert terciles([0.5])[0] == 0.5
    assert terciles([]) == (0, 0)


@pytest.mark.parametrize(
    ("response", "precision", "nli", "expected"),
    [
        ("no word", 0.25, "entailment", "<no-first-person> <low-prec> <entailed>"),
        ("tea, i.e. a leaf", 0.5, "neutral", "<no-first-person> <med-prec> <non-entailed>"),
        ("It's MINE", 0.75, "contradiction", "<first-person> <high-prec> <non-entailed>"),
        ("I'd say so", 0.26, "neutral", "<first-person> <med-prec> <non-entailed>"),
    ],
)
def test_tokens_of_a_response(response, precision, nli, expected):
    # A bound belongs to its lower part.
    tokens = control_tokens(response, precision, Terciles(0.25, 0.5), nli)
    assert " ".join(tokens) == expected


def test_tokens_that_ask_for_a_faithful_response():
    assert " ".join(FAITHFUL_TOKENS) == "<no-first-person> <high-prec> <entailed>"


def test_an_unknown_label():
    with pytest.raises(ValueError, match="entailed"):
        control_tokens("x", 0.5, Terciles(0, 1), "entailed")


@needs_shared
@pytest.mark.parametrize(
    ("file", "knowledge", "response"),
    [("gold_wow", "evidence", "response"), ("gpt2_wow", "knowledge", "gpt2")],
)
def test_real_responses_have_the_authors_attributes(file, knowledge, response):
    """Against a restatement of the authors' rules on 200 rows of each file."""
    with open(REAL / "faithdial_audit" / f"{file}.csv", encoding="utf-8", newline="") as lines:
        rows = [(row[knowledge], row[response]) for row in csv.DictReader(lines)]
    assert len(rows) == 200
    tokenize = spacy.blank("en")
    overlaps, voices = [], []
    for evidence, text in rows:
        words, tokens = ([token.text for token in tokenize(part)] for part in (evidence, text))
        overlaps.append(len([token for token in tokens if token in words]) / len(tokens))
        first_person = {"i", "me", "my", "mine", "myself"} & {token.lower() for token in tokens}
        voices.append("<first-person>" if first_person else "<no-first-person>")
    low, medium, _ = np.array_split(np.argsort(overlaps), 3)
    bounds = overlaps[low[-1]], overlaps[medium[-1]]
    thirds = ("<low-prec>", "<med-prec>", "<high-prec>")
    expected = [
        (v, thirds[np.searchsorted(bounds, o)]) for v, o in zip(voices, overlaps, strict=True)
    ]
    precisions = [lexical_precision(text, evidence) for evidence, text in rows]
    tokens = [
        control_tokens(text, precision, terciles(precisions), "neutral")[:2]
        for (_, text), precision in zip(rows, precisions, strict=True)
    ]
    assert tokens == expected
