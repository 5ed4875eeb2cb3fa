import collections

from faith_jax.datasets.augmentation.draws import draw, draw_order


def test_draws_are_even():
    counts = collections.Counter(draw(5, 1, "x", i) for i in range(10_000))
    # 2,000 of each; five standard deviations are 200.
    assert all(abs(count - 2000) < 200 for count in counts.values())


def test_names_are_kept_apart():
    assert [draw(10**9, 0, "a", "bc")] != [draw(10**9, 0, "ab", "c")]
    assert draw(10**9, 1, "a") != draw(10**9, 2, "a")


def test_shuffled_is_a_permutation():
    assert sorted(draw_order(50, 3, "x")) == list(range(50))
    assert draw_order(50, 3, "x") != draw_order(50, 4, "x")
    assert draw_order(0, 3) == []
