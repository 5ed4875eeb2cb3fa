import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats import inter_rater

from faith_jax.evaluation.agreement import fleiss_kappa, krippendorff_alpha

# Krippendorff 2011, section C and D: four observers, twelve units, some of them unseen.
_ = None
PUBLISHED = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
    [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
]


def test_the_published_example():
    assert krippendorff_alpha(PUBLISHED) == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(PUBLISHED, "ordinal") == pytest.approx(0.815, abs=5e-4)


def alpha_by_pairs(ratings):
    """One less observed over expected disagreement, by counting pairs of ratings."""
    units = [[v for v in unit if v is not None] for unit in zip(*ratings, strict=True)]
    units = [unit for unit in units if len(unit) > 1]
    values = [v for unit in units for v in unit]
    observed = sum(
        sum(a != b for i, a in enumerate(unit) for j, b in enumerate(unit) if i != j)
        / (len(unit) - 1)
        for unit in units
    )
    expected = sum(a != b for i, a in enumerate(values) for j, b in enumerate(values) if i != j)
    return 1 - observed * (len(values) - 1) / expected if expected else math.nan


RATING = st.sampled_from(["a", "b", "c", None])


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(st.lists(RATING, min_size=n, max_size=n), min_size=2, max_size=4)
    )
)
def test_alpha_against_its_definition(ratings):
    np.testing.assert_allclose(krippendorff_alpha(ratings), alpha_by_pairs(ratings), atol=1e-12)


def test_alphas_that_are_known():
    assert krippendorff_alpha([[1, 2, 1], [1, 2, 1]]) == 1
    assert krippendorff_alpha([[1, 2], [2, 1]]) == pytest.approx(-0.5)
    assert math.isnan(krippendorff_alpha([[1, 1], [1, 1]]))
    assert math.isnan(krippendorff_alpha([[1, None], [None, 2]]))
    # Of ordered values the near ones disagree less.
    near, far = [[1, 2, 3, 1], [1, 2, 3, 2]], [[1, 2, 3, 1], [1, 2, 3, 3]]
    assert krippendorff_alpha(near, "ordinal") > krippendorff_alpha(far, "ordinal")
    words = [["low", "high", "mid"], ["low", "high", "high"]]
    ordered = krippendorff_alpha(words, "ordinal", order=["low", "mid", "high"])
    assert ordered == pytest.approx(krippendorff_alpha([[1, 3, 2], [1, 3, 3]], "ordinal"))


@given(st.integers(0, 1000))
def test_kappa_is_statsmodels(seed):
    generator = np.random.default_rng(seed)
    table = generator.multinomial(5, [0.5, 0.3, 0.2], size=12)
    assert fleiss_kappa(table) == pytest.approx(inter_rater.fleiss_kappa(table), abs=1e-9)


def test_kappas_that_are_known():
    assert fleiss_kappa([[3, 0], [0, 3]]) == 1
    assert fleiss_kappa([[1, 1], [1, 1]]) == -1
    assert math.isnan(fleiss_kappa([[2, 0], [2, 0]]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: krippendorff_alpha([[1], [1, 2]]), "different numbers of units"),
        (lambda: krippendorff_alpha([[1]], "ratio"), "no level 'ratio': choose of nominal"),
        (lambda: krippendorff_alpha([[1], [3]], order=[1, 2]), "rating 3 is not in the order"),
        (lambda: fleiss_kappa([1, 2]), r"Expected \[units, categories\]"),
        (lambda: fleiss_kappa([[1, 1], [1, 2]]), "the same number of ratings"),
        (lambda: fleiss_kappa([[1, 0]]), "two at least"),
        (lambda: fleiss_kappa([[3, -1]]), "the same number of ratings"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
