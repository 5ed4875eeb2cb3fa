"""Passages of texts that share the most words with a sentence, as premises for an NLI model."""

from collections.abc import Iterable
from typing import NamedTuple

from faith_jax.core.words import split_sentences
from faith_jax.statistics.texts.text_metrics import content_words


class MatchedPassage(NamedTuple):
    """One or a few neighbouring sentences, and their share of a sentence's content words."""

    text: str
    share: float


class PassageFinder:
    """Finds passages in texts by the stems of content words.

    >>> finder = PassageFinder(["Tea is a drink. It is hot. Rain is wet."])
    >>> [passage.text for passage in finder("Tea is hot.", 1)]
    ['Tea is a drink.', 'Tea is a drink. It is hot.']
    """

    def __init__(self, texts: Iterable[str]):
        self._sentences = [sentence for text in texts for sentence in split_sentences(text)]
        self._content_stems = [
            {word.stem for word in content_words(sentence)} for sentence in self._sentences
        ]

    def __call__(self, sentence: str, most: int) -> list[MatchedPassage]:
        """Returns the `most` best-matching sentences, and the best one with its neighbours.

        Sentences are ranked by shared content words; ties are in the order of the texts.
        """
        words = [word.stem for word in content_words(sentence)]
        shared = [sum(word in stems for word in words) for stems in self._content_stems]
        order = sorted(range(len(shared)), key=lambda number: (-shared[number], number))
        # A sentence without content words gets a share of 0, not 0 / 0.
        count = max(1, len(words))
        passages = [MatchedPassage(self._sentences[n], shared[n] / count) for n in order[:most]]
        if len(order) > 1:
            near = slice(max(order[0] - 1, 0), order[0] + 2)
            stems = set[str]().union(*self._content_stems[near])
            share = sum(word in stems for word in words) / count
            passages.append(MatchedPassage(" ".join(self._sentences[near]), share))
        return passages
