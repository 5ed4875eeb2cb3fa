"""DialFact (Gupta 2022): claims in dialogues, with evidence and labels."""

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from faith_jax.core.fields import choice_field, field_error, list_field, text_field, texts_field
from faith_jax.core.jsonl import read_jsonl
from faith_jax.core.labels import DialFactLabel, DialFactType
from faith_jax.core.rows import BadRows, parsed
from faith_jax.datasets.raw_dataset import INTEGER, TEXT, TEXTS, RawDataset, RawFile, files_by_name

_RAW = (
    "https://raw.githubusercontent.com/salesforce/DialFact/d400b250147e45c106b18e52254b1060f7c1575d"
)
_FILES = files_by_name(
    RawFile(
        "valid_split.jsonl",
        f"{_RAW}/data/valid_split.jsonl",
        "git-blob:31b0a3ea2cae37cca4a2c077e4f642c1773c4100",
    ),
    RawFile(
        "test_split.jsonl",
        f"{_RAW}/data/test_split.jsonl",
        "git-blob:c9d76627f42845e7cf315bd8cc1585973b314ed8",
    ),
)
_ADDED = "gt_evidence_added"


def read_claims(path: pathlib.Path, bad_rows: BadRows) -> Iterator[dict[str, Any]]:
    """Yields the claims of a file; see `DIALFACT.features`."""
    return parsed(read_jsonl(path, bad_rows), _claim, bad_rows)


def _claim(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    label = DialFactLabel(choice_field(row, "response_label", place, DialFactLabel))
    evidence = _evidence(row, place)
    return {
        "id": text_field(row, "id", place),
        "context_id": text_field(row, "context_id", place),
        "context": texts_field(row, "context", place),
        "response": text_field(row, "response", place),
        "evidence_titles": [part["title"] for part in evidence],
        "evidence_urls": [part["url"] for part in evidence],
        "evidence": [part["sentence"] for part in evidence],
        "evidence_ids": [part["id"] for part in evidence],
        "evidence_added": int(any(part["added"] for part in evidence)),
        "response_label": label.value,
        "type_label": choice_field(row, "type_label", place, DialFactType),
        "data_type": choice_field(row, "data_type", place, ("written", "generated")),
        "label": int(label.faithfulness),
    }


def _evidence(row: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    """Returns the entries as they stand: the authors left some sentences empty.

    A fifth item marks evidence of the original utterance that was added to a claim without any.
    """
    found = []
    for number, entry in enumerate(list_field(row, "evidence_list", place, of="entry", minimum=0)):
        if not isinstance(entry, list) or not 4 <= len(entry) <= 5:
            field, expected = f"evidence_list[{number}]", "a list of title, URL, sentence, id"
            raise field_error(place, field, expected, entry)
        if not all(isinstance(part, str) for part in entry[:4]):
            raise field_error(place, f"evidence_list[{number}]", "four texts", entry)
        title, url, sentence, index = entry[:4]
        found.append(
            {
                "title": title,
                "url": url,
                "sentence": sentence,
                "id": index,
                "added": int(entry[4:] == [_ADDED]),
            }
        )
    return found


def _read(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    for path in paths.values():
        yield from read_claims(path, bad_rows)


DIALFACT = RawDataset(
    name="dialfact",
    splits={"validation": ("valid_split.jsonl",), "test": ("test_split.jsonl",)},
    files=_FILES,
    features={
        "id": TEXT,
        "context_id": TEXT,
        "context": TEXTS,
        "response": TEXT,
        "evidence_titles": TEXTS,
        "evidence_urls": TEXTS,
        "evidence": TEXTS,
        "evidence_ids": TEXTS,
        "evidence_added": INTEGER,
        "response_label": TEXT,
        "type_label": TEXT,
        "data_type": TEXT,
        "label": INTEGER,
    },
    read=_read,
    description=(
        "Claims that continue a dialogue, written by people or generated, with evidence sentences "
        "from Wikipedia: SUPPORTS, REFUTES or NOT ENOUGH INFO. Label 1 = supported."
    ),
    homepage="https://github.com/salesforce/DialFact",
    licence="BSD-3-Clause",
    citation="""
@inproceedings{gupta2022dialfact,
  title = {{DialFact}: A Benchmark for Fact-Checking in Dialogue},
  author = {Gupta, Prakhar and Wu, Chien-Sheng and Liu, Wenhao and Xiong, Caiming},
  booktitle = {Proceedings of the 60th Annual Meeting of the Association for Computational
               Linguistics},
  year = {2022},
}
""",
)
