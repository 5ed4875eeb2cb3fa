import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.datasets.control_tokens import (
    FAITHFUL_TOKENS,
    Terciles,
    control_tokens,
    lexical_precision,
    terciles,
)


def test_lexical_precision_counts_every_word_of_the_response():
    assert lexical_precision("Tea, tea and milk!", "TEA is hot") == 0.5
    assert lexical_precision("Hot", "tea is hot, hot") == 1.0
    assert lexical_precision("", "tea") == lexical_precision("!", "tea") == 0.0
    assert lexical_precision("tea", "") == 0.0


@given(st.lists(st.floats(0, 1), min_size=3, max_size=40))
def test_terciles_are_the_ends_of_three_equal_parts(values):
    low, medium, _ = np.array_split(np.sort(values), 3)
    assert terciles(values) == (low[-1], medium[-1])


@pytest.mark.parametrize(
    ("response", "nli", "expected"),
    [
        ("no word is known", "entailment", "<no-first-person> <low-prec> <entailed>"),
        ("tea is no root", "neutral", "<no-first-person> <med-prec> <non-entailed>"),
        ("my tea is hot", "contradiction", "<first-person> <high-prec> <non-entailed>"),
    ],
)
def test_tokens_of_a_response(response, nli, expected):
    # Of four words, one, two and three stand in the knowledge; a bound belongs to its lower part.
    found = control_tokens(response, "tea is hot", Terciles(0.25, 0.5), nli)
    assert " ".join(found) == expected


def test_tokens_that_ask_for_a_faithful_response():
    assert " ".join(FAITHFUL_TOKENS) == "<no-first-person> <high-prec> <entailed>"


def test_an_unknown_label():
    with pytest.raises(ValueError, match="entailed"):
        control_tokens("x", "y", Terciles(0, 1), "entailed")
