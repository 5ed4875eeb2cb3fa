"""Combinations of a topic's arguments that a generator responds to (Chang 2024, section 4.1).

Each topic has up to 18 distinct combinations with 1, 2 or 3 arguments a side: the first three get
responses at temperatures 0.0 and 0.7, the others one at 0.7. Draws depend only on the topic's id,
the numbers of its arguments and the seed.
"""

import math
from collections.abc import Iterator
from typing import Any

from faith_jax.core.errors import InputError, pluralize
from faith_jax.datasets.augmentation.draws import draw, draw_order
from faith_jax.datasets.npov.topics import Combination, Topic

MOST_COMBINATIONS = 18
GREEDY, SAMPLED = 0.0, 0.7
TEMPERATURES = (GREEDY, SAMPLED)
# A synthetic coverage error needs an unused argument; ProCon's topics have at least two a side.
LEAST_ARGUMENTS = 2
_LARGEST = 3
_AT_BOTH = 3


def draw_combinations(
    topic: Topic, most: int = MOST_COMBINATIONS, seed: int = 0
) -> tuple[Combination, ...]:
    """Draws up to `most` distinct combinations; a smaller `most` gives a prefix of a larger one.

    Raises:
      InputError: if the topic has fewer than `LEAST_ARGUMENTS` on a side.
    """
    sizes = len(topic.pro), len(topic.con)
    fewest = min(sizes)
    if fewest < LEAST_ARGUMENTS:
        raise InputError(
            f"topic {topic.id!r} has {sizes[0]} pro and {sizes[1]} con: expected at least "
            f"{LEAST_ARGUMENTS} arguments on each side, so that one can be left unused; add "
            "arguments or drop the topic."
        )
    largest = min(_LARGEST, fewest)
    there_are = sum(math.comb(sizes[0], k) * math.comb(sizes[1], k) for k in range(1, largest + 1))
    combinations: dict[tuple[frozenset[int], ...], Combination] = {}
    number = 0
    while len(combinations) < min(most, there_are):
        count = 1 + draw(largest, seed, topic.id, "count", number)
        pro, con = (
            tuple(draw_order(size, seed, topic.id, side, number)[:count])
            for side, size in zip(("pro", "con"), sizes, strict=True)
        )
        combinations.setdefault((frozenset(pro), frozenset(con)), Combination(pro, con))
        number += 1
    return tuple(combinations.values())


def response_rows(
    topic: Topic, most: int = MOST_COMBINATIONS, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """Yields rows for `infer`, one for each response to `draw_combinations` of a topic.

    `id` consists of the topic's id, the combination's number and the temperature; `pro` and `con`
    are the indices of `pro_arguments` and `con_arguments`.
    """
    for number, (pro, con) in enumerate(draw_combinations(topic, most, seed), start=1):
        for temperature in TEMPERATURES if number <= _AT_BOTH else (SAMPLED,):
            yield {
                "id": f"{topic.id}-{number:02d}-t{temperature:.1f}",
                "topic": topic.id,
                "split": topic.split,
                "query": topic.question,
                "pro_arguments": [topic.pro[i].text for i in pro],
                "con_arguments": [topic.con[i].text for i in con],
                "pro": list(pro),
                "con": list(con),
                "temperature": temperature,
            }


def temperatures_note(max_count: int) -> str:
    """Returns text on the temperatures and numbers of the responses to a topic's combinations.

    >>> temperatures_note(2)
    "at temperatures 0.0 and 0.7 to up to 2 combinations of a topic's arguments"
    """
    temperatures = f"at temperatures {GREEDY} and {SAMPLED} to"
    if max_count <= _AT_BOTH:
        return f"{temperatures} up to {pluralize(max_count, 'combination')} of a topic's arguments"
    return (
        f"{temperatures} the first {_AT_BOTH} combinations of a topic's arguments, at {SAMPLED} to "
        f"up to {max_count - _AT_BOTH} more"
    )
