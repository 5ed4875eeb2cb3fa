import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.evaluation.extractiveness import extractive_fragments, extractiveness

WORDS = st.lists(st.sampled_from("abcd"), max_size=12)


def published(response, knowledge):
    """Grusky 2018, figure 3, step by step."""
    fragments, i = [], 0
    while i < len(response):
        best, j = 0, 0
        while j < len(knowledge):
            if response[i] == knowledge[j]:
                k = 0
                while (
                    i + k < len(response)
                    and j + k < len(knowledge)
                    and response[i + k] == knowledge[j + k]
                ):
                    k += 1
                best, j = max(best, k), j + k
            else:
                j += 1
        if best:
            fragments.append((i, best))
        i += max(best, 1)
    return fragments


@given(WORDS, WORDS)
def test_fragments_are_those_of_the_published_procedure(response, knowledge):
    assert extractive_fragments(response, knowledge) == published(response, knowledge)


@given(WORDS, WORDS)
def test_fragments_are_copied_spans_that_do_not_overlap(response, knowledge):
    joined, end = "".join(knowledge), 0
    for start, length in extractive_fragments(response, knowledge):
        assert start >= end
        assert "".join(response[start : start + length]) in joined
        end = start + length
    covered = sum(length for _, length in extractive_fragments(response, knowledge))
    # A word is outside only where the knowledge does not have it at all.
    assert covered == sum(word in knowledge for word in response)


@pytest.mark.parametrize(
    ("response", "knowledge", "coverage", "density"),
    [
        ("a b c", "a b c", 1, 3),
        ("a b c", "c b a", 1, 1),
        ("a b x", "a b c", 2 / 3, 4 / 3),
        ("x y", "a b c", 0, 0),
        ("A, b!", "a - B", 1, 2),
        ("a b a b", "a b", 1, 2),
        ("a", "", 0, 0),
    ],
)
def test_closed_forms(response, knowledge, coverage, density):
    found = extractiveness(response, knowledge)
    assert found == pytest.approx((coverage, density))


def test_a_response_without_words_is_undefined():
    assert all(math.isnan(value) for value in extractiveness("?!", "a b"))
