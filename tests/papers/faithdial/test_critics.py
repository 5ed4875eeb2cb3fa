"""FaithDial's transfer table: its workflow's commands, run in this process with tiny critics."""

import json

import pytest

from faith_jax.checkpoints.embedded import newest_step
from faith_jax.input.score_input import seqio_rows
from faith_jax.papers import workflow
from faith_jax.papers.faithdial.critics import Table
from faith_jax.papers.faithdial.options import FaithCritic
from faith_jax.scoring.nli import CRITIC_FORMS
from faith_jax.scoring.pair_classifier import pair_classifier
from tests.papers.workflows import rows_of, run_in_process, shown_commands
from tests.scoring.tiny_models import write_model

pytestmark = pytest.mark.usefixtures("offline_data_dir")

CLASSES = {
    "DECODE": ("contradiction", "not_contradiction"),
    "DNLI": ("entailment", "neutral", "contradiction"),
    "MNLI": ("CONTRADICTION", "NEUTRAL", "ENTAILMENT"),
    "FaithCritic": ("faithful", "unfaithful"),
}


@pytest.fixture(scope="module")
def critics(tmp_path_factory):
    folder = tmp_path_factory.mktemp("critics")
    folders = {"base": write_model(folder / "base", "roberta", max_positions=130)}
    for seed, (name, classes) in enumerate(CLASSES.items()):
        folders[name] = write_model(
            folder / name, "roberta", seed=seed, max_positions=130, label_names=classes
        )
    folders["gpt2"] = write_model(folder / "gpt2", "gpt2", max_positions=130)
    return folders


def arguments(output, *more):
    options = ("faith_critic", "--sample", "--max-length=64", "--resamples=100")
    return (*options, f"--output={output}", *more)


def given(critics, *names):
    return [f"--critics={name}={critics[name]}" for name in names]


@pytest.mark.papers
def test_a_missing_critic_is_trained(critics, tmp_path, capfd):
    """An encoder gets a head with the data's classes; a BART answers with the class names."""
    bart = write_model(tmp_path / "bart", "bart", max_positions=130)
    output = tmp_path / "table"
    more = (f"--model={critics['base']}", "--train-steps=2", "--batch-size=4")
    commands = shown_commands(
        capfd,
        *arguments(output, *more, f"--critics=DECODE={bart}", *given(critics, "DNLI", "MNLI")),
    )
    run_in_process(capfd, output, [line for line in commands if "DNLI" not in line])
    folder = output / "models" / "FaithCritic"
    assert newest_step(folder) == 2
    assert pair_classifier(str(folder)).label_names == ("unfaithful", "faithful")
    classify = pair_classifier(bart, CRITIC_FORMS["decode"], max_length=64)
    pairs = [r.fields for r in seqio_rows("faith_critic_sample", "test")]
    calls = classify([(p["knowledge"], p["response"]) for p in pairs])[0].argmax(axis=1)
    rows = [r for r in rows_of(output / "scores" / "DECODE.jsonl") if "faith_critic" in r["corpus"]]
    assert [r["scores"]["faith_critic_call"] for r in rows] == [float(c == 1) for c in calls]
    given_options = json.loads((output / "options.json").read_text())["options"]
    table = Table(FaithCritic(**given_options), lambda _, split: split != "train")
    assert any("no data" in message for message in table.left_out)


def test_the_recipes_schedule(critics):
    def bindings(row, **options):
        options = FaithCritic(output="", model=critics["base"], **options)
        count = 7 if options.sample else 34016
        return Table(options, lambda *_: count).trainings[row].bindings

    bound = bindings("FaithCritic", vocabulary="v", seed=3)
    # As faith_critic_finetune.gin has them for its own data.
    assert (bound["TRAIN_STEPS"], bound["WARMUP_STEPS"], bound["EVAL_PERIOD"]) == (10630, 638, 531)
    assert bound["LABEL_NAMES"] == ("unfaithful", "faithful")
    assert bound["TASK_FEATURE_LENGTHS"] == {"inputs": 256, "targets": 8}
    assert (bound["BATCH_SIZE"], bound["VOCABULARY"], bound["RANDOM_SEED"]) == (32, "v", 3)
    bound = bindings("FaithCritic", sets="own")
    assert bound["MIXTURE_OR_TASK_NAME"] == "faith_critic_all_edits"
    bound = bindings("DECODE", sample=True, train_steps=5)
    assert bound["MIXTURE_OR_TASK_NAME"] == "nli_decode_sample"
    assert (bound["TRAIN_STEPS"], bound["WARMUP_STEPS"], bound["CHECKPOINT_PERIOD"]) == (5, 0, 1)


def test_a_model_that_writes_is_trained_by_its_own_recipe(tmp_path):
    bart = write_model(tmp_path / "bart", "bart", max_positions=130)
    training = Table(FaithCritic(output="", model=bart), lambda *_: 320).trainings["DNLI"]
    assert training.files == ["faithdial_generate_finetune.gin"]
    assert training.bindings["DECODING"] is None
    assert "LABEL_NAMES" not in training.bindings


def test_what_is_left_out_and_the_published_figures(critics):
    def rows(task, split):
        return split != "train" and task != "begin_2021_classify"

    options = FaithCritic(output="", critics={"MNLI": critics["MNLI"]})
    table = Table(options, rows)
    form = table.layout()
    assert list(form["corpora"].values()) == ["MNLI", "FaithCritic"]
    assert form["published"]["MNLI"] == {"MNLI": 93.1, "BEGIN": 61.1, "FaithCritic": 81.6}
    left_out = next(note for note in form["notes"] if note.startswith("Left out: "))
    assert "tested on BEGIN (no data)" in left_out
    assert left_out.count("no critic is given (--critics, or --model)") == 3
    assert any("38.5) may be of swapped classes" in note for note in form["notes"])
    assert any("table 4, of another model: the authors' RoBERTa-large" in n for n in form["notes"])
    assert list(table.scores) == ["MNLI"]
    assert not Table(options, lambda *_: 0).scores
    assert not Table(FaithCritic(output="", model=critics["base"]), rows).scores
    ours = Table(FaithCritic(output="", critics=options.critics, sets="own"), lambda *_: 1)
    assert "published" not in ours.layout()
    tasks = ["nli_mnli@validation", "begin_classify@test", "faith_critic_all_edits@test"]
    command = ours.scores["MNLI"].command
    assert command[:3] == [f"--task={task}" for task in tasks]
    assert "--label-column=label" in command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "faith_critic needs critics: give --critics=NAME=FOLDER, or --model"),
        (("--critics={DNLI}",), "--critics: expected NAME=FOLDER, got"),
        (("--critics=DNLI={DNLI}", "--critics=DNLI={DNLI}"), "'DNLI' is given twice"),
        (("--critics=DNLI={DECODE}",), "--critics: DNLI: the model has 2 classes (contradiction"),
        (("--critics=DECODE={FaithCritic}",), "the model's classes are named faithful, unfaithful"),
        (("--critics=FaithCritic={base}",), "the model has 0 classes"),
        (("--model={gpt2}",), "got a decoder-only model"),
    ],
)
def test_bad_input_is_one_line(command, critics, tmp_path, monkeypatch, arguments, message):
    monkeypatch.setattr(workflow, "run_workflow", None)
    formatted = [argument.format(**critics) for argument in arguments]
    formatted.append(f"--output={tmp_path / 'out'}")
    assert message in command.refuses("reproduce", "faith_critic", "--sample", *formatted)
    assert not (tmp_path / "out").exists()
