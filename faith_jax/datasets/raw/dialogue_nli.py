"""Dialogue NLI (Welleck 2019): pairs of dialogue sentences about personas, with three labels."""

import pathlib
from collections.abc import Iterator
from typing import Any

import msgspec

from faith_jax.core.json_items import read_array
from faith_jax.core.labels import DialogueNliLabel
from faith_jax.core.rows import BadRows, Row, read_jsonl, read_lines
from faith_jax.core.schema import Text
from faith_jax.datasets.raw_dataset import RawDataset, each_row, text_lists, texts

_HOMEPAGE = "https://wellecks.com/dialogue_nli/"


class Pair(msgspec.Struct):
    """Two sentences with their relation triples."""

    id: Text
    sentence1: Text
    sentence2: Text
    label: DialogueNliLabel
    triple1: list[Text] = []
    triple2: list[Text] = []
    dtype: str = ""


def _rows(path: pathlib.Path, bad_rows: BadRows) -> Iterator[Row]:
    """Reads one JSON array, as the authors' files are whatever their names say, or JSON lines."""
    start = next((line.lstrip()[:1] for line in read_lines(path) if line.strip()), b"")
    return read_array(path, bad_rows=bad_rows) if start == b"[" else read_jsonl(path, bad_rows)


def _example(row: Pair, place: str) -> Iterator[dict[str, Any]]:
    yield {
        "id": row.id,
        "premise": row.sentence1,
        "hypothesis": row.sentence2,
        "premise_triple": row.triple1,
        "hypothesis_triple": row.triple2,
        "pair_type": row.dtype,
        "label": row.label.nli.value,
    }


_SPLITS = {
    "train": ("dialogue_nli_train.jsonl",),
    "validation": ("dialogue_nli_dev.jsonl",),
    "test": ("dialogue_nli_test.jsonl",),
    "test_verified": ("dialogue_nli_verified_test.jsonl",),
}

DIALOGUE_NLI = RawDataset(
    name="dialogue_nli",
    splits=_SPLITS,
    features=texts("id", "premise", "hypothesis", "pair_type", "label")
    | text_lists("premise_triple", "hypothesis_triple"),
    read=each_row(_rows, Pair, _example),
    description=(
        "Pairs of Persona-Chat's utterances and persona sentences: entailment (the authors' "
        "positive), neutral or contradiction (negative), as the relation triples of both sentences "
        "say. `pair_type` is how the pair was made; `test_verified` are pairs of test that "
        "annotators verified."
    ),
    homepage=_HOMEPAGE,
    licence="see the home page",
    citation="""
@inproceedings{welleck2019dialogue,
  title = {Dialogue Natural Language Inference},
  author = {Welleck, Sean and Weston, Jason and Szlam, Arthur and Cho, Kyunghyun},
  booktitle = {Proceedings of the 57th Annual Meeting of the Association for Computational
               Linguistics},
  year = {2019},
}
""",
    by_hand=f"Get dialogue_nli.zip from {_HOMEPAGE} and unpack it.",
)
