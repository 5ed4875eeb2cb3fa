"""Dialogue NLI (Welleck 2019): pairs of dialogue sentences about personas, with three labels."""

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from faith_jax.core.fields import choice_field, optional_text, text_field, texts_field
from faith_jax.core.json_items import read_array
from faith_jax.core.jsonl import read_jsonl
from faith_jax.core.labels import DialogueNliLabel
from faith_jax.core.rows import BadRows, Row, parsed, read_lines
from faith_jax.datasets.raw_dataset import TEXT, TEXTS, RawDataset, RawFile, files_by_name

_HOMEPAGE = "https://wellecks.com/dialogue_nli/"


def read_pairs(path: pathlib.Path, bad_rows: BadRows) -> Iterator[dict[str, Any]]:
    """Yields the pairs of a file; see `DIALOGUE_NLI.features`.

    Args:
      path: dialogue_nli_train.jsonl, …: one JSON array, as the authors' files are whatever their
        names say, or JSON lines.
      bad_rows: what to do with a bad pair.
    """
    return parsed(_rows(path, bad_rows), _pair, bad_rows)


def _rows(path: pathlib.Path, bad_rows: BadRows) -> Iterator[Row]:
    start = next((line.lstrip()[:1] for line in read_lines(path) if line.strip()), b"")
    return read_array(path, bad_rows=bad_rows) if start == b"[" else read_jsonl(path, bad_rows)


def _pair(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    label = DialogueNliLabel(choice_field(row, "label", place, DialogueNliLabel))
    return {
        "id": text_field(row, "id", place),
        "premise": text_field(row, "sentence1", place),
        "hypothesis": text_field(row, "sentence2", place),
        "premise_triple": texts_field(row, "triple1", place),
        "hypothesis_triple": texts_field(row, "triple2", place),
        "pair_type": optional_text(row, "dtype", place),
        "label": label.nli.value,
    }


def _read(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    for path in paths.values():
        yield from read_pairs(path, bad_rows)


_SPLITS = {
    "train": ("dialogue_nli_train.jsonl",),
    "validation": ("dialogue_nli_dev.jsonl",),
    "test": ("dialogue_nli_test.jsonl",),
    "test_verified": ("dialogue_nli_verified_test.jsonl",),
}

DIALOGUE_NLI = RawDataset(
    name="dialogue_nli",
    splits=_SPLITS,
    files=files_by_name(*(RawFile(name) for (name,) in _SPLITS.values())),
    features={
        "id": TEXT,
        "premise": TEXT,
        "hypothesis": TEXT,
        "premise_triple": TEXTS,
        "hypothesis_triple": TEXTS,
        "pair_type": TEXT,
        "label": TEXT,
    },
    read=_read,
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
