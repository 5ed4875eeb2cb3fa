import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats import inter_rater

from faith_jax.annotation.agreement import agreement_table, binary_agreement, marked_words
from faith_jax.annotation.marks import ARGUMENTS, SPANS, Annotations, Marks
from faith_jax.annotation.sheets import ERRORS
from faith_jax.core.types import GroundedExample, Grounding

FEW = {"resamples": 50}


def units(*columns):
    """Responses with one item each, from each one's ratings."""
    return [[[bool(rating)] for rating in column] for column in columns]


def test_two_annotators_by_hand():
    # Four responses: yes yes, no no, no no, yes no; a fifth has one annotator, who says yes.
    agreement = binary_agreement(units([1, 1], [0, 0], [0, 0], [1, 0], [1]), **FEW)
    assert (agreement.responses, agreement.items) == (4, 4)
    assert agreement.yes_share == 4 / 9
    assert agreement.agreement == 3 / 4
    # Disagreement 2 of 8 against 2 * 3 * 5 / (8 * 7) = 15/28 expected.
    assert agreement.alpha == pytest.approx(1 - (2 / 8) / (15 / 28))
    chance = (3 / 8) ** 2 + (5 / 8) ** 2
    assert agreement.kappa == pytest.approx((3 / 4 - chance) / (1 - chance))
    assert agreement.f1 == pytest.approx(2 * 1 / (2 + 1))


def test_three_annotators_count_in_pairs():
    agreement = binary_agreement(units([1, 1, 0], [0, 0, 0]), **FEW)
    assert agreement.agreement == pytest.approx((1 / 3 + 1) / 2)
    # Pairs that say yes to the same, twice, over yes of either: 2 * 1 / (2 + 1 + 1).
    assert agreement.f1 == pytest.approx(0.5)


def test_different_numbers_of_annotators_have_no_kappa():
    agreement = binary_agreement(units([1, 1, 0], [0, 0], [1, 1]), **FEW)
    assert agreement.kappa is None
    assert agreement.kappa_interval == (None, None)
    assert agreement.alpha == pytest.approx(alpha_by_pairs([[1, 1, 0], [0, 0], [1, 1]]))


def test_what_is_undefined_is_nan():
    unanimous = binary_agreement(units([0, 0], [0, 0]), **FEW)
    assert (unanimous.agreement, unanimous.yes_share) == (1, 0)
    assert (unanimous.alpha, unanimous.kappa, unanimous.f1) == (None, None, None)
    single = binary_agreement(units([1], [0]), **FEW)
    assert (single.responses, single.yes_share) == (0, 0.5)
    assert single.agreement is None
    none = binary_agreement([], **FEW)
    assert none.yes_share is None
    wordless = binary_agreement([np.zeros((2, 0), bool)], **FEW)
    assert wordless.agreement is None


def test_the_published_example_of_alpha():
    # Krippendorff 2011, section A: two observers, ten units.
    meg, owen = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    assert binary_agreement([[meg, owen]], **FEW).alpha == pytest.approx(0.095, abs=5e-4)


def alpha_by_pairs(items):
    """1 - observed / expected disagreement, by counting pairs of ratings."""
    values = [value for item in items for value in item]
    observed = sum(
        sum(a != b for i, a in enumerate(item) for j, b in enumerate(item) if i != j)
        / (len(item) - 1)
        for item in items
    )
    expected = sum(a != b for i, a in enumerate(values) for j, b in enumerate(values) if i != j)
    return 1 - observed * (len(values) - 1) / expected if expected else None


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
def test_alpha_is_what_its_definition_gives(responses):
    agreement = binary_agreement([np.array(response).T for response in responses], resamples=1)
    expected = alpha_by_pairs([item for response in responses for item in response])
    assert agreement.alpha == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 1000))
def test_kappa_is_statsmodels(seed):
    ratings = np.random.default_rng(seed).random((5, 12)) < 0.4
    yes = ratings.sum(axis=0)
    expected = inter_rater.fleiss_kappa(np.stack([yes, 5 - yes], axis=1))
    agreement = binary_agreement([ratings[:, :4], ratings[:, 4:]], resamples=1)
    assert agreement.kappa == pytest.approx(expected, abs=1e-9)


def test_intervals_are_those_of_responses_drawn_whole():
    # Each response agrees in all of its words or in none: with all drawn, the share is k / 4.
    four = [[[True] * 3, [agree] * 3] for agree in (True, True, False, False)]
    agreement = binary_agreement(four, resamples=4000, confidence=0.9)
    assert agreement.agreement == 0.5
    # k is binomial(4, 1/2): P(k = 0) = 1/16 is more than the tail of 1/20.
    assert agreement.agreement_interval == (0, 1)
    assert binary_agreement(four, 4000, 0.85).agreement_interval == (0.25, 0.75)
    assert binary_agreement(four, 200, 0.9, 1) == binary_agreement(four, 200, 0.9, 1)


def test_words_that_meet_a_span():
    text = "The tea cures most colds, some say."
    marked = marked_words(text, [[(4, 13)], [(10, 15), (19, 20)], []])
    # tea, cures, colds, say: stop words are left out
    assert marked.tolist() == [[True, True, False, False], [False, True, True, False], [False] * 4]
    beside = marked_words(text, [[(3, 4), (7, 8)]])  # the spaces around "tea"
    assert not np.any(beside)
    assert marked_words("", [[], []]).shape == (2, 0)


def test_the_table_and_the_figures():
    def marks(response, annotator, *errors):
        answers = {error: error in errors for error in ERRORS}
        named = dict.fromkeys((*SPANS, *ARGUMENTS), ())
        if "coverage" in errors:
            named["coverage"] = ("pro 1",)
        return Marks(response, annotator, f"s.csv:{response}", answers, named)

    grounding = Grounding(("Calm.", "Weak."), ("pro", "con"))
    examples = {n: GroundedExample(n, grounding, (), "Tea calms.") for n in "abcd"}
    faults = {"a": ("coverage",), "d": ("coverage",)}
    ada = [marks(name, "ada", *faults.get(name, ())) for name in "abcd"]
    ben = [marks(name, "ben", *(faults.get(name, ()) if name == "a" else ())) for name in "abcd"]
    table, figures = agreement_table(Annotations(examples, (*ada, *ben)), **FEW)
    rows = {row[0]: row for row in table.rows}
    first, second, third = (rows[n] for n in ("repetition", "coverage", "missing arguments"))
    assert first[:4] == ("repetition", 4, "", "0.0")
    assert first[4:] == ("100.0", "\u2013", "\u2013", "")
    assert second[3] == "37.5"
    assert second[4].startswith("75.0 [")
    assert second[5].startswith("0.53 [")
    assert third[2] == 8
    assert third[7].startswith("0.67 [")
    assert rows["unsupported words"][1:3] == (4, 8)
    assert [rows[name][3] for name in ("any full error", "any error")] == ["37.5", "37.5"]
    figure = figures["marks"]["repetition"]
    assert (figure["alpha"], figure["alpha_interval"]) == (None, (None, None))
    assert json.loads(json.dumps(figures))["marks"]["repetition"]["agreement"] == 1
    assert table.notes[0] == "2 annotators: 4 responses marked by 2."
