import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.statistics.texts import argument_coverage as told_arguments
from faith_jax.statistics.texts.argument_coverage import tell_arguments

ARGUMENTS = (
    "Night trains replace flights. A berth costs less than a hotel.",
    "Rails lie empty after midnight.",
    "Each berth is sold once a night.",
    "Freight needs those midnight paths.",
)
LINKS = ("Supporters say that", "They add that", "Opponents argue:", "They also note that")


def test_the_example():
    assert doctest.testmod(told_arguments).failed == 0


def linked(arguments):
    return " ".join(f"{link} {text}" for link, text in zip(LINKS, arguments, strict=False))


def test_all_told_in_other_clothes():
    coverage = tell_arguments("Views differ. " + linked(ARGUMENTS), ARGUMENTS)
    assert coverage.arguments == (1, 1, 1, 1)
    assert math.isnan(coverage.sentences[0])
    assert coverage.sentences[1:] == (1,) * 5
    assert (coverage.recall(1), coverage.precision(1)) == (1, 1)


@pytest.mark.parametrize("left_out", range(4))
def test_a_missing_argument_is_found_among_others_of_the_same_words(left_out):
    kept = [text for place, text in enumerate(ARGUMENTS) if place != left_out]
    coverage = tell_arguments(linked(kept), ARGUMENTS)
    assert [share >= 0.6 for share in coverage.arguments] == [i != left_out for i in range(4)]
    assert (coverage.recall(0.6), coverage.precision(0.6)) == (0.75, 1)


def test_what_is_told_twice_or_never_given_lowers_precision():
    twice = tell_arguments(linked([*ARGUMENTS[2:], ARGUMENTS[3]]), ARGUMENTS)
    # "midnight" is left of the second argument.
    assert twice.sentences == (1, 1, pytest.approx(1 / 4))
    assert twice.precision(0.6) == pytest.approx(2 / 3)
    invented = tell_arguments("Rails lie empty after midnight. Trams rarely rust.", ARGUMENTS)
    assert invented.sentences == (1, 0)


def test_words_of_the_query_tell_nothing_alone():
    query = "Should night trains be subsidised?"
    coverage = tell_arguments(
        "Views on night trains differ. Night trains replace flights.", [], query
    )
    assert math.isnan(coverage.sentences[0])
    assert coverage.sentences[1] == 0.5
    assert math.isnan(coverage.recall(0.5))
    assert coverage.precision(0.5) == 1
    assert math.isnan(tell_arguments("Views differ.", ARGUMENTS).precision(0.5))


def test_the_spans_are_the_sentences():
    response = "  Views differ.  Rails lie empty!"
    coverage = tell_arguments(response, ARGUMENTS)
    assert [response[a:b] for a, b in coverage.spans] == ["Views differ.", "Rails lie empty!"]


@given(st.permutations(range(4)), st.integers(1, 4))
def test_order_does_not_count(order, count):
    arguments = [ARGUMENTS[place] for place in order[:count]]
    coverage = tell_arguments(linked(arguments), ARGUMENTS)
    assert (coverage.recall(0.6), coverage.precision(0.6)) == (count / 4, 1)
