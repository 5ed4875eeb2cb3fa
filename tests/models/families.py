"""A tiny config of each model family, as checkpoints have them."""

from faith_jax.models.config import TransformerConfig
from tests.models.tiny import TINY, VOCAB_SIZE

_COMMON = {
    "vocab_size": VOCAB_SIZE,
    "emb_dim": 8,
    "num_heads": 2,
    "head_dim": 4,
    "mlp_dim": 12,
    "attention_scale": 0.5,
    "dropout_rate": 0.1,
    "broadcast_dropout": False,
    "scale_tied_logits": False,
}
_LAYER_NORM = {
    "norm": "layer",
    "layer_norm_epsilon": 1e-5,
    "attention_bias": True,
    "mlp_bias": True,
    "mlp_activations": ("gelu",),
}
_DECODER = {"num_encoder_layers": 0, "num_decoder_layers": 2, "pad_id": 0, "eos_ids": (1,)}
_ROTARY = _COMMON | _DECODER | {"positions": "rotary", "mlp_activations": ("silu", "linear")}
_POST = _LAYER_NORM | {
    "norm_position": "post",
    "embedding_norm": True,
    "mlp_activations": ("gelu_exact",),
}
_ENCODER = _COMMON | _POST | {"num_encoder_layers": 2, "num_decoder_layers": 0}

GPT2 = TransformerConfig(
    **_COMMON
    | _DECODER
    | _LAYER_NORM
    | {"positions": "learned", "max_positions": 40, "logits_via_embedding": True, "pad_id": -1}
)
BLOOM = TransformerConfig(
    **_COMMON
    | _DECODER
    | _LAYER_NORM
    | {
        "emb_dim": 12,
        "num_heads": 3,
        "mlp_dim": 48,
        "positions": "alibi",
        "embedding_norm": True,
        "logits_via_embedding": True,
    }
)
LLAMA = TransformerConfig(**_ROTARY | {"num_heads": 4, "num_kv_heads": 2, "eos_ids": (1, 7)})
MISTRAL = LLAMA.replace(
    num_kv_heads=1, sliding_window=3, sliding_window_layers=(0, 1), eos_ids=(1,)
)
GEMMA = TransformerConfig(
    **_ROTARY
    | {
        "norm_offset": 1.0,
        "scale_embeddings": True,
        "logits_via_embedding": True,
        "mlp_activations": ("gelu", "linear"),
        "num_kv_heads": 1,
    }
)
GEMMA2 = GEMMA.replace(
    norm_position="sandwich",
    attention_softcap=2.0,
    logits_softcap=5.0,
    sliding_window=4,
    sliding_window_layers=(0,),
)
T5GEMMA = GEMMA2.replace(
    num_encoder_layers=2, decoder_embedding=True, sliding_window=3, decoder_start_id=2
)
BART = TransformerConfig(
    **_COMMON
    | _POST
    | {
        "num_encoder_layers": 1,
        "num_decoder_layers": 2,
        "positions": "learned",
        "max_positions": 40,
        "position_offset": 2,
        "logits_via_embedding": True,
        "logits_bias": True,
        "scale_embeddings": True,
        "pad_id": 1,
        "eos_ids": (2,),
        "decoder_start_id": 2,
    }
)
BART_NLI = BART.replace(label_names=("contradiction", "neutral", "entailment"))
DOHA = BART.replace(knowledge_attention=True)
ROBERTA = TransformerConfig(
    **_ENCODER
    | {
        "positions": "learned",
        "max_positions": 40,
        "position_offset": 2,
        "num_token_types": 1,
        "pad_id": 1,
        "eos_ids": (2,),
        "label_names": ("entailment", "neutral", "contradiction"),
    }
)
BERT = ROBERTA.replace(
    position_offset=0,
    num_token_types=2,
    pad_id=0,
    eos_ids=(),
    classifier_input_dropout=False,
    pooler=True,
)
ELECTRA = BERT.replace(
    embedding_dim=6,
    classifier_activation="gelu_exact",
    classifier_input_dropout=True,
    pooler=False,
)
DISTILBERT = BERT.replace(
    num_token_types=0,
    classifier_activation="relu",
    layer_norm_epsilon=1e-12,
    attention_output_dropout=False,
    pooler=False,
)
ALBERT = BERT.replace(
    embedding_dim=6, shared_layers=True, label_names=(), span_head=True, eos_ids=(3,)
)
DEBERTA = TransformerConfig(
    **_ENCODER
    | {
        "positions": "disentangled",
        "max_positions": 40,
        "relative_attention_num_buckets": 6,
        "relative_attention_max_distance": 20,
        "attention_scale": 12**-0.5,
        "classifier_activation": "gelu_exact",
        "classifier_input_dropout": False,
        "eos_ids": (2,),
        "label_names": ("faithful", "hallucinated"),
    }
)
DEBERTA_V1 = DEBERTA.replace(separate_positions=True)
MODERNBERT = TransformerConfig(
    **_COMMON
    | {
        "num_encoder_layers": 3,
        "num_decoder_layers": 0,
        "norm": "layer",
        "norm_bias": False,
        "first_norm": False,
        "embedding_norm": True,
        "positions": "rotary",
        "dropout_rate": 0.0,
        "layer_norm_epsilon": 1e-5,
        "mlp_activations": ("gelu_exact", "linear"),
        "sliding_window": 3,
        "sliding_window_layers": (1, 2),
        "rope_window_theta": 50.0,
        "max_positions": 40,
        "pad_id": 0,
        "eos_ids": (2,),
        "label_names": ("faithful", "hallucinated"),
        "classifier_activation": "gelu_exact",
        "classifier_bias": False,
        "classifier_norm": True,
        "classifier_pooling": "mean",
        "classifier_input_dropout": False,
    }
)
T5_NLI = TINY.replace(label_names=("entailment", "neutral", "contradiction"))
UMT5 = TINY.replace(layer_position_biases=True)
DECODERS = {
    "gpt2": GPT2,
    "bloom": BLOOM,
    "llama": LLAMA,
    "mistral": MISTRAL,
    "qwen3": LLAMA.replace(query_key_norm=True),
    "gemma": GEMMA,
    "gemma2": GEMMA2,
}
ENCODERS = {"roberta": ROBERTA, "bert": BERT, "albert": ALBERT, "deberta": DEBERTA}
ENCODERS |= {
    "electra": ELECTRA,
    "distilbert": DISTILBERT,
    "deberta_v1": DEBERTA_V1,
    "modernbert": MODERNBERT,
}
FAMILIES = (
    DECODERS
    | ENCODERS
    | {
        "bart": BART,
        "bart_nli": BART_NLI,
        "umt5": UMT5,
        "t5_nli": T5_NLI,
        "doha": DOHA,
        "t5gemma": T5GEMMA,
    }
)
