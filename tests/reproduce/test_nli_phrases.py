"""Steen 2023's table 5 through the command, with a tiny random classifier."""

import json
import math
import os
import signal
import statistics
import time

import gin
import pytest

from faith_jax.cli import main
from faith_jax.datasets.augmentation.dialogue_phrases import phrase_draw
from faith_jax.reproduce import nli_draws, nli_phrases, nli_scores
from faith_jax.scoring.registry import load_scorer
from faith_jax.statistics.roc import roc_auc
from faith_jax.tokenizers.vocabularies import default_vocabulary
from tests.scoring import tiny_models

pytestmark = pytest.mark.usefixtures("offline_data_dir")

NLI = ("neutral", "contradiction", "entailment")
CORPORA = ("frank", "q2")
FEW = (
    "--sample",
    f"--corpora={','.join(CORPORA)}",
    "--dropout-passes=2",
    "--train-steps=4",
    "--batch-size=4",
    "--max-input-length=64",
    "--learning-rate=0.01",
    "--draws=2",
    "--scorer-option=base.max_length=64",  # one shape to compile
)


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation(quick_compilation):
    return


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "base"
    return tiny_models.write_model(folder, "deberta_nli", label_names=NLI)


@pytest.fixture
def reproduce(capsys):
    def run(output, *arguments):
        status = main(["reproduce", "nli_phrases", *FEW, f"--output={output}", *arguments])
        out, err = capsys.readouterr()
        return status, out.splitlines(), err.strip().splitlines()

    return run


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory):
    """A folder of two draws, and what the command left behind in the process."""
    folder = tmp_path_factory.mktemp("whole") / "made"
    before = default_vocabulary()
    arguments = ("nli_phrases", *FEW, f"--output={folder}", f"--model={model}")
    assert main(["reproduce", *arguments]) == 0
    assert default_vocabulary() == before
    assert not gin.config_is_locked()
    assert gin.config_str() == ""
    return folder


def area(folder, corpus):
    path = folder / corpus / "e_minus_c_mc.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return roc_auc([row["scores"]["e_minus_c_mc"] for row in rows], [row["label"] for row in rows])


def test_each_draw_is_trained_with_its_phrases(whole):
    steps = set()
    for number in range(2):
        told = json.loads((whole / f"draw_{number}" / "trained.json").read_text())
        assert tuple(told["phrases"]) == phrase_draw(number)
        config = (whole / f"draw_{number}" / "run" / "config.gin").read_text()
        for phrase in phrase_draw(number):
            assert repr(phrase) in config
        assert "WARMUP_STEPS = 0" in config
        metrics = (whole / f"draw_{number}" / "run" / "metrics.jsonl").read_text().splitlines()
        losses = {
            row["step"]: row["loss"]
            for row in map(json.loads, metrics)
            if row["part"] == "validation"
        }
        assert told["step"] == min(losses, key=losses.get)  # the lowest validation loss
        steps |= losses.keys()
    assert steps == {1, 2, 3, 4}
    draws = [json.loads((whole / f"draw_{n}/trained.json").read_text())["phrases"] for n in (0, 1)]
    assert draws[0] != draws[1]


def test_figures_are_those_of_the_draws(whole, model):
    found = json.loads((whole / "nli_phrases_sample.json").read_text())
    cells = {(row["method"], row["corpus"], row["figure"]): row["value"] for row in found["rows"]}
    areas = {}
    for corpus in CORPORA:
        areas[corpus] = [area(whole / f"draw_{n}" / "scores", corpus) for n in range(2)]
        assert cells["draws", corpus, "no_augmentation"] == area(whole / "no_augmentation", corpus)
    areas["average"] = [statistics.fmean(pair) for pair in zip(*areas.values(), strict=True)]
    for corpus, values in areas.items():
        expected = (statistics.fmean(values), statistics.stdev(values), min(values), max(values))
        figures = [cells["draws", corpus, name] for name in ("average", "std", "min", "max")]
        assert figures == pytest.approx(expected)
        assert [cells[f"draw_{n}", corpus, "auc"] for n in range(2)] == pytest.approx(values)
    assert found["phrases"] == [list(phrase_draw(number)) for number in range(2)]
    rows = (whole / "no_augmentation" / "q2" / "e_minus_c_mc.jsonl").read_text().splitlines()
    row = json.loads(rows[0])
    options = {"max_length": 64, "dropout_passes": 2, "seed": 0}
    scorer = load_scorer("nli_e_minus_c", model=model, **options)
    score = scorer.score([row["grounding"]], [row["generated_text"]])[0].value
    assert row["scores"]["e_minus_c_mc"] == pytest.approx(score, abs=1e-6)
    markdown = (whole / "nli_phrases_sample.md").read_text()
    assert markdown.startswith("# SAMPLES, not the paper's data: Robustness")
    assert "published" not in markdown.lower()


def test_finished_draws_are_kept_and_more_may_be_made(reproduce, whole, model, monkeypatch):
    table = whole / "nli_phrases_sample.json"
    before = table.read_text()
    trained = []
    monkeypatch.setattr(nli_draws, "_train", lambda folder, *_: trained.append(folder))
    monkeypatch.setattr(nli_scores, "load_scorer", lambda *_, **__: 1 / 0)
    assert reproduce(whole, f"--model={model}")[0] == 0
    assert (trained, table.read_text()) == ([], before)
    monkeypatch.undo()
    cell = whole / "draw_1" / "scores" / "q2" / "e_minus_c_mc.jsonl"
    text = cell.read_text()
    cell.unlink()
    monkeypatch.setattr(nli_draws, "_train", lambda folder, *_: trained.append(folder))
    assert reproduce(whole, f"--model={model}")[0] == 0
    assert (trained, cell.read_text(), table.read_text()) == ([], text, before)


def test_a_stopped_training_goes_on_and_ends_in_the_same_place(
    reproduce, whole, model, tmp_path, monkeypatch
):
    """A SIGTERM in the first draw: the state is saved, and the same command goes on from it."""
    from faith_jax.input.task_batches import SplitRows
    from faith_jax.training.metrics import MetricsWriter

    really = MetricsWriter.write

    def write(self, step, part, values):
        really(self, step, part, values)
        if (step, part) == (2, "validation"):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.1)

    monkeypatch.setattr(MetricsWriter, "write", write)
    arguments = (f"--model={model}", "--draws=1")
    status, _, errors = reproduce(tmp_path, *arguments)
    assert status == 143
    assert "terminated; what is made is kept in" in errors[-1]
    assert not (tmp_path / "draw_0" / "trained.json").exists()
    assert gin.config_str() == ""
    monkeypatch.undo()
    starts = []
    batches = SplitRows._training_batch
    monkeypatch.setattr(SplitRows, "_training_batch", lambda *a: starts.append(a[1]) or batches(*a))
    assert reproduce(tmp_path, *arguments)[0] == 0
    # The first batch is looked at before the run goes on, three are read at once.
    assert starts[3:6] == [2, 3, 4]
    for corpus in CORPORA:
        name = f"draw_0/scores/{corpus}/e_minus_c_mc.jsonl"
        found, expected = ((f / name).read_text().splitlines() for f in (tmp_path, whole))
        for one, other in zip(found, expected, strict=True):
            scores = [json.loads(line)["scores"]["e_minus_c_mc"] for line in (one, other)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-6)


def test_published_figures_stand_below_ours(whole, model, tmp_path):
    options = nli_phrases.PhraseOptions(
        nli_draws.ModelOptions({"base": {"model": model}}), draws=2, corpora=CORPORA
    )
    areas = {"frank": [0.5, 0.6], "q2": [0.7, 0.8]}
    base = {"frank": 0.5, "q2": 0.5}
    table = nli_phrases.phrase_table(areas, base, {}, CORPORA, True)
    text = nli_phrases._written(tmp_path, table, CORPORA, options)
    assert "frank (published)  86.7" in text
    found = json.loads((tmp_path / "nli_phrases.json").read_text())
    cells = {(row["corpus"], row["figure"]): row["published"] for row in found["rows"]}
    assert cells["q2", "no_augmentation"] == 0.863
    assert found["sample"] is False


def test_the_model_of_all_phrases_stands_beside(reproduce, whole, model, tmp_path):
    import shutil

    folder = tmp_path / "made"
    shutil.copytree(whole, folder)
    augmented = tiny_models.write_model(tmp_path / "aug", "deberta_nli", 7, label_names=NLI)
    status, lines, _ = reproduce(folder, f"--model={model}", f"--augmented-model={augmented}")
    assert status == 0
    found = json.loads((folder / "nli_phrases_sample.json").read_text())["rows"]
    cells = {(row["method"], row["corpus"], row["figure"]): row["value"] for row in found}
    mean = cells["draws", "q2", "average"] - area(folder / "augmented", "q2")
    assert cells["draws", "q2", "difference"] == pytest.approx(mean)
    assert any("from all" in line for line in lines)
    assert not math.isnan(mean)


def test_other_settings_are_refused(reproduce, whole, model, tmp_path):
    other = tiny_models.write_model(tmp_path / "other", "deberta_nli", 7, label_names=NLI)
    for arguments, message in (
        (("--train-steps=5",), "another value of train-steps (4, not 5)"),
        (("--phrases=4",), "another value of phrases (5, not 4)"),
        (("--seed=1",), "another value of seed (0, not 1)"),
        ((f"--model={other}",), "another value of model ("),
        (
            ("--scorer-option=base.dropout_rate=0.5",),
            "another value of scorer-option ({'max_length': 64},",
        ),
    ):
        status, out, errors = reproduce(whole, f"--model={model}", *arguments)
        assert (status, out) == (2, [])
        assert f"keeps draws with {message}" in errors[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model=",), "--scorer-option: base has no model; give --model."),
        (("--draws=0",), "--draws: expected a positive number, got 0."),
        (("--phrases=11",), "--phrases: expected 1 to 10, the paper's, got 11."),
        (("--train-steps=0",), "--train-steps: expected a positive number"),
        (("--max-input-length=4",), "--max-input-length: expected at least 8 tokens, got 4."),
        (("--learning-rate=0",), "--learning-rate: expected more than 0, got 0.0."),
        (
            ("--train-task=nli_anli_sample",),
            "--train-task: nli_anli_sample has no dialogue phrases",
        ),
        (("--train-task=nli_al",), "--train-task: There is no task or mixture 'nli_al'. Did you"),
        (("--corpora=q3",), "--corpora: there is no 'q3'."),
        (("--methods=all",), "reproduce nli_phrases has no argument '--methods=all'"),
        (("--resamples=200",), "nli_phrases has no argument '--resamples=200'"),
        (("--model=/no/where",), "--model: /no/where: there is no such checkpoint"),
    ],
)
def test_mistakes(reproduce, model, tmp_path, arguments, message):
    status, out, errors = reproduce(tmp_path / "made", f"--model={model}", *arguments)
    assert (status, out) == (2, [])
    assert message in errors[-1]
