"""Soft prompts, scanned layers and rematerialisation, in every family."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.models.transformer import Transformer, parameter_shapes
from tests.models import families, tiny
from tests.quick import slow_except

FAMILIES = families.FAMILIES
PROMPT = np.array([11, 40, 23])
LENGTHS = (7, 3, 5)


@functools.partial(jax.jit, static_argnums=0)
def computed(module, params, tokens, decoder_tokens):
    """Returns logits, or an encoder's hidden states; [batch, prompt + length, …] if of `tokens`."""
    variables = {"params": params}
    call = functools.partial(module.apply, variables)
    config, encoded, inputs = module.config, None, None
    if not config.is_decoder_only:
        inputs = (tokens, tokens[:, :4]) if config.knowledge_attention else tokens
        encoded = call(inputs, None, False, method="encode")
        if config.is_encoder_only:
            return encoded
    hidden = call(encoded, inputs, decoder_tokens, enable_dropout=False, method="decode_hidden")
    return call(hidden, method="logits")


def tokens_of(config, seed=0):
    """Returns encoder tokens [3, 7], padded, and decoder tokens [3, 7]."""
    tokens = tiny.rows(*LENGTHS, seed=seed)
    encoder = np.where(tokens == 0, config.pad_id, tokens)
    return encoder, tiny.rows(7, 7, 7, seed=seed + 1)


def behind(tokens):
    """Returns tokens with the prompt's tokens in front."""
    return np.concatenate([np.broadcast_to(PROMPT, (len(tokens), 3)), tokens], axis=1)


def with_prompt(params, name, tokens=PROMPT):
    """Returns parameters with a prompt that is the embeddings of the prompt's tokens."""
    return dict(params) | {name: {"embedding": params["token_embedder"]["embedding"][tokens]}}


# Mistral has all that Llama has, and Gemma 2 all of Gemma.
DISTINCT = [name for name in FAMILIES if name not in ("llama", "gemma")]


@pytest.mark.parametrize("name", slow_except(DISTINCT, ["gpt2", "gemma2", "roberta", "doha"]))
def test_a_prompt_of_embeddings_is_those_tokens_in_front(name):
    config = FAMILIES[name]
    module, params = tiny.model_and_params(config)
    encoder, decoder = tokens_of(config)
    if config.is_decoder_only:
        prompt = "decoder_prompt"
        expected = computed(module, params, encoder, behind(decoder))[:, 3:]
    elif name == "doha":
        prompt = "encoder_prompt"
        expected = doha_behind_a_prompt(module, params, encoder, decoder)
    else:
        prompt = "encoder_prompt"
        expected = computed(module, params, behind(encoder), decoder)
    prompted = type(module)(config.replace(**{f"{prompt}_length": 3}))
    found = computed(prompted, with_prompt(params, prompt), encoder, decoder)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    other = with_prompt(params, prompt, PROMPT[::-1])
    moved = computed(prompted, other, encoder, decoder)
    assert np.abs(found[:, 0] - moved[:, 0]).max() > 1e-3  # the prompt matters


@functools.partial(jax.jit, static_argnums=0)
def doha_behind_a_prompt(module, params, encoder, decoder):
    """Each of the two inputs has the prompt in front."""
    call = functools.partial(module.apply, {"params": params})
    prompt = jnp.broadcast_to(PROMPT, (len(encoder), 3))
    pair = tuple(jnp.concatenate([prompt, x], axis=1) for x in (encoder, encoder[:, :4]))
    encoded = call(pair, None, False, method="encode")
    hidden = call(encoded, pair, decoder, enable_dropout=False, method="decode_hidden")
    return call(hidden, method="logits")


def test_a_decoder_prompt_stands_in_front_of_the_start():
    config = FAMILIES["bart"]
    module, params = tiny.model_and_params(config)
    encoder, decoder = tokens_of(config)
    prompted = type(module)(config.replace(decoder_prompt_length=3))
    found = computed(prompted, with_prompt(params, "decoder_prompt"), encoder, decoder)
    expected = computed(module, params, encoder, behind(decoder))[:, 3:]
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("name", ["roberta", "deberta_v1"])
def test_the_head_reads_the_first_token_behind_a_prompt(name):
    config = FAMILIES[name]
    module, params = tiny.model_and_params(config)
    encoder, _ = tokens_of(config)
    prompted = type(module)(config.replace(encoder_prompt_length=3))
    found = tiny.apply(
        prompted,
        with_prompt(params, "encoder_prompt"),
        encoder,
        enable_dropout=False,
        method="classify",
    )
    hidden = computed(module, params, behind(encoder), encoder)

    def head(module, hidden):
        return module.classifier(hidden, deterministic=True)

    expected = module.apply({"params": params}, hidden[:, 3], method=head)
    np.testing.assert_allclose(found, expected, atol=2e-5)


SCANNED = [n for n in DISTINCT if n not in ("doha", "albert", "roberta", "deberta", "modernbert")]


@pytest.mark.parametrize("name", slow_except(SCANNED, ["bloom", "gemma2", "bart", "deberta_v1"]))
def test_scanned_and_rematerialised_layers_compute_the_same(name):
    config = FAMILIES[name]
    module, params = tiny.model_and_params(config)
    encoder, decoder = tokens_of(config)
    # The shapes of the test of prompts, for which the model is compiled already.
    if config.is_decoder_only:
        decoder = behind(decoder)
    else:
        encoder = behind(encoder)
    expected = computed(module, params, encoder, decoder)
    scanned = type(module)(config.replace(scan_layers=True, remat_policy="full"))
    found = computed(scanned, tiny.stack_layers(params), encoder, decoder)
    # Logits reach 13: 4e-5 is what another order of sums makes of them on some processors.
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize(
    "config",
    [
        families.GEMMA2.replace(sliding_window=2, sliding_window_layers=(1,)),
        families.MODERNBERT.replace(first_norm=True, sliding_window_layers=(1,)),
        families.T5GEMMA.replace(sliding_window=2, sliding_window_layers=(1,)),
    ],
    ids=["causal", "bidirectional", "both"],
)
def test_windows_of_a_scan_are_those_of_their_own_layers(config):
    """A window in layer 1 only: the scan must not give it to the others."""
    module, params = tiny.model_and_params(config)
    encoder, decoder = tokens_of(config)
    scanned = type(module)(config.replace(scan_layers=True))
    found = computed(scanned, tiny.stack_layers(params), encoder, decoder)
    np.testing.assert_allclose(found, computed(module, params, encoder, decoder), atol=2e-5)
    other = type(module)(config.replace(scan_layers=True, sliding_window_layers=(0,)))
    moved = computed(other, tiny.stack_layers(params), encoder, decoder)
    assert np.abs(moved - found).max() > 1e-3


@pytest.mark.parametrize("name", ["gemma2", "bloom"])
def test_packed_sequences_do_not_see_each_other(name):
    """Two sequences in one row, told apart by their segments, equal two rows."""
    config = FAMILIES[name]
    module, params = tiny.model_and_params(config)
    first, second = tiny.rows(5, seed=1), tiny.rows(4, seed=2)
    packed = np.concatenate([first, second], axis=1)
    segments = np.array([[1] * 5 + [2] * 4])
    hidden = tiny.apply(
        module,
        params,
        None,
        None,
        packed,
        packed,
        None,
        segments,
        enable_dropout=False,
        method="decode_hidden",
    )
    for tokens, part in ((first, hidden[:, :5]), (second, hidden[:, 5:])):
        alone = tiny.apply(
            module, params, None, None, tokens, enable_dropout=False, method="decode_hidden"
        )
        np.testing.assert_allclose(part, alone, atol=2e-5)


T5 = tiny.TINY.replace(encoder_prompt_length=2, decoder_prompt_length=3)
ONE = {"num_encoder_layers": 1, "num_decoder_layers": 1}
LONG = {"t5": T5.replace(**ONE), "deberta": FAMILIES["deberta"]} | {
    name: FAMILIES[name].replace(decoder_prompt_length=3) for name in ("bloom", "gemma2")
}
LONG["modernbert"] = FAMILIES["modernbert"]
LONG["deberta_v1"] = FAMILIES["deberta_v1"]
LONG["doha"] = FAMILIES["doha"].replace(**ONE)
LONG["t5gemma"] = FAMILIES["t5gemma"].replace(encoder_prompt_length=2)


@functools.partial(jax.jit, static_argnums=0)
def outputs_and_gradients(module, params, tokens, decoder_tokens):
    """Returns outputs [rows, length, …], and the gradients of a weighted sum of them."""

    def total(params):
        found = computed(module, params, tokens, decoder_tokens)
        return jnp.sum(jnp.sin(jnp.arange(found.size)).reshape(found.shape) * found), found

    (_, found), gradients = jax.value_and_grad(total, has_aux=True)(params)
    return found, gradients


@pytest.mark.parametrize("name", slow_except(LONG, ["t5", "gemma2"]))
def test_attention_by_blocks_computes_the_same(name):
    module, params = tiny.model_and_params(LONG[name])
    encoder, decoder = tokens_of(module.config)
    if not module.config.is_decoder_only:
        decoder = np.repeat(decoder, 2, axis=0)  # two rows share an encoder's
    expected, gradients = outputs_and_gradients(module, params, encoder, decoder)
    blocks = module.config.replace(attention_block_length=4)
    if name == "gemma2":  # windows of a scan are given to the layers as numbers
        blocks = blocks.replace(scan_layers=True, remat_policy="full")
        params, gradients = tiny.stack_layers(params), tiny.stack_layers(gradients)
    found, found_gradients = outputs_and_gradients(type(module)(blocks), params, encoder, decoder)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    assert not np.array_equal(found, expected)  # other sums of the same numbers
    for one, other in zip(
        jax.tree.leaves(found_gradients), jax.tree.leaves(gradients), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-5 * (2.0 + np.abs(other).max()))


@pytest.mark.parametrize(
    "config",
    [
        families.MODERNBERT.replace(sliding_window_layers=(0, 1, 2), num_encoder_layers=2),
        # Beside a decoder, a window of 3 has 2 tokens on each side.
        families.T5GEMMA.replace(sliding_window_layers=(0,), num_encoder_layers=1),
    ],
    ids=["alone", "beside a decoder"],
)
def test_a_window_of_an_encoder_is_around_each_query(config):
    """A token changes the states of its neighbours alone."""
    module, params = tiny.model_and_params(config)
    tokens = tiny.rows(20, seed=1)
    changed = tokens.copy()
    changed[0, 10] += 1
    for block_length in (0, 4):
        module = type(module)(config.replace(attention_block_length=block_length))
        states = [
            tiny.apply(module, params, rows, enable_dropout=False, method="encode")
            for rows in (tokens, changed)
        ]
        moved = np.abs(np.subtract(*states))[0].max(axis=-1) > 1e-6
        np.testing.assert_array_equal(np.flatnonzero(moved), [8, 9, 10, 11, 12])


def test_each_stack_has_its_own_embedding():
    config = families.T5GEMMA
    module, params = tiny.model_and_params(config)
    encoder, decoder = tokens_of(config)
    expected = computed(module, params, encoder, decoder)
    assert params["token_embedder"]["embedding"].shape == (config.vocab_size, config.emb_dim)
    both = dict(params) | {"token_embedder": params["decoder"]["token_embedder"]}
    assert np.abs(computed(module, both, encoder, decoder) - expected).max() > 1e-2
    one = {**both, "decoder": {k: v for k, v in params["decoder"].items() if k != "token_embedder"}}
    shared = type(module)(config.replace(decoder_embedding=False))
    np.testing.assert_allclose(
        computed(shared, one, encoder, decoder), computed(module, both, encoder, decoder), atol=1e-6
    )


def test_the_mean_of_a_text_is_of_its_own_tokens():
    """Rows alone, padded, packed into a line, and behind a soft prompt."""
    config = families.MODERNBERT
    module, params = tiny.model_and_params(config)
    texts = [tiny.rows(length, seed=length)[0] for length in (7, 3, 5)]
    hidden = [computed(module, params, text[None], text[None])[0] for text in texts]

    def head(module, states):
        return module.classifier(states, deterministic=True)

    means = np.stack([np.mean(states, axis=0) for states in hidden])
    expected = module.apply({"params": params}, means, method=head)
    padded = np.full((3, 9), config.pad_id)
    for row, text in zip(padded, texts, strict=True):
        row[: len(text)] = text
    logits = tiny.apply(module, params, padded, enable_dropout=False, method="classify")
    np.testing.assert_allclose(logits, expected, atol=2e-5)
    line = np.concatenate([*texts, [config.pad_id] * 3])[None]
    segments = np.repeat([1, 2, 3, 0], [7, 3, 5, 3])[None]
    packed = (line, segments, None, np.array([[0, 7, 10, 0]]))
    logits = tiny.apply(module, params, *packed, method="classify_packed")
    np.testing.assert_allclose(logits[0, :3], expected, atol=2e-5)
    # Each text behind the places of a prompt of two vectors, which are no tokens of it.
    prompted = type(module)(config.replace(encoder_prompt_length=2))
    with_vectors = with_prompt(params, "encoder_prompt", PROMPT[:2])
    alone = tiny.apply(prompted, with_vectors, padded, enable_dropout=False, method="classify")
    roomy = np.concatenate([np.concatenate([[9, 9], text]) for text in texts])[None]
    packed = (roomy, np.repeat([1, 2, 3], [9, 5, 7])[None], None, np.array([[2, 11, 16]]))
    logits = tiny.apply(prompted, with_vectors, *packed, method="classify_packed")
    np.testing.assert_allclose(logits[0], alone, atol=2e-5)
    assert np.abs(alone - expected).max() > 1e-3


@pytest.mark.parametrize("name", ["bloom", "gemma2"])
def test_prefill_by_blocks_gives_the_next_tokens_logits(name):
    config = LONG[name].replace(attention_block_length=4)
    module, params = tiny.model_and_params(config)
    tokens = tiny.rows(*LENGTHS, seed=1)

    def step(module, params):
        variables = {"params": params}
        collections = ["cache", "prefix_cache"]
        arguments = (tokens, jnp.array(LENGTHS) - 1, 2)
        _, caches = module.apply(variables, *arguments, method="prefill", mutable=collections)
        last = tokens[np.arange(3), np.array(LENGTHS) - 1]
        found, _ = module.apply(
            variables | caches, None, last, method="decode_step", mutable=["cache"]
        )
        return found

    found = jax.jit(step, static_argnums=0)(module, params)
    plain = type(module)(config.replace(attention_block_length=0))
    expected = computed(plain, params, None, tokens)
    expected = np.asarray(expected)[np.arange(3), np.array(LENGTHS) - 1]
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t5", "bloom", "gemma2", "deberta", "deberta_v1"])
def test_memory_of_attention_by_blocks_grows_with_the_length(name):
    config = LONG[name].replace(scan_layers=True, max_positions=0, attention_block_length=256)
    module = Transformer(config)
    params = parameter_shapes(module)["params"]

    def temporaries(length):
        tokens = jax.ShapeDtypeStruct((1, length), jnp.int32)

        def total(params, tokens):
            return jnp.sum(hidden_states(module, params, tokens))

        compiled = jax.jit(jax.grad(total)).lower(params, tokens).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    # Four times the length: plain attention would need 16 times as much.
    assert temporaries(4096) < 4.4 * temporaries(1024)


def hidden_states(module, params, tokens):
    """Returns the last hidden states [1, length, embed] of the same tokens in each stack."""
    config, encoded = module.config, None
    call = functools.partial(module.apply, {"params": params})
    inputs = (tokens, tokens) if config.knowledge_attention else tokens
    if not config.is_decoder_only:
        encoded = call(inputs, None, False, method="encode")
    if config.is_encoder_only:
        return encoded
    return call(encoded, inputs, tokens, enable_dropout=False, method="decode_hidden")
