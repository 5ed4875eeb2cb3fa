"""Steen 2023's table 5 through the command, with a tiny random classifier."""

import json
import statistics

import pytest

from faith_jax.cli import main
from faith_jax.datasets.augmentation.dialogue_phrases import phrase_draw
from faith_jax.papers.push import table5_phrase_draws as nli_phrases
from faith_jax.papers.push.options import NliPhrases
from faith_jax.scoring.registry import load_scorer
from faith_jax.statistics.auc import roc_auc
from tests.papers.workflows import rows_of, without_snakemake
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


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "base"
    return tiny_models.write_model(folder, "deberta_nli", label_names=NLI)


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory):
    """A folder of two draws, and a model of all phrases."""
    folder = tmp_path_factory.mktemp("whole")
    augmented = tiny_models.write_model(folder / "aug", "deberta_nli", 7, label_names=NLI)
    output = folder / "made"
    arguments = (f"--output={output}", f"--model={model}", f"--augmented-model={augmented}")
    with pytest.MonkeyPatch.context() as monkeypatch:
        without_snakemake(monkeypatch)
        assert main(["reproduce", "nli_phrases", *FEW, *arguments]) == 0
    return output


def area(folder, name, corpus):
    rows = [r for r in rows_of(folder / "scores" / f"{name}.jsonl") if r["corpus"] == corpus]
    return roc_auc([row["scores"]["e_minus_c_mc"] for row in rows], [row["label"] for row in rows])


@pytest.mark.papers
def test_each_draw_is_trained_with_its_phrases(whole):
    for number in range(2):
        folder = whole / "models" / f"draw_{number}"
        config = (folder / "config.gin").read_text()
        for phrase in phrase_draw(number):
            assert repr(phrase) in config
        assert "WARMUP_STEPS = 0" in config
        metrics = (row for row in rows_of(folder / "metrics.jsonl") if row["part"] == "validation")
        losses = {row["step"]: row["loss"] for row in metrics}
        assert losses.keys() == {1, 2, 3, 4}
        best = min(losses, key=losses.get)  # the lowest validation loss counts
        assert (folder / "checkpoints" / str(best)).is_dir()
    assert phrase_draw(0) != phrase_draw(1)


@pytest.mark.papers
def test_figures_are_those_of_the_draws(whole, model):
    report = json.loads((whole / "nli_phrases_sample.json").read_text())
    cells = {(row["method"], row["corpus"], row["figure"]): row["value"] for row in report["rows"]}
    areas = {}
    for corpus in CORPORA:
        areas[corpus] = [area(whole, f"draw_{n}", corpus) for n in range(2)]
        plain = cells["draws", corpus, "no_augmentation"]
        assert plain == pytest.approx(area(whole, "no_augmentation", corpus))
        difference = statistics.fmean(areas[corpus]) - area(whole, "augmented", corpus)
        assert cells["draws", corpus, "difference"] == pytest.approx(difference)
    areas["average"] = [statistics.fmean(pair) for pair in zip(*areas.values(), strict=True)]
    for corpus, values in areas.items():
        expected = (statistics.fmean(values), statistics.stdev(values), min(values), max(values))
        figures = [cells["draws", corpus, name] for name in ("average", "std", "min", "max")]
        assert figures == pytest.approx(expected)
        assert [cells[f"draw_{n}", corpus, "auc"] for n in range(2)] == pytest.approx(values)
    assert report["phrases"] == [list(phrase_draw(number)) for number in range(2)]
    row = next(
        r for r in rows_of(whole / "scores" / "no_augmentation.jsonl") if r["corpus"] == "q2"
    )
    options = {"max_length": 64, "dropout_passes": 2, "seed": 0}
    scorer = load_scorer("nli_e_minus_c", model=model, **options)
    score = scorer.score([row["grounding"]], [row["generated_text"]])[0].value
    assert row["scores"]["e_minus_c_mc"] == pytest.approx(score, abs=1e-6)
    markdown = (whole / "nli_phrases_sample.md").read_text()
    assert markdown.startswith("# SAMPLES, not the paper's data: Robustness")
    assert "published" not in markdown.lower()
    assert "from all" in markdown


def test_published_figures_stand_below_ours(model, tmp_path, monkeypatch):
    options = NliPhrases(output="", model=model, draws=2, corpora=CORPORA)
    table = nli_phrases.Table(options, lambda *_: 9)
    assert list(table.scores) == ["no_augmentation", "draw_0", "draw_1"]
    assert list(table.trainings) == ["draw_0", "draw_1"]
    assert table.trainings["draw_1"].bindings["PHRASES"] == phrase_draw(1)
    assert table.scores["draw_1"].inputs == ["models/draw_1.trained"]
    areas = {"no_augmentation": 0.5, "draw_0": 0.6, "draw_1": 0.7}
    monkeypatch.setattr(
        nli_phrases.Table,
        "_compute_aucs",
        lambda _, folder, name: dict.fromkeys(CORPORA, areas[name]),
    )
    table.write(tmp_path)
    assert "| frank (published) | 86.7" in (tmp_path / "nli_phrases.md").read_text()
    report = json.loads((tmp_path / "nli_phrases.json").read_text())
    cells = {(row["corpus"], row["figure"]): row["published"] for row in report["rows"]}
    assert cells["q2", "no_augmentation"] == 0.863
    assert report["sample"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model=",), "--scorer-option: base has no model; give --model."),
        (
            ("--max-input-length=4",),
            "--max-input-length: expected a whole number, at least 8, got 4",
        ),
        (
            ("--train-task=nli_anli_sample",),
            "--train-task: nli_anli_sample has no dialogue phrases",
        ),
    ],
)
def test_mistakes(model, tmp_path, capsys, arguments, message):
    command_line = (*FEW, f"--output={tmp_path / 'made'}", f"--model={model}", *arguments)
    status = main(["reproduce", "nli_phrases", *command_line])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert message in err.splitlines()[-1]
    assert not (tmp_path / "made").exists()
