"""Hugging Face folders: config.json and safetensors, read and written for all families.

Flax's weights (flax_model.msgpack) are read if there are no safetensors.

Activations are float32 whatever dtype the tensors have, unless changed by
`faith_jax.load_model(path, dtype="bfloat16")`.
"""

import json
import logging
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from faith_jax.checkpoints import flax_weights, manifest, tensors
from faith_jax.checkpoints.checkpoint import (
    Checkpoint,
    check_shapes,
    expected_shapes,
    flatten,
    new_folder,
    unflatten,
    unstack_layers,
)
from faith_jax.checkpoints.contents import describe_contents
from faith_jax.checkpoints.hugging_face.families import family_of_config, family_of_fields
from faith_jax.checkpoints.hugging_face.family import (
    HEAD,
    LOGITS_BIAS,
    ConfigFields,
    Family,
    TensorMap,
)
from faith_jax.checkpoints.hugging_face.llama import (
    SEES_IMAGES,
    language_model_fields,
    language_model_name,
)
from faith_jax.checkpoints.lazy_arrays import LazyArray
from faith_jax.checkpoints.peft import is_peft
from faith_jax.core.errors import CheckpointError
from faith_jax.core.files.stores import path_of
from faith_jax.core.rows import read_json
from faith_jax.models.config import TransformerConfig

logger = logging.getLogger("faith_jax")

CONFIG = "config.json"
_GENERATION_CONFIG = "generation_config.json"
_EMBEDDING = "token_embedder/embedding"
# Files that identify a Hugging Face folder, though they are not read.
_OTHER_WEIGHTS = ("pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5")
_LAYER_NORMS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
# Parts of names in files saved from torch.compile's, FSDP's or DistributedDataParallel's wrapper.
_WRAPPER = r"_(orig_mod|fsdp_wrapped_module|checkpoint_wrapped_module)\."
_WRAPPERS = re.compile(rf"^({_WRAPPER}|module\.)+|(?<=\.){_WRAPPER}")
_Stored = dict[str, tensors.StoredTensor]


def is_huggingface(folder: str | pathlib.Path) -> bool:
    """Whether a folder looks like a Hugging Face folder, readable or not.

    The config.json beside a PEFT adapter does not count, since it may be the base's.
    """
    weights = (tensors.WHOLE, tensors.INDEX, flax_weights.WHOLE, flax_weights.INDEX)
    config = () if is_peft(folder) else (CONFIG,)
    return _has_any(path_of(folder), *config, *weights, *_OTHER_WEIGHTS)


def _has_any(folder: pathlib.Path, *names: str) -> bool:
    return any((folder / name).is_file() for name in names)


def read_huggingface(folder: str | pathlib.Path) -> Checkpoint:
    """Opens a folder with config.json and weights of a model from one of `FAMILIES`.

    Parameters are read on access, and then verified against the folder's manifest.

    Raises:
      CheckpointError: if the family or a setting is not supported, weights are pickled, a file is
        truncated, a tensor (which the error names) is missing, unexpected or mis-shaped, or a
        file or a tensor's form differs from the folder's manifest.
    """
    folder = path_of(folder).absolute()
    manifest.check_files(folder)
    fields = read_json(folder / CONFIG, CheckpointError)
    sees_images = fields.get("model_type") == SEES_IMAGES
    if sees_images:
        logger.info("%s: of this model of texts and images the language model is read.", folder)
        fields = language_model_fields(ConfigFields(fields, folder / CONFIG))
    family = family_of_fields(ConfigFields(fields, folder / CONFIG))
    config = _with_further_ends(family.read_config(fields, folder / CONFIG), folder)
    stored = _rename(weights_of(folder), _published_name)
    if sees_images:
        stored = _rename(stored, language_model_name)
    if prefix := _common_prefix(family, stored):
        logger.info("%s: all names of tensors begin with %s, which is left out.", folder, prefix)
        stored = _rename(stored, lambda name: name.removeprefix(prefix))
    if not any(name.startswith(family.prefix) for name in stored):
        # The file lacks the base model's prefix.
        heads = ("lm_head.", "score.", *family.heads)
        stored = {
            name if name.startswith(heads) else family.prefix + name: tensor
            for name, tensor in stored.items()
        }
    if not config.is_encoder_only:
        _check_decoder(family, stored, folder)
    config = _adapt_to_tensors(family, config, fields, stored, folder)
    export_family = family_of_config(config, family.key)
    if export_family not in (family, None):
        logger.warning(
            "%s: this %s computes what a %s does (its logits are scaled); an export will be a %s.",
            folder / CONFIG,
            family.name,
            export_family.name,
            export_family.name,
        )
    shapes = expected_shapes(config)
    maps = family.tensor_maps(config, shapes)
    expected = {tensor.published_name: tensor.shape(shapes) for tensor in maps}
    stored_shapes = {
        name: tensor.shape
        for name, tensor in stored.items()
        if name in expected or not family.is_unused(name)
    }
    check_shapes(stored_shapes, expected, folder, "tensor")
    digests = manifest.read_manifest(folder)
    params: dict[str, LazyArray] = {}
    for tensor in maps:
        array = stored[tensor.published_name].floats()
        params |= tensor.split(
            manifest.verify_when_read(folder, digests, stored[tensor.published_name].name, array)
        )
    metadata = {
        "source": str(folder),
        "format": "huggingface",
        "huggingface": {"config_json": json.dumps(fields)},
    }
    return Checkpoint(config, unflatten(params), metadata, family.key)


def _with_further_ends(config: TransformerConfig, folder: pathlib.Path) -> TransformerConfig:
    """Adds the end tokens of generation_config.json, such as the one that ends a chat's turns.

    The padding token is left out, since inputs may end with an end token, but not with padding.
    """
    path = folder / _GENERATION_CONFIG
    if not (config.writes_text and path.is_file()):
        return config
    fields = ConfigFields(read_json(path, CheckpointError), path)
    further = [end for end in fields.tokens("eos_token_id", None) if end != config.pad_id]
    fields.check_ends(further, config.vocab_size)
    return config.replace(eos_ids=tuple(dict.fromkeys((*config.eos_ids, *further))))


def weights_of(folder: pathlib.Path) -> _Stored:
    """Returns the tensors of a folder by their names in safetensors, without reading them."""
    if _has_any(folder, tensors.WHOLE, tensors.INDEX):
        return tensors.find_tensors(folder)
    if _has_any(folder, flax_weights.WHOLE, flax_weights.INDEX):
        return flax_weights.flax_tensors(folder)
    raise CheckpointError(
        f"{folder}: no weights here; expected {tensors.WHOLE}, {flax_weights.WHOLE} or an index of "
        f"several such files, but {describe_contents(folder)}."
    )


def _published_name(name: str) -> str:
    """Returns a tensor's name without wrappers; the oldest BERT files have TensorFlow's norms."""
    name = re.sub(r"LayerNorm\.(gamma|beta)$", lambda m: _LAYER_NORMS[m[0]], name)
    return _WRAPPERS.sub("", name)


def _rename(stored: _Stored, rename: Callable[[str], str]) -> _Stored:
    """Returns tensors by their new names, without those whose new name is empty.

    Raises:
      CheckpointError: if tensors that differ get the same name.
    """
    renamed: _Stored = {}
    for name, tensor in stored.items():
        if new_name := rename(name):
            first = renamed.setdefault(new_name, tensor)
            if not _same_bits(first, tensor):
                raise CheckpointError(
                    f"{tensor.path}: the tensors {first.name} and {tensor.name} differ, but both "
                    f"are {new_name} of the model; keep one of them."
                )
    return renamed


def _common_prefix(family: Family, stored: _Stored) -> str:
    """Returns what all names have before the family's, such as the attribute of a Lightning module.

    A family's own prefix ("model." of a BART) is none.
    """
    for embedding in (family.embedding, *family.embedding_copies):
        for name in stored:
            prefix = name.removesuffix(embedding)
            if f"{prefix}{embedding}" == name and (not prefix or prefix.endswith(".")):
                return prefix if all(other.startswith(prefix) for other in stored) else ""
    return ""


def _check_decoder(family: Family, stored: _Stored, folder: pathlib.Path) -> None:
    """Raises a CheckpointError for the encoder alone of a model with a decoder."""
    has_stack = {
        ours: any(name.startswith(f"{published}.") for name in stored)
        for published, ours in family.layers
    }
    if has_stack.get("encoder/layers") and not has_stack.get("decoder/layers", True):
        raise CheckpointError(
            f"{folder}: the encoder alone of a {family.name}, without its decoder, which is not "
            "read; give the whole model."
        )


def _adapt_to_tensors(
    family: Family,
    config: TransformerConfig,
    fields: Mapping[str, Any],
    stored: _Stored,
    folder: pathlib.Path,
) -> TransformerConfig:
    """Returns the config with the settings that only the tensors show.

    Also adds the embedding and a tied output layer to `stored` under their usual names.
    """
    classifiers = tuple(f"{name}." for name in family.classifiers)
    if not any(name.startswith(classifiers) for name in stored):
        config = config.replace(label_names=(), token_label_names=())
    if config.is_encoder_only:
        pooler = any(f"{name}.weight" in stored for name in family.poolers)
        config = config.replace(pooler=pooler, span_head="qa_outputs.weight" in stored)
    if config.logits_bias and LOGITS_BIAS not in stored:
        config = config.replace(logits_bias=False)
    embedding = family.embedding
    names = [name for name in (embedding, *family.embedding_copies) if name in stored]
    if not names and fields.get("tie_word_embeddings", config.logits_via_embedding):
        names = [HEAD] if HEAD in stored else []
    for name in names:
        if not _same_bits(stored[names[0]], stored[name]):
            raise CheckpointError(
                f"{stored[name].path}: the tensor {name} differs from {names[0]}, which "
                f"{family.name} shares with it."
            )
        stored[embedding] = stored[names[0]]
    if config.is_encoder_only or embedding not in stored:
        return config
    tied = fields.get("tie_word_embeddings")
    bare = family.architecture.replace("ForConditionalGeneration", "Model")
    is_bare = family.head_is_embedding and repr(bare) in str(fields.get("architectures"))
    if HEAD not in stored and (config.logits_via_embedding or family.head_is_embedding):
        if tied is False or is_bare:
            logger.warning(
                "%s: %s, and there is no tensor %s: the embedding, %s, is the output layer, which "
                "may never have been trained.",
                folder / CONFIG,
                "'tie_word_embeddings' is false" if tied is False else f"this is a {bare}",
                HEAD,
                embedding,
            )
        # A tied but unscaled output layer (T5 1.1 of Transformers 5) is a separate layer here.
        stored[HEAD] = stored[embedding]
    if HEAD not in stored:
        return config
    if not config.logits_via_embedding or _same_bits(stored[HEAD], stored[embedding]):
        return config
    if tied:
        logger.warning(
            "%s: 'tie_word_embeddings' is true, but the tensors %s and %s differ: %s is the output "
            "layer.",
            folder / CONFIG,
            HEAD,
            embedding,
            HEAD,
        )
    # The file has a separate output layer, which is scaled all the same.
    return config.replace(logits_via_embedding=False, scale_own_logits=config.scale_tied_logits)


def _same_bits(first: tensors.StoredTensor, second: tensors.StoredTensor) -> bool:
    if first is second or (first.shape, first.dtype) != (second.shape, second.dtype):
        return first is second
    parts = manifest.boxes(first.shape, manifest.chunk_shape(first.shape, first.dtype.itemsize))
    return all(first.array[box].tobytes() == second.array[box].tobytes() for box in parts)


def write_huggingface(checkpoint: Checkpoint, folder: str | pathlib.Path) -> None:
    """Writes a checkpoint as a Hugging Face folder, without a tokenizer.

    Tensors keep their dtype and bits. If the checkpoint was read from a Hugging Face folder,
    config.json keeps fields that we do not use, such as further token ids.

    Raises:
      CheckpointError: if `folder` exists, or the model cannot be expressed: it has a soft prompt,
        or a setting that config.json has no field for.
    """
    config, source = checkpoint.config, checkpoint.metadata.get("source", "checkpoint")
    family = family_of_config(config, checkpoint.family)
    if family is None:
        raise CheckpointError(
            f"{source}: a model of {config.num_encoder_layers} encoder and "
            f"{config.num_decoder_layers} decoder layers with these settings is of no family that "
            "Hugging Face folders are written for."
        )
    params = {k: np.asarray(v) for k, v in flatten(unstack_layers(checkpoint.params)).items()}
    fields = family.write_config(config, params[_EMBEDDING].dtype.name)
    former = json.loads(checkpoint.metadata.get("huggingface", {}).get("config_json", "{}"))
    if former.get("model_type") == family.model_type:
        former.pop("torch_dtype", None)
        fields |= former | fields | {k: v for k, v in former.items() if k == "bos_token_id"}
    maps = family.tensor_maps(config, {name: array.shape for name, array in params.items()})
    for feature, remedy in _without_place(config, params, family, fields, maps):
        raise CheckpointError(
            f"{source}: {feature} has no place in a Hugging Face folder of a {family.name} model"
            f"{remedy}."
        )
    folder = new_folder(folder)
    text = json.dumps(fields, indent=2, sort_keys=True) + "\n"
    (folder / CONFIG).write_text(text, encoding="utf-8")
    joined = {tensor.published_name: tensor.join(params) for tensor in maps}
    tensors.write_tensor_file(folder / tensors.WHOLE, joined, {"format": "pt"})
    manifest.write_manifest(folder, manifest.tensor_digests(joined))


def _without_place(
    config: TransformerConfig,
    params: Mapping[str, np.ndarray],
    family: Family,
    fields: Mapping[str, Any],
    maps: Sequence[TensorMap],
) -> Iterator[tuple[str, str]]:
    """Yields each feature that a Hugging Face folder cannot express, with a remedy or reason."""
    for name in ("encoder_prompt_length", "decoder_prompt_length"):
        if length := getattr(config, name):
            yield (
                f"its soft prompt ({name} = {length})",
                "; export its base model, and the prompt alone by `faith-jax export-prompt`",
            )
    read = family.read_config(fields, pathlib.Path(CONFIG))
    for name in unlike(config, read):
        value, read_value = getattr(config, name), getattr(read, name)
        yield f"{name} = {value!r}", f", which would have {read_value!r}"
    for name in sorted(params.keys() - {name for tensor in maps for name in tensor.ours}):
        yield f"the parameter {name}", ""


def copy_companions(source: str | pathlib.Path, folder: str | pathlib.Path) -> None:
    """Copies a checkpoint's tokenizer and generation files to a folder."""
    for name in manifest.COMPANIONS:
        companion = path_of(source) / name
        if companion.is_file():
            (path_of(folder) / name).write_bytes(companion.read_bytes())
    manifest.update_files(path_of(folder))


# Settings that config.json may leave out (for training only, or without effect), and when.
_UNSAID: tuple[tuple[str, Callable[[TransformerConfig], bool]], ...] = (
    (
        r".*dropout_rate|classifier_input_dropout|dtype|float32_attention_logits|remat_policy|scan_layers",
        lambda c: True,
    ),
    (r"attention_block_length|attention_kernel", lambda c: True),
    (r"logits_bias|logits_via_embedding|pooler|span_head", lambda c: True),  # the tensors show them
    (r"scale_own_logits", lambda c: c.positions == "relative_bias"),  # the tensors show it
    (r"relative_attention.*", lambda c: c.positions not in ("relative_bias", "disentangled")),
    (r"relative_attention_max_distance", lambda c: c.separate_positions),
    (r"rope.*", lambda c: c.positions != "rotary"),
    (r"rope_window_theta", lambda c: not c.sliding_window_layers),
    (r"rope_factor", lambda c: c.rope_type == "default"),
    (r"rope_(low|high|original).*", lambda c: c.rope_type != "llama3"),
    (r"sliding_window.*", lambda c: not (c.sliding_window_layers and c.sliding_window)),
    (r"max_positions", lambda c: not c.max_positions),
    (r"label_names", lambda c: not c.label_names),
    (
        r"classifier_.*",  # without a head
        lambda c: not (c.label_names or c.token_label_names),
    ),
    (r"scale_tied_logits|eos_ids", lambda c: c.is_encoder_only),
    (r"decoder_start_id", lambda c: c.is_encoder_only or c.is_decoder_only),
)


def unlike(config: TransformerConfig, read: TransformerConfig) -> list[str]:
    """Returns the settings that differ between a model's config and its config.json."""
    unsaid = "|".join(names for names, holds in _UNSAID if holds(config))
    ours, stored = (
        c.replace(num_kv_heads=c.num_kv_heads or c.num_heads).to_dict() for c in (config, read)
    )
    return [
        name
        for name, value in ours.items()
        if not re.fullmatch(unsaid, name)
        and not (
            np.isclose(value, stored[name], rtol=1e-6, atol=0)
            if isinstance(value, float)
            else value == stored[name]
        )
    ]
