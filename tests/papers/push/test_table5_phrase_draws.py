"""Steen 2023's table 5 through the command, with a tiny random classifier."""

import json

import pytest

from faith_jax.datasets.augmentation.dialogue_phrases import phrase_draw
from faith_jax.papers.push import table5_phrase_draws as nli_phrases
from faith_jax.papers.push.options import NliPhrases
from tests.scoring import tiny_models

pytestmark = pytest.mark.usefixtures("offline_data_dir")

NLI = ("neutral", "contradiction", "entailment")
CORPORA = ("frank", "q2")
FEW = ("--sample", f"--corpora={','.join(CORPORA)}", "--dropout-passes=2", "--draws=2")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "base"
    return tiny_models.write_model(folder, "deberta_nli", label_names=NLI)


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
    found = json.loads((tmp_path / "nli_phrases.json").read_text())
    cells = {(row["corpus"], row["figure"]): row["published"] for row in found["rows"]}
    assert cells["q2", "no_augmentation"] == 0.863
    assert found["sample"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--model=", "--scorer-option=base.max_length=64"),
            "--scorer-option: base has no model; give --model.",
        ),
        (("--max-input-length=4",), "--max-input-length: expected a whole number, at least 8, got"),
        (
            ("--train-task=nli_anli_sample",),
            "--train-task: nli_anli_sample has no dialogue phrases",
        ),
    ],
)
def test_mistakes(command, model, tmp_path, arguments, message):
    given = (*FEW, f"--output={tmp_path / 'made'}", f"--model={model}", *arguments)
    assert message in command.refuses("reproduce", "nli_phrases", *given)
    assert not (tmp_path / "made").exists()
