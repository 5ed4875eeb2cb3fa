"""FaithDial's transfer table through the command, with tiny random critics."""

import json
import shutil

import pytest

from faith_jax.cli import main
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.input.score_input import dataset_rows
from faith_jax.reproduce import critic_models, critic_table, trained_cells
from faith_jax.reproduce.critic_models import CriticTableOptions, faithful_number, training_bindings
from faith_jax.scoring.pair_classifier import pair_classifier
from faith_jax.tasks import sources
from faith_jax.training.checkpoints import newest_step
from tests.scoring.tiny_models import write_model

pytestmark = pytest.mark.usefixtures("offline_data_dir", "quick_compilation")

CLASSES = {
    "DECODE": ("contradiction", "not_contradiction"),
    "DNLI": ("entailment", "neutral", "contradiction"),
    "MNLI": ("CONTRADICTION", "NEUTRAL", "ENTAILMENT"),
    "FaithCritic": ("faithful", "unfaithful"),
}
FAITHFUL = {"DECODE": 1, "DNLI": 0, "MNLI": 2, "FaithCritic": 0}
TASKS = {
    "MNLI": ("nli_mnli_sample", "validation", "premise", "hypothesis", "entailment"),
    "BEGIN": ("begin_2021_classify_sample", "test", "knowledge", "response", 1),
    "FaithCritic": ("faith_critic_sample", "test", "knowledge", "response", 1),
}


@pytest.fixture(scope="module")
def critics(tmp_path_factory):
    folder = tmp_path_factory.mktemp("critics")
    made = {"base": write_model(folder / "base", "roberta", max_positions=130)}
    for seed, (name, classes) in enumerate(CLASSES.items()):
        made[name] = write_model(
            folder / name, "roberta", seed=seed, max_positions=130, label_names=classes
        )
    return made


@pytest.fixture
def reproduce(capfd):
    def run(output, *arguments):
        given = ("--sample", "--max-length=64", "--resamples=100", f"--output={output}")
        status = main(["reproduce", "faith_critic", *map(str, (*given, *arguments))])
        out, err = capfd.readouterr()
        return status, out.splitlines(), err.strip().splitlines()

    return run


def given(critics, *names):
    return [f"--critics={name}={critics[name]}" for name in names]


def figures(folder):
    found = json.loads((folder / "faith_critic_sample.json").read_text("utf-8"))
    return {(row["trained on"], row["tested on"]): row for row in found["rows"]}


OWN = {
    "faith_critic_sample": "faith_critic_all_edits_sample",
    "begin_2021_classify_sample": "begin_classify_sample",
}


@pytest.mark.parametrize("sets", ["published", "own"])
def test_cells_are_the_shares_of_right_calls(reproduce, critics, tmp_path, sets):
    status, lines, errors = reproduce(tmp_path, f"--sets={sets}", *given(critics, *CLASSES))
    assert status == 0, errors
    found = figures(tmp_path)
    assert len(found) == 12
    for row, number in FAITHFUL.items():
        classify = pair_classifier(critics[row], max_length=64)
        for column, (task, split, premise, hypothesis, faithful) in TASKS.items():
            task = OWN.get(task, task) if sets == "own" else task
            pairs = [r.fields for r in dataset_rows(task, "", split)]
            truth = [p["label"] == faithful for p in pairs]
            if (sets, column) == ("published", "BEGIN"):
                generic = [p["begin_label"] == "generic" for p in pairs]
                assert sum(generic) == 1
                if row == "DECODE":  # no contradiction
                    truth = [t or g for t, g in zip(truth, generic, strict=True)]
                else:
                    pairs = [p for p, g in zip(pairs, generic, strict=True) if not g]
                    truth = [t for t, g in zip(truth, generic, strict=True) if not g]
            calls = classify([(p[premise], p[hypothesis]) for p in pairs])[0].argmax(axis=1)
            hits = [(c == number) == t for c, t in zip(calls, truth, strict=True)]
            cell = found[row, column]
            assert cell["accuracy"] == pytest.approx(sum(hits) / len(hits))
            assert (cell["rows"], cell["published"]) == (len(pairs), None)
            assert cell["low"] <= cell["accuracy"] <= cell["high"]
            assert cell["zero_shot"] == (row != column)
    assert lines[0].startswith("SAMPLES, not the paper's data: Transfer of critics")
    assert lines[1].split() == ["trained", "on", "MNLI", "BEGIN", "FaithCritic"]
    mnli = next(line for line in lines if line.startswith("MNLI")).split()
    assert ["\u2020" in cell for cell in mnli[1::2]] == [False, True, True]
    assert any(line.startswith("Pairs cut to 64 tokens: ") for line in lines)
    for ending in ("md", "tex", "csv"):
        assert "FaithCritic" in (tmp_path / f"faith_critic_sample.{ending}").read_text("utf-8")


def test_the_pairs_of_the_published_sets(reproduce, critics, tmp_path):
    """Edited responses are in our own alone; generic ones have no label in the others."""
    sizes = {}
    for sets in ("published", "own"):
        folder = tmp_path / sets
        assert reproduce(folder, f"--sets={sets}", *given(critics, "MNLI"))[0] == 0
        for column in ("MNLI", "BEGIN", "FaithCritic"):
            lines = (folder / f"{column}.jsonl").read_text("utf-8").splitlines()
            sizes[sets, column] = [json.loads(line)["faithful"] for line in lines]
        status, _, errors = reproduce(folder, "--sets=won", *given(critics, "MNLI"))
        assert (status, "--sets: expected published or own, got 'won'" in errors[-1]) == (2, True)
    assert sizes["published", "MNLI"] == sizes["own", "MNLI"]
    assert sizes["published", "FaithCritic"] == [False, True, False]
    assert sizes["own", "FaithCritic"] == [False, True, True, False, True, True]
    assert sizes["published", "BEGIN"] == [True, False, None]
    assert None not in sizes["own", "BEGIN"]
    status, _, errors = reproduce(tmp_path / "own", *given(critics, "MNLI"))
    assert status == 2
    assert "another value of sets (own, not published)" in errors[-1]


def test_what_is_done_is_kept_and_rows_may_be_added(reproduce, critics, tmp_path, monkeypatch):
    status, lines, _ = reproduce(tmp_path, *given(critics, "DNLI"))
    assert status == 0
    left_out = next(line for line in lines if line.startswith("Left out: "))
    assert left_out.count("no critic is given (--critics, or --model)") == 3
    before = (tmp_path / "DNLI" / "BEGIN.jsonl").stat().st_mtime_ns
    opened = []
    really = critic_table.pair_classifier
    monkeypatch.setattr(
        critic_table, "pair_classifier", lambda m, *a, **o: opened.append(m) or really(m, *a, **o)
    )
    (tmp_path / "DNLI" / "MNLI.jsonl").unlink()
    assert reproduce(tmp_path, *given(critics, "DNLI", "DECODE"))[0] == 0
    assert opened == [critics["DECODE"], critics["DNLI"]]
    assert (tmp_path / "DNLI" / "BEGIN.jsonl").stat().st_mtime_ns == before
    assert len(figures(tmp_path)) == 6
    # Another critic, or other settings, need another folder.
    other = tmp_path / "other"
    shutil.copytree(critics["DNLI"], other)
    status, _, errors = reproduce(tmp_path, f"--critics=DNLI={other}")
    assert status == 2
    assert "DNLI keeps calls of another critic" in errors[-1]
    status, _, errors = reproduce(tmp_path, *given(critics, "DNLI"), "--max-length=48")
    assert status == 2
    assert "keeps calls with another value of max-length (64, not 48)" in errors[-1]
    (tmp_path / "settings.json").write_text("[]")
    status, _, errors = reproduce(tmp_path, *given(critics, "DNLI"))
    assert (status, "settings.json: not readable" in errors[-1]) == (2, True)


def test_a_missing_critic_is_trained_once(reproduce, critics, tmp_path, monkeypatch):
    model = (f"--model={critics['base']}", "--train-steps=2", "--batch-size=4")
    rest = given(critics, "DECODE", "DNLI", "MNLI")
    status, lines, errors = reproduce(tmp_path, *model, *rest)
    assert status == 0, errors
    assert any("New classification head: unfaithful, faithful" in line for line in errors)
    assert any(line.endswith("2 steps in batches of 4: FaithCritic.") for line in lines)
    folder = tmp_path / "FaithCritic" / "train"
    assert newest_step(folder) == 2
    assert pair_classifier(str(folder)).label_names == ("unfaithful", "faithful")
    before = (tmp_path / "faith_critic_sample.json").read_text("utf-8")

    def fail(*_):
        raise AssertionError("nothing should be trained")

    monkeypatch.setattr(trained_cells, "_run", fail)
    assert reproduce(tmp_path, *model, *rest)[0] == 0
    assert (tmp_path / "faith_critic_sample.json").read_text("utf-8") == before
    status, _, errors = reproduce(tmp_path, *model[:2], "--batch-size=8", *rest)
    assert status == 2
    assert "another value of BATCH_SIZE (4, not 8)" in errors[-1]


def test_models_that_write_the_class(reproduce, critics, tmp_path):
    """A BART answers in the words of each row's data, given or trained."""
    bart = write_model(tmp_path / "bart", "bart", max_positions=130)
    output = tmp_path / "table"
    given = ("--critics=DECODE=" + bart, "--critics=FaithCritic=" + bart)
    status, _, errors = reproduce(output, *given)
    assert status == 0, errors
    found = figures(output)
    for row in ("DECODE", "FaithCritic"):
        form = critic_models.ROWS[row].form
        classify = pair_classifier(bart, form, max_length=64)
        number = {"DECODE": 1, "FaithCritic": 0}[row]
        pairs = [r.fields for r in dataset_rows("faith_critic_sample", "", "test")]
        calls = classify([(p["knowledge"], p["response"]) for p in pairs])[0].argmax(axis=1)
        hits = [(c == number) == (p["label"] == 1) for c, p in zip(calls, pairs, strict=True)]
        assert found[row, "FaithCritic"]["accuracy"] == pytest.approx(sum(hits) / len(hits))
    bindings = training_bindings("DNLI", 320, CriticTableOptions(model=bart), writes=True)
    assert bindings["DECODING"] is None
    assert "LABEL_NAMES" not in bindings


def test_the_recipes_schedule():
    options = CriticTableOptions(model="m", vocabulary="v", seed=3)
    found = training_bindings("FaithCritic", 34016, options)
    # As faith_critic_finetune.gin has them for its own data.
    assert (found["TRAIN_STEPS"], found["WARMUP_STEPS"], found["EVAL_PERIOD"]) == (10630, 638, 531)
    assert found["LABEL_NAMES"] == ("unfaithful", "faithful")
    assert found["TASK_FEATURE_LENGTHS"] == {"inputs": 256, "targets": 8}
    assert (found["BATCH_SIZE"], found["VOCABULARY"], found["RANDOM_SEED"]) == (32, "v", 3)
    options = CriticTableOptions(model="m", sets="own")
    found = training_bindings("FaithCritic", 34016, options)
    assert found["MIXTURE_OR_TASK_NAME"] == "faith_critic_all_edits"
    options = CriticTableOptions(model="m", sample=True, train_steps=5)
    found = training_bindings("DECODE", 7, options)
    assert found["MIXTURE_OR_TASK_NAME"] == "nli_decode_sample"
    assert (found["TRAIN_STEPS"], found["WARMUP_STEPS"], found["CHECKPOINT_PERIOD"]) == (5, 0, 1)


def test_data_that_is_not_at_hand_is_left_out(reproduce, critics, tmp_path, monkeypatch):
    def unreachable(self, name):
        raise InputError(f"{name}: TFDS cannot prepare it. Copy it there.")

    monkeypatch.setattr(sources.TfdsUnionSource, "_prepared", unreachable)

    def without_begin(self, name):
        return name if name.startswith("begin") else f"{name}_sample"

    monkeypatch.setattr(CriticTableOptions, "task", without_begin)
    status, lines, _ = reproduce(tmp_path, *given(critics, "FaithCritic"))
    assert status == 0
    assert lines[1].split() == ["trained", "on", "MNLI", "FaithCritic"]
    left_out = next(line for line in lines if line.startswith("Left out: "))
    assert "tested on BEGIN: " in left_out
    monkeypatch.setattr(CriticTableOptions, "task", lambda self, name: name)
    status, _, errors = reproduce(tmp_path / "none", *given(critics, "FaithCritic"))
    assert status == 2
    assert "faith_critic: no data to test a critic on: tested on MNLI: " in errors[-1]
    # Nor can a critic be trained then.
    monkeypatch.setattr(critic_models, "ROWS", {"DECODE": critic_models.ROWS["DECODE"]})
    options = CriticTableOptions(model=critics["base"])
    assert list(critic_models.trained_critics(tmp_path, options)[1]) == ["DECODE"]


def test_published_figures_stand_below_ours(critics, tmp_path, monkeypatch, capfd):
    """With samples in the place of the paper's data, which is not at hand."""

    def sample(task, tfds, split):
        return dataset_rows(f"{task}_sample", tfds, split)

    monkeypatch.setattr(critic_table, "dataset_rows", sample)
    output = (f"--output={tmp_path}", "--max-length=64", "--resamples=100")
    assert main(["reproduce", "faith_critic", *output, *given(critics, "MNLI")]) == 0
    capfd.readouterr()
    markdown = (tmp_path / "faith_critic.md").read_text("utf-8").splitlines()
    (line,) = [line for line in markdown if "MNLI (published)" in line]
    cells = [cell.strip() for cell in line.split("|")[2:-1]]
    assert cells == ["93.1", "61.1\u2020", "81.6\u2020"]
    assert any("table 4, of another model: the authors' RoBERTa-large" in line for line in markdown)
    found = json.loads((tmp_path / "faith_critic.json").read_text("utf-8"))
    assert [row["published"] for row in found["rows"]] == pytest.approx([0.931, 0.611, 0.816])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "faith_critic needs critics: give --critics=NAME=FOLDER, or --model"),
        (("--critics=DNL={DNLI}",), "--critics: there is no row 'DNL'. Did you mean 'DNLI'"),
        (("--critics={DNLI}",), "--critics: expected NAME=FOLDER, got"),
        (("--critics=DNLI=",), "--critics: expected NAME=FOLDER, got 'DNLI='"),
        (("--critics=DNLI={DNLI}", "--critics=DNLI={DNLI}"), "'DNLI' is given twice"),
        (("--critics=DNLI=none",), "--critics: DNLI=none: no such folder"),
        (("--critics=DNLI={DECODE}",), "--critics: DNLI: the model has 2 classes (contradiction"),
        (("--critics=DECODE={DNLI}",), "--critics: DECODE: the model has 3 classes (entailment"),
        (("--critics=DECODE={FaithCritic}",), "expected contradiction, not_contradiction"),
        (("--critics=FaithCritic={base}",), "the model has 0 classes"),
        (("--model={base}", "--train-steps=-1"), "--train-steps: expected at least 1, got -1"),
        (("--model={base}", "--batch-size=0"), "--batch-size: expected at least 1, got 0"),
        (("--model={base}", "--scorers=bleu"), "has no argument '--scorers=bleu'"),
        (("--model={base}", "--beams=2"), "reproduce faith_critic has no argument '--beams=2'"),
        (("--model={base}", "--max-input-length=9"), "has no argument '--max-input-length=9'"),
    ],
)
def test_bad_input_is_one_line(reproduce, critics, tmp_path, arguments, message):
    output = tmp_path / "out"
    status, _, errors = reproduce(output, *(a.format(**critics) for a in arguments))
    assert (status, len(errors)) == (2, 1)
    assert message in errors[0]
    assert not list(output.glob("*/*"))


@pytest.mark.parametrize(
    ("row", "names", "number"),
    [
        ("DECODE", ["Contradiction", "Non-Contradiction"], 1),
        ("DECODE", ["other", "contradiction"], 0),
        ("MNLI", ["neutral", "entailment", "contradiction"], 1),
        ("FaithCritic", ["Entailment", "Hallucination"], 0),
        ("FaithCritic", ["LABEL_0", "LABEL_1"], 0),
    ],
)
def test_the_faithful_class(row, names, number):
    assert faithful_number(row, names) == number


def test_classes_that_do_not_tell():
    with pytest.raises(ConfigError, match="--critics: MNLI: the model's classes are named a, b, c"):
        faithful_number("MNLI", ["a", "b", "c"])
