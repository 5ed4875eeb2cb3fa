import json

import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.raw.dialogue_nli import DIALOGUE_NLI

PAIR = {
    "label": "negative",
    "sentence1": "my canary sings .",
    "sentence2": "i have no pets .",
    "triple1": ["i", "have_pet", "bird"],
    "triple2": ["i", "not_have", "pets"],
    "dtype": "e2swap_up",
    "id": "dialogue_nli_train_7",
}


def read(tmp_path, text, bad_rows=None):
    path = tmp_path / "dialogue_nli_train.jsonl"
    path.write_text(text, encoding="utf-8")
    return list(DIALOGUE_NLI.examples({path.name: path}, "train", bad_rows))


def as_array(*pairs):
    return "\n" + json.dumps(pairs)


def as_lines(*pairs):
    return "".join(json.dumps(pair) + "\n" for pair in pairs)


@pytest.mark.parametrize("form", [as_array, as_lines])
def test_fields(tmp_path, form):
    assert read(tmp_path, form(PAIR)) == [
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


def test_labels_and_what_may_be_missing(tmp_path):
    plain = {name: PAIR[name] for name in ("id", "sentence1", "sentence2")}
    names = {"positive": "entailment", "neutral": "neutral", "negative": "contradiction"}
    found = read(tmp_path, as_array(*(plain | {"label": label} for label in names)))
    assert [row["label"] for row in found] == list(names.values())
    assert {(*row["premise_triple"], row["pair_type"]) for row in found} == {("",)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "entailment"}, "field 'label': expected one of positive, neutral, negative"),
        ({"sentence1": " "}, "field 'sentence1': expected a text that is not empty"),
        ({"triple1": ["i", 3, "x"]}, r"field 'triple1\[1\]': expected a text"),
    ],
)
def test_bad_pairs(tmp_path, change, message):
    bad = PAIR | change
    with pytest.raises(InputError, match=rf"dialogue_nli_train\.jsonl: \[1\]: {message}"):
        read(tmp_path, as_array(PAIR, bad))
    with pytest.raises(InputError, match=rf"dialogue_nli_train\.jsonl:2: {message}"):
        read(tmp_path, as_lines(PAIR, bad))
    bad_rows = BadRows(skip=True)
    assert len(read(tmp_path, as_array(bad, PAIR), bad_rows)) == 1
    assert bad_rows.count == 1


@pytest.mark.parametrize("form", [as_array, as_lines])
def test_what_is_no_utf_8(tmp_path, form):
    path = tmp_path / "dialogue_nli_train.jsonl"
    path.write_bytes(form(PAIR).replace("canary", "can\xe4ry").encode("cp1252"))
    with pytest.raises(InputError, match="expected UTF-8, got byte 0xe4"):
        list(DIALOGUE_NLI.examples({path.name: path}, "train"))
