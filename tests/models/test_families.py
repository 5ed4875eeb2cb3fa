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
    """Returns logits or an encoder's hidden states: [batch, prompt + length, …]."""
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


def shallow(config):
    """Returns the same model with one layer per stack."""
    return config.replace(
        num_encoder_layers=min(1, config.num_encoder_layers),
        num_decoder_layers=min(1, config.num_decoder_layers),
        sliding_window_layers=(0,) if config.sliding_window else (),
    )


@pytest.mark.parametrize(
    "name",
    slow_except(["gemma2", "doha", "bloom", "modernbert", "albert", "deberta_v1"], ["gemma2"]),
)
def test_a_prompt_of_embeddings_is_those_tokens_in_front(name):
    config = shallow(FAMILIES[name])
    module, params = tiny.model_and_params(config)
    encoder, decoder = tokens_of(config)
    prompt = "decoder_prompt" if config.is_decoder_only else "encoder_prompt"
    if config.is_decoder_only:
        expected = computed(module, params, encoder, behind(decoder))[:, 3:]
    elif name == "doha":
        expected = doha_behind_a_prompt(module, params, encoder, decoder)
    else:
        expected = computed(module, params, behind(encoder), decoder)
    prompted = type(module)(config.replace(**{f"{prompt}_length": 3}))
    outputs = computed(prompted, with_prompt(params, prompt), encoder, decoder)
    np.testing.assert_allclose(outputs, expected, atol=2e-5)
    reversed_params = with_prompt(params, prompt, PROMPT[::-1])
    moved = computed(prompted, reversed_params, encoder, decoder)
    assert np.abs(outputs[:, 0] - moved[:, 0]).max() > 1e-3  # the prompt matters


@functools.partial(jax.jit, static_argnums=0)
def doha_behind_a_prompt(module, params, encoder, decoder):
    """Each of the two inputs has the prompt in front."""
    call = functools.partial(module.apply, {"params": params})
    prompt = jnp.broadcast_to(PROMPT, (len(encoder), 3))
    pair = tuple(jnp.concatenate([prompt, x], axis=1) for x in (encoder, encoder[:, :4]))
    encoded = call(pair, None, False, method="encode")
    hidden = call(encoded, pair, decoder, enable_dropout=False, method="decode_hidden")
    return call(hidden, method="logits")


def classified(module, params, tokens):
    return tiny.apply(module, params, tokens, enable_dropout=False, method="classify")


@functools.partial(jax.jit, static_argnums=0)
def head(module, params, states):
    """Returns the classes of states [texts, embed]."""

    def of(module, states):
        return module.classifier(states, deterministic=True)

    return module.apply({"params": params}, jnp.asarray(states), method=of)


def test_the_head_reads_the_first_token_behind_a_prompt():
    config = shallow(FAMILIES["roberta"])
    module, params = tiny.model_and_params(config)
    encoder, _ = tokens_of(config)
    prompted = type(module)(config.replace(encoder_prompt_length=3))
    logits = classified(prompted, with_prompt(params, "encoder_prompt"), encoder)
    hidden = computed(module, params, behind(encoder), encoder)
    np.testing.assert_allclose(logits, head(module, params, hidden[:, 3]), atol=2e-5)


# A window in layer 1 only: the scan must not give it to the others.
WINDOW = {"sliding_window": 2, "sliding_window_layers": (1,)}
SCANNED = {
    "gemma2": families.GEMMA2.replace(**WINDOW),
    "t5gemma": families.T5GEMMA.replace(**WINDOW),
    "deberta_v1": families.DEBERTA_V1,
    "bloom": families.BLOOM,
    "bart": families.BART,
    "umt5": families.UMT5,
    "modernbert": families.MODERNBERT.replace(
        first_norm=True, sliding_window_layers=(1,), num_encoder_layers=2
    ),
}


@pytest.mark.parametrize("name", slow_except(SCANNED, ["gemma2", "deberta_v1"]))
def test_scanned_and_rematerialised_layers_compute_the_same(name):
    config = SCANNED[name]
    module, params = tiny.model_and_params(config)
    tokens = tokens_of(config)
    expected = computed(module, params, *tokens)
    scanned = config.replace(scan_layers=True, remat_policy="full")
    outputs = computed(type(module)(scanned), tiny.stack_layers(params), *tokens)
    # Logits reach 13: 4e-5 is what another order of sums makes of them on some processors.
    np.testing.assert_allclose(outputs, expected, atol=1e-4)
    if name == "gemma2":
        windowed = type(module)(scanned.replace(sliding_window_layers=(0,)))
        moved = computed(windowed, tiny.stack_layers(params), *tokens)
        assert np.abs(moved - outputs).max() > 1e-3


@pytest.mark.parametrize("name", ["gemma2", "bloom"])
def test_packed_sequences_do_not_see_each_other(name):
    """Two sequences in one row, told apart by their segments, equal two rows."""
    module, params = tiny.model_and_params(shallow(FAMILIES[name]))
    first, second = tiny.rows(5, seed=1)[0], tiny.rows(4, seed=2)[0]
    tokens, segments = np.zeros((2, 3, 9), np.int32)
    for row, (texts, numbers) in enumerate(
        [((first, second), (1, 2)), ((first,), (1,)), ((second,), (1,))]
    ):
        line = np.concatenate(texts)
        tokens[row, : len(line)] = line
        segments[row, : len(line)] = np.repeat(numbers, [len(text) for text in texts])
    arguments = (None, None, tokens, tokens, None, segments)
    packed, *alone = tiny.apply(
        module, params, *arguments, enable_dropout=False, method="decode_hidden"
    )
    np.testing.assert_allclose(packed[:5], alone[0][:5], atol=2e-5)
    np.testing.assert_allclose(packed[5:], alone[1][:4], atol=2e-5)


LONG = {
    "t5": shallow(tiny.TINY).replace(encoder_prompt_length=2, decoder_prompt_length=3),
    # Windows of a scan are given to the layers as numbers.
    "gemma2": families.GEMMA2.replace(decoder_prompt_length=3, scan_layers=True),
    "modernbert": shallow(families.MODERNBERT),
    "deberta_v1": shallow(families.DEBERTA_V1),
    "doha": shallow(families.DOHA),
    "umt5": shallow(families.UMT5),
}


@functools.partial(jax.jit, static_argnums=0)
def outputs_and_gradients(module, params, tokens, decoder_tokens):
    """Returns outputs [rows, length, …], and the gradients of a weighted sum of them."""

    def total(params):
        outputs = computed(module, params, tokens, decoder_tokens)
        return jnp.sum(jnp.sin(jnp.arange(outputs.size)).reshape(outputs.shape) * outputs), outputs

    (_, outputs), gradients = jax.value_and_grad(total, has_aux=True)(params)
    return outputs, gradients


@pytest.mark.parametrize("name", slow_except(LONG, ["gemma2"]))
def test_attention_by_blocks_computes_the_same(name):
    config = LONG[name]
    module, params = tiny.model_and_params(config.replace(scan_layers=False))
    params = tiny.stack_layers(params) if config.scan_layers else params
    encoder, decoder = tokens_of(config)
    if not config.is_decoder_only:
        decoder = np.repeat(decoder, 2, axis=0)  # two rows share an encoder's
    expected, gradients = outputs_and_gradients(type(module)(config), params, encoder, decoder)
    blocks = config.replace(attention_block_length=4)
    if config.scan_layers:
        blocks = blocks.replace(remat_policy="full")
    output, found_gradients = outputs_and_gradients(type(module)(blocks), params, encoder, decoder)
    np.testing.assert_allclose(output, expected, atol=2e-5)
    assert not np.array_equal(output, expected)  # other sums of the same numbers
    for grad, plain in zip(
        jax.tree.leaves(found_gradients), jax.tree.leaves(gradients), strict=True
    ):
        np.testing.assert_allclose(grad, plain, atol=1e-5 * (2.0 + np.abs(plain).max()))


@pytest.mark.parametrize(
    # In a model with a decoder, an encoder's window of 3 has 2 tokens on each side.
    ("config", "near"),
    [(families.MODERNBERT, [10, 11, 12]), (families.T5GEMMA, [9, 10, 11, 12, 13])],
    ids=["alone", "beside a decoder"],
)
def test_a_window_of_an_encoder_is_around_each_query(config, near):
    """A token only changes the states of its neighbours."""
    config = shallow(config)
    module, params = tiny.model_and_params(config)
    tokens = tiny.rows(20, seed=1).repeat(2, axis=0)
    tokens[1, 11] += 1  # the last of a block
    for block_length in (0, 4):
        module = type(module)(config.replace(attention_block_length=block_length))
        states = tiny.apply(module, params, tokens, enable_dropout=False, method="encode")
        states = np.asarray(states)
        moved = np.abs(states[0] - states[1]).max(axis=-1) > 1e-6
        np.testing.assert_array_equal(np.flatnonzero(moved), near)


def test_each_stack_has_its_own_embedding():
    config = shallow(families.T5GEMMA)
    module, params = tiny.model_and_params(config)
    tokens = tokens_of(config)
    expected = computed(module, params, *tokens)
    assert params["token_embedder"]["embedding"].shape == (config.vocab_size, config.emb_dim)
    both = dict(params) | {"token_embedder": params["decoder"]["token_embedder"]}
    logits = computed(module, both, *tokens)
    assert np.abs(logits - expected).max() > 1e-2
    common = {
        **both,
        "decoder": {k: v for k, v in params["decoder"].items() if k != "token_embedder"},
    }
    shared = type(module)(config.replace(decoder_embedding=False))
    np.testing.assert_allclose(computed(shared, common, *tokens), logits, atol=1e-6)


def test_the_mean_of_a_text_is_of_its_own_tokens():
    """Rows alone, padded, packed into a line, and after a soft prompt."""
    config = shallow(families.MODERNBERT)
    module, params = tiny.model_and_params(config)
    lengths = (7, 3, 5)
    padded = np.where(rows := tiny.rows(*lengths), rows, config.pad_id)
    texts = [row[:length] for row, length in zip(padded, lengths, strict=True)]
    hidden = np.asarray(computed(module, params, padded, padded))
    means = [states[:length].mean(axis=0) for states, length in zip(hidden, lengths, strict=True)]
    expected = head(module, params, means)
    np.testing.assert_allclose(classified(module, params, padded), expected, atol=2e-5)
    line = np.concatenate([*texts, [config.pad_id] * 3])[None]
    segments = np.repeat([1, 2, 3, 0], [*lengths, 3])[None]
    packed = (line, segments, None, np.array([[0, 7, 10, 0]]))
    logits = tiny.apply(module, params, *packed, method="classify_packed")
    np.testing.assert_allclose(logits[0, :3], expected, atol=2e-5)
    # Each text after the positions of a prompt of two vectors, which are not its tokens.
    prompted = type(module)(config.replace(encoder_prompt_length=2))
    with_vectors = with_prompt(params, "encoder_prompt", PROMPT[:2])
    alone = classified(prompted, with_vectors, padded)
    roomy = np.concatenate([np.concatenate([[9, 9], text]) for text in texts])[None]
    packed = (roomy, np.repeat([1, 2, 3], [9, 5, 7])[None], None, np.array([[2, 11, 16]]))
    logits = tiny.apply(prompted, with_vectors, *packed, method="classify_packed")
    np.testing.assert_allclose(logits[0], alone, atol=2e-5)
    assert np.abs(alone - expected).max() > 1e-3


def test_a_decoder_reads_each_text_to_its_last_end_token():
    """Rows alone, padded, and packed into a line."""
    config = shallow(families.BART_NLI)
    module, params = tiny.model_and_params(config)
    lengths = (7, 3, 5)
    padded = np.where(rows := tiny.rows(*lengths), rows, config.pad_id)
    for row, length in zip(padded, lengths, strict=True):
        row[[1, length - 1]] = config.eos_ids[0]
    shifted = np.pad(padded[:, :-1], ((0, 0), (1, 0)), constant_values=config.decoder_start_id)
    hidden = decoded(module, params, padded, shifted)
    expected = head(module, params, hidden[np.arange(3), np.array(lengths) - 1])
    np.testing.assert_allclose(classified(module, params, padded), expected, atol=2e-5)
    texts = [row[:length] for row, length in zip(padded, lengths, strict=True)]
    line = np.concatenate([*texts, [config.pad_id] * 3])[None]
    segments = np.repeat([1, 2, 3, 0], [*lengths, 3])[None]
    packed = (line, segments, None, np.array([[0, 7, 10, 0]]))
    logits = tiny.apply(module, params, *packed, method="classify_packed")
    np.testing.assert_allclose(logits[0, :3], expected, atol=2e-5)
    assert np.ptp(expected, axis=0).min() > 1e-3


@functools.partial(jax.jit, static_argnums=0)
def decoded(module, params, tokens, decoder_tokens):
    """Returns the decoder's last states."""
    call = functools.partial(module.apply, {"params": params}, enable_dropout=False)
    encoded = call(tokens, method="encode")
    return call(encoded, tokens, decoder_tokens, method="decode_hidden")


def test_prefill_by_blocks_gives_the_next_tokens_logits():
    config = shallow(families.GEMMA2).replace(decoder_prompt_length=3)
    module, params = tiny.model_and_params(config.replace(attention_block_length=4))
    encoder, _ = tokens_of(config)
    tokens, ends = tiny.rows(*LENGTHS, seed=1), np.array(LENGTHS) - 1
    last = tokens[np.arange(3), ends]

    @jax.jit
    def step(params):
        variables = {"params": params}
        collections = ["cache", "prefix_cache"]
        _, caches = module.apply(
            variables, tokens, jnp.array(ends), 2, method="prefill", mutable=collections
        )
        return module.apply(variables | caches, last, method="decode_step", mutable=["cache"])[0]

    expected = np.asarray(computed(type(module)(config), params, encoder, tokens))
    np.testing.assert_allclose(step(params), expected[np.arange(3), ends], atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t5", "gemma2"])
def test_memory_of_attention_by_blocks_grows_with_the_length(name):
    config = LONG[name].replace(scan_layers=True, max_positions=0, attention_block_length=256)
    module = Transformer(config)
    params = parameter_shapes(module)["params"]

    def temporaries(length):
        tokens = jax.ShapeDtypeStruct((1, length), jnp.int32)

        def total(params, tokens):
            call, encoded, inputs = functools.partial(module.apply, {"params": params}), None, None
            if not config.is_decoder_only:
                encoded, inputs = call(tokens, None, False, method="encode"), tokens
            options = {"enable_dropout": False, "method": "decode_hidden"}
            return jnp.sum(call(encoded, inputs, tokens, **options))

        compiled = jax.jit(jax.grad(total)).lower(params, tokens).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    # Four times the length: plain attention would need 16 times as much.
    assert temporaries(4096) < 4.4 * temporaries(1024)
