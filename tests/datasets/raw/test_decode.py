from faith_jax.datasets.raw.decode import DECODE
from tests.datasets.raw.files import read

TEXTS = ["Do you bake?", "I bake every day.", "Nice.", "I have never baked."]


def dialogue(first_id=0, **changes):
    turns = [{"turn_id": n, "agent_id": n % 2, "text": t} for n, t in enumerate(TEXTS, first_id)]
    return {"record_id": "r-1", "turns": turns} | changes


def test_fields(tmp_path):
    wrong = dialogue(is_contradiction=True, aggregated_contradiction_indices=[1, 3])
    right = dialogue(is_contradiction=False, aggregated_contradiction_indices=[])
    both = {"id": "r-1", "history": TEXTS[:3], "response": TEXTS[3]}
    assert read(DECODE, "train", tmp_path, [wrong, right]) == [
        both | {"contradicted": ["I bake every day."], "label": "contradiction"},
        both | {"contradicted": [], "label": "not_contradiction"},
    ]


def test_turns_are_found_by_their_ids(tmp_path):
    wrong = dialogue(10, is_contradiction=True, aggregated_contradiction_indices=[12, 10, 13])
    (row,) = read(DECODE, "train", tmp_path, [wrong])
    assert row["contradicted"] == ["Nice.", "Do you bake?"]
