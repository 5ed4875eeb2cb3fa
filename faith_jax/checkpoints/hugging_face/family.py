"""Description of a model family: how its config.json and tensors map to our names."""

import dataclasses
import json
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from faith_jax.checkpoints.lazy_arrays import LazyArray, entry, parts, transpose
from faith_jax.checkpoints.tensors import UNQUANTISED
from faith_jax.core.errors import CheckpointError, ConfigError, format_value
from faith_jax.core.settings import Number, describe_type
from faith_jax.models.config import TransformerConfig

HEAD = "lm_head.weight"
SLIDING, FULL = "sliding_attention", "full_attention"  # in `layer_types`
LOGITS_BIAS = "final_logits_bias"
Settings = dict[str, Any]
# Our names of published activations. In Transformers, "gelu" is the exact form.
ACTIVATIONS = {
    "gelu": "gelu_exact",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
    "linear": "linear",
}
# If several published names have the same meaning, the first is written.
PUBLISHED_ACTIVATIONS = {ours: published for published, ours in reversed(ACTIVATIONS.items())}
# Heads by their names in `architectures`, and a remedy for families whose head is not supported.
_TASKS = {
    "ForSequenceClassification": "use an encoder, such as RoBERTa or DeBERTa",
    "ForQuestionAnswering": "use an encoder, such as BERT or RoBERTa",
    "ForTokenClassification": "use a ModernBERT",
    "ForMultipleChoice": "no family's is",
}
# Allowed types of config.json's fields, if different from the type of the default.
_TYPES: dict[type, Any] = {float: Number, str: Literal[tuple(sorted(ACTIVATIONS))]}


class ConfigFields:
    """The fields of a JSON file, read with type checks; `path` is for messages."""

    def __init__(self, fields: Mapping[str, Any], path: pathlib.Path):
        self.fields, self.path = fields, path

    def error(self, name: str, expected: str) -> CheckpointError:
        """Returns the error for a field with an unexpected value."""
        value_text = format_value(self.fields.get(name))
        return CheckpointError(
            f"{self.path}: field {name!r}: expected {expected}, got {value_text}."
        )

    def get(self, *names: str, default: Any) -> Any:
        """Returns the first of several fields that is not missing or null, else the default.

        The field must have the default's type. A text must name an activation; returns our name.
        """
        name = next((name for name in names if self.fields.get(name) is not None), names[0])
        value = self.fields.get(name)
        value = default if value is None else value
        hint = _TYPES.get(type(default), type(default))
        try:
            value = msgspec.convert(value, hint)
        except msgspec.ValidationError:
            raise self.error(name, describe_type(hint, of_json=True)) from None
        return ACTIVATIONS[value] if isinstance(value, str) else value

    def require(self, name: str, default: Any, *allowed: Any) -> None:
        """Checks that a setting has a supported value."""
        value = self.fields.get(name)
        if (default if value is None else value) not in allowed:
            values = " or ".join(json.dumps(value) for value in allowed)
            raise self.error(name, f"{values}; other values are not supported")

    def tokens(self, name: str, default: int | None) -> tuple[int, ...]:
        """Returns the field's token ids; empty if it is null."""
        value = self.fields.get(name, default)
        ids = [] if value is None else value if isinstance(value, list) else [value]
        if not all(isinstance(i, int) and not isinstance(i, bool) and i >= 0 for i in ids):
            raise self.error(name, "a token id or a list of them")
        return tuple(ids)

    def check_ends(self, ends: Sequence[int], vocab_size: int) -> None:
        """Checks that a model can write its end tokens."""
        if any(end >= vocab_size for end in ends):
            raise self.error("eos_token_id", f"tokens below the vocabulary size {vocab_size}")

    def pad(self, default: int | None) -> int:
        """Returns the padding token; -1 if the model has none."""
        if self.fields.get("pad_token_id") == -1:  # as in the first conversions of Llama
            return -1
        return (*self.tokens("pad_token_id", default), -1)[0]

    def padding(self, default: int) -> int:
        """Returns the padding token of a model that needs one."""
        if self.pad(default) < 0:
            raise self.error("pad_token_id", "a token id")
        return self.pad(default)

    def distinct_pad(self) -> int:
        """Returns the padding token of a decoder-only model; -1 if it is an end token too.

        Inputs may end with an end token (DialoGPT's turns do), which must not count as padding.
        """
        pad = self.pad(None)
        return -1 if pad in self.tokens("eos_token_id", None) else pad

    def sliding_layers(self, default: Sequence[str]) -> tuple[int, ...]:
        """Returns the numbers of the layers with a sliding window.

        `default` has the kinds of all layers, for files without `layer_types`.
        """
        types = self.fields.get("layer_types") or default
        are_known = isinstance(types, Sequence) and all(kind in (SLIDING, FULL) for kind in types)
        if not are_known or len(types) != len(default):
            expected = f"one of {[SLIDING, FULL]} for each of the {len(default)} layers"
            raise self.error("layer_types", expected)
        return tuple(number for number, kind in enumerate(types) if kind == SLIDING)

    def labels(self) -> tuple[str, ...]:
        """Returns the names of the classes in order; by default there are two classes."""
        id2label = self.get("id2label", default={})
        if not id2label:
            return tuple(f"LABEL_{i}" for i in range(self.get("num_labels", default=2)))
        names: list[Any] = [id2label.get(str(i)) for i in range(len(id2label))]
        if not all(isinstance(name, str) for name in names):
            raise self.error("id2label", "names for the classes 0, 1 …")
        return tuple(names)


# Our kinds of parameters, and their published names.
_KINDS = {
    "embedding": "weight",
    "rel_embedding": "weight",
    "scale": "weight",
    "kernel": "weight",
    "bias": "bias",
}


@dataclasses.dataclass(frozen=True)
class TensorMap:
    """A published tensor and our parameters in it.

    Attributes:
      published_name: the tensor's name.
      ours: our names of the tensor's parts, side by side along the outputs.
      turned: the tensor is stored as [outputs, inputs]; ours are [inputs, outputs].
      groups: number of groups of outputs, each of which has all parts (BLOOM: one group a head).
      row: the tensor is stored with a leading axis of 1.
    """

    published_name: str
    ours: tuple[str, ...]
    turned: bool = False
    groups: int = 1
    row: bool = False

    def split(self, array: LazyArray) -> dict[str, LazyArray]:
        """Returns our parameters of a published tensor."""
        if self.row:
            array = entry(array, 0)
        if self.turned:
            array = transpose(array)
        if len(self.ours) == 1:
            return {self.ours[0]: array}
        return dict(zip(self.ours, parts(array, len(self.ours), self.groups), strict=True))

    def join(self, params: Mapping[str, np.ndarray]) -> np.ndarray:
        """The inverse of `split`."""
        arrays = [np.asarray(params[name]) for name in self.ours]
        array = arrays[0]
        if len(arrays) > 1:
            grouped = [a.reshape(*a.shape[:-1], self.groups, 1, -1) for a in arrays]
            array = np.concatenate(grouped, axis=-2).reshape(*array.shape[:-1], -1)
        return np.ascontiguousarray(array.T if self.turned else array[None] if self.row else array)

    def shape(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
        """Returns the published tensor's shape for our parameters' shapes."""
        first = shapes[self.ours[0]]
        shape = (*first[:-1], sum(shapes[name][-1] for name in self.ours))
        return shape[::-1] if self.turned else (1, *shape) if self.row else shape


# Settings of all families with layer norms, and of all decoder-only families.
LAYER_NORM: Settings = {
    "norm": "layer",
    "attention_bias": True,
    "mlp_bias": True,
    "mlp_dropout_rate": 0.0,
    "broadcast_dropout": False,
}
CAUSAL: Settings = {"num_encoder_layers": 0, "scale_tied_logits": False}
# Our modules in a published fused module.
FUSED = "self_attention/query self_attention/key self_attention/value"


def attention_modules(published: str, ours: str, names: Sequence[str]) -> dict[str, str]:
    """Returns the modules of an attention; names are the query's, key's, value's and output's."""
    parts = ("query", "key", "value", "out")
    return {f"{published}.{a}": f"{ours}/{b}" for a, b in zip(names, parts, strict=True)}


def usual_head_dim(base_settings: Mapping[str, Any]) -> int:
    """Returns the width of a head that fills the model's width."""
    return max(1, base_settings["emb_dim"] // max(1, base_settings["num_heads"]))


@dataclasses.dataclass(frozen=True)
class Family:
    """A model family.

    Attributes:
      name: the family's name in messages.
      model_type: config.json's `model_type`.
      kind: part of config.json's `architectures` that distinguishes families with the same
        `model_type`.
      architecture: config.json's `architectures`; for encoders, without "For…".
      marks: our settings, with the values that identify a config of this family.
      fields: our settings in config.json, each with its default and its names there; the first name
        is written. The default may be a function of the settings before.
      constants: our settings that are the same for all models of the family.
      read: returns the other settings, given config.json and the base settings (`constants` and
        `fields`). The tensors then show whether the output layer is tied, and whether there is a
        bias of the logits or a classification head.
      required: fields of which few values are supported, each with its default and these values.
      pad: reads the padding token.
      end: the default end token; None = no end token.
      tasks: the supported heads of `_TASKS`.
      write: returns the other fields of config.json.
      unfold: returns the fields of a config.json that has them in several objects, as one object.
      fold: the inverse of `unfold`.
      modules: maps published names of modules outside layers to ours.
      layers: the same for modules in a layer, by the published and our name of the layers. A module
        with several of ours side by side along the outputs has all their names.
      prefix: prefix of all tensor names except the heads'; published files may lack it.
      turned: kernels are stored as [outputs, inputs].
      interleaved: the parts of a module with several of ours alternate from head to head.
      unused: regular expression of tensor names, without the prefix, that no computation uses:
        masks, position numbers, heads of other tasks, and copies.
      embedding_copies: further names of the embedding.
      head_is_embedding: the output layer is the embedding if no output layer is stored, whatever
        config.json says.
    """

    name: str
    model_type: str
    architecture: str
    marks: Mapping[str, Any]
    fields: dict[str, tuple[Any, ...]]
    constants: dict[str, Any]
    read: Callable[[ConfigFields, dict[str, Any]], dict[str, Any]]
    write: Callable[[TransformerConfig], dict[str, Any]]
    modules: Mapping[str, str]
    layers: Mapping[tuple[str, str], Mapping[str, str]]
    required: Mapping[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    unfold: Callable[[ConfigFields], Mapping[str, Any]] = lambda fields: fields.fields
    fold: Callable[[Settings], Settings] = lambda fields: fields
    pad: Callable[[ConfigFields], int] = ConfigFields.distinct_pad
    end: int | None = 2
    tasks: tuple[str, ...] = ()
    kind: str = ""
    prefix: str = ""
    turned: bool = True
    interleaved: bool = False
    unused: str = r"(?!)"
    embedding_copies: tuple[str, ...] = ()
    head_is_embedding: bool = False

    @property
    def key(self) -> str:
        """The family's name in `Checkpoint.family`."""
        return f"{self.model_type}-{self.kind.lower()}" if self.kind else self.model_type

    @property
    def heads(self) -> tuple[str, ...]:
        """The published names of the modules outside the base model."""
        return tuple(name for name in self.modules if not name.startswith(self.prefix))

    @property
    def poolers(self) -> tuple[str, ...]:
        """The published names of the base model's modules that a classification head uses."""
        inside = [name for name in self.modules if name not in self.heads]
        return tuple(name for name in inside if self.modules[name].startswith("classifier/"))

    @property
    def embedding(self) -> str:
        """The tensor of the token embedding, the encoder's if there are two."""
        return next(f"{k}.weight" for k, v in self.modules.items() if v == "token_embedder")

    @property
    def classifiers(self) -> tuple[str, ...]:
        """The published names of a classification head's output modules."""
        return tuple(name for name, ours in self.modules.items() if ours == "classifier/out")

    def matches(self, config: TransformerConfig) -> bool:
        """Whether our config belongs to this family."""
        return all(getattr(config, name) == value for name, value in self.marks.items())

    def replace(self, **changes: Any) -> "Family":
        """Returns a family that differs in some attributes."""
        return dataclasses.replace(self, **changes)

    def read_config(self, fields: Mapping[str, Any], path: pathlib.Path) -> TransformerConfig:
        """Returns our config for the fields of a config.json.

        Raises:
          CheckpointError: if a value is missing, wrong or not supported.
        """
        if quantized := fields.get("quantization_config"):
            method = quantized.get("quant_method") if isinstance(quantized, dict) else None
            raise CheckpointError(
                f"{path}: field 'quantization_config': weights quantised by "
                f"{format_value(method or quantized)} are not read; {UNQUANTISED}."
            )
        reader = ConfigFields(self.unfold(ConfigFields(fields, path)), path)
        for task, remedy in _TASKS.items():
            if task in str(fields.get("architectures")) and task not in self.tasks:
                raise CheckpointError(
                    f"{path}: field 'architectures': {self.name} with the head {task} is not "
                    f"supported; {remedy}."
                )
        reader.get("tie_word_embeddings", default=True)  # a type check, as few families use it
        for name, (default, *allowed) in self.required.items():
            reader.require(name, default, *allowed)
        base_settings = dict(self.constants)
        for ours, (default, *names) in self.fields.items():
            value = reader.get(
                *names, default=default(base_settings) if callable(default) else default
            )
            base_settings[ours] = (value,) if ours == "mlp_activations" else value
        base_settings.setdefault("head_dim", usual_head_dim(base_settings))
        if base_settings["head_dim"] > 0:  # else the config is wrong
            base_settings.setdefault("attention_scale", base_settings["head_dim"] ** -0.5)
        if "pad_id" not in base_settings:
            base_settings |= {
                "pad_id": self.pad(reader),
                "eos_ids": reader.tokens("eos_token_id", self.end),
            }
        try:
            config = TransformerConfig(**base_settings | self.read(reader, base_settings))
        except ConfigError as error:
            raise CheckpointError(f"{path}: no {self.name} that is supported: {error}") from None
        if config.writes_text:
            reader.check_ends(config.eos_ids, config.vocab_size)
        return config

    def write_config(self, config: TransformerConfig, dtype: str) -> dict[str, Any]:
        """Returns the fields of a config.json; `dtype` is the tensors' dtype."""
        head_rate = config.classifier_dropout_rate
        settings = config.to_dict() | {
            "attention_dropout_rate": config.attention_weights_dropout,
            "mlp_activations": PUBLISHED_ACTIVATIONS[config.mlp_activations[0]],
            "mlp_dropout_rate": config.mlp_dropout_rate or 0.0,
            "classifier_dropout_rate": config.dropout_rate if head_rate is None else head_rate,
            "num_kv_heads": config.num_kv_heads or config.num_heads,
        }
        architecture = self.architecture
        if not (config.writes_text or self.kind):
            tasks = {
                "ForSequenceClassification": config.label_names,
                "ForTokenClassification": config.token_label_names,
                "ForQuestionAnswering": config.span_head,
            }
            task = next((task for task, has_head in tasks.items() if has_head), "Model")
            architecture = architecture.removesuffix("ForConditionalGeneration") + task
        ends = config.eos_ids
        fields = {
            **{names[0]: settings[ours] for ours, (_, *names) in self.fields.items()},
            "architectures": [architecture],
            "dtype": dtype,
            "eos_token_id": None if not ends else ends[0] if len(ends) == 1 else list(ends),
            "model_type": self.model_type,
            "pad_token_id": None if config.pad_id < 0 else config.pad_id,
            "tie_word_embeddings": config.logits_via_embedding or config.is_encoder_only,
            **self.write(config),
        }
        return self.fold(fields)

    def is_unused(self, name: str) -> bool:
        """Whether a tensor is not used by any computation, or is a tied output layer."""
        return name == HEAD or bool(re.fullmatch(self.unused, name.removeprefix(self.prefix)))

    def tensor_maps(
        self, config: TransformerConfig, shapes: Mapping[str, tuple[int, ...]]
    ) -> list[TensorMap]:
        """Returns the maps of all tensors of a model, given the shapes of its parameters."""
        modules = dict(self.modules)
        for (published, ours), layer in self.layers.items():
            encoder = ours.startswith("encoder/")
            for i in range(config.num_encoder_layers if encoder else config.num_decoder_layers):
                for name, held in layer.items():
                    full = " ".join(f"{ours}_{i}/{part}" for part in held.split())
                    modules[f"{published}.{i}.{name}"] = full
        maps = []
        for published, held in modules.items():
            parts = tuple(held.split())
            if held in shapes:  # an array by itself
                maps.append(TensorMap(published, parts, row=published == LOGITS_BIAS))
            for kind, suffix in _KINDS.items():
                names = tuple(f"{part}/{kind}" for part in parts)
                if all(name in shapes for name in names):
                    turned = self.turned or published == "lm_head"
                    turned = kind == "rel_embedding" or (kind == "kernel" and turned)
                    groups = config.num_heads if self.interleaved else 1
                    maps.append(TensorMap(f"{published}.{suffix}", names, turned, groups))
        return maps
