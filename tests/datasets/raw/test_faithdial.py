import json

import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.raw import faithdial

TURN = {
    "history": ["Hello."],
    "speaker": "Wizard",
    "knowledge": "Tea is a leaf.",
    "original_response": "I love tea.",
    "response": "It is a leaf.",
    "BEGIN": ["Hallucination", "Entailment"],
    "VRM": ["Disclosure"],
}


def write(tmp_path, dialogues):
    path = tmp_path / "train.json"
    path.write_text(json.dumps(dialogues), encoding="utf-8")
    return path


def dialogue(*turns, **fields):
    return {"dialog_idx": 7, "utterances": list(turns)} | fields


def test_fields_of_a_turn(tmp_path):
    path = write(tmp_path, [dialogue(TURN, TURN | {"original_response": None})])
    first, second = faithdial.read_turns(path, BadRows())
    assert first == {
        "id": "train-7-0",
        "dialogue": 7,
        "turn": 0,
        "speaker": "Wizard",
        "history": ["Hello."],
        "knowledge": "Tea is a leaf.",
        "response": "It is a leaf.",
        "original_response": "I love tea.",
        "begin_labels": ["Hallucination", "Entailment"],
        "vrm_labels": ["Disclosure"],
        "control_tokens": [],
        "negatives": ["I love tea."],
    }
    assert (second["id"], second["original_response"]) == ("train-7-1", "")
    assert faithdial.wow_response(first) == "I love tea."
    assert faithdial.wow_response(second) == "It is a leaf."


def test_seekers_turns_are_no_examples(tmp_path):
    path = write(tmp_path, [dialogue(TURN | {"speaker": "Seeker"}, TURN)])
    rows = list(faithdial.FAITHDIAL.examples({"train.json": path}, "train"))
    assert [row["id"] for row in rows] == ["train-7-1"]
    assert rows[0].keys() == faithdial.FAITHDIAL.features.keys()


@pytest.mark.parametrize(
    ("begin", "original", "tested", "trained", "with_all_edits"),
    [
        (
            ["Hallucination", "Entailment"],
            "I.",
            [("I.", "wow", 0)],
            [("I.", "wow", 0), ("R.", "edited", 1)],
            [("I.", "wow", 0), ("R.", "edited", 1)],
        ),
        (
            ["Entailment"],
            None,
            [("R.", "wow", 1)],
            [("R.", "wow", 1), ("R.", "kept", 1)],
            [("R.", "wow", 1)],
        ),
        (
            ["Hallucination"],
            None,
            [("R.", "wow", 0)],
            [("R.", "wow", 0), ("R.", "kept", 1)],
            [("R.", "wow", 0)],
        ),
        (["Generic"], "I.", [], [], [("R.", "edited", 1)]),
        (["Uncooperative"], None, [], [], []),
    ],
)
def test_critic_examples(tmp_path, begin, original, tested, trained, with_all_edits):
    """The authors' code adds FaithDial's responses in training alone; the option in all splits."""
    turn = TURN | {"BEGIN": begin, "original_response": original, "response": "R."}
    path = write(tmp_path, [dialogue(turn)])

    def read(dataset, split, name):
        rows = list(dataset.examples({name: path}, split))
        assert all(row.keys() == dataset.features.keys() for row in rows)
        assert len({row["id"] for row in rows}) == len(rows)
        return [(row["response"], row["source"], row["label"]) for row in rows]

    for split, name in (("train", "train"), ("validation", "valid"), ("test", "test")):
        found = read(faithdial.FAITH_CRITIC, split, f"{name}.json")
        assert found == (trained if split == "train" else tested)
        found = read(faithdial.FAITH_CRITIC_ALL_EDITS, split, f"{name}.json")
        assert found == with_all_edits


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"knowledge": ""}, r"field 'utterances\[1\].knowledge': expected a text"),
        ({"BEGIN": ["Halucination"]}, "Did you mean 'Hallucination'"),
        ({"negative_samples": ["x", " "]}, r"negative_samples\[1\]': expected a text"),
        ({"control_tokens": ["<entailed>"] * 3}, r"control_tokens\[0\]': expected one of <no-f"),
    ],
)
def test_bad_turns(tmp_path, change, message):
    path = write(tmp_path, [dialogue(TURN, TURN | change), dialogue(TURN)])
    with pytest.raises(InputError, match=message):
        list(faithdial.read_turns(path, BadRows()))
    bad_rows = BadRows(skip=True)
    kept = [turn["turn"] for turn in faithdial.read_turns(path, bad_rows)]
    assert (kept, bad_rows.count) == ([0], 1)


def test_bad_dialogues(tmp_path):
    last = dialogue(TURN, dialog_idx=8)
    path = write(tmp_path, [dialogue(TURN), {"utterances": 3}, 5, dialogue("x"), last])
    with pytest.raises(InputError, match=r"train.json: \[1\]: field 'utterances'"):
        list(faithdial.read_turns(path, BadRows()))
    bad_rows = BadRows(skip=True)
    assert len(list(faithdial.read_turns(path, bad_rows))) == 2
    assert bad_rows.count == 3


def test_each_dialogue_has_a_number_of_its_own(tmp_path):
    """Numbers name the turns' control tokens and negatives: two files in one begin again at 0."""
    path = write(tmp_path, [dialogue(TURN), dialogue(TURN, TURN, dialog_idx=8), dialogue(TURN)])
    message = r"train.json: \[2\]: field 'dialog_idx': expected a number of its own \(that of "
    with pytest.raises(InputError, match=message):
        list(faithdial.read_turns(path, BadRows()))
    bad_rows = BadRows(skip=True)
    assert len(list(faithdial.read_turns(path, bad_rows))) == 3
    assert bad_rows.count == 1


@pytest.mark.parametrize(
    ("labels", "original", "samples", "negatives"),
    [
        (["Hallucination"], "w", ["a", "b"], ["w", "a", "b"]),
        (["Hallucination", "Entailment"], "w", ["w ", "a", "a  "], ["w", "a"]),
        (["Entailment"], "w", ["a"], ["a"]),
        (["Hallucination"], "", ["r", " r", "a"], ["a"]),  # it was kept: the positive itself
        ([], "w", [], []),
    ],
)
def test_negatives_are_hallucinations_and_samples(labels, original, samples, negatives):
    turn = {"response": "r", "original_response": original, "begin_labels": labels}
    assert faithdial.negative_responses(turn, samples) == negatives


def test_negatives_of_a_file(tmp_path):
    path = write(tmp_path, [dialogue(TURN | {"negative_samples": ["One.", "Two."]}, TURN)])
    first, second = (turn["negatives"] for turn in faithdial.read_turns(path, BadRows()))
    assert first == [*second, "One.", "Two."]


def tokens_of(tmp_path, split, *turns, bad_rows=None):
    dataset = faithdial.FAITHDIAL_CONTROL_TOKENS
    (name,) = dataset.splits[split]
    path = tmp_path / name
    path.write_text(json.dumps([dialogue(*turns)]), encoding="utf-8")
    rows = list(dataset.examples({name: path}, split, bad_rows or BadRows()))
    return [(row["id"], row["control_tokens"]) for row in rows]


def test_control_tokens(tmp_path):
    tokens = ["<first-person>", "<med-prec>", "<non-entailed>"]
    faithful = ["<no-first-person>", "<high-prec>", "<entailed>"]
    marked = TURN | {"control_tokens": tokens}
    assert tokens_of(tmp_path, "train", marked) == [("train-7-0", tokens)]
    assert tokens_of(tmp_path, "validation", marked) == [("valid-7-0", tokens)]
    assert tokens_of(tmp_path, "test", marked, TURN) == [
        ("test-7-0", faithful),
        ("test-7-1", faithful),
    ]


def test_a_turn_without_control_tokens(tmp_path):
    marked = TURN | {"control_tokens": ["<first-person>", "<low-prec>", "<entailed>"]}
    message = r"the turn train-7-1 has no control_tokens; faith-jax control-tokens adds them"
    with pytest.raises(InputError, match=message):
        tokens_of(tmp_path, "train", marked, TURN)
    bad_rows = BadRows(skip=True)
    assert len(tokens_of(tmp_path, "train", marked, TURN, bad_rows=bad_rows)) == 1
    assert bad_rows.count == 1
