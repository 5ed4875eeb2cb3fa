"""Cached decoding, with our and with T5X's calls, against teacher-forced logits."""

import functools

import jax
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.models.transformer import Transformer
from tests.models.tiny import TINY, apply, logits, model_and_params, rows, shift_right, stack_layers

INPUTS = rows(6, 2, seed=1)
TARGETS = rows(5, 5, seed=2)
STEPS = TARGETS.shape[1]
TOLERANCE = 1e-5


SMALL = TINY.replace(num_encoder_layers=1, num_decoder_layers=1, encoder_prompt_length=3)
expected_logits = functools.cache(lambda config: logits(*model_and_params(config), INPUTS, TARGETS))


@functools.partial(jax.jit, static_argnums=(0, 3))
def start(module, params, inputs, max_decode_length):
    encoded = module.apply({"params": params}, inputs, None, False, method="encode")
    _, caches = module.apply(
        {"params": params},
        encoded,
        inputs,
        max_decode_length,
        method="start_decoding",
        mutable=["cache", "encoder_cache"],
    )
    return caches


@functools.partial(jax.jit, static_argnums=0)
def step(module, variables, tokens):
    return module.apply(variables, tokens, method="decode_step", mutable=["cache"])


@functools.partial(jax.jit, static_argnums=0)
def t5x_step(module, variables, encoded, inputs, tokens):
    return module.apply(
        variables,
        encoded,
        inputs,
        tokens,
        tokens,
        enable_dropout=False,
        decode=True,
        max_decode_length=STEPS,
        mutable=["cache"],
        method="decode",
    )


def test_decode_steps_give_the_teacher_forced_logits():
    config = SMALL.replace(num_decoder_layers=2, decoder_prompt_length=2)
    module = Transformer(config.replace(scan_layers=True))
    params = stack_layers(model_and_params(config)[1])
    variables = {"params": params} | start(module, params, INPUTS, STEPS)
    assert int(variables["cache"]["decoder"]["cache_index"]) == 2
    decoder_inputs = shift_right(TARGETS)
    for i in range(STEPS):
        step_logits, updated = step(module, variables, decoder_inputs[:, i])
        np.testing.assert_allclose(step_logits, expected_logits(config)[:, i], atol=TOLERANCE)
        variables |= updated
    assert int(variables["cache"]["decoder"]["cache_index"]) == 2 + STEPS


@pytest.mark.parametrize("scan", [False, True])
def test_t5x_way_of_decoding_gives_the_teacher_forced_logits(scan):
    expected = expected_logits(SMALL)
    module, params = model_and_params(SMALL)
    if scan:
        module, params = Transformer(SMALL.replace(scan_layers=True)), stack_layers(params)
    assert module.scan_layers == scan  # T5X reads it to find the batch axis of the caches
    encoded = apply(module, params, INPUTS, enable_dropout=False, method="encode")
    make_cache = functools.partial(module.apply, decode=True, enable_dropout=False)
    all_ones = np.ones_like(TARGETS)
    _, variables = jax.jit(
        lambda p: make_cache({"params": p}, INPUTS, all_ones, all_ones, mutable=["cache"])
    )(params)
    assert set(variables) == {"cache"}
    variables |= {"params": params}
    decoder_inputs = shift_right(TARGETS)
    for i in range(STEPS):
        arguments = (encoded, INPUTS, decoder_inputs[:, i : i + 1])
        step_logits, updated = t5x_step(module, variables, *arguments)
        np.testing.assert_allclose(step_logits[:, 0], expected[:, i], atol=TOLERANCE)
        variables |= updated


def test_caches_have_the_batch_in_front_and_room_for_the_prompt():
    config = TINY.replace(encoder_prompt_length=3, decoder_prompt_length=2)
    module, params = model_and_params(config)
    caches = jax.eval_shape(functools.partial(start, module, max_decode_length=9), params, INPUTS)
    layer = caches["cache"]["decoder"]["layers_1"]["self_attention"]
    assert layer["cached_key"].shape == layer["cached_value"].shape == (2, 2, 2 + 9, 4)
    layer = caches["encoder_cache"]["decoder"]["layers_1"]["encoder_decoder_attention"]
    assert layer["key"].shape == layer["value"].shape == (2, 2, 3 + 6, 4)


def test_decode_step_refuses_to_run_without_its_caches():
    module, params = model_and_params(SMALL)
    caches = jax.eval_shape(functools.partial(start, module, max_decode_length=9), params, INPUTS)
    for name in ("cache", "encoder_cache"):
        variables = {"params": params} | {k: v for k, v in caches.items() if k != name}
        with pytest.raises(ValueError, match=rf"start_decoding makes; missing: \['{name}'\]"):
            jax.eval_shape(functools.partial(step, module), variables, TARGETS[:, 0])


def test_what_t5x_cannot_decode_is_refused():
    module, params = model_and_params(TINY.replace(decoder_prompt_length=2))
    encoded = np.zeros((2, 6, 8), np.float32)
    options = {"decode": True, "enable_dropout": False, "method": "decode", "mutable": ["cache"]}
    arguments = ({"params": params}, encoded, INPUTS, TARGETS, TARGETS)
    with pytest.raises(ConfigError, match="no place for a decoder prompt"):
        module.apply(*arguments, **options)
    module, params = model_and_params()
    segments = np.ones_like(TARGETS)
    arguments = ({"params": params}, *arguments[1:], np.ones_like(INPUTS), segments)
    with pytest.raises(ConfigError, match="Packed inputs cannot be decoded"):
        module.apply(*arguments, **options)
