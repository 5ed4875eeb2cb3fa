"""TRUE's corpora of paraphrases and fact verification: PAWS, FEVER and VitaminC."""

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from faith_jax.core.errors import InputError
from faith_jax.core.fields import choice_field, required, text_field
from faith_jax.core.jsonl import read_jsonl
from faith_jax.core.rows import BadRows, parsed
from faith_jax.datasets.delimited import read_tsv
from faith_jax.datasets.raw.true.schema import corpus, row
from faith_jax.datasets.raw_dataset import RawFile

_SUPPORTS = "SUPPORTS"
_VERDICTS = (_SUPPORTS, "REFUTES", "NOT ENOUGH INFO")
_PAWS_FILE, _VITAMINC_FILE = "paws_wiki_dev.tsv", "vitaminc_dev.jsonl"
_FEVER_ITEMS, _FEVER_LABELS = "dev_fitems.jsonl", "shared_task_dev.jsonl"


def _read_paws(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    columns = ("id", "sentence1", "sentence2", "label")
    yield from parsed(read_tsv(paths[_PAWS_FILE], columns, bad_rows), _paws_example, bad_rows)


def _paws_example(fields: Mapping[str, Any], place: str) -> dict[str, Any]:
    identifier = text_field(fields, "id", place)
    return row(
        "paws",
        identifier,
        identifier,
        text_field(fields, "sentence1", place),
        text_field(fields, "sentence2", place),
        int(choice_field(fields, "label", place, ("0", "1"))),
    )


def _read_fever(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    """Items without a context are left out; the label is the claim's, by its id."""
    verdicts = {}
    for place, fields in read_jsonl(paths[_FEVER_LABELS]):
        verdicts[str(required(fields, "id", place))] = choice_field(
            fields, "label", place, _VERDICTS
        )

    def example(fields: Mapping[str, Any], place: str) -> dict[str, Any]:
        claim = str(required(fields, "cid", place))
        if claim not in verdicts:
            raise InputError(f"{place}: field 'cid': {_FEVER_LABELS} has no claim {claim}.")
        query = text_field(fields, "query", place)
        context = text_field(fields, "context", place)
        return row("fever", claim, claim, context, query, verdicts[claim] == _SUPPORTS)

    items = (r for r in read_jsonl(paths[_FEVER_ITEMS], bad_rows) if r.fields.get("context") != "")
    yield from parsed(items, example, bad_rows)


def _read_vitaminc(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    yield from parsed(read_jsonl(paths[_VITAMINC_FILE], bad_rows), _vitaminc_example, bad_rows)


def _vitaminc_example(fields: Mapping[str, Any], place: str) -> dict[str, Any]:
    identifier = text_field(fields, "unique_id", place)
    verdict = choice_field(fields, "label", place, _VERDICTS)
    evidence = text_field(fields, "evidence", place)
    claim = text_field(fields, "claim", place)
    source = str(fields.get("case_id") or identifier)
    return row("vitaminc", identifier, source, evidence, claim, verdict == _SUPPORTS)


PAWS = corpus(
    "paws",
    [RawFile(_PAWS_FILE)],
    _read_paws,
    "Pairs of Wikipedia sentences with many words in common (Zhang 2019), the labelled "
    "development part; consistent = paraphrase.",
    "free for any purpose (google-research-datasets/paws)",
    "Get PAWS-Wiki Labeled (Final) from https://github.com/google-research-datasets/paws and put "
    f"its final/dev.tsv there as {_PAWS_FILE}.",
)
FEVER = corpus(
    "fever",
    [RawFile(_FEVER_ITEMS), RawFile(_FEVER_LABELS)],
    _read_fever,
    "FEVER's development claims with the evidence of NLI-FEVER (Nie 2019); consistent = SUPPORTS.",
    "CC BY-SA 3.0",
    f"Get {_FEVER_ITEMS} from nli_fever.zip (https://github.com/easonnie/combine-FEVER-NSMN) and "
    f"{_FEVER_LABELS} from https://fever.ai/dataset/fever.html.",
)
VITAMINC = corpus(
    "vitaminc",
    [RawFile(_VITAMINC_FILE)],
    _read_vitaminc,
    "Claims with evidence from revisions of Wikipedia (Schuster 2021), the development part; "
    "consistent = SUPPORTS.",
    "MIT; Wikipedia's text: CC BY-SA 3.0",
    "Get vitaminc.zip from https://github.com/TalSchuster/VitaminC and put its vitaminc/dev.jsonl "
    f"there as {_VITAMINC_FILE}.",
)
