"""How much of a response is copied from its knowledge: coverage and density (Grusky 2018).

>>> found = extractiveness("Tea is a hot drink.", "In winter tea is a comfort, and a hot drink.")
>>> found.coverage  # all five words are in copied spans: "tea is a", "hot drink"
1.0
>>> found.density  # (3 * 3 + 2 * 2) / 5
2.6
"""

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from faith_jax.words import lower_words


class Extractiveness(NamedTuple):
    """How extractive a response is; NaN for a response without words.

    Attributes:
      coverage: share of the response's words that stand in a copied span, in [0, 1].
      density: mean over the response's words of the length of the span each stands in, from 0
        to the response's length in words; long copies weigh more.
    """

    coverage: float
    density: float


def extractiveness(response: str, knowledge: str) -> Extractiveness:
    """Returns coverage and density of a response; words are compared in lower case.

    Reference: Grusky 2018, section 3; Dziri 2022, section 4.2 and figure 3.
    """
    words, source = lower_words(response), lower_words(knowledge)
    if not words:
        return Extractiveness(math.nan, math.nan)
    lengths = [length for _, length in extractive_fragments(words, source)]
    squares = sum(length * length for length in lengths)
    return Extractiveness(sum(lengths) / len(words), squares / len(words))


def extractive_fragments(
    response: Sequence[Hashable], knowledge: Sequence[Hashable]
) -> list[tuple[int, int]]:
    """Returns the spans of a response that are copied, as (start, length), from left to right.

    Greedy: at each word the longest match in the knowledge is taken, and the search goes on
    behind it. As in the authors' procedure, a match in the knowledge is not searched again from
    its inside, so of overlapping repetitions the first counts.

    Args:
      response: its words.
      knowledge: the words that may be copied.
    """
    places: dict[Hashable, list[int]] = {}
    for place, word in enumerate(knowledge):
        places.setdefault(word, []).append(place)
    fragments, start = [], 0
    while start < len(response):
        length = _longest_match(response, start, knowledge, places.get(response[start], ()))
        if length:
            fragments.append((start, length))
        start += max(length, 1)
    return fragments


def _longest_match(
    response: Sequence[Hashable],
    start: int,
    knowledge: Sequence[Hashable],
    places: Sequence[int],
) -> int:
    longest, free = 0, 0
    for place in places:
        if place < free:
            continue
        end = place
        while (
            end < len(knowledge)
            and start + end - place < len(response)
            and response[start + end - place] == knowledge[end]
        ):
            end += 1
        longest, free = max(longest, end - place), end
    return longest
