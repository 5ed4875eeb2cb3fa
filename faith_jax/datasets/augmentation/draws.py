"""Random choices that depend only on a seed and names, and are the same on every machine.

The draw for an example does not depend on other examples, so data sets can be built in parallel, in
part, or again.
"""

import hashlib


def rank(seed: int, *names: str | int) -> bytes:
    """Returns a sort key that puts the things that names stand for into a random order."""
    return hashlib.sha256("\n".join(map(str, (seed, *names))).encode()).digest()


def draw(size: int, seed: int, *names: str | int) -> int:
    """Returns a number from 0 to size - 1, uniform over seeds and names (such as an example's id).

    >>> [draw(6, 0, "topic", i) for i in range(8)]
    [3, 1, 4, 2, 4, 4, 4, 3]
    """
    # With 128 bits, no number is likelier than another by more than 2**-64.
    return int.from_bytes(rank(seed, *names)[:16], "big") % size


def draw_order(size: int, seed: int, *names: str | int) -> list[int]:
    """Returns the numbers from 0 to size - 1 in a random order.

    >>> draw_order(5, 0, "topic")
    [4, 3, 0, 1, 2]
    """
    return sorted(range(size), key=lambda number: rank(seed, *names, number))
