import jax
import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.models.dropout import Place, draw_dropout, drop

PLACES = {
    "weights": Place(0.25, (2, 1, 50), ("heads", None, None)),
    "never": Place(0.0, (1, 8), (None, "embed")),
    "features": Place(0.5, (1, 100), (None, "embed")),
}


def test_masks_have_their_places_shapes_and_rates():
    draws = draw_dropout(jax.random.key(0), 400, PLACES, broadcast=True)
    assert {name: mask.shape for name, mask in draws.items()} == {
        "weights": (400, 2, 1, 50),
        "features": (400, 1, 100),
    }
    for name, mask in draws.items():
        rate = PLACES[name].rate
        # Binomial: within 4 standard deviations.
        assert abs(1 - mask.mean() - rate) < 4 * np.sqrt(rate * (1 - rate) / mask.size)
    # Rows and places are independent: the correlation of n pairs has a deviation of n ** -0.5.
    weights, features = draws["weights"].reshape(400, 100), draws["features"].reshape(400, 100)
    pairs = (weights[:200], weights[200:]), (features[:200], features[200:]), (weights, features)
    for first, second in pairs:
        correlation = np.corrcoef(first.ravel(), second.ravel())[0, 1]
        assert abs(correlation) < 4 * first.size**-0.5


@pytest.mark.parametrize("broadcast", [True, False])
def test_a_layer_without_dropout_beside_a_head_with_it_draws_nothing(broadcast):
    places = {"never": PLACES["never"]}
    assert draw_dropout(jax.random.key(0), 4, places, broadcast) == {}


@pytest.mark.parametrize("broadcast", [True, False])
def test_dropped_values_are_0_and_the_rest_preserves_the_mean(broadcast):
    draws = draw_dropout(jax.random.key(1), 40, PLACES, broadcast)
    assert "never" not in draws
    values = jnp.full((40, 30, 100), 3.0)
    output = np.asarray(drop(values, 0.5, draws["features"]))
    np.testing.assert_array_equal(np.unique(output), [0.0, 6.0])
    count = output.size / (30 if broadcast else 1)
    assert abs(output.mean() - 3.0) < 4 * 3.0 / np.sqrt(count)
    same_for_positions = (output == output[:, :1]).all()
    assert same_for_positions == broadcast
    assert drop(values, 0.5, None) is values


def test_a_mask_does_not_depend_on_the_other_rows_of_a_mapped_batch():
    keys = jax.random.split(jax.random.key(2), 3)
    mapped = jax.vmap(lambda key: draw_dropout(key, 1, PLACES, True)["weights"])(keys)
    alone = draw_dropout(keys[1], 1, PLACES, True)["weights"]
    np.testing.assert_array_equal(mapped[1], alone)
