"""Random choices that depend on nothing but a seed and names: the same on every machine.

An example's draw does not change with the examples around it, so that data sets can be built in
parallel, in part, or again.
"""

import hashlib


def draw(size: int, seed: int, *names: str | int) -> int:
    """Returns a number from 0 to size - 1, equally likely over seeds and names.

    Args:
      size: at least 1.
      seed: another seed is another draw.
      *names: what the draw is for: an example's id, a purpose.

    >>> [draw(6, 0, "topic", i) for i in range(8)]
    [3, 1, 4, 2, 4, 4, 4, 3]
    """
    if size < 1:
        raise ValueError(f"A draw from {size} items.")
    key = "\n".join([str(seed), *map(str, names)]).encode()
    # 128 bits over any list's size: no number is likelier than another by more than 2**-64.
    return int.from_bytes(hashlib.sha256(key).digest()[:16], "big") % size


def shuffled(size: int, seed: int, *names: str | int) -> list[int]:
    """Returns the numbers from 0 to size - 1 in a drawn order.

    >>> shuffled(5, 0, "topic")
    [4, 3, 0, 1, 2]
    """

    def rank(i: int) -> bytes:
        return hashlib.sha256("\n".join([str(seed), *map(str, names), str(i)]).encode()).digest()

    return sorted(range(size), key=rank)
