import math
import sqlite3

import pytest

from faith_jax.retrieval import knowledge_base
from faith_jax.retrieval.knowledge_base import DATABASE
from tests.retrieval.encyclopedia import ROWS, built, titles


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hornbeam", ["Hornbeam"]),
        ("IRONWOOD", ["Hornbeam"]),
        ("mill_(grinding) ", ["Mill (grinding)"]),
        ("AIDS", ["AIDS", "Aids"]),
        ("Aids", ["Aids", "AIDS"]),
        ("aids", ["AIDS", "Aids"]),
        ("mill", ["Mill (grinding)"]),  # a qualifier is no part of it
    ],
)
def test_names_but_for_their_case(base, name, expected):
    assert titles(base, base.find_by_name(name)) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mills", ["Mill (grinding)"]),  # by a word of its name
        ("brown leaves", ["Hornbeam"]),  # by its text, for no name has both words
        ("the of", []),
        ('"*^', []),
        ("unheard", []),
    ],
)
def test_lookup_finds_names_then_texts(base, name, expected):
    assert titles(base, base.lookup(name)) == expected


def test_lookup_returns_each_article_once_and_no_more_than_three(tmp_path):
    rows = [
        {"title": f"Queen ({n})", "aliases": [f"Queen no. {n}"], "text": "A."} for n in range(9)
    ]
    base = built(tmp_path, [*rows, {"title": "Queen", "text": "B."}])
    articles = base.lookup("queen")
    assert articles[0] == 10
    assert len(articles) == len(set(articles)) == 3


def test_search_ranks_as_bm25_does(base):
    """Compares SQLite's order with the definition, computed independently from stems."""
    texts = {
        n: f"{a.title} {' '.join(a.paragraphs)}"
        for n, a in enumerate(map(base.article, range(1, 7)), 1)
    }
    lengths = {n: len(base.terms([text])[0]) for n, text in texts.items()}
    mean = sum(lengths.values()) / 6

    def score(number, query):
        terms, total = base.terms([texts[number]])[0], 0.0
        for term in query:
            holders = sum(term in base.terms([text])[0] for text in texts.values())
            idf = max(math.log((6 - holders + 0.5) / (holders + 0.5)), 1e-6)
            count = terms.count(term)
            total += idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * lengths[number] / mean))
        return total

    query = "The leaves of a tree in winter"
    scores = {n: score(n, base.terms(["leaves tree winter"])[0]) for n in texts}
    expected = sorted((n for n in texts if scores[n] > 0), key=lambda n: -scores[n])
    assert base.search(query, 10) == expected == [1, 2]


def test_search_counts_the_rarest_words_where_many_articles_match(tmp_path, monkeypatch):
    rows = [{"title": f"Tea {n}", "text": "Tea is green."} for n in range(20)]
    base = built(tmp_path, [*rows, {"title": "Matcha", "text": "Ground leaves."}])
    assert len(base.search("green matcha", 30)) == 21
    monkeypatch.setattr(knowledge_base, "MOST_RANKED", 5)
    assert titles(base, base.search("green matcha", 30)) == ["Matcha"]
    assert len(base.search("green", 30)) == 20  # one word always counts


@pytest.mark.parametrize("text", ["", "the of and", "?!", 'NEAR("a" OR', "zzz"])
def test_texts_without_known_words_find_nothing(base, text):
    assert base.search(text, 5) == []


def test_terms_are_those_of_the_index(base):
    texts = [f"{row['title']} {row['text']}" for row in ROWS[:6]]
    counted = {}
    for terms in base.terms(texts):
        for term in set(terms):
            counted[term] = counted.get(term, 0) + 1
    stored = sqlite3.connect(base.folder / DATABASE).execute("SELECT * FROM terms").fetchall()
    assert dict(stored) == counted
    assert base.frequencies(["leav", "none"]) == {"leav": 2, "none": 0}
    assert base.terms(["Leaves, leaf's Çà", "", "a"]) == [["leav", "leaf", "s", "ca"], [], ["a"]]


def test_articles_come_back(base):
    article = base.article(1)
    assert article.title == "Hornbeam"
    assert article.url == "https://example.org/hornbeam"
    assert article.sentences[-1] == "Its wood is hard and was used for cogs in mills."
    assert len(base) == 6
