import math

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from faith_jax.evaluation.correlation import correlation, partial_correlation


@given(st.integers(0, 1000), st.sampled_from(["pearson", "spearman", "kendall"]))
def test_coefficients_are_scipys(seed, method):
    generator = np.random.default_rng(seed)
    x = np.round(generator.normal(size=20), 1)
    y = np.round(x + generator.normal(size=20), 1)
    reference = {
        "pearson": stats.pearsonr,
        "spearman": stats.spearmanr,
        "kendall": stats.kendalltau,
    }[method](x, y)
    assert correlation(x, y, method) == pytest.approx((reference.statistic, reference.pvalue))


@settings(deadline=None)
@given(st.integers(0, 1000), st.sampled_from(["pearson", "spearman"]))
def test_partial_correlation_is_a_regressions(seed, method):
    """The t-test of x in a regression of y on x and the systems is that of the partial r."""
    generator = np.random.default_rng(seed)
    systems = np.append([0, 1, 2], generator.integers(0, 3, 27))
    x = generator.normal(size=30) + systems
    y = 0.3 * x + generator.normal(size=30) - 2 * systems
    found = partial_correlation(x, y, systems.tolist(), method)
    if method == "spearman":
        x, y = stats.rankdata(x), stats.rankdata(y)
    columns = np.column_stack([x, *((systems == s).astype(float) for s in range(3))])
    fitted = sm.OLS(y, columns).fit()
    statistic = fitted.tvalues[0]
    expected = statistic / math.sqrt(statistic**2 + fitted.df_resid)
    assert found == pytest.approx((expected, fitted.pvalues[0]), abs=1e-9)


def test_systems_that_differ_make_scores_agree():
    systems = ["a"] * 4 + ["b"] * 4
    x = [1, 2, 3, 4, 11, 12, 13, 14]
    y = [4, 3, 2, 1, 14, 13, 12, 11]
    assert correlation(x, y).coefficient > 0.9
    assert partial_correlation(x, y, systems) == pytest.approx((-1, 0))


@pytest.mark.parametrize("method", ["pearson", "spearman", "kendall"])
def test_constants_have_no_correlation(method):
    assert all(map(math.isnan, correlation([1, 1, 1], [1, 2, 3], method)))
    assert all(map(math.isnan, correlation([1], [1], method)))
    assert all(map(math.isnan, partial_correlation([1, 1, 2, 2], [1, 2, 3, 4], list("aabb"))))


def test_bad_input():
    with pytest.raises(ValueError, match="no method 'tau': choose of pearson, spearman, kendall"):
        correlation([1, 2], [2, 1], "tau")
    with pytest.raises(ValueError, match="no partial 'kendall'"):
        partial_correlation([1, 2], [2, 1], ["a", "a"], "kendall")
    with pytest.raises(ValueError, match="Scores must be finite"):
        correlation([1, math.nan], [2, 1])
    with pytest.raises(ValueError, match="1 systems of 2 rows"):
        partial_correlation([1, 2], [2, 1], ["a"])
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(1,\)"):
        correlation([1, 2], [2])
