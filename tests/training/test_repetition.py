import functools

import jax
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core.errors import ConfigError
from faith_jax.models.partitioning import make_partitioner
from faith_jax.models.transformer import Transformer
from faith_jax.training.objectives import CrossEntropy
from faith_jax.training.repetition import RepeatedTokens, find_repeated_tokens
from faith_jax.training.trainer import Trainer
from tests.models import tiny

CONFIG = tiny.TINY.replace(num_encoder_layers=1, num_decoder_layers=1, dropout_rate=0.0)
YES, NO = 7, 9
repeated = jax.jit(find_repeated_tokens, static_argnums=2)


def naive(tokens, valid, n):
    """Whether each token is in an n-gram that occurs twice, by counting."""
    is_repeated = np.zeros(len(tokens), bool)
    grams = {}
    for i in range(len(tokens) - n + 1):
        if all(valid[i : i + n]):
            grams.setdefault(tuple(tokens[i : i + n]), []).append(i)
    for places in grams.values():
        for i in places if len(places) > 1 else ():
            is_repeated[i : i + n] = True
    return is_repeated


@given(st.lists(st.integers(0, 4), min_size=9, max_size=9), st.integers(1, 4))
def test_repeated_n_grams_are_those_that_are_counted(tokens, n):
    valid = np.asarray(tokens) > 1
    flags = repeated(np.int32([tokens]), valid[None], n)
    np.testing.assert_array_equal(flags[0], naive(tokens, valid, n))


@given(st.lists(st.integers(2, 4), min_size=8, max_size=8), st.integers(1, 7), st.integers(1, 3))
def test_texts_of_a_packed_row_do_not_repeat_each_other(tokens, middle, n):
    # Texts end with a token that is not counted, as packed examples do.
    packed = [*tokens[:middle], 1, *tokens[middle:]]
    segments = np.asarray([[1] * (middle + 1) + [2] * (8 - middle)])
    valid = np.asarray([packed]) > 1
    flags = np.asarray(repeated(np.int32([packed]), valid, n, segments))[0]
    alone = [naive(part, [True] * len(part), n) for part in (tokens[:middle], tokens[middle:])]
    np.testing.assert_array_equal(flags, [*alone[0], False, *alone[1]])


def batch(seed=0):
    """Four rows, each with an end token; the last has no target."""
    targets = tiny.rows(5, 3, 4, 0, width=5, seed=seed)
    inputs = tiny.rows(8, 5, 7, 8, width=8, seed=seed + 1)
    inputs[0, 3:6] = inputs[0, :3]
    inputs[2, 6] = inputs[2, 1]
    inputs[:, 7] = np.where(inputs[:, 7] > 0, 1, 0)
    return {
        "encoder_input_tokens": inputs,
        "decoder_input_tokens": tiny.shift_right(targets),
        "decoder_target_tokens": targets,
    }


def by_hand(params, tokens, n):
    """The mean loss and accuracy over input tokens that are neither padding nor an end."""
    module, _ = tiny.model_and_params(CONFIG)
    states = tiny.apply(module, params, tokens, enable_dropout=False, method="encode")
    logits = np.asarray(tiny.apply(module, params, states, method="logits"), np.float64)
    score, losses, hits = logits[..., YES] - logits[..., NO], [], []
    for row, scores in zip(tokens, score, strict=True):
        valid = row > 1
        for is_repeat, s in zip(naive(row, valid, n)[valid], scores[valid], strict=True):
            losses.append(np.log1p(np.exp(-s if is_repeat else s)))
            hits.append((s > 0) == is_repeat)
    return np.mean(losses), np.mean(hits)


@functools.partial(jax.jit, static_argnums=0)
def measured(objective, batch):
    return objective(*tiny.model_and_params(CONFIG), batch, None)[0]


@pytest.mark.parametrize("n", [1, 2])
def test_adds_a_mean_over_input_tokens_to_the_mean_over_targets(n):
    metrics = measured(RepeatedTokens((YES, NO), weight=0.5, ngram=n), batch())
    plain = measured(CrossEntropy(), batch())["loss"]
    _, params = tiny.model_and_params(CONFIG)
    expected, accuracy = by_hand(params, batch()["encoder_input_tokens"], n)
    np.testing.assert_allclose(metrics["repetition"] / 12, expected, rtol=1e-5)
    np.testing.assert_allclose(metrics["repetition_accuracy"] / 12, accuracy, rtol=1e-5)
    np.testing.assert_allclose(metrics["loss"], plain + 0.5 * 12 * expected, rtol=1e-5)


def test_labels_count_more_in_training_and_as_all_targets_in_validation():
    rows = batch()
    rows["decoder_target_tokens"][0, :2] = YES, NO
    objective = RepeatedTokens((YES, NO), label_weight=10.0)
    plain = measured(CrossEntropy(), rows)
    validation = measured(objective, rows)
    for name in ("negative_log_likelihood", "weight"):
        np.testing.assert_allclose(validation[name], plain[name], rtol=1e-6, err_msg=name)
    module, _ = tiny.model_and_params(CONFIG)
    training = measured(objective, objective.prepare(module, rows))
    assert (plain["weight"], training["weight"]) == (12, 12 + 2 * 9)


@pytest.mark.slow
def test_pieces_of_a_batch_add_up():
    module, params = tiny.model_and_params(CONFIG)
    partitioner = make_partitioner(CONFIG)
    results = []
    for pieces in (1, 2):
        trainer = Trainer(
            module, RepeatedTokens((YES, NO)), optax.sgd(0.1), partitioner, num_microbatches=pieces
        )
        state = trainer.init_state(partitioner.put(params, partitioner.replicated))
        results.append(trainer.train_step(state, {}, partitioner.put_batch(batch())))
    (whole, metrics), (pieces, in_pieces) = results
    for name, value in metrics.items():
        np.testing.assert_allclose(in_pieces[name], value, rtol=1e-5, err_msg=name)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), whole.params, pieces.params
    )


def test_an_encoder_learns_which_tokens_are_repeated():
    module, params = tiny.model_and_params(CONFIG)
    objective = RepeatedTokens((YES, NO))
    optimizer = optax.adam(0.01)

    @jax.jit
    def step(params, state):
        def loss(params):
            metrics, _ = objective(module, params, batch(), None)
            return metrics["loss"], metrics["repetition"] / metrics["weight"]

        gradient, measured = jax.grad(loss, has_aux=True)(params)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(params, updates), state, measured

    state, losses = optimizer.init(params), []
    for _ in range(40):
        params, state, measured = step(params, state)
        losses.append(float(measured))
    assert losses[-1] < 0.2 * losses[0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"labels": (7, 7)}, r"labels: expected two different token ids, got \(7, 7\)"),
        ({"weight": -0.1}, r"weight: expected 0 or a positive number, got -0.1"),
        ({"ngram": 0}, r"ngram: expected a positive whole number, got 0"),
    ],
)
def test_wrong_settings(wrong, message):
    with pytest.raises(ConfigError, match=message):
        RepeatedTokens(**({"labels": (YES, NO)} | wrong))


def test_a_decoder_alone_is_refused():
    module = Transformer(CONFIG.replace(num_encoder_layers=0))
    with pytest.raises(ConfigError, match=r"expected a model with one encoder input"):
        RepeatedTokens((YES, NO)).prepare(module, batch())
