"""Perturb and generate, through the command."""

import json

import pytest

from faith_jax.core.templates import one_space
from faith_jax.datasets.samples import sample_folder
from faith_jax.inference.batch_decoder import BatchDecoder
from faith_jax.papers.faithdial import negatives
from faith_jax.papers.responses import Responder
from tests.scoring import tiny_models

SETTINGS = (
    "negatives",
    "sample",
    "--tagger=rules",
    "--max-length=8",
    "--max-input-length=256",
    "--batch-size=64",
    "--perturbations=3",
)


def utterances_of(folder, name):
    dialogues = json.loads((folder / name).read_text("utf-8"))
    return [utterance for dialogue in dialogues for utterance in dialogue["utterances"]]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The command-line argument for a tiny random BART."""
    folder = tmp_path_factory.mktemp("model") / "bart"
    return f"--model={tiny_models.write_model(folder, 'bart', max_positions=320)}"


@pytest.fixture
def stopped(command, model, tmp_path, monkeypatch):
    """The output of a run that was stopped after generating and before writing."""

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(negatives, "_write_data_set", stop)
        assert command(*SETTINGS, model, f"--output={tmp_path / 'made'}")[0] != 0
    assert not (tmp_path / "made").exists()
    return tmp_path / "made"


def test_a_stopped_run_goes_on_to_a_data_set(command, model, stopped, monkeypatch, caplog):
    caplog.set_level("INFO", logger="faith_jax")
    arguments = (*SETTINGS, model, f"--output={stopped}")
    error = command.refuses(*arguments, "--seed=1")
    assert "keeps 40 rows of another run (another value of seed (0, not 1))" in error
    with monkeypatch.context() as patched:  # nothing is generated again
        patched.setattr(BatchDecoder, "__call__", None)
        out = command.succeeds(*arguments)
    # What is told of the data set is where it is in the end.
    assert f"{stopped}/tfds/faithdial" in caplog.text
    assert ".partial/tfds" not in caplog.text
    assert_negatives(stopped, out)
    assert_read_by_the_task(command, stopped, monkeypatch)
    assert "exists already" in command.refuses(*arguments)


def assert_negatives(folder, out):
    """Each turn has the texts generated for it, without the positive and repetitions."""
    rows = [json.loads(x) for x in (folder / "responses.jsonl").open()]
    total = 0
    for name, line in zip(("train.json", "valid.json"), out.splitlines(), strict=False):
        split = name.removesuffix(".json")
        utterances = utterances_of(folder, name)
        kept = [len(u["negative_samples"]) for u in utterances]
        assert line == (
            f"{name}: {sum(kept)} negatives of {len(kept)} turns; {kept.count(0)} turns have none"
        )
        total += sum(kept)
        dialogues = json.loads((folder / name).read_text("utf-8"))
        for dialogue in dialogues:
            for turn, utterance in enumerate(dialogue["utterances"]):
                mark = f"{split}-{dialogue['dialog_idx']}-{turn}#"
                own_rows = [row for row in rows if row["id"].startswith(mark)]
                assert len(own_rows) <= 3
                texts = {one_space(row["knowledge"]) for row in own_rows}
                assert len(texts) == len(own_rows)
                assert one_space(utterance["knowledge"]) not in texts
                expected = {one_space(row["response"]) for row in own_rows}
                expected |= {one_space(text) for text in original_samples(name, mark)}
                expected -= {"", one_space(utterance["response"])}
                assert set(utterance["negative_samples"]) == expected
    assert total > 30
    test = (sample_folder("faithdial") / "test.json").read_bytes()
    assert (folder / "test.json").read_bytes() == test


def original_samples(name, mark):
    """The samples that the raw file had for the turn."""
    split, number, turn = mark.rstrip("#").rsplit("-", 2)
    dialogues = json.loads((sample_folder("faithdial") / name).read_text("utf-8"))
    (dialogue,) = (d for d in dialogues if d["dialog_idx"] == int(number))
    assert name == f"{split}.json"
    return dialogue["utterances"][int(turn)].get("negative_samples", [])


def assert_read_by_the_task(command, folder, monkeypatch):
    """The task gives each example its negatives, and does not read other official data."""
    from faith_jax.tasks import lookup

    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(folder / "tfds"))
    task = lookup.get_task("faithdial_generate_infonce")
    rows = list(task.get_dataset(None, "train", shuffle=False).as_numpy_iterator())
    assert len(rows) == len(utterances_of(folder, "train.json"))
    for row, utterance in zip(rows, utterances_of(folder, "train.json"), strict=True):
        assert row["targets_pretokenized"].decode() == one_space(utterance["response"])
        texts = {text.decode() for text in row["negatives_pretokenized"]}
        assert set(utterance["negative_samples"][:7]) <= texts
        assert len(row["negatives"]) == len(texts) <= 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--perturbations=0",), "--perturbations: expected a positive whole number, got 0"),
        (("--top-p=2",), "--top-p: expected a share in (0, 1], got 2"),
        (("--model=nowhere",), "--model: "),
    ],
)
def test_wrong_options_are_one_line(command, tmp_path, arguments, message):
    model = () if "--model=nowhere" in arguments else ("--model=mini",)
    command_line = (*model, *arguments, f"--output={tmp_path / 'made'}")
    assert message in command.refuses(*SETTINGS, *command_line)
    assert not list(tmp_path.iterdir())


def test_files_of_validation_may_be_missing(command, tmp_path, monkeypatch, caplog):
    """Valid.json is not downloaded."""
    source, output = tmp_path / "raw", tmp_path / "made"
    source.mkdir()
    for name in ("train.json", "test.json"):
        dialogues = json.loads((sample_folder("faithdial") / name).read_text("utf-8"))
        dialogues[0]["utterances"][0]["negative_samples"] = None  # as pandas writes what is missing
        (source / name).write_text(json.dumps(dialogues), "utf-8")
    monkeypatch.setattr(Responder, "__call__", lambda _, rows, numbers: [row.id for row in rows])
    options = ("negatives", source, *SETTINGS[2:], "--model=mini")
    out = command.succeeds(*options, f"--output={output}")
    assert f"{source}/valid.json: no such file; negatives are made without it" in caplog.text
    starts = [line.partition(":")[0] for line in out.splitlines()]
    assert starts == ["train.json", f"{output}/tfds"]
    made_of_ids = [u["negative_samples"] for u in utterances_of(output, "train.json")]
    assert sum(any("#" in text for text in texts) for texts in made_of_ids) > 10
    (info,) = output.glob("tfds/faithdial/official/*/dataset_info.json")
    splits = json.loads(info.read_text())["splits"]
    assert [split["name"] for split in splits] == ["train", "test"]
    (source / "train.json").unlink()
    assert "train.json: no such file" in command.refuses(*options, f"--output={tmp_path / 'none'}")


def test_knowledge_without_anything_to_replace(command, tmp_path):
    turn = {"history": ["what is it?"], "knowledge": "it is so.", "response": "so it is."}
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.json").write_text(json.dumps([{"utterances": [turn]}]))
    arguments = (tmp_path, *SETTINGS[2:], "--model=mini", f"--output={tmp_path / 'made'}")
    error = command.refuses("negatives", *arguments)
    assert "rules finds no entity or verb in any knowledge" in error
