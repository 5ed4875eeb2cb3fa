"""Dialogue NLI (Welleck 2019): pairs of dialogue sentences about personas, with three labels."""

import functools

import msgspec

from faith_jax.core.labels import DialogueNliLabel
from faith_jax.core.schema import Text
from faith_jax.datasets.raw_dataset import Examples, each_row, load_card
from faith_jax.datasets.tables import read_rows


class _Pair(msgspec.Struct):
    """Two sentences with their relation triples."""

    id: Text
    sentence1: Text
    sentence2: Text
    label: DialogueNliLabel
    triple1: list[Text] = []
    triple2: list[Text] = []
    dtype: str = ""


def _build_example(row: _Pair, place: str) -> Examples:
    yield {
        "id": row.id,
        "premise": row.sentence1,
        "hypothesis": row.sentence2,
        "premise_triple": row.triple1,
        "hypothesis_triple": row.triple2,
        "pair_type": row.dtype,
        "label": row.label.nli.value,
    }


# The authors' files are one JSON array, whatever their names say; users' may have lines.
_read = functools.partial(read_rows, form="jsonl")
DIALOGUE_NLI = load_card("dialogue_nli", each_row(_read, _Pair, _build_example))
