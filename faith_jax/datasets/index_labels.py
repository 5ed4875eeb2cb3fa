"""Makes ids of the labels of a frame's index, whatever the form of the table.

So the rows of a frame keep their ids if the frame lacks some or has them in another order.

>>> ids = find_index_ids([7, 0, 12])
>>> [ids.id_of(label) for label in (7, 0, 12)], ids.describe()
(['8', '1', '13'], 'the ids are the index, counted from 1 (label 0 is id 1)')
"""

import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from faith_jax.core.rows import Seen

# A whole number as written by pandas if another cell of the column is missing.
WHOLE_FLOAT = re.compile(r"\d+[.,]0")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")


class IndexIds(NamedTuple):
    """How labels become ids.

    Attributes:
      added: the number that is added to each label; None = the labels are taken as they are.
      are_row_numbers: the ids are just the rows' numbers, counted from 1.
    """

    added: int | None
    are_row_numbers: bool

    def id_of(self, label: Any) -> str:
        """Returns the id of the row with a label."""
        return str(label).strip() if self.added is None else str(int(_text(label)) + self.added)

    def describe(self) -> str:
        """Returns a note on the ids."""
        return "the ids are the index" + (", counted from 1 (label 0 is id 1)" * bool(self.added))


def find_index_ids(labels: Iterable[Any], may_be_from_one: bool = False) -> IndexIds | None:
    """Returns how the labels of all rows of a table become ids; None if they cannot.

    Distinct whole numbers count rows from 0, and other distinct labels are ids themselves. If
    numbers `may_be_from_one`, as R writes them, they do not count from 0 unless 0 is there.
    """
    seen, are_numbers = Seen(), True
    lowest, shifts = math.inf, set[int]()  # the differences to the places, up to two of them
    for place, label in enumerate(labels):
        text = _text(label)
        if type(label) not in (str, int, float) or label != label or not text or not seen.add(text):
            return None
        are_numbers = are_numbers and _NUMBER.fullmatch(text) is not None
        if are_numbers:
            lowest = min(lowest, int(text))
            if len(shifts) < 2:
                shifts.add(int(text) - place)
    if not are_numbers:
        return IndexIds(None, False)
    added = 0 if may_be_from_one and lowest else 1
    return IndexIds(added, shifts <= {1 - added})


def _text(label: Any) -> str:
    text = str(label).strip()
    return text[:-2] if WHOLE_FLOAT.fullmatch(text) else text
