import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.models.config import TransformerConfig
from faith_jax.models.partitioning import make_partitioner
from faith_jax.models.transformer import Transformer
from faith_jax.training import infonce as infonces
from faith_jax.training.infonce import InfoNCE, hits_at_1, infonce
from faith_jax.training.objectives import CrossEntropy
from faith_jax.training.trainer import Trainer
from tests.models import tiny

CONFIG = TransformerConfig(
    vocab_size=24, emb_dim=8, num_heads=2, head_dim=4, mlp_dim=16, num_encoder_layers=1,
    num_decoder_layers=1, mlp_activations=("gelu", "linear"), dropout_rate=0.0,
)  # fmt: skip
EOS = 1


def texts(rng, *lengths, width):
    """Rows of random tokens with an end token, or none where the length is 0."""
    rows = np.zeros((len(lengths), width), np.int32)
    for row, length in zip(rows, lengths, strict=True):
        if length:
            row[: length - 1] = rng.integers(2, 24, length - 1)
            row[length - 1] = EOS
    return rows


@pytest.fixture(scope="module")
def batch():
    """Four rows: with 3, 1, no and 2 negatives, of which the last row's first is its target."""
    rng = np.random.default_rng(0)
    targets = texts(rng, 6, 3, 4, 5, width=6)
    negatives = np.stack(
        [
            texts(rng, 7, 4, 2, width=7),
            texts(rng, 3, 0, 0, width=7),
            texts(rng, 0, 0, 0, width=7),
            texts(rng, 5, 0, 6, width=7),
        ]
    )
    negatives[3, 0] = np.pad(targets[3], (0, 1))
    return {
        "encoder_input_tokens": texts(rng, 5, 4, 5, 3, width=5),
        "decoder_input_tokens": np.pad(targets[:, :-1], ((0, 0), (1, 0))),
        "decoder_target_tokens": targets,
        "negatives": negatives,
    }


@pytest.fixture(scope="module")
def model():
    return tiny.model_and_params(CONFIG)


def measured(objective, model, batch):
    """The objective's metrics, in one compiled call."""
    return compiled(objective, *model, batch)


@functools.partial(jax.jit, static_argnums=(0, 1))
def compiled(objective, module, params, batch):
    return objective(module, params, batch, None)[0]


def text_state(model, inputs, text):
    """The states of the encoder, and of the decoder up to a text's end, for a single text."""
    text = text[text > 0]
    fed = np.zeros((1, 8), np.int32)
    fed[0, 1 : 1 + len(text)] = text
    encoded, hidden = read_alone(*model, inputs[None], fed)
    hidden = np.asarray(hidden, np.float64)[0, : 1 + len(text)]
    return np.asarray(encoded[0], np.float64), hidden


@functools.partial(jax.jit, static_argnums=0)
def read_alone(module, params, inputs, fed):
    variables = {"params": params}
    encoded = module.apply(variables, inputs, None, False, method="encode")
    options = {"enable_dropout": False, "method": "decode_hidden"}
    return encoded, module.apply(variables, encoded, inputs, fed, **options)


def row_scores(model, batch, row, context, temperature=1.0, candidates=None):
    inputs = batch["encoder_input_tokens"][row]
    encoded, hidden = text_state(model, inputs, batch["decoder_target_tokens"][row])
    c = {"first": encoded[0], "mean": encoded[inputs > 0].mean(0), "decoder_first": hidden[0]}[
        context
    ]
    states = [hidden[-1]] if candidates is None else []
    for text in batch["negatives"][row]:
        if (
            candidates is None
            and text.any()
            and text[:6].tolist() != list(batch["decoder_target_tokens"][row])
        ):
            states.append(text_state(model, inputs, text)[1][-1])
    states = states if candidates is None else candidates
    return np.array(states) @ c / np.sqrt(8) / temperature


def log_softmax(scores):
    return scores - np.log(np.exp(scores).sum())


@pytest.mark.parametrize("broadcast", [True, False])
def test_dropout_of_targets_and_of_negatives_that_share_an_input(model, batch, broadcast):
    config = CONFIG.replace(dropout_rate=0.2, broadcast_dropout=broadcast)
    module, objective = Transformer(config), InfoNCE(weight=2.0)
    run = jax.jit(lambda key: objective(module, model[1], batch, key)[0])
    losses = [float(run(jax.random.key(seed))["infonce"]) for seed in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]
    assert losses[0] != float(measured(objective, model, batch)["infonce"])
    assert all(np.isfinite(losses))


@pytest.mark.parametrize(
    ("context", "temperature"), [("first", 1.0), ("mean", 0.1), ("decoder_first", 0.1)]
)
def test_equals_each_text_read_alone(model, batch, context, temperature):
    scores = {r: row_scores(model, batch, r, context, temperature) for r in (0, 1, 3)}
    assert [len(s) for s in scores.values()] == [4, 2, 2]
    losses = [-log_softmax(s)[0] for s in scores.values()]
    objective = InfoNCE(weight=2.0, temperature=temperature, context=context)
    metrics = measured(objective, model, batch)
    expected = measured(CrossEntropy(), model, batch)
    weight = float(expected["weight"])
    np.testing.assert_allclose(metrics["infonce"] / weight, np.mean(losses), rtol=1e-4)
    hits = np.mean([s[0] > max(s[1:]) for s in scores.values()])
    np.testing.assert_allclose(metrics["hits_at_1"] / weight, hits, rtol=1e-5)
    np.testing.assert_allclose(
        metrics["negative_log_likelihood"], expected["negative_log_likelihood"], rtol=1e-5
    )
    total = expected["loss"] + 2.0 * metrics["infonce"]
    np.testing.assert_allclose(metrics["loss"], total, rtol=1e-5)


@pytest.mark.slow
def test_a_decoder_prompt_stands_before_each_text(batch):
    model = tiny.model_and_params(CONFIG.replace(decoder_prompt_length=2))
    losses = [-log_softmax(row_scores(model, batch, r, "mean"))[0] for r in (0, 1, 3)]
    metrics = measured(InfoNCE(context="mean"), model, batch)
    loss = metrics["infonce"] / metrics["weight"]
    np.testing.assert_allclose(loss, np.mean(losses), rtol=1e-4)


def test_other_rows_texts_in_the_batch(model, batch):
    states = [
        text_state(model, batch["encoder_input_tokens"][row], text)[1][-1]
        for row in range(4)
        for text in (batch["decoder_target_tokens"][row], *batch["negatives"][row])
        if text.any()
    ]
    owners = [0, 0, 0, 0, 1, 1, 2, 3, 3, 3]
    losses = []
    for row, same in ((0, ()), (1, ()), (3, (8,))):
        own_places = [i for i, owner in enumerate(owners) if owner == row and i not in same]
        order = own_places + [i for i, owner in enumerate(owners) if owner != row]
        scores = row_scores(model, batch, row, "first", candidates=[states[i] for i in order])
        losses.append(-log_softmax(scores)[0])
    metrics = measured(InfoNCE(in_batch_negatives=True), model, batch)
    np.testing.assert_allclose(metrics["infonce"] / metrics["weight"], np.mean(losses), rtol=1e-4)


def test_padding_changes_nothing(model, batch):
    objective = InfoNCE(in_batch_negatives=True)
    wider = {name: np.pad(x, ((0, 0),) * (x.ndim - 1) + ((0, 3),)) for name, x in batch.items()}
    wider["negatives"] = np.pad(wider["negatives"], ((0, 0), (0, 2), (0, 0)))
    wider = {n: np.pad(x, ((0, 2),) + ((0, 0),) * (x.ndim - 1)) for n, x in wider.items()}
    padded = measured(objective, model, wider)
    for name, value in measured(objective, model, batch).items():
        np.testing.assert_allclose(padded[name], value, rtol=1e-5)


def test_without_a_negative_there_is_only_cross_entropy(model, batch):
    none = batch | {"negatives": np.zeros_like(batch["negatives"])}
    metrics = measured(InfoNCE(), model, none)
    plain = measured(CrossEntropy(), model, batch)["loss"]
    np.testing.assert_allclose(metrics["loss"], plain, rtol=1e-6)
    assert float(metrics["infonce"]) == float(metrics["hits_at_1"]) == 0.0


def test_a_row_without_a_target_takes_no_part(model, batch):
    targets = np.array(batch["decoder_target_tokens"])
    targets[1] = 0
    fed = np.pad(targets[:, :-1], ((0, 0), (1, 0)))
    targetless = batch | {"decoder_target_tokens": targets, "decoder_input_tokens": fed}
    rest = {name: array.copy() for name, array in batch.items()}
    for array in rest.values():
        array[1] = 0
    metrics, expected = (measured(InfoNCE(), model, b) for b in (targetless, rest))
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-5, err_msg=name)


def test_contrast_in_closed_form():
    scores = np.float32([[1.0, 1.0, 9.0], [0.0, -np.inf, 2.0], [3.0, 5.0, 5.0]])
    valid = np.array([[True, True, False], [True, False, True], [True, False, False]])
    functions = jax.jit(infonce), jax.jit(hits_at_1)
    for first in (True, False):  # the first always counts
        valid[:, 0] = first
        losses, hits = ([f(scores[[i]], valid[[i]]) for i in range(3)] for f in functions)
        np.testing.assert_allclose(losses, [np.log(2), np.log1p(np.exp(2)), 0.0], rtol=1e-6)
        np.testing.assert_array_equal(hits, [0.0, 0.0, 1.0])


@pytest.mark.slow
def test_the_gradient_is_that_of_finite_differences(model, batch):
    module, params = model
    objective = InfoNCE(context="mean", in_batch_negatives=True)
    flat, unravel = jax.flatten_util.ravel_pytree(params)
    flat = np.asarray(flat)
    loss = lambda x: objective(module, unravel(x), batch, None)[0]["infonce"]  # noqa: E731
    graded = jax.jit(jax.value_and_grad(loss))
    gradient = graded(flat)[1]
    for seed in range(3):
        way = np.random.default_rng(seed).normal(size=flat.shape).astype(np.float32)
        way /= np.linalg.norm(way)
        step = 3e-2
        ahead, behind = (float(graded(flat + sign * step * way)[0]) for sign in (1, -1))
        measured = (ahead - behind) / (2 * step)
        np.testing.assert_allclose(np.asarray(gradient) @ way, measured, rtol=2e-2, atol=2e-3)


def trained(model, batch, objective):
    """Returns the metrics of a step in two pieces."""
    module, params = model
    trainer = Trainer(
        module, objective, optax.sgd(0.1), make_partitioner(CONFIG), num_microbatches=2
    )
    put_batch = trainer.partitioner.put_batch
    params = trainer.partitioner.put(params, trainer.partitioner.replicated)
    return trainer.train_step(trainer.init_state(params), {}, put_batch(batch))[1]


@pytest.mark.slow
def test_pieces_of_a_batch_add_up(model, batch):
    metrics, whole = trained(model, batch, InfoNCE()), measured(InfoNCE(), model, batch)
    for name in ("loss", "infonce", "hits_at_1"):
        np.testing.assert_allclose(metrics[name], whole[name] / whole["weight"], rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"context": "last"}, r"InfoNCE.context: expected one of first, mean, decoder_first"),
        ({"temperature": 0.0}, r"InfoNCE.temperature: expected a positive number, got 0.0"),
        ({"weight": -1.0}, r"InfoNCE.weight: expected 0 or a positive number, got -1.0"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ConfigError, match=message):
        InfoNCE(**settings)


def test_batches_that_it_is_not_of(model, batch):
    module, params = model
    without = {n: x for n, x in batch.items() if n != "negatives"}
    with pytest.raises(ConfigError, match=r"no negatives. Choose a task .*faithdial_generate_info"):
        InfoNCE()(module, params, without, None)
    packed = batch | {"decoder_segment_ids": np.ones((4, 6), np.int32)}
    with pytest.raises(ConfigError, match=r"set PACK = False"):
        InfoNCE()(module, params, packed, None)
    decoder_only = Transformer(CONFIG.replace(num_encoder_layers=0))
    with pytest.raises(ConfigError, match=r"InfoNCE: expected a model with an encoder"):
        InfoNCE()(decoder_only, params, batch, None)
    with pytest.raises(ConfigError, match=r"NUM_MICROBATCHES = 2: InfoNCE compares the rows"):
        trained(model, batch, InfoNCE(in_batch_negatives=True))


@pytest.mark.parametrize(
    ("scores", "where", "weights"),
    [
        ((4, 3), (4, 1), (4,)),
        ((12,), (12,), (4,)),
        ((4, 3), (4, 3), (4, 1)),  # would make [4, 4] of the losses
    ],
)
def test_arrays_of_wrong_shapes_are_refused(monkeypatch, scores, where, weights):
    # As users have them: without the types that tests check.
    monkeypatch.setattr(infonces, "_mask_others", inspect.unwrap(infonces._mask_others))
    arrays = jnp.ones(scores), jnp.ones(where, bool)
    with pytest.raises(ValueError, match="expected"):
        jax.jit(inspect.unwrap(infonce))(*arrays, weights=jnp.ones(weights))


def test_a_batch_of_different_numbers_of_rows_is_refused(model, batch):
    module, params = model
    wrong = batch | {"encoder_input_tokens": batch["encoder_input_tokens"][:1]}
    with pytest.raises(ValueError, match="same number of rows everywhere, got encoder_input_token"):
        InfoNCE()(module, params, wrong, None)
