"""Which responses ended by themselves."""

import jax
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout

from faith_jax.decoding import refilling
from faith_jax.decoding.config import DecodingConfig, PMIConfig
from faith_jax.inference.batch_decoder import BatchDecoder, _with_formats
from faith_jax.models.partitioning import make_partitioner
from tests.models import families, tiny
from tests.quick import slow_except

# One layer: more would only compile for longer.
T5 = tiny.TINY.replace(num_encoder_layers=1, num_decoder_layers=1)
GPT2 = families.GPT2.replace(num_decoder_layers=1)
INPUTS = [[5, 6, 7], [9, 4], [3, 8, 20, 21]]


def decoded(config, inputs=INPUTS, **options):
    module, params = tiny.model_and_params(config)
    decoding = DecodingConfig(**options)
    return BatchDecoder(module, make_partitioner(config), decoding, 3)(params, inputs)


def test_a_response_is_finished_where_the_model_ends_it():
    """The end token is the model's own third token, and then one that it never writes."""
    whole = [row[0] for row in decoded(GPT2, max_length=6, eos_id=-1)]
    assert [len(row.tokens) for row in whole] == [6, 6, 6]
    assert [row.finished for row in whole] == [False] * 3
    end = int(whole[0].tokens[2])
    # At the limit, the end token counts where the model wrote it, not where it is forced.
    limit = 1 + int(np.flatnonzero(whole[0].tokens == end)[0])
    for row, response in zip(whole, decoded(GPT2, max_length=limit, eos_id=end), strict=True):
        places = np.flatnonzero(row.tokens[:limit] == end)
        assert len(response[0].tokens) == (places[0] + 1 if len(places) else limit)
        assert response[0].finished == bool(len(places))
    forced = decoded(GPT2, INPUTS[:1], max_length=4, eos_id=49, forced_eos_id=49)[0][0]
    assert (int(forced.tokens[-1]), forced.finished) == (49, False)


def test_each_of_several_responses_says_it():
    (row,) = decoded(GPT2, INPUTS[:1], max_length=5, num_beams=3, num_return=3)
    assert [sample.finished for sample in row] == [int(sample.tokens[-1]) == 1 for sample in row]


def test_seeds_share_programs():
    module, params = tiny.model_and_params(GPT2)
    decoding = DecodingConfig(max_length=6, eos_id=-1, temperature=1.0)
    partitioner, samples = make_partitioner(GPT2), []
    for seed in (0, 1, 2**32 - 1):
        decoder = BatchDecoder(module, partitioner, decoding, 1, seed)  # places are refilled
        samples.append([rows[0].tokens.tolist() for rows in decoder(params, INPUTS)])
        assert bool(decoder.num_compilations) == (seed == 0)
    assert samples[0] != samples[1] != samples[2] != samples[0]


def test_how_parameters_lie_changes_nothing():
    module, params = tiny.model_and_params(GPT2)
    partitioner = make_partitioner(GPT2)
    params = partitioner.put(params, partitioner.replicated)
    decoder = BatchDecoder(module, partitioner, DecodingConfig(max_length=5), 3)
    expected = decoder(params, INPUTS)
    assert decoder.laid_out(params, 4) is params  # on a CPU

    def columns_first(x):
        order = tuple(reversed(range(x.ndim)))
        return Format(Layout(major_to_minor=order), x.sharding)

    formats = jax.tree.map(columns_first, params)
    placed_params = partitioner.put(jax.device_get(params), partitioner.replicated)
    placed = _with_formats(placed_params, formats)
    assert jax.tree.map(np.shape, placed) == jax.tree.map(np.shape, params)
    same = jax.tree.map(
        lambda x, f: x.format.layout.major_to_minor == f.layout.major_to_minor, placed, formats
    )
    assert all(jax.tree.leaves(same))
    for row, before in zip(decoder(placed, INPUTS), expected, strict=True):
        np.testing.assert_array_equal(row[0].tokens, before[0].tokens)
        np.testing.assert_allclose(row[0].log_prob, before[0].log_prob, rtol=1e-6)


DRAFTS = {"speculation": "ngram", "draft_length": 2}
REFILLED = {
    "t5": (T5, {"no_repeat_ngram": 2, **DRAFTS}),
    "gpt2": (families.GPT2, {}),
    "sampling": (T5, {"temperature": 1.0, "num_return": 2}),
    "prompts": (
        T5.replace(scan_layers=True, encoder_prompt_length=3, decoder_prompt_length=2),
        {"pmi": PMIConfig(p=1.0), **DRAFTS},
    ),
}


@pytest.mark.parametrize("case", slow_except(REFILLED, ["t5"]))
def test_rows_that_take_places_of_others_have_the_same_responses(case, monkeypatch):
    """As decoded one by one, whatever the other rows and the lengths of inputs and cache are."""
    config, options = REFILLED[case]
    lengths = [5, 8] if case == "prompts" else [8]  # of caches, without those of drafts
    monkeypatch.setattr(refilling, "cache_lengths", lambda most: [*lengths[:-1], most])
    rng = np.random.default_rng(4)
    inputs = [rng.integers(3, 50, size).tolist() for size in [3, 26, 5, 2, 27, 9, 30, 4, 6, 28, 2]]
    second = [row[: len(row) // 2 + 1] for row in inputs]
    second[-1] *= 9  # longer than all that come first
    module, params = tiny.model_and_params(config)
    decoding = DecodingConfig(max_length=8, eos_id=tuple(range(9)), **options)
    partitioner = make_partitioner(config)
    decoder = BatchDecoder(module, partitioner, decoding, 4, seed=2)
    done = []
    responses = decoder(params, inputs, range(5, 5 + len(inputs)), second, done.append)
    assert sum(done) == len(inputs)
    assert len(done) > 3
    # Programs: reading four inputs of 32 tokens, one of 16, placing it, and the decoding loop; with
    # two lengths of the cache, the last two again, and one that extends the cache.
    assert decoder.num_compilations <= 4 + 3 * (len(lengths) - 1)
    alone = BatchDecoder(module, partitioner, decoding, 1, seed=2)
    for number, rows in enumerate(responses):
        (expected,) = alone(params, inputs[number : number + 1], [5 + number], second[number:])
        for row, expected_row in zip(rows, expected, strict=True):
            np.testing.assert_array_equal(row.tokens, expected_row.tokens)
            np.testing.assert_allclose(row.log_prob, expected_row.log_prob, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(row.score, expected_row.score, rtol=1e-4, atol=1e-5)
    assert len({len(row.tokens) for rows in responses for row in rows}) > 1
