import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util
from flax.errors import InvalidRngError

from faith_jax.core.errors import ConfigError
from faith_jax.models.attention.masks import AttentionMask, Tokens
from faith_jax.models.config import TransformerConfig
from faith_jax.models.transformer import Transformer
from tests.models import tiny
from tests.models.tiny import TINY, apply, model_and_params, rows, shift_right, stack_layers
from tests.paths import REPOSITORY

SMALL = TINY.replace(num_encoder_layers=1, num_decoder_layers=1)
PROMPTS = SMALL.replace(encoder_prompt_length=3, decoder_prompt_length=2)
TIED = SMALL.replace(mlp_activations=("relu",), logits_via_embedding=True)
TESTDATA = REPOSITORY / "tests" / "testdata"
# For two summation orders of the same float32 numbers, in layers of width 8.
TOLERANCE = 1e-5
# The "rbg" generator compiles several times faster than the default one; dropout accepts both.
KEYS = [jax.random.key(seed, impl="rbg") for seed in (0, 1)]

INPUTS = rows(7, 4, 2, seed=1)
TARGETS = rows(6, 3, 5, seed=2)
VALID = TARGETS > 0


def logits(*arguments):
    return np.asarray(tiny.logits(*arguments))


@functools.cache
def reference_logits(config):
    return logits(*model_and_params(config), INPUTS, TARGETS)


@functools.partial(jax.jit, static_argnums=0)
def loss_and_gradients(module, params, dropout_key=None):
    def loss(params):
        result = module.apply(
            {"params": params},
            INPUTS,
            shift_right(TARGETS),
            TARGETS,
            enable_dropout=dropout_key is not None,
            rngs=None if dropout_key is None else {"dropout": dropout_key},
        )
        log_probs = jax.nn.log_softmax(result)
        return -jnp.sum(jnp.take_along_axis(log_probs, TARGETS[..., None], -1)[..., 0] * VALID)

    return jax.value_and_grad(loss)(params)


def assert_trees_close(actual, expected, rtol=1e-5, atol=1e-5):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


@pytest.mark.parametrize(("version", "batch"), [("t5_1_0", "padded"), ("t5_1_1", "packed")])
def test_logits_are_those_that_t5x_computes(version, batch):
    """tools/compare_with_t5x.py wrote the golden file under real T5X, from T5X's own network."""
    with np.load(TESTDATA / "t5x_logits.npz") as golden:
        config = TransformerConfig.from_dict(json.loads(str(golden["config"]))[version])
        arrays = {key: golden[key] for key in golden if key.startswith(f"{version}/")}
    tree = traverse_util.unflatten_dict(arrays, sep="/")[version]
    tokens = tree[batch]
    segments = (tokens.get("encoder_segment_ids"), tokens.get("decoder_segment_ids"))
    model_logits = logits(
        Transformer(config),
        tree["params"],
        tokens["encoder_input_tokens"],
        tokens["decoder_target_tokens"],
        tokens["decoder_input_tokens"],
        segments,
    )
    np.testing.assert_allclose(model_logits, tokens["logits"], atol=TOLERANCE)
    assert np.std(tokens["logits"]) > 0.5


def test_no_gradient_flows_from_the_future():
    config = PROMPTS
    module, params = model_and_params(config)
    length = 5

    def hidden(embeddings):
        encoder_inputs = INPUTS[:1]
        encoded = module.apply({"params": params}, encoder_inputs, None, False, method="encode")
        output = module.apply(
            {"params": params},
            encoded,
            encoder_inputs,
            None,
            enable_dropout=False,
            embeddings=embeddings,
            method="decode_hidden",
        )
        return output[0] @ jnp.arange(1.0, 1.0 + config.emb_dim)

    embeddings = np.random.default_rng(3).normal(size=(1, length, config.emb_dim))
    jacobian = jax.jit(jax.jacrev(hidden))(embeddings)[:, 0]
    reach = np.abs(jacobian).sum(-1)  # [position of the output, position of the input]
    assert np.all(reach[np.triu_indices(length, 1)] == 0.0)
    assert np.all(reach[np.tril_indices(length)] > 0.0)


def test_every_valid_input_token_and_no_padding_is_seen():
    config = PROMPTS
    module, params = model_and_params(config)

    def summary(embeddings):
        variables = {"params": params}
        encoded = module.apply(
            variables, INPUTS, enable_dropout=False, embeddings=embeddings, method="encode"
        )
        hidden = module.apply(
            variables,
            encoded,
            INPUTS,
            shift_right(TARGETS),
            enable_dropout=False,
            method="decode_hidden",
        )
        return jnp.sum(hidden @ jnp.arange(1.0, 1.0 + config.emb_dim))

    embeddings = np.random.default_rng(4).normal(size=(*INPUTS.shape, config.emb_dim))
    salience = np.abs(jax.jit(jax.grad(summary))(embeddings)).sum(-1)
    np.testing.assert_array_equal(salience > 0.0, INPUTS > 0)


def test_neither_padding_nor_other_rows_change_a_row():
    module, params = model_and_params(PROMPTS)
    expected = reference_logits(PROMPTS)
    inputs, targets = INPUTS.copy(), TARGETS.copy()
    inputs[1:], targets[1:] = rows(7, 7, seed=8), rows(6, 6, seed=9)
    beside_others = logits(module, params, inputs, targets)
    np.testing.assert_array_equal(beside_others[0], expected[0])
    assert not np.allclose(beside_others[1], expected[1], atol=0.1)
    padded = (np.pad(x[2:], ((0, 0), (0, more))) for x, more in ((INPUTS, 5), (TARGETS, 3)))
    alone = logits(module, params, *padded)[0, : TARGETS.shape[1]]
    np.testing.assert_allclose(alone[VALID[2]], expected[2][VALID[2]], atol=TOLERANCE)


def test_packed_rows_give_the_logits_of_unpacked_rows():
    config = TIED
    expected = reference_logits(config)
    # One row: example 1, padding 0, then examples 0 and 2, in segments 1, 2 and 3.
    order = (1, 0, 2)
    inputs = np.concatenate([INPUTS[i][INPUTS[i] > 0] for i in order])
    targets = np.concatenate([TARGETS[i][VALID[i]] for i in order])
    decoder_inputs = np.concatenate([shift_right(TARGETS)[i][VALID[i]] for i in order])
    input_segments = np.repeat([1, 2, 3], [(INPUTS[i] > 0).sum() for i in order])
    target_segments = np.repeat([1, 2, 3], [VALID[i].sum() for i in order])
    packed = [
        np.pad(x, (0, 3))[None].astype(np.int32)
        for x in (inputs, targets, decoder_inputs, input_segments, target_segments)
    ]
    inputs, targets, decoder_inputs, *segments = packed
    module, params = model_and_params(config)
    model_logits = logits(module, params, inputs, targets, decoder_inputs, tuple(segments))[0]
    for segment, i in enumerate(order, start=1):
        np.testing.assert_allclose(
            model_logits[packed[4][0] == segment], expected[i][VALID[i]], atol=TOLERANCE
        )
    as_one = tuple(np.minimum(x, 1) for x in segments)
    unsegmented = logits(module, params, inputs, targets, decoder_inputs, as_one)[0]
    assert not np.allclose(unsegmented[packed[4][0] == 2], expected[0][VALID[0]], atol=0.1)


def test_soft_prompts_refuse_packed_inputs():
    module, params = model_and_params(PROMPTS)
    segments = (np.ones_like(INPUTS), np.ones_like(TARGETS))
    with pytest.raises(ConfigError, match="packed inputs: set PACK = False"):
        logits(module, params, INPUTS, TARGETS, None, segments)
    with pytest.raises(ConfigError, match="packed inputs: set PACK = False"):
        logits(module, params, INPUTS, TARGETS, None, (None, segments[1]))


@pytest.mark.slow
def test_scanned_and_rematerialised_layers_have_the_same_gradients():
    config = TINY.replace(num_decoder_layers=1)
    module, params = model_and_params(config)
    scanned = Transformer(config.replace(scan_layers=True, remat_policy="minimal"))
    loss, gradients = loss_and_gradients(module, params)
    scanned_loss, scanned_gradients = loss_and_gradients(scanned, stack_layers(params))
    np.testing.assert_allclose(scanned_loss, loss, rtol=1e-6)
    assert_trees_close(scanned_gradients, stack_layers(gradients), rtol=1e-4)


@functools.cache
def gradients_with_dropout(policy):
    params = model_and_params(SMALL)[1]
    return loss_and_gradients(Transformer(SMALL.replace(remat_policy=policy)), params, KEYS[0])


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["minimal", "full"])
def test_remat_gives_the_same_gradients_with_the_same_dropout(policy):
    loss, gradients = gradients_with_dropout("none")
    remat_loss, remat_gradients = gradients_with_dropout(policy)
    np.testing.assert_allclose(remat_loss, loss, rtol=1e-6)
    assert_trees_close(remat_gradients, gradients, rtol=1e-4)


def test_remat_keeps_fewer_residuals():
    params = model_and_params(SMALL)[1]

    def residual_bytes(policy):
        module = Transformer(SMALL.replace(remat_policy=policy))
        apply = functools.partial(module.apply, enable_dropout=False)
        _, pullback = jax.eval_shape(
            lambda p: jax.vjp(lambda p: apply({"params": p}, INPUTS, TARGETS, TARGETS), p), params
        )
        return sum(np.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(pullback))

    assert residual_bytes("full") < residual_bytes("minimal") < residual_bytes("none")


def test_bfloat16_is_near_float32():
    expected = reference_logits(TIED)
    module = Transformer(TIED.replace(dtype="bfloat16"))
    model_logits = logits(module, model_and_params(TIED)[1], INPUTS, TARGETS)
    assert model_logits.dtype == jnp.float32
    # bfloat16 keeps 8 bits; over the layers errors add up to a few percent of the spread.
    error = np.abs(model_logits - expected)[VALID]
    assert 1e-4 < error.mean() < 0.03 * expected[VALID].std()


def test_dropout_only_where_enabled_and_reproducible_from_the_key():
    module, params = model_and_params(TIED)

    @jax.jit
    def run(key):
        rngs = None if key is None else {"dropout": key}
        arguments = (INPUTS, shift_right(TARGETS), TARGETS)
        return module.apply({"params": params}, *arguments, enable_dropout=True, rngs=rngs)

    first = run(KEYS[0])
    np.testing.assert_array_equal(first, run(KEYS[0]))
    assert not np.allclose(first, run(KEYS[1]), atol=0.1)
    assert not np.allclose(first, reference_logits(TIED), atol=0.1)
    with pytest.raises(InvalidRngError):
        run(None)


def random_draws(jaxpr):
    """Returns the shapes of draws of random bits; those in a scan as often as it turns."""
    shapes = []
    for equation in jaxpr.eqns:
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                shapes += random_draws(inner) * equation.params.get("length", 1)
        if equation.primitive.name == "random_bits":
            shapes.append(equation.outvars[0].aval.shape)
    return shapes


@pytest.mark.parametrize("scan", [False, True], ids=["unrolled", "scanned"])
def test_dropout_stands_where_t5x_has_it_with_one_draw_a_layer(scan):
    module = Transformer(TINY.replace(scan_layers=scan))
    params = model_and_params()[1]
    params = stack_layers(params) if scan else params

    def run(params, key):
        return module.apply({"params": params}, INPUTS, TARGETS, TARGETS, rngs={"dropout": key})

    draws = random_draws(jax.make_jaxpr(run)(params, jax.random.key(0)).jaxpr)
    (rows, inputs), targets = INPUTS.shape, TARGETS.shape[1]
    width, hidden, heads = TINY.emb_dim, TINY.mlp_dim, TINY.num_heads
    # In a layer: outputs of attention and feed-forward, its inner units, attention weights.
    encoder_layer = 2 * width + hidden + heads * inputs
    decoder_layer = 3 * width + hidden + heads * (targets + inputs)
    layers = [(rows, encoder_layer)] * 2 + [(rows, decoder_layer)] * 2
    # Around the layers: embeddings and the last norm, after the encoder for each position.
    around = [(rows, 1, width)] * 3 + [(rows, inputs, width)]
    assert sorted(draws) == sorted(layers + around)


@pytest.mark.parametrize("broadcast", [True, False])
def test_scanned_layers_drop_the_same_values(broadcast):
    config = TINY.replace(dropout_rate=0.3, broadcast_dropout=broadcast)
    params = model_and_params()[1]

    def run(scan):
        model = Transformer(config.replace(scan_layers=scan))
        given = stack_layers(params) if scan else params
        arguments = (INPUTS, shift_right(TARGETS), TARGETS)
        rngs = {"dropout": jax.random.key(0)}
        return jax.jit(lambda p: model.apply({"params": p}, *arguments, rngs=rngs))(given)

    apart = run(scan=False)
    np.testing.assert_allclose(run(scan=True), apart, atol=TOLERANCE)
    assert not np.allclose(apart, reference_logits(TINY), atol=0.1)


def test_tied_output_is_the_embedding_over_the_root_of_the_width():
    module, params = model_and_params(TIED)
    embedding = params["token_embedder"]["embedding"]
    hidden = 2.0 * np.eye(8, dtype=np.float32)[None, 3:4]
    model_logits = apply(module, params, hidden, method="logits")
    np.testing.assert_allclose(model_logits[0, 0], 2.0 * embedding[:, 3] / np.sqrt(8.0), rtol=1e-6)
    assert "logits_dense" not in params["decoder"]


def test_separate_output_is_its_own_kernel_unscaled():
    module, params = model_and_params(TINY)
    hidden = 2.0 * np.eye(8, dtype=np.float32)[None, 3:4]
    model_logits = apply(module, params, hidden, method="logits")
    kernel = params["decoder"]["logits_dense"]["kernel"]
    np.testing.assert_allclose(model_logits[0, 0], 2.0 * kernel[3], rtol=1e-6)
    np.testing.assert_array_equal(apply(module, params, method="output_layer").weights, kernel)


def test_soft_prompts_are_the_same_as_tokens_with_their_embeddings():
    module, params = model_and_params(PROMPTS)
    bare = {name: part for name, part in params.items() if not name.endswith("_prompt")}
    first, second = rows(3, seed=11), rows(2, seed=12)
    embedding = params["token_embedder"]["embedding"]
    prompts = {"encoder_prompt": first, "decoder_prompt": second}
    prompts = {name: {"embedding": embedding[tokens[0]]} for name, tokens in prompts.items()}
    model_logits = logits(module, bare | prompts, INPUTS, TARGETS)
    assert np.abs(model_logits - reference_logits(PROMPTS))[VALID].max() > 0.1

    def behind(prompt, tokens):
        return np.concatenate([prompt.repeat(3, axis=0), tokens], axis=1)

    targets = behind(second, TARGETS)
    inputs = (behind(first, INPUTS), targets, behind(second, shift_right(TARGETS)))
    expected = logits(Transformer(SMALL), bare, *inputs)[:, 2:]
    np.testing.assert_allclose(model_logits[VALID], expected[VALID], atol=TOLERANCE)


def test_attention_mask_by_hand():
    query = jnp.array([[True, True, False]])
    key = jnp.array([[True, True, True, False]])
    expected = [[1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0]]
    mask = AttentionMask(Tokens(query), Tokens(key))
    np.testing.assert_array_equal(mask.whole()[0, 0], expected)
    segments = jnp.array([[1, 2, 0]]), jnp.array([[1, 2, 2, 0]])
    mask = AttentionMask(Tokens(query, segments[0]), Tokens(key, segments[1]))
    np.testing.assert_array_equal(mask.whole()[0, 0], [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]])
