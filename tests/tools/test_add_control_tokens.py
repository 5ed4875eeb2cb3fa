import json
import subprocess
import sys

import pytest

from faith_jax.data.samples import sample_folder
from tests.paths import REPOSITORY

SAMPLE = sample_folder("faithdial")
NAMES = ("train", "valid")


def run(*arguments):
    command = [sys.executable, "tools/add_control_tokens.py", *map(str, arguments)]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path):
    for name in NAMES:
        (tmp_path / f"{name}.json").write_bytes((SAMPLE / f"{name}.json").read_bytes())
    return tmp_path


def test_the_samples_tokens_are_what_the_tool_makes(folder):
    pairs = folder / "pairs.jsonl"
    assert run(folder, f"--pairs={pairs}").returncode == 0
    labels = {}
    for name in NAMES:
        dialogues = json.loads((SAMPLE / f"{name}_control-tokens.json").read_text("utf-8"))
        for dialogue in dialogues:
            for turn, utterance in enumerate(dialogue["utterances"]):
                entailed = utterance["control_tokens"][2] == "<entailed>"
                identifier = f"{name}-{dialogue['dialog_idx']}-{turn}"
                labels[identifier] = "entailment" if entailed else "neutral"
    ids = [json.loads(line)["id"] for line in pairs.read_text("utf-8").splitlines()]
    assert ids == list(labels)
    nli = folder / "nli.jsonl"
    nli.write_text("".join(json.dumps({"id": i, "label": labels[i]}) + "\n" for i in ids))
    done = run(folder, f"--nli={nli}")
    assert (done.returncode, done.stderr) == (0, "")
    for name in NAMES:
        made = folder / f"{name}_control-tokens.json"
        assert made.read_bytes() == (SAMPLE / made.name).read_bytes()


def test_mistakes(folder):
    nli = folder / "nli.jsonl"
    nli.write_text('{"id": "train-0-0", "label": "entailment"}\n')
    done = run(folder, f"--nli={nli}")
    assert done.returncode == 2
    message = f"add_control_tokens.py: {nli}: has no label of train-0-1; label all pairs.\n"
    assert done.stderr == message
    nli.write_text('{"id": "train-0-0", "label": "yes"}\n')
    assert "nli.jsonl:1: field 'label': expected one of" in run(folder, f"--nli={nli}").stderr
    assert not list(folder.glob("*control*"))
    (folder / "valid.json").unlink()
    assert "valid.json: " in run(folder, f"--pairs={folder / 'p.jsonl'}").stderr
