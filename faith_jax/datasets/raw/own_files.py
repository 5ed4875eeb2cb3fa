"""The user's own files: labelled responses, pairs for inference, and text to text.

The samples have the same forms. ANLI and MultiNLI themselves are read from TFDS.
"""

import hashlib
import pathlib
from collections.abc import Mapping
from typing import Any

import msgspec

from faith_jax.core import templates
from faith_jax.core.errors import field_error
from faith_jax.core.labels import NliLabel
from faith_jax.core.rows import BadRows, parse_rows, read_jsonl
from faith_jax.core.schema import Text, convert_row
from faith_jax.datasets.grounded_rows import Columns, cell_text, file_examples
from faith_jax.datasets.input_rows import input_row
from faith_jax.datasets.raw_dataset import Examples, Paths, each_file, each_row, load_card
from faith_jax.datasets.tables import TableForm, file_form


class _UsualColumns(Columns):
    """The columns of a table that is prepared, for which no options can name other columns."""

    unknown_remedy = "rename it"


# The shares of groundings in the training and validation splits; the rest is the test split.
_TRAIN, _VALIDATION = 0.7, 0.15


class _Pair(msgspec.Struct):
    """A premise and a hypothesis."""

    id: Text
    premise: Text
    hypothesis: Text
    label: NliLabel


class _TextToText(msgspec.Struct):
    """A model's input and target; `tools/make_mini_corpus.py` writes such rows."""

    inputs: Text
    targets: Text


def _read_texts(path: pathlib.Path, bad_rows: BadRows) -> Examples:
    """Yields inputs and targets; a row has these fields, or those of `input_row` and `response`.

    A row without an id gets the number of its line.
    """

    def parse(fields: Mapping[str, Any], place: str) -> dict[str, Any]:
        identifier = cell_text(fields.get("id"), place, "id") or place.rpartition(":")[2]
        if fields.get("targets") is not None:
            texts = convert_row(fields, place, _TextToText)
            return {"id": identifier, **msgspec.structs.asdict(texts)}
        row = input_row(fields, place, identifier)
        response = row.target or ""
        if not response.strip():
            remedy = "give a response to learn, or 'inputs' and 'targets'"
            raise field_error(place, "response", "a text", row.target, remedy)
        # A response to arguments of both sides is put into the format of the input.
        has_format = row.postprocess is templates.npov_response
        targets = templates.npov_generate_targets(response) if has_format else response
        return {"id": identifier, "inputs": row.inputs, "targets": targets}

    yield from parse_rows(read_jsonl(path, bad_rows=bad_rows), parse, bad_rows)


def _read_labelled(paths: Paths, split: str, bad_rows: BadRows) -> Examples:
    """Yields the rows of a split; all rows with the same grounding are in the same split."""
    for path in paths.values():
        for row in file_examples(path, file_form(path, TableForm()), _UsualColumns(), "", bad_rows):
            example, knowledge = row.example, " ".join(row.example.grounding.texts)
            if example.label is None:
                place, expected = f"{path}: row {row.place[1] + 1}", "1 (faithful) or 0"
                remedy = "leave rows without a label out, and name the labels' column 'label'"
                bad_rows.add(field_error(place, "label", expected, None, remedy))
                continue
            digest = hashlib.sha256(knowledge.encode("utf-8", "surrogatepass")).digest()
            share = int.from_bytes(digest[:4], "big") / 2**32
            is_tested = share >= _TRAIN + _VALIDATION
            row_split = "train" if share < _TRAIN else "test" if is_tested else "validation"
            if row_split == split:
                yield {
                    "id": example.id,
                    "knowledge": knowledge,
                    "response": example.response,
                    "label": example.label,
                }


LABELLED_RESPONSES = load_card("labelled_responses", _read_labelled)
NLI = load_card("nli", each_row(read_jsonl, _Pair))
TEXT_TO_TEXT = load_card("text_to_text", each_file(_read_texts))
