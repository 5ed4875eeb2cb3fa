"""DeBERTa-v3 (published as deberta-v2): encoder-only, disentangled attention."""

from typing import Any

from faith_jax.errors import CheckpointError
from faith_jax.models.config import TransformerConfig
from faith_jax.models.importers.families.family import (
    PUBLISHED_ACTIVATIONS,
    ConfigFields,
    Family,
    TensorMap,
    layer_norm,
    linear,
)
from faith_jax.models.importers.families.roberta import (
    bert_layers,
    bert_like,
    written_like_bert,
)


def read_config(fields: ConfigFields) -> TransformerConfig:
    """See `Family`."""
    fields.require("relative_attention", False, True)
    fields.require("share_att_key", False, True)
    fields.require("position_biased_input", True, False)
    fields.require("conv_kernel_size", 0, 0)
    fields.require("pooler_dropout", 0, 0)
    _require_both_products(fields)
    common = bert_like(fields)
    for name in ("embedding_size", "pooler_hidden_size"):
        fields.require(name, common["emb_dim"], common["emb_dim"])
    positions = fields.whole("max_position_embeddings", default=512)
    distance = fields.whole("max_relative_positions", default=-1)
    buckets = fields.whole("position_buckets", default=-1)
    if buckets < 4 or buckets % 2:
        raise CheckpointError(
            f"{fields.path}: field 'position_buckets': expected an even number from 4 on, got "
            f"{buckets}; unbucketed distances are not supported."
        )
    head = fields.fields.get("cls_dropout")
    return TransformerConfig(
        vocab_size=fields.whole("vocab_size", default=128100),
        **common,
        classifier_activation=fields.activation("pooler_hidden_act", default="gelu"),
        classifier_dropout_rate=None if head is None else fields.number("cls_dropout"),
        layer_norm_epsilon=fields.number("layer_norm_eps", default=1e-7),
        positions="disentangled",
        max_positions=positions,
        relative_attention_num_buckets=buckets,
        relative_attention_max_distance=distance if distance >= 1 else positions,
        num_token_types=fields.whole("type_vocab_size", default=0),
        attention_scale=(3 * common["head_dim"]) ** -0.5,
        pad_id=fields.token("pad_token_id", 0),
        eos_ids=fields.tokens("eos_token_id", None),
    )


def _require_both_products(fields: ConfigFields) -> None:
    """Checks that contents meet positions both ways, and that the positions are normalised."""
    kinds = fields.fields.get("pos_att_type") or []
    kinds = kinds.lower().split("|") if isinstance(kinds, str) else kinds
    if sorted(map(str, kinds)) != ["c2p", "p2c"]:
        raise CheckpointError(
            f"{fields.path}: field 'pos_att_type': expected \"p2c|c2p\", got "
            f"{fields.fields.get('pos_att_type')!r}; other attentions are not supported."
        )
    if "layer_norm" not in str(fields.fields.get("norm_rel_ebd", "none")).lower().split("|"):
        raise CheckpointError(
            f"{fields.path}: field 'norm_rel_ebd': expected \"layer_norm\", got "
            f"{fields.fields.get('norm_rel_ebd')!r}; only DeBERTa-v3's form is supported."
        )


def write_config(config: TransformerConfig) -> dict[str, Any]:
    """See `Family`."""
    kind = "ForSequenceClassification" if config.label_names else "Model"
    written = written_like_bert(config) | {
        "architectures": [f"DebertaV2{kind}"],
        "max_position_embeddings": config.max_positions,
        "max_relative_positions": config.relative_attention_max_distance,
        "model_type": "deberta-v2",
        "norm_rel_ebd": "layer_norm",
        "pooler_dropout": 0,
        "pooler_hidden_act": PUBLISHED_ACTIVATIONS[config.classifier_activation],
        "pooler_hidden_size": config.emb_dim,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "position_buckets": config.relative_attention_num_buckets,
        "relative_attention": True,
        "share_att_key": True,
    }
    if config.classifier_dropout_rate is not None:
        written["cls_dropout"] = config.classifier_dropout_rate
    return written


def tensors(config: TransformerConfig) -> list[TensorMap]:
    """See `Family`."""
    maps = [
        TensorMap("deberta.embeddings.word_embeddings.weight", ("token_embedder/embedding",)),
        TensorMap(
            "deberta.encoder.rel_embeddings.weight", ("encoder/relative_embedder/embedding",)
        ),
        *layer_norm("deberta.embeddings.LayerNorm", "encoder/embedding_norm"),
        *layer_norm("deberta.encoder.LayerNorm", "encoder/relative_norm"),
    ]
    if config.num_token_types:
        name = "deberta.embeddings.token_type_embeddings.weight"
        maps.append(TensorMap(name, ("encoder/token_type_embedder/embedding",)))
    projections = {"query_proj": "query", "key_proj": "key", "value_proj": "value"}
    maps += bert_layers(config, "deberta.", projections)
    if config.label_names:
        maps += linear("pooler.dense", "classifier/dense", bias=True)
        maps += linear("classifier", "classifier/out", bias=True)
    return maps


DEBERTA = Family(
    name="DeBERTa-v3",
    model_types=("deberta-v2",),
    prefix="deberta.",
    read_config=read_config,
    write_config=write_config,
    tensors=tensors,
    unused=(
        r"embeddings\.position_ids|lm_predictions\..*|mask_predictions\..*|cls\..*|"
        r"pooler\.dense\.(weight|bias)"
    ),
    matches=lambda c: c.is_encoder_only and c.positions == "disentangled",
)
