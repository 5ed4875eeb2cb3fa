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
    sentences = candidates(base, [2, 1, 2])
    assert [(candidate.title, candidate.sentence[:9]) for candidate in sentences] == [
        ("Beech", "Beech is "),
        ("Beech", "It drops "),
        ("Hornbeam", "Hornbeam "),
        ("Hornbeam", "It keeps "),
        ("Hornbeam", "Its wood "),
    ]
    assert sentences[2].url == "https://example.org/hornbeam"


def test_the_lexical_score_is_bm25_with_the_frequencies_of_the_knowledge_base(base):
    sentences = [
        Candidate("Hornbeam", "", "It keeps leaves and leaves."),
        Candidate("Beech", "", "It has bark."),
    ]
    # Terms: hornbeam keep leav leav; beech bark. Two of six articles have leaves, one a hornbeam.
    leaves, hornbeam = math.log(1 + 4.5 / 2.5), math.log(1 + 5.5 / 1.5)
    penalty = 1.2 * (0.25 + 0.75 * 4 / 3)
    expected = hornbeam * 2.2 / (1 + penalty) + leaves * 2 * 2.2 / (2 + penalty)
    assert LexicalRanker(base)(QUERY, sentences) == pytest.approx([expected, 0.0])
    assert LexicalRanker(base)(QUERY, []) == []
    assert LexicalRanker(base)(Query("?"), sentences) == [0.0, 0.0]


def test_the_best_sentences_come_first_and_those_above_zero_are_evidence(base):
    best = rank_sentences(QUERY, candidates(base, [2, 1]), LexicalRanker(base), 4)
    assert best[0].sentence == "It keeps its brown leaves through the winter."
    assert [hit.score for hit in best] == sorted((hit.score for hit in best), reverse=True)
    assert len(best) == 4
    assert select_evidence(best) == [hit for hit in best if hit.score > 0]
