"""A verifier learns the difference that `mutate-claims` plants: "not", only in false claims.

Supported claims have the same texts as those whose evidence is another sentence. So a verifier that
only looks for "not" is right about two claims in three, and one that compares claim and evidence
about more. With shuffled labels of the training claims, there is nothing to learn.
"""

import itertools
import json
import random

import pytest

from tests.scoring.tiny_models import write_model

NOUNS = (
    "house", "river", "school", "city", "book", "team", "song", "road", "garden", "ship",
    "tower", "boat", "farm", "park", "bridge", "shop", "train", "lake", "film", "town",
)  # fmt: skip
ADJECTIVES = (
    "green", "famous", "busy", "empty", "quiet", "broken", "wooden", "huge", "round", "yellow",
)  # fmt: skip
TRAINING = (
    "--gin_file=dialfact_verify_finetune.gin",
    "--gin.TASK_FEATURE_LENGTHS={'inputs': 64, 'targets': 8}",
    "--gin.TRAIN_STEPS=250",
    "--gin.WARMUP_STEPS=5",
    "--gin.LEARNING_RATE=0.003",
    "--gin.DROPOUT_RATE=0.0",
    "--gin.BATCH_SIZE=32",
    "--gin.EVAL_PERIOD=250",
    "--gin.CHECKPOINT_PERIOD=250",
)


def write_dialogues(path):
    """Writes Wizard of Wikipedia's file: each dialogue states the fact of its sentence."""
    dialogues = []
    for noun, adjective in itertools.product(NOUNS, ADJECTIVES):
        title, sentence = noun.capitalize(), f"The {noun} is {adjective}."
        evidence = [{title: [sentence]}]
        dialogues.append({
            "chosen_topic": title,
            "chosen_topic_passage": [sentence],
            "dialog": [
                {"speaker": "0_Apprentice", "text": "Yes?", "retrieved_passages": evidence},
                {
                    "speaker": "1_Wizard",
                    "text": sentence,
                    "checked_sentence": {f"chosen_{title}_0": sentence},
                    "checked_passage": {f"chosen_topic_0_{title}": title},
                    "retrieved_passages": evidence,
                },
            ],
        })  # fmt: skip
    path.parent.mkdir()
    path.write_text(json.dumps(dialogues))


def shuffle_labels(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    labels = [row["response_label"] for row in rows]
    random.Random(0).shuffle(labels)
    shuffled = [row | {"response_label": label} for row, label in zip(rows, labels, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in shuffled))


@pytest.mark.papers
def test_a_verifier_learns_what_was_planted(command, tmp_path, monkeypatch):
    def validation_accuracy(name, data):
        """Returns the accuracy on claims of other dialogues, after training."""
        monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(data))
        command.succeeds("train", *TRAINING, f"--gin.MODEL_DIR={tmp_path / name}", base)
        metrics = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        (last,) = [row for row in map(json.loads, metrics) if row["part"] == "validation"]
        return last["accuracy"]

    base = f"--gin.INITIAL_CHECKPOINT_PATH={write_model(tmp_path / 'bert', 'bert')}"
    write_dialogues(tmp_path / "wow" / "train.json")
    claims_dir = tmp_path / "claims"
    rules = ("--tagger=rules", "--antonyms=list", "--senses=none", "--validation-share=0.4")
    out = command.succeeds("mutate-claims", str(tmp_path / "wow"), f"--output={claims_dir}", *rules)
    assert "200 original, 200 evidence, 200 negation" in out
    planted = validation_accuracy("planted", claims_dir / "tfds")
    shuffle_labels(claims_dir / "train_split.jsonl")
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(tmp_path / "shuffled"))
    command.succeeds("prepare", "dialfact/augmented", f"--raw={claims_dir}")
    shuffled = validation_accuracy("shuffled", tmp_path / "shuffled")
    assert planted >= 0.6, (planted, shuffled)
    assert shuffled == pytest.approx(1 / 3, abs=0.15), (planted, shuffled)
