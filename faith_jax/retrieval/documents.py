"""Documents for claims: by the names in them, by BM25, and by several retrievers together.

A retriever takes queries and returns a ranked list of articles for each; one that multiplies
vectors, or tags texts by a model, takes all queries of a batch at once.

Reference: Gupta 2022, section 5.2.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from faith_jax.datasets.augmentation.tagging import TaggedText, Tagger
from faith_jax.retrieval.knowledge_base import KnowledgeBase, content

ENTITIES, BM25 = "entities", "bm25"
_PLURALS = {"s": "", "es": "", "ies": "y"}  # endings of names, and what a singular has
_RANK_CONSTANT = 60  # Cormack 2009
_LONGEST_TITLE = 6  # words
_NUMBERS = frozenset({"DATE", "TIME", "PERCENT", "MONEY", "QUANTITY", "ORDINAL", "CARDINAL"})
# Words that Wikipedia has articles on, and that say nothing of what a dialogue is about.
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
    """A claim for which documents are wanted, with the turns before it.

    Attributes:
      claim: to check.
      context: turns before it, oldest first, that are searched for too.
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
        """Returns for each query up to `max_articles` articles' numbers, best first, each once."""
        ...


class Bm25:
    """Finds articles by BM25 of their words with those of the claim and its context."""

    def __init__(self, knowledge_base: KnowledgeBase):
        self._knowledge_base = knowledge_base

    def __call__(self, queries: Sequence[Query], max_articles: int) -> list[list[int]]:
        return [self._knowledge_base.search(query.text, max_articles) for query in queries]


class Entities:
    """Finds articles by the names in claims: entities and noun chunks, at most three for each.

    Of the articles, those that a name means first come first. The claim's names stand before those
    of its context, names of rare words before others. Where the tagger finds no noun chunks,
    stretches of words that are names of articles take their place.
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
            # The first articles of all names, then the second ones …, each once.
            rounds = itertools.chain.from_iterable(itertools.zip_longest(*articles_by_name))
            numbers = [number for number in dict.fromkeys(rounds) if number is not None]
            articles.append(numbers[:max_articles])
        return articles

    def subjects(self, query: Query) -> list[str]:
        """Returns the names of articles in a claim; where it has a pronoun or none, its context's.

        A claim with a pronoun is about what its context names as well.
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
        """Returns the names in a text, first those whose words the fewest articles have."""
        entities = [entity.text for entity in text.entities if entity.type not in _NUMBERS]
        chunks = [chunk.text for chunk in text.noun_chunks] or self._find_titles(text)
        names = list(filter(None, map(_strip_function_words, (*entities, *chunks))))
        counts = self._knowledge_base.article_counts(names)
        return [
            name for _, name in sorted(zip(counts, names, strict=True), key=lambda pair: pair[0])
        ]

    def _find_titles(self, text: TaggedText) -> Iterator[str]:
        """Yields stretches of words that are names of articles, the longest from each word on."""
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
        """Returns a name, or its singular, if an article has it."""
        endings = _PLURALS if len(name) > 3 else {}
        singulars = (
            name[: -len(plural)] + singular
            for plural, singular in endings.items()
            if name.endswith(plural)
        )
        forms = itertools.chain([name], singulars)
        return next((form for form in forms if self._knowledge_base.find_by_name(form)), "")


def _strip_function_words(name: str) -> str:
    """Returns a name without function words at its ends; "" where the rest says nothing.

    >>> [*map(_strip_function_words, ("the history of tea", "New York", "a lot of people"))]
    ['history of tea', 'New York', '']
    """
    words = name.split()
    if set(content(name)) <= _COLLOQUIAL:
        return ""
    says = [bool(content(word)) for word in words]
    return " ".join(words[says.index(True) : len(says) - says[::-1].index(True)])


def fuse_rankings(rankings: Sequence[Sequence[int]], max_articles: int) -> list[int]:
    """Returns the articles of several rankings by reciprocal-rank fusion, best first.

    An article's score is the sum of 1 / (60 + its rank) over the rankings that have it.

    Reference: Cormack 2009, Reciprocal Rank Fusion Outperforms Condorcet.

    >>> fuse_rankings([[1, 2, 3], [3, 4]], 2)
    [3, 1]
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, number in enumerate(ranking, 1):
            scores[number] = scores.get(number, 0.0) + 1 / (_RANK_CONSTANT + rank)
    return sorted(scores, key=lambda number: -scores[number])[:max_articles]
