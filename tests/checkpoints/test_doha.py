import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.checkpoints.checkpoint import Checkpoint, check_params, flatten, unflatten
from faith_jax.checkpoints.doha import COPIED, doha_from_bart
from faith_jax.checkpoints.hugging_face.folder import write_huggingface
from faith_jax.checkpoints.native import write_native
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.errors import CheckpointError, InputError
from faith_jax.inference import EncoderDecoderModel
from tests.models import families, tiny

BART = families.BART.replace(num_decoder_layers=1)
PAD = BART.pad_id


def rows(*lengths, seed=0):
    tokens = tiny.rows(*lengths, seed=seed)
    return np.where(tokens == 0, PAD, tokens)


CONTEXTS, KNOWLEDGE = rows(6, 2, 4, seed=1), rows(3, 8, 5, seed=2)


@pytest.fixture(scope="module")
def bart():
    return Checkpoint(BART, tiny.model_and_params(BART)[1], {"source": "bart"})


@pytest.fixture(scope="module")
def trained(bart):
    """A DoHA whose knowledge attention is no longer a copy."""
    checkpoint = doha_from_bart(bart)
    rng = np.random.default_rng(5)
    params = {
        name: np.float32(x + rng.normal(size=x.shape)) if "knowledge" in name else x
        for name, x in flatten(checkpoint.params).items()
    }
    return dataclasses.replace(checkpoint, params=unflatten(params))


@pytest.mark.parametrize("scanned", [False, True])
def test_the_knowledge_attention_begins_as_a_copy(bart, scanned):
    if scanned:
        params = tiny.stack_layers(bart.params)
        bart = Checkpoint(BART.replace(scan_layers=True), params)
    doha = doha_from_bart(bart)
    check_params(doha.config, doha.params)
    before, after = flatten(bart.params), flatten(doha.read().params)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)
    new = set(after) - set(before)
    parts = {part for name in new for part in name.split("/")}
    assert {"knowledge_attention", "post_knowledge_attention_layer_norm"} <= parts
    of_ours = {ours: source for source, ours in COPIED.items()}
    for name in new:
        first = "/".join(of_ours.get(part, part) for part in name.split("/"))
        np.testing.assert_array_equal(after[name], before[first])
        assert not np.shares_memory(after[name], before[first])
    assert len(new) == 4 * 2 + 2


def test_a_decoder_layer_attends_to_both_inputs_in_turn(bart):
    """The first layer in parts: the second attention continues from the output of the first."""
    module, params = tiny.model_and_params(BART)
    doha = doha_from_bart(bart)
    logits = EncoderDecoderModel(doha.config, doha.params).logits(
        (CONTEXTS, KNOWLEDGE), CONTEXTS[:, :2]
    )
    with jax.numpy_rank_promotion("allow"):  # written as the formulas are
        expected = jax.jit(by_its_parts, static_argnums=0)(module, params)
    np.testing.assert_allclose(logits, expected, atol=1e-4)


def by_its_parts(module, params):
    """Logits of a DoHA with one decoder layer, written out after its self-attention."""

    def encode(tokens):
        return module.apply({"params": params}, tokens, None, False, method="encode")

    def keep(layer_module, _):
        return layer_module.name == "post_self_attention_layer_norm"

    _, state = module.apply(
        {"params": params},
        encode(CONTEXTS),
        CONTEXTS,
        CONTEXTS[:, :2],
        enable_dropout=False,
        method="decode_hidden",
        capture_intermediates=keep,
        mutable=["intermediates"],
    )
    layer = state["intermediates"]["decoder"]["layers_0"]
    x = layer["post_self_attention_layer_norm"]["__call__"][0]
    weights = params["decoder"]["layers_0"]
    for tokens in (CONTEXTS, KNOWLEDGE):
        attended = cross_attention(x, encode(tokens), tokens != PAD, weights)
        x = normalised(x + attended, weights["post_cross_attention_layer_norm"])
    inner = x @ weights["mlp"]["wi"]["kernel"] + weights["mlp"]["wi"]["bias"]
    inner = jax.nn.gelu(inner, approximate=False)
    x = x + inner @ weights["mlp"]["wo"]["kernel"] + weights["mlp"]["wo"]["bias"]
    x = normalised(x, weights["post_mlp_layer_norm"])
    return x @ params["token_embedder"]["embedding"].T + params["decoder"]["logits_bias"]


def normalised(x, norm):
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * norm["scale"] + norm["bias"]


def cross_attention(x, encoded, valid, weights):
    """Head by head, with the parameters of the first cross-attention."""
    parts = weights["encoder_decoder_attention"]

    def projected(name, inputs):
        return inputs @ parts[name]["kernel"] + parts[name]["bias"]

    heads = []
    for head in range(BART.num_heads):
        part = slice(head * BART.head_dim, (head + 1) * BART.head_dim)
        query, key, value = (
            projected(name, source)[..., part]
            for name, source in (("query", x), ("key", encoded), ("value", encoded))
        )
        logits = jnp.einsum("bqd,bkd->bqk", query, key) * BART.attention_scale
        logits = jnp.where(valid[:, None], logits, -1e10)
        heads.append(jax.nn.softmax(logits) @ value)
    return projected("out", jnp.concatenate(heads, axis=-1))


def test_generation_follows_both_inputs(trained):
    model = EncoderDecoderModel(trained.config, trained.params)
    pair = (CONTEXTS, KNOWLEDGE)
    result = model.decode(pair, max_length=6, eos_id=-1)
    tokens = np.asarray(result.tokens)
    logits = model.logits(pair, np.pad(tokens[:, :-1], ((0, 0), (1, 0)), constant_values=2))
    np.testing.assert_array_equal(tokens, logits.argmax(-1))
    log_probs = np.take_along_axis(np.asarray(jax.nn.log_softmax(logits)), tokens[..., None], -1)
    np.testing.assert_allclose(log_probs[..., 0].sum(1), result.log_prob, rtol=1e-4)
    changed = model.logits((CONTEXTS, CONTEXTS), tokens)
    assert np.abs(changed - model.logits(pair, tokens)).max() > 1e-2
    beams = model.decode(pair, max_length=6, num_beams=3, num_return=3, length_penalty=0.0)
    assert np.all(np.diff(beams.score, axis=1) <= 0)
    # An example's beams are its own, wherever it stands in the batch.
    turned = model.decode(
        (CONTEXTS[::-1], KNOWLEDGE[::-1]),
        max_length=6,
        num_beams=3,
        num_return=3,
        length_penalty=0.0,
    )
    np.testing.assert_array_equal(turned.tokens[::-1], beams.tokens)


def test_what_is_exported_is_read_again(tmp_path, trained):
    write_huggingface(trained, tmp_path / "published")
    write_native(trained, tmp_path / "ours")
    for name in ("published", "ours"):
        exported = open_checkpoint(tmp_path / name)
        assert exported.config.knowledge_attention
        first, second = flatten(exported.params), flatten(trained.params)
        assert first.keys() == second.keys()
        assert all(np.array_equal(first[n], second[n]) for n in first)


def test_a_published_bart_becomes_doha(tmp_path, bart):
    write_huggingface(bart, tmp_path / "bart")
    doha = doha_from_bart(open_checkpoint(tmp_path / "bart"))
    write_huggingface(doha, tmp_path / "doha")
    assert open_checkpoint(tmp_path / "doha").config == doha.config
    with pytest.raises(CheckpointError, match="is DoHA already"):
        doha_from_bart(open_checkpoint(tmp_path / "doha"))


def test_a_model_without_cross_attention_is_refused():
    with pytest.raises(CheckpointError, match="0 encoder and 2 decoder layers"):
        doha_from_bart(Checkpoint(families.GPT2, {}))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (CONTEXTS, "expected a pair"),
        ((CONTEXTS,), "expected a pair"),
        ((CONTEXTS, KNOWLEDGE[:2]), "3 rows but the knowledge 2"),
        ((CONTEXTS, np.full((3, 41), 5)), "41 tokens do not fit the model's 40 positions"),
    ],
)
def test_wrong_pairs_are_named(trained, inputs, message):
    model = EncoderDecoderModel(trained.config, trained.params)
    with pytest.raises(InputError, match=message):
        model.decode(inputs, max_length=2)
    with pytest.raises(InputError, match="DoHA has two"):
        model.decode_pmi((CONTEXTS, KNOWLEDGE), CONTEXTS)
