import functools
import inspect

import jax
import numpy as np
import optax
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.models.partitioning import make_partitioner
from faith_jax.training.checkpoints import TrainCheckpoints
from faith_jax.training.loss_truncation import LossTruncation, RecentLosses
from faith_jax.training.objectives import CrossEntropy
from faith_jax.training.trainer import Trainer
from tests.models import tiny

CONFIG = tiny.TINY.replace(num_encoder_layers=0, num_decoder_layers=1, dropout_rate=0.0)
PARTITIONER = make_partitioner(CONFIG)
LOSS = CrossEntropy(z_loss=1e-3)
# Not equal to its complement, so that tests tell the two apart.
DROPPED = 0.3
TRUNCATION = LossTruncation(LOSS, drop_fraction=DROPPED, window=20, warmup_steps=2)


def recent(window):
    return LossTruncation(window=window).init_state()


def batch(seed):
    """Eight rows; the fifth is padding."""
    targets = tiny.rows(5, 3, 4, 1, 0, 5, 2, 4, width=5, seed=seed)
    return {
        "decoder_input_tokens": tiny.shift_right(targets),
        "decoder_target_tokens": targets,
    }


def trainer_of(objective, **options):
    module, _ = tiny.model_and_params(CONFIG)
    return Trainer(module, objective, optax.sgd(0.1), PARTITIONER, **options)


def fresh(trainer):
    params = PARTITIONER.put(tiny.model_and_params(CONFIG)[1], PARTITIONER.replicated)
    return trainer.init_state(params)


def trained(trainer, state, steps):
    """The state after steps, and the metrics of each."""
    all_metrics = []
    for step in steps:
        state, metrics = trainer.train_step(state, {}, batch(step))
        all_metrics.append({name: float(value) for name, value in metrics.items()})
    return state, all_metrics


@pytest.fixture(scope="module")
def truncating():
    return trainer_of(TRUNCATION)


@pytest.fixture(scope="module")
def plain():
    return trainer_of(LOSS)


@st.composite
def batches_of_losses(draw):
    """A window and batches of losses with some padding; each shape needs a compilation."""
    rows = draw(st.sampled_from([1, 7]))
    losses = st.lists(st.floats(0, 9, width=32), min_size=rows, max_size=rows)
    valid = st.lists(st.booleans(), min_size=rows, max_size=rows)
    count = draw(st.integers(1, 6))
    return draw(st.sampled_from([1, 3, 12])), [(draw(losses), draw(valid)) for _ in range(count)]


appended = jax.jit(RecentLosses.append)
quantile = jax.jit(inspect.unwrap(RecentLosses.quantile))  # without the types that tests check


@given(batches_of_losses(), st.floats(0, 1))
def test_the_quantile_is_that_of_the_last_examples(drawn, share):
    window, batches = drawn
    state, seen = recent(window), []
    assert float(quantile(state, share)) == np.inf
    for losses, valid in batches:
        state = appended(state, np.asarray(losses, np.float32), np.asarray(valid))
        seen += [x for x, is_valid in zip(losses, valid, strict=True) if is_valid]
        if seen:
            expected = np.percentile(np.float32(seen[-window:]), 100 * share)
            np.testing.assert_allclose(quantile(state, share), expected, rtol=1e-4, atol=1e-5)
    assert int(state.examples) == len(seen)
    assert int(state.steps) == len(batches)


def losses_of(params, tokens):
    """Each row's mean negative log-likelihood and its number of tokens, from plain arithmetic."""
    module, _ = tiny.model_and_params(CONFIG)
    targets = tokens["decoder_target_tokens"]
    inputs = (None, None, tokens["decoder_input_tokens"])
    hidden = tiny.apply(module, params, *inputs, enable_dropout=False, method="decode_hidden")
    logits = tiny.apply(module, params, hidden, method="logits")
    log_prob = scipy.special.log_softmax(np.asarray(logits, np.float64), axis=-1)
    picked = np.take_along_axis(log_prob, targets[..., None], -1)[..., 0] * (targets > 0)
    count = (targets > 0).sum(1)
    return -picked.sum(1) / np.maximum(count, 1), count


def test_drops_what_is_above_the_quantile_of_what_was_seen(truncating):
    """Three steps, compared with losses and quantiles computed independently."""
    state, seen = fresh(truncating), []
    for step in range(3):
        losses, count = losses_of(state.params, batch(step))
        highest = np.percentile(seen, 100 * (1 - DROPPED)) if step == 2 else np.inf
        dropped = (losses > highest) & (count > 0)
        state, metrics = truncating.train_step(state, {}, batch(step))
        np.testing.assert_allclose(metrics["examples_dropped"], dropped.sum() / 7, rtol=1e-5)
        likelihood = (losses * count).sum() / 24
        np.testing.assert_allclose(metrics["negative_log_likelihood"], likelihood, rtol=1e-4)
        kept = (losses * count * ~dropped).sum() / 24
        np.testing.assert_allclose(metrics["loss"] - metrics["z_loss"], kept, rtol=1e-4)
        seen = [*seen, *losses[count > 0]][-20:]
    assert 0 < dropped.sum() < 7
    kept_losses = np.sort(np.asarray(state.objective.losses))
    np.testing.assert_allclose(kept_losses, np.sort(seen), rtol=1e-4)


def test_dropped_rows_have_no_gradient(truncating, plain):
    """A step equals one of plain cross-entropy on the rows that are kept."""
    state, _ = trained(truncating, fresh(truncating), range(2))
    losses, _ = losses_of(state.params, batch(2))
    stays = losses <= float(quantile(state.objective, 1 - DROPPED))
    params = jax.tree.map(np.asarray, state.params)
    updated, _ = trained(truncating, state, [2])
    weights = (batch(2)["decoder_target_tokens"] > 0) * stays[:, None]
    only = batch(2) | {"decoder_loss_weights": np.float32(weights)}
    on_kept, _ = plain.train_step(
        plain.init_state(PARTITIONER.put(params, PARTITIONER.replicated)), {}, only
    )
    # The mean is over the kept tokens there, over all 24 here.
    share = weights.sum() / 24
    assert 0 < share < 1
    for moved, expected, before in zip(
        *map(jax.tree.leaves, jax.device_get((updated.params, on_kept.params, params))), strict=True
    ):
        np.testing.assert_allclose(moved - before, share * (expected - before), atol=1e-6)


def test_without_dropping_it_is_cross_entropy(truncating, plain):
    """As in the first two steps, while it warms up."""
    state, all_metrics = trained(truncating, fresh(truncating), range(2))
    expected_state, expected = trained(plain, fresh(plain), range(2))
    for metrics, expected_metrics in zip(all_metrics, expected, strict=True):
        assert metrics.pop("examples_dropped") == 0
        assert metrics == pytest.approx(expected_metrics, rel=1e-5)
    close = functools.partial(np.testing.assert_allclose, atol=1e-6)
    jax.tree.map(close, state.params, expected_state.params)


def test_pieces_of_a_batch_have_one_quantile(truncating):
    in_pieces = trainer_of(TRUNCATION, num_microbatches=4)
    whole_state, whole = trained(truncating, fresh(truncating), range(4))
    state, all_metrics = trained(in_pieces, fresh(in_pieces), range(4))
    assert whole[3]["examples_dropped"] > 0
    for metrics, expected in zip(all_metrics, whole, strict=True):
        assert metrics == pytest.approx(expected, rel=1e-4)
    # In the order of the batch, not of its pieces.
    np.testing.assert_allclose(state.objective.losses, whole_state.objective.losses, rtol=1e-4)


def test_goes_on_from_a_checkpoint(truncating, plain, tmp_path):
    state, _ = trained(truncating, fresh(truncating), range(3))
    checkpoints = TrainCheckpoints(tmp_path / "run")
    checkpoints.save(state)
    checkpoints.wait()
    restored = checkpoints.restore(fresh(truncating))
    checkpoints.close()
    assert isinstance(restored.objective, RecentLosses)
    straight, expected = trained(truncating, state, range(3, 5))
    resumed, all_metrics = trained(truncating, restored, range(3, 5))
    assert all_metrics == expected
    jax.tree.map(np.testing.assert_array_equal, resumed, straight)
    with pytest.raises(CheckpointError, match="objective with a state, this run's has none"):
        TrainCheckpoints(tmp_path / "run").restore(fresh(plain))


def test_a_checkpoint_without_the_state_is_refused(truncating, plain, tmp_path):
    checkpoints = TrainCheckpoints(tmp_path / "run")
    checkpoints.save(trained(plain, fresh(plain), range(1))[0])
    checkpoints.wait()
    with pytest.raises(CheckpointError, match="an objective without a state, this run's has one"):
        checkpoints.restore(fresh(truncating))
    checkpoints.close()


def test_without_a_window_nothing_is_dropped_and_sums_may_take_the_place_of_means():
    """As in validation."""
    module, params = tiny.model_and_params(CONFIG)

    @jax.jit
    def measured(params):
        summed = LossTruncation(LOSS, window=20, length_normalized=False)
        return [of(module, params, batch(0), None) for of in (summed, LOSS)]

    (metrics, rows), (expected, _) = measured(params)
    assert metrics.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-6)
    losses, count = losses_of(params, batch(0))
    np.testing.assert_allclose(rows["loss"][count > 0], (losses * count)[count > 0], rtol=1e-4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"drop_fraction": 1.0}, r"drop_fraction: expected a share in \[0, 1\), got 1.0"),
        ({"drop_fraction": float("nan")}, r"drop_fraction: expected a share"),
        ({"window": 0}, r"window: expected a positive whole number, got 0"),
        ({"warmup_steps": -1}, r"warmup_steps: expected 0 or a positive whole number, got -1"),
    ],
)
def test_wrong_settings(wrong, message):
    with pytest.raises(ConfigError, match=message):
        LossTruncation(**wrong)


def test_packed_examples_are_refused(truncating):
    packed = batch(0) | {"decoder_segment_ids": np.ones((8, 5), np.int32)}
    with pytest.raises(ConfigError, match=r"set PACK = False"):
        truncating.objective(truncating.module, {}, packed, None)
