"""T5X's own checkpoints: a msgpack file `checkpoint`, and a zarr array for each parameter.

The msgpack file holds the state's tree. A large parameter is a TensorStore description there and
lies in a folder `target.<name with dots>` beside it; a small one may be an array in the file.
"""

import dataclasses
import json
import math
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import flax.serialization
import ml_dtypes
import numpy as np
import tensorstore

from faith_jax.errors import CheckpointError, ConfigError
from faith_jax.models.config import TransformerConfig
from faith_jax.models.importers.checkpoint import (
    Checkpoint,
    check_params,
    stack_layers,
    unflatten,
    unstack_layers,
)

FILE = "checkpoint"
_STEP = re.compile(r"checkpoint_(\d+)")
# As zarr and the msgpack file name them. A T5X of before June 2021 wrote bfloat16 as uint16;
# today's T5X reads these no more, and neither do we.
_DTYPES = {
    "<f4": np.float32,
    "<f2": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}


@dataclasses.dataclass(frozen=True)
class _StoredArray:
    """A parameter in zarr files, not yet read.

    Attributes:
      name: the parameter's, with slashes.
      place: its folder.
      shape: its dimensions.
    """

    name: str
    place: pathlib.Path
    shape: tuple[int, ...]

    def read(self) -> np.ndarray:
        """Reads the parameter into memory."""
        store = {"driver": "zarr", "kvstore": {"driver": "file", "path": f"{self.place}/"}}
        try:
            opened = tensorstore.open(store, read=True, open=True).result()
            return np.asarray(opened.read().result())
        except (OSError, ValueError) as error:
            raise _unreadable(self.name, self.place, error) from None


def is_t5x(path: str | pathlib.Path) -> bool:
    """Whether a folder is a T5X checkpoint, or holds some."""
    return _newest(pathlib.Path(path)) is not None


def read_t5x(path: str | pathlib.Path, config: TransformerConfig | None = None) -> Checkpoint:
    """Reads the parameters of a checkpoint that T5X wrote.

    Args:
      path: a folder checkpoint_<step>, the file `checkpoint` in it, or the folder that holds them
        (then the newest whole one; T5X names those it is still writing otherwise).
      config: the model's dimensions; default: read from the parameters' shapes.

    Raises:
      CheckpointError: on a truncated file, and a parameter that is missing or mis-shaped, named.
    """
    folder = _newest(pathlib.Path(path))
    if folder is None:
        raise CheckpointError(f"{path}: there is no T5X checkpoint here.")
    found = _find_params(folder)
    shapes = {name: tuple(value.shape) for name, value in found.items()}
    scanned = any("/layers/" in name for name in shapes)
    if config is None:
        config = infer_config(shapes, folder)
    stored = config.replace(scan_layers=scanned)
    # Before anything large is read.
    placeholder = {name: np.broadcast_to(np.float32(0), shape) for name, shape in shapes.items()}
    check_params(stored, unflatten(placeholder), str(folder))
    params = unflatten(
        {n: v.read() if isinstance(v, _StoredArray) else v for n, v in found.items()}
    )
    if config.scan_layers != scanned:
        params = unstack_layers(params) if scanned else stack_layers(params)
    return Checkpoint(config, params, {"source": str(folder.absolute()), "format": "t5x"})


def infer_config(shapes: Mapping[str, tuple[int, ...]], where: Any) -> TransformerConfig:
    """Reads a model's dimensions from the shapes of its parameters.

    What shapes do not tell has T5's values: a gated layer's activation is GELU, and the largest
    distance of the position bias is 128.

    Args:
      shapes: parameter names with shapes.
      where: what to name in errors.

    Raises:
      CheckpointError: where a parameter that tells a dimension is missing or cannot be, named.
    """

    def shape(name: str, rank: int) -> tuple[int, ...]:
        if name not in shapes:
            raise CheckpointError(
                f"{where}: the parameter {name} is missing; is this a checkpoint of another model?"
            )
        if len(shapes[name]) != rank or 0 in shapes[name]:
            raise CheckpointError(
                f"{where}: the parameter {name} has the shape {shapes[name]}; expected {rank} "
                "dimensions."
            )
        return shapes[name]

    scanned = any("/layers/" in name for name in shapes)
    first, rank = ("layers", 3) if scanned else ("layers_0", 2)

    def count(stack: str) -> int:
        if scanned:
            return shape(f"{stack}/layers/mlp/wo/kernel", 3)[0]
        layers = {n.split("/")[1] for n in shapes if n.startswith(f"{stack}/layers_")}
        return max(len(layers), 1)

    def prompt(name: str) -> int:
        embedding = f"{name}/embedding"
        return shape(embedding, 2)[0] if embedding in shapes else 0

    vocab_size, emb_dim = shape("token_embedder/embedding", 2)
    heads, buckets = shape("encoder/relpos_bias/rel_embedding", 2)
    gated = f"encoder/{first}/mlp/wi_0/kernel" in shapes
    try:
        return TransformerConfig(
            vocab_size=vocab_size,
            emb_dim=emb_dim,
            num_heads=heads,
            head_dim=shape(f"encoder/{first}/attention/query/kernel", rank)[-1] // heads,
            mlp_dim=shape(f"encoder/{first}/mlp/wo/kernel", rank)[-2],
            num_encoder_layers=count("encoder"),
            num_decoder_layers=count("decoder"),
            mlp_activations=("gelu", "linear") if gated else ("relu",),
            logits_via_embedding="decoder/logits_dense/kernel" not in shapes,
            relative_attention_num_buckets=buckets,
            scan_layers=scanned,
            encoder_prompt_length=prompt("encoder_prompt"),
            decoder_prompt_length=prompt("decoder_prompt"),
        )
    except ConfigError as error:
        raise CheckpointError(
            f"{where}: the parameters' shapes make no model ({error}); give a config."
        ) from None


def _newest(path: pathlib.Path) -> pathlib.Path | None:
    if path.name == FILE and path.is_file():
        return path.parent
    if (path / FILE).is_file():
        return path
    if not path.is_dir():
        return None
    steps = {
        int(match.group(1)): folder
        for folder in path.iterdir()
        if (match := _STEP.fullmatch(folder.name)) and (folder / FILE).is_file()
    }
    return steps[max(steps)] if steps else None


def _find_params(folder: pathlib.Path) -> dict[str, np.ndarray | _StoredArray]:
    """Returns each parameter by name; those in files are not read yet."""
    found: dict[str, np.ndarray | _StoredArray] = {}
    for name, value in _leaves(_read_tree(folder / FILE)):
        if isinstance(value, np.ndarray):
            if value.dtype not in [np.dtype(d) for d in _DTYPES.values()]:
                raise _wrong_dtype(name, folder / FILE, value.dtype.name)
            found[name] = value
        elif isinstance(value, dict):
            found[name] = _find_array(folder, name, value)
        else:
            raise CheckpointError(
                f"{folder / FILE}: the parameter {name} is no array but "
                f"{type(value).__name__}; only what T5X's own checkpointer wrote is read."
            )
    return found


def _read_tree(path: pathlib.Path) -> dict[str, Any]:
    try:
        state = flax.serialization.msgpack_restore(path.read_bytes())
    except Exception as error:  # msgpack raises many kinds for a truncated file
        raise CheckpointError(
            f"{path}: not a whole T5X checkpoint ({type(error).__name__}: "
            f"{' '.join(str(error).split())[:150]}); copy it again."
        ) from None
    # The first version had no level `optimizer`.
    state = state.get("optimizer", state) if isinstance(state, dict) else None
    target = state.get("target") if isinstance(state, dict) else None
    if not isinstance(target, dict) or not target:
        raise CheckpointError(f"{path}: expected a tree of parameters under optimizer/target.")
    return target


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Returns parameters by name; a TensorStore description is a leaf, not a subtree."""
    found: list[tuple[str, Any]] = []
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and not isinstance(value.get("driver"), str):
            found += _leaves(value, f"{name}/")
        else:
            found.append((name, value))
    return found


def _find_array(folder: pathlib.Path, name: str, described: Mapping[str, Any]) -> _StoredArray:
    if described["driver"] == "cast":
        described = described.get("base") or {}
    place = folder / f"target.{name.replace('/', '.')}"
    driver = described.get("driver")
    if driver != "zarr":
        raise CheckpointError(
            f"{folder}: the parameter {name} is stored as {driver!r}, not as zarr."
        )
    if not (place / ".zarray").is_file():
        raise CheckpointError(
            f"{place}: the parameter {name} is missing (it has no .zarray); copy the checkpoint "
            "again."
        )
    try:
        metadata = json.loads((place / ".zarray").read_text(encoding="utf-8"))
        shape = tuple(int(n) for n in metadata["shape"])
        counts = [math.ceil(n / c) for n, c in zip(shape, metadata["chunks"], strict=True)]
        chunks = _chunk_names(counts, str(metadata.get("dimension_separator", ".")))
        dtype = metadata["dtype"]
        gzip = (metadata.get("compressor") or {}).get("id") == "gzip"
        said = tuple((described.get("metadata") or {}).get("shape", shape))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise _unreadable(name, place, error) from None
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise _wrong_dtype(name, place, dtype)
    if said != shape:
        raise CheckpointError(
            f"{place}: the parameter {name} has the shape {shape}, but {FILE} says {said}."
        )
    size = math.prod(metadata["chunks"]) * np.dtype(_DTYPES[dtype]).itemsize
    _check_chunks(name, place, chunks, size if gzip else None)
    return _StoredArray(name, place, shape)


def _check_chunks(
    name: str, place: pathlib.Path, chunks: Iterable[str], gzip_size: int | None
) -> None:
    """Checks what TensorStore does not: it fills in a missing chunk, and takes some cut ones."""
    for chunk in chunks:
        if not (place / chunk).is_file():
            raise CheckpointError(
                f"{place}: the parameter {name} lacks its chunk {chunk}; copy the checkpoint again."
            )
        if gzip_size is not None and not _ends_as_gzip(place / chunk, gzip_size):
            raise CheckpointError(
                f"{place}: the parameter {name}: its chunk {chunk} is cut short; copy the "
                "checkpoint again."
            )


def _chunk_names(counts: Sequence[int], separator: str) -> Iterator[str]:
    """Names chunks one by one, because a damaged description may speak of very many.

    Args:
      counts: chunks along each dimension.
      separator: between the numbers of a name.
    """
    for position in range(math.prod(counts)):
        index = []
        for count in reversed(counts):
            position, i = divmod(position, count)
            index.append(str(i))
        yield separator.join(reversed(index)) or "0"


def _ends_as_gzip(path: pathlib.Path, size: int) -> bool:
    """Whether a gzip file ends with the size of its content, as a whole one does.

    TensorStore takes a file that lacks its last bytes, the checksum among them.
    """
    with path.open("rb") as file:
        length = file.seek(0, 2)
        file.seek(max(0, length - 4))
        return int.from_bytes(file.read(), "little") == size % 2**32


def _wrong_dtype(name: str, place: pathlib.Path, dtype: Any) -> CheckpointError:
    return CheckpointError(
        f"{place}: the parameter {name} has the dtype {dtype!r}; expected float32, bfloat16 or "
        "float16."
    )


def _unreadable(name: str, place: pathlib.Path, error: Exception) -> CheckpointError:
    reason = " ".join(str(error).split())[:200]
    return CheckpointError(
        f"{place}: the parameter {name} cannot be read ({reason}); copy the checkpoint again."
    )
