"""Evidence for claims: ranking of sentences in documents; a score above 0 means relevant."""

import collections
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from faith_jax.datasets.raw.dialfact import Evidence
from faith_jax.retrieval.documents import Query
from faith_jax.retrieval.knowledge_base import KnowledgeBase, content

_K1, _B = 1.2, 0.75  # BM25's parameters, as in SQLite


class Candidate(NamedTuple):
    """A sentence of a document, with the document's title and URL."""

    title: str
    url: str
    sentence: str


class Ranker(Protocol):
    """Scores the relevance of sentences for a claim."""

    def __call__(self, query: Query, candidates: Sequence[Candidate]) -> ArrayLike:
        """Returns a score for each candidate; higher = more relevant, above 0 = relevant."""
        ...


def candidates(knowledge_base: KnowledgeBase, articles: Sequence[int]) -> list[Candidate]:
    """Returns the sentences of articles without duplicates, in the order of the articles."""
    by_sentence = dict[str, Candidate]()
    for article in map(knowledge_base.article, articles):
        for sentence in article.sentences:
            by_sentence.setdefault(sentence, Candidate(article.title, article.url, sentence))
    return list(by_sentence.values())


def rank_sentences(
    query: Query, candidates: Sequence[Candidate], ranker: Ranker, max_sentences: int
) -> list[Evidence]:
    """Returns the `max_sentences` best sentences with their scores, best first."""
    scores = np.asarray(ranker(query, candidates), np.float64)
    best = np.argsort(-scores, kind="stable")[:max_sentences]
    return [
        Evidence(candidate.title, candidate.url, candidate.sentence, float(scores[place]))
        for place, candidate in ((place, candidates[place]) for place in best)
    ]


def about(
    knowledge_base: KnowledgeBase, names: Sequence[str], evidence: Sequence[Evidence]
) -> list[Evidence]:
    """Returns the sentences that contain one of the names, or whose article has one as its name.

    If a name is a title, articles with this alias do not count. Returns all sentences if none is
    left, because the claim may not be about the names.
    """
    titles = set[str]().union(*map(knowledge_base.titles, names))
    texts = (*names, *(piece.sentence for piece in evidence))
    terms = list(map(set, knowledge_base.terms([" ".join(content(text)) for text in texts])))
    name_terms, sentence_terms = [name for name in terms[: len(names)] if name], terms[len(names) :]
    return [
        piece
        for piece, its_terms in zip(evidence, sentence_terms, strict=True)
        if piece.title in titles or any(name <= its_terms for name in name_terms)
    ] or list(evidence)


class LexicalRanker:
    """Ranks sentences, preceded by their titles, by BM25 with the words of the query.

    Document frequencies are the knowledge base's, the mean length the candidates'. 0 = no match.
    """

    def __init__(self, knowledge_base: KnowledgeBase):
        self._knowledge_base = knowledge_base

    def __call__(self, query: Query, candidates: Sequence[Candidate]) -> list[float]:
        """Returns a score of at least 0 for each candidate."""
        texts = (f"{candidate.title} {candidate.sentence}" for candidate in candidates)
        words = [" ".join(content(text)) for text in (query.text, *texts)]
        query_terms, *candidate_terms = self._knowledge_base.terms(words)
        mean_length = (
            sum(map(len, candidate_terms)) / len(candidate_terms) if candidate_terms else 0.0
        )
        weights = {
            term: self._knowledge_base.inverse_frequency(count)
            for term, count in self._knowledge_base.frequencies(query_terms).items()
        }
        scores = []
        for terms in candidate_terms:
            counts = collections.Counter(term for term in terms if term in weights)
            penalty = _K1 * (1 - _B + _B * len(terms) / mean_length) if terms else 1.0
            parts = (weights[t] * n * (_K1 + 1) / (n + penalty) for t, n in counts.items())
            scores.append(sum(parts))
        return scores
