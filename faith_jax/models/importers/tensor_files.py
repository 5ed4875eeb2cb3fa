"""Files of tensors in the safetensors form: model.safetensors, or shards with an index.

The safetensors library writes new files. Reading goes through NumPy, because the library's NumPy
side does not know bfloat16, and because a file that is cut short must be reported with the tensor
it cuts. Files that were read can be written again with the same bytes, whatever wrote them.
"""

import dataclasses
import json
import math
import pathlib
import re
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import safetensors.numpy

from faith_jax.errors import CheckpointError

WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
FLOATS = {
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
# Tensors of the other dtypes are only met among those that no model uses, such as masks.
DTYPES = FLOATS | {
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
    "I64": np.dtype(np.int64),
    "I32": np.dtype(np.int32),
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


@dataclasses.dataclass(frozen=True)
class Layout:
    """How files are laid out, all that is in them but the tensors' values.

    Attributes:
      headers: the text of each file's header, by the file's name.
      index: the text of the index, None for one file without.
    """

    headers: Mapping[str, str]
    index: str | None

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the first header that has some."""
        found = (json.loads(text).get("__metadata__") for text in self.headers.values())
        return next(filter(None, found), {})

    def files(self) -> dict[str, list[StoredTensor]]:
        """Returns each file's tensors, in their order in the file."""
        parsed = {file: _parse_header(pathlib.Path(file), t) for file, t in self.headers.items()}
        return {
            file: sorted(tensors.values(), key=lambda t: (t.offset, t.end))
            for file, tensors in parsed.items()
        }

    def fits(self, tensors: Mapping[str, np.ndarray], max_shard_bytes: int | None) -> bool:
        """Whether tensors have the names, dtypes and shapes, and the files the size, asked for."""
        files = self.files()
        placed = [t for file in files.values() for t in file]
        wanted = {name: (array.dtype, array.shape) for name, array in tensors.items()}
        sizes = [sum(t.end - t.offset for t in file) for file in files.values()]
        return (
            all(pathlib.PurePath(file).name == file for file in files)
            and len(placed) == len(wanted)
            and {t.name: (t.dtype, t.shape) for t in placed} == wanted
            and (max_shard_bytes is None or max(sizes, default=0) <= max_shard_bytes)
        )


def check_dtypes(tensors: Iterable[StoredTensor]) -> None:
    """Checks that tensors have one floating-point dtype.

    Raises:
      CheckpointError: naming the first that has another.
    """
    names = {dtype: name for name, dtype in DTYPES.items()}
    first: StoredTensor | None = None
    for tensor in tensors:
        first = first or tensor
        if tensor.dtype not in FLOATS.values():
            raise CheckpointError(
                f"{tensor.path}: tensor {tensor.name}: expected a dtype of {sorted(FLOATS)}, got "
                f"{names[tensor.dtype]!r}."
            )
        if tensor.dtype != first.dtype:
            raise CheckpointError(
                f"{tensor.path}: the dtypes are mixed: tensor {tensor.name} is "
                f"{names[tensor.dtype]}, but {first.name} is {names[first.dtype]}; save the model "
                "in one dtype."
            )


def find_tensors(folder: pathlib.Path) -> tuple[dict[str, StoredTensor], Layout]:
    """Finds the tensors of a folder without reading their values.

    Args:
      folder: with model.safetensors, or model.safetensors.index.json and its shards.

    Returns:
      The tensors by name, and how the files are laid out.

    Raises:
      CheckpointError: on a missing, truncated or malformed file, naming the tensor it cuts.
    """
    if (folder / WHOLE).is_file():
        tensors, text = read_header(folder / WHOLE)
        return tensors, Layout({WHOLE: text}, None)
    index = folder / INDEX
    shards: dict[str, dict[str, StoredTensor]] = {}
    headers: dict[str, str] = {}
    for name, shard in _weight_map(index).items():
        if shard not in shards:
            if not (folder / shard).is_file():
                raise CheckpointError(
                    f"{folder / shard}: this shard is missing; {INDEX} says that it holds the "
                    f"tensor {name}."
                )
            shards[shard], headers[shard] = read_header(folder / shard)
        if name not in shards[shard]:
            raise CheckpointError(
                f"{folder / shard}: the tensor {name} is missing; {INDEX} says that it is here."
            )
    return _joined(shards, index), Layout(headers, index.read_bytes().decode("utf-8"))


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
    except RecursionError:
        raise CheckpointError(f"{path}: not JSON of a model (nested too deeply).") from None
    if not isinstance(fields, dict):
        raise CheckpointError(f"{path}: expected a JSON object, got {type(fields).__name__}.")
    return fields


def read_header(path: pathlib.Path) -> tuple[dict[str, StoredTensor], str]:
    """Reads the header of one safetensors file and checks it against the file's size.

    Returns:
      The tensors by name, and the header's text.

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
            text = file.read(length).decode("utf-8")
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: not a safetensors file (its header is no JSON).") from None
    tensors = _parse_header(path, text)
    _check_extent(path, tensors, size, _LENGTH_BYTES + length)
    return tensors, text


def _parse_header(path: pathlib.Path, text: str) -> dict[str, StoredTensor]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path}: not a safetensors file (its header is no JSON).") from None
    if not isinstance(header, dict):
        raise CheckpointError(f"{path}: not a safetensors file (its header is no object).")
    metadata = header.pop("__metadata__", None) or {}
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise CheckpointError(f"{path}: field '__metadata__': expected texts by name.")
    data = _LENGTH_BYTES + len(text.encode("utf-8"))
    return {name: _stored(path, name, fields, data) for name, fields in header.items()}


def _stored(path: pathlib.Path, name: str, fields: Any, data: int) -> StoredTensor:
    try:
        shape = tuple(int(n) for n in fields["shape"])
        begin, end = (int(n) for n in fields["data_offsets"])
        dtype = fields["dtype"]
    except (TypeError, KeyError, ValueError):
        raise CheckpointError(
            f"{path}: tensor {name}: its entry in the header is broken."
        ) from None
    if not isinstance(dtype, str) or dtype not in DTYPES:
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


def write_as_read(folder: pathlib.Path, tensors: Mapping[str, np.ndarray], layout: Layout) -> None:
    """Writes tensors that fit a layout, in files like those it was read from."""
    for file, placed in layout.files().items():
        header = layout.headers[file].encode("utf-8")
        with (folder / file).open("wb") as out:
            out.write(struct.pack("<Q", len(header)) + header)
            for tensor in placed:
                array = np.ascontiguousarray(tensors[tensor.name])
                out.write(array.reshape(-1).view(np.uint8).data)
    if layout.index is not None:
        (folder / INDEX).write_bytes(layout.index.encode("utf-8"))


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
        write_tensor_file(folder / WHOLE, shards[0], metadata)
        return
    placed: dict[str, str] = {}
    for i, shard in enumerate(shards, 1):
        file = f"model-{i:05d}-of-{len(shards):05d}.safetensors"
        write_tensor_file(folder / file, shard, metadata)
        placed |= dict.fromkeys(shard, file)
    total = sum(array.nbytes for array in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(placed.items()))}
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def _natural_order(name: str) -> list[tuple[int, str]]:
    """Sorts block 2 before block 10."""
    return [(int(p), "") if p.isdigit() else (0, p) for p in re.split(r"(\d+)", name)]


def write_tensor_file(
    path: pathlib.Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Writes one safetensors file, which whoever may read the folder's other files may read."""
    # The library takes the bytes where they lie, whatever the strides say.
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    path.unlink(missing_ok=True)
    path.touch()
    mode = path.stat().st_mode  # the library's own is for the owner alone
    safetensors.numpy.save_file(contiguous, path, metadata=dict(metadata) or None)
    path.chmod(mode)
