import json

import pytest

from faith_jax.core.errors import InputError
from faith_jax.datasets.raw.dialogue_nli import DIALOGUE_NLI
from tests.datasets.raw.files import json_lines, read

PAIR = {
    "label": "negative",
    "sentence1": "my canary sings .",
    "sentence2": "i have no pets .",
    "triple1": ["i", "have_pet", "bird"],
    "triple2": ["i", "not_have", "pets"],
    "dtype": "e2swap_up",
    "id": "dialogue_nli_train_7",
}


def as_array(pairs):
    return "\n" + json.dumps(pairs)


@pytest.mark.parametrize("form", [as_array, json_lines])
def test_fields(tmp_path, form):
    assert read(DIALOGUE_NLI, "train", tmp_path, form([PAIR])) == [
        {
            "id": "dialogue_nli_train_7",
            "premise": "my canary sings .",
            "hypothesis": "i have no pets .",
            "premise_triple": ["i", "have_pet", "bird"],
            "hypothesis_triple": ["i", "not_have", "pets"],
            "pair_type": "e2swap_up",
            "label": "contradiction",
        }
    ]
    path = tmp_path / "dialogue_nli_train.jsonl"
    path.write_bytes(form([PAIR]).replace("canary", "can\xe4ry").encode("cp1252"))
    with pytest.raises(InputError, match="expected UTF-8, got byte 0xe4"):
        list(DIALOGUE_NLI.examples({path.name: path}, "train"))


def test_labels_and_what_may_be_missing(tmp_path):
    plain = {name: PAIR[name] for name in ("id", "sentence1", "sentence2")}
    names = {"positive": "entailment", "neutral": "neutral", "negative": "contradiction"}
    rows = [plain | {"label": label} for label in names]
    rows_read = read(DIALOGUE_NLI, "train", tmp_path, as_array(rows))
    assert [row["label"] for row in rows_read] == list(names.values())
    assert {(*row["premise_triple"], row["pair_type"]) for row in rows_read} == {("",)}
