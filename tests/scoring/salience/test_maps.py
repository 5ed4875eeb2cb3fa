import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.models.config import TransformerConfig
from faith_jax.models.transformer import output_layer
from faith_jax.scoring.salience.maps import salience_maps, target_logits
from tests.checkpoints import family_folders
from tests.models import tiny
from tests.quick import slow_except

RNG = np.random.default_rng(0)
SMALL = TransformerConfig(
    vocab_size=29,
    emb_dim=8,
    num_heads=2,
    num_encoder_layers=1,
    num_decoder_layers=1,
    head_dim=4,
    mlp_dim=12,
    mlp_activations=("gelu",),  # no kinks, which finite differences would straddle
)
GPT = SMALL.replace(
    num_encoder_layers=0, norm="layer", positions="learned", max_positions=32, pad_id=-1
)
TWO_LAYERS = {"num_decoder_layers": 2}
CONFIGS = {
    "prompts": SMALL.replace(encoder_prompt_length=3, decoder_prompt_length=2),
    "scanned": SMALL.replace(
        scan_layers=True, logits_via_embedding=True, logits_softcap=2.0, **TWO_LAYERS
    ),
    "doha": SMALL.replace(knowledge_attention=True),
    "two embeddings": SMALL.replace(
        decoder_embedding=True, logits_via_embedding=True, scale_embeddings=True
    ),
    "by blocks": SMALL.replace(attention_block_length=3),
    "gpt": GPT,
    "gpt with a prompt": GPT.replace(decoder_prompt_length=3, **TWO_LAYERS),
}


def tokens(*shape):
    return RNG.integers(1, 29, shape).astype(np.int32)


def made(config):
    """A model with random parameters and a batch of two rows."""
    module, params = tiny.model_and_params(config, seed=1)
    inputs = tokens(2, 6)
    inputs[1, 4:] = 0
    if config.knowledge_attention:
        inputs = (inputs, tokens(2, 5))
    if config.is_decoder_only:
        inputs = None
    return module, params, inputs, tokens(2, 4), tokens(2, 4)


QUICK = ("two embeddings", "gpt")


@functools.partial(jax.jit, static_argnums=0)
def logits_of_embeddings(module, params, inputs, encoder, decoder, targets):
    """The whole logits, and of them the targets' [batch, length]."""
    variables = {"params": params}
    encoded = jax.tree.map(
        lambda e, t: module.apply(
            variables, t, enable_dropout=False, embeddings=e, method="encode"
        ),
        encoder,
        inputs,
    )
    hidden = module.apply(
        variables,
        encoded,
        inputs,
        None,
        enable_dropout=False,
        embeddings=decoder,
        method="decode_hidden",
    )
    logits = module.apply(variables, hidden, method="logits")
    return jnp.take_along_axis(logits, targets[..., None], 2)[..., 0]


@functools.partial(jax.jit, static_argnums=0)
def embedded(module, params, tokens):
    """The embeddings of the encoder's tokens and of the decoder's."""

    def embed(method, tokens):
        return jax.tree.map(lambda t: module.apply({"params": params}, t, method=method), tokens)

    return (
        embed(lambda m, t: m.token_embedder(t), tokens[0]),
        embed(lambda m, t: m.decoder_embedder(t), tokens[1]),
    )


@pytest.mark.parametrize("name", slow_except(CONFIGS, QUICK))
def test_equals_finite_differences(name):
    module, params, inputs, fed, targets = made(CONFIGS[name])
    maps = jax.device_get(salience_maps(module, params, inputs, fed, targets))
    leaves, tree = jax.tree.flatten(jax.device_get(embedded(module, params, (inputs, fed))))
    step = 3e-3
    for number, (leaf, gradient) in enumerate(zip(leaves, jax.tree.leaves(maps), strict=True)):
        for place in range(leaf.shape[1]):
            # Gradient x input is the slope along the embedding itself.
            ends = []
            for factor in (1 + step, 1 - step):
                moved = [*leaves]
                moved[number] = leaf.copy()
                moved[number][:, place] *= np.float32(factor)
                found_logits = logits_of_embeddings(
                    module, params, inputs, *tree.unflatten(moved), targets
                )
                ends.append(np.asarray(found_logits))
            slope = (ends[0] - ends[1]) / (2 * step)
            np.testing.assert_allclose(
                gradient[:, place], slope, atol=2e-3 * max(1, np.abs(slope).max())
            )
    later = np.tril(np.ones((4, 4), bool), -1)  # inputs behind the token have none, nor has padding
    assert not maps.decoder[:, later].any()
    assert maps.decoder[:, ~later].any()
    if isinstance(inputs, np.ndarray):
        assert maps.encoder.shape == (2, 6, 4)
        assert not maps.encoder[1, 4:].any()


def test_columns_that_are_not_wanted_are_zero():
    module, params, inputs, fed, targets = made(CONFIGS["gpt"])
    whole = salience_maps(module, params, inputs, fed, targets)
    for together in (1, None):
        for count in (0, 3):
            some = salience_maps(
                module, params, inputs, fed, targets, max_bytes=together, num_columns=count
            )
            for a, b in zip(*map(jax.tree.leaves, (whole, some)), strict=True):
                np.testing.assert_allclose(a[..., :count], b[..., :count], atol=1e-4)
                if together == 1 or count == 0:  # else a pass has columns beyond the count
                    assert not np.asarray(b[..., count:]).any()


@pytest.mark.parametrize("name", ["two embeddings", "scanned"])
def test_target_logits_are_those_of_all_logits(name):
    module, params, *_ = made(CONFIGS[name])
    hidden = RNG.normal(size=(2, 3, 8)).astype(np.float32)
    layer, targets = output_layer(module, params), tokens(2, 3)
    whole = np.take_along_axis(np.asarray(layer.logits(hidden)), targets[..., None], 2)[..., 0]
    np.testing.assert_allclose(target_logits(layer, hidden, targets), whole, atol=1e-5)


@pytest.mark.slow
def test_numbers_of_64_bits_change_nothing():
    module, params, *tokens = made(SMALL)
    expected = salience_maps(module, params, *tokens)
    with jax.enable_x64(True):
        maps = salience_maps(module, params, *tokens)
    for salience, expected_map in zip(*map(jax.tree.leaves, (maps, expected)), strict=True):
        np.testing.assert_allclose(salience, expected_map, atol=1e-5)


def test_an_unknown_method_is_named():
    with pytest.raises(ConfigError, match="expected one of gradient_x_input, gradient_l2, got 'x'"):
        salience_maps(*made(SMALL), method="x")


def test_parity_of_norms(tmp_path):
    model, stored = family_folders.load_case(tmp_path, "t5_v1_0")
    batch = [stored[f"{part}_tokens"] for part in ("encoder_input", "decoder_input")]
    batch.append(stored["decoder_target_tokens"])
    counts = (stored["decoder_target_tokens"] > 0)[:, None, :]
    norms = salience_maps(model.module, model.params, *batch, "gradient_l2")
    expected = stored["salience_encoder_l2"] * counts
    # Gradients of these random models reach 800: 1e-4 of a map's largest entry.
    atol = 1e-4 * max(1.0, expected.max())
    np.testing.assert_allclose(norms.encoder * counts, expected, atol=atol)
