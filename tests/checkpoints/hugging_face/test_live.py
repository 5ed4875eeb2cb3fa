"""Random configs of every family, compared with Transformers if it is installed."""

import json

import jax
import numpy as np
import pytest

import faith_jax
from faith_jax.checkpoints.checkpoint import Checkpoint
from faith_jax.checkpoints.hugging_face.folder import write_huggingface
from tests.checkpoints import family_folders
from tests.models import families, tiny

pytest.importorskip("torch", reason="torch is not installed (the parity extra)")
pytest.importorskip("transformers", reason="transformers is not installed (the parity extra)")
from tests.checkpoints.transformers_reference import inputs_of, load, make_folder, reference

SEEDS = (0, 1, 2)
TOLERANCE = 1e-4


def _heads(rng):
    heads, head_dim = int(rng.choice([1, 2, 3, 4])), 2 * int(rng.integers(1, 5))
    return heads, head_dim, heads * head_dim


def _gpt2(rng):
    heads, _, width = _heads(rng)
    return "GPT2LMHeadModel", {
        "n_embd": width,
        "n_head": heads,
        "n_layer": int(rng.integers(1, 3)),
        "n_positions": int(rng.integers(12, 40)),
        "n_inner": int(rng.integers(3, 30)) if rng.random() < 0.6 else None,
        "activation_function": str(rng.choice(["gelu_new", "gelu", "relu", "silu", "tanh"])),
        "layer_norm_epsilon": float(rng.choice([1e-5, 1e-2])),
        "scale_attn_weights": bool(rng.random() < 0.6),
        "eos_token_id": 2,
        "bos_token_id": 2,
    }


def _bloom(rng):
    heads, head_dim = int(rng.integers(1, 8)), int(rng.integers(1, 5))
    return "BloomForCausalLM", {
        "hidden_size": heads * head_dim,
        "n_head": heads,
        "n_layer": int(rng.integers(1, 3)),
        "layer_norm_epsilon": float(rng.choice([1e-5, 1e-2])),
        "eos_token_id": 2,
        "pad_token_id": 3,
    }


def _rotary(rng):
    heads, _, width = _heads(rng)
    return {
        "hidden_size": width,
        "intermediate_size": int(rng.integers(3, 30)),
        "num_hidden_layers": int(rng.integers(1, 4)),
        "num_attention_heads": heads,
        "num_key_value_heads": int(rng.choice([k for k in range(1, heads + 1) if heads % k == 0])),
        "head_dim": 2 * int(rng.integers(1, 5)),
        "max_position_embeddings": 64,
        "rms_norm_eps": float(rng.choice([1e-6, 1e-2])),
        "tie_word_embeddings": bool(rng.random() < 0.5),
        "eos_token_id": 2,
        "pad_token_id": 0,
    }


def _llama(rng):
    kind = str(rng.choice(["default", "linear", "llama3"]))
    rope = {"rope_type": kind, "rope_theta": float(rng.choice([20.0, 10000.0]))}
    if kind != "default":
        rope["factor"] = float(rng.uniform(1.1, 8))
    if kind == "llama3":
        rope |= {
            "low_freq_factor": float(rng.uniform(0.1, 1)),
            "high_freq_factor": float(rng.uniform(1.1, 4)),
            "original_max_position_embeddings": int(rng.integers(4, 40)),
        }
    return "LlamaForCausalLM", _rotary(rng) | {
        "rope_parameters": rope,
        "attention_bias": bool(rng.random() < 0.5),
        "mlp_bias": bool(rng.random() < 0.5),
        "hidden_act": str(rng.choice(["silu", "gelu", "relu"])),
    }


def _mistral(rng):
    window = int(rng.integers(1, 14)) if rng.random() < 0.8 else None
    return "MistralForCausalLM", _rotary(rng) | {"sliding_window": window}


def _qwen(rng):
    family = str(rng.choice(["Qwen2", "Qwen3"]))
    return f"{family}ForCausalLM", _rotary(rng) | {"rope_parameters": {"rope_theta": 20.0}}


def _gemma(rng):
    return "GemmaForCausalLM", _rotary(rng) | {
        "tie_word_embeddings": True,
        "attention_bias": bool(rng.random() < 0.3),
    }


def _gemma2(rng):
    settings = _rotary(rng) | {"tie_word_embeddings": True}
    kinds = ["sliding_attention", "full_attention"]
    return "Gemma2ForCausalLM", settings | {
        "layer_types": [str(rng.choice(kinds)) for _ in range(settings["num_hidden_layers"])],
        "sliding_window": int(rng.integers(1, 14)),
        "query_pre_attn_scalar": int(rng.integers(1, 40)),
        "attn_logit_softcapping": float(rng.uniform(0.5, 5)) if rng.random() < 0.6 else None,
        "final_logit_softcapping": float(rng.uniform(0.5, 5)) if rng.random() < 0.6 else None,
        "attention_bias": bool(rng.random() < 0.3),
    }


def _gemma3(rng):
    _, settings = _gemma2(rng)
    window = {"rope_type": "default", "rope_theta": float(rng.uniform(5, 50))}
    full = {"rope_type": str(rng.choice(["default", "linear"])), "rope_theta": 100.0, "factor": 3.0}
    rope = {"sliding_attention": window, "full_attention": full}
    changes = {"rope_parameters": rope, "attn_logit_softcapping": None}
    return "Gemma3ForCausalLM", settings | changes


def _umt5(rng):
    heads, head_dim, width = _heads(rng)
    layers, buckets = int(rng.integers(1, 4)), 2 * int(rng.integers(2, 17))
    return "UMT5ForConditionalGeneration", {
        "d_model": width,
        "d_kv": head_dim + 1,
        "d_ff": int(rng.integers(3, 30)),
        "num_heads": heads,
        "num_layers": layers,
        # Transformers' cache has room for no more.
        "num_decoder_layers": int(rng.integers(1, layers + 1)),
        "relative_attention_num_buckets": buckets,
        "relative_attention_max_distance": buckets + int(rng.integers(1, 20)),
        "feed_forward_proj": str(rng.choice(["gated-gelu", "gated-silu", "relu", "gelu"])),
        "tie_word_embeddings": bool(rng.random() < 0.5),
    }


def _bart(rng):
    heads, _, width = _heads(rng)
    mlp = int(rng.integers(3, 30))
    return "BartForConditionalGeneration", {
        "d_model": width,
        "encoder_layers": int(rng.integers(1, 3)),
        "decoder_layers": int(rng.integers(1, 3)),
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": mlp,
        "decoder_ffn_dim": mlp,
        "max_position_embeddings": int(rng.integers(12, 40)),
        "activation_function": str(rng.choice(["gelu", "relu", "gelu_new"])),
        "scale_embedding": bool(rng.random() < 0.5),
        "forced_eos_token_id": None,
    }


def _bart_classifier(rng):
    _, settings = _bart(rng)
    changes = {"num_labels": int(rng.integers(1, 5)), "activation_function": "silu"}
    return "BartForSequenceClassification", settings | changes


def _t5_classifier(rng):
    _, settings = _umt5(rng)
    family = str(rng.choice(["T5", "MT5"]))
    classes = {"num_labels": int(rng.integers(1, 5)), "decoder_start_token_id": 0}
    return f"{family}ForSequenceClassification", settings | classes


def _bert(rng, positions):
    heads, _, width = _heads(rng)
    return {
        "hidden_size": width,
        "num_hidden_layers": int(rng.integers(1, 3)),
        "num_attention_heads": heads,
        "intermediate_size": int(rng.integers(3, 30)),
        "max_position_embeddings": positions,
        "type_vocab_size": int(rng.integers(1, 4)),
        "hidden_act": str(rng.choice(["gelu", "relu", "gelu_new"])),
        "layer_norm_eps": float(rng.choice([1e-12, 1e-5, 1e-2])),
        "num_labels": int(rng.integers(1, 5)),
    }


def _roberta(rng):
    pad = int(rng.integers(0, 4))
    family = str(rng.choice(["Roberta", "XLMRoberta"]))
    settings = _bert(rng, pad + 1 + int(rng.integers(11, 40)))
    return f"{family}ForSequenceClassification", settings | {"pad_token_id": pad}


def _bert_or_albert(rng):
    family = str(rng.choice(["Bert", "Albert"]))
    head = str(rng.choice(["SequenceClassification", "QuestionAnswering"]))
    settings = _bert(rng, int(rng.integers(11, 40)))
    if head == "QuestionAnswering":
        settings["num_labels"] = 2
    if family == "Albert":
        settings["embedding_size"] = int(rng.integers(3, 20))
    return f"{family}For{head}", settings | {"type_vocab_size": 2}


def _electra(rng):
    settings = _bert(rng, int(rng.integers(11, 40))) | {"type_vocab_size": 2}
    width = int(rng.choice([settings["hidden_size"], 5, 12]))
    return "ElectraForSequenceClassification", settings | {"embedding_size": width}


def _distilbert(rng):
    settings = _bert(rng, int(rng.integers(11, 40)))
    return "DistilBertForSequenceClassification", {
        "dim": settings["hidden_size"],
        "n_layers": settings["num_hidden_layers"],
        "n_heads": settings["num_attention_heads"],
        "hidden_dim": settings["intermediate_size"],
        "activation": str(rng.choice(["gelu", "relu"])),
        "sinusoidal_pos_embds": bool(rng.random() < 0.5),
        "max_position_embeddings": settings["max_position_embeddings"],
        "num_labels": settings["num_labels"],
    }


def _deberta_v1(rng):
    settings = _bert(rng, int(rng.integers(40, 60)))
    return "DebertaForSequenceClassification", settings | {
        "relative_attention": True,
        "max_relative_positions": int(rng.choice([-1, 1, 6, 7, 64])),
        "pos_att_type": "c2p|p2c",
        "position_biased_input": False,
        "type_vocab_size": int(rng.integers(0, 3)),
    }


def _deberta(rng):
    settings = _bert(rng, int(rng.integers(40, 60)))
    return "DebertaV2ForSequenceClassification", settings | {
        "relative_attention": True,
        "position_buckets": 2 * int(rng.integers(2, 20)),
        "max_relative_positions": int(rng.choice([-1, 45, 64])),
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "pos_att_type": "p2c|c2p",
        "position_biased_input": False,
        "pooler_hidden_size": settings["hidden_size"],
        "type_vocab_size": int(rng.integers(0, 3)),
    }


DRAWN = [_gpt2, _bloom, _llama, _mistral, _qwen, _gemma, _gemma2, _gemma3, _bart, _bert_or_albert]
DRAWN += [
    _electra,
    _distilbert,
    _roberta,
    _deberta,
    _deberta_v1,
    _bart_classifier,
    _umt5,
    _t5_classifier,
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("drawn", DRAWN, ids=lambda f: f.__name__.strip("_"))
def test_a_random_config_computes_what_transformers_computes(tmp_path, drawn, seed):
    architecture, settings = drawn(np.random.default_rng(seed))
    make_folder(tmp_path / "made", architecture, settings | {"vocab_size": 40}, {})
    config = json.loads((tmp_path / "made" / "config.json").read_text())
    stored = family_folders.safetensors.numpy.load_file(tmp_path / "made" / "model.safetensors")
    shapes = {name: array.shape for name, array in stored.items()}
    folder = family_folders.write(tmp_path / "drawn", config, family_folders.draw(shapes, seed + 1))
    assert_as_transformers(folder, architecture, inputs_of(config, seed))


def assert_as_transformers(folder, architecture, inputs):
    """Compares the logits of a folder's model."""
    outputs = reference(load(folder, architecture), inputs, generate=False)
    model = faith_jax.load_model(str(folder))
    expected = outputs["span_logits" if model.config.span_head else "logits"]
    if "decoder_input_tokens" in inputs:
        actual = model.logits(inputs["encoder_input_tokens"], inputs["decoder_input_tokens"])
    elif isinstance(model, faith_jax.EncoderModel):
        compute = model.span_logits if model.config.span_head else model.classify
        actual = compute(inputs["input_tokens"], inputs.get("token_types"))
        if model.config.span_head:
            valid = inputs["input_mask"] > 0
            actual, expected = actual[valid], expected[valid]
    else:
        valid = inputs["input_mask"] > 0
        actual, expected = model.logits(inputs["input_tokens"])[valid], expected[valid]
    np.testing.assert_allclose(actual, expected, atol=TOLERANCE)
    assert np.std(expected) > 1e-3


@pytest.mark.parametrize("name", [name for name in families.FAMILIES if name != "doha"])
def test_transformers_opens_what_is_written_of_a_model_of_our_own(tmp_path, name):
    config = families.FAMILIES[name]
    params = jax.tree.map(lambda x: 0.5 * x, tiny.model_and_params(config)[1])
    write_huggingface(Checkpoint(config, params), tmp_path / "written")
    written = json.loads((tmp_path / "written" / "config.json").read_text())
    assert_as_transformers(tmp_path / "written", written["architectures"][0], inputs_of(written))
