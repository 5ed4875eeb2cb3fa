"""Approximate search for vectors by inner product, with faiss, which is an optional extra.

A faiss factory string defines an index: `HNSW32` is a graph of all vectors, `IVF4096,PQ64` keeps
64 bytes of each vector in 4,096 lists of neighbours. The index is in a folder beside the vectors,
with a manifest that is checked before faiss reads the file.

Reference: Douze 2024, The Faiss library.
"""

import pathlib
import re
from types import ModuleType
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np

from faith_jax.checkpoints.identity import file_content
from faith_jax.core.errors import ConfigError, StorageError
from faith_jax.core.files import atomic_folder, write_json
from faith_jax.core.progress import Progress
from faith_jax.core.schema import read_json_as

INDEX = "faiss"  # the folder, beside the vectors
FILE, MANIFEST = "index.faiss", "manifest.json"
_CHUNK = 1 << 16  # vectors read at once
_TRAINING = 1 << 16  # minimum number of vectors that an index is trained on
_OF_LIST = 64  # training vectors for each list of neighbours
# The default search effort: one in 64 lists, or 256 nodes of a graph.
_LISTS, _NODES = 64, 256
_CANDIDATES = 4  # candidates for each requested row, ranked by exact products


class _IndexManifest(msgspec.Struct, kw_only=True):
    """The description of an index in its folder; written last.

    Attributes:
      factory: faiss's factory string of the index.
      seed: seed of the training sample.
      index: size and SHA-256 of the index file.
      vectors: size of the vectors' file, and a hash of blocks of it.
    """

    made_by: str = "faith_jax"
    factory: str
    seed: int
    index: tuple[int, str]
    vectors: tuple[int, str]


def new_index(factory: str, width: int) -> Any:
    """Returns an empty faiss index.

    Raises:
      ConfigError: if faiss is not installed, or does not support the factory for inner products.
    """
    try:
        return _import_faiss().index_factory(width, factory, _import_faiss().METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        raise ConfigError(
            f"--faiss: {factory!r} is no index of products of {width} numbers "
            f"({_extract_reason(error)}); try HNSW32 or IVF4096,PQ64."
        ) from None


def build(vectors: pathlib.Path, factory: str, seed: int = 0) -> None:
    """Builds an index of vectors in a folder beside their file, which appears when complete.

    Args:
      vectors: a NumPy file, float32 [rows, embed], which is read in chunks.
      factory: faiss's factory string of the index.
      seed: seed of the training sample.

    Raises:
      ConfigError: if an index exists, faiss is not installed, or the factory is wrong or needs more
        vectors.
      StorageError: if the disk is full.
    """
    rows = np.load(vectors, mmap_mode="r", allow_pickle=False)
    index = new_index(factory, rows.shape[1])
    with atomic_folder(vectors.parent / INDEX, "a faiss index", option="--faiss") as index_folder:
        index_folder.mkdir()
        try:
            if not index.is_trained:
                lists = _import_faiss().try_extract_index_ivf(index)
                size = max(_TRAINING, _OF_LIST * (lists.nlist if lists is not None else 0))
                if size >= len(rows):
                    sample = np.array(rows)
                else:
                    rng = np.random.default_rng(seed)
                    sample = rows[np.sort(rng.choice(len(rows), size, replace=False))]
                index.train(sample)
                del sample  # may take gigabytes for Wikipedia
            progress = Progress("vector", len(rows))
            for first in range(0, len(rows), _CHUNK):
                index.add(np.ascontiguousarray(rows[first : first + _CHUNK]))
                progress.update(index.ntotal)
            _import_faiss().write_index(index, str(index_folder / FILE))
        except RuntimeError as error:
            if "No space left" in str(error):
                raise StorageError(f"{index_folder}: {_extract_reason(error)}") from None
            raise ConfigError(
                f"--faiss: {factory!r} of {len(rows):,} vectors: {_extract_reason(error)}."
            ) from None
        manifest = _IndexManifest(
            factory=factory,
            seed=seed,
            index=file_content(index_folder / FILE, is_whole=True),
            vectors=file_content(vectors, is_whole=False),
        )
        write_json(index_folder / MANIFEST, msgspec.to_builtins(manifest))


class Approximate(NamedTuple):
    """An index for approximate search.

    Attributes:
      index: the faiss index.
      vectors: float32 [rows, embed], in a file.
    """

    index: Any
    vectors: np.ndarray

    @classmethod
    def open(cls, vectors: pathlib.Path, parameters: str = "") -> Self:
        """Opens the index beside a file of vectors.

        Args:
          vectors: see `build`.
          parameters: faiss's search parameters, such as "nprobe=64" or "efSearch=256"; by default,
            one in 64 lists or 256 nodes of a graph are searched.

        Raises:
          ConfigError: if there is no index, it is damaged or belongs to other vectors, or it does
            not support the parameters.
        """
        folder = vectors.parent / INDEX
        remedy = f"remove {folder}, and make it anew with `faith-jax embed --faiss=…`."
        if not (folder / MANIFEST).is_file():
            raise ConfigError(
                f"{vectors.parent}: no faiss index; make it with `faith-jax embed --faiss=…`, or "
                "search the vectors with --dense-search=exact."
            )
        manifest = read_json_as(folder / MANIFEST, _IndexManifest)
        if manifest.vectors != file_content(vectors, is_whole=False):
            raise ConfigError(f"{folder}: this is the index of other vectors; {remedy}")
        file = folder / FILE
        if not file.is_file() or manifest.index != file_content(file, is_whole=True):
            raise ConfigError(f"{file}: damaged, its hash is not that of {MANIFEST}; {remedy}")
        faiss = _import_faiss()
        try:
            index = faiss.read_index(str(file))
        except RuntimeError as error:
            raise ConfigError(
                f"{file}: faiss cannot read it ({_extract_reason(error)}); {remedy}"
            ) from None
        if (lists := faiss.try_extract_index_ivf(index)) is not None:
            lists.nprobe = -(-lists.nlist // _LISTS)
        if (graph := getattr(index, "hnsw", None)) is not None:
            graph.efSearch = _NODES
        try:
            if parameters:
                faiss.ParameterSpace().set_index_parameters(index, parameters)
        except RuntimeError:
            raise ConfigError(
                f"--dense-search: {manifest.factory!r} has no parameters {parameters!r}; expected "
                "exact, faiss, or NAME=NUMBER such as nprobe=64 (of IVF) or efSearch=256 (of HNSW)."
            ) from None
        return cls(index, np.load(vectors, mmap_mode="r", allow_pickle=False))

    def __call__(self, queries: np.ndarray, max_rows: int) -> list[np.ndarray]:
        """Returns the rows with high products with each query, best first.

        The index finds four candidates for each requested row, by products that may be approximate;
        the candidates are then ranked by exact products.

        Args:
          queries: float32 [queries, embed].
          max_rows: maximum number of rows per query; the index may find fewer.
        """
        _, candidates = self.index.search(np.ascontiguousarray(queries), _CANDIDATES * max_rows)
        ranked = []
        for query, numbers in zip(queries, candidates, strict=True):
            rows = np.sort(numbers[numbers >= 0])
            order = np.argsort(-(self.vectors[rows] @ query), kind="stable")
            ranked.append(rows[order[:max_rows]])
        return ranked


def _import_faiss() -> ModuleType:
    try:
        import faiss
    except ImportError:
        raise ConfigError(
            "faiss is not installed; install the extra: pip install 'faith_jax[faiss]', or "
            "'.[faiss]' in a clone."
        ) from None
    return faiss


def _extract_reason(error: RuntimeError) -> str:
    """Returns faiss's message without its place in the source code.

    >>> _extract_reason(RuntimeError("Error in f() at /a.cpp:12: Error: 'x' failed: too few"))
    'too few'
    """
    return re.sub(r"^Error in .* at \S+:\d+: (Error: '.*?' failed: )?", "", str(error))
