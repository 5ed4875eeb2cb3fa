"""Dialogue NLI (Welleck 2019): pairs of dialogue sentences about personas, with three labels."""

import functools

import msgspec

from faith_jax.core.labels import DialogueNliLabel
from faith_jax.core.schema import Text
from faith_jax.datasets.raw_dataset import Examples, each_row, load_card
from faith_jax.datasets.tables import TableForm, read_rows


class _Pair(msgspec.Struct):
    """Two sentences with their relation triples."""

    id: Text
    premise: Text = msgspec.field(name="sentence1")
    hypothesis: Text = msgspec.field(name="sentence2")
    label: DialogueNliLabel
    premise_triple: list[Text] = msgspec.field(name="triple1", default_factory=list)
    hypothesis_triple: list[Text] = msgspec.field(name="triple2", default_factory=list)
    pair_type: str = msgspec.field(name="dtype", default="")


def _build_example(row: _Pair, place: str) -> Examples:
    yield msgspec.structs.asdict(row) | {"label": row.label.nli.value}


# The authors' files are JSON arrays despite their names; users' files may have lines.
_read = functools.partial(read_rows, form=TableForm(form="jsonl", encoding="utf-8"))
DIALOGUE_NLI = load_card("dialogue_nli", each_row(_read, _Pair, _build_example))
