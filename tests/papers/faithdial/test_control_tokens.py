"""Control tokens through the command, and their use by the task."""

import json

import gin
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.datasets.augmentation.control_tokens import CONTROL_TOKENS, extra_id_texts
from faith_jax.datasets.samples import sample_folder
from faith_jax.papers.faithdial import control_tokens
from faith_jax.scoring.pair_classifier import pair_classifier
from faith_jax.tasks import faithdial, lookup
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.papers.planted import write_rows
from tests.papers.workflows import rows_of
from tests.scoring import tiny_models

NLI = ("contradiction", "entailment", "neutral")
ALL_TOKENS = {token for kind in CONTROL_TOKENS for token in kind}
# The files of each data set, and the field with a dialogue's turns.
FILES = {
    "faithdial": (("train", "valid"), "utterances"),
    "wizard_of_wikipedia": (("train", "valid_random_split", "valid_topic_split"), "dialog"),
}


def copied(data, folder):
    for name in FILES[data][0]:
        (folder / f"{name}.json").write_bytes((sample_folder(data) / f"{name}.json").read_bytes())
    return folder


@pytest.fixture
def folder(tmp_path):
    return copied("faithdial", tmp_path)


@pytest.fixture
def wow_folder(tmp_path):
    return copied("wizard_of_wikipedia", tmp_path)


def written_pairs(command, folder):
    command.succeeds("control-tokens", folder, f"--pairs={folder / 'pairs.jsonl'}")
    return rows_of(folder / "pairs.jsonl")


@pytest.mark.parametrize("data", FILES)
def test_the_samples_tokens_are_what_the_command_makes(command, tmp_path, data):
    """Only the Wizard's turns with knowledge change."""
    folder, sample, (names, field) = copied(data, tmp_path), sample_folder(data), FILES[data]
    labels = {}
    for name in names:
        marked = json.loads((sample / f"{name}_control-tokens.json").read_text("utf-8"))
        for number, dialogue in enumerate(marked):
            for turn, utterance in enumerate(dialogue[field]):
                if tokens := utterance.pop("control_tokens", None):
                    entailed = tokens[2] == "<entailed>"
                    place = f"{name}-{dialogue.get('dialog_idx', number)}-{turn}"
                    labels[place] = "entailment" if entailed else "neutral"
        assert marked == json.loads((sample / f"{name}.json").read_text("utf-8"))
    assert len(labels) >= 10
    assert [pair["id"] for pair in written_pairs(command, folder)] == list(labels)
    nli = folder / "nli.jsonl"
    write_rows(nli, [{"id": place, "label": label} for place, label in labels.items()])
    out = command.succeeds("control-tokens", folder, f"--nli={nli}")
    for name, line in zip(names, out.splitlines(), strict=True):
        tokens_file = folder / f"{name}_control-tokens.json"
        assert tokens_file.read_bytes() == (sample / tokens_file.name).read_bytes()
        file_labels = [label for place, label in labels.items() if place.rsplit("-", 2)[0] == name]
        assert line.startswith(f"{tokens_file}: {len(file_labels)} turns: ")
        assert f"<entailed> {file_labels.count('entailment') / len(file_labels):.1%}" in line
    assert not list(folder.glob(".*"))


def test_texts_stay_as_they_are(command, wow_folder):
    """With any line separators in the texts."""
    dialogues = json.loads((wow_folder / "train.json").read_text("utf-8"))
    dialogues[0]["persona"] = "one\u2028two\x85three\nfour"
    (wow_folder / "train.json").write_text(json.dumps(dialogues), "utf-8")
    nli, pairs = wow_folder / "nli.jsonl", written_pairs(command, wow_folder)
    write_rows(nli, [{"id": pair["id"], "label": "neutral"} for pair in pairs])
    command.succeeds("control-tokens", wow_folder, f"--nli={nli}")
    tokens = json.loads((wow_folder / "train_control-tokens.json").read_text("utf-8"))
    assert tokens[0]["persona"] == dialogues[0]["persona"]


def test_a_folder_of_both_data_sets_is_refused(command, wow_folder):
    (wow_folder / "valid.json").write_text("[]")
    error = command.refuses("control-tokens", wow_folder, f"--pairs={wow_folder / 'p.jsonl'}")
    assert "holds valid.json (FaithDial) and valid_random_split.json or" in error


def test_mistakes(command, folder):
    nli = folder / "nli.jsonl"

    def message(*arguments):
        return command.refuses("control-tokens", folder, *arguments)

    nli.write_text('{"id": "train-0-0", "label": "entailment"}\n')
    assert "train.json: there is no label of turn train-0-1; label all" in message(f"--nli={nli}")
    nli.write_text('{"id": "train-0-0", "label": "yes"}\n')
    assert "nli.jsonl:1: field 'label': expected one of" in message(f"--nli={nli}")
    nli.write_text(2 * '{"id": "train-0-0", "label": "entailment"}\n')
    assert "nli.jsonl:2: field 'id': expected an id of its own" in message(f"--nli={nli}")
    nli.write_text('{"id": "train-0-0", "label": "entailment"}\n')
    whole = json.loads((folder / "train.json").read_text("utf-8"))
    whole = [whole[0] | {"utterances": whole[0]["utterances"][:2]}]
    (folder / "train.json").write_text(json.dumps(whole))
    assert "train.json: has 2 turns; expected 3 or more" in message(f"--nli={nli}")
    assert not list(folder.glob("*control*"))
    (folder / "train.json").unlink()
    assert "train.json: no such file" in message(f"--pairs={folder / 'p.jsonl'}")


def test_a_models_calls(command, folder, tmp_path):
    """A random model predicts one class for all rows; its class names give the meaning."""
    nli = tiny_models.write_model(tmp_path / "nli", "deberta_nli", label_names=NLI)
    classify = pair_classifier(nli)
    pairs = [(turn["premise"], turn["hypothesis"]) for turn in written_pairs(command, folder)]
    (number,) = set(classify(pairs)[0].argmax(axis=1))
    names = ["neutral", "contradiction", "entailment"]
    names.insert(number, names.pop(2))
    arguments = (f"--model={nli}", f"--labels={','.join(names)}")
    out = command.succeeds("control-tokens", folder, *arguments)
    assert out.count("<entailed> 100.0%") == 2


def test_each_turn_has_its_own_call(command, folder, monkeypatch):
    """More turns than one batch, with a classifier whose answer is in the text."""

    class Classifier:
        label_names = NLI

        def __call__(self, pairs):
            rows = [[0.2, 0.5, 0.3] if len(h) % 2 else [0.2, 0.3, 0.5] for _, h in pairs]
            return np.asarray(rows), [0] * len(pairs)

    monkeypatch.setattr(control_tokens, "pair_classifier", lambda *_, **__: Classifier())
    monkeypatch.setattr(control_tokens, "_ROWS", 4)
    calls = control_tokens.classify_turns(str(folder), "model")
    expected = {
        turn["id"]: "entailment" if len(turn["hypothesis"]) % 2 else "neutral"
        for turn in written_pairs(command, folder)
    }
    assert calls == expected
    assert len(set(calls.values())) == 2


def test_a_model_of_two_classes_is_refused(command, folder, tmp_path):
    critic = tiny_models.write_model(tmp_path / "c", "roberta", label_names=("no", "yes"))
    error = command.refuses("control-tokens", folder, f"--model={critic}")
    assert "the model has 2 classes" in error
    assert not list(folder.glob("*control*"))


@pytest.fixture
def steered():
    def bind(tokens):
        with gin.unlock_config():
            gin.bind_parameter("faith_jax.tasks.faithdial.steering.control_tokens", tokens)

    return bind


def examples(split):
    task = lookup.get_task("faithdial_generate_ctrl_sample")
    return list(task.get_dataset(None, split, shuffle=False).as_numpy_iterator())


def test_each_token_is_one_extra_id_and_others_are_asked_for_by_gin(steered):
    vocabulary, texts = load_vocabulary(), extra_id_texts(100)
    ids = {t: vocabulary.encode(text) for t, text in texts.items()}
    assert all(len(token_ids) == 1 for token_ids in ids.values())
    assert len({token_ids[0] for token_ids in ids.values()}) == 7
    plain = examples("test")
    for row in plain:
        row_tokens = [token.decode() for token in row["control_tokens"]]
        assert row["inputs"][:3].tolist() == [ids[token][0] for token in row_tokens]
        start = " ".join(texts[token] for token in row_tokens)
        assert row["inputs_pretokenized"].decode().startswith(f"{start} <knowledge> ")
    names = ("<first-person>", "<low-prec>", "<non-entailed>")
    steered(names)
    token_ids = [ids[token][0] for token in names]
    for row, before in zip(examples("test"), plain, strict=True):
        assert row["inputs"][:3].tolist() == token_ids != before["inputs"][:3].tolist()
        assert row["inputs"][3:].tolist() == before["inputs"][3:].tolist()
        assert tuple(token.decode() for token in row["control_tokens"]) == names


@pytest.mark.parametrize(
    "tokens", [("<entailed>",), ("<high-prec>", "<no-first-person>", "<entailed>")]
)
def test_tokens_that_there_are_not(steered, tokens):
    steered(tokens)
    message = r"Control tokens: expected <no-first-person> or <first-person>, <low-prec> or .*; got"
    with pytest.raises(ConfigError, match=message):
        faithdial.steering()


def test_a_vocabulary_without_extra_ids_reads_them_as_text():
    assert extra_id_texts(0) == extra_id_texts(6) == {}
    assert set(extra_id_texts(7)) == ALL_TOKENS


def test_inputs_without_control_tokens_cannot_be_steered(command, tmp_path):
    error = command.refuses(
        "infer",
        "--gin_file=runs/infer.gin",
        "--gin_file=decoding/control_tokens.gin",
        "--gin.MIXTURE_OR_TASK_NAME=faithdial_generate_sample",
        "--gin.CHECKPOINT_PATH=mini",
        "--gin.CONTROL_TOKENS=('<first-person>', '<low-prec>', '<non-entailed>')",
        f"--gin.INFER_OUTPUT_DIR={tmp_path / 'out'}",
    )
    assert "faithdial_generate_s" in error
    assert "choose one of faithdial_generate_ctrl, faithdial_generate_ctrl_sample, " in error
    assert not list(tmp_path.iterdir())
