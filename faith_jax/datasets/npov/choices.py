"""Which arguments of a topic a response is asked for (Chang 2024, section 4.1).

A single response gets as many arguments on both sides as asked for. A study asks for up to 18
distinct combinations per topic, of 1, 2 or 3 arguments a side: the first three get a response at
temperature 0.0 and one at 0.7, the others one at 0.7. Draws depend only on the topic's id, the
numbers of its arguments and the seed.
"""

from typing import NamedTuple

from faith_jax.core.errors import InputError, pluralize
from faith_jax.datasets.augmentation.draws import draw_order
from faith_jax.datasets.npov.topics import Argument, Topic


class Combination(NamedTuple):
    """Arguments of a topic, as many pro as con: indices in the order given."""

    pro: tuple[int, ...]
    con: tuple[int, ...]


def choose_indices(topic: Topic, count: int, seed: int = 0) -> Combination:
    """Draws `count` arguments of a topic on each side.

    Raises:
      InputError: a side has fewer than `count` arguments.
    """
    fewest, side = min((len(topic.pro), "pro"), (len(topic.con), "con"))
    if not 1 <= count <= fewest:
        raise InputError(
            f"topic {topic.id!r} has {pluralize(fewest, f'{side} argument')}: expected a count "
            f"from 1 to {fewest}, got {count}."
        )
    sides = (("pro", topic.pro), ("con", topic.con))
    drawn = (
        draw_order(len(arguments), seed, topic.id, count, name)[:count] for name, arguments in sides
    )
    return Combination(*map(tuple, drawn))


def choose_arguments(
    topic: Topic, count: int, seed: int = 0
) -> tuple[tuple[Argument, ...], tuple[Argument, ...]]:
    """Returns the arguments that `choose_indices` draws, pro and con."""
    pro, con = choose_indices(topic, count, seed)
    return tuple(topic.pro[i] for i in pro), tuple(topic.con[i] for i in con)
