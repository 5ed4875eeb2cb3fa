import math

import pytest

from faith_jax.datasets.raw.dialfact import select_evidence
from faith_jax.retrieval.documents import Query
from faith_jax.retrieval.sentence_ranking import (
    Candidate,
    LexicalRanker,
    candidates,
    rank_sentences,
)

QUERY = Query("Hornbeam has leaves in winter", ("What grows?",))


def test_candidates_are_the_sentences_of_all_documents_each_once(base):
    found = candidates(base, [2, 1, 2])
    assert [(it.title, it.sentence[:9]) for it in found] == [
        ("Beech", "Beech is "),
        ("Beech", "It drops "),
        ("Hornbeam", "Hornbeam "),
        ("Hornbeam", "It keeps "),
        ("Hornbeam", "Its wood "),
    ]
    assert found[2].url == "https://example.org/hornbeam"


def test_the_lexical_score_is_bm25_with_the_frequencies_of_the_knowledge_base(base):
    found = [
        Candidate("Hornbeam", "", "It keeps leaves and leaves."),
        Candidate("Beech", "", "It has bark."),
    ]
    # Terms: hornbeam keep leav leav; beech bark. Two of six articles have leaves, one a hornbeam.
    leaves, hornbeam = math.log(1 + 4.5 / 2.5), math.log(1 + 5.5 / 1.5)
    penalty = 1.2 * (0.25 + 0.75 * 4 / 3)
    expected = hornbeam * 2.2 / (1 + penalty) + leaves * 2 * 2.2 / (2 + penalty)
    assert LexicalRanker(base)(QUERY, found) == pytest.approx([expected, 0.0])
    assert LexicalRanker(base)(QUERY, []) == []
    assert LexicalRanker(base)(Query("?"), found) == [0.0, 0.0]


def test_the_best_sentences_come_first_and_those_above_zero_are_evidence(base):
    best = rank_sentences(QUERY, candidates(base, [2, 1]), LexicalRanker(base), 4)
    assert best[0].sentence == "It keeps its brown leaves through the winter."
    assert [it.score for it in best] == sorted((it.score for it in best), reverse=True)
    assert len(best) == 4
    assert select_evidence(best) == [it for it in best if it.score > 0]
