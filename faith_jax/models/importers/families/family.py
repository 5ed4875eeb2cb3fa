"""What a model family must say of itself, so that its Hugging Face folders are read and written."""

import dataclasses
import json
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from faith_jax.errors import CheckpointError
from faith_jax.models.config import TransformerConfig

# What the published names of activations mean. By "gelu" Transformers means the exact form.
ACTIVATIONS = {
    "gelu": "gelu_exact",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
PUBLISHED_ACTIVATIONS = {
    "gelu_exact": "gelu",
    "gelu": "gelu_new",
    "relu": "relu",
    "silu": "silu",
    "tanh": "tanh",
}


@dataclasses.dataclass(frozen=True)
class TensorMap:
    """A published tensor and the parameters that it holds.

    Attributes:
      theirs: the tensor's published name.
      ours: our names of its parts, side by side along the outputs.
      turned: it is stored as [outputs, inputs]; ours are [inputs, outputs].
      groups: the parts alternate for each of so many groups of outputs (BLOOM: for each head).
      row: it is stored with a leading axis of 1.
    """

    theirs: str
    ours: tuple[str, ...]
    turned: bool = False
    groups: int = 1
    row: bool = False

    def split(self, array: np.ndarray) -> dict[str, np.ndarray]:
        """Returns our parameters of a published tensor."""
        if self.row:
            array = array[0]
        if self.turned:
            array = array.T
        if len(self.ours) == 1:
            return {self.ours[0]: np.ascontiguousarray(array)}
        parts = array.reshape(*array.shape[:-1], self.groups, len(self.ours), -1)
        return {
            name: np.ascontiguousarray(parts[..., i, :]).reshape(*array.shape[:-1], -1)
            for i, name in enumerate(self.ours)
        }

    def join(self, params: Mapping[str, np.ndarray]) -> np.ndarray:
        """The inverse of `split`."""
        arrays = [np.asarray(params[name]) for name in self.ours]
        if len(arrays) > 1:
            grouped = [a.reshape(*a.shape[:-1], self.groups, 1, -1) for a in arrays]
            joined = np.concatenate(grouped, axis=-2)
            array = joined.reshape(*arrays[0].shape[:-1], -1)
        else:
            array = arrays[0]
        return np.ascontiguousarray(array.T if self.turned else array[None] if self.row else array)

    def shape(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
        """Returns the published tensor's shape for our parameters' shapes."""
        first = shapes[self.ours[0]]
        shape = (*first[:-1], sum(shapes[name][-1] for name in self.ours))
        return shape[::-1] if self.turned else (1, *shape) if self.row else shape


def linear(theirs: str, *ours: str, bias: bool, turned: bool = True, groups: int = 1) -> list:
    """Returns the maps of a linear layer's weight and bias.

    Args:
      theirs: published name without ".weight".
      *ours: our names without "/kernel"; several where the layer holds several.
      bias: whether there is one.
      turned: see `TensorMap`.
      groups: see `TensorMap`.
    """
    kernels, biases = (tuple(f"{name}/{kind}" for name in ours) for kind in ("kernel", "bias"))
    maps = [TensorMap(f"{theirs}.weight", kernels, turned, groups)]
    return maps + ([TensorMap(f"{theirs}.bias", biases, False, groups)] if bias else [])


def layer_norm(theirs: str, ours: str, bias: bool = True) -> list[TensorMap]:
    """Returns the maps of a norm."""
    maps = [TensorMap(f"{theirs}.weight", (f"{ours}/scale",))]
    return maps + ([TensorMap(f"{theirs}.bias", (f"{ours}/bias",))] if bias else [])


@dataclasses.dataclass(frozen=True)
class Family:
    """A model family.

    Attributes:
      name: for messages.
      model_types: values of config.json's `model_type`.
      prefix: of the names of all tensors but the head's; published files may lack it.
      read_config: returns our config for config.json, without what only the tensors tell (tied
        outputs, and whether there is a classification head).
      write_config: returns the fields of a config.json, without those that are alike in all.
      tensors: returns the maps of all tensors.
      unused: regular expression of published tensors that no computation here uses: masks and
        position numbers that are computed, heads of other tasks.
      matches: whether a config of ours is of this family.
      embedding_copies: published names under which a file may hold the embedding instead.
    """

    name: str
    model_types: tuple[str, ...]
    prefix: str
    read_config: Callable[["ConfigFields"], TransformerConfig]
    write_config: Callable[[TransformerConfig], dict[str, Any]]
    tensors: Callable[[TransformerConfig], list[TensorMap]]
    unused: str
    matches: Callable[[TransformerConfig], bool]
    embedding_copies: tuple[str, ...] = ("lm_head.weight",)

    def is_unused(self, name: str) -> bool:
        """Whether a published tensor is one that no computation uses."""
        return re.fullmatch(self.unused, name.removeprefix(self.prefix)) is not None


class ConfigFields:
    """The fields of a config.json, read with their types checked.

    Args:
      fields: of the file.
      path: of the file, for messages.
    """

    def __init__(self, fields: Mapping[str, Any], path: pathlib.Path):
        self.fields, self.path = fields, path

    def _fail(self, name: str, expected: str) -> CheckpointError:
        found = json.dumps(self.fields.get(name))
        return CheckpointError(f"{self.path}: field {name!r}: expected {expected}, got {found}.")

    def _value(self, names: Sequence[str], default: Any) -> tuple[str, Any]:
        for name in names:
            if self.fields.get(name) is not None:
                return name, self.fields[name]
        return names[0], default

    def whole(self, *names: str, default: int | None = None) -> int:
        """Returns a whole number, by the first of its names that is there."""
        name, value = self._value(names, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._fail(name, "a whole number")
        return value

    def number(self, *names: str, default: float | None = None) -> float:
        """Returns a number."""
        name, value = self._value(names, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._fail(name, "a number")
        return float(value)

    def positive(self, *names: str, default: float) -> float:
        """Returns a number above 0."""
        name, value = self._value(names, default)
        if self.number(name, default=default) <= 0:
            raise self._fail(name, "a positive number")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """Returns true or false."""
        value = self._value([name], default)[1]
        if not isinstance(value, bool):
            raise self._fail(name, "true or false")
        return value

    def activation(self, *names: str, default: str) -> str:
        """Returns our name of an activation."""
        name, value = self._value(names, default)
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise self._fail(name, f"one of {sorted(ACTIVATIONS)}")
        return ACTIVATIONS[value]

    def mapping(self, *names: str) -> Mapping[str, Any]:
        """Returns an object, empty where it is absent."""
        name, value = self._value(names, {})
        if not isinstance(value, Mapping):
            raise self._fail(name, "an object")
        return value

    def require(self, name: str, default: Any, *allowed: Any) -> None:
        """Refuses a setting that is not supported."""
        if self._value([name], default)[1] not in allowed:
            values = " or ".join(json.dumps(value) for value in allowed)
            raise self._fail(name, f"{values}; other values are not supported")

    def tokens(self, name: str, default: int | None) -> tuple[int, ...]:
        """Returns one or several token ids; none where the field is null."""
        value = self.fields.get(name, default)
        ids = [] if value is None else value if isinstance(value, list) else [value]
        if not all(isinstance(i, int) and not isinstance(i, bool) and i >= 0 for i in ids):
            raise self._fail(name, "a token id or a list of them")
        return tuple(ids)

    def token(self, name: str, default: int | None) -> int:
        """Returns a token id, -1 where the model has none."""
        return (*self.tokens(name, default), -1)[0]

    def padding(self, name: str, default: int) -> int:
        """Returns the padding token of a model that cannot be without."""
        token = self.token(name, default)
        if token < 0:
            raise self._fail(name, "a token id")
        return token

    def distinct_pad(self) -> int:
        """Returns the padding token of a decoder-only model, -1 where it is an end token too.

        Inputs may end with an end token (DialoGPT's turns do), which must not be taken for padding.
        """
        pad = self.token("pad_token_id", None)
        return -1 if pad in self.tokens("eos_token_id", None) else pad

    def labels(self) -> tuple[str, ...]:
        """Returns the classes' names in their order, two where the config does not say.

        Raises:
          CheckpointError: where `id2label` is not a map from 0, 1 … to names.
        """
        found = self.mapping("id2label")
        if not found:
            return tuple(f"LABEL_{i}" for i in range(self.whole("num_labels", default=2)))
        names: list[Any] = [found.get(str(i)) for i in range(len(found))]
        if not all(isinstance(name, str) for name in names):
            raise self._fail("id2label", "names for the classes 0, 1 …")
        return tuple(names)
