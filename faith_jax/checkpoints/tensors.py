"""Tensors in safetensors files: model.safetensors, or shards with an index.

The safetensors library writes the files. Its NumPy reader does not know bfloat16, so a file's
header is parsed here and each tensor is read by its range of bytes.
"""

import dataclasses
import json
import math
import pathlib
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import safetensors.numpy

from faith_jax.core.errors import CheckpointError

WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
DTYPES = {
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    # Met among tensors that no model uses, such as masks.
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
    "F64": np.dtype(np.float64),
}
_LENGTH_BYTES = 8


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file, not yet read.

    Attributes:
      path: the file.
      name: the tensor's.
      dtype: its values'.
      shape: its dimensions.
      offset: of its first byte in the file.
    """

    path: pathlib.Path
    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int

    @property
    def end(self) -> int:
        """Offset of the byte after the tensor's last one."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize

    def read(self) -> np.ndarray:
        """Reads the tensor into memory."""
        count = math.prod(self.shape)
        return np.fromfile(self.path, self.dtype, count, offset=self.offset).reshape(self.shape)

    def read_floats(self) -> np.ndarray:
        """Reads a tensor that is a parameter.

        Raises:
          CheckpointError: its dtype is not float32, bfloat16 or float16.
        """
        if self.dtype.name not in ("float32", "bfloat16", "float16"):
            raise CheckpointError(
                f"{self.path}: tensor {self.name}: expected float32, bfloat16 or float16, got "
                f"{self.dtype.name}."
            )
        return self.read()


def check_not_pickled(folder: pathlib.Path, *pickles: str) -> None:
    """Checks that weights are not there in pickled form alone.

    Raises:
      CheckpointError: there is one of these pickles, and no safetensors file or index.
    """
    found = [name for name in pickles if (folder / name).is_file()]
    if found and not [*folder.glob("*.safetensors*")]:
        raise CheckpointError(
            f"{folder / found[0]}: pickled weights are not read, because unpickling can run any "
            "code; save them with safetensors (save_pretrained does)."
        )


def find_tensors(folder: pathlib.Path) -> dict[str, StoredTensor]:
    """Returns a folder's tensors by name, of model.safetensors or its shards, not yet read.

    Raises:
      CheckpointError: a file is missing, truncated or malformed.
    """
    if (folder / WHOLE).is_file():
        return read_header(folder / WHOLE)[0]
    index = folder / INDEX
    if not index.is_file():
        raise CheckpointError(f"{folder}: no weights here; expected {WHOLE} or {INDEX}.")
    placed = read_json(index).get("weight_map")
    shards = placed.values() if isinstance(placed, dict) else ()
    # A checkpoint must not make us read files elsewhere.
    if not shards or not all(isinstance(s, str) and pathlib.Path(s).name == s for s in shards):
        raise CheckpointError(
            f"{index}: field 'weight_map': expected the name of a file in this folder for each "
            "tensor."
        )
    found: dict[str, StoredTensor] = {}
    for shard in dict.fromkeys(shards):
        found |= read_header(folder / shard)[0]
    return found


def read_header(path: pathlib.Path) -> tuple[dict[str, StoredTensor], dict[str, str]]:
    """Reads the header of one safetensors file and checks it against the file's size.

    Returns:
      The tensors by name, and the file's metadata.

    Raises:
      CheckpointError: the file is missing, truncated, or no safetensors file.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            data = _LENGTH_BYTES + int.from_bytes(file.read(_LENGTH_BYTES), "little")
            text = file.read(data - _LENGTH_BYTES) if data <= size else b""
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}.") from None
    if not text:
        raise CheckpointError(
            f"{path}: not a safetensors file, or cut short within its header ({size} bytes); copy "
            "it again."
        )
    try:
        header = json.loads(text)
        metadata = header.pop("__metadata__", {})
    except (AttributeError, RecursionError, TypeError, ValueError):
        raise CheckpointError(
            f"{path}: not a safetensors file (its header is no JSON object)."
        ) from None
    tensors = {name: _stored(path, name, entry, data) for name, entry in header.items()}
    for tensor in sorted(tensors.values(), key=lambda t: t.offset):
        if tensor.end > size:
            raise CheckpointError(
                f"{path}: cut short: it has {size} bytes, but the tensor {tensor.name} "
                f"{tensor.shape} ends at byte {tensor.end}; copy it again."
            )
    return tensors, metadata


def _stored(path: pathlib.Path, name: str, entry: Any, data: int) -> StoredTensor:
    """Returns the tensor of a header's entry; `data` is where the tensors begin."""
    try:
        begin, end = entry["data_offsets"]
        tensor = StoredTensor(
            path, name, DTYPES[entry["dtype"]], tuple(entry["shape"]), data + begin
        )
        if begin >= 0 and tensor.end == data + end:
            return tensor
    except (KeyError, TypeError, ValueError):
        pass
    raise CheckpointError(f"{path}: tensor {name}: its entry in the header is broken.")


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
      CheckpointError: there is none.
    """
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}.") from None
    except json.JSONDecodeError as error:
        raise CheckpointError(f"{path}: line {error.lineno}: not JSON ({error.msg}).") from None
    except (RecursionError, UnicodeDecodeError):
        raise CheckpointError(f"{path}: not JSON.") from None
    if not isinstance(fields, dict):
        raise CheckpointError(f"{path}: expected a JSON object, got {type(fields).__name__}.")
    return fields


def write_tensors(
    folder: pathlib.Path, tensors: Mapping[str, np.ndarray], max_shard_bytes: int
) -> None:
    """Writes model.safetensors, or shards of at most `max_shard_bytes` and their index.

    A tensor that is larger gets a shard of its own.
    """
    shards: list[dict[str, np.ndarray]] = [{}]
    used = 0
    for name, array in tensors.items():
        if shards[-1] and used + array.nbytes > max_shard_bytes:
            shards.append({})
            used = 0
        shards[-1][name] = array
        used += array.nbytes
    if len(shards) == 1:
        write_tensor_file(folder / WHOLE, tensors, {"format": "pt"})
        return
    placed: dict[str, str] = {}
    for i, shard in enumerate(shards, 1):
        file = f"model-{i:05d}-of-{len(shards):05d}.safetensors"
        write_tensor_file(folder / file, shard, {"format": "pt"})
        placed |= dict.fromkeys(shard, file)
    total = sum(array.nbytes for array in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": placed}
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def write_tensor_file(
    path: pathlib.Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Writes one safetensors file, with the permissions of any new file."""
    # The library takes the bytes where they lie, whatever the strides say.
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    path.unlink(missing_ok=True)
    path.touch()
    mode = path.stat().st_mode  # the library's own is for the owner alone
    safetensors.numpy.save_file(contiguous, path, metadata=dict(metadata) or None)
    path.chmod(mode)
