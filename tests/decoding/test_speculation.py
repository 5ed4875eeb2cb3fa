"""Drafts only change the number of tokens per step, not the tokens."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.decoding.config import DecodingConfig, PMIConfig
from faith_jax.decoding.generation import attach_memory, for_model, generate, read, row_keys
from faith_jax.decoding.search import decode
from faith_jax.decoding.speculation import LONGEST_NGRAM, ngram_draft
from tests.models import families, tiny
from tests.quick import slow_except

LENGTH, ROWS = 12, 6


def plain_draft(source, response, count):
    """The definition of drafts for one row, in plain Python."""
    best, end = 0, None
    for place in range(len(source)):
        size = 0
        while (
            size < min(LONGEST_NGRAM, len(response), place + 1)
            and source[place - size] == response[-1 - size]
        ):
            size += 1
        if size > best:
            best, end = size, place
    drafted = [] if end is None else source[end + 1 : end + 1 + count]
    return [*drafted, *[-1] * (count - len(drafted))]


@pytest.mark.parametrize("count", [1, 3])
def test_a_draft_is_what_follows_the_longest_ngram_in_the_source(count):
    rng = np.random.default_rng(0)
    source, responses = rng.integers(0, 3, (200, 9)), rng.integers(0, 3, (200, 7))
    lengths, sizes = rng.integers(0, 8, 200), rng.integers(1, 10, 200)
    responses[:20] = 5  # which no source has
    source[np.arange(9) >= sizes[:, None]] = -1
    drafts = jax.jit(ngram_draft, static_argnums=3)(source, responses, lengths, count)
    expected = [
        plain_draft(s[:n].tolist(), r[:m].tolist(), count)
        for s, n, r, m in zip(source, sizes, responses, lengths, strict=True)
    ]
    np.testing.assert_array_equal(drafts, expected)
    assert np.mean(np.asarray(drafts)[20:, 0] >= 0) > 0.4


def copying_model(config):
    """A model that mostly writes token n + 1 after token n, for any input.

    The last token, through the residual connections, matters more than the layers.
    """
    module, params = tiny.model_and_params(config)
    params = jax.tree.map(np.asarray, params)  # a copy
    if "logits_dense" not in params["decoder"]:
        return module, params
    embedding = np.random.default_rng(0).normal(size=(config.vocab_size, config.emb_dim))
    embedding = np.float32(embedding / np.linalg.norm(embedding, axis=1, keepdims=True))
    params["token_embedder"]["embedding"] = 8 * embedding
    # Column n + 1 is the direction of token n.
    params["decoder"]["logits_dense"]["kernel"] = np.roll(embedding, 1, axis=0).T
    return module, params


T5 = tiny.TINY.replace(num_encoder_layers=1, num_decoder_layers=1, emb_dim=32)
CASES = {
    "causal": T5.replace(num_encoder_layers=0),
    "t5": T5,
    "prompts": T5.replace(encoder_prompt_length=3, decoder_prompt_length=2, scan_layers=True),
    "gpt2": families.GPT2.replace(num_decoder_layers=1),
    "bfloat16": T5.replace(dtype="bfloat16"),
}


@functools.partial(jax.jit, static_argnums=(0, 3))
def decoded(module, params, inputs, config, seed=0):
    keys = row_keys(seed, jnp.arange(ROWS))
    branches = [inputs, inputs[:, :3]]
    if module.config.is_decoder_only:
        lengths = jnp.sum(inputs > 0, axis=1)
        branches = [(inputs, lengths), (jnp.roll(inputs, -1, axis=1), jnp.maximum(lengths - 1, 1))]
    return generate(module, params, branches[: 1 + bool(config.pmi)], keys, config)


def steps_of(module, params, inputs, config):
    """Counts the steps of a search."""
    steps = []
    memories = read(module, params, [inputs], config.cache_length)
    model = attach_memory(module, params, *memories)

    def step(tokens, cache):
        jax.debug.callback(lambda: steps.append(1))
        return model.step(tokens, cache)

    keys = row_keys(0, jnp.arange(ROWS))
    config = for_model(config, module)
    result = decode(model._replace(step=step), keys, config)
    jax.block_until_ready(result)
    jax.effects_barrier()
    return len(steps)


SEARCHES = {
    "greedy": {},
    "sampling": {"temperature": 0.7, "top_p": 0.95},
    "samples": {"temperature": 1.0, "num_return": 2},
    "limits": {
        "min_length": 5,
        "no_repeat_ngram": 2,
        "forced_bos_id": 7,
        "forced_eos_id": 1,
        "pmi": PMIConfig(alpha=0.3, p=0.9),
    },
    "pmi": {"pmi": PMIConfig(alpha=0.3, p=0.9)},
}
QUICK = [("causal", "sampling")]
PAIRS = [*QUICK, ("gpt2", "limits"), ("t5", "samples"), ("prompts", "pmi"), ("bfloat16", "greedy")]


@pytest.mark.parametrize(("case", "search"), slow_except(PAIRS, QUICK))
def test_speculation_selects_the_same_tokens(case, search):
    config = CASES[case]
    module, params = copying_model(config)
    # In the order in which the model writes them.
    inputs = (3 + 6 * np.arange(ROWS)[:, None] + np.arange(8)).astype(np.int32) % config.vocab_size
    inputs[1::2, 5:] = max(config.pad_id, 0)
    plain = DecodingConfig(max_length=LENGTH, eos_id=(9, 20), **SEARCHES[search])
    drafting = DecodingConfig(
        max_length=LENGTH, eos_id=(9, 20), speculation="ngram", draft_length=3, **SEARCHES[search]
    )
    expected = decoded(module, params, inputs, plain)
    result = decoded(module, params, inputs, drafting)
    np.testing.assert_array_equal(result.tokens, expected.tokens)
    np.testing.assert_array_equal(result.length, expected.length)
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if case == "bfloat16" else {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(result.log_prob, expected.log_prob, **tolerance)
    np.testing.assert_allclose(result.score, expected.score, **tolerance)


@pytest.mark.slow
def test_what_copies_takes_fewer_steps():
    module, params = copying_model(CASES["t5"])
    inputs = np.tile(np.arange(3, 23, dtype=np.int32), (ROWS, 1))
    options = {"max_length": LENGTH, "eos_id": -1, "forced_bos_id": 3}
    assert steps_of(module, params, inputs, DecodingConfig(**options)) == LENGTH
    drafting = DecodingConfig(speculation="ngram", draft_length=3, **options)
    # The first token has nothing to look up; each further step gives up to four.
    assert steps_of(module, params, inputs, drafting) <= 5


@functools.partial(jax.jit, static_argnums=(0, 3))
def sampled(module, params, inputs, config):
    keys = row_keys(3, jnp.arange(len(inputs)))
    return generate(module, params, [inputs], keys, config).tokens


@pytest.mark.parametrize("rank", [0, 1])
def test_samples_have_the_models_distribution_whatever_the_draft(rank):
    """The second token is sampled from two, and the draft is the better or the worse of them."""
    module, params = tiny.model_and_params(T5.replace(emb_dim=8))
    count, first = 2000, 7
    # The logits depend on the input: this searches for an input that drafts the token of this rank.
    pairs = itertools.product(range(3, 50), range(3, 20))
    rows = np.asarray(
        [[first, drafted, alternative, 11] for drafted, alternative in pairs], np.int32
    )
    targets = np.full((len(rows), 2), first, np.int32)
    table = np.asarray(tiny.logits(module, params, rows, targets))[:, 1]
    drafts = np.argsort(-table, axis=1)[:, rank] == rows[:, 1]
    row, logits = rows[drafts][0], table[drafts][0]
    best, second = np.argsort(-logits)[:2]
    share = 1 / (1 + np.exp(logits[second] - logits[best]))
    options = {"max_length": 2, "temperature": 1.0, "top_k": 2, "eos_id": -1}
    config = DecodingConfig(forced_bos_id=first, speculation="ngram", draft_length=1, **options)
    drawn = np.asarray(sampled(module, params, np.tile(row, (count, 1)), config))[:, 1]
    assert set(np.unique(drawn)) == {best, second}
    # Four standard errors.
    error = 4 * np.sqrt(share * (1 - share) / count)
    np.testing.assert_allclose(np.mean(drawn == best), share, atol=error)


def test_beams_are_not_drafted():
    with pytest.raises(ConfigError, match="speculation: expected None with num_beams = 2"):
        DecodingConfig(num_beams=2, speculation="ngram")
