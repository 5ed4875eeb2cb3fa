import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.evaluation.agreement import krippendorff_alpha
from faith_jax.evaluation.annotation_agreement import (
    RatedUnit,
    _figures,
    _sums,
    agreement_figures,
    agreement_rows,
    binary_agreement,
    marked_words,
)

FEW = {"resamples": 50}


def units(*columns):
    """Responses with one item each, from each one's ratings."""
    return [RatedUnit([[bool(rating)] for rating in column]) for column in columns]


def test_two_annotators_by_hand():
    # Four responses: yes yes, no no, no no, yes no; a fifth has one annotator, who says yes.
    found = binary_agreement(units([1, 1], [0, 0], [0, 0], [1, 0], [1]), **FEW)
    assert (found.responses, found.items) == (4, 4)
    assert found.yes_share == 4 / 9
    assert found.agreement.value == 3 / 4
    # Disagreement 2 of 8 against 2 * 3 * 5 / (8 * 7) = 15/28 expected.
    assert found.alpha.value == pytest.approx(1 - (2 / 8) / (15 / 28))
    chance = (3 / 8) ** 2 + (5 / 8) ** 2
    assert found.kappa.value == pytest.approx((3 / 4 - chance) / (1 - chance))
    assert found.f1.value == pytest.approx(2 * 1 / (2 + 1))


def test_three_annotators_count_in_pairs():
    found = binary_agreement(units([1, 1, 0], [0, 0, 0]), **FEW)
    assert found.agreement.value == pytest.approx((1 / 3 + 1) / 2)
    # Pairs that say yes to the same, twice, over yes of either: 2 * 1 / (2 + 1 + 1).
    assert found.f1.value == pytest.approx(0.5)


def test_different_numbers_of_annotators_have_no_kappa():
    found = binary_agreement(units([1, 1, 0], [0, 0], [1, 1]), **FEW)
    assert math.isnan(found.kappa.value)
    assert math.isnan(found.kappa.interval.low)
    rows = [[True, False, True], [True, False, True], [False, None, None]]
    assert found.alpha.value == krippendorff_alpha(rows)


def test_what_is_undefined_is_nan():
    alike = binary_agreement(units([0, 0], [0, 0]), **FEW)
    assert (alike.agreement.value, alike.yes_share) == (1, 0)
    assert all(math.isnan(f.value) for f in (alike.alpha, alike.kappa, alike.f1))
    single = binary_agreement(units([1], [0]), **FEW)
    assert (single.responses, single.yes_share) == (0, 0.5)
    assert math.isnan(single.agreement.value)
    none = binary_agreement([], **FEW)
    assert math.isnan(none.yes_share)
    wordless = binary_agreement([RatedUnit(np.zeros((2, 0), bool))], **FEW)
    assert math.isnan(wordless.agreement.value)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.integers(2, 4).flatmap(
            lambda raters: st.lists(
                st.lists(st.booleans(), min_size=raters, max_size=raters), min_size=1, max_size=4
            )
        ),
        min_size=1,
        max_size=6,
    )
)
def test_summed_parts_give_what_the_definitions_give(responses):
    tables = [np.array(response).T for response in responses]
    found = binary_agreement([RatedUnit(table) for table in tables], **FEW)
    sums = np.sum([_sums(table) for table in tables], axis=0)
    same = len({len(table) for table in tables}) == 1
    for name, value in _figures(sums, same).items():
        assert getattr(found, name).value == pytest.approx(float(value), nan_ok=True)


def test_intervals_are_those_of_responses_drawn_whole():
    # Each response agrees in all of its words or in none: with all drawn, the share is k / 4.
    four = [RatedUnit([[True] * 3, [agree] * 3]) for agree in (True, True, False, False)]
    found = binary_agreement(four, resamples=4000, confidence=0.9)
    assert found.agreement.value == 0.5
    # k is binomial(4, 1/2): P(k = 0) = 1/16 is more than the tail of 1/20.
    assert found.agreement.interval == (0, 1)
    assert binary_agreement(four, 4000, 0.85).agreement.interval == (0.25, 0.75)
    assert binary_agreement(four, 200, 0.9, 1) == binary_agreement(four, 200, 0.9, 1)


def test_words_that_meet_a_span():
    text = "The tea cures most colds, some say."
    found = marked_words(text, [[(4, 13)], [(10, 15), (19, 20)], []])
    # tea, cures, colds, say: stop words are left out
    assert found.ratings.tolist() == [
        [True, True, False, False],
        [False, True, True, False],
        [False] * 4,
    ]
    beside = marked_words(text, [[(3, 4), (7, 8)]])  # the spaces around "tea"
    assert not np.any(beside.ratings)
    assert marked_words("", [[], []]).ratings.shape == (2, 0)


def test_the_table_and_the_figures():
    found = binary_agreement(units([1, 1], [0, 0], [0, 0], [1, 0]), **FEW)
    alike = binary_agreement(units([0, 0]), **FEW)
    table = agreement_rows({"repetition": alike, "coverage": found}, {"words": found}, 0.95)
    first, second, third = table.rows
    assert first[:4] == ("repetition", 1, "", "0.0")
    assert first[4:] == ("100.0 [100.0, 100.0]", "\u2013", "\u2013", "")
    assert second[3:5] == ("37.5", second[4])
    assert second[4].startswith("75.0 [")
    assert second[5].startswith("0.53 [")
    assert third[2] == 4
    assert third[7].startswith("0.67 [")
    figures = agreement_figures(alike)
    assert (figures["alpha"], figures["alpha_interval"]) == (None, [None, None])
    assert json.loads(json.dumps(figures))["agreement"] == 1
