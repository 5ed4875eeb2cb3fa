import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from faith_jax.checkpoints.checkpoint import flatten
from faith_jax.core.errors import ConfigError
from faith_jax.training import optimizers
from tests.models.families import BART, DEBERTA
from tests.models.tiny import TINY, model_and_params, stack_layers


def updated(optimizer, gradient, params):
    """The updates of the first step."""
    return jax.jit(lambda g, p: optimizer.update(g, optimizer.init(p), p)[0])(gradient, params)


def test_linear_decay_by_hand():
    schedule = optimizers.linear_decay(0.1, warmup_steps=4, total_steps=14)
    rates = [float(schedule(step)) for step in (0, 1, 4, 9, 14, 20)]
    np.testing.assert_allclose(rates, [0.0, 0.025, 0.1, 0.05, 0.0, 0.0], atol=1e-7)


def test_constant_and_inverse_square_root():
    np.testing.assert_allclose(float(optimizers.constant(0.3)(123)), 0.3)
    np.testing.assert_allclose(float(optimizers.constant(0.3, warmup_steps=10)(5)), 0.15)
    schedule = optimizers.inverse_square_root(1.0, warmup_steps=100)
    rates = [float(schedule(jnp.int32(s))) for s in (0, 100, 400)]
    np.testing.assert_allclose(rates, [0.1, 0.1, 0.05], rtol=1e-6)
    schedule = optimizers.inverse_square_root(1.0, warmup_steps=0)
    rates = [float(schedule(jnp.int32(s))) for s in (0, 1, 4)]
    np.testing.assert_allclose(rates, [1.0, 1.0, 0.5], rtol=1e-6)


def test_a_warmup_beyond_the_run_is_scaled_down(caplog):
    warmup = 60
    schedule = optimizers.linear_decay(0.1, warmup, total_steps=60)
    # It warms up for 60 // 20 steps.
    rates = [float(schedule(step)) for step in (0, 1, 3, 60)]
    np.testing.assert_allclose(rates, [0.0, 0.1 / 3, 0.1, 0.0], atol=1e-7)
    (record,) = caplog.records
    assert record.getMessage() == (
        f"WARMUP_STEPS = {warmup} is not less than TRAIN_STEPS = 60: the learning rate warms up "
        "for 3 steps instead, a twentieth of the run"
    )
    optimizers.linear_decay(0.1, warmup, total_steps=4)
    assert caplog.messages[1].endswith("the learning rate begins without a warm-up")


def test_a_constant_rate_scales_its_warmup_down_where_it_knows_the_steps(caplog):
    schedule = optimizers.constant(0.1, warmup_steps=500, total_steps=60)
    rates = [float(schedule(step)) for step in (0, 1, 3, 60)]
    np.testing.assert_allclose(rates, [0.0, 0.1 / 3, 0.1, 0.1], atol=1e-7)
    assert "WARMUP_STEPS = 500 is not less than TRAIN_STEPS = 60: " in caplog.text
    assert float(optimizers.constant(0.1, 500)(50)) == pytest.approx(0.01)
    with pytest.raises(ConfigError, match="constant: expected WARMUP_STEPS of 0 or more"):
        optimizers.constant(0.1, -1, total_steps=60)


def test_a_warmup_that_fits_is_as_it_is_told(caplog):
    assert float(optimizers.linear_decay(0.1, 59, total_steps=60)(59)) == pytest.approx(0.1)
    assert float(optimizers.linear_decay(0.1, 500, total_steps=1)(0)) == pytest.approx(0.1)
    assert len(caplog.records) == 1  # of the second


@pytest.mark.parametrize(("warmup", "total"), [(-1, 10), (0, 0)])
def test_steps_that_cannot_be_are_an_error(warmup, total):
    with pytest.raises(ConfigError, match=f"WARMUP_STEPS .* TRAIN_STEPS .* {warmup} and {total}"):
        optimizers.linear_decay(0.1, warmup, total)


def test_adamw_first_step_is_the_rate_times_the_sign():
    # At the first step Adam's corrected moments are g and g^2, so the update is -rate * sign(g).
    optimizer = optimizers.adamw(0.01)
    params = {"w": np.float32([1.0, -2.0])}
    updates = updated(optimizer, {"w": np.float32([3.0, -0.5])}, params)
    np.testing.assert_allclose(updates["w"], [-0.01, 0.01], rtol=1e-5)


def test_adamw_weight_decay_is_decoupled():
    optimizer = optimizers.adamw(0.1, weight_decay=0.5)
    params = {"w": np.float32([2.0])}
    updates = updated(optimizer, {"w": np.float32([0.0])}, params)
    np.testing.assert_allclose(updates["w"], [-0.1 * 0.5 * 2.0], rtol=1e-5)


ONE = {"num_encoder_layers": 1, "num_decoder_layers": 1}


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("adamw", BART.replace(**ONE)),
        ("adamw", TINY.replace(encoder_prompt_length=3, **ONE)),
        ("adafactor", TINY.replace(scan_layers=True, **ONE)),
        ("adafactor", DEBERTA.replace(num_encoder_layers=1)),
    ],
    ids=["bart", "soft_prompt", "scanned", "deberta"],
)
def test_weight_decay_spares_biases_and_norms(name, config):
    _, params = model_and_params(config.replace(scan_layers=False))
    params = stack_layers(params) if config.scan_layers else params
    before = flatten(params)
    spared = {n for n in before if n.endswith(("/bias", "/scale", "_bias", "/rel_embedding"))}
    optimizer = getattr(optimizers, name)(0.1, weight_decay=0.5)
    # Without a gradient nothing but the decay is left.
    zeros = jax.tree.map(np.zeros_like, params)
    updates = jax.jit(lambda p: optimizer.update(zeros, optimizer.init(p), p)[0])(params)
    # AdamW's decay is times the rate of 0.1; Adafactor's comes behind it.
    share = 0.05 if name == "adamw" else 0.5
    for parameter, update in flatten(updates).items():
        expected = 0.0 if parameter in spared else -share * before[parameter]
        np.testing.assert_allclose(update, expected, rtol=1e-5, err_msg=parameter)
    assert any(n.endswith("kernel") for n in before.keys() - spared)
    assert any(n.endswith("scale") for n in spared)
    if config.encoder_prompt_length:
        assert "encoder_prompt/embedding" in before.keys() - spared


def test_adafactor_scales_by_the_parameter_or_not():
    params = {"w": np.full(4, 10.0, np.float32)}
    gradient = {"w": np.ones(4, np.float32)}

    def step(**options):
        optimizer = optimizers.adafactor(0.1, **options)
        return float(updated(optimizer, gradient, params)["w"][0])

    # The normalised gradient is 1; its root mean square stays under the clipping threshold of 1.
    np.testing.assert_allclose(step(multiply_by_parameter_scale=False), -0.1, rtol=1e-4)
    np.testing.assert_allclose(step(multiply_by_parameter_scale=True), -1.0, rtol=1e-4)


@pytest.mark.parametrize("options", [{}, {"multiply_by_parameter_scale": False}])
def test_adafactor_takes_scanned_layers_apart(options):
    """Layers of different sizes, whose updates are clipped, move as if each were alone."""
    generator = np.random.default_rng(0)
    sizes = np.array([0.01, 0.1, 1.0])[:, None, None]
    kernels = (sizes * generator.normal(size=(3, 160, 140))).astype(np.float32)
    steps = np.array([1.0, 5.0])[:, None, None, None] * generator.normal(size=(2, 3, 160, 140))
    stacked = {"encoder": {"layers": {"kernel": jnp.asarray(kernels)}}}
    unstacked = {f"layers_{i}": {"kernel": jnp.asarray(kernel)} for i, kernel in enumerate(kernels)}
    optimizer = optimizers.adafactor(0.1, weight_decay=0.01, **options)
    states = [jax.jit(optimizer.init)(params) for params in (stacked, unstacked)]

    @jax.jit
    def move(gradient, state, params):
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state

    for gradients in steps.astype(np.float32):
        of_stack = {"encoder": {"layers": {"kernel": jnp.asarray(gradients)}}}
        of_layers = {f"layers_{i}": {"kernel": jnp.asarray(g)} for i, g in enumerate(gradients)}
        stacked, states[0] = move(of_stack, states[0], stacked)
        unstacked, states[1] = move(of_layers, states[1], unstacked)
    for i in range(3):
        np.testing.assert_allclose(
            np.asarray(stacked["encoder"]["layers"]["kernel"])[i],
            unstacked[f"layers_{i}"]["kernel"],
            rtol=1e-5,
        )


def test_adafactor_is_optaxs_without_scanned_layers():
    generator = np.random.default_rng(0)
    params = {"a": np.float32(generator.normal(size=(130, 140))), "b": np.ones(5, np.float32)}
    ours, plain = optimizers.adafactor(0.1), optax.adafactor(0.1, weight_decay_mask=None)
    gradient = jax.tree.map(lambda leaf: 3 * leaf + 1, params)
    assert jax.tree.structure(ours.init(params)) == jax.tree.structure(plain.init(params))
    moved, expected = (
        jax.jit(lambda o=o: o.update(gradient, o.init(params), params)[0])() for o in (ours, plain)
    )
    jax.tree.map(np.testing.assert_array_equal, moved, expected)


def test_gradient_clip_bounds_the_global_norm():
    optimizer = optimizers.adamw(1.0, b1=0.0, b2=0.0, eps=1e6, gradient_clip=1.0)
    params = {"w": np.zeros(2, np.float32)}
    updates = updated(optimizer, {"w": np.float32([3.0, 4.0])}, params)
    # With a huge eps the update is -g / eps; the clipped gradient is (0.6, 0.8).
    np.testing.assert_allclose(updates["w"] * 1e6, [-0.6, -0.8], rtol=1e-4)


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        ("constant", lambda step: 2.0),
        ("constant * linear_warmup", lambda step: 2 * min(1, step / 10)),
        ("linear_decay", lambda step: max(2 * min(step / 10, 1 + 0.05 * (10 - step)), 1e-8)),
        ("constant * rsqrt_decay", lambda step: 2 / max(step, 10) ** 0.5),
        ("rsqrt_normalized_decay", lambda step: (10 / max(step, 10)) ** 0.5),
        ("constant*decay_every", lambda step: 2 * 0.05 ** (step // 8)),
        ("cosine_decay", lambda step: 0.5 + 0.5 * np.cos(np.pi * (max(0, step - 10) / 16 % 1))),
    ],
)
@pytest.mark.parametrize("first", [0, 5])
def test_factors_of_a_rate_have_their_closed_forms(factors, expected, first):
    rate = optimizers.factored_rate(
        factors, 2.0, 10, 0.05, steps_per_decay=8, steps_per_cycle=16, first_step=first
    )
    for step in (1, 4, 9, 10, 23):
        assert float(rate(step)) == pytest.approx(expected(step + first), rel=1e-5)


@pytest.mark.parametrize("factors", ["constant * linear_warmup", "linear_decay"])
def test_no_warm_up_is_none(factors):
    rate = optimizers.factored_rate(
        factors, base_learning_rate=0.5, warmup_steps=0, decay_factor=0.1
    )
    expected = [0.5, 0.5] if "constant" in factors else [0.5, 0.45]
    assert [float(rate(step)) for step in (0, 1)] == pytest.approx(expected)


def test_an_unknown_factor_is_an_error():
    with pytest.raises(ConfigError, match=r"'warmup'. Did you mean 'linear_warmup'"):
        optimizers.factored_rate("constant * warmup")


def test_decays_without_a_warmup_are_finite_or_refused():
    rate = optimizers.factored_rate("constant * rsqrt_decay", 2.0, warmup_steps=0)
    assert [float(rate(step)) for step in (0, 1, 4)] == [2, 2, 1]
    with pytest.raises(ConfigError, match="the step at which the decay begins"):
        optimizers.factored_rate("rsqrt_normalized_decay", warmup_steps=0)
