"""Retrieval of documents for claims: by names in the claim, by BM25, and by several retrievers.

A retriever takes queries and returns a ranked list of articles for each. It gets all queries of a
batch at once, so that models can tag texts or compute vectors in batches.

Reference: Gupta 2022, section 5.2.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from faith_jax.datasets.augmentation.tagging import TaggedText, Tagger
from faith_jax.retrieval.knowledge_base import KnowledgeBase, content

ENTITIES, BM25 = "entities", "bm25"
_PLURALS = {"s": "", "es": "", "ies": "y"}  # plural endings, and their singular endings
_RANK_CONSTANT = 60  # Cormack 2009
_LONGEST_TITLE = 6  # words
_NUMBERS = frozenset({"DATE", "TIME", "PERCENT", "MONEY", "QUANTITY", "ORDINAL", "CARDINAL"})
# Words with Wikipedia articles that do not reveal the topic of a dialogue.
_COLLOQUIAL_WORDS = """
    yes yeah yep yup nope nah ok okay oh ah wow hey hi hello bye thanks thank please sorry sure lol
    haha right really actually maybe perhaps probably well also much many lot lots thing things
    something anything everything nothing someone anyone everyone one ones way ways kind sort bit
    time times day days year years guess think know mean like love see say said tell heard hear get
    got go went going come came make made take took want wanted need would could might must shall
    ever never always often still even though good great nice cool best better first last new old
    big people person man woman name called used use us
"""
_COLLOQUIAL = frozenset(_COLLOQUIAL_WORDS.split())
_PRONOUN = re.compile(
    r"\b(it|its|they|them|their|he|him|his|she|her|hers|this|that|these|those|one|there)\b",
    re.IGNORECASE,
)


class Query(NamedTuple):
    """A claim for which to find documents, with the turns before it.

    Attributes:
      claim: the claim to check.
      context: the turns before the claim, oldest first, which are part of the search.
    """

    claim: str
    context: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The turns and the claim, in order."""
        return " ".join((*self.context, self.claim))


class Retriever(Protocol):
    """Finds articles for queries."""

    def __call__(self, queries: Sequence[Query], max_articles: int) -> list[list[int]]:
        """Returns up to `max_articles` different article numbers for each query, best first."""
        ...


class Bm25:
    """Finds articles by BM25, with the words of the claim and its context as the query."""

    def __init__(self, knowledge_base: KnowledgeBase):
        self._knowledge_base = knowledge_base

    def __call__(self, queries: Sequence[Query], max_articles: int) -> list[list[int]]:
        return [self._knowledge_base.search(query.text, max_articles) for query in queries]


class Entities:
    """Finds articles by names in claims (entities and noun chunks), at most three for each name.

    The first articles of all names come first, then the second ones. Names of the claim come before
    names of its context, and names with rare words before others. If the tagger finds no noun
    chunks, sequences of words that are article names are used instead.
    """

    def __init__(self, knowledge_base: KnowledgeBase, tagger: Tagger):
        self._knowledge_base, self._tagger = knowledge_base, tagger

    def __call__(self, queries: Sequence[Query], max_articles: int) -> list[list[int]]:
        texts = [(query.claim, *reversed(query.context)) for query in queries]
        tagged = iter(self._tagger.tag(list(itertools.chain.from_iterable(texts))))
        articles = []
        for parts in texts:
            query_texts = itertools.islice(tagged, len(parts))
            names = dict.fromkeys(name for text in query_texts for name in self._find_names(text))
            articles_by_name = [self._knowledge_base.lookup(name) for name in names]
            # The first articles of all names, then the second ones …, without duplicates.
            rounds = itertools.chain.from_iterable(itertools.zip_longest(*articles_by_name))
            numbers = [number for number in dict.fromkeys(rounds) if number is not None]
            articles.append(numbers[:max_articles])
        return articles

    def subjects(self, query: Query) -> list[str]:
        """Returns the article names in a claim, and in its context if necessary.

        The context is necessary if the claim has no name, or has a pronoun, which may refer to a
        name in the context.
        """
        texts = self._tagger.tag([query.claim, *query.context])
        claim_names, *context_names = (
            [n for n in self._find_names(text) if self._knowledge_base.find_by_name(n)]
            for text in texts
        )
        if claim_names and not _PRONOUN.search(query.claim):
            context_names = []
        return list(dict.fromkeys(itertools.chain(claim_names, *context_names)))

    def _find_names(self, text: TaggedText) -> list[str]:
        """Returns the names in a text, those with the rarest words first."""
        entities = [entity.text for entity in text.entities if entity.type not in _NUMBERS]
        chunks = [chunk.text for chunk in text.noun_chunks] or self._find_titles(text)
        names = list(filter(None, map(_strip_function_words, (*entities, *chunks))))
        counts = self._knowledge_base.article_counts(names)
        return [
            name for _, name in sorted(zip(counts, names, strict=True), key=lambda pair: pair[0])
        ]

    def _find_titles(self, text: TaggedText) -> Iterator[str]:
        """Yields sequences of words that are article names, the longest one from each word on."""
        words = [token for token in text.tokens if token.text[0].isalnum()]
        start = 0
        while start < len(words):
            for end in range(min(start + _LONGEST_TITLE, len(words)), start, -1):
                name = text.text[words[start].start : words[end - 1].end]
                if _strip_function_words(name) == name and (title := self._article_name(name)):
                    yield title
                    start = end - 1
                    break
            start += 1

    def _article_name(self, name: str) -> str:
        """Returns a name or its singular, whichever an article has; otherwise ""."""
        endings = _PLURALS if len(name) > 3 else {}
        singulars = (
            name[: -len(plural)] + singular
            for plural, singular in endings.items()
            if name.endswith(plural)
        )
        forms = itertools.chain([name], singulars)
        return next((form for form in forms if self._knowledge_base.find_by_name(form)), "")


def _strip_function_words(name: str) -> str:
    """Returns a name without function words at its ends; "" if only colloquial words are left.

    >>> [*map(_strip_function_words, ("the history of tea", "New York", "a lot of people"))]
    ['history of tea', 'New York', '']
    """
    words = name.split()
    if set(content(name)) <= _COLLOQUIAL:
        return ""
    says = [bool(content(word)) for word in words]
    return " ".join(words[says.index(True) : len(says) - says[::-1].index(True)])


def fuse_rankings(rankings: Sequence[Sequence[int]], max_articles: int) -> list[int]:
    """Merges rankings of articles by reciprocal rank fusion, best first.

    An article's score is the sum of 1 / (60 + rank) over the rankings that contain it.

    Reference: Cormack 2009, Reciprocal Rank Fusion Outperforms Condorcet.

    >>> fuse_rankings([[1, 2, 3], [3, 4]], 2)
    [3, 1]
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, number in enumerate(ranking, 1):
            scores[number] = scores.get(number, 0.0) + 1 / (_RANK_CONSTANT + rank)
    return sorted(scores, key=lambda number: -scores[number])[:max_articles]
