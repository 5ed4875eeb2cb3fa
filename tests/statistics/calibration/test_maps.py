import msgspec
import numpy as np
import pytest

from faith_jax.statistics.calibration.maps import (
    Map,
    choose_map,
    fit_beta,
    fit_isotonic,
    fit_platt,
    log_loss,
)


def sigmoid(logits):
    return 1 / (1 + np.exp(-logits))


def draw(rows, truth, seed=0):
    """Returns scores in (0, 1) and labels that have the true probabilities."""
    rng = np.random.default_rng(seed)
    scores = rng.random(rows)
    return scores, (rng.random(rows) < truth(scores)).astype(float)


# A true map of each form.
PLATT = ("platt", lambda s: sigmoid(6 * s - 2))
BETA = ("beta", lambda s: sigmoid(1.5 * np.log(s) - 0.2 * np.log1p(-s) + 1))
STEPS = ("isotonic", lambda s: np.where(s < 0.3, 0.1, np.where(s < 0.6, 0.5, 0.95)))


@pytest.mark.parametrize(("name", "truth"), [PLATT, BETA, STEPS])
def test_the_map_of_the_true_form_is_chosen_and_close(name, truth):
    scores, labels = draw(8_000, truth)
    fitted, losses = choose_map(scores, labels, np.arange(scores.size), 0.0, 1.0)
    assert next(iter(losses)) == name
    assert type(fitted).__name__.lower() == name
    assert losses[name] < losses["constant"]
    grid = np.linspace(0.02, 0.98, 50)
    # Steps are wrong near their edges only.
    assert np.median(np.abs(fitted.probabilities(grid) - truth(grid))) < 0.02


def test_coefficients_are_those_of_the_truth():
    scores, labels = draw(50_000, PLATT[1])
    fitted = fit_platt(scores, labels)
    assert (fitted.slope, fitted.intercept) == pytest.approx((6, -2), abs=0.15)
    scores, labels = draw(50_000, BETA[1])
    # The range of the score does not matter: 3 to 8 in place of 0 to 1.
    fitted = fit_beta(3 + 5 * scores, labels, 3.0, 8.0)
    assert (fitted.a, fitted.b, fitted.intercept) == pytest.approx((1.5, 0.2, 1), abs=0.1)


@pytest.mark.parametrize("fit", [fit_platt, lambda s, y: fit_beta(s, y, 0.0, 1.0), fit_isotonic])
def test_maps_never_fall_and_are_never_certain(fit):
    scores = np.array([0.0, 0.0, 0.1, 0.5, 1.0, 1.0])
    for labels in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0], [0, 1, 1, 1, 1, 1]):
        values = fit(scores, np.array(labels, float)).probabilities(np.linspace(0, 1, 101))
        assert (np.diff(values) >= 0).all()
        assert 0 < values.min() <= values.max() < 1
    # If scores have the wrong direction, maps only learn the share of faithful rows.
    turned = fit(scores, np.array([1.0, 1, 1, 0, 0, 0])).probabilities(scores)
    assert turned == pytest.approx(np.full(6, 0.5), abs=0.01)


def test_equal_scores_have_no_slope():
    labels = np.tile([1.0, 1.0, 1.0, 0.0], 50)
    for scores in (np.full(200, 0.3), np.tile([0.3, 0.1 + 0.2], 100)):
        platt, beta = fit_platt(scores, labels), fit_beta(scores, labels, 0.0, 1.0)
        assert (platt.slope, beta.a, beta.b) == (0, 0, 0)
        for fitted in (platt, beta):
            assert fitted.probabilities(np.array([0.0, 0.3, 1.0])) == pytest.approx(0.75, abs=0.01)


def test_expected_values_by_hand():
    labels = np.array([0.0, 1.0, 0.0, 1.0])
    fitted = fit_isotonic(np.array([1.0, 2.0, 3.0, 4.0]), labels)
    # The middle two are pooled; 0 and 1 keep away from certainty by 1 / (4 + 2).
    values = fitted.probabilities(np.array([0.0, 1.0, 2.5, 4.0]))
    assert values == pytest.approx([1 / 6, 1 / 6, 1 / 2, 5 / 6])
    assert log_loss(np.array([0.25, 0.5]), np.array([0.0, 1.0])) == pytest.approx(
        -(np.log(0.75) + np.log(0.5)) / 2
    )


def test_rows_of_a_unit_are_held_out_together():
    """With copies of rows the isotonic map, the most flexible one, would memorise them."""
    rng = np.random.default_rng(5)
    scores, labels = (
        np.repeat(rng.random(40), 10),
        np.repeat(rng.random(40) < 0.5, 10).astype(float),
    )
    units = np.repeat(np.arange(40), 10)
    together = choose_map(scores, labels, units, 0.0, 1.0)[1]
    by_row = choose_map(scores, labels, np.arange(400), 0.0, 1.0)[1]
    assert by_row["isotonic"] < together["isotonic"]


def test_without_a_known_range_there_is_no_beta_map():
    scores, labels = draw(100, PLATT[1])
    assert "beta" not in choose_map(scores, labels, np.arange(100), -np.inf, np.inf)[1]


@pytest.mark.parametrize(
    "fitted",
    [fit(*draw(50, PLATT[1])) for fit in (fit_platt, fit_isotonic)]
    + [fit_beta(*draw(50, PLATT[1]), 0.0, 1.0)],
)
def test_maps_are_read_back_as_they_were(fitted):
    assert msgspec.json.decode(msgspec.json.encode(fitted), type=Map) == fitted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"form": "isotonic", "scores": [1], "values": []}', "as many scores as values"),
        ('{"form": "isotonic", "scores": [2, 1], "values": [0, 1]}', "scores and values that rise"),
        ('{"form": "isotonic", "scores": [1], "values": [2]}', "`float` <= 1"),
        ('{"form": "platt", "slope": -1, "intercept": 0}', "`float` >= 0"),
        ('{"form": "beta", "low": 1, "high": 1, "a": 1, "b": 1, "intercept": 0}', "low below high"),
    ],
)
def test_files_of_maps_that_make_no_sense(text, message):
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.json.decode(text, type=Map)
