"""The embedded encyclopedia; DialFact's sample and docs/mini/claims.jsonl, which refer to it."""

import collections
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


def test_the_encyclopedia_meets_its_plan(articles):
    assert len(articles) == 188
    for article in articles.values():
        assert article.keys() == {"title", "aliases", "text", "url"}
        assert article["url"] == "https://example.org/wiki/" + article["title"].replace(" ", "_")
        aliases = article["aliases"]
        assert len({article["title"], *aliases}) == len(aliases) + 1
        assert 5 <= len(sentences(article)) <= 12
    every = [sentence for article in articles.values() for sentence in sentences(article)]
    assert len(set(every)) == len(every) == 1457
    assert all(sentence == sentence.strip() and sentence[-1] in ".?" for sentence in every)


def test_names_are_ambiguous(articles):
    named = collections.defaultdict(set)
    for title, article in articles.items():
        for name in {title, *article["aliases"]}:
            named[name].add(title)
    groups = {frozenset(titles) for titles in named.values() if len(titles) > 1}
    assert len(groups) == 21
    assert {"Mercury (planet)", "Mercury (element)", "Mercury (god)"} in groups
    # Two titles differ only in case.
    assert collections.Counter(map(str.casefold, articles)).most_common(2)[0] == ("salt", 2)


def test_articles_mention_each_other(articles):
    plain = [title for title in articles if "(" not in title]
    mentions = sum(
        any(f" {other}" in article["text"] for other in plain if other != title)
        for title, article in articles.items()
    )
    assert mentions >= 40


@pytest.mark.parametrize("name", ["valid_split", "test_split", "valid_evidence", "test_evidence"])
def test_evidence_of_dialfacts_sample_is_of_the_articles(articles, name):
    for row in read(SAMPLES / "dialfact" / f"{name}.jsonl"):
        for title, url, sentence, *_ in row.get("evidence_list", row.get("evidence")):
            assert url == articles[title]["url"]
            # The authors left some sentences empty, and so does one row.
            assert not sentence or sentence in sentences(articles[title])


@pytest.mark.parametrize("split", ["valid", "test"])
def test_dialfacts_sample_is_balanced(split):
    rows = claims(split)
    labels = collections.Counter(row["response_label"] for row in rows)
    assert min(labels.values()) > 0.3 * len(rows)
    assert len({row["response"] for row in rows}) == len(rows)
    generated = [row for row in rows if row["data_type"] == "generated"]
    assert 0.15 * len(rows) < len(generated) < 0.5 * len(rows)
    factual = [row for row in rows if row["type_label"] == "factual"]
    assert all(row["evidence_list"] for row in factual)


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
