"""Dialogue NLI (Welleck 2019): pairs of dialogue sentences about personas, with three labels."""

import pathlib
from collections.abc import Iterator

import msgspec

from faith_jax.core.labels import DialogueNliLabel
from faith_jax.core.rows import BadRows, Row, read_jsonl, read_lines
from faith_jax.core.schema import Text
from faith_jax.datasets.json_items import read_array
from faith_jax.datasets.raw_dataset import Examples, each_row, load_card


class Pair(msgspec.Struct):
    """Two sentences with their relation triples."""

    id: Text
    sentence1: Text
    sentence2: Text
    label: DialogueNliLabel
    triple1: list[Text] = []
    triple2: list[Text] = []
    dtype: str = ""


def _read_rows(path: pathlib.Path, bad_rows: BadRows) -> Iterator[Row]:
    """Reads one JSON array, as the authors' files are whatever their names say, or JSON lines."""
    start = next((line.lstrip()[:1] for line in read_lines(path) if line.strip()), b"")
    return read_array(path, bad_rows=bad_rows) if start == b"[" else read_jsonl(path, bad_rows)


def _build_example(row: Pair, place: str) -> Examples:
    yield {
        "id": row.id,
        "premise": row.sentence1,
        "hypothesis": row.sentence2,
        "premise_triple": row.triple1,
        "hypothesis_triple": row.triple2,
        "pair_type": row.dtype,
        "label": row.label.nli.value,
    }


DIALOGUE_NLI = load_card("dialogue_nli", each_row(_read_rows, Pair, _build_example))
