"""Training claims of Aug-WoW, through the command."""

import collections
import json

import numpy as np
import pytest

from faith_jax.datasets.augmentation.tagging import load_tagger
from faith_jax.datasets.samples import sample_folder
from faith_jax.inference.batch_decoder import BatchDecoder
from faith_jax.papers.dialfact import claim_mutation, mutated_claims
from faith_jax.papers.dialfact.commands import MutateClaims
from faith_jax.scoring.claims import Verdict
from faith_jax.tasks import lookup

SETTINGS = ("mutate-claims", "sample", "--tagger=rules", "--antonyms=list")
GENERATION = ("--model=mini", "--infiller=mini", "--max-length=8", "--batch-size=64", "--most=9")


def rows_of(folder, name):
    return [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]


def turns_of_sample():
    path = sample_folder("wizard_of_wikipedia") / "train.json"
    return {t["id"]: t for t in mutated_claims.read_turns(path, mutated_claims.BadRows())}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("claims") / "made"
    options = {"tagger": "rules", "antonyms": "list", "validation_share": 0.4}
    settings = MutateClaims("sample", output=str(folder), **options)
    return folder, mutated_claims.mutate_claims(settings)


def test_each_label_is_what_the_evidence_says(made):
    folder, out = made
    turns = turns_of_sample()
    parts = [rows_of(folder, name) for name in ("train_split.jsonl", "valid_split.jsonl")]
    for claim in (row for part in parts for row in part):
        turn = turns[claim["context_id"]]
        kind = claim["kind"].partition("_")[0]
        ((title, _, sentence, _),) = claim["evidence_list"]
        same = (title, sentence) == (turn["knowledge_title"], turn["knowledge"])
        assert same == (kind != "evidence")
        assert (claim["response"] == turn["response"]) == (kind in ("original", "evidence"))
        expected = {"original": "SUPPORTS", "evidence": "NOT ENOUGH INFO"}.get(kind, "REFUTES")
        assert claim["response_label"] == expected
        assert claim["context"] == turn["history"]
    counts = [collections.Counter(row["response_label"] for row in part) for part in parts]
    assert len(set((counts[0] + counts[1]).values())) == 1  # as many of each label
    dialogues = [{turns[row["context_id"]]["dialogue"] for row in part} for part in parts]
    assert dialogues[0].isdisjoint(dialogues[1])
    assert out[0].startswith("made: 23 claims: 7 NOT ENOUGH INFO, 9 REFUTES")


def test_a_task_reads_them(made, monkeypatch):
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(made[0] / "tfds"))
    dataset = lookup.get_task("dialfact_verify_augmented").get_dataset(None, "train", shuffle=False)
    targets = [row["targets_pretokenized"].decode() for row in dataset.as_numpy_iterator()]
    assert targets == [row["response_label"] for row in rows_of(made[0], "train_split.jsonl")]


@pytest.mark.faults
def test_a_stopped_run_generates_nothing_again(command, tmp_path, monkeypatch):
    output = f"--output={tmp_path / 'made'}"

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(mutated_claims, "_write_claim_files", stop)
        assert command(*SETTINGS, *GENERATION, output)[0] != 0
    assert not (tmp_path / "made").exists()
    with monkeypatch.context() as patched:
        patched.setattr(BatchDecoder, "__call__", None)
        for option in ("--seed=1", "--unbalanced", "--senses=none"):
            error = command.refuses(*SETTINGS, *GENERATION, output, option)
            assert f"another value of {option.strip('-').partition('=')[0]}" in error
        kinds = command.succeeds(*SETTINGS, *GENERATION, output).splitlines()[0]
    assert "7 generated_unrelated" in kinds
    assert "generated_empty" in kinds
    assert "exists" in command.refuses(*SETTINGS, *GENERATION, output)


def test_varied_fluent_and_hard_claims_are_kept():
    texts = ("a b c d", "a b c d e", "f g h i", "j k l m", "n o p q", "r s t u")
    # The second is too like the first, the last has no perplexity. Mean perplexity of the others:
    # (1 + 2 + 3 + 6) / 4 = 3.
    perplexities = np.array([1, 9, 2, 3, 6, np.nan])
    supports = np.array([0.5, 0.5, 0.9, 0.6, 0.5, 0.5])
    probabilities = np.stack([supports, 1 - supports, 0 * supports], axis=-1)
    both = np.stack([probabilities, probabilities], axis=1)  # of two classifiers
    places = mutated_claims.chosen_of(texts, perplexities, both, 2)
    assert [texts[place] for place in places] == ["a b c d", "j k l m"]
    assert mutated_claims.chosen_of(texts, None, None, 3) == [0, 2, 3]


class Verifier:
    """Predicts support for claims with "red" and "boat", and for none without "red"."""

    def read(self, example):
        assert example.grounding.perspectives == ("Boats",)
        return example.response

    def verdicts(self, texts):
        red, boat = (np.array([word in text for text in texts]) for word in ("red", "boat"))
        supports = np.where(red, np.where(boat, 0.9, 0.6), 0.1)
        neutral = np.where(red, np.where(boat, 0.05, 0.35), 0.8)
        return [Verdict((s, 1 - s - n, n), 0) for s, n in zip(supports, neutral, strict=True)]


def test_the_fewest_words_are_masked_that_the_verdict_needs():
    texts = ["The old boat is red.", "The old boat is blue.", "It is red, and a boat."]
    claims = load_tagger("rules").tag(texts)
    masked_spans = claim_mutation.neutral_spans(Verifier(), claims, [("Boats", "A red boat.")] * 3)
    pieces = [[t[a:b] for a, b in spans] for t, spans in zip(texts, masked_spans, strict=True)]
    assert pieces == [["red"], [], ["red"]]  # the second one was not supported


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--model=nowhere"], "--model: "),
        (["--antonyms=no"], "--antonyms: There are no antonyms 'no'"),
        (["--senses=vectors:nowhere.txt"], "--senses: nowhere.txt: "),
        (["--masker=nowhere"], "nowhere"),
        (["--verifiers=nowhere,mini_nli"], "nowhere"),
    ],
)
def test_wrong_options(command, tmp_path, changes, message):
    assert message in command.refuses(*SETTINGS, f"--output={tmp_path / 'x'}", *changes)
    assert not list(tmp_path.iterdir())
