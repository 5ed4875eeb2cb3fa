import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.datasets.augmentation.tagging import (
    Entity,
    NounChunk,
    RuleTagger,
    TaggedText,
    load_tagger,
)
from faith_jax.retrieval.documents import Bm25, Entities, Query, fuse_rankings
from tests.retrieval.encyclopedia import built, titles


class Told:
    """A tagger that finds given entities and noun chunks in each text."""

    def __init__(self, entities=(), chunks=()):
        self.entities, self.chunks = entities, chunks

    def tag(self, texts):
        def at(text, part):
            return text.find(part), text.find(part) + len(part)

        return [
            TaggedText(
                text,
                (),
                tuple(
                    Entity(name, *at(text, name), kind)
                    for name, kind in self.entities
                    if name in text
                ),
                tuple(NounChunk(name, *at(text, name)) for name in self.chunks if name in text),
            )
            for text in texts
        ]


def found(base, tagger, claim, *context, most=10):
    (numbers,) = Entities(base, tagger)([Query(claim, context)], most)
    return titles(base, numbers)


def test_entities_and_noun_chunks_are_looked_up_and_numbers_are_not(base):
    claim = "In 1997 the brown leaves of Oslo and I"
    tagger = Told([("Oslo", "GPE"), ("1997", "DATE")], ["the brown leaves", "I"])
    assert found(base, tagger, claim) == ["Oslo", "Hornbeam"]


def test_rules_find_names_of_articles_in_place_of_noun_chunks(base):
    assert found(base, RuleTagger(), "well, hornbeams love kristiania, i think") == [
        "Oslo",
        "Hornbeam",
    ]
    assert found(base, RuleTagger(), "Yes, I think so!") == []


def test_a_plural_is_the_name_of_its_singular(tmp_path):
    rows = [{"title": title, "text": "A."} for title in ("Larch", "Lily", "Oak", "Zurich")]
    base = built(tmp_path, rows)
    claim = "Larches and lilies stand under oaks."
    assert sorted(found(base, RuleTagger(), claim)) == ["Larch", "Lily", "Oak"]
    # So the claim itself says what it is about.
    query = Query("Larches grow tall.", ("Zurich is a city.",))
    assert Entities(base, RuleTagger()).subjects(query) == ["Larch"]


def test_the_longest_name_counts(tmp_path):
    rows = [{"title": title, "text": "A."} for title in ("New York", "York", "New York City")]
    base = built(tmp_path, rows)
    assert found(base, RuleTagger(), "is new york city in york") == [
        *("New York City", "York", "New York")
    ]


def test_names_of_the_claim_come_before_those_of_its_context(base):
    turns = ("Do you like beech?", "I know hornbeam.")
    assert found(base, RuleTagger(), "Oslo has it.", *turns) == ["Oslo", "Hornbeam", "Beech"]
    assert found(base, RuleTagger(), "Oslo has it.", *turns, most=1) == ["Oslo"]
    assert found(base, RuleTagger(), "Oslo has it.") == ["Oslo"]


def test_a_name_brings_three_articles_at_most_and_the_first_of_each_first(tmp_path):
    names = [f"Queen ({n})" for n in "abcd"] + ["Tea"]
    base = built(tmp_path, [{"title": name, "text": "A."} for name in names])
    ranked = found(base, Told([("Queen", "ORG"), ("Tea", "ORG")]), "Queen drinks Tea")
    assert len(ranked) == 4
    assert ranked[:2] == ["Tea", "Queen (a)"]


@pytest.mark.parametrize("count", [0, 3])
def test_queries_of_a_batch_do_not_mix(base, count):
    queries = [Query("Oslo"), Query("none"), Query("cogs in winter", ("Beech bark",))][:count]
    for retriever in (Entities(base, load_tagger("rules")), Bm25(base)):
        alone = [retriever([query], 5)[0] for query in queries]
        assert retriever(queries, 5) == alone


def test_bm25_reads_the_context_too(base):
    query = Query("Is it hard?", ("What of smooth bark?",))
    assert titles(base, Bm25(base)([query], 5)[0]) == ["Beech", "Hornbeam"]
    assert titles(base, Bm25(base)([Query(query.claim)], 5)[0]) == ["Hornbeam"]


@given(st.lists(st.lists(st.integers(0, 9), unique=True), max_size=4), st.integers(1, 12))
def test_fusion_sums_reciprocal_ranks(rankings, most):
    fused = fuse_rankings(rankings, most)
    scores = {
        number: sum(1 / (60 + r.index(number) + 1) for r in rankings if number in r)
        for number in {number for r in rankings for number in r}
    }
    assert len(fused) == len(set(fused)) == min(most, len(scores))
    best = sorted(scores.values(), reverse=True)[:most]
    assert [scores[number] for number in fused] == pytest.approx(best)
    for better, worse in itertools.pairwise(fused):
        assert scores[better] >= scores[worse] - 1e-12
