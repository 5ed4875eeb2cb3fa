"""Folders in published form: a tiny model with random weights and a tokenizer of its family.

A model has one layer per stack unless a test asks for more, since layers make compilation slower.
"""

import functools
import json
import shutil
import string

import numpy as np
import safetensors.numpy

from faith_jax.checkpoints.checkpoint import Checkpoint, flatten, unflatten
from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.checkpoints.hugging_face.folder import write_huggingface
from faith_jax.checkpoints.manifest import MANIFEST
from faith_jax.models.config import TransformerConfig
from faith_jax.models.transformer import Transformer, parameter_shapes
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.models import tiny
from tests.tokenizers import published_tokenizers

_SMALL = {"emb_dim": 16, "num_heads": 2, "head_dim": 8, "mlp_dim": 32, "dropout_rate": 0.1}
_LAYER_NORM = {
    "norm": "layer",
    "layer_norm_epsilon": 1e-5,
    "attention_bias": True,
    "mlp_bias": True,
    "mlp_dropout_rate": 0.0,
    "broadcast_dropout": False,
}
_LEARNED = {"positions": "learned", "attention_scale": 8**-0.5}
_TIED = {"logits_via_embedding": True, "scale_tied_logits": False}
_BERT = {
    **_SMALL,
    **_LAYER_NORM,
    **_LEARNED,
    "num_encoder_layers": 1,
    "num_decoder_layers": 0,
    "norm_position": "post",
    "embedding_norm": True,
    "mlp_activations": ("gelu_exact",),
    "max_positions": 64,
}
FAMILIES = {
    "gpt2": {
        **_SMALL,
        **_LAYER_NORM,
        **_LEARNED,
        **_TIED,
        "num_encoder_layers": 0,
        "num_decoder_layers": 1,
        "mlp_activations": ("gelu",),
        "max_positions": 96,
        "pad_id": -1,
        "eos_ids": (0,),
    },
    "bart": {
        **_BERT,
        **_TIED,
        "num_decoder_layers": 1,
        "max_positions": 128,
        "position_offset": 2,
        "logits_bias": True,
        "pad_id": 1,
        "eos_ids": (2,),
        "decoder_start_id": 2,
    },
    "roberta": {
        **_BERT,
        "max_positions": 62,
        "position_offset": 2,
        "num_token_types": 1,
        "pad_id": 1,
        "eos_ids": (2,),
    },
    "bert": {
        **_BERT,
        "num_token_types": 2,
        "classifier_input_dropout": False,
        "pooler": True,
        "eos_ids": (),
    },
    "albert": {
        **_BERT,
        "num_token_types": 2,
        "embedding_dim": 8,
        "shared_layers": True,
        "mlp_activations": ("gelu",),
        "classifier_input_dropout": False,
        "pooler": True,
        "eos_ids": (3,),
    },
    "deberta_nli": {
        **_BERT,
        "positions": "disentangled",
        "max_positions": 512,
        "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 24,
        "attention_scale": 24**-0.5,
        "classifier_activation": "gelu_exact",
        "eos_ids": (),
    },
}


def _computed_once(write):
    """Keeps the written files of each model in memory, for the next folder with the same model."""
    written = {}

    @functools.wraps(write)
    def write_again(folder, *arguments, **changes):
        key = repr((arguments, sorted(changes.items())))
        if key not in written:
            write(folder, *arguments, **changes)
            written[key] = {file.name: file.read_bytes() for file in folder.iterdir()}
        else:
            folder.mkdir(parents=True)
            for name, content in written[key].items():
                (folder / name).write_bytes(content)
        return str(folder)

    return write_again


@_computed_once
def write_model(folder, family, seed=0, **changes):
    """Writes a family's tokenizer and a random model that fits it; returns the folder's path."""
    folder.mkdir(parents=True)
    getattr(published_tokenizers, family)(folder)
    size = load_vocabulary(str(folder)).vocab_size
    config = TransformerConfig(**(FAMILIES[family] | {"vocab_size": size} | changes))
    shapes = flatten(parameter_shapes(Transformer(config))["params"])
    rng = np.random.default_rng(seed)
    params = {n: _draw(rng, n, s.shape) for n, s in sorted(shapes.items())}
    tokenizer_config = folder / "config.json"
    ids = json.loads(tokenizer_config.read_text()) if tokenizer_config.exists() else {}
    _add_checkpoint(folder, Checkpoint(config, unflatten(params)))
    written = json.loads((folder / "config.json").read_text())
    kept = {k: v for k, v in ids.items() if k.endswith("_token_id")}
    (folder / "config.json").write_text(json.dumps(kept | written))
    return str(folder)


def _add_checkpoint(folder, checkpoint):
    """Writes a checkpoint, in published form, into a folder that has a tokenizer."""
    beside = folder.with_name(folder.name + "_model")
    write_huggingface(checkpoint, beside)
    (beside / MANIFEST).unlink()  # published folders have no manifest
    for file in beside.iterdir():
        file.replace(folder / file.name)
    beside.rmdir()


def write_span_reader(folder):
    """Writes a BERT whose answer to all questions is the first token of the text."""
    path = write_model(folder, "bert", span_head=True, pooler=False, max_positions=128)
    stored = safetensors.numpy.load_file(folder / "model.safetensors")
    # All spans, and no answer, have equal scores.
    stored |= {name: 0 * array for name, array in stored.items() if name.startswith("qa_outputs")}
    safetensors.numpy.save_file(stored, folder / "model.safetensors", {"format": "pt"})
    return path


@_computed_once
def write_t5(folder, **changes):
    """Writes a random T5 with one layer per stack and `english_4096`; returns its path.

    Tokens are mostly whole words, so that a text has far fewer than with the other tokenizers.
    """
    config = tiny.TINY.replace(vocab_size=4224, num_encoder_layers=1, num_decoder_layers=1)
    config = config.replace(**changes)
    write_huggingface(Checkpoint(config, tiny.model_and_params(config)[1]), folder)
    (folder / MANIFEST).unlink()
    shutil.copy(checkpoint_path("mini") / "spiece.model", folder)
    return str(folder)


def write_judge_t5(folder, **changes):
    """Writes a random T5 whose tokenizer has one token for each word that judges answer with.

    As in T5's published vocabulary, "0" is the exception: it starts with a separate space token.
    """
    folder.mkdir(parents=True)
    symbols = ("1", "Yes", "No", "At", "Contra", "Extra")
    published_tokenizers.sentencepiece(
        folder,
        "spiece.model",
        vocab_size=250,
        model_type="unigram",
        byte_fallback=False,
        normalization_rule_name="nmt_nfkc",
        remove_extra_whitespaces=True,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        required_chars=string.ascii_letters + string.digits + "?:,.'\"",
        user_defined_symbols=[f"\u2581{symbol}" for symbol in symbols],
    )
    config = tiny.TINY.replace(vocab_size=512, num_encoder_layers=1, num_decoder_layers=1)
    config = config.replace(**changes)
    _add_checkpoint(folder, Checkpoint(config, tiny.model_and_params(config)[1]))
    return str(folder)


def _draw(rng, name, shape):
    noise = rng.normal(size=shape).astype(np.float32)
    if name.endswith("scale"):
        return 1 + np.float32(0.2) * noise
    if name.endswith("kernel"):
        return noise * np.float32(shape[0] ** -0.5)
    return noise * np.float32(0.3)
