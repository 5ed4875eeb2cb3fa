import math
import re

import flax.traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core.errors import ConfigError, DivergenceError
from faith_jax.models.partitioning import make_partitioner
from faith_jax.training import optimizers
from faith_jax.training.checkpoints import TrainCheckpoints
from faith_jax.training.objectives import CrossEntropy
from faith_jax.training.trainer import Periods, Trainer, TrainState, fit, merge_params, split_params
from tests.models import tiny

CONFIG = tiny.TINY.replace(num_encoder_layers=0, num_decoder_layers=1, dropout_rate=0.0)
PARTITIONER = make_partitioner(CONFIG)
LOSS = CrossEntropy(label_smoothing=0.1, z_loss=1e-3)


def batch(seed=0, lengths=(5, 3, 4, 1, 0, 5, 2, 4)):
    targets = tiny.rows(*lengths, width=5, seed=seed)
    return {
        "decoder_input_tokens": tiny.shift_right(targets),
        "decoder_target_tokens": targets,
    }


def trainer_of(optimizer, **options):
    module, _ = tiny.model_and_params(CONFIG)
    return Trainer(module, LOSS, optimizer, PARTITIONER, **options)


def fresh(trainer, trainable=(".*",)):
    """The state before the first step; a step uses it up, so every call makes its own."""
    params = PARTITIONER.put(tiny.model_and_params(CONFIG)[1], PARTITIONER.replicated)
    trained, frozen = split_params(params, trainable)
    return trainer.init_state(trained), frozen


def by_name(tree):
    return flax.traverse_util.flatten_dict(tree, sep="/")


def assert_close(actual, expected, **tolerance):
    actual, expected = by_name(actual), by_name(expected)
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, err_msg=name, **tolerance)


@jax.jit
def sums_of(params, batch):
    """The objective itself, without dropout and without a trainer."""
    return LOSS(tiny.model_and_params(CONFIG)[0], params, batch, None)[0]


@pytest.fixture(scope="module")
def adamw():
    return trainer_of(optimizers.adamw(0.01, weight_decay=0.1))


@pytest.fixture(scope="module")
def sgd():
    return trainer_of(optax.sgd(0.5))


def test_two_steps_by_hand(adamw):
    module, params = tiny.model_and_params(CONFIG)
    optimizer = optax.adamw(0.01, weight_decay=0.1, mask=optimizers.decayed_parameters)

    @jax.jit
    def step_by_hand(params, opt_state, batch):
        def mean_loss(params):
            sums, _ = LOSS(module, params, batch, None)
            return sums["loss"] / sums["weight"]

        loss, gradient = jax.value_and_grad(mean_loss)(params)
        updates, opt_state = optimizer.update(gradient, opt_state, params)
        norm = optax.global_norm(gradient)
        return optax.apply_updates(params, updates), opt_state, loss, norm

    state, frozen = fresh(adamw)
    opt_state = jax.jit(optimizer.init)(params)
    for step in range(2):
        state, metrics = adamw.train_step(state, frozen, batch(step))
        params, opt_state, loss, norm = step_by_hand(params, opt_state, batch(step))
        np.testing.assert_allclose(metrics["loss"], loss, rtol=1e-5)
        np.testing.assert_allclose(metrics["gradient_norm"], norm, rtol=1e-5)
        assert float(metrics["weight"]) == 24  # 5+3+4+1+0+5+2+4 target tokens
    assert int(state.step) == 2
    # An update is about the rate, 0.01, for any gradient: the tolerance is a hundredth of it.
    assert_close(state.params, params, atol=1e-4, rtol=1e-4)


def test_metrics_are_means_over_target_tokens(sgd):
    _, metrics = sgd.train_step(*fresh(sgd), batch())
    sums = sums_of(tiny.model_and_params(CONFIG)[1], batch())
    for name in ("loss", "negative_log_likelihood", "z_loss"):
        np.testing.assert_allclose(metrics[name], sums[name] / 24, rtol=1e-5)


def test_micro_batches_equal_the_whole_batch(sgd):
    # Rows have 0 to 5 target tokens: a mean of means would not pass.
    in_pieces = trainer_of(optax.sgd(0.5), num_microbatches=4)
    whole_state, whole = sgd.train_step(*fresh(sgd), batch())
    state, metrics = in_pieces.train_step(*fresh(in_pieces), batch())
    for name, value in whole.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-5, err_msg=name)
    assert_close(state.params, whole_state.params, atol=1e-6, rtol=1e-5)


def test_evaluation_adds_up_over_batches(sgd):
    params = fresh(sgd)[0].params
    whole = sgd.eval_step(params, {}, batch())
    halves = [
        sgd.eval_step(params, {}, {k: np.where(kept, v, 0) for k, v in batch().items()})
        for first in (True, False)
        for kept in [(np.arange(8)[:, None] < 4) == first]
    ]
    assert float(whole["weight"]) == 24
    for name, value in whole.items():
        np.testing.assert_allclose(halves[0][name] + halves[1][name], value, rtol=1e-5)


def test_a_batch_of_padding_changes_nothing(sgd):
    empty = batch(lengths=(0,) * 8)
    state, metrics = sgd.train_step(*fresh(sgd), empty)
    assert float(metrics["loss"]) == float(metrics["weight"]) == 0.0
    assert_close(state.params, tiny.model_and_params(CONFIG)[1], rtol=0)


def test_weights_that_sum_to_less_than_one_are_divided_by_their_sum(sgd):
    weights = np.zeros((8, 5), np.float32)
    weights[0, 1] = 1.0
    full = sgd.train_step(*fresh(sgd), batch() | {"decoder_loss_weights": weights})[1]
    less = sgd.train_step(*fresh(sgd), batch() | {"decoder_loss_weights": weights / 4})[1]
    assert float(less["weight"]) == 0.25
    for name in ("loss", "gradient_norm"):
        np.testing.assert_allclose(less[name], full[name], rtol=1e-5)


def test_one_program_for_all_steps(adamw):
    state, frozen = fresh(adamw)
    for seed in range(3):
        state, _ = adamw.train_step(state, frozen, batch(seed))
    assert adamw.num_compilations == 1
    assert int(state.step) == 3


TRAINABLE = ("decoder/decoder_norm/.*", "decoder/logits_dense/kernel")


def test_frozen_parameters_have_no_gradient_and_no_state(sgd):
    trainer = trainer_of(optimizers.adamw(0.01))
    state, frozen = fresh(trainer, TRAINABLE)
    names = {"decoder/decoder_norm/scale", "decoder/logits_dense/kernel"}
    assert by_name(state.params).keys() == names
    assert not names & by_name(frozen).keys()
    adam = state.opt_state[0]
    assert by_name(adam.mu).keys() == by_name(adam.nu).keys() == names
    before = jax.tree.map(np.asarray, frozen)
    state, metrics = trainer.train_step(state, frozen, batch())
    assert_close(frozen, before, rtol=0)
    assert by_name(state.params).keys() == names
    # The norm is that of the trained parameters' gradient alone.
    whole, _ = sgd.train_step(*fresh(sgd), batch())
    start = by_name(tiny.model_and_params(CONFIG)[1])
    moved = {n: np.asarray(v) - start[n] for n, v in by_name(whole.params).items() if n in names}
    expected = np.sqrt(sum(np.sum(np.square(v / 0.5)) for v in moved.values()))
    np.testing.assert_allclose(metrics["gradient_norm"], expected, rtol=1e-4)


def test_frozen_layers_cost_no_backward_pass():
    def flops(trainable):
        trainer = trainer_of(optax.sgd(0.1))
        state, frozen = fresh(trainer, trainable)
        return jax.jit(trainer._train).lower(state, frozen, batch()).cost_analysis()["flops"]

    # A backward pass costs twice the forward pass; here it ends at the output layer.
    assert flops(TRAINABLE) < 0.6 * flops((".*",))


class Draws(CrossEntropy):
    """An objective that returns the random numbers that each row's micro-batch got."""

    def __call__(self, module, params, batch, dropout_key):
        draw = jax.random.uniform(dropout_key) if dropout_key is not None else -1.0
        draws = jnp.zeros(4).at[batch["row"][:, 0]].set(draw)
        return {"loss": params["w"] * draw, "weight": jnp.float32(0), "draws": draws}, {}


DROPPING = CONFIG.replace(dropout_rate=0.1)


def draws_of(steps=3, start=0, config=DROPPING, **options):
    trainer = Trainer(
        tiny.model_and_params(config)[0], Draws(), optax.sgd(0.0), PARTITIONER, **options
    )
    state = trainer.init_state(PARTITIONER.put({"w": np.float32(1)}, PARTITIONER.replicated))
    state = TrainState(state.step + start, state.params, state.opt_state)
    rows = {"row": np.arange(4)[:, None]}
    draws = []
    for _ in range(steps):
        state, metrics = trainer.train_step(state, {}, rows)
        draws.append(np.asarray(metrics["draws"]))
    return np.stack(draws)


def test_dropout_differs_between_steps_and_micro_batches():
    draws = draws_of(num_microbatches=2)
    # Rows are dealt out in turn: 0 and 2 share a micro-batch, 1 and 3 the other.
    np.testing.assert_array_equal(draws[:, :2], draws[:, 2:])
    assert len(np.unique(draws)) == 6
    assert len(np.unique(draws_of())) == 3


def test_dropout_is_a_function_of_seed_and_step():
    draws = draws_of(seed=5, num_microbatches=2)
    np.testing.assert_array_equal(draws_of(seed=5, num_microbatches=2), draws)
    np.testing.assert_array_equal(draws_of(1, start=2, seed=5, num_microbatches=2)[0], draws[2])
    assert not np.isin(draws_of(seed=6), draws_of(seed=5)).any()


def test_the_hardware_generator_draws_other_numbers_by_seed_and_step():
    draws = draws_of(seed=5, use_hardware_rng=True)
    np.testing.assert_array_equal(draws_of(1, start=2, seed=5, use_hardware_rng=True)[0], draws[2])
    assert not np.isin(draws, draws_of(seed=5)).any()
    assert not np.isin(draws, draws_of(seed=6, use_hardware_rng=True)).any()


@pytest.mark.parametrize("part", ["attention", "mlp", "classifier"])
def test_dropout_of_one_part_draws_too(part):
    config = CONFIG.replace(**{f"{part}_dropout_rate": 0.1})
    assert (draws_of(1, config=config) >= 0).all()


def test_without_dropout_no_key_is_given():
    np.testing.assert_array_equal(draws_of(1, config=CONFIG), [[-1.0] * 4])
    np.testing.assert_array_equal(draws_of(1, config=CONFIG, num_microbatches=4), [[-1.0] * 4])


def test_dropout_is_applied_in_training_and_not_in_evaluation():
    module, params = tiny.model_and_params(CONFIG.replace(dropout_rate=0.5))
    trainer = Trainer(module, LOSS, optax.sgd(0.0), PARTITIONER)
    state = trainer.init_state(PARTITIONER.put(params, PARTITIONER.replicated))
    dropping = jax.jit(lambda seed: LOSS(module, params, batch(), jax.random.key(seed))[0]["loss"])
    losses = [float(dropping(seed)) for seed in range(2)]
    plain = float(sums_of(params, batch())["loss"])
    sums = trainer.eval_step(state.params, {}, batch())
    np.testing.assert_allclose(sums["loss"], plain, rtol=1e-5)
    assert len({round(x, 4) for x in [*losses, plain]}) == 3


@pytest.mark.parametrize("count", [3, 16])
def test_a_batch_that_does_not_divide_into_micro_batches_is_an_error(count):
    trainer = trainer_of(optax.sgd(0.1), num_microbatches=count)
    with pytest.raises(ConfigError, match=f"BATCH_SIZE = 8 .* NUM_MICROBATCHES = {count}"):
        trainer.train_step(*fresh(trainer), batch())


def test_no_micro_batches_are_an_error():
    with pytest.raises(ConfigError, match="NUM_MICROBATCHES: expected 1 or more, got 0"):
        trainer_of(optax.sgd(0.1), num_microbatches=0)


names = st.text("abc_0", min_size=1, max_size=3)
trees = st.recursive(
    st.integers(), lambda children: st.dictionaries(names, children, min_size=1), max_leaves=8
).filter(lambda tree: isinstance(tree, dict))


@given(trees, st.data())
def test_merge_is_the_inverse_of_split(tree, data):
    flat = by_name(tree)
    trained_names = data.draw(st.sets(st.sampled_from(sorted(flat)), min_size=1))
    trained, frozen = split_params(tree, [re.escape(name) for name in trained_names])
    assert by_name(trained).keys() == trained_names
    assert by_name(frozen).keys() == flat.keys() - trained_names
    assert merge_params(trained, frozen) == tree


def test_a_pattern_matches_whole_names():
    tree = {"encoder": {"wi": 1, "wi_0": 2}, "decoder": {"wi": 3}}
    assert split_params(tree, ["encoder/wi"])[0] == {"encoder": {"wi": 1}}
    assert split_params(tree, [".*/wi", "nothing"])[1] == {"encoder": {"wi_0": 2}}
    assert split_params(tree, ".*")[1] == {}  # one pattern need not be in a list


def test_patterns_that_match_nothing_or_are_none_are_errors():
    tree = {"encoder": {"wi": 1}}
    with pytest.raises(ConfigError, match=r"'prompt' matches none of the 1 .*'encoder/wi'"):
        split_params(tree, "prompt")
    with pytest.raises(ConfigError, match=r"TRAINABLE = .*prompt.* is not a regular expression"):
        split_params(tree, ["*prompt"])


class CountingTrainer:
    """A trainer that counts steps; each batch gives the loss and the gradient norm of its step."""

    def train_step(self, state, frozen, batch):
        return state._replace(step=state.step + 1), dict(
            zip(("loss", "gradient_norm"), batch, strict=True)
        )


class ListedLosses:
    """A watcher with the validation losses of listed steps."""

    def __init__(self, losses):
        self.losses = losses

    def write_training_metrics(self, *_):
        pass

    def write_losses(self, step, params, final):
        return {"loss": self.losses[step]} if step in self.losses else None

    def has_converged(self):
        return False

    def write_decoded_metrics(self, *_):
        pass


def fit_counting(folder, periods, batches=(), losses=(), **kept):
    """Runs `fit` from the newest step in a folder; returns all steps that it saved."""
    checkpoints = TrainCheckpoints(folder, **kept)
    saved, save = [], checkpoints.save
    checkpoints.save = lambda state, metrics: (saved.append(int(state.step)), save(state, metrics))
    first = checkpoints.latest_step() or 0
    state = TrainState(jnp.int32(first), {"kernel": jnp.ones(2)}, {"count": jnp.ones(1)})
    batches = [*batches, *[(1.0, 1.0)] * (periods.total - len(batches))][first:]
    try:
        fit(CountingTrainer(), state, {}, iter(batches), periods, ListedLosses(losses), checkpoints)
    finally:
        checkpoints.close()
    return saved


@pytest.mark.parametrize(
    ("broken", "log"), [((math.nan, 1.0), 1), ((math.inf, 1.0), 100), ((1.0, math.nan), 100)]
)
def test_a_step_that_is_not_finite_is_not_saved(tmp_path, broken, log):
    batches = [(1.0, 1.0)] * 3 + [broken] * 5
    loss, norm = broken
    good = tmp_path / "2"
    message = (
        f"Step 4 is not saved, since its loss is {loss:.4g} and its gradient's norm {norm:.4g}; "
        "the newest checkpoint is that of step 2. "
    )
    with pytest.raises(DivergenceError, match=re.escape(message)) as caught:
        fit_counting(tmp_path, Periods(8, log, 2), batches)
    assert "in another one, lower LEARNING_RATE or clip the gradient" in str(caught.value)
    assert str(caught.value).endswith(f"INITIAL_CHECKPOINT_PATH={good}.")
    assert [path for path in tmp_path.iterdir() if path.name.isdecimal()] == [good]


def test_infinite_parameters_are_not_saved(tmp_path, monkeypatch):
    step = CountingTrainer.train_step

    def overflow(self, state, frozen, batch):
        state, metrics = step(self, state, frozen, batch)
        params = jax.tree.map(lambda x: jnp.where(state.step > 3, jnp.inf, x), state.params)
        return state._replace(params=params), metrics

    monkeypatch.setattr(CountingTrainer, "train_step", overflow)
    message = "Step 4 is not saved, since its parameters are NaN or infinite; the newest"
    with pytest.raises(DivergenceError, match=message):
        fit_counting(tmp_path, Periods(8, 100, 2), [(1.0, 1.0)] * 8)


def test_a_run_without_a_finite_checkpoint_begins_anew(tmp_path):
    message = r"Step 2 .*; no checkpoint was saved before: lower LEARNING_RATE.* run this again\."
    with pytest.raises(DivergenceError, match=message):
        fit_counting(tmp_path, Periods(8, 100, 2), [(math.nan, 1.0)] * 8)


@pytest.mark.parametrize(
    ("keep_best", "saved", "kept"), [(0, [4, 8, 10], [10]), (2, [3, 4, 5, 6, 8, 10], [5, 6, 10])]
)
def test_the_lowest_losses_are_kept_between_the_periods_of_checkpoints(
    tmp_path, keep_best, saved, kept
):
    losses = {2: math.nan, 3: 3.0, 5: 1.0, 6: 2.0, 7: 4.0, 9: 2.0, 10: 5.0}
    options = {"keep_last": 1, "keep_best": keep_best}
    periods = Periods(10, 100, 4)
    assert fit_counting(tmp_path / "whole", periods, losses=losses, **options) == saved
    # A run that ends at step 8, and takes its last steps again, saves the same ones.
    broken = [(1.0, 1.0)] * 7 + [(math.nan, 1.0)]
    with pytest.raises(DivergenceError):
        fit_counting(tmp_path / "ended", periods, broken, losses, **options)
    again = fit_counting(tmp_path / "ended", periods, losses=losses, **options)
    assert again == [step for step in saved if step > 7]
    for folder in ("whole", "ended"):
        checkpoints = TrainCheckpoints(tmp_path / folder, **options)
        assert checkpoints.all_steps() == kept
        assert checkpoints.best_step() == (10 if keep_best == 0 else 5)
        checkpoints.close()
