"""Dense retrieval: passages and queries as vectors, and search by their inner products.

An encoder turns a text into one vector, the last state of its first token; the relevance of a
passage for a query is the product of their vectors. Passages are blocks of 100 words of an article,
preceded by its title. The vectors are in a file that is mapped into memory and read in chunks; the
rows of each chunk are split over the devices.

Reference: Karpukhin 2020 (DPR); Gupta 2022, section 5.2.
"""

import functools
import itertools
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from jax.sharding import PartitionSpec as P
from jaxtyping import Float, Integer

from faith_jax.core.errors import ConfigError, pluralize
from faith_jax.core.files import (
    is_moved,
    move_output,
    read_json_or_none,
    resumable_output,
    write_json,
)
from faith_jax.core.progress import Progress
from faith_jax.core.schema import read_json_as
from faith_jax.core.templates import dense_query
from faith_jax.core.types import Array, PyTree
from faith_jax.inference.batching import Batcher, pad_rows, padded_length
from faith_jax.inference.encoder import EncoderModel
from faith_jax.inference.opening import check_ids, input_limit, open_model, open_tokenizer
from faith_jax.models.partitioning import Mesh, Partitioner, batch_axes
from faith_jax.models.transformer import Transformer
from faith_jax.retrieval import approximate
from faith_jax.retrieval.articles import Article
from faith_jax.retrieval.documents import Query
from faith_jax.retrieval.knowledge_base import KnowledgeBase
from faith_jax.tokenizers.base import Tokenizer

WORDS = 100  # in a passage
PASSAGES = 100  # minimum number of best passages considered for a query
LONGEST = 256  # maximum number of tokens of a passage or a query
VECTORS, ARTICLES, MANIFEST = "vectors.npy", "articles.npy", "manifest.json"
_CHUNK = 1 << 16  # passages per device that are multiplied at once
_BATCH = 4096  # passages between two saves


class Passage(NamedTuple):
    """A part of an article."""

    title: str
    text: str


def passages(article: Article) -> list[Passage]:
    """Returns an article's blocks of words; the last one may be shorter."""
    words = " ".join(article.paragraphs).split()
    starts = range(0, len(words), WORDS)
    return [Passage(article.title, " ".join(words[i : i + WORDS])) for i in starts]


@functools.partial(jax.jit, static_argnums=0, static_argnames="method")
def _encode_tokens(module: Transformer, params: PyTree, tokens: Array, method: str) -> Any:
    return module.apply({"params": params}, tokens, False, method=method)


class TextVectors:
    """Turns texts into vectors.

    Args:
      max_length: maximum number of tokens of a text; see `text_row`.
      queries: the texts are queries, for which a model's question encoder is used, if it has one.
    """

    def __init__(
        self,
        model: EncoderModel,
        tokenizer: Tokenizer,
        max_length: int,
        queries: bool,
    ):
        self._method = "question_vectors" if queries else "text_vectors"
        self.model, self._tokenizer, self._max_length = model, tokenizer, max_length
        devices = model.partitioner.data_parallelism
        self._batcher = Batcher("vector", on_cpu=2048, multiple_of=devices)

    @classmethod
    def open(
        cls, folder: str, vocabulary: str | None = None, queries: bool = False
    ) -> "TextVectors":
        """Opens a checkpoint, such as one of DPR's encoders.

        Raises:
          ConfigError: if it is not an encoder or has no tokenizer.
        """
        model = open_model(folder)
        if not (isinstance(model, EncoderModel) and model.config.is_encoder_only):
            raise ConfigError(f"model {folder}: expected an encoder, such as DPR's or a BERT.")
        tokenizer = open_tokenizer(folder, vocabulary, model.config)
        return cls(model, tokenizer, input_limit(model.config, None, LONGEST), queries)

    def __call__(self, texts: Sequence[str | Passage]) -> np.ndarray:
        """Returns vectors, float32 [texts, embed]; a passage is the second text after its title."""
        config = self.model.config
        rows = [
            check_ids(text_row(self._tokenizer, text, self._max_length), config.vocab_size)
            for text in texts
        ]
        text_vectors = np.zeros((len(rows), config.emb_dim), np.float32)
        bound = functools.partial(
            _encode_tokens, self.model.module, self.model.params, method=self._method
        )
        for batch in self._batcher.batches([(padded_length(len(row)),) for row in rows]):
            batch_rows = [rows[n] for n in batch.rows]
            tokens = pad_rows(batch_rows, batch.shape[0], self.model.pad_id, batch.size)
            tokens[len(batch_rows) :, 0] = batch_rows[0][0]  # so that rows of padding have a token
            vectors = self.model.partitioner.compute(bound, tokens)
            text_vectors[batch.rows] = vectors[: len(batch_rows)]
        return text_vectors


def text_row(tokenizer: Tokenizer, text: str | Passage, max_length: int) -> list[int]:
    """Returns tokens of a passage, cut at its end, or of a query, cut at its beginning.

    At most half of a passage's tokens belong to the title.
    """
    if not isinstance(text, Passage):
        room = max_length - len(tokenizer.add_special_tokens([]))
        return tokenizer.add_special_tokens(tokenizer.encode(text)[-room:])
    around = sum(map(len, tokenizer.pair_ids))
    title = tokenizer.encode(text.title)[: (max_length - around) // 2]
    room = max_length - around - len(title)
    return tokenizer.add_special_tokens(title, tokenizer.encode(text.text)[:room])


class _VectorsManifest(msgspec.Struct, kw_only=True):
    """The description of a folder of vectors; written last.

    Attributes:
      model: the model that made the vectors; by default, it also encodes queries.
      passages: number of passages.
      width: width of a vector.
      knowledge_base: manifest of the knowledge base, to which the article numbers refer.
    """

    made_by: str = "faith_jax"
    model: str
    passages: int
    width: int
    knowledge_base: dict[str, Any]


class Vectors(NamedTuple):
    """The vectors of a knowledge base's passages.

    Attributes:
      values: float32 [passages, width], in a file.
      articles: the article number of each passage, int32 [passages].
      model: the model that made the vectors.
    """

    values: np.ndarray
    articles: np.ndarray
    model: str

    @classmethod
    def open(cls, folder: str | pathlib.Path, base: KnowledgeBase) -> "Vectors":
        """Opens the vectors in a folder.

        Raises:
          ConfigError: if they do not exist, belong to another knowledge base, or are damaged.
        """
        path = pathlib.Path(folder).expanduser()
        if not (path / MANIFEST).is_file():
            raise ConfigError(
                f"{path}: no vectors (no {MANIFEST}); make them with `faith-jax embed`."
            )
        manifest = read_json_as(path / MANIFEST, _VectorsManifest)
        if manifest.knowledge_base != msgspec.to_builtins(base.manifest):
            raise ConfigError(
                f"{path}: these are the vectors of another knowledge base than {base.folder}; make "
                "them anew with `faith-jax embed`."
            )
        try:
            values = np.load(path / VECTORS, mmap_mode="r", allow_pickle=False)
            articles = np.load(path / ARTICLES, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise ConfigError(f"{path}: damaged ({error}); copy the folder again.") from None
        if (values.shape, articles.shape) != (
            (manifest.passages, manifest.width),
            (manifest.passages,),
        ):
            raise ConfigError(
                f"{path}: expected {pluralize(manifest.passages, 'vector')} of {manifest.width}, "
                f"got {values.shape}; copy the folder again."
            )
        return cls(values, articles, manifest.model)


def embed(
    base: KnowledgeBase,
    model: str,
    folder: str | pathlib.Path,
    vocabulary: str | None = None,
    restart: bool = False,
    factory: str = "",
) -> Vectors:
    """Writes the vectors of all passages of a knowledge base; a stopped run resumes.

    Args:
      base: the knowledge base.
      model: an encoder.
      folder: output folder. With `factory`, it may exist; then only the index is made.
      vocabulary: the encoder's vocabulary, if the checkpoint has none.
      restart: discard the results of a stopped run.
      factory: factory of an index for approximate search; see `approximate.build`; "" = no index.

    Raises:
      ConfigError: if the folder exists, the model is not an encoder, or the factory is wrong.
    """
    target = pathlib.Path(folder).expanduser()
    encode = TextVectors.open(model, vocabulary)
    if factory:  # report a wrong factory before the texts are read
        approximate.new_index(factory, encode.model.config.emb_dim)
    if factory and (target / MANIFEST).is_file():
        vectors = Vectors.open(target, base)
        if vectors.model != model:
            raise ConfigError(f"--model: the vectors in {target} were made by {vectors.model}.")
    else:
        knowledge_base = msgspec.to_builtins(base.manifest)
        run = {"vectors": knowledge_base, "model": model, "vocabulary": vocabulary}
        with resumable_output(target, run, restart, option="FOLDER") as partial:
            if not is_moved(target):
                move_output(_write_vectors(base, model, encode, partial), target)
        vectors = Vectors.open(target, base)
    if factory:
        approximate.build(target / VECTORS, factory)
    return vectors


def _write_vectors(
    base: KnowledgeBase, model: str, encode: TextVectors, partial: pathlib.Path
) -> pathlib.Path:
    """Writes all vectors that a stopped run has not written yet; returns their folder."""
    numbers = range(1, len(base) + 1)
    counts = [len(passages(base.article(number))) for number in numbers]
    articles = np.repeat(np.fromiter(numbers, np.int32, len(counts)), counts)
    shape = (len(articles), encode.model.config.emb_dim)
    new_folder = partial / "made"
    new_folder.mkdir(exist_ok=True)
    state, file = partial / "place.json", new_folder / VECTORS
    place = (read_json_or_none(state) or {}) if file.is_file() else {}
    mode: Any = "r+" if place else "w+"
    values = np.lib.format.open_memmap(file, mode, dtype=np.float32, shape=shape)
    done, first = place.get("passages", 0), place.get("articles", 0)
    progress = Progress("passage", shape[0], done)
    for last, batch in _batch_passages(base, numbers[first:]):
        values[done : done + len(batch)] = encode(batch)
        values.flush()
        done += len(batch)
        write_json(state, {"passages": done, "articles": last})
        progress.update(done)
    del values
    np.save(new_folder / ARTICLES, articles, allow_pickle=False)
    manifest = _VectorsManifest(
        model=model,
        passages=shape[0],
        width=shape[1],
        knowledge_base=msgspec.to_builtins(base.manifest),
    )
    write_json(new_folder / MANIFEST, msgspec.to_builtins(manifest))
    return new_folder


def _batch_passages(
    base: KnowledgeBase, numbers: Sequence[int]
) -> Iterator[tuple[int, list[Passage]]]:
    """Yields batches of passages of whole articles, with the number of the last article."""
    batch: list[Passage] = []
    for number in numbers:
        batch += passages(base.article(number))
        if len(batch) >= _BATCH or number == numbers[-1]:
            yield number, batch
            batch = []


@functools.partial(jax.jit, static_argnames=("mesh", "axes", "num_best"))
def _merge_chunk(
    best: tuple[Array, Array],
    queries: Float[Array, "queries embed"],
    chunk: Float[Array, "rows embed"],
    count: Integer[Array, ""],
    first: Integer[Array, ""],
    mesh: Mesh,
    axes: tuple[str, ...],
    num_best: int,
) -> tuple[Float[Array, "queries num_best"], Integer[Array, "queries num_best"]]:
    """Returns the best scores and rows so far, including those of a chunk of `count` rows.

    Each device finds the best of its own rows, so devices only exchange these few.
    """

    def device_best(chunk: Array, places: Array, queries: Array) -> tuple[Array, Array]:
        scores = jnp.matmul(queries, chunk.T, precision=jax.lax.Precision.HIGHEST)
        scores = jnp.where(places[None] < count, scores, -jnp.inf)
        chunk_scores, columns = jax.lax.top_k(scores, min(num_best, len(chunk)))
        return chunk_scores, places[columns]

    split, split_columns = P(axes), P(None, axes)
    chunk_scores, places = jax.shard_map(
        device_best,
        mesh=mesh,
        in_specs=(split, split, P()),
        out_specs=(split_columns, split_columns),
        check_vma=False,
    )(chunk, jnp.arange(len(chunk), dtype=jnp.int32), queries)
    # Earlier rows come first, because `top_k` takes the first of equal scores.
    pairs = zip(best, (chunk_scores, first + places), strict=True)
    joined, numbers = (jnp.concatenate(pair, axis=1) for pair in pairs)
    scores, columns = jax.lax.top_k(joined, num_best)
    return scores, jnp.take_along_axis(numbers, columns, axis=1)


def top_k(
    partitioner: Partitioner,
    vectors: np.ndarray,
    queries: np.ndarray,
    max_rows: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows with the highest products with each query, by exact search, best first.

    Args:
      partitioner: splits the rows of a chunk over its devices.
      vectors: float32 [rows, embed], in memory or in a file.
      queries: float32 [queries, embed].
      max_rows: maximum number of rows per query.

    Returns:
      Products float32 and rows int32 [queries, max_rows]; among equal products, the first row comes
      first.
    """
    num_best = min(max_rows, len(vectors))
    devices = partitioner.data_parallelism
    size = devices * min(_CHUNK, -(-len(vectors) // devices))
    shape = (len(queries), num_best)
    best: Any = (np.full(shape, -np.inf, np.float32), np.full(shape, -1, np.int32))
    with partitioner.active():
        for first in range(0, len(vectors), size):
            rows = np.asarray(vectors[first : first + size], np.float32)
            count = len(rows)
            if count < size:
                rows = np.pad(rows, ((0, size - count), (0, 0)))
            best = _merge_chunk(
                best,
                queries,
                partitioner.put_batch(rows),
                np.int32(count),
                np.int32(first),
                mesh=partitioner.mesh,
                axes=batch_axes(partitioner.mesh),
                num_best=num_best,
            )
        scores, numbers = partitioner.gather(best)
    return scores, numbers


class Dense:
    """Finds articles by the vectors of their passages.

    Args:
      vectors: the vectors of the passages.
      index: index of the vectors for approximate search; None = exact search.
    """

    def __init__(
        self,
        vectors: Vectors,
        encode: TextVectors,
        index: approximate.Approximate | None = None,
    ):
        width = encode.model.config.emb_dim
        if vectors.values.shape[1] != width:
            raise ConfigError(
                f"the vectors of the passages have {vectors.values.shape[1]} numbers, those of "
                f"queries {width}: the models do not belong together."
            )
        self._vectors, self._encode, self._index = vectors, encode, index

    def __call__(self, queries: Sequence[Query], max_articles: int) -> list[list[int]]:
        """Returns up to `max_articles` article numbers for each query, best first.

        They are the articles of the best 100 passages, or `max_articles` passages if that is more.
        """
        query_vectors = self._encode([dense_query(query.context, query.claim) for query in queries])
        passage_count = max(PASSAGES, max_articles)
        best: Iterable[np.ndarray]
        if self._index is not None:
            best = self._index(query_vectors, passage_count)
        else:
            partitioner = self._encode.model.partitioner
            best = top_k(partitioner, self._vectors.values, query_vectors, passage_count)[1]
        ranked = (dict.fromkeys(self._vectors.articles[rows].tolist()) for rows in best)
        return [list(itertools.islice(articles, max_articles)) for articles in ranked]
