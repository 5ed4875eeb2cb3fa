"""Published folders of every family but T5: outputs of `load_model`, compared with Transformers."""

import functools
import json

import jax
import numpy as np
import pytest

from faith_jax.checkpoints.hugging_face.families import FAMILIES
from faith_jax.checkpoints.hugging_face.folder import write_huggingface
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.errors import CheckpointError, InputError
from faith_jax.inference import CausalModel, EncoderDecoderModel, EncoderModel, load_model
from tests.checkpoints import family_folders
from tests.quick import slow_except

TOLERANCE = 1e-4
CASES = family_folders.cases()
_OF_DECODERS = ("bloom", "gemma", "gpt2", "llama", "mistral", "qwen")
CAUSAL = [c for c in CASES if c.startswith(_OF_DECODERS)]
ENCODER_DECODERS = [
    c for c in CASES if c.startswith(("bart_plain", "bart_scaled", "t5gemma", "umt5"))
]
ENCODERS = [c for c in CASES if c not in (*CAUSAL, *ENCODER_DECODERS)]
# Cases whose heads and settings another case has too: only their tensors are read and written.
LIKE_OTHERS = {"albert_squad", "bloom_3_heads", "deberta_3_labels", "deberta_squad"}
LIKE_OTHERS |= {"deberta_v1_squad", "gemma_legacy_gelu", "roberta_squad", "xlm_roberta"}
LIKE_OTHERS |= {"bert_base_model", "modernbert_base_model", "roberta_base_model"}
# Each differs from a quick one of its family in a setting or two.
SLOW = {"bart_scaled", "deberta_base_model", "gemma2_odd_layers", "gpt2_exact_gelu"}
SLOW |= {"mistral_no_window", "t5gemma_plain"}


def computed(cases):
    """The cases whose model is computed, of which some are slow."""
    cases = [case for case in cases if case not in LIKE_OTHERS]
    return slow_except(cases, [case for case in cases if case not in SLOW])


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Returns a function from a stored model's name to the model and its expected outputs."""

    @functools.cache
    def open_case(name):
        return family_folders.load_case(tmp_path_factory.mktemp(name), name)

    return open_case


def assert_rows_equal(actual, expected):
    """Compares generated tokens up to each row's end; `expected` has -1 after it."""
    for row, expected_row in zip(actual, expected, strict=True):
        length = int(np.sum(expected_row >= 0))
        np.testing.assert_array_equal(row[:length], expected_row[:length])


def test_every_family_is_stored():
    families = {family_folders.family_of(case).key for case in CASES}
    # Transformers lacks HHEM's code; test_hhem.py has what it computes.
    untested = {"t5", "mt5", "mt5-forsequenceclassification", "HHEMv2Config"}
    assert families | untested == set(FAMILIES)


@pytest.mark.parametrize("name", computed(CAUSAL))
def test_decoder_only_logits(opened, name):
    model, expected = opened(name)
    assert isinstance(model, CausalModel)
    logits = model.logits(expected["input_tokens"])
    valid = expected["input_mask"] > 0
    np.testing.assert_allclose(logits[valid], expected["logits"][valid], atol=TOLERANCE)
    if name not in ("bloom_6_heads", "gemma2_softcaps"):
        return
    tokens, follows = expected["input_tokens"], valid[:, 1:]
    log_softmax = np.asarray(jax.nn.log_softmax(expected["logits"]))[:, :-1]
    gathered = np.take_along_axis(log_softmax, tokens[:, 1:, None], axis=-1)[..., 0]
    log_probs = model.next_log_probs(tokens)
    np.testing.assert_allclose(log_probs[follows], gathered[follows], atol=TOLERANCE)


_LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 2.0}


@pytest.mark.parametrize(
    ("case", "fields", "expected"),
    [
        (
            "llama_rope_linear",
            {"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}},
            [-1.10031, -2.910303, 0.486776],
        ),
        (
            "llama_rope_llama3",
            {"rope_parameters": _LLAMA3, "rope_theta": 100.0},
            [0.052856, 0.221576, 0.716551],
        ),
        (
            "llama_rope_llama3",
            {"original_max_position_embeddings": 12},
            [-0.389412, 1.156742, -0.494226],
        ),
        ("gemma2_softcaps", {"hidden_activation": "gelu"}, [-1.766794, -1.385542, 0.524145]),
        ("gemma_legacy_gelu", {}, [0.783515, -2.10135, 1.519786]),
        (
            "modernbert_nli",
            {"rope_scaling": {"rope_type": "default", "rope_theta": 20.0}},
            [-5.004225, 0.135036, -4.005089],
        ),
    ],
)
def test_fields_that_contradict_each_other_count_as_in_transformers(
    tmp_path, case, fields, expected
):
    """The logits of three tokens or classes are those that Transformers 5.24 computes."""
    config = family_folders.config_of(case) | fields
    tensors = family_folders.draw(family_folders.shapes_of(case))
    folder = family_folders.write(tmp_path / "published", config, tensors)
    write_huggingface(open_checkpoint(folder).read(), tmp_path / "exported")
    exported = open_checkpoint(tmp_path / "exported")
    assert exported.config == open_checkpoint(folder).config
    tokens, model = np.arange(4, 28)[None], load_model(folder)
    is_encoder = isinstance(model, EncoderModel)
    logits = model.classify(tokens)[0] if is_encoder else model.logits(tokens)[0, -1]
    np.testing.assert_allclose(logits[:3], expected, atol=1e-5)


def test_rotary_settings_of_a_kind_of_layers_are_an_object(tmp_path):
    config = family_folders.config_of("gemma3_scaled") | {"rope_parameters": {"full_attention": 3}}
    folder = family_folders.write(tmp_path / "published", config, {})
    with pytest.raises(CheckpointError, match="'full_attention': expected an object, got 3"):
        open_checkpoint(folder)


@pytest.mark.parametrize("prefix", ["language_model.model.", "model.language_model."])
def test_the_language_model_of_a_gemma_3_that_sees_images(opened, tmp_path, prefix):
    model, expected = opened("gemma3_scaled")
    text = family_folders.config_of("gemma3_scaled")
    config = {"model_type": "gemma3", "text_config": text | {"eos_token_id": 7}}
    config |= {"architectures": ["Gemma3ForConditionalGeneration"], "eos_token_id": [1, 2]}
    tensors = family_folders.draw(family_folders.shapes_of("gemma3_scaled"))
    tensors = {name.replace("model.", prefix, 1): array for name, array in tensors.items()}
    beside = "model." if prefix.startswith("model.") else ""
    tensors |= {f"{beside}vision_tower.x.weight": np.ones(3, np.float32)}
    folder = family_folders.write(tmp_path / "published", config, tensors)
    assert load_model(folder).config == model.config
    logits, valid = load_model(folder).logits(expected["input_tokens"]), expected["input_mask"] > 0
    np.testing.assert_allclose(logits[valid], expected["logits"][valid], atol=TOLERANCE)
    write_huggingface(open_checkpoint(folder).read(), tmp_path / "exported")
    assert (
        json.loads((tmp_path / "exported/config.json").read_text())["model_type"] == "gemma3_text"
    )


def test_decoder_only_greedy_search_of_rows_of_different_lengths(opened):
    model, expected = opened("mistral_window")
    lengths = expected["input_mask"].sum(axis=1)
    result = model.decode(expected["input_tokens"], input_lengths=lengths, max_length=8)
    assert_rows_equal(np.asarray(result.tokens), expected["greedy_tokens"])
    ends = np.sum(expected["greedy_tokens"] >= 0, axis=1)
    np.testing.assert_array_equal(result.length, ends)


@pytest.mark.parametrize("name", computed(ENCODER_DECODERS))
def test_encoder_decoders(opened, name):
    model, expected = opened(name)
    assert isinstance(model, EncoderDecoderModel)
    inputs = expected["encoder_input_tokens"]
    logits = model.logits(inputs, expected["decoder_input_tokens"])
    np.testing.assert_allclose(logits, expected["logits"], atol=TOLERANCE)
    if name == "t5gemma_windows":
        greedy = model.generate(inputs, max_length=8)
        np.testing.assert_array_equal(greedy, expected["greedy_tokens"])
    if name.startswith("bart"):  # whose output layer has a bias that is not zero
        assert np.abs(model.params["decoder"]["logits_bias"]).max() > 1


@pytest.mark.slow
def test_beam_search_of_an_encoder_decoder(opened):
    model, expected = opened("bart_plain")
    beams = model.decode(
        expected["encoder_input_tokens"], max_length=8, num_beams=4, length_penalty=0.0
    )
    for row, expected_row, length in zip(
        beams.tokens, expected["beam4_tokens"], beams.length, strict=True
    ):
        # Behind the end, Transformers repeats it where the padding token is 0.
        np.testing.assert_array_equal(row[:length], expected_row[:length])
        assert set(expected_row[length:]) <= {model.config.pad_id, expected_row[length - 1]}
    np.testing.assert_allclose(beams.score, expected["beam4_score"], atol=TOLERANCE)


@pytest.mark.parametrize("name", computed(ENCODERS))
def test_encoders(opened, name):
    model, expected = opened(name)
    assert isinstance(model, EncoderModel)
    config = model.config
    assert bool(model.label_names or config.token_label_names) == ("logits" in expected)
    inputs = expected["input_tokens"], expected.get("token_types")
    if model.label_names:
        logits = model.classify(*inputs)
        np.testing.assert_allclose(logits, expected["logits"], atol=TOLERANCE)
    valid = expected["input_mask"] > 0
    if config.token_label_names:
        logits = model.classify_tokens(*inputs)
        np.testing.assert_allclose(logits[valid], expected["logits"][valid], atol=TOLERANCE)
    if config.span_head:
        outputs = model.span_logits(*inputs)
        np.testing.assert_allclose(outputs[valid], expected["span_logits"][valid], atol=TOLERANCE)
    elif not model.label_names or name in ("bart_nli", "deberta_long", "deberta_v1_nli"):
        outputs = model.hidden_states(*inputs)
        np.testing.assert_allclose(outputs[valid], expected["last_hidden"][valid], atol=TOLERANCE)


def test_poolers_and_text_vectors(opened):
    model, expected = opened("bert_base_model")
    hidden = model.hidden_states(expected["input_tokens"], expected["token_types"])
    dense = model.params["classifier"]["dense"]
    pooled = np.tanh(hidden[:, 0] @ np.asarray(dense["kernel"]) + np.asarray(dense["bias"]))
    np.testing.assert_allclose(pooled, expected["pooler_output"], atol=TOLERANCE)
    for name in ("dpr_context", "dpr_question"):
        model, expected = opened(name)
        vectors = model.hidden_states(expected["input_tokens"])[:, 0]
        np.testing.assert_allclose(vectors, expected["pooler_output"], atol=TOLERANCE)


def test_token_types_matter_and_are_checked(opened):
    model, expected = opened("bert_nli")
    tokens = expected["input_tokens"]
    assert np.abs(model.classify(tokens) - expected["logits"]).max() > 1e-2
    with pytest.raises(InputError, match="token_types: expected integers below 2"):
        model.classify(tokens, 2 * expected["token_types"])
    with pytest.raises(InputError, match="head of extractive question answering"):
        model.span_logits(tokens)


def test_classes_are_in_the_order_of_their_numbers(opened):
    # In config.json they are written in another order.
    assert opened("roberta_types")[0].label_names == ("entailment", "neutral", "contradiction")
    assert opened("deberta_long")[0].label_names == ("faithful", "hallucinated")
    assert opened("roberta_base_model")[0].label_names == ()
