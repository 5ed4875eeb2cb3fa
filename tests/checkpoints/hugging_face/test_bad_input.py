"""Folders that do not make a model: one line names the file, field or tensor, and the reason."""

import json

import numpy as np
import pytest

import faith_jax
from faith_jax.checkpoints.hugging_face.families import FAMILIES
from faith_jax.cli import main
from faith_jax.core.errors import CheckpointError
from tests.checkpoints import family_folders
from tests.checkpoints.family_folders import draw, write


def refused(folder):
    """Returns the single line of the error for a refused folder."""
    with pytest.raises(CheckpointError) as error:
        faith_jax.load_model(str(folder))
    message = str(error.value)
    assert "\n" not in message
    assert str(folder) in message
    return message


def changed(tmp_path, case, fields=None, tensors=None, without=()):
    """Writes a stored model's folder with other fields and tensors."""
    arrays = draw(family_folders.shapes_of(case)) | (tensors or {})
    config = family_folders.config_of(case) | (fields or {})
    kept = {name: array for name, array in arrays.items() if name not in without}
    return write(tmp_path / "broken", config, kept)


def test_another_family_is_refused_with_the_list_of_those_that_are_supported(tmp_path):
    message = refused(changed(tmp_path, "gpt2_inner_relu", {"model_type": "opt"}))
    assert "'model_type'" in message
    assert '"opt"' in message
    for family in FAMILIES.values():
        assert repr(family.model_type) in message


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("bart_plain", "model.decoder.layers.0.encoder_attn.q_proj.bias"),
        ("bart_plain", "model.shared.weight"),
        ("bloom_3_heads", "transformer.h.1.self_attention.query_key_value.weight"),
        ("deberta_long", "pooler.dense.weight"),
        ("gemma2_softcaps", "model.layers.0.pre_feedforward_layernorm.weight"),
        ("llama_rope_llama3", "lm_head.weight"),
        ("roberta_types", "roberta.embeddings.token_type_embeddings.weight"),
    ],
)
def test_a_missing_tensor_is_named(tmp_path, case, name):
    message = refused(changed(tmp_path, case, without=[name]))
    assert name in message
    assert "missing" in message


# One of each family.
ONE_EACH = {family_folders.family_of(case).key: case for case in family_folders.cases()}.values()


@pytest.mark.parametrize("case", ["bart_plain", "gpt2_inner_relu", "roberta_types"])
def test_an_unexpected_tensor_is_named(tmp_path, case):
    more = {"adapter.weight": np.zeros((2, 2), np.float32)}
    message = refused(changed(tmp_path, case, tensors=more))
    assert "adapter.weight (2, 2) is not one of" in message


@pytest.mark.parametrize(
    ("case", "name", "shape"),
    [
        ("bart_plain", "final_logits_bias", (40,)),
        ("gpt2_inner_relu", "transformer.h.0.attn.c_attn.weight", (48, 16)),
        ("llama_rope_linear", "model.layers.0.self_attn.k_proj.weight", (8, 16)),
        ("deberta_long", "deberta.encoder.rel_embeddings.weight", (8, 16)),
    ],
)
def test_a_tensor_of_another_shape_is_named_with_both(tmp_path, case, name, shape):
    message = refused(changed(tmp_path, case, tensors={name: np.zeros(shape, np.float32)}))
    assert f"{name} has the shape {shape}" in message
    assert str(tuple(family_folders.shapes_of(case)[name])) in message


UNSUPPORTED = [
    ("bart_plain", "decoder_ffn_dim", 20),
    ("bart_plain", "decoder_attention_heads", 2),
    ("bart_plain", "activation_function", "mish"),
    ("bloom_3_heads", "apply_residual_connection_post_layernorm", True),
    ("deberta_long", "conv_kernel_size", 3),
    ("deberta_long", "norm_rel_ebd", "none"),
    ("deberta_long", "pooler_dropout", 0.1),
    ("deberta_long", "pooler_hidden_size", 8),
    ("deberta_long", "embedding_size", 8),
    ("deberta_long", "pos_att_type", "c2p"),
    ("deberta_long", "position_biased_input", True),
    ("deberta_long", "position_buckets", -1),
    ("deberta_long", "relative_attention", False),
    ("deberta_long", "share_att_key", False),
    ("deberta_v1_nli", "talking_head", True),
    ("gemma_legacy_gelu", "use_bidirectional_attention", True),
    ("gemma2_softcaps", "layer_types", ["full_attention", "chunked_attention"]),
    ("gemma3_scaled", "attn_logit_softcapping", 50.0),
    ("gemma3_scaled", "sliding_window_pattern", 0),
    ("gemma3_scaled", "rope_parameters", {"sliding_attention": {"rope_type": "linear"}}),
    ("gpt2_inner_relu", "activation_function", "quick_gelu"),
    ("gpt2_inner_relu", "add_cross_attention", True),
    ("gpt2_inner_relu", "scale_attn_by_inverse_layer_idx", True),
    ("llama_rope_llama3", "rope_parameters", {"rope_type": "yarn", "factor": 2.0}),
    ("llama_rope_llama3", "rope_scaling", {"type": "yarn", "factor": 2.0}),
    ("qwen2_tied", "use_sliding_window", True),
    ("roberta_types", "is_decoder", True),
    ("albert_nli", "num_hidden_groups", 2),
    ("dpr_context", "projection_dim", 8),
    ("dpr_context", "architectures", ["DPRReader"]),
    ("roberta_types", "position_embedding_type", "relative_key"),
    ("roberta_types", "pad_token_id", None),
    ("modernbert_nli", "classifier_pooling", "max"),
    ("modernbert_nli", "attention_dropout", 0.1),
    ("modernbert_nli", "global_attn_every_n_layers", 0),
    ("modernbert_tokens", "layer_types", ["full_attention"]),
    ("modernbert_tokens", "rope_parameters", {"full_attention": {"type": "linear", "factor": 2}}),
    ("modernbert_tokens", "rope_scaling", {"type": "linear", "factor": 2.0}),
]


@pytest.mark.parametrize(("case", "field", "value"), UNSUPPORTED)
def test_a_setting_that_is_not_supported_is_named(tmp_path, case, field, value):
    message = refused(changed(tmp_path, case, {field: value}))
    assert field in message


def test_an_unknown_rotary_scaling_is_named_however_long_its_settings_are(tmp_path):
    yarn = {"factor": 4.0, "original_max_position_embeddings": 32768, "rope_type": "yarn"}
    message = refused(changed(tmp_path, "llama_rope_llama3", {"rope_parameters": yarn}))
    assert "'llama3'] and not \"yarn\", got {" in message


@pytest.mark.parametrize(
    ("case", "architecture", "expected"),
    [
        (
            "gpt2_inner_relu",
            "GPT2ForSequenceClassification",
            "GPT-2 with the head ForSequenceClassification is not supported; use an encoder, such "
            "as RoBERTa or DeBERTa.",
        ),
        ("bart_plain", "BartForQuestionAnswering", "use an encoder, such as BERT or RoBERTa."),
        ("llama_rope_linear", "LlamaForSequenceClassification", "Llama with the head ForSeq"),
        ("bert_nli", "BertForTokenClassification", "use a ModernBERT."),
        ("deberta_long", "DebertaV2ForTokenClassification", "DeBERTa-v3 with the head ForTok"),
        ("roberta_types", "RobertaForMultipleChoice", "with the head ForMultipleChoice is"),
        ("modernbert_base_model", "ModernBertForMultipleChoice", "no family's is."),
        ("modernbert_base_model", "ModernBertForQuestionAnswering", "ModernBERT with the head"),
    ],
)
def test_a_head_that_is_not_read_is_named_with_what_to_use(tmp_path, case, architecture, expected):
    message = refused(changed(tmp_path, case, {"architectures": [architecture]}))
    assert "config.json: field 'architectures': " in message
    assert expected in message


def test_a_head_beside_a_bart_that_is_none_of_it_is_dropped(tmp_path):
    """BART's base folder of the authors has one."""
    head = {"classification_head.dense.weight": np.zeros((3, 3), np.float32)}
    folder = changed(tmp_path, "bart_plain", {"architectures": ["BartModel"]}, head)
    assert isinstance(faith_jax.load_model(str(folder)), faith_jax.EncoderDecoderModel)


def test_a_padding_token_of_minus_one_is_none(tmp_path):
    """The first conversions of Llama say so."""
    folder = changed(tmp_path, "llama_rope_linear", {"pad_token_id": -1})
    assert faith_jax.load_model(str(folder)).pad_id == -1


WRONG = [
    ("bart_plain", "d_model", "16"),
    ("bart_plain", "scale_embedding", "yes"),
    ("bart_plain", "eos_token_id", -2),
    ("bloom_3_heads", "n_head", 0),
    ("deberta_long", "id2label", ["a", "b"]),
    ("deberta_long", "max_position_embeddings", 3),
    ("bart_plain", "pad_token_id", None),
    ("bart_plain", "pad_token_id", 40),
    ("gemma2_softcaps", "sliding_window", 2.5),
    ("gemma2_softcaps", "query_pre_attn_scalar", 0),
    ("gpt2_inner_relu", "n_embd", 17),
    ("llama_rope_linear", "num_key_value_heads", 3),
    ("llama_rope_linear", "head_dim", 3),
    ("llama_rope_linear", "rope_scaling", "linear"),
    ("llama_rope_linear", "rope_scaling", {"type": "linear", "factor": 0}),
    ("mistral_window", "sliding_window", -3),
    ("modernbert_nli", "local_attention", -4),
    ("modernbert_tokens", "rope_parameters", {"sliding_attention": {"rope_type": "linear"}}),
    ("roberta_types", "id2label", {"0": "a", "2": "b"}),
    ("roberta_types", "type_vocab_size", -1),
    ("xlm_roberta", "max_position_embeddings", 1),
]


@pytest.mark.parametrize(("case", "field", "value"), WRONG)
def test_a_value_that_no_model_can_have_is_refused(tmp_path, case, field, value):
    refused(changed(tmp_path, case, {field: value}))


@pytest.mark.parametrize("case", ONE_EACH)
def test_no_wrong_value_of_any_field_ends_in_a_traceback(tmp_path, case):
    config = family_folders.config_of(case)
    for field in config:
        for value in ("?", -7, {"a": []}, None):
            (tmp_path / "fuzz").mkdir(exist_ok=True)
            text = json.dumps(config | {field: value})
            (tmp_path / "fuzz" / "config.json").write_text(text)
            # Without weights the folder is refused for any config.
            refused(tmp_path / "fuzz")


def test_no_wrong_value_in_the_stacks_of_t5gemma_ends_in_a_traceback(tmp_path):
    config = family_folders.config_of("t5gemma_windows")
    for field in config["decoder"]:
        for value in ("?", -7, None):
            stacks = {name: config[name] | {field: value} for name in ("encoder", "decoder")}
            (tmp_path / "config.json").write_text(json.dumps(config | stacks))
            refused(tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "former"), [("head_dim", 8, 6), ("rope_scaling", {"factor": 2.0}, None)]
)
def test_stacks_of_other_forms_are_named(tmp_path, field, value, former):
    config = family_folders.config_of("t5gemma_windows")
    folder = changed(tmp_path, "t5gemma_windows", {"encoder": config["encoder"] | {field: value}})
    message = refused(folder)
    assert f"field {field!r}: {value} in the encoder and {former} in the decoder" in message


@pytest.mark.parametrize(
    ("quantisation", "named"),
    [
        ({"quant_method": "gptq", "bits": 4}, 'quantised by "gptq" are not read'),
        ({"load_in_8bit": True}, 'quantised by {"load_in_8bit": true} are not read'),
    ],
)
def test_quantised_weights_are_refused_before_they_are_read(tmp_path, quantisation, named):
    folder = changed(tmp_path, "llama_rope_linear", {"quantization_config": quantisation})
    (folder / "model.safetensors").write_bytes(b"")
    message = refused(folder)
    assert "config.json: field 'quantization_config': weights " + named in message
    assert "give weights in float32, bfloat16 or float16, without quantisation" in message


def test_a_pointer_of_git_lfs_in_place_of_weights(tmp_path):
    folder = changed(tmp_path, "gpt2_inner_relu")
    weights = folder / "model.safetensors"
    weights.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0a\nsize 9\n")
    message = refused(folder)
    assert f"{weights}: is a pointer of Git LFS" in message
    assert "run `git lfs pull`" in message


def test_the_command_prints_one_line_and_exits_with_2(tmp_path, capsys):
    broken = [
        changed(tmp_path / "family", "gpt2_inner_relu", {"model_type": "opt"}),
        changed(tmp_path / "setting", "deberta_long", {"conv_kernel_size": 3}),
        changed(tmp_path / "tensor", "bart_plain", without=["model.shared.weight"]),
    ]
    for folder in broken:
        target = folder.parent / "target"
        assert main(["import-checkpoint", str(folder), str(target)]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.count("\n") == 1
        assert printed.err.startswith("faith-jax: ")
        assert str(folder) in printed.err
        assert not target.exists()
