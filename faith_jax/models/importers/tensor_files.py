"""Files of tensors in the safetensors form: model.safetensors, or shards with an index.

The safetensors library writes. Reading goes through NumPy, because the library's NumPy side does
not know bfloat16, and because a file that is cut short must be reported with the tensor it cuts.
"""

import dataclasses
import json
import math
import pathlib
import re
import struct
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import safetensors.numpy

from faith_jax.errors import CheckpointError

WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
DTYPES = {
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
_LENGTH_BYTES = 8


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file, not yet read.

    Attributes:
      path: the file.
      name: the tensor's.
      dtype: one of `DTYPES`' values.
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
        """Reads the tensor into memory.

        Raises:
          CheckpointError: where the file cannot be read or has become shorter.
        """
        count = math.prod(self.shape)
        try:
            array = np.fromfile(self.path, self.dtype, count, offset=self.offset)
        except OSError as error:
            raise CheckpointError(f"{self.path}: tensor {self.name}: {error.strerror}.") from None
        if array.size != count:
            raise CheckpointError(f"{self.path}: the file ends within the tensor {self.name}.")
        return array.reshape(self.shape)


def find_tensors(folder: pathlib.Path) -> tuple[dict[str, StoredTensor], dict[str, str]]:
    """Finds the tensors of a folder without reading their values.

    Args:
      folder: with model.safetensors, or model.safetensors.index.json and its shards.

    Returns:
      The tensors by name, and the metadata of the first file's header.

    Raises:
      CheckpointError: on a missing, truncated or malformed file, naming the tensor it cuts.
    """
    if (folder / WHOLE).is_file():
        return read_header(folder / WHOLE)
    index = folder / INDEX
    shards: dict[str, dict[str, StoredTensor]] = {}
    metadata: dict[str, str] = {}
    for name, shard in _weight_map(index).items():
        if shard not in shards:
            if not (folder / shard).is_file():
                raise CheckpointError(
                    f"{folder / shard}: this shard is missing; {INDEX} says that it holds the "
                    f"tensor {name}."
                )
            shards[shard], found = read_header(folder / shard)
            metadata = metadata or found
        if name not in shards[shard]:
            raise CheckpointError(
                f"{folder / shard}: the tensor {name} is missing; {INDEX} says that it is here."
            )
    return _joined(shards, index), metadata


def _joined(
    shards: Mapping[str, Mapping[str, StoredTensor]], index: pathlib.Path
) -> dict[str, StoredTensor]:
    tensors: dict[str, StoredTensor] = {}
    placed = _weight_map(index)
    for shard, found in shards.items():
        for name, tensor in found.items():
            if placed.get(name) != shard:
                raise CheckpointError(
                    f"{tensor.path}: the tensor {name} is not expected here by {INDEX}."
                )
            tensors[name] = tensor
    return tensors


def _weight_map(index: pathlib.Path) -> dict[str, str]:
    placed = read_json(index).get("weight_map")
    if not isinstance(placed, dict) or not placed:
        raise CheckpointError(f"{index}: field 'weight_map': expected {{tensor: file}}.")
    for name, shard in placed.items():
        # A checkpoint must not make us read files elsewhere.
        if not isinstance(shard, str) or pathlib.PurePath(shard).name != shard:
            raise CheckpointError(
                f"{index}: field 'weight_map': expected the name of a file in the same folder "
                f"for {name}, got {shard!r}."
            )
    return placed


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
      CheckpointError: where there is none, naming the line.
    """
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: not UTF-8 text.") from None
    except json.JSONDecodeError as error:
        raise CheckpointError(f"{path}: line {error.lineno}: not JSON ({error.msg}).") from None
    if not isinstance(fields, dict):
        raise CheckpointError(f"{path}: expected a JSON object, got {type(fields).__name__}.")
    return fields


def read_header(path: pathlib.Path) -> tuple[dict[str, StoredTensor], dict[str, str]]:
    """Reads the header of one safetensors file and checks it against the file's size.

    Returns:
      The tensors by name, and the header's metadata.

    Raises:
      CheckpointError: on a file that is truncated or no safetensors file.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(_LENGTH_BYTES)
            length = struct.unpack("<Q", start)[0] if len(start) == _LENGTH_BYTES else size
            if _LENGTH_BYTES + length > size:
                raise CheckpointError(
                    f"{path}: not a safetensors file, or cut short within its header "
                    f"({size} bytes); copy it again."
                )
            header = json.loads(file.read(length))
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}.") from None
    except ValueError as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{path}: not a safetensors file (its header is no JSON).") from None
    if not isinstance(header, dict):
        raise CheckpointError(f"{path}: not a safetensors file (its header is no object).")
    metadata = header.pop("__metadata__", None) or {}
    data = _LENGTH_BYTES + length
    tensors = {name: _stored(path, name, fields, data) for name, fields in header.items()}
    _check_extent(path, tensors, size, data)
    return tensors, metadata


def _stored(path: pathlib.Path, name: str, fields: Any, data: int) -> StoredTensor:
    try:
        shape = tuple(int(n) for n in fields["shape"])
        begin, end = (int(n) for n in fields["data_offsets"])
        dtype = fields["dtype"]
    except (TypeError, KeyError, ValueError):
        raise CheckpointError(
            f"{path}: tensor {name}: its entry in the header is broken."
        ) from None
    if dtype not in DTYPES:
        raise CheckpointError(
            f"{path}: tensor {name}: expected a dtype of {sorted(DTYPES)}, got {dtype!r}."
        )
    if min((*shape, begin), default=0) < 0 or end - begin != (
        math.prod(shape) * DTYPES[dtype].itemsize
    ):
        raise CheckpointError(
            f"{path}: tensor {name}: {end - begin} bytes do not hold {dtype} {list(shape)}."
        )
    return StoredTensor(path, name, DTYPES[dtype], shape, data + begin)


def _check_extent(
    path: pathlib.Path, tensors: Mapping[str, StoredTensor], size: int, data: int
) -> None:
    """Checks that tensors lie one after the other and fill the file."""
    position = data
    for tensor in sorted(tensors.values(), key=lambda t: (t.offset, t.end)):
        if tensor.end > size:
            raise CheckpointError(
                f"{path}: cut short: it has {size} bytes, but the tensor {tensor.name} "
                f"{tensor.shape} ends at byte {tensor.end}; copy it again."
            )
        if tensor.offset != position:
            raise CheckpointError(
                f"{path}: the tensor {tensor.name} begins at byte {tensor.offset}, expected "
                f"{position}."
            )
        position = tensor.end
    if position != size:
        raise CheckpointError(
            f"{path}: {size - position} bytes follow the last tensor; it is not a whole file of "
            "its header."
        )


def write_tensors(
    folder: pathlib.Path,
    tensors: Mapping[str, np.ndarray],
    metadata: Mapping[str, str],
    max_shard_bytes: int,
) -> None:
    """Writes model.safetensors, or shards of at most `max_shard_bytes` and their index.

    Args:
      folder: an existing one.
      tensors: by name; float32, float16 or bfloat16.
      metadata: of each file's header.
      max_shard_bytes: a larger tensor gets a shard of its own.
    """
    shards: list[dict[str, np.ndarray]] = [{}]
    used = 0
    for name in sorted(tensors, key=_natural_order):
        array = tensors[name]
        if shards[-1] and used + array.nbytes > max_shard_bytes:
            shards.append({})
            used = 0
        shards[-1][name] = array
        used += array.nbytes
    if len(shards) == 1:
        _write_file(folder / WHOLE, shards[0], metadata)
        return
    placed: dict[str, str] = {}
    for i, shard in enumerate(shards, 1):
        file = f"model-{i:05d}-of-{len(shards):05d}.safetensors"
        _write_file(folder / file, shard, metadata)
        placed |= dict.fromkeys(shard, file)
    total = sum(array.nbytes for array in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(placed.items()))}
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def _natural_order(name: str) -> list[tuple[int, str]]:
    """Sorts block 2 before block 10."""
    return [(int(p), "") if p.isdigit() else (0, p) for p in re.split(r"(\d+)", name)]


def _write_file(
    path: pathlib.Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    # The library takes the bytes where they lie, whatever the strides say.
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    safetensors.numpy.save_file(contiguous, path, metadata=dict(metadata) or None)
