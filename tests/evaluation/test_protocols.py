import math

import numpy as np
import pytest
from scipy import stats

from faith_jax.errors import InputError
from faith_jax.evaluation.protocols import pronoun_table, threshold_table
from faith_jax.evaluation.scored_corpora import Corpus


def corpus(scores, labels, sources=(), responses=()):
    ids = tuple(map(str, range(len(labels))))
    fields = tuple({"source": source} for source in sources)
    labels = np.array(labels, float)
    return Corpus("begin", ids, labels, {"s": np.array(scores, float)}, tuple(responses), fields)


def test_the_threshold_is_chosen_on_development_and_applied_to_test():
    development = corpus([0.9, 0.6, 0.5, 0.4, 0.1, math.nan], [1, 1, 0, 1, 0, 1])
    # At 0.4 F1 is 6/7, the best; at 0.6 it would be 4/5.
    test = corpus(
        [0.4, 0.39, 0.8, 0.2, math.nan, 0.7],
        [1, 1, 0, 0, 1, math.nan],
        ["wow", "wow", "tc", "tc", "wow", "tc"],
    )
    table = threshold_table(development, test)
    assert table.columns == ("scorer", "threshold", "P", "R", "F1", "Acc", "F1 tc", "F1 wow")
    (row,) = table.rows
    # Of rows 1, 2, 3, 4, 5 the first and third reach 0.4; the undefined one does not.
    assert row[:2] == ("s", 0.4)
    assert row[2:6] == pytest.approx((50, 100 / 3, 40, 40))
    assert row[6:] == pytest.approx((0, 50))


def test_one_class_of_development_has_no_threshold():
    table = threshold_table(corpus([0.1], [1]), corpus([0.1, 0.2], [0, 1]), group_field="")
    assert all(map(math.isnan, table.rows[0][1:]))


def test_parts_with_other_scorers_or_without_groups():
    test = corpus([0.1, 0.2], [0, 1], ["a", "b"])
    other = Corpus("d", ("1",), np.ones(1), {"t": np.ones(1)})
    with pytest.raises(ValueError, match="development part has scores of t, the test part of s"):
        threshold_table(other, test)
    bare = Corpus("d", ("1",), np.ones(1), {"s": np.ones(1)}, ("r",), ({},))
    with pytest.raises(InputError, match="has no field 'source'"):
        threshold_table(test, bare)


def test_correlations_with_the_pronoun_i():
    responses = ["I think I know.", "It is.", "I'm here.", "My tea, i.e. mine.", "I."]
    scores, labels = [0.1, 0.9, 0.4, 0.8, math.nan], [0, 1, math.nan, 1, 0]
    table = pronoun_table({"begin": corpus(scores, labels, responses=responses)})
    assert table.columns == ("", "begin")
    assert (table.title.count('the count of "I"'), table.notes) == (1, ())
    counts = [2, 0, 1, 0, 1]
    found = dict(table.rows)
    assert found["s"] == pytest.approx(stats.kendalltau(scores[:4], counts[:4]).statistic)
    known = [0, 1, 3, 4]
    expected = stats.kendalltau([labels[i] for i in known], [counts[i] for i in known])
    assert found["label"] == pytest.approx(expected.statistic)


def test_nothing_to_correlate():
    table = pronoun_table({"begin": corpus([0.1, 0.2], [1, 0], responses=["I.", "I."])})
    (note,) = table.notes
    assert note.endswith("no correlation, where all values or all counts are equal.")
    assert all(math.isnan(row[1]) for row in table.rows)
