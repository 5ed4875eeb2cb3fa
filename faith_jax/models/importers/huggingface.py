"""Hugging Face folders: config.json and safetensors, read and written; T5's tensors.

What is read can be written back with the same bytes: names that stand for one tensor, tensors
that no model uses, the layout of the files, config.json and the tokenizer's files are kept.
Activations are float32 whatever dtype the tensors have; `faith_jax.load_model(path,
dtype="bfloat16")` says otherwise.
"""

import base64
import dataclasses
import json
import pathlib
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np

from faith_jax.errors import CheckpointError
from faith_jax.models.config import TransformerConfig
from faith_jax.models.importers import tensor_files
from faith_jax.models.importers.checkpoint import (
    Checkpoint,
    check_layer_count,
    flatten,
    unflatten,
    unstack_layers,
    written_whole,
)
from faith_jax.models.importers.families.family import Family
from faith_jax.models.importers.families.t5 import tensor_names, tensor_shapes, turned
from faith_jax.models.importers.huggingface_config import make_config, read_config, scales_output
from faith_jax.models.importers.huggingface_families import (
    check_said,
    family_of_config,
    family_of_type,
    family_tensors,
    model_types,
    read_family,
)

CONFIG = "config.json"
# What lies beside the weights and travels with them.
COMPANIONS = (
    "spiece.model",
    "spm.model",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
)
SHARED = "shared.weight"
HEAD = "lm_head.weight"
EMBEDDINGS = (SHARED, "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
# T5's first releases carry it; no model has ever used it.
_UNUSED = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)
_SHARD_BYTES = 5_000_000_000
_DAMAGED = (
    "{}: model.json: field 'metadata': what was kept of the Hugging Face folder is damaged; import "
    "it again."
)
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")


def is_huggingface(folder: str | pathlib.Path) -> bool:
    """Whether a folder looks like one of Hugging Face's, readable or not."""
    files = (CONFIG, tensor_files.WHOLE, tensor_files.INDEX, *_PICKLES)
    return any((pathlib.Path(folder) / name).is_file() for name in files)


def read_huggingface(folder: str | pathlib.Path) -> Checkpoint:
    """Reads a folder with config.json and safetensors.

    Args:
      folder: of a T5, Flan-T5 or mT5 model, or of one of `huggingface_families`.

    Raises:
      CheckpointError: on another family, pickled weights, a truncated file, and on a missing,
        unexpected or mis-shaped tensor, naming it.
    """
    folder = pathlib.Path(folder).absolute()
    text, fields = _read_config_text(folder)
    family = family_of_type(fields.get("model_type"))
    if family is not None:
        _check_weight_files(folder)
        return _described(read_family(family, folder, fields), folder, text, fields["model_type"])
    config = read_config(fields, folder / CONFIG, model_types())
    _check_weight_files(folder)
    stored, layout = tensor_files.find_tensors(folder)
    check_layer_count(config, len(stored), folder / CONFIG)
    _check_names(stored, config, folder)
    values = _Embeddings.read(stored, fields, folder)
    config = config.replace(logits_via_embedding=values.tied)
    params = {}
    for theirs, ours in tensor_names(config).items():
        known = {SHARED: values.shared, HEAD: values.head}
        array = known[theirs] if theirs in known else stored[theirs].read()
        params[ours] = np.ascontiguousarray(turned(ours, array))
    kept = {
        "layout": dataclasses.asdict(layout),
        "embeddings": [n for n in (*EMBEDDINGS, HEAD) if n in stored],
        "unused": {n: _to_json(stored[n].read()) for n in _UNUSED if n in stored},
    }
    checkpoint = Checkpoint(config, unflatten(params), {"huggingface": kept})
    return _described(checkpoint, folder, text, fields["model_type"])


def _described(
    checkpoint: Checkpoint, folder: pathlib.Path, text: str, model_type: str
) -> Checkpoint:
    """Adds where a checkpoint was read from, and the text of its config.json."""
    kept = {"config_json": text} | checkpoint.metadata["huggingface"]
    metadata = {"source": str(folder), "format": "huggingface", "huggingface": kept}
    return dataclasses.replace(checkpoint, metadata=metadata, family=model_type)


def _read_config_text(folder: pathlib.Path) -> tuple[str, dict[str, Any]]:
    path = folder / CONFIG
    if not path.is_file():
        raise CheckpointError(f"{path}: missing; a Hugging Face folder needs it to say the model.")
    fields = tensor_files.read_json(path)
    return path.read_bytes().decode("utf-8"), fields


def _check_weight_files(folder: pathlib.Path) -> None:
    if any((folder / name).is_file() for name in (tensor_files.WHOLE, tensor_files.INDEX)):
        return
    for name in _PICKLES:
        if (folder / name).is_file():
            raise CheckpointError(
                f"{folder / name}: pickled weights are not read, because unpickling can run any "
                "code; save the model with safetensors (Transformers' save_pretrained does)."
            )
    raise CheckpointError(
        f"{folder}: no weights here; expected {tensor_files.WHOLE} or {tensor_files.INDEX}."
    )


@dataclasses.dataclass(frozen=True)
class _Embeddings:
    """The embedding and the output layer [vocab, embed], whatever names they are stored under.

    Attributes:
      shared: the embedding.
      head: the output layer's, the embedding itself where no other is stored.
      tied: the output layer is the embedding, scaled.
    """

    shared: np.ndarray
    head: np.ndarray
    tied: bool

    @classmethod
    def read(
        cls,
        stored: Mapping[str, tensor_files.StoredTensor],
        fields: Mapping[str, Any],
        folder: pathlib.Path,
    ) -> "_Embeddings":
        # Files that leave out copies of one tensor may keep any of its names.
        found = [name for name in EMBEDDINGS if name in stored]
        if not found and HEAD in stored and fields.get("tie_word_embeddings", True):
            found = [HEAD]
        if not found:
            raise CheckpointError(
                f"{folder}: the tensor {SHARED} is missing; {CONFIG} may be another model's."
            )
        shared = stored[found[0]].read()
        for name in found[1:]:
            if not _same_bits(shared, stored[name].read()):
                raise CheckpointError(
                    f"{stored[name].path}: the tensor {name} differs from {found[0]}, which T5 "
                    "shares with it."
                )
        head = stored[HEAD].read() if HEAD in stored else shared
        scaled = scales_output(fields)
        if _same_bits(shared, head):
            # A tied layer that is not scaled, as Transformers 5 makes of T5 1.1, is held as a
            # layer of its own.
            return cls(shared, head, tied=scaled)
        if scaled and fields.get("scale_decoder_outputs"):
            raise CheckpointError(
                f"{folder / CONFIG}: field 'scale_decoder_outputs': expected false, because "
                f"{HEAD} differs from {found[0]}."
            )
        return cls(shared, head, tied=False)


def _check_names(
    stored: Mapping[str, tensor_files.StoredTensor],
    config: TransformerConfig,
    folder: pathlib.Path,
) -> None:
    """Checks which tensors there are and their shapes; the embedding may have several names."""
    expected = tensor_shapes(config)
    embedding = (config.vocab_size, config.emb_dim)
    for name in (*EMBEDDINGS, HEAD):
        if name in stored:
            expected[name] = embedding
        else:
            expected.pop(name, None)
    for name, shape in expected.items():
        if name not in stored:
            raise CheckpointError(
                f"{folder}: the tensor {name} {shape} is missing; {CONFIG} may be another model's."
            )
        if stored[name].shape != shape:
            raise CheckpointError(
                f"{stored[name].path}: the tensor {name} has the shape {stored[name].shape}, but "
                f"{CONFIG} says {shape}."
            )
    # Transformers keeps T5's output kernels in float32 when it halves the others.
    kept = {n for n in expected if n.endswith(".wo.weight") and stored[n].dtype == np.float32}
    tensor_files.check_dtypes(stored[name] for name in expected if name not in kept)
    for name, tensor in stored.items():
        if name not in expected and name not in _UNUSED:
            raise CheckpointError(
                f"{tensor.path}: the tensor {name} {tensor.shape} is not expected in this model; "
                f"{CONFIG} may be another model's."
            )


def write_huggingface(
    checkpoint: Checkpoint,
    folder: str | pathlib.Path,
    max_shard_bytes: int | None = None,
) -> None:
    """Writes a checkpoint as Hugging Face publishes such models, beside `folder`, and renames it.

    Tensors keep their dtype and bytes. Where the checkpoint was once read from such a folder,
    config.json, double names, unused tensors and the files themselves are given back as they were.
    `copy_companions` brings the tokenizer's files.

    Args:
      checkpoint: of any source.
      folder: to be made.
      max_shard_bytes: a larger model is written in several files; default: as many files as it
        was read from, or one for every 5 GB.

    Raises:
      CheckpointError: where `folder` exists, and on a model that has no such form: one with a
        soft prompt or another feed-forward layer.
    """
    config_json, tensors, layout = _exported(checkpoint)
    with written_whole(pathlib.Path(folder).absolute()) as beside:
        (beside / CONFIG).write_bytes(config_json.encode("utf-8"))
        if layout is not None and layout.fits(tensors, max_shard_bytes):
            tensor_files.write_as_read(beside, tensors, layout)
        else:
            metadata = {"format": "pt"} if layout is None else layout.metadata
            tensor_files.write_tensors(beside, tensors, metadata, max_shard_bytes or _SHARD_BYTES)


def copy_companions(source: str | pathlib.Path, folder: str | pathlib.Path) -> None:
    """Copies the tokenizer's and generation files that lie beside a checkpoint."""
    for name in COMPANIONS:
        found = pathlib.Path(source) / name
        if found.is_file():
            shutil.copyfile(found, pathlib.Path(folder) / name)


def _exported(
    checkpoint: Checkpoint,
) -> tuple[str, dict[str, np.ndarray], tensor_files.Layout | None]:
    """Returns config.json's text, the tensors by Hugging Face's names, and their old layout."""
    config, source = checkpoint.config, checkpoint.metadata.get("source", "checkpoint")
    for field in ("encoder_prompt_length", "decoder_prompt_length"):
        if getattr(config, field):
            raise CheckpointError(
                f"{source}: its soft prompt ({field} = {getattr(config, field)}) has no place in "
                "a Hugging Face folder; export its base model instead, and the prompt alone by "
                "`faith-jax export-prompt`."
            )
    family = family_of_config(config, checkpoint.family)
    if family is not None:
        return _family_exported(checkpoint, family, source)
    _check_is_t5(config, source)
    flat = flatten(unstack_layers(checkpoint.params))
    tensors = {
        theirs: turned(ours, np.asarray(flat[ours]))
        for theirs, ours in tensor_names(config).items()
    }
    kept = checkpoint.metadata.get("huggingface")
    try:
        if kept is not None and _describes(kept, config, tensors):
            return _as_it_was(kept, tensors)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CheckpointError(_DAMAGED.format(source)) from None
    text = json.dumps(make_config(config, tensors[SHARED].dtype.name), indent=2) + "\n"
    return text, tensors, None


def _check_is_t5(config: TransformerConfig, source: str) -> None:
    """Checks that a T5's config.json can say what a model is."""
    if config.is_decoder_only or config.is_encoder_only:
        raise CheckpointError(
            f"{source}: a model of {config.num_encoder_layers} encoder and "
            f"{config.num_decoder_layers} decoder layers with these settings is of no family that "
            "Hugging Face folders are written for."
        )
    fields = make_config(config, "float32")
    check_said(config, read_config(fields, pathlib.Path(CONFIG)), "T5", source)


def _family_exported(
    checkpoint: Checkpoint, family: Family, source: str
) -> tuple[str, dict[str, np.ndarray], tensor_files.Layout | None]:
    try:
        return family_tensors(checkpoint, family, source)
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CheckpointError(_DAMAGED.format(source)) from None


def _as_it_was(
    kept: Mapping[str, Any], tensors: Mapping[str, np.ndarray]
) -> tuple[str, dict[str, np.ndarray], tensor_files.Layout]:
    """Returns `_exported`'s parts of a model that was read from a folder of Hugging Face's."""
    given = {name: tensor for name, tensor in tensors.items() if name not in (SHARED, HEAD)}
    for name in kept["embeddings"]:
        given[name] = tensors.get(name, tensors[SHARED])
    given |= {name: _from_json(fields) for name, fields in kept["unused"].items()}
    layout = tensor_files.Layout(**kept["layout"])
    layout.files()  # raises where it is damaged
    known = {*EMBEDDINGS, HEAD}
    if not known.issuperset(kept["embeddings"]) or not isinstance(layout.index, str | None):
        raise ValueError
    return kept["config_json"], given, layout


def _describes(
    kept: Mapping[str, Any], config: TransformerConfig, tensors: Mapping[str, np.ndarray]
) -> bool:
    """Whether what was kept from a folder is still true of the model."""
    fields = json.loads(kept["config_json"])
    numerics = read_config(fields, pathlib.Path(CONFIG)).replace(
        logits_via_embedding=config.logits_via_embedding,
        dtype=config.dtype,
        dropout_rate=config.dropout_rate,
        float32_attention_logits=config.float32_attention_logits,
        scan_layers=config.scan_layers,
        remat_policy=config.remat_policy,
    )
    if numerics != config or (config.logits_via_embedding and not scales_output(fields)):
        return False
    # A head that was not stored must still be the embedding.
    return (
        config.logits_via_embedding
        or HEAD in kept["embeddings"]
        or _same_bits(tensors[SHARED], tensors[HEAD])
    )


def _same_bits(first: np.ndarray, second: np.ndarray) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    bits = np.dtype(f"u{first.dtype.itemsize}")
    return bool(
        np.array_equal(
            np.ascontiguousarray(first).view(bits), np.ascontiguousarray(second).view(bits)
        )
    )


def _to_json(array: np.ndarray) -> dict[str, Any]:
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "base64": base64.b64encode(array.tobytes()).decode("ascii"),
    }


def _from_json(fields: Mapping[str, Any]) -> np.ndarray:
    dtypes = {dtype.name: dtype for dtype in tensor_files.DTYPES.values()}
    data = base64.b64decode(fields["base64"])
    return np.frombuffer(data, dtypes[fields["dtype"]]).reshape(fields["shape"])
