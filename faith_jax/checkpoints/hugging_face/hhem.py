"""HHEM-2.1-Open: the encoder of a Flan-T5 with a projection of its first state to two classes.

Its config.json only has the model's name, since its published code hard-codes the dimensions of
Flan-T5 base. The input begins with the padding token, which is treated like any other token.
"""

from faith_jax.checkpoints.hugging_face.bert import labels_of
from faith_jax.checkpoints.hugging_face.t5 import T5, below

_ENCODER = below("t5.transformer.", T5)
# Flan-T5 base.
_DIMENSIONS = {"emb_dim": 768, "num_heads": 12, "num_encoder_layers": 12, "mlp_dim": 2048}


HHEM = _ENCODER.replace(
    name="HHEM",
    model_type="HHEMv2Config",
    architecture="HHEMv2",
    marks={
        "is_encoder_only": True,
        "norm": "rms",
        "positions": "relative_bias",
        "classifier_hidden": False,
        "pad_id": -1,
    },
    fields={
        ours: (_DIMENSIONS.get(ours, default), *names)
        for ours, (default, *names) in T5.fields.items()
        if ours not in ("num_decoder_layers", "decoder_start_id")
    },
    constants={
        **T5.constants,
        "num_decoder_layers": 0,
        "mlp_activations": ("gelu", "linear"),
        "pad_id": -1,
        "eos_ids": (),
        "classifier_hidden": False,
    },
    tasks=("ForSequenceClassification",),
    read=lambda fields, base_settings: {"label_names": fields.labels()},
    write=labels_of,
    modules={**_ENCODER.modules, "t5.classifier": "classifier/out"},
    unused=r"encoder\.embed_tokens\.weight",
    head_is_embedding=False,
)
