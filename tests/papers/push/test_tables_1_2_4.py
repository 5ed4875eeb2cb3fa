"""Steen 2023's tables 1, 2 and 4 through the command, with tiny random classifiers."""

import csv
import json

import numpy as np
import pytest

from faith_jax.cli import main
from faith_jax.inference.opening import open_model
from faith_jax.papers.push import tables_1_2_4 as nli
from faith_jax.papers.push.options import Nli
from faith_jax.runs.setup import count_params
from faith_jax.scoring.registry import load_scorer
from faith_jax.statistics.auc import roc_auc
from tests.papers.planted import plant_q2
from tests.papers.workflows import figures, rows_of, without_snakemake
from tests.scoring import tiny_models

pytestmark = pytest.mark.usefixtures("offline_data_dir")

NLI = ("neutral", "contradiction", "entailment")
CORPORA = ("frank", "q2")
SINGLE = ["t5_anli", "summac_zs", "base", "base_e_minus_c", "base_mc", "augmented", "no_mc", "all"]
DIFFERENCES = ("base_e_minus_c", "base_mc", "augmented")
OF_CORPORA = f"--corpora={','.join(CORPORA)}"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    folders = {
        name: tiny_models.write_model(folder / name, "deberta_nli", seed, label_names=NLI)
        for seed, name in enumerate(("base", "augmented", "summac"))
    }
    folders["t5"] = tiny_models.write_model(folder / "t5", "bart", seed=3, max_positions=512)
    folders["two"] = tiny_models.write_model(folder / "two", "roberta", label_names=("yes", "no"))
    folders["unnamed"] = tiny_models.write_model(
        folder / "unnamed", "deberta_nli", label_names=("LABEL_0", "LABEL_1", "LABEL_2")
    )
    folders["bart"] = tiny_models.write_model(folder / "bart", "bart", max_positions=512)
    return folders


@pytest.fixture(autouse=True)
def _without_snakemake(monkeypatch):
    without_snakemake(monkeypatch)


SAMPLE = ("reproduce", "nli", "--sample", "--resamples=100", "--dropout-passes=2")


def given(models, *names):
    options = {"base": "--model", "augmented": "--augmented-model", "t5": "--t5-model"}
    options["summac"] = "--summac-model"
    return [f"{options[name]}={models[name]}" for name in names or options]


def scores_of(folder, corpus, method):
    """Returns a method's scores and the labels."""
    for path in (folder / "scores").glob("*.jsonl"):
        rows = [row for row in rows_of(path) if row["corpus"] == corpus]
        if method in rows[0]["scores"]:
            scores = [row["scores"][method] for row in rows]
            return np.array(scores), [row["label"] for row in rows]
    raise KeyError(method)


def cells_of(folder, name="nli"):
    return figures(folder, name, "table", "method", "corpus", "figure")


@pytest.fixture(scope="module")
def whole(models, tmp_path_factory):
    """A folder with all methods: samples as the paper's corpora, stand-ins for Q2's models."""
    folder = tmp_path_factory.mktemp("whole") / "made"
    arguments = ["reproduce", "nli", "--resamples=100", "--dropout-passes=2"]
    q2 = f"--q2-model={models['bart']}"
    with pytest.MonkeyPatch.context() as monkeypatch:
        without_snakemake(monkeypatch)
        monkeypatch.setattr(nli, "data_of", lambda corpus, _: f"true_benchmark/{corpus}_sample")
        plant_q2(monkeypatch)
        assert main([*arguments, f"--output={folder}", OF_CORPORA, *given(models), q2]) == 0
    return folder


@pytest.mark.papers
def test_each_cell_is_what_its_scorer_gives(whole, models):
    dropout = {"dropout_passes": 2, "seed": 0}
    expected = {
        "base": ("nli_entailment", "base", {}),
        "base_e_minus_c": ("nli_e_minus_c", "base", {}),
        "base_mc": ("nli_entailment", "base", dropout),
        "augmented": ("nli_entailment", "augmented", {}),
        "no_mc": ("nli_e_minus_c", "augmented", {}),
        "all": ("nli_e_minus_c", "augmented", dropout),
        "t5_anli": ("nli_entailment", "t5", {}),
        "summac_zs": ("summac_zs", "summac", {}),
    }
    rows = [r for r in rows_of(whole / "scores" / "base.jsonl") if r["corpus"] == "q2"]
    texts = [row["grounding"] for row in rows], [row["generated_text"] for row in rows]
    for method, (scorer, model, options) in expected.items():
        scores = load_scorer(scorer, model=models[model], **options).score(*texts)
        np.testing.assert_allclose(
            scores_of(whole, "q2", method)[0], [score.value for score in scores], atol=1e-6
        )


@pytest.mark.papers
def test_figures_are_those_of_the_scored_files(whole):
    report = json.loads((whole / "nli.json").read_text())
    cells = cells_of(whole)
    for corpus in CORPORA:
        labels = scores_of(whole, corpus, "base")[1]
        areas = {m: roc_auc(*scores_of(whole, corpus, m)) for m in SINGLE}
        for method, area in areas.items():
            cell = cells["1", method, corpus, "auc"]
            assert cell["value"] == pytest.approx(area)
            assert cell["rows"] == len(labels)
            # Of the methods of table 2 the paper has differences alone.
            assert (cell["published"] is None) == (method in DIFFERENCES)
        for method in DIFFERENCES:
            difference = cells["2", method, corpus, "auc_difference"]["value"]
            assert difference == pytest.approx(areas[method] - areas["base"])
    means = [cells["1", "all", corpus, "auc"]["value"] for corpus in CORPORA]
    assert cells["1", "all", "average", "auc"]["value"] == pytest.approx(np.mean(means))
    assert cells["4", "all", "average", "auc"]["value"] == pytest.approx(np.mean(means))
    assert 0 < cells["1", "all", "q2", "p_base"]["value"] <= 1
    assert ("1", "summac_zs", "q2", "p_base") not in cells  # the paper does not test it
    with open(whole / "nli.csv", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(report["rows"])
    assert report["sample"] is False
    assert (whole / "nli_histograms.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.papers
def test_costs(whole, models):
    costs = json.loads((whole / "nli.json").read_text())["costs"]
    assert list(costs) == ["summac_zs", "t5_anli", "q2", "base", "base_mc", "no_mc", "all"]
    sizes = {
        name: count_params(open_model(models[name]).params) for name in ("base", "augmented", "t5")
    }
    assert costs["base"]["millions"] == costs["base_mc"]["millions"] == [sizes["base"] / 1e6]
    assert costs["all"]["millions"] == [sizes["augmented"] / 1e6]
    assert costs["t5_anli"]["millions"] == [sizes["t5"] / 1e6]
    for cost in costs.values():
        assert cost["examples_per_second"] > 0
        rows = len(scores_of(whole, "frank", "base")[1])
        assert (cost["corpus"], cost["rows"]) == ("frank", rows)


@pytest.mark.papers
def test_a_table_of_samples_says_so(command, models, tmp_path):
    some = (*given(models, "base"), "--corpora=q2,fever", "--methods=base")
    lines = command.succeeds(*SAMPLE, f"--output={tmp_path}", *some).splitlines()
    assert not any("table 2" in line for line in lines)  # nothing to compare
    columns = next(line for line in lines if line.startswith("| method"))
    # FEVER does not count in an average.
    assert [cell.strip() for cell in columns.split("|")] == ["", "method", "q2", "fever", ""]
    markdown = (tmp_path / "nli_sample.md").read_text()
    assert markdown.startswith(
        "# SAMPLES, not the paper's data: Faithfulness by NLI models on TRUE"
    )
    assert "published" not in markdown.lower()


def test_steps_and_options_of_a_model(models):
    labels = "neutral,contradiction,entailment"
    overrides = (f"base.labels={labels}", "base.dropout_rate=0.5")
    options = Nli(output="", model=models["unnamed"], summac_model=models["summac"], sample=True,
                  corpora=CORPORA, scorer_option=overrides)  # fmt: skip
    table = nli.Table(options, lambda *_: 1)
    assert list(table.scores) == ["base", "summac_zs"]  # each model once
    command = table.scores["base"].command
    assert command[:2] == [f"--tfds=true_benchmark/{corpus}_sample" for corpus in CORPORA]
    for method in ("base", "base_e_minus_c", "base_mc"):
        assert any(f"--scorer-option={method}.labels=" in argument for argument in command)
        has_rate = any(a.startswith(f"--scorer-option={method}.dropout_rate=0.5") for a in command)
        assert has_rate == (method == "base_mc")


def test_corpora_without_data_are_left_out(command, models, tmp_path, caplog):
    """The paper's own corpora, which are not available here."""
    arguments = (f"--model={models['base']}", f"--output={tmp_path}", "--corpora=frank,mnbm")
    command.refuses("reproduce", "nli", *arguments)
    assert "left out: frank (no data)" in caplog.text
    assert "left out: mnbm (no data)" in caplog.text
    assert not (tmp_path / "scores").exists()


@pytest.mark.papers
def test_ensembles_and_published_figures(whole, models):
    report = json.loads((whole / "nli.json").read_text())
    assert report["models"]["q2"]["nli_model"] == models["base"]
    cells = cells_of(whole)
    for corpus in CORPORA:
        labels = scores_of(whole, corpus, "all")[1]
        members = {m: scores_of(whole, corpus, m)[0] for m in ("t5_anli", "summac_zs", "q2", "all")}
        members["all"] = (members["all"] + 1) / 2
        for name, first in (("e_orig", "t5_anli"), ("e_our", "all")):
            values = np.mean([members[m] for m in (first, "summac_zs", "q2")], axis=0)
            area = roc_auc(values, labels)
            assert cells["1", name, corpus, "auc"]["value"] == pytest.approx(area)
    assert cells["1", "e_our", "frank", "auc"]["published"] == 0.915
    assert cells["1", "e_our", "average", "auc"]["published"] == 0.9  # of 91.5 and 88.5
    assert ("1", "e_our", "frank", "p_e_orig") in cells
    assert ("1", "e_our", "frank", "p_base") not in cells
    assert len(report["costs"]["q2"]["millions"]) == 2
    markdown = (whole / "nli.md").read_text()
    for title in ("table 1", "table 2", "table 4", "figure 1"):
        assert f"(Steen 2023, {title})" in markdown
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in markdown.splitlines()]
    assert ["all (published)", "87.7", "89.4"] in [row[:3] for row in rows]
    assert ["frank (published)", "+0.3", "+0.9", "+1.0"] in rows
    assert any(row[:1] == ["q2 (published)"] and "220 + 355 + 355" in row for row in rows)
    assert "so are the published ones of tables 1 and 2" in markdown
    mapped = "Ensembles are the mean of their members' scores, after mapping the range of all"
    assert mapped in markdown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--model: give a classifier of three classes: --model=FOLDER."),
        (("--model={two}",), "--model: nli_entailment: the model has 2 classes (yes, no)"),
        (("--model={unnamed}",), "say their order with labels="),
        (("--model={base}", "--augmented-model={two}"), "--augmented-model: nli_entailment: the m"),
        (("--model={base}", "--methods=bas"), "--methods: there is no 'bas'. Did you mean 'base'"),
        (("--model={base}", "--methods=e_orig"), "--methods: e_orig needs a model: give --t5-mo"),
        (("--model={base}", "--q2-nli-model={base}"), "--q2-nli-model: goes with --q2-model."),
        (
            ("--model={base}", "--scorer-option=base.dropout_passes=3"),
            "base.dropout_passes is of the methods with Monte-Carlo dropout; give --dropout-passes",
        ),
        (("--model={base}", "--scorer-option=q2.num_beams=3"), "q2 has no model; give --q2-model"),
        (("--model={base}", "--scorer-option=x.labels=3"), "'x' is not among the models."),
    ],
)
def test_mistakes(command, models, tmp_path, arguments, message):
    arguments = [argument.format(**models) for argument in arguments]
    assert message in command.refuses(*SAMPLE, f"--output={tmp_path / 'made'}", *arguments)
    assert not list((tmp_path / "made").rglob("*"))
