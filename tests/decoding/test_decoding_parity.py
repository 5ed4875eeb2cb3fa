"""Beam search against Hugging Face's: the stored results, and Transformers itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.decoding.config import DecodingConfig
from faith_jax.decoding.generation import generate, row_keys
from faith_jax.inference import load_model
from tests.checkpoints import family_folders

MAX_LENGTH = 9
VOCAB = 24
# Early stopping, length penalty, beams, number of end tokens and minimum length.
CASES = [
    (False, 1.0, 4, 1, 0),
    (True, 1.0, 4, 1, 0),
    ("never", 1.0, 4, 1, 0),
    (False, 0.0, 2, 2, 0),
    ("never", 0.0, 3, 2, 0),
    (True, 2.0, 3, 2, 0),
    ("never", 0.5, 5, 3, 0),
    (False, -1.0, 5, 2, 4),
    ("never", -1.0, 2, 2, 0),
    (True, 0.0, 6, 3, 3),
]

INPUTS = np.random.default_rng(4).integers(2, VOCAB, (6, 7)).astype(np.int32)
INPUTS[3:, 5:] = 0
KEYS = row_keys(0, jnp.arange(len(INPUTS)))

generated = jax.jit(generate, static_argnums=(0, 4))


def test_beam_search_finds_the_stored_tokens(tmp_path):
    model, expected = family_folders.load_case(tmp_path, "t5_v1_1")
    inputs = expected["encoder_input_tokens"]
    config = DecodingConfig(max_length=8, num_beams=4, length_penalty=0.0)
    keys = row_keys(0, jnp.arange(len(inputs)))
    result = generated(model.module, model.params, [inputs], keys, config)
    np.testing.assert_array_equal(result.tokens, expected["beam4_tokens"])
    # Sums of eight tokens: 1e-4 each is far more than float32 costs.
    np.testing.assert_allclose(result.log_prob, expected["beam4_score"], atol=1e-4, rtol=1e-5)
    np.testing.assert_array_equal(result.score, result.log_prob)


@pytest.fixture(scope="module", params=range(2))
def models(request, tmp_path_factory):
    """A random T5 in Transformers, and the same model in ours."""
    torch = pytest.importorskip("torch", reason="the extra `parity` is not installed")
    transformers = pytest.importorskip("transformers", reason="the extra `parity` is not installed")
    torch.manual_seed(request.param)
    config = transformers.T5Config(
        vocab_size=VOCAB,
        d_model=16,
        d_kv=4,
        d_ff=32,
        num_layers=2,
        num_heads=4,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
        decoder_start_token_id=0,
    )
    model = transformers.T5ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(
                torch.randn_like(weight) * (weight.shape[-1] ** -0.5 if weight.ndim > 1 else 0.5)
            )
        model.lm_head.weight.mul_(1.5)
    folder = tmp_path_factory.mktemp("t5")
    model.save_pretrained(folder)
    ours = load_model(str(folder))
    # Takes end tokens that occur: tokens in the middle of responses decoded without an end.
    free = DecodingConfig(max_length=6, num_beams=4, num_return=4, eos_id=-1)
    tokens = generated(ours.module, ours.params, INPUTS, KEYS, free).tokens
    ids, counts = np.unique(np.asarray(tokens)[:, :, 3:], return_counts=True)
    ends = [int(i) for i in ids[np.argsort(-counts, kind="stable")] if i > 0]
    return model, ours, ends


@pytest.mark.parametrize("case", CASES)
def test_beam_search_equals_that_of_transformers(models, case):
    torch_model, ours, ends = models
    rule, penalty, beams, num_ends, min_length = case
    config = DecodingConfig(
        max_length=MAX_LENGTH,
        min_length=min_length,
        num_beams=beams,
        num_return=beams,
        length_penalty=penalty,
        early_stopping=rule,
        eos_id=tuple(ends[:num_ends]),
    )
    result = generated(ours.module, ours.params, INPUTS, KEYS, config)
    sequences, scores = search_of_transformers(torch_model, config)
    np.testing.assert_array_equal(result.tokens, sequences)
    np.testing.assert_allclose(result.score, scores, atol=1e-4, rtol=1e-4)
    assert np.any(np.asarray(result.length) < MAX_LENGTH)  # end tokens do occur


def search_of_transformers(model, config):
    """Returns tokens [batch, beams, max_length] and scores [batch, beams]."""
    import torch

    tokens = torch.tensor(INPUTS, dtype=torch.long)
    outputs = model.generate(
        tokens,
        attention_mask=(tokens > 0).long(),
        max_new_tokens=config.max_length,
        # Theirs does not count the end token.
        min_new_tokens=max(0, config.min_length - 1) or None,
        num_beams=config.num_beams,
        num_return_sequences=config.num_beams,
        length_penalty=config.length_penalty,
        early_stopping=config.early_stopping,
        do_sample=False,
        eos_token_id=list(config.end_ids),
        pad_token_id=0,
        return_dict_in_generate=True,
        output_scores=True,
    )
    sequences = outputs.sequences.numpy()[:, 1:]
    sequences = np.pad(sequences, ((0, 0), (0, config.max_length - sequences.shape[1])))
    # Theirs fills up with the end token where padding is 0.
    ended = np.cumsum(np.isin(sequences, config.end_ids), axis=1)
    sequences = np.where(
        (ended > 1) | ((ended == 1) & ~np.isin(sequences, config.end_ids)), 0, sequences
    )
    shape = (len(INPUTS), config.num_beams)
    return sequences.reshape(*shape, -1), outputs.sequences_scores.numpy().reshape(shape)
