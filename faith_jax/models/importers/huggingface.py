"""Hugging Face folders of the T5 family: config.json and safetensors, read and written.

Writing gives back what was read, tensor for tensor and bit for bit: names that say the same thing
twice (tied embeddings), the order of sharded files aside.
"""

import json
import pathlib
import re
import shutil
from collections.abc import Iterable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from faith_jax.errors import CheckpointError, ConfigError
from faith_jax.models.config import TransformerConfig
from faith_jax.models.importers.checkpoint import (
    PROMPTS,
    Checkpoint,
    check_params,
    flatten,
    unflatten,
    unstack_layers,
)

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
FAMILIES = ("t5", "mt5")
# Files of a tokenizer and of generation, which travel with the weights.
COMPANIONS = (
    "spiece.model",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
)
# Other names of the shared embedding; and a tensor of the first T5 checkpoints that nothing uses.
ALIASES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
UNUSED = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)

_FEED_FORWARD = {
    "relu": ("relu",),
    "gated-gelu": ("gelu", "linear"),
    "gated-silu": ("silu", "linear"),
}
_DTYPES = {"F32": np.float32, "BF16": ml_dtypes.bfloat16, "F16": np.float16}


def is_huggingface(folder: str | pathlib.Path) -> bool:
    """Whether a folder is in Hugging Face's form."""
    return (pathlib.Path(folder) / CONFIG).is_file()


def read_huggingface(folder: str | pathlib.Path) -> Checkpoint:
    """Reads a T5, Flan-T5 or mT5 folder; dtypes stay as they are in the file.

    Raises:
      CheckpointError: on another family, a truncated file, and a tensor that is missing,
        mis-shaped or unexpected, named.
    """
    folder = pathlib.Path(folder)
    described = _read_config(folder / CONFIG)
    tensors = _read_tensors(folder)
    aliases = _resolve_tying(described, tensors)
    config = _model_config(described, tensors, folder)
    names = tensor_names(config)
    params = {}
    for theirs, array in tensors.items():
        if theirs in names:
            params[names[theirs]] = _converted(names[theirs], array)
        elif theirs in UNUSED or _is_alias(theirs, array, tensors, folder):
            aliases[theirs] = theirs in ALIASES
        else:
            raise CheckpointError(
                f"{folder}: the tensor {theirs} {array.shape} is not one of T5's; is this a "
                "checkpoint of another model?"
            )
    for theirs in names:
        if theirs not in tensors:
            raise CheckpointError(f"{folder}: the tensor {theirs} is missing.")
    tree = unflatten(params)
    check_params(config, tree, str(folder))
    metadata = {
        "source": str(folder.absolute()),
        "format": "huggingface",
        "huggingface_config": described,
        "aliases": [name for name, written in aliases.items() if written],
        "left_out": [name for name, written in aliases.items() if not written],
    }
    return Checkpoint(config, tree, metadata)


def write_huggingface(
    checkpoint: Checkpoint, folder: str | pathlib.Path, max_shard_bytes: int = 5_000_000_000
) -> None:
    """Writes config.json and safetensors into a new or empty folder.

    Args:
      checkpoint: T5's parameters, without soft prompts.
      folder: is made where it does not exist.
      max_shard_bytes: weights beyond it go to several files with an index.

    Raises:
      CheckpointError: on a checkpoint with soft prompts, which T5's form cannot hold.
    """
    if any(prompt in checkpoint.params for prompt in PROMPTS):
        raise CheckpointError(
            "Hugging Face's T5 has no soft prompts: export the base model; the prompt is the "
            "parameter encoder_prompt/embedding of the run's checkpoint."
        )
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    flat = flatten(unstack_layers(checkpoint.params))
    tensors = {
        theirs: np.ascontiguousarray(_converted(ours, np.asarray(flat[ours])))
        for theirs, ours in tensor_names(checkpoint.config).items()
    }
    for alias in checkpoint.metadata.get("aliases", ()):
        tensors[alias] = tensors["shared.weight"]
    for name in checkpoint.metadata.get("left_out", ()):
        tensors.pop(name, None)
    config = checkpoint.metadata.get("huggingface_config") or _described(checkpoint.config, tensors)
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    _write_tensors(tensors, folder, max_shard_bytes)


def copy_companions(source: str | pathlib.Path, folder: str | pathlib.Path) -> None:
    """Copies tokenizer and generation files that lie beside a checkpoint."""
    for name in COMPANIONS:
        found = pathlib.Path(source) / name
        if found.is_file():
            shutil.copyfile(found, pathlib.Path(folder) / name)


def tensor_names(config: TransformerConfig) -> dict[str, str]:
    """Returns Hugging Face's tensor names with our parameter names."""
    names = {
        "shared.weight": "token_embedder/embedding",
        "encoder.final_layer_norm.weight": "encoder/encoder_norm/scale",
        "decoder.final_layer_norm.weight": "decoder/decoder_norm/scale",
    }
    if not config.logits_via_embedding:
        names["lm_head.weight"] = "decoder/logits_dense/kernel"
    for stack, count in (
        ("encoder", config.num_encoder_layers),
        ("decoder", config.num_decoder_layers),
    ):
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        names[bias] = f"{stack}/relpos_bias/rel_embedding"
        for i in range(count):
            names |= _layer_names(config, stack, i)
    return names


def _layer_names(config: TransformerConfig, stack: str, i: int) -> dict[str, str]:
    decoder = stack == "decoder"
    attentions = [("SelfAttention", "self_attention" if decoder else "attention")]
    norms = ["pre_self_attention_layer_norm" if decoder else "pre_attention_layer_norm"]
    if decoder:
        attentions.append(("EncDecAttention", "encoder_decoder_attention"))
        norms.append("pre_cross_attention_layer_norm")
    norms.append("pre_mlp_layer_norm")
    theirs, ours = f"{stack}.block.{i}.layer", f"{stack}/layers_{i}"
    names = {f"{theirs}.{j}.layer_norm.weight": f"{ours}/{n}/scale" for j, n in enumerate(norms)}
    for j, (their_attention, our_attention) in enumerate(attentions):
        for a, b in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "out")):
            names[f"{theirs}.{j}.{their_attention}.{a}.weight"] = (
                f"{ours}/{our_attention}/{b}/kernel"
            )
    for kernel in (*config.mlp_kernels, "wo"):
        their_kernel = f"{theirs}.{len(norms) - 1}.DenseReluDense.{kernel}.weight"
        names[their_kernel] = f"{ours}/mlp/{kernel}/kernel"
    return names


def _converted(ours: str, array: np.ndarray) -> np.ndarray:
    """Transposes what the two forms hold transposed; the same map both ways."""
    return array.T if ours.endswith(("/kernel", "/rel_embedding")) else array


def _is_alias(
    name: str, array: np.ndarray, tensors: Mapping[str, np.ndarray], folder: pathlib.Path
) -> bool:
    """Whether a tensor is the shared embedding under another name.

    Raises:
      CheckpointError: where it has such a name but other values, which our model cannot hold.
    """
    if name not in ALIASES or "shared.weight" not in tensors:
        return False
    if array.tobytes() != tensors["shared.weight"].tobytes():
        raise CheckpointError(
            f"{folder}: {name} differs from shared.weight; T5 has one embedding for both sides."
        )
    return True


def _resolve_tying(described: Mapping[str, Any], tensors: dict[str, np.ndarray]) -> dict[str, bool]:
    """Makes `lm_head.weight` present in `tensors` exactly where the model is untied or unscaled.

    A tied T5 1.0 scales its output by 1/sqrt(d_model), and may name the embedding as head too. A
    head that is tied but not scaled is, for us, an untied one that equals the embedding.

    Returns:
      Tensors that a writer must add (True) or leave out (False) to give the file back.
    """
    shared, head = tensors.get("shared.weight"), tensors.get("lm_head.weight")
    if shared is None:
        return {}
    scaled = described.get("scale_decoder_outputs", described.get("tie_word_embeddings", True))
    if head is None and not scaled:
        tensors["lm_head.weight"] = shared
        return {"lm_head.weight": False}
    if head is not None and scaled and head.tobytes() == shared.tobytes():
        del tensors["lm_head.weight"]
        return {"lm_head.weight": True}
    return {}


def _read_config(path: pathlib.Path) -> dict[str, Any]:
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path}: not readable as JSON ({error}).") from None
    family = described.get("model_type") if isinstance(described, dict) else None
    if family not in FAMILIES:
        raise CheckpointError(
            f"{path}: model_type {family!r} is not known here; known are {', '.join(FAMILIES)}."
        )
    return described


def _model_config(
    described: Mapping[str, Any], tensors: Mapping[str, np.ndarray], folder: pathlib.Path
) -> TransformerConfig:
    try:
        feed_forward = described.get("feed_forward_proj", "relu")
        if feed_forward not in _FEED_FORWARD:
            raise CheckpointError(
                f"{folder / CONFIG}: feed_forward_proj {feed_forward!r} is not known here; known "
                f"are {', '.join(_FEED_FORWARD)}."
            )
        return TransformerConfig(
            vocab_size=described["vocab_size"],
            emb_dim=described["d_model"],
            num_heads=described["num_heads"],
            num_encoder_layers=described["num_layers"],
            num_decoder_layers=described.get("num_decoder_layers") or described["num_layers"],
            head_dim=described["d_kv"],
            mlp_dim=described["d_ff"],
            mlp_activations=_FEED_FORWARD[feed_forward],
            dropout_rate=described.get("dropout_rate", 0.1),
            # What configs say of tying is not to be trusted: a head that is there is used.
            logits_via_embedding="lm_head.weight" not in tensors,
            relative_attention_num_buckets=described.get("relative_attention_num_buckets", 32),
            relative_attention_max_distance=described.get("relative_attention_max_distance", 128),
            layer_norm_epsilon=described.get("layer_norm_epsilon", 1e-6),
        )
    except KeyError as error:
        raise CheckpointError(f"{folder / CONFIG}: the field {error} is missing.") from None
    except (ConfigError, TypeError) as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from None


def _read_tensors(folder: pathlib.Path) -> dict[str, np.ndarray]:
    if (folder / INDEX).is_file():
        try:
            index = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"]
        except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
            raise CheckpointError(f"{folder / INDEX}: not a readable index ({error}).") from None
        tensors: dict[str, np.ndarray] = {}
        for name in dict.fromkeys(index.values()):
            if pathlib.PurePath(name).name != name:
                raise CheckpointError(f"{folder / INDEX}: {name!r} is not a file of this folder.")
            tensors |= _read_file(folder / name)
        for name, file in index.items():
            if name not in tensors:
                raise CheckpointError(f"{folder / file}: the tensor {name} is missing.")
        return tensors
    if (folder / WEIGHTS).is_file():
        return _read_file(folder / WEIGHTS)
    pickled = next(iter(sorted(folder.glob("pytorch_model*.bin"))), None)
    if pickled is not None:
        raise CheckpointError(
            f"{pickled}: pickled weights are not read, since they can run code; save the model "
            f"as {WEIGHTS} first (save_pretrained does)."
        )
    raise CheckpointError(f"{folder}: there is neither {WEIGHTS} nor {INDEX} beside {CONFIG}.")


def _read_file(path: pathlib.Path) -> dict[str, np.ndarray]:
    try:
        content = safetensors.deserialize(path.read_bytes())
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(
            f"{path}: not a whole safetensors file ({' '.join(str(error).split())}); copy it again."
        ) from None
    tensors = {}
    for name, tensor in content:
        if tensor["dtype"] not in _DTYPES:
            raise CheckpointError(
                f"{path}: the tensor {name} has the dtype {tensor['dtype']}; expected a float."
            )
        array = np.frombuffer(tensor["data"], _DTYPES[tensor["dtype"]])
        tensors[name] = array.reshape(tensor["shape"])
    return tensors


def _write_tensors(
    tensors: Mapping[str, np.ndarray], folder: pathlib.Path, max_shard_bytes: int
) -> None:
    shards = list(_shards(tensors, max_shard_bytes))
    if len(shards) == 1:
        safetensors.numpy.save_file(shards[0], folder / WEIGHTS, {"format": "pt"})
        return
    weight_map = {}
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        safetensors.numpy.save_file(shard, folder / name, {"format": "pt"})
        weight_map |= dict.fromkeys(shard, name)
    total = sum(array.nbytes for array in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def _shards(
    tensors: Mapping[str, np.ndarray], max_shard_bytes: int
) -> Iterable[dict[str, np.ndarray]]:
    shard: dict[str, np.ndarray] = {}
    size = 0
    for name in sorted(tensors, key=_natural_order):
        if shard and size + tensors[name].nbytes > max_shard_bytes:
            yield shard
            shard, size = {}, 0
        shard[name] = tensors[name]
        size += tensors[name].nbytes
    yield shard


def _natural_order(name: str) -> list[Any]:
    return [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", name)]


def _described(config: TransformerConfig, tensors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Returns a config.json for a model that did not come from Hugging Face."""
    feed_forward = {v: k for k, v in _FEED_FORWARD.items()}[config.mlp_activations]
    dtype = {np.dtype(v): k for k, v in _DTYPES.items()}[tensors["shared.weight"].dtype]
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "vocab_size": config.vocab_size,
        "d_model": config.emb_dim,
        "d_kv": config.head_dim,
        "d_ff": config.mlp_dim,
        "num_layers": config.num_encoder_layers,
        "num_decoder_layers": config.num_decoder_layers,
        "num_heads": config.num_heads,
        "relative_attention_num_buckets": config.relative_attention_num_buckets,
        "relative_attention_max_distance": config.relative_attention_max_distance,
        "dropout_rate": config.dropout_rate,
        "layer_norm_epsilon": config.layer_norm_epsilon,
        "feed_forward_proj": feed_forward,
        "is_encoder_decoder": True,
        "tie_word_embeddings": config.logits_via_embedding,
        "scale_decoder_outputs": config.logits_via_embedding,
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "dtype": {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}[dtype],
    }
