import jax
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.inference import EncoderModel
from tests.models import families, tiny

CONFIGS = {
    "roberta": families.ROBERTA.replace(num_encoder_layers=1, max_positions=24),
    "deberta": families.DEBERTA_V1.replace(num_encoder_layers=1),
}


WIDTHS = {"learned": 20, "disentangled": 60}


@pytest.fixture(scope="module", params=CONFIGS)
def model(request):
    config = CONFIGS[request.param]
    return EncoderModel(config, tiny.model_and_params(config)[1])


def rows(*lengths, pad_id, width=None):
    tokens = tiny.rows(*lengths, width=width, seed=1)
    return np.where(tokens == 0, pad_id, tokens)


def test_padding_and_other_rows_change_nothing(model):
    tokens = rows(13, 2, 7, pad_id=model.pad_id)
    logits = model.classify(tokens)
    assert logits.shape == (3, len(model.label_names))
    assert logits.dtype == np.float32
    wide = rows(13, 2, 7, width=WIDTHS[model.config.positions], pad_id=model.pad_id)
    np.testing.assert_allclose(model.classify(wide), logits, atol=1e-5)
    np.testing.assert_allclose(model.classify(tokens[[1, 1, 0]]), logits[[1, 1, 0]], atol=1e-5)
    assert np.ptp(logits, axis=0).min() > 1e-3  # the inputs matter


def test_hidden_states_have_the_length_of_the_inputs(model):
    tokens = rows(13, 2, 7, pad_id=model.pad_id)
    hidden = model.hidden_states(tokens)
    assert hidden.shape == (3, 13, model.config.emb_dim)
    # The head reads the first token's state.
    head = jax.tree.map(np.asarray, model.params["classifier"])
    inner = hidden[:, 0] @ head["dense"]["kernel"] + head["dense"]["bias"]
    is_roberta = model.config.positions == "learned"
    inner = np.tanh(inner) if is_roberta else np.asarray(jax.nn.gelu(inner, approximate=False))
    logits = inner @ head["out"]["kernel"] + head["out"]["bias"]
    np.testing.assert_allclose(model.classify(tokens), logits, atol=1e-5)


def test_a_model_without_a_head_cannot_classify():
    config = CONFIGS["roberta"].replace(label_names=())
    model = EncoderModel(config, tiny.model_and_params(config)[1])
    assert model.label_names == ()
    with pytest.raises(InputError, match="no classification head"):
        model.classify([[5, 6]])


def test_a_classifier_with_a_decoder_reads_an_end_token_and_writes_nothing():
    model = EncoderModel(families.BART_NLI, tiny.model_and_params(families.BART_NLI)[1])
    assert model.classify([[5, 6, 2], [5, 2, 1]]).shape == (2, 3)
    with pytest.raises(InputError, match="input_tokens: expected the end token 2 in each row"):
        model.classify([[5, 6, 2], [5, 6, 1]])
    with pytest.raises(ConfigError, match="or a classifier, which cannot generate"):
        model.respond("Is tea a leaf?")


@pytest.mark.parametrize("method", ["classify", "hidden_states"])
def test_wrong_inputs_are_named(model, method):
    with pytest.raises(InputError, match="token -1 at row 0, position 1"):
        getattr(model, method)([[1, -1]])


def test_inputs_beyond_the_position_table():
    config = CONFIGS["roberta"]
    model = EncoderModel(config, tiny.model_and_params(config)[1])
    assert model.classify(np.full((3, 24), 5)).shape == (3, 3)
    with pytest.raises(InputError, match="25 tokens do not fit the model's 24 positions"):
        model.classify(np.full((1, 25), 5))


def test_distances_have_no_end():
    """DeBERTa's table is of distances: beyond the last bucket all share it."""
    config = CONFIGS["deberta"]
    model = EncoderModel(config, tiny.model_and_params(config)[1])
    assert np.isfinite(model.classify(np.full((3, 60), 5))).all()
