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
