import numpy as np
import pytest
from scipy import stats

from faith_jax.evaluation.critic_transfer import accuracy, faithful_calls


def test_the_most_probable_class_is_the_call():
    probabilities = [[0.5, 0.3, 0.2], [0.3, 0.3, 0.4], [0.4, 0.4, 0.2]]
    assert faithful_calls(probabilities, 0).tolist() == [True, False, True]
    assert faithful_calls(probabilities, 1).tolist() == [False, False, False]
    assert faithful_calls(np.zeros((0, 2)), 1).tolist() == []


@pytest.mark.parametrize(("shape", "number"), [((3,), 0), ((3, 2), 2), ((3, 2), -1)])
def test_classes_that_there_are_not(shape, number):
    with pytest.raises(ValueError, match="with a class"):
        faithful_calls(np.zeros(shape), number)


def test_accuracy_and_its_interval():
    labels = np.arange(400) % 2
    calls = np.where(np.arange(400) < 300, labels, 1 - labels)
    found = accuracy(calls, labels, resamples=2000)
    assert (found.value, found.rows) == (0.75, 400)
    # The bootstrap of a share is a binomial's.
    for end, quantile in zip(found.interval, (0.025, 0.975), strict=True):
        assert end == pytest.approx(stats.binom(400, 0.75).ppf(quantile) / 400, abs=0.005)
    assert accuracy(calls, labels, resamples=2000) == found
    assert accuracy(labels, labels).interval == (1.0, 1.0)


@pytest.mark.parametrize(("calls", "labels"), [([], []), ([1], [1, 0]), ([[1]], [[1]])])
def test_bad_rows(calls, labels):
    with pytest.raises(ValueError, match="as many calls as labels"):
        accuracy(calls, labels)
