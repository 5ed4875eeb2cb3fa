"""Measures knowledge bases: the time to build one, its size, and the time of a query.

The articles are generated with lengths like Wikipedia's: at most five paragraphs, on average four,
with 250 words. Word frequencies follow Zipf's law; each article also has words of its own topic. A
query has 60% of the words of a sentence of its article and three words of another article; half of
the queries also name the article. `hit` is the share of queries whose article is among the top ten.

Times are for one core: processor time, so that other work on the machine does not count, and
wall-clock time.

With --vectors it measures dense retrieval instead: indexes of faiss against exact search. The
vectors lie in clusters of a hundred in a space of 32 dimensions; queries are drawn from the same
distribution. `recall@100` is the share of the top 100 by dot product that an index finds. Indexes
and exact search take turns.
"""

import argparse
import json
import pathlib
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tabulate

from faith_jax.datasets.augmentation.tagging import load_tagger
from faith_jax.models.config import TransformerConfig
from faith_jax.models.partitioning import make_partitioner
from faith_jax.retrieval import (
    approximate,
    dense,
)
from faith_jax.retrieval import sentence_ranking as evidence
from faith_jax.retrieval.documents import Bm25, Entities, Query
from faith_jax.retrieval.index import build
from faith_jax.retrieval.knowledge_base import KnowledgeBase

WORDS = 200_000  # in the generated language
_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
_FUNCTION_WORDS = "the of and in to a is was for as on with by he at from that it his an".split()  # noqa: SIM905
_TOPIC_SHARE = 0.12  # share of topic words in an article
_LATENT, _SPREAD, _NOISE = 32, 0.5, 0.1  # dimensions; deviations within a cluster and of noise
_CHUNK = 1 << 16  # vectors drawn at a time
_CLUSTER = 100  # vectors in a cluster
_TOGETHER, _ROUNDS = 32, 5  # queries in a batch, as in `faith-jax evidence`; rounds

_Search = Callable[[np.ndarray, int], Sequence[np.ndarray] | np.ndarray]


def language(size: int = WORDS) -> np.ndarray:
    """Returns the words of the generated language, the most frequent first."""

    def word(number: int) -> str:
        text, number = "", number + 1
        while number:
            number, rest = divmod(number, len(_SYLLABLES))
            text += _SYLLABLES[rest]
        return text

    return np.array([*_FUNCTION_WORDS, *map(word, range(size - len(_FUNCTION_WORDS)))])


def articles(count: int, seed: int = 0) -> Iterator[dict[str, str]]:
    """Yields rows of title and text."""
    draws, words = np.random.default_rng(seed), language()
    seen = set[str]()
    shares = np.cumsum(1 / (np.arange(len(words)) + 2.7) ** 1.05)
    for number in range(count):
        topic = words[draws.integers(1000, len(words), 12)]
        title = " ".join(topic[: draws.integers(1, 4)]).title()
        title = f"{title} {number}" if title in seen else title
        seen.add(title)
        paragraphs = []
        for _ in range(min(5, max(1, int(draws.lognormal(1.6, 0.8))))):
            sentences = []
            for _ in range(draws.integers(1, 7)):
                length = max(5, int(draws.normal(20, 7)))
                drawn = words[np.searchsorted(shares, draws.random(length) * shares[-1])]
                is_topic_word = draws.random(length) < _TOPIC_SHARE
                drawn[is_topic_word] = draws.choice(topic, is_topic_word.sum())
                sentences.append(f"{' '.join(drawn)}.".capitalize())
            paragraphs.append(" ".join(sentences))
        yield {"title": title, "text": "\n\n".join(paragraphs)}


def queries(base: KnowledgeBase, count: int, seed: int = 0) -> list[tuple[int, Query]]:
    """Returns claims as queries, each with the number of its article."""
    draws, drawn_queries = np.random.default_rng(seed), []
    for number, second_number in draws.integers(1, len(base) + 1, (count, 2)):
        article = base.article(int(number))
        words = str(draws.choice(article.sentences)).rstrip(".").split()
        claim_words = [word for word in words if draws.random() < 0.6] or words
        claim_words = [article.title, *claim_words] if draws.random() < 0.5 else claim_words
        noise = draws.choice(" ".join(base.article(int(second_number)).paragraphs).split(), 3)
        drawn_queries.append((int(number), Query(" ".join([*claim_words, *noise]))))
    return drawn_queries


def timed(
    base: KnowledgeBase, asked: list[tuple[int, Query]]
) -> list[tuple[str, str, float, float]]:
    """Returns each stage's name, hit rate, and median and 95th percentile of milliseconds."""
    ranker = evidence.LexicalRanker(base)
    retrievers = {"bm25": Bm25(base), "entities": Entities(base, load_tagger("rules"))}
    rows = []
    for name, retriever in retrievers.items():
        times, documents = [], []
        for _, query in asked:
            start = time.process_time()
            documents.append(retriever([query], 10)[0])
            times.append(time.process_time() - start)
        hits = [
            number in retrieved for (number, _), retrieved in zip(asked, documents, strict=True)
        ]
        rows.append((name, f"{100 * np.mean(hits):.1f}%", *_milliseconds(times)))
        if name == "bm25":
            times = []
            for (_, query), retrieved in zip(asked, documents, strict=True):
                start = time.process_time()
                evidence.rank_sentences(query, evidence.candidates(base, retrieved), ranker, 5)
                times.append(time.process_time() - start)
            rows.append(("sentences", "", *_milliseconds(times)))
    return rows


class Clusters:
    """Draws vectors from clusters in a low-dimensional space, with noise.

    Args:
      count: the number of clusters.
      width: the dimensions of a vector.
    """

    def __init__(self, count: int, width: int):
        self._draws = np.random.default_rng(0)
        self._centres = self._normal(count, _LATENT)
        self._map = self._normal(_LATENT, width) / np.float32(_LATENT**0.5)

    def __call__(self, count: int) -> np.ndarray:
        """Returns float32 [count, width]."""
        near = self._centres[self._draws.integers(len(self._centres), size=count)]
        inner = near + np.float32(_SPREAD) * self._normal(count, _LATENT)
        return inner @ self._map + np.float32(_NOISE) * self._normal(count, self._map.shape[1])

    def _normal(self, *shape: int) -> np.ndarray:
        return self._draws.standard_normal(shape, np.float32)


def compared(
    folder: pathlib.Path, count: int, width: int, factories: list[str], queries: int
) -> Iterator[tuple[str, ...]]:
    """Yields table rows for exact search and for each index.

    The cells are name, size, build time, recall, queries per second, and the speed-up over exact
    search.
    """
    clusters, file = Clusters(-(-count // _CLUSTER), width), folder / dense.VECTORS
    values = np.lib.format.open_memmap(file, "w+", dtype=np.float32, shape=(count, width))
    for first in range(0, count, _CHUNK):
        values[first : first + _CHUNK] = clusters(min(_CHUNK, count - first))
    values.flush()
    query_vectors = clusters(queries)
    partitioner = make_partitioner(TransformerConfig(vocab_size=1))

    def exact(queries: np.ndarray, count: int) -> np.ndarray:
        return dense.top_k(partitioner, values, queries, count)[1]

    best = exact(query_vectors, dense.PASSAGES)
    rate, _ = _per_second(exact, exact, query_vectors)
    yield "exact", f"{file.stat().st_size / 1e6:,.0f} MB", "", "100.0", f"{rate:,.1f}", "1"
    built_factory = ""
    for name in factories:
        factory, _, parameters = name.partition(":")
        size = spent = ""
        if factory != built_factory:
            shutil.rmtree(folder / approximate.INDEX, ignore_errors=True)
            passed, used = time.perf_counter(), time.process_time()
            approximate.build(file, factory)
            passed, used = time.perf_counter() - passed, time.process_time() - used
            built_factory, spent = factory, f"{used:,.0f} s ({passed:,.0f} s passed)"
            size = (folder / approximate.INDEX / approximate.FILE).stat().st_size
            size = f"{size / 1e6:,.0f} MB"
        search = approximate.Approximate.open(file, parameters)
        pairs = zip(search(query_vectors, dense.PASSAGES), best, strict=True)
        recall = 100 * np.mean([np.isin(gold, retrieved).mean() for retrieved, gold in pairs])
        rate, times = _per_second(search, exact, query_vectors)
        yield name, size, spent, f"{recall:.1f}", f"{rate:,.1f}", f"{times:,.1f}"


def _per_second(search: _Search, search_2: _Search, queries: np.ndarray) -> tuple[float, float]:
    """Returns `search`'s queries per second and speed-up over `search_2`, measured in turns."""
    rates = []
    for _ in range(_ROUNDS):
        rates_of_sides = []
        for side in (search, search_2):
            start = time.perf_counter()
            side(queries[:_TOGETHER], dense.PASSAGES)
            rates_of_sides.append(min(_TOGETHER, len(queries)) / (time.perf_counter() - start))
        rates.append((rates_of_sides[0], rates_of_sides[0] / rates_of_sides[1]))
    first_rates, times = zip(*rates, strict=True)
    return statistics.median(first_rates), statistics.median(times)


def _milliseconds(seconds: list[float]) -> tuple[float, float]:
    median, late = np.percentile(seconds, (50, 95))
    return 1000 * float(median), 1000 * float(late)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  python tools/benchmark_retrieval.py --articles=100000\n"
        "  python tools/benchmark_retrieval.py --vectors=1000000 --index=HNSW32 "
        "--index=IVF4096,PQ64 --index=IVF4096,PQ64:nprobe=256",
    )
    parser.add_argument("--articles", type=int, default=10_000, metavar="N")
    parser.add_argument("--queries", type=int, default=200, metavar="N")
    parser.add_argument("--vectors", type=int, default=0, metavar="N")
    parser.add_argument("--width", type=int, default=256, metavar="N", help="of a vector")
    parser.add_argument(
        "--index", action="append", metavar="FACTORY[:PARAMETERS]", help="of faiss (repeatable)"
    )
    options = parser.parse_args()
    if options.vectors:
        with tempfile.TemporaryDirectory() as name:
            sizes = (options.vectors, options.width, options.index or ["HNSW32"], options.queries)
            rows = list(compared(pathlib.Path(name), *sizes))
        columns = ("search", "size", "built in", "recall@100 %", "queries a second", "x exact")
        print(tabulate.tabulate(rows, columns, disable_numparse=True))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with (folder / "articles.jsonl").open("w", encoding="utf-8") as file:
            for row in articles(options.articles):
                file.write(json.dumps(row) + "\n")
        read = (folder / "articles.jsonl").stat().st_size
        passed, used = time.perf_counter(), time.process_time()
        base = build(str(folder / "articles.jsonl"), str(folder / "base"))
        passed, used = time.perf_counter() - passed, time.process_time() - used
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        built = [
            ("articles", f"{len(base):,}"),
            ("source", f"{read / 1e6:,.0f} MB"),
            ("built in", f"{used:,.0f} s of one core ({passed:,.0f} s passed)"),
            ("articles a second", f"{len(base) / used:,.0f}"),
            ("knowledge base", f"{base.manifest.size / 1e6:,.0f} MB"),
            ("memory", f"{memory:,.0f} MB"),
        ]
        print(tabulate.tabulate(built, tablefmt="plain"), end="\n\n")
        rows = timed(base, queries(base, options.queries))
    columns = ("query", "hit", "median ms", "95% ms")
    print(tabulate.tabulate(rows, columns, floatfmt=".1f"))


if __name__ == "__main__":
    main()
