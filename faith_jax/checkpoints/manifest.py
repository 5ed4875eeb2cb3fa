"""Manifest of a checkpoint: digests of its tensors, to detect changed bits.

`manifest.json` is beside the parameters: in an imported or exported checkpoint, and in each step of
a training run. It has the SHA-256 of each tensor in chunks of at most 64 MiB, so that reading a
part of a large tensor verifies only that part, and of the tokenizer's and configuration files.
Folders without a manifest, such as published ones, are read without verification.
"""

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import itertools
import math
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from faith_jax.checkpoints.lazy_arrays import Box, LazyArray, lazy, within
from faith_jax.core.errors import CheckpointError
from faith_jax.core.files import write_text
from faith_jax.core.files.stores import open_binary
from faith_jax.core.schema import read_json_as

MANIFEST = "manifest.json"
# Files beside the weights that are copied with them: of all tokenizers, and of generation.
COMPANIONS = (
    "spiece.model",
    "sentencepiece.model",
    "sentencepiece.bpe.model",
    "spm.model",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "generation_config.json",
)
# Other files beside the weights, which have digests but are not copied.
_DESCRIPTIONS = (
    "config.json",
    "model.safetensors.index.json",
    "flax_model.msgpack.index.json",
)
CHUNK_BYTES = 64 * 2**20
_NO_VERIFY = "FAITH_JAX_NO_VERIFY"
# The bits of each dtype's largest finite number; larger ones are infinity or NaN.
_LARGEST = {"float32": 0x7F7FFFFF, "float16": 0x7BFF, "bfloat16": 0x7F7F}


class TensorDigests(msgspec.Struct):
    """The digests of one tensor.

    Attributes:
      dtype: NumPy's name of the dtype.
      shape: shape of the tensor.
      chunk: shape of a chunk; chunks at an end may be smaller.
      sha256: hexadecimal digest of each chunk's bytes in C order (little-endian), with the chunks
        in C order.
    """

    dtype: str
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    sha256: list[str]


class Manifest(msgspec.Struct):
    """manifest.json: digests of tensors and of files, by name.

    `content_hash` is of all parameters together (see `checkpoint.content_hash`); None if it was not
    known when they were written.
    """

    tensors: dict[str, TensorDigests]
    files: dict[str, str]
    content_hash: str | None = None
    format: Literal["faith_jax_manifest"] = "faith_jax_manifest"
    version: Literal[1] = 1


@contextlib.contextmanager
def without_verification() -> Iterator[None]:
    """Turns off verification in a `with` block: child processes ignore manifests too."""
    before = os.environ.get(_NO_VERIFY)
    os.environ[_NO_VERIFY] = "1"
    try:
        yield
    finally:
        os.environ.pop(_NO_VERIFY)
        if before is not None:
            os.environ[_NO_VERIFY] = before


def is_verifying() -> bool:
    """Whether checkpoints are verified when they are read."""
    return not os.environ.get(_NO_VERIFY)


def chunk_shape(shape: Sequence[int], itemsize: int, divides: bool = False) -> tuple[int, ...]:
    """Returns the chunk shape of a tensor, with as many of the last axes whole as fit.

    An element has `itemsize` bytes, and a chunk at most `CHUNK_BYTES`. With `divides`, chunks must
    divide the shape, which is then a shard's.
    """
    chunk, room = [], max(1, CHUNK_BYTES // itemsize)
    for size in reversed(shape):
        part = max(1, min(size, room))
        if divides:
            part = next(count for count in range(part, 0, -1) if size % count == 0)
        chunk.append(part)
        room //= part
    return tuple(reversed(chunk))


def boxes(shape: Sequence[int], chunk: Sequence[int]) -> list[Box]:
    """Returns the box of each chunk in a tensor."""
    axes = (
        [slice(start, min(start + part, size)) for start in range(0, size, part)]
        for size, part in zip(shape, chunk, strict=True)
    )
    return list(itertools.product(*axes))


def chunk_digest(chunk: np.ndarray) -> bytes:
    """Returns the SHA-256 of an array's bytes in C order."""
    flat = np.ascontiguousarray(chunk).reshape(-1)
    return hashlib.sha256(flat.view(np.uint8).data if flat.size else b"").digest()


def tensor_digests(tensors: Mapping[str, np.ndarray]) -> dict[str, TensorDigests]:
    """Returns the digests of tensors by name, computed on all processors."""

    def digest(array: np.ndarray) -> TensorDigests:
        chunk = chunk_shape(array.shape, array.dtype.itemsize)
        digests = _digest_chunks([array[box] for box in boxes(array.shape, chunk)])
        return TensorDigests(array.dtype.name, array.shape, chunk, [d.hex() for d in digests])

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(tensors, pool.map(digest, tensors.values()), strict=True))


def _digest_chunks(chunks: Sequence[np.ndarray]) -> Iterator[bytes]:
    """Yields the digests of chunks in their order, computed on all processors."""
    if len(chunks) == 1:
        yield chunk_digest(chunks[0])
        return
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(chunk_digest, chunks)


def write_manifest(
    folder: pathlib.Path, tensors: Mapping[str, TensorDigests], content_hash: str | None = None
) -> None:
    """Writes the manifest of a checkpoint's folder, with digests of the files beside the tensors.

    `content_hash` is of all parameters; None = unknown.
    """
    beside = [folder / name for name in sorted((*COMPANIONS, *_DESCRIPTIONS))]
    files = {path.name: file_digest(path) for path in beside if path.is_file()}
    encoded = msgspec.json.encode(Manifest(dict(tensors), files, content_hash))
    text = msgspec.json.format(encoded, indent=1).decode() + "\n"
    write_text(folder / MANIFEST, text)


def update_files(folder: pathlib.Path) -> None:
    """Rewrites the manifest, if there is one, after files were added to a folder."""
    if (folder / MANIFEST).is_file():
        former = read_json_as(folder / MANIFEST, Manifest, CheckpointError)
        write_manifest(folder, former.tensors, former.content_hash)


def file_digest(path: pathlib.Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal."""
    with open_binary(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(folder: pathlib.Path) -> Manifest | None:
    """Returns the manifest of a folder; None = it has none, or verification is off."""
    path = folder / MANIFEST
    is_read = is_verifying() and path.is_file()
    return read_json_as(path, Manifest, CheckpointError) if is_read else None


def check_files(folder: pathlib.Path) -> None:
    """Raises a CheckpointError if a file beside the tensors does not match the manifest."""
    manifest = read_manifest(folder)
    for name, digest in (manifest.files if manifest else {}).items():
        path = folder / name
        if not path.is_file():
            raise _mismatch_error(folder, f"the file {name} is missing")
        if file_digest(path) != digest:
            raise _mismatch_error(folder, f"the file {name} differs from the one that was written")


def check_tensors(
    folder: pathlib.Path, manifest: Manifest | None, tensors: Mapping[str, np.ndarray]
) -> None:
    """Verifies tensors that were read, keyed by name in the manifest; see `verify_when_read`."""

    def check(name: str) -> None:
        np.asarray(verify_when_read(folder, manifest, name, lazy(tensors[name])))

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(check, tensors))


def verify_when_read(
    folder: pathlib.Path, manifest: Manifest | None, name: str, array: LazyArray
) -> LazyArray:
    """Returns a lazy tensor that verifies each chunk when a part of it is first read.

    `folder` is the manifest's, for errors; without a manifest, nothing is verified.

    Raises:
      CheckpointError: if the manifest lacks the tensor or has it in another form; on reading: if a
        chunk differs from what was written.
    """
    if manifest is None:
        return array
    digests = digests_of(folder, manifest, name, array.shape, array.dtype)
    chunks = boxes(array.shape, digests.chunk)
    done: set[int] = set()

    def read(box: Box) -> np.ndarray:
        touched = [
            place
            for place, chunk in enumerate(chunks)
            if all(c.start < b.stop and b.start < c.stop for c, b in zip(chunk, box, strict=True))
        ]
        new = [place for place in touched if place not in done]
        if not new:
            return array.read(box)
        corners = zip(chunks[touched[0]], chunks[touched[-1]], strict=True)
        cover = tuple(slice(first.start, last.stop) for first, last in corners)
        covering = array.read(cover)
        computed = _digest_chunks([covering[within(cover, chunks[place])] for place in new])
        for place, digest in zip(new, computed, strict=True):
            if digest.hex() != digests.sha256[place]:
                raise chunk_differs(folder, name, place, len(chunks))
        done.update(new)
        part = covering[within(cover, box)]
        return part if part.size == covering.size else part.copy()  # a copy frees the rest

    return dataclasses.replace(array, read=read)


def digests_of(
    folder: pathlib.Path, manifest: Manifest, name: str, shape: Sequence[int], dtype: Any
) -> TensorDigests:
    """Returns a tensor's digests; raises a CheckpointError if the manifest has another form."""
    digests = manifest.tensors.get(name)
    if digests is None:
        raise _mismatch_error(folder, f"the tensor {name} is not in {MANIFEST}")
    form = (digests.dtype, digests.shape)
    count = math.prod(
        math.ceil(size / max(1, part))
        for size, part in zip(digests.shape, digests.chunk, strict=False)
    )
    is_whole = len(digests.chunk) == len(digests.shape) and len(digests.sha256) == count
    if (
        form != (np.dtype(dtype).name, tuple(shape))
        or not is_whole
        or min(digests.chunk, default=1) < 1
    ):
        raise _mismatch_error(folder, f"the tensor {name} has another form than {MANIFEST} says")
    return digests


def chunk_differs(folder: pathlib.Path, name: str, place: int, count: int) -> CheckpointError:
    """Returns the error for a chunk whose digest differs from the manifest's."""
    return _mismatch_error(
        folder, f"the tensor {name} differs from what was written (chunk {place + 1} of {count})"
    )


def _mismatch_error(folder: pathlib.Path, problem: str) -> CheckpointError:
    return CheckpointError(
        f"{folder}: {problem}. Copy the checkpoint again; if you have changed it, remove "
        f"{MANIFEST}; --no-verify opens it as it is."
    )


def check_finite(name: str, array: np.ndarray, where: Any) -> None:
    """Checks that no weight is NaN or infinite; arrays of other types than floats always pass.

    Raises:
      CheckpointError: if some are; the message names the parameter and their number.
    """
    largest = _LARGEST.get(array.dtype.name)
    if largest is None or not array.size:
        is_finite = not np.issubdtype(array.dtype, np.floating) or bool(np.isfinite(array).all())
    else:
        # Compare bits, which is faster than np.isfinite for most dtypes.
        itemsize = array.dtype.itemsize
        sign = 1 << (8 * itemsize - 1)
        signed, unsigned = array.view(f"i{itemsize}"), array.view(f"u{itemsize}")
        is_finite = int(signed.max()) <= largest and int(unsigned.max()) <= sign | largest
    if not is_finite:
        broken = int((~np.isfinite(array)).sum())
        raise CheckpointError(
            f"{where}: the parameter {name}: expected finite numbers, but {broken:,} of "
            f"{array.size:,} are NaN or infinite. Give another checkpoint."
        )


def finite(name: str, array: LazyArray, where: Any) -> LazyArray:
    """Returns a lazy parameter that checks each part when it is read; see `check_finite`."""

    def read(box: Box) -> np.ndarray:
        part = array.read(box)
        check_finite(name, part, where)
        return part

    return dataclasses.replace(array, read=read)
