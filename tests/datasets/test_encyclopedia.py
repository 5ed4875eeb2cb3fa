"""The embedded encyclopedia; DialFact's sample and docs/mini/claims.jsonl, which refer to it."""

import json

import pytest

from faith_jax.core.words import split_sentences
from faith_jax.datasets import samples
from tests.paths import REPOSITORY

SAMPLES = samples.sample_folder("dialfact").parent


def read(path):
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def sentences(article):
    return [s for p in article["text"].split("\n\n") for s in split_sentences(p)]


@pytest.fixture(scope="module")
def articles():
    rows = read(SAMPLES / "encyclopedia.jsonl")
    by_title = {row["title"]: row for row in rows}
    assert len(by_title) == len(rows)
    return by_title


def claims(split):
    return read(SAMPLES / "dialfact" / f"{split}_split.jsonl")


@pytest.mark.parametrize("name", ["valid_split", "test_split", "valid_evidence", "test_evidence"])
def test_evidence_of_dialfacts_sample_is_of_the_articles(articles, name):
    for row in read(SAMPLES / "dialfact" / f"{name}.jsonl"):
        for title, url, sentence, *_ in row.get("evidence_list", row.get("evidence")):
            assert url == articles[title]["url"]
            # The authors left some sentences empty, and so does one row.
            assert not sentence or sentence in sentences(articles[title])


def test_the_splits_of_dialfacts_sample_share_no_article():
    used = [
        {part[0] for row in claims(split) for part in row["evidence_list"]}
        for split in ("valid", "test")
    ]
    assert not used[0] & used[1]


def test_claims_to_train_on_are_of_other_articles(articles):
    rows = read(REPOSITORY / "docs" / "mini" / "claims.jsonl")
    assert len(rows) == len({row["sentence"] for row in rows}) == 634
    used = {
        part[0]
        for split in ("valid", "test")
        for row in claims(split)
        for part in row["evidence_list"]
    }
    texts = []
    for row in rows:
        assert row["title"] not in used
        assert row["sentence"] in sentences(articles[row["title"]])
        kinds = [row[kind] for kind in ("supported", "refuted", "unrelated_but_close")]
        assert [len(kind) for kind in kinds] == [2, 2, 1]
        texts += [text.casefold() for kind in kinds for text in kind]
    assert len(set(texts)) == len(texts)
