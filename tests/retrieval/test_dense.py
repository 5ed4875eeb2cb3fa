import shutil

import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.core.templates import dense_query
from faith_jax.inference import load_model
from faith_jax.models.partitioning import make_partitioner
from faith_jax.retrieval import dense
from faith_jax.retrieval.articles import Article
from faith_jax.retrieval.dense import Dense, Passage, TextVectors, Vectors, embed, passages, top_k
from faith_jax.retrieval.documents import Query
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.models import families
from tests.retrieval.encyclopedia import built
from tests.scoring import tiny_models
from tests.tokenizers.published_tokenizers import SENTENCES
from tests.tokenizers.special_tokens import encode_row


@pytest.fixture(scope="module")
def partitioner():
    return make_partitioner(families.BERT)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    rng = np.random.default_rng(0)
    rows = [
        {"title": f"Note {n}", "text": " ".join(rng.choice(SENTENCES, rng.integers(1, 25)))}
        for n in range(30)
    ]
    return built(tmp_path_factory.mktemp("knowledge"), rows)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_models.write_model(tmp_path_factory.mktemp("bert") / "m", "bert", max_positions=80)


@pytest.fixture(scope="module")
def made(base, model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors") / "made"
    return folder, embed(base, model, folder)


@pytest.mark.parametrize(("rows", "most", "chunk"), [(50, 7, 2), (50, 50, 50), (3, 5, 1)])
def test_search_is_that_of_numpy(partitioner, rows, most, chunk, monkeypatch):
    monkeypatch.setattr(dense, "_CHUNK", chunk)
    rng = np.random.default_rng(rows)
    vectors = rng.integers(-3, 4, (rows, 6)).astype(np.float32)  # with equal products
    queries = rng.integers(-3, 4, (4, 6)).astype(np.float32)
    scores, numbers = top_k(partitioner, vectors, queries, most)
    products = queries @ vectors.T
    expected = np.argsort(-products, axis=1, kind="stable")[:, :most]
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_array_equal(scores, np.take_along_axis(products, expected, axis=1))


def test_passages_are_blocks_of_words():
    words = [str(n) for n in range(230)]
    blocks = passages(Article("Numbers", (" ".join(words[:90]), " ".join(words[90:]))))
    assert [len(block.text.split()) for block in blocks] == [100, 100, 30]
    assert " ".join(block.text for block in blocks).split() == words
    assert {block.title for block in blocks} == {"Numbers"}


def test_vectors_are_the_first_tokens_states(model):
    encode, opened = TextVectors.open(model), load_model(model)
    tokens = load_vocabulary(model)
    texts = [
        "Tea is better",
        Passage("Tea", "is better than coffee"),
        "",
        Passage("Tea", "t " * 90),
    ]
    rows = [
        encode_row(tokens, "Tea is better"),
        encode_row(tokens, "Tea", "is better than coffee"),
        encode_row(tokens, ""),
    ]
    cut = [*encode_row(tokens, "Tea"), *tokens.encode("t " * 90)]
    rows.append([*cut[:79], tokens.sep_id])
    expected = [opened.hidden_states([row])[0, 0] for row in rows]
    np.testing.assert_allclose(encode(texts), expected, atol=1e-5)


def test_the_retriever_finds_the_articles_of_the_best_passages(base, made):
    _, vectors = made
    encode = TextVectors.open(vectors.model)
    retrieve = Dense(vectors, encode)
    texts = [base.article(number) for number in (3, 11)]
    queries = [Query(article.paragraphs[0][:60]) for article in texts]
    ranks = retrieve(queries, 4)
    assert len(base) < len(vectors.values)
    blocks = [passage for n in range(1, len(base) + 1) for passage in passages(base.article(n))]
    products = (
        encode([dense_query(query.context, query.claim) for query in queries]) @ encode(blocks).T
    )
    for numbers, row in zip(ranks, products, strict=True):
        expected = vectors.articles[np.argsort(-row, kind="stable")[:100]]
        assert numbers == list(dict.fromkeys(expected.tolist()))[:4]


def test_a_stopped_run_resumes(base, model, made, tmp_path, monkeypatch):
    _, whole = made
    monkeypatch.setattr(dense, "_BATCH", 20)
    calls = []

    def stopping(self, texts, encode=TextVectors.__call__):
        calls.append(len(texts))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return encode(self, texts)

    with monkeypatch.context() as patch:
        patch.setattr(TextVectors, "__call__", stopping)
        with pytest.raises(KeyboardInterrupt):
            embed(base, model, tmp_path / "v")
        assert not (tmp_path / "v").exists()
        again = embed(base, model, tmp_path / "v")
    assert calls[2] == calls[3]
    assert sum(calls) - calls[3] == len(whole.values)
    np.testing.assert_allclose(again.values, whole.values, atol=1e-5)
    np.testing.assert_array_equal(again.articles, whole.articles)


def test_vectors_of_others_are_refused(base, made, tmp_path, model):
    folder, vectors = made
    with pytest.raises(ConfigError, match="no vectors"):
        Vectors.open(tmp_path, base)
    damaged = shutil.copytree(folder, tmp_path / "damaged")
    content = (damaged / dense.VECTORS).read_bytes()
    (damaged / dense.VECTORS).write_bytes(content[:-8])
    with pytest.raises(ConfigError, match="damaged"):
        Vectors.open(damaged, base)
    manifest = (damaged / dense.MANIFEST).read_text()
    (damaged / dense.MANIFEST).write_text(manifest.replace('"paragraphs": 5', '"paragraphs": 7'))
    with pytest.raises(ConfigError, match="vectors of another knowledge base"):
        Vectors.open(damaged, base)
    wider = tiny_models.write_model(tmp_path / "wide", "bert", emb_dim=24, num_heads=3)
    with pytest.raises(ConfigError, match="do not belong together"):
        Dense(vectors, TextVectors.open(wider))
    with pytest.raises(ConfigError, match="expected an encoder"):
        TextVectors.open("mini")


def test_the_commands(command, base, model, made, tmp_path):
    status, out, err = command("embed", str(base.folder), str(tmp_path / "v"), f"--model={model}")
    assert status == 0, err
    assert out.split()[1:4] == [f"{len(made[1].values):,}", "vectors", "of"]
    claims = tmp_path / "claims.jsonl"
    claims.write_text('{"id": "1", "response": "Oslo is a capital."}\n')
    arguments = ("evidence", str(claims), str(base.folder), "--retrievers=dense")
    output = tmp_path / "evidence.jsonl"
    status, out, err = command(*arguments, f"--vectors={tmp_path / 'v'}", f"--output={output}")
    assert status == 0, err
    assert output.is_file()
    status, _, err = command(*arguments, f"--output={tmp_path / 'other.jsonl'}")
    assert status == 2
    assert "--vectors: the retriever dense needs" in err


def test_an_index_beside_the_vectors(command, base, model, made, tmp_path, monkeypatch):
    pytest.importorskip("faiss", reason="the extra `faiss` is not installed")
    folder = shutil.copytree(made[0], tmp_path / "v")
    arguments = ("embed", str(base.folder), str(folder), f"--model={model}")
    with monkeypatch.context() as patch:
        patch.setattr(TextVectors, "__call__", None)  # the vectors are there
        status, _, err = command(*arguments, "--faiss=Flat")
    assert status == 0, err
    claims = tmp_path / "claims.jsonl"
    claims.write_text('{"id": "1", "response": "Oslo is a capital."}\n')
    arguments = ("evidence", str(claims), str(base.folder), "--retrievers=dense")
    arguments = (*arguments, f"--vectors={folder}")
    outputs = [tmp_path / "exact.jsonl", tmp_path / "faiss.jsonl"]
    for output in outputs:
        search = f"--dense-search={output.stem}"
        status, _, err = command(*arguments, search, f"--output={output}")
        assert status == 0, err
        # The other one searches the index alone.
        monkeypatch.setattr(dense, "top_k", None)
    assert outputs[0].read_text() == outputs[1].read_text()


def test_wrong_indexes_are_told_before_texts_are_read(base, model, made, tmp_path, monkeypatch):
    pytest.importorskip("faiss", reason="the extra `faiss` is not installed")
    monkeypatch.setattr(TextVectors, "__call__", None)
    with pytest.raises(ConfigError, match="--faiss: 'Flatt' is no index"):
        embed(base, model, tmp_path / "v", factory="Flatt")
    with pytest.raises(ConfigError, match=f"--model: the vectors in .* were made by {model}"):
        embed(base, shutil.copytree(model, tmp_path / "other"), made[0], factory="Flat")
    with pytest.raises(ConfigError, match="exists already"):
        embed(base, model, made[0])
