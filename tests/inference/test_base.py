"""Options of decoding in both kinds of generating models."""

import jax
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.decoding.config import DecodingConfig, PMIConfig
from faith_jax.decoding.generation import row_keys
from faith_jax.inference import CausalModel, EncoderDecoderModel
from tests.models import families, tiny

TOKENS = np.array([[5, 6]])


@pytest.fixture(scope="module", params=["causal", "encoder_decoder"])
def model(request):
    """A model for tests of errors only, without parameters."""
    if request.param == "causal":
        return CausalModel(families.GPT2, {})
    return EncoderDecoderModel(tiny.TINY, {})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"max_lenght": 3},
            r"^decoding: there is no option 'max_lenght'\. Did you mean 'max_length'.*\? The "
            r"options: seed, max_length, temperature, .*, num_return, pmi, speculation, "
            r"draft_length\.$",
        ),
        ({"zzz": 1}, r"^decoding: there is no option 'zzz'\. The options: seed, max_length"),
        (
            {"alpha": 0.5},
            r"^decoding: there is no option 'alpha'\. It is one of PMI-Decode: decode_pmi\(…, "
            r"pmi=PMIConfig\(alpha=…\)\)\.$",
        ),
        (
            {"num_return_sequences": 2},
            r"^decoding: there is no option 'num_return_sequences'\. Here it is 'num_return'\.$",
        ),
        (
            {"do_sample": True},
            r"^decoding: there is no option 'do_sample'\. A temperature above 0 samples\.$",
        ),
        (
            {"repetition_penalty": 1.2},
            r"^decoding: there is no option 'repetition_penalty'\. Hugging Face's option of this "
            r"name has no counterpart here\.$",
        ),
        ({"pmi": {"alpha": 1}}, r"pmi: expected a PMIConfig or None, got {'alpha': 1}"),
        ({"seed": "x"}, r"^decoding: seed: expected a whole number from 0 to 2\*\*32 - 1, got 'x'"),
        ({"seed": 2**32}, rf"seed: expected .*, got {2**32}"),
        (
            {"eos_id": 50},
            r"eos_id: expected tokens below the model's vocabulary size of 50, got 50",
        ),
        ({"pad_id": 50}, r"pad_id: expected tokens below the model's vocabulary size"),
    ],
)
def test_wrong_options_are_named(model, options, message):
    assert model.config.vocab_size == 50
    options = {"max_length": 2} | options
    for call in (
        lambda: model.generate(TOKENS, **options),
        lambda: model.decode(TOKENS, **options),
        lambda: model.decode_pmi(TOKENS, TOKENS, **options),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_an_encoder_decoder_has_no_lengths():
    model = EncoderDecoderModel(tiny.TINY, {})
    with pytest.raises(
        ConfigError, match=r"'input_lengths'\. An encoder-decoder's inputs end where"
    ):
        model.decode(TOKENS, input_lengths=[2])


def test_pmi_belongs_to_decode_pmi_alone(model):
    with pytest.raises(ConfigError, match=r"pmi = PMIConfig\(.*\); expected None: .* decode_pmi"):
        model.decode(TOKENS, pmi=PMIConfig())
    with pytest.raises(ConfigError, match=r"pmi = None; expected a PMIConfig, or call decode\."):
        model.decode_pmi(TOKENS, TOKENS, pmi=None)


def test_the_last_token_of_the_vocabulary_may_end_rows():
    config = tiny.TINY.replace(num_encoder_layers=1, num_decoder_layers=1)
    module, params = tiny.model_and_params(config)
    options = {"max_length": 2, "eos_id": (49, -1), "pad_id": 48}
    first = EncoderDecoderModel(module.config, params).generate(TOKENS, **options)[0, 0]
    assert first != 49
    kernel = params["decoder"]["logits_dense"]["kernel"].copy()
    kernel[:, [first, 49]] = kernel[:, [49, first]]  # the first token is now the last one's number
    renamed = params | {"decoder": params["decoder"] | {"logits_dense": {"kernel": kernel}}}
    result = EncoderDecoderModel(module.config, renamed).decode(TOKENS, **options)
    assert np.asarray(result.tokens).tolist() == [[49, 48]]
    assert result.length.tolist() == [1]
    with pytest.raises(ConfigError, match="vocabulary size of 49"):
        DecodingConfig(eos_id=(49, -1)).check_vocabulary(49)


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, np.int64(7)])
def test_keys_are_those_of_the_rows(model, seed, monkeypatch):
    monkeypatch.setattr(model, "_run_compiled", lambda function, branches, keys, config: keys)
    key_data = jax.random.key_data(model.decode(np.tile(TOKENS, (3, 1)), seed=seed, max_length=5))
    np.testing.assert_array_equal(key_data, jax.random.key_data(row_keys(int(seed), np.arange(3))))
    assert len(np.unique(key_data, axis=0)) == 3
