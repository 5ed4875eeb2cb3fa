"""BERT, DPR, ELECTRA, DistilBERT, RoBERTa: encoder-only, learned positions, post-norm.

CorefBERT's published folders have BERT's and RoBERTa's form. DPR's two encoders are BERTs with
their own prefix and without a pooler.
"""

from faith_jax.checkpoints.hugging_face.family import (
    LAYER_NORM,
    ConfigFields,
    Family,
    Settings,
    attention_modules,
)
from faith_jax.models.config import TransformerConfig

AFTER_ATTENTION = {
    "attention.output.LayerNorm": "post_attention_layer_norm",
    "intermediate.dense": "mlp/wi",
    "output.dense": "mlp/wo",
    "output.LayerNorm": "post_mlp_layer_norm",
}


def bert_layer(*names: str) -> dict[str, str]:
    """Returns the modules of a layer; `names` are the query's, key's and value's."""
    attention_names = (*(f"self.{name}" for name in names), "output.dense")
    return attention_modules("attention", "attention", attention_names) | AFTER_ATTENTION


def bert_embeddings(base: str) -> dict[str, str]:
    """Returns the modules of the embeddings; `base` is the prefix of the base model."""
    return {
        f"{base}embeddings.word_embeddings": "token_embedder",
        f"{base}embeddings.position_embeddings": "encoder/position_embedder",
        f"{base}embeddings.token_type_embeddings": "encoder/token_type_embedder",
        f"{base}embeddings.LayerNorm": "encoder/embedding_norm",
    }


def dropout_rate(fields: ConfigFields, name: str) -> float | None:
    """Returns a dropout rate that config.json may leave out."""
    return None if fields.fields.get(name) is None else fields.get(name, default=0.0)


def labels_of(config: TransformerConfig) -> Settings:
    """Returns the fields of config.json that name the classes, if there are any."""
    names = config.label_names or config.token_label_names
    if not names:
        return {}
    return {
        "id2label": {str(i): name for i, name in enumerate(names)},
        "label2id": {name: i for i, name in enumerate(names)},
    }


def _read_bert(fields: ConfigFields, base_settings: Settings) -> Settings:
    return {
        "label_names": fields.labels(),
        "classifier_dropout_rate": dropout_rate(fields, "classifier_dropout"),
    }


_LAYER = bert_layer("query", "key", "value")
BERT = Family(
    name="BERT",
    model_type="bert",
    architecture="Bert",
    marks={
        "is_encoder_only": True,
        "positions": "learned",
        "position_offset": 0,
        "shared_layers": False,
        "classifier_activation": "tanh",
    },
    fields={
        "emb_dim": (768, "hidden_size"),
        "num_heads": (12, "num_attention_heads"),
        "num_encoder_layers": (12, "num_hidden_layers"),
        "mlp_dim": (3072, "intermediate_size"),
        "mlp_activations": ("gelu", "hidden_act"),
        "dropout_rate": (0.1, "hidden_dropout_prob"),
        "attention_dropout_rate": (0.1, "attention_probs_dropout_prob"),
        "vocab_size": (30522, "vocab_size"),
        "layer_norm_epsilon": (1e-12, "layer_norm_eps"),
        "num_token_types": (2, "type_vocab_size"),
        "max_positions": (512, "max_position_embeddings"),
    },
    constants=LAYER_NORM
    | {
        "num_decoder_layers": 0,
        "norm_position": "post",
        "embedding_norm": True,
        "positions": "learned",
        "classifier_input_dropout": False,
    },
    required={"position_embedding_type": ("absolute", "absolute"), "is_decoder": (False, False)},
    pad=lambda fields: fields.padding(0),
    end=None,
    tasks=("ForSequenceClassification", "ForQuestionAnswering"),
    read=_read_bert,
    write=lambda config: labels_of(config) | {"classifier_dropout": config.classifier_dropout_rate},
    modules=bert_embeddings("bert.")
    | {
        "bert.pooler.dense": "classifier/dense",
        "classifier": "classifier/out",
        "qa_outputs": "span",
    },
    layers={("bert.encoder.layer", "encoder/layers"): _LAYER},
    prefix="bert.",
    unused=r"embeddings\.(position_ids|token_type_ids)|cls\..*|coef",
)


def _make_dpr_family(kind: str, prefix: str) -> Family:
    return BERT.replace(
        name="DPR",
        model_type="dpr",
        kind=kind,
        architecture=f"DPR{kind}Encoder",
        marks={**BERT.marks, "pooler": False, "span_head": False, "label_names": ()},
        required={**BERT.required, "projection_dim": (0, 0)},
        read=lambda fields, base_settings: {},
        write=lambda config: {"projection_dim": 0},
        modules=bert_embeddings(prefix),
        layers={(f"{prefix}encoder.layer", "encoder/layers"): _LAYER},
        prefix=prefix,
        unused=r"embeddings\.(position_ids|token_type_ids)|pooler\.dense\.(weight|bias)",
    )


DPR_CONTEXT = _make_dpr_family("Context", "ctx_encoder.bert_model.")
DPR_QUESTION = _make_dpr_family("Question", "question_encoder.bert_model.")


def _read_electra(fields: ConfigFields, base_settings: Settings) -> Settings:
    width = fields.get("embedding_size", default=128)
    is_projected = width != base_settings["emb_dim"]
    return _read_bert(fields, base_settings) | {"embedding_dim": width if is_projected else 0}


_HEADS = {
    "classifier.dense": "classifier/dense",
    "classifier.out_proj": "classifier/out",
    "qa_outputs": "span",
}
ELECTRA = BERT.replace(
    name="ELECTRA",
    model_type="electra",
    architecture="Electra",
    marks={**BERT.marks, "classifier_activation": "gelu_exact"},
    fields=BERT.fields
    | {
        "emb_dim": (256, "hidden_size"),
        "num_heads": (4, "num_attention_heads"),
        "mlp_dim": (1024, "intermediate_size"),
    },
    constants={
        **BERT.constants,
        "classifier_activation": "gelu_exact",
        "classifier_input_dropout": True,
    },
    read=_read_electra,
    write=lambda config: BERT.write(config) | {"embedding_size": config.embedding_width},
    modules=bert_embeddings("electra.")
    | {"electra.embeddings_project": "encoder/embedding_projection"}
    | _HEADS,
    layers={("electra.encoder.layer", "encoder/layers"): _LAYER},
    prefix="electra.",
    unused=r"embeddings\.(position_ids|token_type_ids)|(discriminator|generator)_.*",
)
DISTILBERT = BERT.replace(
    name="DistilBERT",
    model_type="distilbert",
    architecture="DistilBert",
    marks={**BERT.marks, "classifier_activation": "relu"},
    fields={
        "emb_dim": (768, "dim"),
        "num_heads": (12, "n_heads"),
        "num_encoder_layers": (6, "n_layers"),
        "mlp_dim": (3072, "hidden_dim"),
        "mlp_activations": ("gelu", "activation"),
        "dropout_rate": (0.1, "dropout"),
        "attention_dropout_rate": (0.1, "attention_dropout"),
        "classifier_dropout_rate": (0.2, "seq_classif_dropout"),
        "vocab_size": (30522, "vocab_size"),
        "max_positions": (512, "max_position_embeddings"),
    },
    constants={
        **BERT.constants,
        "classifier_activation": "relu",
        "layer_norm_epsilon": 1e-12,
        "attention_output_dropout": False,
    },
    required={},
    read=lambda fields, base_settings: {"label_names": fields.labels()},
    write=labels_of,
    modules=bert_embeddings("distilbert.")
    | {"pre_classifier": "classifier/dense", "classifier": "classifier/out", "qa_outputs": "span"},
    layers={
        ("distilbert.transformer.layer", "encoder/layers"): {
            **attention_modules("attention", "attention", ("q_lin", "k_lin", "v_lin", "out_lin")),
            "sa_layer_norm": "post_attention_layer_norm",
            "ffn.lin1": "mlp/wi",
            "ffn.lin2": "mlp/wo",
            "output_layer_norm": "post_mlp_layer_norm",
        }
    },
    prefix="distilbert.",
    unused=r"embeddings\.position_ids|vocab_.*",
)


def _read_roberta(fields: ConfigFields, base_settings: Settings) -> Settings:
    pad = fields.padding(1)
    return _read_bert(fields, base_settings) | {
        "max_positions": base_settings["max_positions"] - pad - 1,
        "position_offset": pad + 1,
    }


ROBERTA = BERT.replace(
    name="RoBERTa",
    model_type="roberta",
    architecture="Roberta",
    marks={"is_encoder_only": True, "positions": "learned"},
    fields=BERT.fields | {"vocab_size": (50265, "vocab_size")},
    constants=BERT.constants | {"classifier_input_dropout": True},
    pad=lambda fields: fields.padding(1),
    end=2,
    read=_read_roberta,
    write=lambda config: (
        BERT.write(config)
        | {
            "bos_token_id": 0,
            "max_position_embeddings": config.max_positions + config.position_offset,
        }
    ),
    modules=bert_embeddings("roberta.") | _HEADS,
    layers={("roberta.encoder.layer", "encoder/layers"): _LAYER},
    prefix="roberta.",
    unused=(
        r"embeddings\.(position_ids|token_type_ids)|pooler\.dense\.(weight|bias)|lm_head\..*|coef"
    ),
)
XLM_ROBERTA = ROBERTA.replace(
    name="XLM-RoBERTa", model_type="xlm-roberta", architecture="XLMRoberta"
)
