import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.papers.dialfact.mutated_claims import fluent, hardest, select_varied_claims


def test_claims_that_differ_in_fewer_words_than_three_are_dropped():
    claims = [
        "the kite flies over the old town",
        "The kite flies over the new house!",  # two words differ
        "the kite flies over a blue hill",  # three words differ from the first
        "over the old town the kite flies",  # none
        "kite",  # shorter: the first has six words that this one lacks
    ]
    assert select_varied_claims(claims) == [0, 2, 4]
    assert select_varied_claims([]) == []


@given(st.lists(st.text("ab c", max_size=8), max_size=6))
def test_no_two_kept_claims_are_alike_and_the_first_is_kept(claims):
    kept = select_varied_claims(claims)
    assert kept == sorted(kept)
    assert kept[:1] == [0][: len(claims)]
    assert select_varied_claims([claims[i] for i in kept]) == list(range(len(kept)))


def test_perplexities_up_to_the_bound_are_kept():
    assert fluent([10, 10, 10]) == [0, 1, 2]
    assert fluent([9, 11, 10]) == [0, 1, 2]  # 1.1 times the average of 10 is 11
    assert fluent([9, 12, 9]) == [0, 2]
    assert fluent([]) == []


def test_the_hardest_claims_have_the_largest_sums_of_entropies():
    sure, unsure, certain = [0.9, 0.1], [0.5, 0.5], [1.0, 0.0]
    rows = np.array([[sure, sure], [unsure, certain], [unsure, sure], [certain, certain]])

    def entropy(p):
        return -sum(x * math.log(x) for x in p if x)

    sums = [sum(map(entropy, claim)) for claim in rows.tolist()]
    assert hardest(rows) == sorted(range(4), key=lambda i: -sums[i]) == [2, 1, 0, 3]
    assert hardest(rows, most=2) == [2, 1]
    assert hardest(np.array([[unsure], [unsure]]), most=1) == [0]
