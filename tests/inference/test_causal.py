import jax
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.inference import CausalModel, causal
from tests.models import families, tiny

CONFIG = families.GPT2.replace(num_decoder_layers=1, max_positions=24)
PADDED = families.LLAMA.replace(num_decoder_layers=1, decoder_prompt_length=2)
TOKENS = tiny.rows(13, 2, 7, seed=1)


@pytest.fixture(scope="module")
def model():
    return CausalModel(CONFIG, tiny.model_and_params(CONFIG)[1])


@pytest.fixture(scope="module")
def prompted():
    """A model with a padding token and a soft prompt."""
    return CausalModel(PADDED, tiny.model_and_params(PADDED)[1])


def test_a_model_shows_its_size(model):
    size = sum(leaf.size for leaf in jax.tree.leaves(model.params))
    assert repr(model).startswith(f"CausalModel({size:,} parameters: 1 layers, emb_dim 8")


def test_next_log_probs_are_the_log_softmax_of_the_logits(model):
    logits = model.logits(TOKENS)
    assert logits.shape == (3, 13, tiny.VOCAB_SIZE)
    assert logits.dtype == np.float32
    log_probs = model.next_log_probs(TOKENS)
    log_softmax = np.asarray(jax.nn.log_softmax(logits))[:, :-1]
    expected = np.take_along_axis(log_softmax, TOKENS[:, 1:, None], -1)[..., 0]
    np.testing.assert_allclose(log_probs, expected, atol=1e-5)
    assert np.all(log_probs < 0)


def test_padding_and_buckets_change_nothing(prompted):
    wide = prompted.logits(np.pad(TOKENS, ((0, 0), (0, 9))))
    np.testing.assert_allclose(prompted.logits(TOKENS), wide[:, :13], atol=1e-5)


def test_padding_on_the_left_is_a_warning(prompted, caplog):
    prompted.logits(np.pad(TOKENS, ((0, 0), (0, 2))))
    prompted.logits([[4, 0, 5], [0, 0, 0]])  # inside a row, and a row of padding alone
    assert not caplog.messages
    prompted.logits([[4, 5, 6], [0, 5, 6]])
    assert caplog.messages == [
        "input_tokens: row 1 begins with the padding token 0, which is read as text; pad rows on "
        "the right."
    ]


def test_the_likelihood_of_what_was_generated_is_that_of_the_generation(prompted):
    result = prompted.decode(TOKENS, max_length=5, temperature=1.0, seed=3, eos_id=-1)
    whole = np.pad(TOKENS, ((0, 0), (0, 5)))
    for row, length in enumerate((13, 2, 7)):
        whole[row, length : length + 5] = result.tokens[row]
    for row, length in enumerate((13, 2, 7)):
        log_probs = prompted.next_log_probs(whole)[row, length - 1 : length + 4]
        np.testing.assert_allclose(log_probs.sum(), result.log_prob[row], rtol=1e-4)


def test_generate_begins_behind_each_rows_own_input(prompted):
    tokens = prompted.generate(TOKENS, max_length=5)
    assert tokens.shape == (3, 5)
    assert tokens.dtype == np.int32
    for row, length in enumerate((13, 2, 7)):
        first = prompted.logits(TOKENS)[row, length - 1].argmax()
        assert tokens[row, 0] == first
    np.testing.assert_array_equal(
        prompted.decode(TOKENS, input_lengths=[13, 2, 7], max_length=5).tokens, tokens
    )


def test_input_lengths_decide_where_there_is_no_padding_token(model):
    """DialoGPT: turns end with the end token, which a row's end must not be mistaken for."""
    assert model.pad_id == -1
    tokens = np.array([[5, 6, 1, 1, 1]])
    whole = model.decode(tokens, max_length=4, eos_id=-1)
    first = model.decode(tokens, input_lengths=np.array([3]), max_length=4, eos_id=-1)
    alone = model.decode(tokens[:, :3], max_length=4, eos_id=-1)
    np.testing.assert_array_equal(first.tokens, alone.tokens)
    logits = model.logits(tokens)[0]
    assert whole.tokens[0, 0] == logits[4].argmax()
    assert first.tokens[0, 0] == logits[2].argmax()


def test_inputs_end_behind_the_last_token_that_is_no_padding():
    tokens = np.array([[5, 0, 6, 0, 0], [0, 0, 0, 0, 0], [1, 2, 3, 4, 5], [0, 7, 0, 0, 0]])
    np.testing.assert_array_equal(causal._count_tokens(tokens, 0), [3, 0, 5, 2])
    # A model without a padding token has no padding at the end either.
    np.testing.assert_array_equal(causal._count_tokens(tokens, -1), [5, 5, 5, 5])


def test_both_inputs_of_pmi_decode_may_have_lengths(prompted, model):
    lengths, other_lengths = [13, 2, 7], np.array([4, 1, 5])
    short = np.where(np.arange(5) < other_lengths[:, None], TOKENS[:, :5], 0)
    expected = prompted.decode_pmi(TOKENS, short, max_length=5)
    # Tokens after a row's length are not read.
    result = prompted.decode_pmi(
        np.where(TOKENS == 0, 9, TOKENS),
        np.where(short == 0, 9, short),
        input_lengths=lengths,
        input_lengths_without_document=other_lengths,
        max_length=5,
    )
    np.testing.assert_array_equal(result.tokens, expected.tokens)
    np.testing.assert_allclose(result.log_prob, expected.log_prob, rtol=1e-5)
    whole = prompted.decode_pmi(TOKENS, np.where(short == 0, 9, short), max_length=5)
    assert np.abs(np.asarray(whole.score) - result.score).max() > 1e-3
    with pytest.raises(InputError, match=r"^input_lengths_without_document: expected \[batch\]"):
        model.decode_pmi([[5, 6]], [[5]], input_lengths_without_document=[2], max_length=2)
    with pytest.raises(InputError, match=r"^input_tokens_without_document: row 0 has no tokens"):
        model.decode_pmi([[5, 6]], [[5]], input_lengths_without_document=[0], max_length=2)


def test_both_inputs_of_pmi_decode_have_as_many_rows(prompted):
    with pytest.raises(InputError, match="3 rows but the other one 2"):
        prompted.decode_pmi(TOKENS, TOKENS[:2], max_length=5)


@pytest.mark.parametrize("method", ["logits", "generate"])
@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([[1, 2], [3]], "rows of different lengths"),
        ([1, 2], r"expected an integer array \[batch, length\], got int64 \(2,\)"),
        (np.ones((1, 2)), "got float64"),
        (np.ones((0, 2), int), r"\(0, 2\)"),
        (np.ones((2, 0), int), r"\(2, 0\)"),
        ([[1, tiny.VOCAB_SIZE]], "token 50 at row 0, position 1 is not in the model's vocabulary"),
        ([[1, 2], [-2, 3]], "token -2 at row 1, position 0"),
        (np.ones((1, 25), int), "tokens do not fit the model's 24 positions"),
    ],
)
def test_wrong_inputs_are_named(model, method, tokens, message):
    options = {"max_length": 1} if method == "generate" else {}
    with pytest.raises(InputError, match=message) as error:
        getattr(model, method)(tokens, **options)
    assert "\n" not in str(error.value)


def test_what_is_generated_must_fit_the_positions_too(model, monkeypatch):
    tokens = np.full((1, 20), 5)
    monkeypatch.setattr(model, "_run_compiled", lambda function, branches, keys, config: config)
    # The last token that is generated is never fed.
    assert model.decode(tokens, max_length=5).max_length == 5
    with pytest.raises(InputError, match="25 tokens do not fit the model's 24 positions"):
        model.generate(tokens, max_length=6)


def test_a_soft_prompt_takes_positions(model):
    config = CONFIG.replace(decoder_prompt_length=4)
    prompted = CausalModel(config, tiny.model_and_params(config)[1])
    assert prompted.logits(np.full((1, 20), 5)).shape == (1, 20, tiny.VOCAB_SIZE)
    with pytest.raises(InputError, match="21 tokens behind a prompt of 4 do not fit"):
        prompted.logits(np.full((1, 21), 5))


def test_rows_without_tokens_are_named(prompted, model):
    with pytest.raises(InputError, match="row 1 has no tokens"):
        prompted.generate([[5, 6], [0, 0]])
    with pytest.raises(InputError, match="row 0 has no tokens"):
        model.decode([[5, 6]], input_lengths=[0], max_length=2)


@pytest.mark.parametrize("lengths", [[3], [1, 1], [2.5], [-1], [[1], [1, 2]]])
def test_wrong_input_lengths_are_named(model, lengths):
    with pytest.raises(InputError, match=r"input_lengths|no tokens"):
        model.decode([[5, 6]], input_lengths=lengths, max_length=2)


def test_an_option_out_of_range_is_refused(model):
    with pytest.raises(ConfigError, match="max_length"):
        model.generate([[5, 6]], max_length=0)


@pytest.mark.parametrize(("method", "row"), [("logits", [-1, 3, 4]), ("decode", [3, -1, 4])])
def test_padding_in_front_of_a_token_is_refused(model, method, row):
    assert model.pad_id == -1
    options = {"max_length": 2} if method == "decode" else {}
    with pytest.raises(InputError, match=r"row 1 has a token behind the padding at position [01]"):
        getattr(model, method)([[5, 6, 7], row], **options)
    model.logits([[5, 6, 7], [3, 4, -1], [5, -1, -1]])
