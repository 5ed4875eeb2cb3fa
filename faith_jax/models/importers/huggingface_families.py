"""Hugging Face folders of the families other than T5, read and written by tables of tensors."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from faith_jax.errors import CheckpointError, ConfigError
from faith_jax.models.config import TransformerConfig
from faith_jax.models.importers import tensor_files
from faith_jax.models.importers.checkpoint import (
    Checkpoint,
    check_layer_count,
    expected_shapes,
    flatten,
    unflatten,
    unstack_layers,
)
from faith_jax.models.importers.families.bart import BART, LOGITS_BIAS
from faith_jax.models.importers.families.bloom import BLOOM
from faith_jax.models.importers.families.deberta import DEBERTA
from faith_jax.models.importers.families.family import (
    PUBLISHED_ACTIVATIONS,
    ConfigFields,
    Family,
    TensorMap,
)
from faith_jax.models.importers.families.gpt2 import GPT2
from faith_jax.models.importers.families.llama import GEMMA, GEMMA2, LLAMA, MISTRAL
from faith_jax.models.importers.families.roberta import ROBERTA

FAMILIES = (BART, GPT2, BLOOM, GEMMA, GEMMA2, LLAMA, MISTRAL, ROBERTA, DEBERTA)
HEAD = "lm_head.weight"
_EMBEDDING = "token_embedder/embedding"
Stored = Mapping[str, tensor_files.StoredTensor]


def model_types() -> list[str]:
    """Returns the values of config.json's `model_type` that are read here."""
    return sorted(name for family in FAMILIES for name in family.model_types)


def family_of_type(model_type: Any) -> Family | None:
    """Returns the family of a `model_type`, None where it is none of these."""
    return next((f for f in FAMILIES if model_type in f.model_types), None)


def family_of_config(config: TransformerConfig, model_type: Any = None) -> Family | None:
    """Returns the family whose form a model of ours has; None for T5 and for mixtures.

    Args:
      config: the model's.
      model_type: of the folder it was read from, if any: a Mistral without a window is a Llama too.
    """
    former = family_of_type(model_type)
    found = [f for f in FAMILIES if f.matches(config)]
    return former if former in found else next(iter(found), None)


def family_name(config: TransformerConfig, model_type: str = "") -> str:
    """Returns the family of a model of ours: config.json's `model_type` of such models.

    Args:
      config: the model's.
      model_type: of the checkpoint that it began with, "" = none: a Mistral without a window is a
        Llama too.

    Returns:
      Also "doha" for a BART with knowledge attention, and "other" for a mixture that no published
      family is.
    """
    if config.knowledge_attention:
        return "doha"
    family = family_of_config(config, model_type)
    if family is not None:
        return model_type if model_type in family.model_types else family.model_types[0]
    has_both = not config.is_decoder_only and not config.is_encoder_only
    if not has_both or config.positions != "relative_bias" or config.norm != "rms":
        return "other"
    return "mt5" if model_type == "mt5" else "t5"


def tensor_maps(family: Family, config: TransformerConfig) -> list[TensorMap]:
    """Returns the maps of all tensors of a model."""
    maps = family.tensors(config)
    if config.num_decoder_layers and not config.logits_via_embedding:
        maps.append(TensorMap(HEAD, ("decoder/logits_dense/kernel",), turned=True))
    return maps


def read_family(family: Family, folder: pathlib.Path, fields: Mapping[str, Any]) -> Checkpoint:
    """Reads a folder's config and tensors.

    Args:
      family: as config.json names it.
      folder: with safetensors.
      fields: of config.json.

    Raises:
      CheckpointError: naming the field or tensor.
    """
    config = read_family_config(family, fields, folder / "config.json")
    stored, layout = tensor_files.find_tensors(folder)
    check_layer_count(config, len(stored), folder / "config.json")
    named = _with_prefix(family, stored)
    _add_embedding(family, config, named)
    config = _as_stored(family, config, named, folder)
    maps = tensor_maps(family, config)
    _check(family, config, maps, named, folder)
    params: dict[str, np.ndarray] = {}
    for tensor in maps:
        params |= tensor.split(named[tensor.theirs].read())
    kept = {
        "layout": dataclasses.asdict(layout),
        "names": {full: tensor.name for full, tensor in named.items()},
    }
    return Checkpoint(config, unflatten(params), {"huggingface": kept})


def read_family_config(
    family: Family, fields: Mapping[str, Any], path: pathlib.Path
) -> TransformerConfig:
    """Returns our config for config.json's fields.

    Raises:
      CheckpointError: on a value that is missing, wrong or not supported.
    """
    try:
        config = family.read_config(ConfigFields(fields, path))
        tokens = {"pad_token_id": config.pad_id, "decoder_start_token_id": config.decoder_start_id}
        for name, token in tokens.items():
            if token >= config.vocab_size:
                raise CheckpointError(
                    f"{path}: field {name!r}: expected a token of the vocabulary of "
                    f"{config.vocab_size}, got {token}."
                )
        return config
    except ConfigError as error:
        detail = str(error).replace("TransformerConfig.", "")
        raise CheckpointError(
            f"{path}: not a {family.name} model that is supported: {detail}"
        ) from None


def _with_prefix(family: Family, stored: Stored) -> dict[str, tensor_files.StoredTensor]:
    """Returns the tensors by their full names; a file may lack the base model's prefix."""
    heads = ("lm_head.", "classifier.", "pooler.", "score.", LOGITS_BIAS, family.prefix)
    if any(name.startswith(family.prefix) for name in stored):
        return dict(stored)
    return {
        name if name.startswith(heads) else family.prefix + name: tensor
        for name, tensor in stored.items()
    }


def _add_embedding(
    family: Family, config: TransformerConfig, named: dict[str, tensor_files.StoredTensor]
) -> None:
    """Finds the embedding under another name, where a file keeps only one of tied tensors."""
    maps = tensor_maps(family, config)
    name = next(m.theirs for m in maps if m.ours == (_EMBEDDING,))
    if name in named or not (config.logits_via_embedding or family is BART):
        return
    for copy in family.embedding_copies:
        if copy in named:
            named[name] = named[copy]
            return


def _as_stored(
    family: Family, config: TransformerConfig, named: Stored, folder: pathlib.Path
) -> TransformerConfig:
    """Returns the config with what only the tensors tell."""
    if config.label_names and not any(name.startswith("classifier.") for name in named):
        config = config.replace(label_names=())
    if config.logits_bias and LOGITS_BIAS not in named:
        config = config.replace(logits_bias=False)
    if not config.num_decoder_layers:
        return config
    if HEAD not in named:
        if not config.logits_via_embedding:
            raise CheckpointError(
                f"{folder}: the tensor {HEAD} is missing, and config.json does not say that it is "
                "the embedding (tie_word_embeddings)."
            )
        return config
    embedding = next(m.theirs for m in tensor_maps(family, config) if m.ours == (_EMBEDDING,))
    same = embedding in named and _same_bits(named[HEAD], named[embedding])
    return config.replace(logits_via_embedding=same and config.logits_via_embedding)


def _same_bits(first: tensor_files.StoredTensor, second: tensor_files.StoredTensor) -> bool:
    if (first.shape, first.dtype) != (second.shape, second.dtype):
        return False
    bits = np.dtype(f"u{first.dtype.itemsize}")
    return bool(np.array_equal(first.read().view(bits), second.read().view(bits)))


def _check(
    family: Family,
    config: TransformerConfig,
    maps: list[TensorMap],
    named: Stored,
    folder: pathlib.Path,
) -> None:
    """Checks that the tensors are those of the config, and of one dtype."""
    shapes = expected_shapes(config)
    used = {tensor.theirs for tensor in maps}
    for tensor in maps:
        expected = tensor.shape(shapes)
        if tensor.theirs not in named:
            raise CheckpointError(
                f"{folder}: the tensor {tensor.theirs} {expected} is missing; config.json may be "
                "another model's."
            )
        found = named[tensor.theirs]
        if found.shape != expected:
            raise CheckpointError(
                f"{found.path}: the tensor {found.name} has the shape {found.shape}, but "
                f"config.json says {expected}."
            )
    tensor_files.check_dtypes(named[tensor.theirs] for tensor in maps)
    for name, found in named.items():
        if name not in used and name != HEAD and not family.is_unused(name):
            raise CheckpointError(
                f"{found.path}: the tensor {found.name} {found.shape} is not expected in this "
                f"{family.name} model; config.json may be another model's."
            )


def family_tensors(
    checkpoint: Checkpoint, family: Family, source: str
) -> tuple[str, dict[str, np.ndarray], tensor_files.Layout | None]:
    """Returns config.json's text, the tensors by their published names, and their old layout.

    A model that was read from a folder keeps its config.json and its tensors' names.

    Raises:
      CheckpointError: on a setting that such a folder cannot say.
    """
    config = checkpoint.config
    kept = checkpoint.metadata.get("huggingface")
    kept = kept if isinstance(kept, Mapping) and _describes(kept, family, config) else None
    flat = {k: np.asarray(v) for k, v in flatten(unstack_layers(checkpoint.params)).items()}
    dtype = next(iter(flat.values())).dtype.name
    text = kept["config_json"] if kept else _written_config(family, config, dtype, source)
    tensors = {tensor.theirs: tensor.join(flat) for tensor in tensor_maps(family, config)}
    if kept is None:
        return text, tensors, None
    names = kept["names"]
    if HEAD in names and HEAD not in tensors:
        tensors[HEAD] = flat[_EMBEDDING]
    for copy in family.embedding_copies:
        if copy in names and copy not in tensors:
            tensors[copy] = flat[_EMBEDDING]
    tensors = {names.get(name, name): array for name, array in tensors.items()}
    return text, tensors, tensor_files.Layout(**kept["layout"])


# What config.json does not say, or what only training and speed depend on.
_UNSAID = {
    "attention_dropout_rate",
    "classifier_dropout_rate",
    "dropout_rate",
    "dtype",
    "float32_attention_logits",
    "logits_bias",
    "logits_via_embedding",
    "mlp_dropout_rate",
    "remat_policy",
    "scan_layers",
}


def unlike(config: TransformerConfig, read: TransformerConfig) -> list[str]:
    """Returns the fields in which a model differs from what a config.json says."""
    ignored = set(_UNSAID)
    if config.positions not in ("relative_bias", "disentangled"):
        ignored |= {"relative_attention_num_buckets", "relative_attention_max_distance"}
    if config.positions != "rotary" or config.rope_type != "llama3":
        ignored |= {name for name in config.to_dict() if name.startswith("rope_")}
        if config.positions == "rotary":
            ignored -= {"rope_theta", "rope_type"}
            ignored -= {"rope_factor"} if config.rope_type == "linear" else set()
    if not config.sliding_window_layers or not config.sliding_window:
        ignored |= {"sliding_window", "sliding_window_layers"}
    if not config.max_positions:
        ignored.add("max_positions")
    if not config.label_names:
        ignored |= {"label_names", "classifier_activation"}
    if config.is_encoder_only:
        ignored |= {"scale_tied_logits", "decoder_start_id", "eos_ids"}
    if config.is_decoder_only:
        ignored.add("decoder_start_id")
    config = config.replace(num_kv_heads=config.num_kv_heads or config.num_heads)
    read = read.replace(num_kv_heads=read.num_kv_heads or read.num_heads)
    ours, theirs = config.to_dict(), read.to_dict()
    return [
        name
        for name, value in ours.items()
        if name not in ignored and not _is_same(value, theirs[name])
    ]


def check_said(
    config: TransformerConfig, read: TransformerConfig, family: str, source: str
) -> None:
    """Checks that a written config.json, read again, says what the model's config does.

    Raises:
      CheckpointError: naming a setting that it does not say.
    """
    for name in unlike(config, read):
        raise CheckpointError(
            f"{source}: {name} = {getattr(config, name)!r} has no place in a Hugging Face folder "
            f"of a {family} model, which would have {getattr(read, name)!r}."
        )


def _is_same(first: Any, second: Any) -> bool:
    if isinstance(first, float) or isinstance(second, float):
        return bool(np.isclose(first, second, rtol=1e-6, atol=0))
    return bool(first == second)


def _describes(kept: Mapping[str, Any], family: Family, config: TransformerConfig) -> bool:
    """Whether a config.json that was kept is still true of the model."""
    fields = json.loads(kept["config_json"])
    if family_of_type(fields.get("model_type")) is not family:
        return False
    try:
        read = read_family_config(family, fields, pathlib.Path("config.json"))
    except CheckpointError:
        raise ValueError("What was kept is no config.json that was read.") from None
    return not unlike(config, read)


def _written_config(family: Family, config: TransformerConfig, dtype: str, source: str) -> str:
    """Returns the text of a config.json that says all of the model's config.

    Raises:
      CheckpointError: where none does, naming a field.
    """
    for activation in (*config.mlp_activations[:1], config.classifier_activation):
        if activation not in PUBLISHED_ACTIVATIONS:
            raise CheckpointError(
                f"{source}: the activation {activation!r} has no place in a Hugging Face folder; "
                f"expected one of {sorted(PUBLISHED_ACTIVATIONS)}."
            )
    fields = _config_fields(family, config, dtype)
    read = read_family_config(family, fields, pathlib.Path("config.json"))
    check_said(config, read, family.name, source)
    return json.dumps(fields, indent=2) + "\n"


def _config_fields(family: Family, config: TransformerConfig, dtype: str) -> dict[str, Any]:
    ends = config.eos_ids
    written = family.write_config(config) | {
        "dtype": dtype,
        "eos_token_id": None if not ends else ends[0] if len(ends) == 1 else list(ends),
        "pad_token_id": None if config.pad_id < 0 else config.pad_id,
        "tie_word_embeddings": config.logits_via_embedding or config.is_encoder_only,
        "vocab_size": config.vocab_size,
    }
    return dict(sorted(written.items()))
