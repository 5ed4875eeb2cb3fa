import json

import pytest

from faith_jax.datasets.raw.true_benchmark import CORPORA
from faith_jax.datasets.samples import sample_folder
from tools import make_true_articles

SAMPLE = sample_folder("true_benchmark")
ANNOTATIONS = {
    "summeval": "model_annotations.aligned.jsonl",
    "mnbm": "hallucination_annotations_xsum_summaries.csv",
}


@pytest.fixture
def make(capsys):
    """Runs the tool; returns (status, stdout, stderr)."""

    def run(*arguments):
        status = make_true_articles.main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return run


@pytest.fixture(params=list(ANNOTATIONS))
def corpus(request, tmp_path):
    name = ANNOTATIONS[request.param]
    (tmp_path / name).write_bytes((SAMPLE / name).read_bytes())
    return request.param


def articles(corpus):
    text = (SAMPLE / f"{corpus}_articles.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_the_articles_of_a_corpus_are_picked_out(make, tmp_path, corpus):
    source = tmp_path / "all.jsonl"
    rows = [{"id": r["id"], "document": f"\n {r['article']} \n\nMore.\n"} for r in articles(corpus)]
    rows.append({"id": "another", "document": "x"})
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    status, _, err = make(corpus, f"--raw={tmp_path}", f"--articles={source}")
    assert (status, err) == (0, "")
    written = tmp_path / f"{corpus}_articles.jsonl"
    by_id = {r["id"]: r["article"] for r in map(json.loads, written.read_text().splitlines())}
    assert by_id == {r["id"]: f"{r['article']} More." for r in articles(corpus)}
    paths = {name: tmp_path / name for name in (ANNOTATIONS[corpus], written.name)}
    assert len(list(CORPORA[corpus].examples(paths, "test"))) == 4


def test_missing_articles_are_named_and_nothing_is_written(make, tmp_path, corpus):
    source = tmp_path / "all.jsonl"
    source.write_text(json.dumps(articles(corpus)[0]) + "\n")
    status, _, err = make(corpus, f"--raw={tmp_path}", f"--articles={source}")
    assert status == 2
    assert f"1 of 2 articles are not there, {articles(corpus)[1]['id']} the first" in err
    assert not (tmp_path / f"{corpus}_articles.jsonl").exists()
