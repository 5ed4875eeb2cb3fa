"""From Wizard of Wikipedia to a verifier's figures: what `mutate-claims` plants is what it learns.

All claims are made false by "not" alone. A verifier that is trained on them tells claims that
are false in this way, and no others.
"""

import itertools
import json

import pytest

from tests.reproduce.planted import write_rows
from tests.scoring.tiny_models import write_t5

NOUNS = ("house", "river", "school", "city", "book", "team", "song", "road", "garden", "ship")
ADJECTIVES = ("green", "famous", "busy", "empty", "quiet", "French", "broken", "wooden")
TRAINING = (
    "--gin_file=dialfact_verify_generate_finetune.gin",
    "--gin.MIXTURE_OR_TASK_NAME=dialfact_verify_augmented",
    "--gin.TASK_FEATURE_LENGTHS={'inputs': 64, 'targets': 16}",
    "--gin.TRAIN_STEPS=150",
    "--gin.WARMUP_STEPS=5",
    "--gin.LEARNING_RATE=0.01",
    "--gin.BATCH_SIZE=16",
    "--gin.EVAL_PERIOD=150",
    "--gin.CHECKPOINT_PERIOD=150",
    "--gin.DECODE_LENGTH=16",
)


def statement(noun, adjective, is_true=True):
    return f"The {noun} is {'' if is_true else 'not '}{adjective}."


def write_dialogues(path):
    """Writes Wizard of Wikipedia's file: each dialogue states one thing, as its sentence does."""
    pairs = list(itertools.product(NOUNS, ADJECTIVES))[::2]
    dialogues = []
    for noun, adjective in pairs:
        title, sentence = noun.capitalize(), statement(noun, adjective)
        shown = [{title: [sentence]}]
        dialogues.append({
            "chosen_topic": title,
            "chosen_topic_passage": [sentence],
            "dialog": [
                {"speaker": "0_Apprentice", "text": "Tell me more.", "retrieved_passages": shown},
                {
                    "speaker": "1_Wizard",
                    "text": sentence,
                    "checked_sentence": {f"chosen_{title}_0": sentence},
                    "checked_passage": {f"chosen_topic_0_{title}": title},
                    "retrieved_passages": shown,
                },
            ],
        })  # fmt: skip
    path.parent.mkdir()
    path.write_text(json.dumps(dialogues))
    return len(pairs)


def write_claims(path):
    """Writes DialFact's test claims; the generated ones are refuted by "not", the written not."""
    rows = []
    for n, (noun, adjective) in enumerate(list(itertools.product(NOUNS, ADJECTIVES))[1::2][:30]):
        other = ADJECTIVES[ADJECTIVES.index(adjective) - 1]
        for kind in ("generated", "written"):
            label = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")[n % 3]
            claim = statement(noun, adjective)
            if label == "REFUTES":
                is_planted = kind == "generated"
                claim = statement(noun, adjective if is_planted else other, not is_planted)
            told = NOUNS[NOUNS.index(noun) - 1] if label == "NOT ENOUGH INFO" else noun
            evidence = [told.capitalize(), "", statement(told, adjective), "0"]
            rows.append({
                "id": f"{kind}-{n}", "context_id": str(n), "context": ["Tell me more."],
                "response": claim, "response_label": label, "type_label": "factual",
                "data_type": kind, "evidence_list": [evidence],
            })  # fmt: skip
    write_rows(path, rows)


def test_a_verifier_learns_what_was_planted(command, tmp_path, monkeypatch):
    def run(*arguments):
        status, out, err = command(*arguments)
        assert status == 0, err
        return out

    turns = write_dialogues(tmp_path / "wow" / "train.json")
    made = tmp_path / "claims"
    rules = ("--tagger=rules", "--antonyms=list", "--senses=none", "--validation-share=0.1")
    out = run("mutate-claims", tmp_path / "wow", f"--output={made}", *rules)
    assert f"{turns} NOT ENOUGH INFO, {turns} REFUTES, {turns} SUPPORTS" in out.splitlines()[1]
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(made / "tfds"))
    write_t5(tmp_path / "t5")
    verifier = tmp_path / "verifier"
    base = f"--gin.INITIAL_CHECKPOINT_PATH={tmp_path / 't5'}"
    run("train", *TRAINING, base, f"--gin.MODEL_DIR={verifier}")

    write_claims(tmp_path / "raw" / "test_split.jsonl")
    run("prepare", "dialfact", f"--raw={tmp_path / 'raw'}")
    names = ("claim_supports", "claim_refutes", "claim_not_enough_info")
    options = [
        f"--scorer-option={name}.{option}={value}"
        for name in names
        for option, value in (("model", verifier), ("form", "dialfact"))
    ]
    scores = tmp_path / "scores.jsonl"
    run(
        "score", "--tfds=dialfact", "--split=test", f"--scorers={','.join(names)}", *options,
        "--perspective-column=evidence_titles", f"--output={scores}",
    )  # fmt: skip
    figures = tmp_path / "figures.json"
    run("evaluate", "--protocol=dialfact", scores, f"--json={figures}")
    found = {row["claims"]: row["3-way Acc"] for row in json.loads(figures.read_text())["rows"]}
    # "not" tells a third of the claims; of the others, which overlap alone tells, half are right.
    assert found["generated"] >= 60
    assert found["written"] == pytest.approx(100 / 3, abs=10)
