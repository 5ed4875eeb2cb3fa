"""Writes reference outputs of Transformers for tiny models of each family (extra `parity`).

    python tools/make_family_fixtures.py [NAME ...]

For each model, writes to tests/testdata/families its config.json (for T5 also
generation_config.json), its tensors' names and shapes, and inputs with expected outputs, listed in
tests/testdata/families/README.md. tests/checkpoints/family_folders.py draws the weights.
"""

import json
import pathlib
import shutil
import sys
import tempfile
from typing import Any

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from tests.checkpoints import family_folders
from tests.checkpoints.family_folders import FOLDER, VOCAB
from tests.checkpoints.transformers_reference import (
    inputs_of,
    load,
    make_folder,
    reference,
    salience,
)

_GPT2 = {"vocab_size": VOCAB, "n_embd": 16, "n_head": 4, "n_layer": 2, "n_positions": 32}
_GPT2 |= {"eos_token_id": 2, "bos_token_id": 0}
_BLOOM = {"vocab_size": VOCAB, "n_layer": 2, "eos_token_id": 2, "pad_token_id": 3}
_LLAMA = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
    "pad_token_id": None,
    "eos_token_id": 2,
}
_GEMMA = _LLAMA | {"head_dim": 6, "pad_token_id": 0, "eos_token_id": [1, 2]}
_T5GEMMA = _GEMMA | {"bos_token_id": 2, "eos_token_id": 1}
_BART = {
    "vocab_size": VOCAB,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 32,
    "forced_eos_token_id": None,
}
_BERT = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 34,
}
_ALBERT = _BERT | {"embedding_size": 12}
_MODERNBERT = _BERT | {
    "num_hidden_layers": 3,
    "max_position_embeddings": 64,
    "local_attention": 9,
    "pad_token_id": 3,
    "eos_token_id": 2,
    "bos_token_id": 1,
    "cls_token_id": 1,
    "sep_token_id": 2,
    "layer_types": ["full_attention", "sliding_attention", "full_attention"],
}
_DEBERTA = _BERT | {
    "max_position_embeddings": 48,
    "relative_attention": True,
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "position_biased_input": False,
    "type_vocab_size": 0,
    "pooler_hidden_size": 16,
}
_DEBERTA_V1 = _BERT | {
    "max_position_embeddings": 48,
    "relative_attention": True,
    "max_relative_positions": 7,
    "pos_att_type": "c2p|p2c",
    "position_biased_input": False,
    "type_vocab_size": 0,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 100.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 2.0,
    "original_max_position_embeddings": 16,
}
_T5 = {
    "vocab_size": VOCAB,
    "d_model": 16,
    "d_kv": 4,
    "d_ff": 24,
    "num_layers": 2,
    "num_heads": 4,
    "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False,
    "decoder_start_token_id": 0,
}
# Architectures whose folders also have a generation_config.json.
_GENERATING = ("T5ForConditionalGeneration", "T5GemmaForConditionalGeneration")
# Name: architecture, settings, and fields of config.json that are then set to their older forms.
MODELS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "t5_v1_1": ("T5ForConditionalGeneration", _T5, {}),
    "t5_v1_0": (
        "T5ForConditionalGeneration",
        _T5 | {"feed_forward_proj": "relu", "tie_word_embeddings": True},
        {},
    ),
    "t5_deep": ("T5ForConditionalGeneration", _T5 | {"num_layers": 3, "num_decoder_layers": 1}, {}),
    "t5_nli": (
        "T5ForSequenceClassification",
        _T5 | {"id2label": {2: "contradiction", 0: "entailment", 1: "neutral"}},
        {},
    ),
    "umt5_deep": (
        "UMT5ForConditionalGeneration",
        _T5
        | {"num_decoder_layers": 1, "relative_attention_max_distance": 20}
        | {"tie_word_embeddings": True},
        {},
    ),
    "gpt2_inner_relu": (
        "GPT2LMHeadModel",
        _GPT2 | {"n_inner": 20, "activation_function": "relu"},
        {},
    ),
    "gpt2_exact_gelu": (
        "GPT2LMHeadModel",
        _GPT2 | {"activation_function": "gelu", "scale_attn_weights": False},
        {},
    ),
    "bloom_3_heads": ("BloomForCausalLM", _BLOOM | {"hidden_size": 12, "n_head": 3}, {}),
    "bloom_6_heads": ("BloomForCausalLM", _BLOOM | {"hidden_size": 12, "n_head": 6}, {}),
    "llama_rope_llama3": ("LlamaForCausalLM", _LLAMA | {"rope_parameters": _LLAMA3}, {}),
    "llama_rope_linear": (
        "LlamaForCausalLM",
        _LLAMA | {"num_key_value_heads": 1},
        {
            "rope_parameters": None,
            "rope_theta": 50.0,
            "rope_scaling": {"type": "linear", "factor": 2.5},
        },
    ),
    "llama_biases_tied": (
        "LlamaForCausalLM",
        _LLAMA
        | {
            "num_key_value_heads": 4,
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
            "head_dim": 6,
        },
        {},
    ),
    "mistral_window": ("MistralForCausalLM", _LLAMA | {"sliding_window": 4}, {}),
    "mistral_no_window": (
        "MistralForCausalLM",
        _LLAMA | {"sliding_window": None, "hidden_act": "gelu_pytorch_tanh"},
        {},
    ),
    "qwen2_tied": (
        "Qwen2ForCausalLM",
        _LLAMA | {"tie_word_embeddings": True, "eos_token_id": [2, 3]},
        # The form of the published models.
        {
            "rope_parameters": None,
            "rope_theta": 100.0,
            "sliding_window": 8,
            "max_window_layers": 2,
            "layer_types": None,
        },
    ),
    "qwen3_biases": ("Qwen3ForCausalLM", _LLAMA | {"head_dim": 6, "attention_bias": True}, {}),
    "gemma_legacy_gelu": (
        "GemmaForCausalLM",
        _GEMMA | {"num_key_value_heads": 1},
        {"hidden_act": "gelu"},
    ),
    "gemma2_odd_layers": (
        "Gemma2ForCausalLM",
        _GEMMA
        | {
            "num_hidden_layers": 3,
            "sliding_window": 3,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
            "query_pre_attn_scalar": 10,
            "attn_logit_softcapping": None,
            "final_logit_softcapping": None,
        },
        {},
    ),
    "gemma2_softcaps": (
        "Gemma2ForCausalLM",
        _GEMMA
        | {
            "sliding_window": 5,
            "query_pre_attn_scalar": 6,
            "attn_logit_softcapping": 1.5,
            "final_logit_softcapping": 2.0,
        },
        {},
    ),
    "gemma3_scaled": (
        "Gemma3ForCausalLM",
        _GEMMA
        | {
            "num_hidden_layers": 3,
            "sliding_window": 3,
            "sliding_window_pattern": 2,
            "query_pre_attn_scalar": 10,
            "head_dim": 8,
        },
        # The form of the published models.
        {
            "rope_parameters": None,
            "layer_types": None,
            "rope_theta": 50.0,
            "rope_local_base_freq": 10.0,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        },
    ),
    "t5gemma_windows": (
        "T5GemmaForConditionalGeneration",
        {
            stack: _T5GEMMA
            | {
                "sliding_window": 4,
                "query_pre_attn_scalar": 6,
                "attn_logit_softcapping": 1.5,
                "final_logit_softcapping": 2.0,
            }
            for stack in ("encoder", "decoder")
        },
        {},
    ),
    "t5gemma_plain": (
        "T5GemmaForConditionalGeneration",
        {
            stack: _T5GEMMA
            | {
                "num_hidden_layers": 3,
                "num_key_value_heads": 4,
                "attention_bias": True,
                "layer_types": ["full_attention", "sliding_attention", "full_attention"],
                "sliding_window": 3,
                "attn_logit_softcapping": None,
                "final_logit_softcapping": None,
            }
            for stack in ("encoder", "decoder")
        },
        {},
    ),
    "bart_plain": ("BartForConditionalGeneration", _BART, {}),
    "bart_scaled": (
        "BartForConditionalGeneration",
        _BART
        | {
            "scale_embedding": True,
            "activation_function": "relu",
            "decoder_layers": 2,
            "encoder_layers": 1,
        },
        {},
    ),
    "bart_nli": (
        "BartForSequenceClassification",
        _BART
        | {
            "scale_embedding": True,
            "activation_function": "gelu_new",
            "id2label": {2: "entailment", 0: "contradiction", 1: "neutral"},
        },
        {},
    ),
    "bert_nli": (
        "BertForSequenceClassification",
        _BERT
        | {
            "hidden_act": "relu",
            "classifier_dropout": 0.3,
            "id2label": {2: "contradiction", 0: "entailment", 1: "neutral"},
        },
        {},
    ),
    "bert_base_model": ("BertModel", _BERT, {}),
    "bert_squad": ("BertForQuestionAnswering", _BERT, {}),
    "electra_nli": (
        "ElectraForSequenceClassification",
        _BERT
        | {"embedding_size": 12, "id2label": {0: "entailment", 1: "neutral", 2: "contradiction"}},
        {},
    ),
    "distilbert_nli": (
        "DistilBertForSequenceClassification",
        {
            "vocab_size": VOCAB,
            "dim": 16,
            "n_layers": 2,
            "n_heads": 4,
            "hidden_dim": 24,
            "max_position_embeddings": 34,
            "id2label": {1: "entailment", 0: "not_entailment"},
        },
        {},
    ),
    "albert_nli": ("AlbertForSequenceClassification", _ALBERT | {"num_hidden_layers": 3}, {}),
    "albert_squad": ("AlbertForQuestionAnswering", _ALBERT, {}),
    "dpr_context": ("DPRContextEncoder", _BERT, {}),
    "dpr_question": ("DPRQuestionEncoder", _BERT, {}),
    "roberta_squad": ("RobertaForQuestionAnswering", _BERT, {}),
    "roberta_base_model": ("RobertaModel", _BERT | {"type_vocab_size": 2, "pad_token_id": 1}, {}),
    "roberta_types": (
        "RobertaForSequenceClassification",
        _BERT
        | {"type_vocab_size": 2, "id2label": {2: "contradiction", 0: "entailment", 1: "neutral"}},
        {},
    ),
    "xlm_roberta": (
        "XLMRobertaForSequenceClassification",
        _BERT | {"type_vocab_size": 1, "layer_norm_eps": 1e-5},
        {},
    ),
    "deberta_long": (
        "DebertaV2ForSequenceClassification",
        _DEBERTA | {"id2label": {1: "hallucinated", 0: "faithful"}},
        {},
    ),
    "deberta_3_labels": (
        "DebertaV2ForSequenceClassification",
        _DEBERTA
        | {
            "position_buckets": 6,
            "max_relative_positions": 20,
            "type_vocab_size": 2,
            "id2label": {2: "c", 1: "b", 0: "a"},
            "hidden_act": "gelu_new",
        },
        {},
    ),
    "deberta_squad": ("DebertaV2ForQuestionAnswering", _DEBERTA, {}),
    "deberta_v1_nli": (
        "DebertaForSequenceClassification",
        _DEBERTA_V1 | {"id2label": {2: "ENTAILMENT", 0: "CONTRADICTION", 1: "NEUTRAL"}},
        {},
    ),
    "deberta_v1_squad": (
        "DebertaForQuestionAnswering",
        _DEBERTA_V1 | {"max_relative_positions": -1, "type_vocab_size": 2},
        {},
    ),
    "modernbert_nli": (
        "ModernBertForSequenceClassification",
        _MODERNBERT
        | {
            "classifier_pooling": "mean",
            "classifier_bias": True,
            "norm_bias": True,
            "id2label": {0: "entailment", 1: "neutral", 2: "contradiction"},
        },
        # The form of the published models.
        {
            "rope_parameters": None,
            "layer_types": None,
            "global_attn_every_n_layers": 2,
            "global_rope_theta": 160000.0,
            "local_rope_theta": 10000.0,
        },
    ),
    "modernbert_tokens": (
        "ModernBertForTokenClassification",
        _MODERNBERT | {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
        {},
    ),
    "modernbert_base_model": ("ModernBertModel", _MODERNBERT, {}),
    "deberta_base_model": ("DebertaV2Model", _DEBERTA | {"position_buckets": 16}, {}),
}


def save(
    folder: pathlib.Path, architecture: str, settings: dict[str, Any], older: dict[str, Any]
) -> None:
    """Writes the config files and the tensors' shapes of a model as Transformers saves it."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch_folder = pathlib.Path(scratch)
        make_folder(scratch_folder, architecture, settings, older)
        for file in ("config.json", "generation_config.json")[: 1 + (architecture in _GENERATING)]:
            shutil.copyfile(scratch_folder / file, folder / file)
        stored = family_folders.safetensors.numpy.load_file(scratch_folder / "model.safetensors")
    shapes = {name: list(array.shape) for name, array in sorted(stored.items())}
    (folder / "tensors.json").write_text(json.dumps(shapes, indent=0) + "\n")


def main(names: list[str]) -> None:
    """Writes the named models, or all."""
    for name in names or MODELS:
        folder = FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        save(folder, *MODELS[name])
        with tempfile.TemporaryDirectory() as scratch:
            case_folder = family_folders.write_case(pathlib.Path(scratch), name)
            model = load(case_folder, MODELS[name][0])
            inputs = inputs_of(family_folders.config_of(name))
            outputs = inputs | reference(model, inputs) | salience(model, inputs)
        np.savez_compressed(folder / "expected.npz", **outputs)
        print(name, *(f"{k} {v.shape}" for k, v in outputs.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
