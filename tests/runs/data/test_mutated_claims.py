"""Training claims of Aug-WoW, through the command."""

import collections
import json
import math

import pytest

from faith_jax.datasets.samples import sample_folder
from faith_jax.inference.batch_decoder import BatchDecoder
from faith_jax.runs.data import mutated_claims
from faith_jax.runs.options import MutateClaimsOptions
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
    given = MutateClaimsOptions("sample", output=str(folder), **options)
    return folder, mutated_claims.mutate_claims(given)


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
    assert out[0].startswith("made: 22 claims: 7 NOT ENOUGH INFO, 8 REFUTES")


def test_a_task_reads_them(made, monkeypatch):
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(made[0] / "tfds"))
    dataset = lookup.get_task("dialfact_verify_augmented").get_dataset(None, "train", shuffle=False)
    found = [row["targets_pretokenized"].decode() for row in dataset.as_numpy_iterator()]
    assert found == [row["response_label"] for row in rows_of(made[0], "train_split.jsonl")]


def test_a_stopped_run_generates_nothing_again(command, tmp_path, monkeypatch):
    output = f"--output={tmp_path / 'made'}"

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(mutated_claims, "_selected", stop)
        assert command(*SETTINGS, *GENERATION, output)[0] != 0
    assert not (tmp_path / "made").exists()
    assert command(*SETTINGS, *GENERATION, output, "--seed=1")[0] == 2
    with monkeypatch.context() as patched:
        patched.setattr(BatchDecoder, "__call__", None)
        status, out, err = command(*SETTINGS, *GENERATION, output, "--unbalanced")
        assert (status, "another value of unbalanced" in err) == (2, True)
        status, out, err = command(*SETTINGS, *GENERATION, output)
    assert status == 0, err
    kinds = out.splitlines()[0]
    assert "7 generated_unrelated" in kinds
    assert "generated_empty" in kinds
    assert command(*SETTINGS, *GENERATION, output)[0] == 2  # it exists


def claims(*texts):
    return [{"response": text, "kind": "entity", "context_id": "1"} for text in texts]


def test_varied_fluent_and_hard_claims_are_kept():
    given = claims("a b c d", "a b c d e", "f g h i", "j k l m", "n o p q")
    options = MutateClaimsOptions("x", output="y", language_model="z", verifiers=("v", "w"), most=2)
    # The second is too like the first. Mean perplexity of the others: (1 + 2 + 3 + 6) / 4 = 3.
    perplexities = [1, 9, 2, 3, 6]
    supports = [0.5, 0.5, 0.9, 0.6, 0.5]
    told = [
        {
            "fluency": -math.log(perplexity),
            **{f"claim_supports_{n}": share for n in range(2)},
            **{f"claim_refutes_{n}": 1 - share for n in range(2)},
            **{f"claim_not_enough_info_{n}": 0 for n in range(2)},
        }
        for perplexity, share in zip(perplexities, supports, strict=True)
    ]
    kept = mutated_claims._chosen(list(zip(given, told, strict=True)), options)
    assert [claim["response"] for claim in kept] == ["a b c d", "j k l m"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--model=nowhere"], "--model: "),
        (["--antonyms=no"], "--antonyms"),
        (["--validation-share=0"], "--validation-share"),
        (["--temperature=0"], "--temperature"),
    ],
)
def test_wrong_options(command, tmp_path, changes, message):
    status, _, err = command(*SETTINGS, f"--output={tmp_path / 'x'}", *changes)
    assert status == 2
    assert message in err
    assert not list(tmp_path.iterdir())
