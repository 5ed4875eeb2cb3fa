import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.raw import faithdial
from tests.datasets.raw.files import read

TURN = {
    "history": ["Hello."],
    "speaker": "Wizard",
    "knowledge": "Tea is a leaf.",
    "original_response": "I love tea.",
    "response": "It is a leaf.",
    "BEGIN": ["Hallucination", "Entailment"],
    "VRM": ["Disclosure"],
}


def dialogue(*turns, number=7):
    return {"dialog_idx": number, "utterances": list(turns)}


def turns(tmp_path, *dialogues, bad_rows=None):
    return read(faithdial.FAITHDIAL, "train", tmp_path, dialogues, bad_rows=bad_rows)


def test_fields_of_a_turn(tmp_path):
    negatives = {"negative_samples": ["One.", "Two."]}
    seeker, kept = TURN | {"speaker": "Seeker"}, TURN | {"original_response": None}
    first, second = turns(tmp_path, dialogue(TURN | negatives, seeker, kept))
    assert first == {
        "id": "train-7-0",
        "dialogue": 7,
        "turn": 0,
        "history": ["Hello."],
        "knowledge": "Tea is a leaf.",
        "response": "It is a leaf.",
        "original_response": "I love tea.",
        "begin_labels": ["Hallucination", "Entailment"],
        "vrm_labels": ["Disclosure"],
        "negatives": ["I love tea.", "One.", "Two."],
    }
    assert (second["id"], second["original_response"]) == ("train-7-2", "")
    assert faithdial.wow_response(first) == "I love tea."
    assert faithdial.wow_response(second) == "It is a leaf."


@pytest.mark.parametrize(
    ("begin", "original", "tested", "trained", "with_all_edits"),
    [
        ("Hallucination Entailment", "I.", "I. wow 0", *["I. wow 0, R. edited 1"] * 2),
        ("Entailment", None, "R. wow 1", "R. wow 1, R. kept 1", "R. wow 1"),
        ("Hallucination", None, "R. wow 0", "R. wow 0, R. kept 1", "R. wow 0"),
        ("Generic", "I.", "", "", "R. edited 1"),
        ("Uncooperative", None, "", "", ""),
    ],
)  # fmt: skip
def test_critic_examples(tmp_path, begin, original, tested, trained, with_all_edits):
    """The authors' code adds FaithDial's responses only in training, the option in all splits."""
    turn = TURN | {"BEGIN": begin.split(), "original_response": original, "response": "R."}

    def examples(dataset, split):
        rows = read(dataset, split, tmp_path, [dialogue(turn)])
        assert all(row.keys() == dataset.features.keys() for row in rows)
        assert len({row["id"] for row in rows}) == len(rows)
        return ", ".join(f"{row['response']} {row['source']} {row['label']}" for row in rows)

    for split in ("train", "validation", "test"):
        expected = trained if split == "train" else tested
        assert examples(faithdial.FAITH_CRITIC, split) == expected
        assert examples(faithdial.FAITH_CRITIC_ALL_EDITS, split) == with_all_edits


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


def test_each_dialogue_has_a_number_of_its_own(tmp_path):
    """Turns' control tokens and negatives are named by number: concatenated files restart at 0."""
    dialogues = dialogue(TURN), dialogue(TURN, TURN, number=8), dialogue(TURN)
    message = r"train.json: \[2\]: field 'dialog_idx': expected a number of its own \(that of "
    with pytest.raises(InputError, match=message):
        turns(tmp_path, *dialogues)
    bad_rows = BadRows(skip=True)
    assert len(turns(tmp_path, *dialogues, bad_rows=bad_rows)) == 3
    assert bad_rows.count == 1


def test_control_tokens(tmp_path):
    tokens = ["<first-person>", "<med-prec>", "<non-entailed>"]
    faithful = ["<no-first-person>", "<high-prec>", "<entailed>"]
    marked = TURN | {"control_tokens": tokens}

    def tokens_of(split, *turns, bad_rows=None):
        dataset, contents = faithdial.FAITHDIAL_CONTROL_TOKENS, [dialogue(*turns)]
        rows = read(dataset, split, tmp_path, contents, bad_rows=bad_rows)
        return {row["id"]: row["control_tokens"] for row in rows}

    assert tokens_of("train", marked) == {"train-7-0": tokens}
    assert tokens_of("validation", marked) == {"valid-7-0": tokens}
    assert tokens_of("test", marked, TURN) == {"test-7-0": faithful, "test-7-1": faithful}
    message = "the turn train-7-1 has no control_tokens; faith-jax control-tokens adds them"
    with pytest.raises(InputError, match=message):
        tokens_of("train", marked, TURN)
    bad_rows = BadRows(skip=True)
    assert list(tokens_of("train", marked, TURN, bad_rows=bad_rows)) == ["train-7-0"]
    assert bad_rows.count == 1
