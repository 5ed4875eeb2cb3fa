"""LoRA adapters of Hugging Face's PEFT, merged with their base model.

Hu 2021: a kernel W becomes W + s B A, where A has `r` rows, B has `r` columns, and s = alpha / r,
or alpha / sqrt(r) with `use_rslora`. The merged model's parameters are computed when they are read,
in float32 unless the base and the adapter have the same smaller dtype.
"""

import dataclasses
import logging
import math
import pathlib
import re
from collections.abc import Mapping, Sequence, Set
from typing import Literal

import msgspec
import numpy as np

from faith_jax.checkpoints.checkpoint import (
    Checkpoint,
    check_params,
    expected_shapes,
    flatten,
    unflatten,
    unstack_layers,
)
from faith_jax.checkpoints.hugging_face.families import family_of_config
from faith_jax.checkpoints.hugging_face.family import HEAD, Family, TensorMap
from faith_jax.checkpoints.lazy_arrays import Box, LazyArray, lazy, transpose
from faith_jax.checkpoints.manifest import check_finite
from faith_jax.checkpoints.peft import CONFIG, WEIGHTS, adapter_tensors
from faith_jax.core.errors import CheckpointError
from faith_jax.core.progress import log_once
from faith_jax.core.rows import read_json
from faith_jax.core.schema import read_json_as

logger = logging.getLogger("faith_jax")

_F32 = np.dtype(np.float32)
_PREFIX = "base_model.model."
# A module, its part, and the adapter's name in PEFT's model, which `save_pretrained` leaves out.
_PARTS = re.compile(r"(.*)\.(lora_(?:embedding_)?[AB])(?:\.(?!weight$)([^.]+))?(?:\.weight)?")
# PEFT's wrappers of modules, which appear in the names of biases and embeddings.
_WRAPPERS = re.compile(r"\.(base_layer|modules_to_save(\.\w+)?)(?=\.)")
# Fields of variants with another computation, which are not supported.
_VARIANTS = (
    "alora_invocation_tokens",
    "layer_replication",
    "lora_bias",
    "target_parameters",
    "trainable_token_indices",
    "use_bdlora",
    "use_dora",
    "use_qalora",
)
_REMEDY = (
    "merge the adapter with PEFT, PeftModel.merge_and_unload().save_pretrained(FOLDER), and give "
    "that folder"
)
# Initialisations that also change the base model; such adapters must first be saved as plain ones.
_CHANGES_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")


class _LoraConfig(msgspec.Struct):
    """adapter_config.json of a LoRA."""

    peft_type: Literal["LORA"]
    r: int = 8  # PEFT's defaults
    lora_alpha: float = 8
    use_rslora: bool = False
    alpha_pattern: dict[str, float] | None = None
    rank_pattern: dict[str, int] | None = None
    target_modules: list[str] | str | None = None
    exclude_modules: list[str] | str | None = None
    layers_to_transform: list[int] | int | None = None
    layers_pattern: list[str] | str | None = None
    modules_to_save: list[str] | None = None
    base_model_name_or_path: str = ""
    task_type: str | None = None


@dataclasses.dataclass(frozen=True)
class Lora:
    """An opened adapter.

    Attributes:
      folder: the adapter's folder.
      config: the adapter's adapter_config.json.
      pairs: A and B, float32, by the published name of the module that they change.
      replacements: tensors that replace tensors of the base (biases, `modules_to_save`).
      dtype: dtype of all tensors; float32 if they differ.
    """

    folder: pathlib.Path
    config: _LoraConfig
    pairs: Mapping[str, tuple[np.ndarray, np.ndarray]]
    replacements: Mapping[str, LazyArray]
    dtype: np.dtype

    @property
    def base(self) -> str:
        """The base model's name or path; "" = unknown."""
        return self.config.base_model_name_or_path


def read_lora(folder: pathlib.Path) -> Lora:
    """Opens a folder that PEFT's LoRA wrote.

    Raises:
      CheckpointError: if a file is missing or broken, or the adapter is an unsupported variant,
        whose field the error names.
    """
    fields = read_json(folder / CONFIG, CheckpointError)
    config = read_json_as(folder / CONFIG, _LoraConfig, CheckpointError)
    for name in _VARIANTS:
        if fields.get(name):
            raise _unsupported_field_error(folder, name, "it changes what a LoRA computes")
    start = str(fields.get("init_lora_weights", "")).lower()
    if start.startswith(_CHANGES_BASE):
        raise _unsupported_field_error(
            folder, "init_lora_weights", f"{start!r} has changed the base model as well"
        )
    for field in (
        "alpha_pattern",
        "rank_pattern",
        "target_modules",
        "exclude_modules",
        "layers_pattern",
    ):
        value = getattr(config, field) or ()
        for pattern in (value,) if isinstance(value, str) else value:
            try:
                re.compile(pattern)
            except re.error as error:
                raise CheckpointError(
                    f"{folder / CONFIG}: field {field!r}: {pattern!r} is no pattern ({error})."
                ) from None
    if "lora_alpha" not in fields:
        log_once(f"{folder / CONFIG}: without 'lora_alpha': it is 8, PEFT's default.")
    path = folder / WEIGHTS
    halves: dict[str, dict[str, np.ndarray]] = {}
    replacements: dict[str, LazyArray] = {}
    dtypes = set()
    adapters: set[str] = set()
    full_names: dict[str, str] = {}
    for full_name, tensor in adapter_tensors(folder).items():
        array = tensor.floats()
        dtypes.add(array.dtype)
        name = _WRAPPERS.sub("", full_name.removeprefix(_PREFIX))
        if ".original_module." in name:  # replaced by a module of `modules_to_save`
            continue
        match = _PARTS.fullmatch(name)
        key = name.removesuffix(".weight") if match else name
        if full_names.setdefault(key, full_name) != full_name:
            raise CheckpointError(
                f"{path}: the tensors {full_names[key]} and {full_name} are of the same part of "
                "one module; keep one of them."
            )
        if match is None:
            if "lora_magnitude_vector" in name:
                raise CheckpointError(
                    f'{path}: the tensor {name} is DoRA\'s, which is not read; with "use_dora": '
                    f"true in {CONFIG}, {_REMEDY}."
                )
            if "lora_" in name:
                raise CheckpointError(f"{path}: the tensor {name} is of no LoRA that is read.")
            replacements[name] = array
            continue
        module, part, adapter = match.groups()
        adapters.add(adapter or "")
        numbers = np.asarray(array, _F32)
        check_finite(name, numbers, path)
        halves.setdefault(module, {})[part] = numbers
    if len(adapters) > 1:
        raise CheckpointError(
            f"{path}: expected tensors of one adapter, got those of "
            f"{', '.join(sorted(name or 'one without a name' for name in adapters))}; save one "
            "alone, with PEFT: save_pretrained(FOLDER, selected_adapters=[NAME])."
        )
    pairs = {module: _pair_lora_matrices(module, parts, path) for module, parts in halves.items()}
    if not pairs:
        raise CheckpointError(f"{path}: expected tensors lora_A and lora_B, got none.")
    for module, (first, _) in pairs.items():
        rank = _of_module(module, config.rank_pattern, config.r)
        if len(first) != rank:
            raise CheckpointError(
                f"{path}: the tensors of {module} have the rank {len(first)}, but {CONFIG} says "
                f"{rank} ('r', or 'rank_pattern'); give the two files of one adapter."
            )
    return Lora(folder, config, pairs, replacements, dtypes.pop() if len(dtypes) == 1 else _F32)


def merge_lora(lora: Lora, base: Checkpoint) -> Checkpoint:
    """Merges an adapter into its base model; raises a CheckpointError if it does not fit."""
    family = family_of_config(base.config, base.family)
    where = base.metadata.get("source", "the base")
    if family is None:
        raise CheckpointError(f"{lora.folder}: {where} is of no family that PEFT has adapters for.")
    params = unstack_layers(base.params) if base.config.scan_layers else base.params
    config = base.config.replace(scan_layers=False)
    params = {name: lazy(array) for name, array in flatten(params).items()}
    embedder = "decoder/token_embedder" if config.decoder_embedding else "token_embedder"
    embedding = f"{embedder}/embedding"
    changed = {*lora.replacements, *(f"{module}.weight" for module in lora.pairs)}
    if config.logits_via_embedding and HEAD in changed:
        # The adapter changes the tied output layer, so it becomes a separate copy.
        scaled = config.scale_tied_logits
        config = config.replace(logits_via_embedding=False, scale_own_logits=scaled)
        params["decoder/logits_dense/kernel"] = transpose(params[embedding])
    new_heads = [name for c in family.classifiers if (name := f"{c}.weight") in lora.replacements]
    if new_heads and not config.label_names and lora.config.task_type == "SEQ_CLS":
        count = lora.replacements[new_heads[0]].shape[0]
        config = config.replace(label_names=tuple(f"LABEL_{i}" for i in range(count)))
        # In a model with a decoder, the head replaces the output layer.
        params = {k: v for k, v in params.items() if not k.startswith("decoder/logits_")}
    table = next(f"{name}.weight" for name, ours in family.modules.items() if ours == embedder)
    for name in {table, table.removeprefix(family.prefix)} & lora.replacements.keys():
        if not config.logits_bias:  # its length would have to change too
            config = config.replace(vocab_size=lora.replacements[name].shape[0])
    shapes = expected_shapes(config)
    maps = {tensor.published_name: tensor for tensor in family.tensor_maps(config, shapes)}
    is_same_dtype = {array.dtype for array in params.values()} == {lora.dtype}
    if not is_same_dtype:
        params = {name: array.astype(_F32) for name, array in params.items()}

    def find_map(name: str) -> TensorMap:
        for full in (name, family.prefix + name, name.removeprefix(family.prefix)):
            if full in maps and config.logits_via_embedding and maps[full].ours == (embedding,):
                raise CheckpointError(
                    f"{lora.folder}: the adapter changes {full}, which is the output layer of "
                    f"{where} too; merge it with PEFT, merge_and_unload()."
                )
            if full in maps:
                return maps[full]
        if {name, family.prefix + name} & set(family.embedding_copies):
            raise CheckpointError(
                f"{lora.folder}: the adapter changes {name}, the embedding of one stack alone, "
                f"which is not read: {where} has one embedding, {table}, for both stacks."
            )
        raise CheckpointError(
            f"{lora.folder}: the adapter changes {name}, which {where} does not have; give the "
            "base model that it was made for."
        )

    def split(tensor: TensorMap, array: LazyArray, name: str) -> dict[str, LazyArray]:
        if array.shape != (expected := tuple(tensor.shape(shapes))):
            raise CheckpointError(
                f"{lora.folder}: the adapter's change of {name} has the shape {array.shape}, but "
                f"the base model's is {expected}; give the base model that it was made for."
            )
        return tensor.split(array)

    for name, array in lora.replacements.items():
        dtype = next(iter(params.values())).dtype
        parts = split(find_map(name), array, name)
        params |= {n: part.astype(dtype) for n, part in parts.items()}
    for module, (first, second) in lora.pairs.items():
        tensor = find_map(f"{module}.weight")
        # Kernels stored as [inputs, outputs] need the transposed change.
        is_kernel = tensor.ours[0].endswith("/kernel")
        change = _multiply_lora_matrices(module, first, second, lora.config)
        change = transpose(change) if is_kernel and not tensor.turned else change
        for name, part in split(tensor, change, module).items():
            params[name] = _add_change(params[name], part)
    source = str(lora.folder.absolute())
    check_params(config, unflatten(params), source)
    tied = {HEAD, table, *family.embedding_copies} if base.config.logits_via_embedding else set()
    _check_complete(lora, family, maps, changed | tied if changed & tied else changed)
    metadata = {**base.metadata, "source": source, "format": "peft", "base": where}
    return Checkpoint(config, unflatten(params), metadata, base.family)


def _check_complete(
    lora: Lora, family: Family, maps: Mapping[str, TensorMap], changed: Set[str]
) -> None:
    """Compares the changed tensors of the base with the modules that adapter_config.json names.

    Raises:
      CheckpointError: if a module of `modules_to_save` has no tensors; missing ones of
        `target_modules` are a warning.
    """
    path = lora.folder / WEIGHTS
    modules = {name.rpartition(".")[0] for name in (*maps, *family.embedding_copies)}
    for saved in lora.config.modules_to_save or ():
        # PEFT also lists usual names of classification heads, which the model may not have.
        is_of_base = any(_is_in(name, saved) for name in modules | family.modules.keys())
        if is_of_base and not any(_is_in(name, saved) for name in changed):
            raise CheckpointError(
                f"{path}: {CONFIG} has {saved!r} in 'modules_to_save', but its tensors are missing "
                "here; copy the file again from where the adapter was saved."
            )
    unchanged = [
        name.removesuffix(".weight")
        for name, tensor in maps.items()
        if tensor.ours[0].endswith(("/kernel", "embedding"))
        and not {name, name.removeprefix(family.prefix)} & changed
        and _is_target(name.removesuffix(".weight"), lora.config, tensor)
    ]
    if unchanged:
        logger.warning(
            "%s: %d modules that %s has in 'target_modules' have no tensors here and stay as in "
            "the base; the first is %s.",
            path,
            len(unchanged),
            CONFIG,
            unchanged[0],
        )


def _is_in(name: str, module: str) -> bool:
    """Whether a tensor or module is part of a module that PEFT names by the end of its path."""
    return f".{module}." in f".{name}."


def _matches(module: str, names: Sequence[str] | str | None) -> bool:
    """Whether PEFT's `target_modules` or `exclude_modules` name a module."""
    if isinstance(names, str):
        return re.fullmatch(names, module) is not None
    return any(f".{module}".endswith(f".{name}") for name in names or ())


def _is_target(module: str, config: _LoraConfig, tensor: TensorMap) -> bool:
    """Whether PEFT gives a module of the base a LoRA."""
    if _matches(module, config.exclude_modules):
        return False
    if config.target_modules == "all-linear":  # heads, which lie outside layers, are left out
        is_kernel = tensor.ours[0].endswith("/kernel")
        return is_kernel and re.search(r"\.\d+\.", module) is not None
    if config.layers_to_transform not in (None, []):
        layers, patterns = config.layers_to_transform, config.layers_pattern or r"[^.]*"
        pattern = patterns if isinstance(patterns, str) else "|".join(patterns)
        layer = re.match(rf".*\.({pattern})\.(\d+)\.", module)
        if layer is None or int(layer[2]) not in ([layers] if isinstance(layers, int) else layers):
            return False
    return _matches(module, config.target_modules)


def _multiply_lora_matrices(
    module: str, first: np.ndarray, second: np.ndarray, config: _LoraConfig
) -> LazyArray:
    """Returns s B A of a module, from A [r, inputs] and B [outputs, r].

    The alpha in s may come from a pattern for the module.
    """
    rank = math.sqrt(len(first)) if config.use_rslora else len(first)
    factor = np.float32(_of_module(module, config.alpha_pattern, config.lora_alpha) / rank)
    return LazyArray(
        (len(second), first.shape[1]),
        _F32,
        lambda box: factor * (second[box[0]] @ first[:, box[1]]),
    )


def _of_module(module: str, patterns: Mapping[str, float] | None, default: float) -> float:
    """Returns the value of the first pattern that a module's name ends with, or the default."""
    for pattern, value in (patterns or {}).items():
        if re.fullmatch(rf"(.*\.)?({pattern})", module):
            return value
    return default


def _add_change(array: LazyArray, change: LazyArray) -> LazyArray:
    def read(box: Box) -> np.ndarray:
        return (array.read(box).astype(_F32) + change.read(box)).astype(array.dtype)

    return LazyArray(array.shape, array.dtype, read)


def _pair_lora_matrices(
    module: str, parts: Mapping[str, np.ndarray], path: pathlib.Path
) -> tuple[np.ndarray, np.ndarray]:
    kind = "lora_embedding" if "lora_embedding_A" in parts else "lora"
    if sorted(parts) == [f"{kind}_A", f"{kind}_B"]:
        first, second = (parts[name] for name in sorted(parts))
        if first.ndim == second.ndim == 2 and 0 < len(first) == second.shape[1]:
            # An embedding table is [tokens, width], so its change is transposed.
            return (first, second) if kind == "lora" else (second.T, first.T)
    shapes = ", ".join(f"{name} {parts[name].shape}" for name in sorted(parts))
    raise CheckpointError(
        f"{path}: {module}: expected lora_A [r, inputs] and lora_B [outputs, r], got {shapes}."
    )


def _unsupported_field_error(folder: pathlib.Path, field: str, why: str) -> CheckpointError:
    return CheckpointError(
        f"{folder / CONFIG}: field {field!r}: {why}, which is not read; {_REMEDY}."
    )
