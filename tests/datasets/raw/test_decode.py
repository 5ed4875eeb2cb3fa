import json

import pytest

from faith_jax.core.errors import InputError
from faith_jax.datasets.raw.decode import DECODE

TEXTS = ("Do you bake?", "I bake every day.", "Nice.", "I have never baked.")


def dialogue(**changes):
    return {
        "record_id": "r-1",
        "turns": [
            {"turn_id": n, "agent_id": n % 2, "text": text, "turn_context": ""}
            for n, text in enumerate(TEXTS)
        ],
        "is_contradiction": True,
        "aggregated_contradiction_indices": [1, 3],
    } | changes


def read(tmp_path, *dialogues):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(d) + "\n" for d in dialogues), encoding="utf-8")
    return list(DECODE.examples({path.name: path}, "train"))


def test_fields(tmp_path):
    right = dialogue(is_contradiction=False, aggregated_contradiction_indices=[])
    assert read(tmp_path, dialogue(), right) == [
        {
            "id": "r-1",
            "history": list(TEXTS[:3]),
            "response": TEXTS[3],
            "contradicted": ["I bake every day."],
            "label": "contradiction",
        },
        {
            "id": "r-1",
            "history": list(TEXTS[:3]),
            "response": TEXTS[3],
            "contradicted": [],
            "label": "not_contradiction",
        },
    ]


def test_turns_are_found_by_their_ids(tmp_path):
    turns = [turn | {"turn_id": turn["turn_id"] + 10} for turn in dialogue()["turns"]]
    (row,) = read(tmp_path, dialogue(turns=turns, aggregated_contradiction_indices=[12, 10, 13]))
    assert row["contradicted"] == ["Nice.", "Do you bake?"]


def turns_with(**change):
    first, *others = dialogue()["turns"]
    return [first | change, *others]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"turns": []}, "field 'turns': expected a list of at least 2 items"),
        ({"turns": turns_with(text=" ")}, r"field 'turns\[0\].text': expected a text"),
        ({"is_contradiction": "yes"}, "field 'is_contradiction': expected true or false"),
        (
            {"aggregated_contradiction_indices": [1, 4]},
            r"field 'aggregated_contradiction_indices': expected turn_ids of turns \(0, 1",
        ),
        ({"aggregated_contradiction_indices": []}, "expected turn_ids of turns"),
    ],
)
def test_bad_dialogues(tmp_path, change, message):
    with pytest.raises(InputError, match=rf"train\.jsonl:2: .*{message}"):
        read(tmp_path, dialogue(), dialogue(**change))
