import json

import pytest

from faith_jax.core.errors import InputError
from faith_jax.datasets.raw.own_files import NLI, TEXT_TO_TEXT

PAIR = {"id": "1", "premise": "P.", "hypothesis": "H.", "label": "neutral"}
TEXT = {"id": "1", "inputs": "copy: Tea.", "targets": "Tea."}


def read(tmp_path, dataset, *rows):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return list(dataset.examples({path.name: path}, "train"))


@pytest.mark.parametrize(("dataset", "row"), [(NLI, PAIR), (TEXT_TO_TEXT, TEXT)])
def test_rows_are_examples(tmp_path, dataset, row):
    assert read(tmp_path, dataset, row | {"note": 3}) == [row]


@pytest.mark.parametrize(
    ("dataset", "row", "message"),
    [
        (NLI, PAIR | {"label": "nuetral"}, "Did you mean 'neutral'"),
        (NLI, PAIR | {"premise": " "}, "field 'premise': expected a text that is not empty"),
        (
            NLI,
            {"hypotheses" if n == "hypothesis" else n: v for n, v in PAIR.items()},
            "field 'hypothesis' is missing. Did you mean 'hypotheses'",
        ),
        (TEXT_TO_TEXT, TEXT | {"targets": ""}, "field 'targets': expected a text"),
        (
            TEXT_TO_TEXT,
            {"id": "1", "input": "copy", "targets": "Tea."},
            "field 'inputs' is missing. Did you mean 'input'",
        ),
    ],
)
def test_bad_rows(tmp_path, dataset, row, message):
    good = PAIR if dataset is NLI else TEXT
    with pytest.raises(InputError, match=rf"train\.jsonl:2: .*{message}"):
        read(tmp_path, dataset, good, row)
