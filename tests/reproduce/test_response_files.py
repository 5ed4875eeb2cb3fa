"""Scores of responses that are kept in files."""

import json
import math

from faith_jax.evaluation.text_metrics import token_f1
from faith_jax.reproduce.response_files import scored, scored_path

ROWS = [
    ("d#1", "A card is free.", "A card costs five coins."),
    ("d#2", "", "I do not know."),
    ("d#3", "Swim here.", "Swim here!"),
]


def write(path):
    lines = [
        {"id": i, "knowledge": knowledge, "history": [], "generated_text": text, "gold": "g"}
        for i, knowledge, text in ROWS
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def test_responses_without_knowledge_have_no_score_against_it(tmp_path):
    responses = tmp_path / "pmi.jsonl"
    write(responses)
    for _ in range(2):  # the second time from what is kept
        found = scored(responses, {"token_f1": {}}, "knowledge", "c")["token_f1"]
        assert math.isnan(found[1])
        expected = [token_f1(text, knowledge) for _, knowledge, text in ROWS]
        assert [found[0], found[2]] == [expected[0], expected[2]] != [0, 0]
    assert len(scored_path(responses, "token_f1").read_text("utf-8").splitlines()) == 2
    assert len(scored(responses, {"rougeL_f1": {}}, "gold", "c")["rougeL_f1"]) == 3
