import json
import sys

from faith_jax.core.rows import BadRows
from faith_jax.datasets.raw.wizard_of_wikipedia import read_turns
from tools import make_mini_dialogues


def test_each_wording_is_a_turn_with_its_sentence(monkeypatch, tmp_path, capsys):
    claims = [
        {"title": "Tea", "sentence": "Tea is a leaf.", "supported": ["It is a leaf.", "A leaf."]},
        {"title": "Tea", "sentence": "Tea is hot.", "supported": ["It is hot."]},
        {"title": "Ice", "sentence": "Ice is cold.", "supported": ["It is cold."]},
    ]
    blank = {"refuted": [], "unrelated_but_close": []}
    (tmp_path / "claims.jsonl").write_text("".join(json.dumps(c | blank) + "\n" for c in claims))
    output = tmp_path / "wow" / "train.json"
    monkeypatch.setattr(sys, "argv", ["make", str(tmp_path / "claims.jsonl"), str(output)])
    make_mini_dialogues.main()
    assert capsys.readouterr().out == f"{output}: 3 dialogues\n"
    turns = [
        (t["dialogue"], t["knowledge_title"], t["knowledge"], t["response"], t["history"][-1])
        for t in read_turns(output, BadRows())
    ]
    assert turns == [
        (0, "Tea", "Tea is a leaf.", "It is a leaf.", "Tell me about Tea."),
        (0, "Tea", "Tea is hot.", "It is hot.", make_mini_dialogues.ASKED),
        (1, "Tea", "Tea is a leaf.", "A leaf.", "Tell me about Tea."),
        (2, "Ice", "Ice is cold.", "It is cold.", "Tell me about Ice."),
    ]
