"""VitaminC, FEVER and Colloquial Claims: claims without a dialogue, with evidence and labels.

Gupta 2022 compares verifiers that were trained on these data sets (section 5.3, table 6). The
examples have the fields of `dialfact` with an empty context, so that one task serves them all;
every claim has the types "factual" and "written".

- VitaminC (Schuster 2021): a claim with one sentence of an article, before or after a revision.
- FEVER (Thorne 2018), with the text of its evidence (Atanasova 2020): claims that lack evidence
  have retrieved sentences instead.
- Colloquial Claims (Kim 2021): FEVER's claims rewritten as turns of a dialogue; each rewriting of a
  claim is an example.
"""

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

from faith_jax.core.labels import DialFactLabel, DialFactType
from faith_jax.core.rows import read_jsonl
from faith_jax.core.schema import Text, Texts, Whole
from faith_jax.datasets.raw.dialfact import evidence_features
from faith_jax.datasets.raw_dataset import Examples, each_row, load_card

# FEVER's encodings of brackets, colons and quotation marks.
_WRITTEN = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
    "-COLON-": ":",
    "``": '"',
    "''": '"',
}


def plain_text(text: str) -> str:
    """Returns a sentence of FEVER's Wikipedia with plain brackets, colons and quotation marks.

    >>> plain_text("The film -LRB- 1931 -RRB- is called `` M '' .")
    'The film ( 1931 ) is called " M " .'
    """
    for written, mark in _WRITTEN.items():
        text = text.replace(written, mark)
    return text


def _build_example(
    name: str, claim: str, label: DialFactLabel, evidence: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    """Returns a claim with its evidence, given as (title, sentence); see `DIALFACT.features`."""
    sentences = enumerate((title, text) for title, text in evidence if text.strip())
    return {
        "id": name,
        "context_id": "",
        "context": [],
        "response": claim,
        **evidence_features((title, "", text, str(rank)) for rank, (title, text) in sentences),
        "evidence_added": 0,
        "response_label": label.value,
        "type_label": DialFactType.FACTUAL.value,
        "data_type": "written",
        "label": int(label.faithfulness),
    }


class VitamincClaim(msgspec.Struct):
    """A claim with its evidence."""

    unique_id: Text
    claim: Text
    evidence: Text
    label: DialFactLabel
    case_id: Whole | str = ""
    page: str = ""


def _build_vitaminc_example(row: VitamincClaim, place: str) -> Examples:
    yield _build_example(row.unique_id, row.claim, row.label, [(row.page, row.evidence)])


class _FeverClaim(msgspec.Struct):
    """A claim with its evidence, given as lists of page, line number and sentence."""

    id: Whole | Text
    claim: Text
    label: DialFactLabel
    evidence: list[Annotated[list[str | int], msgspec.Meta(min_length=3, max_length=3)]]


def _build_fever_example(row: _FeverClaim, place: str) -> Examples:
    evidence = ((_format_title(str(page)), plain_text(str(text))) for page, _, text in row.evidence)
    yield _build_example(str(row.id), row.claim, row.label, evidence)


def _format_title(page: str) -> str:
    return plain_text(page.replace("_", " "))


class _Sentence(msgspec.Struct):
    """A sentence of an article."""

    title: str
    evidence: str


class _ColloquialClaims(msgspec.Struct):
    """The rewritings of a FEVER claim, with its evidence."""

    fever_id: Whole | Text
    fever_label: DialFactLabel
    colloquial_claims: Texts
    evidences: list[_Sentence]


def _build_colloquial_examples(row: _ColloquialClaims, place: str) -> Examples:
    evidence = [
        (_format_title(sentence.title), plain_text(sentence.evidence)) for sentence in row.evidences
    ]
    for number, claim in enumerate(row.colloquial_claims):
        yield _build_example(f"{row.fever_id}-{number}", claim, row.fever_label, evidence)


VITAMINC = load_card("vitaminc", each_row(read_jsonl, VitamincClaim, _build_vitaminc_example))
FEVER = load_card("fever", each_row(read_jsonl, _FeverClaim, _build_fever_example))
COLLOQUIAL_CLAIMS = load_card(
    "colloquial_claims", each_row(read_jsonl, _ColloquialClaims, _build_colloquial_examples)
)
