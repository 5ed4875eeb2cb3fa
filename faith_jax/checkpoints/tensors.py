"""Tensors in safetensors files: model.safetensors, or shards with an index.

The safetensors library writes the files. Its NumPy reader does not support bfloat16, so we parse a
file's header and read each tensor, or a part of it, by byte ranges.
"""

import contextlib
import dataclasses
import json
import math
import pathlib
from collections.abc import Mapping
from typing import Annotated

import ml_dtypes
import msgspec
import numpy as np
import safetensors.numpy

from faith_jax.checkpoints.lazy_arrays import Box, LazyArray, box_shape
from faith_jax.core.errors import CheckpointError, format_value
from faith_jax.core.files.stores import check_no_pointer
from faith_jax.core.schema import read_json_as

WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_DTYPES = {
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    # Dtypes of tensors that no model uses, such as masks.
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
    "F64": np.dtype(np.float64),
}
UNQUANTISED = "give weights in float32, bfloat16 or float16, without quantisation"
_LENGTH_BYTES = 8
_BLOCK_BYTES = 2**24  # bytes that are read at once


_FileName = Annotated[
    str, msgspec.Meta(pattern="^[^/]+$", description="the name of a file in the folder")
]


class _Index(msgspec.Struct):
    """The file of each tensor; names without a slash, so that no file elsewhere is read."""

    weight_map: dict[str, _FileName]


def weight_files(folder: pathlib.Path, whole: str, index: str) -> list[pathlib.Path]:
    """Returns the files of a folder's weights: `whole`, or those that `index` names."""
    if (folder / whole).is_file():
        return [folder / whole]
    placed = read_json_as(folder / index, _Index, CheckpointError).weight_map
    return [folder / file for file in dict.fromkeys(placed.values())]


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file, which can be read in parts."""

    path: pathlib.Path
    name: str
    array: LazyArray

    @property
    def dtype(self) -> np.dtype:
        """NumPy's dtype of the elements."""
        return self.array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape."""
        return self.array.shape

    def floats(self) -> LazyArray:
        """Returns a parameter's array; raises a CheckpointError if the dtype is unsupported."""
        if self.dtype.name not in ("float32", "bfloat16", "float16"):
            raise CheckpointError(
                f"{self.path}: tensor {self.name}: expected float32, bfloat16 or float16, got "
                f"{self.dtype.name}; {UNQUANTISED}."
            )
        return self.array


@dataclasses.dataclass(frozen=True)
class _Bytes:
    """The bytes of a tensor in a safetensors file; `offset` is the first byte's."""

    path: pathlib.Path
    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int

    @property
    def end(self) -> int:
        """The offset of the byte after the tensor."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize

    def tensor(self) -> StoredTensor:
        """Returns the tensor."""
        return StoredTensor(self.path, self.name, LazyArray(self.shape, self.dtype, self._read_box))

    def _read_box(self, box: Box) -> np.ndarray:
        """Reads the part's rows of the first axis, some at a time."""
        shape, box_in_rows = self.shape or (1,), box or (slice(0, 1),)
        rows = box_in_rows[0]
        part = np.empty(box_shape(box_in_rows), self.dtype)
        row_bytes = math.prod(shape[1:]) * self.dtype.itemsize
        with self.path.open("rb") as file:
            file.seek(self.offset + rows.start * row_bytes)
            step = max(1, _BLOCK_BYTES // max(1, row_bytes))
            for start in range(rows.start, rows.stop if part.size else rows.start, step):
                place = part[start - rows.start : start - rows.start + step]
                has_whole_rows = part.shape[1:] == shape[1:]
                block = place if has_whole_rows else np.empty((len(place), *shape[1:]), self.dtype)
                if file.readinto(block.reshape(-1).view(np.uint8).data) < block.nbytes:
                    raise CheckpointError(
                        f"{self.path}: the tensor {self.name} is cut short; copy the file again."
                    )
                if not has_whole_rows:
                    place[...] = block[(slice(None), *box[1:])]
        return part.reshape(box_shape(box))


def find_tensors(folder: pathlib.Path) -> dict[str, StoredTensor]:
    """Returns the tensors of model.safetensors or its shards by name, without reading them."""
    by_name: dict[str, StoredTensor] = {}
    for path in weight_files(folder, WHOLE, INDEX):
        by_name |= read_header(path)[0]
    return by_name


def read_header(path: pathlib.Path) -> tuple[dict[str, StoredTensor], dict[str, str]]:
    """Returns the tensors of one safetensors file by name, and its metadata.

    Raises:
      CheckpointError: if the file is missing, truncated or not a safetensors file, or has a tensor
        with an unsupported dtype.
    """
    check_no_pointer(path, CheckpointError)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            data = _LENGTH_BYTES + int.from_bytes(file.read(_LENGTH_BYTES), "little")
            text = file.read(data - _LENGTH_BYTES) if data <= size else b""
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}.") from None
    try:
        header = json.loads(text)
        metadata = header.pop("__metadata__", {})
    except (AttributeError, RecursionError, TypeError, ValueError):
        problem = "its header is no JSON object" if text else f"or cut short: {size} bytes"
        raise CheckpointError(
            f"{path}: not a safetensors file ({problem}); copy it again."
        ) from None
    tensors = {}
    for name, entry in header.items():
        problem, remedy = "has a broken entry in the header", "copy the file again"
        with contextlib.suppress(KeyError, TypeError, ValueError):
            begin, end = entry["data_offsets"]
            if isinstance(entry["dtype"], str) and entry["dtype"] not in _DTYPES:
                problem = f"has the dtype {format_value(entry['dtype'])}, which is not read"
                remedy = UNQUANTISED
            dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
            tensors[name] = tensor = _Bytes(path, name, dtype, shape, data + begin)
            are_counts = all(type(number) is int and number >= 0 for number in (*shape, begin))
            if are_counts and tensor.end == data + end:
                is_cut = tensor.end > size
                problem = f"ends at byte {tensor.end} of {size}: cut short" if is_cut else ""
        if problem:
            raise CheckpointError(f"{path}: the tensor {name} {problem}; {remedy}.")
    expected = data
    for tensor in sorted(tensors.values(), key=lambda stored: (stored.offset, stored.end)):
        if tensor.offset != expected:
            raise CheckpointError(
                f"{path}: the tensor {tensor.name} begins at byte {tensor.offset}, not behind the "
                f"one before it, at {expected}; copy the file again."
            )
        expected = tensor.end
    if expected != size:
        raise CheckpointError(
            f"{path}: has {size:,} bytes, but its tensors end at {expected:,}; copy the file again."
        )
    return {name: tensor.tensor() for name, tensor in tensors.items()}, metadata


def write_tensor_file(
    path: pathlib.Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Writes a safetensors file, always with the same bytes, and with a new file's permissions."""
    # The library ignores strides.
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    path.unlink(missing_ok=True)
    path.touch()
    mode = path.stat().st_mode  # the library would let only the owner read the file
    safetensors.numpy.save_file(contiguous, path, metadata=dict(metadata) or None)
    # The library writes the metadata in random order; sort them by name.
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        metadata = dict(sorted(header.pop("__metadata__", {}).items()))
        if metadata:
            header = {"__metadata__": metadata, **header}
            text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
            file.seek(8)
            file.write(text.ljust(length))
    path.chmod(mode)
