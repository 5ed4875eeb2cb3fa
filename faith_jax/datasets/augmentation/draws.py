"""Random choices that depend only on a seed and names: the same on every machine.

The draw for an example does not depend on other examples, so data sets can be built in parallel, in
part, or again.
"""

import hashlib


def _digest(*names: str | int) -> bytes:
    return hashlib.sha256("\n".join(map(str, names)).encode()).digest()


def draw(size: int, seed: int, *names: str | int) -> int:
    """Returns a number from 0 to size - 1, uniform over seeds and names (such as an example's id).

    >>> [draw(6, 0, "topic", i) for i in range(8)]
    [3, 1, 4, 2, 4, 4, 4, 3]
    """
    # 128 bits: no number is likelier than another by more than 2**-64.
    return int.from_bytes(_digest(seed, *names)[:16], "big") % size


def shuffled(size: int, seed: int, *names: str | int) -> list[int]:
    """Returns the numbers from 0 to size - 1 in a drawn order.

    >>> shuffled(5, 0, "topic")
    [4, 3, 0, 1, 2]
    """
    return sorted(range(size), key=lambda number: _digest(seed, *names, number))
