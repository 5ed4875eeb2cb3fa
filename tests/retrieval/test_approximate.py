import json
import shutil
import sys

import numpy as np
import pytest

from faith_jax.core.errors import ConfigError, StorageError
from faith_jax.models.partitioning import make_partitioner
from faith_jax.retrieval import approximate
from faith_jax.retrieval.approximate import FILE, INDEX, MANIFEST, Approximate, build
from faith_jax.retrieval.dense import VECTORS, top_k
from tests.models import families

faiss = pytest.importorskip("faiss", reason="the extra `faiss` is not installed")
WIDTH = 16


def draw(seed, count):
    """Returns vectors in 20 clusters, the same ones for all seeds."""
    centres = 3 * np.random.default_rng(0).normal(size=(20, WIDTH))
    rng = np.random.default_rng(seed)
    near = centres[rng.integers(20, size=count)]
    return (near + rng.normal(size=(count, WIDTH))).astype(np.float32)


ROWS, QUERIES = draw(1, 2000), draw(2, 8)


@pytest.fixture
def vectors(tmp_path):
    np.save(tmp_path / VECTORS, ROWS)
    return tmp_path / VECTORS


def recall(neighbours, most):
    best = np.argsort(-(QUERIES @ ROWS.T), axis=1)[:, :most]
    return np.mean([np.isin(gold, row).mean() for gold, row in zip(best, neighbours, strict=True)])


def test_a_flat_index_finds_what_exact_search_finds(vectors, monkeypatch):
    monkeypatch.setattr(approximate, "_CHUNK", 300)
    build(vectors, "Flat")
    _, expected = top_k(make_partitioner(families.BERT), ROWS, QUERIES, 30)
    np.testing.assert_array_equal(Approximate.open(vectors)(QUERIES, 30), expected)
    # There are fewer than are asked for.
    whole = Approximate.open(vectors)(QUERIES, 3000)
    assert [len(rows) for rows in whole] == [len(ROWS)] * len(QUERIES)
    manifest = json.loads((vectors.parent / INDEX / MANIFEST).read_text())
    assert manifest["factory"] == "Flat"


def test_of_equal_products_the_first_row_comes_first(tmp_path):
    np.save(tmp_path / VECTORS, np.ones((5, WIDTH), np.float32))
    build(tmp_path / VECTORS, "Flat")
    (rows,) = Approximate.open(tmp_path / VECTORS)(QUERIES[:1], 3)
    assert set(rows.tolist()) <= set(range(5))
    assert rows.tolist() == sorted(rows.tolist())


def test_a_graph_finds_most(vectors):
    build(vectors, "HNSW16")
    assert recall(Approximate.open(vectors)(QUERIES, 20), 20) >= 0.95
    assert recall(Approximate.open(vectors, "efSearch=1")(QUERIES, 20), 20) < 0.9


@pytest.mark.slow
def test_lists_are_trained_on_a_sample(vectors, monkeypatch):
    monkeypatch.setattr(approximate, "_TRAINING", 1000)
    monkeypatch.setattr(approximate, "_OF_LIST", 40)
    build(vectors, "IVF20,PQ4x4", seed=3)
    index_bytes = (vectors.parent / INDEX / FILE).read_bytes()
    recalls = [recall(Approximate.open(vectors, f"nprobe={n}")(QUERIES, 20), 20) for n in (1, 20)]
    assert recalls[0] == recall(Approximate.open(vectors)(QUERIES, 20), 20)
    assert 0.4 < recalls[0] < 0.75 < recalls[1]
    # Exact products reorder the results of the codes, whose own order finds fewer of the best.
    _, coarse = Approximate.open(vectors, "nprobe=20").index.search(QUERIES, 20)
    assert recall(coarse, 20) < recalls[1] - 0.1
    shutil.rmtree(vectors.parent / INDEX)
    build(vectors, "IVF20,PQ4x4", seed=4)
    assert (vectors.parent / INDEX / FILE).read_bytes() != index_bytes


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("HNWS32", "no index of products of 16 numbers .could not parse index string HNWS32.; try"),
        ("IVF4,PQ5", "no index of products of 16 numbers .The dimension of the vector"),
        ("LSH", "no index of products of 16 numbers"),
        ("IVF5000,Flat", "of 2,000 vectors: Number of training points .2000. should be at least"),
    ],
)
def test_a_wrong_factory_leaves_nothing(vectors, factory, message):
    with pytest.raises(ConfigError, match=f"^--faiss: .*{message}"):
        build(vectors, factory)
    assert [path.name for path in vectors.parent.iterdir()] == [VECTORS]


def test_all_of_it_appears_at_once(vectors, monkeypatch):
    write = faiss.write_index

    def stop(index, path):
        write(index, path)
        raise KeyboardInterrupt

    monkeypatch.setattr(faiss, "write_index", stop)
    with pytest.raises(KeyboardInterrupt):
        build(vectors, "Flat")
    monkeypatch.setattr(faiss, "write_index", lambda index, path: write(index, "/dev/full"))
    with pytest.raises(StorageError, match="No space left on device"):
        build(vectors, "Flat")
    assert not (vectors.parent / INDEX).exists()
    with pytest.raises(ConfigError, match="no faiss index; make it with `faith-jax embed --faiss"):
        Approximate.open(vectors)
    monkeypatch.setattr(faiss, "write_index", write)
    build(vectors, "Flat")
    with pytest.raises(ConfigError, match="faiss exists already; remove it"):
        build(vectors, "HNSW16")


def test_damaged_and_foreign_indexes_are_refused(vectors, tmp_path, monkeypatch):
    build(vectors, "Flat")
    file = vectors.parent / INDEX / FILE
    for parameters in ("exakt", "nprobe=x", "nprobe=4"):
        with pytest.raises(ConfigError, match=f"^--dense-search: 'Flat' has no .*{parameters}"):
            Approximate.open(vectors, parameters)
    whole = file.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(faiss, "read_index", None)  # what is damaged is not read
        for damaged in (whole[:-4], whole[:-4] + b"none", b""):
            file.write_bytes(damaged)
            with pytest.raises(ConfigError, match=r"index.faiss: damaged.* make it anew with"):
                Approximate.open(vectors)
        file.unlink()
        with pytest.raises(ConfigError, match=r"index.faiss: damaged"):
            Approximate.open(vectors)
        file.write_bytes(whole)
        np.save(vectors, draw(3, len(ROWS)))
        with pytest.raises(ConfigError, match="the index of other vectors; remove"):
            Approximate.open(vectors)
    # A file whose hash is right, and which is no index.
    np.save(vectors, ROWS)
    file.write_bytes(b"notes" * 9)
    manifest = json.loads((file.parent / MANIFEST).read_text())
    manifest["index"] = approximate.file_content(file, is_whole=True)
    (file.parent / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ConfigError, match=r"faiss cannot read it .*not recognized"):
        Approximate.open(vectors)


def test_without_faiss_the_extra_is_named(vectors, monkeypatch):
    build(vectors, "Flat")
    monkeypatch.setitem(sys.modules, "faiss", None)
    for use in (lambda: build(vectors, "Flat"), lambda: Approximate.open(vectors)):
        with pytest.raises(ConfigError, match=r"install the extra: pip install 'faith_jax\[faiss"):
            use()
