"""Steen 2023's tables 1, 2 and 4 through the command, with tiny random classifiers."""

import csv
import json

import numpy as np
import pytest

from faith_jax.cli import main
from faith_jax.inference.opening import open_model
from faith_jax.reproduce import nli_costs, nli_scores
from faith_jax.runs.setup import count_params
from faith_jax.scoring.registry import load_scorer
from faith_jax.statistics.roc import roc_auc
from tests.scoring import tiny_models

pytestmark = pytest.mark.usefixtures("offline_data_dir")

NLI = ("neutral", "contradiction", "entailment")
CORPORA = ("frank", "q2")
SINGLE = ["t5_anli", "summac_zs", "base", "base_e_minus_c", "base_mc", "augmented", "no_mc", "all"]
GENERATED = ["q2"]


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation(quick_compilation):
    return


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    made = {
        name: tiny_models.write_model(folder / name, "deberta_nli", seed, label_names=NLI)
        for seed, name in enumerate(("base", "augmented", "summac"))
    }
    made["t5"] = tiny_models.write_model(folder / "t5", "bart", seed=3, max_positions=512)
    made["two"] = tiny_models.write_model(folder / "two", "roberta", label_names=("yes", "no"))
    made["unnamed"] = tiny_models.write_model(
        folder / "unnamed", "deberta_nli", label_names=("LABEL_0", "LABEL_1", "LABEL_2")
    )
    made["bart"] = tiny_models.write_model(folder / "bart", "bart", max_positions=512)
    return made


@pytest.fixture
def reproduce(capsys):
    def run(output, *arguments):
        given = ("--sample", "--resamples=100", "--dropout-passes=2", f"--output={output}")
        corpora = "" if any(a.startswith("--corpora") for a in arguments) else ",".join(CORPORA)
        given = (*given, *([f"--corpora={corpora}"] if corpora else []), *arguments)
        status = main(["reproduce", "nli", *map(str, given)])
        out, err = capsys.readouterr()
        return status, out.splitlines(), err.strip().splitlines()

    return run


def given(models, *names):
    options = {"base": "--model", "augmented": "--augmented-model", "t5": "--t5-model"}
    options["summac"] = "--summac-model"
    return [f"{options[name]}={models[name]}" for name in names or options]


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def scores_of(folder, corpus, method):
    return np.array([row["scores"][method] for row in rows_of(folder / corpus / f"{method}.jsonl")])


def labels_of(folder, corpus):
    return [row["label"] for row in rows_of(folder / corpus / "base.jsonl")]


@pytest.fixture(scope="module")
def whole(models, tmp_path_factory):
    """A folder with all that needs no Q2, and what the command printed."""
    folder = tmp_path_factory.mktemp("whole") / "made"
    arguments = ["reproduce", "nli", "--sample", "--resamples=100", "--dropout-passes=2"]
    arguments += [f"--output={folder}", f"--corpora={','.join(CORPORA)}", *given(models)]
    assert main(arguments) == 0
    return folder


@pytest.fixture
def refuse_work(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("nothing should be computed")

    monkeypatch.setattr(nli_scores, "load_scorer", fail)


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
    rows = rows_of(whole / "q2" / "base.jsonl")
    texts = [row["grounding"] for row in rows], [row["generated_text"] for row in rows]
    for method, (scorer, model, options) in expected.items():
        found = load_scorer(scorer, model=models[model], **options).score(*texts)
        np.testing.assert_allclose(
            scores_of(whole, "q2", method), [score.value for score in found], atol=1e-6
        )
    assert {path.stem for path in (whole / "q2").glob("*.jsonl")} == set(SINGLE)
    assert list(rows[0]["scores"]) == ["base"]


def test_figures_are_those_of_the_scored_files(whole):
    found = json.loads((whole / "nli_sample.json").read_text())
    cells = {(r["table"], r["method"], r["corpus"], r["figure"]): r for r in found["rows"]}
    for corpus in CORPORA:
        labels = labels_of(whole, corpus)
        areas = {m: roc_auc(scores_of(whole, corpus, m), labels) for m in SINGLE}
        for method, area in areas.items():
            cell = cells["1", method, corpus, "auc"]
            assert cell["value"] == pytest.approx(area)
            assert cell["rows"] == len(labels)
            assert cell["published"] is None
        for method in ("base_e_minus_c", "base_mc", "augmented"):
            difference = cells["2", method, corpus, "auc_difference"]["value"]
            assert difference == pytest.approx(areas[method] - areas["base"])
    means = [cells["1", "all", corpus, "auc"]["value"] for corpus in CORPORA]
    assert cells["1", "all", "average", "auc"]["value"] == pytest.approx(np.mean(means))
    assert cells["4", "all", "average", "auc"]["value"] == pytest.approx(np.mean(means))
    assert 0 < cells["1", "all", "q2", "p_base"]["value"] <= 1
    assert ("1", "summac_zs", "q2", "p_base") not in cells  # the paper does not test it
    with open(whole / "nli_sample.csv", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(found["rows"])
    assert found["sample"] is True


def test_costs(whole, models):
    found = json.loads((whole / "nli_sample.json").read_text())["costs"]
    assert list(found) == ["summac_zs", "t5_anli", "base", "base_mc", "no_mc", "all"]
    sizes = {
        name: count_params(open_model(models[name]).params) for name in ("base", "augmented", "t5")
    }
    assert found["base"]["millions"] == found["base_mc"]["millions"] == [sizes["base"] / 1e6]
    assert found["all"]["millions"] == [sizes["augmented"] / 1e6]
    assert found["t5_anli"]["millions"] == [sizes["t5"] / 1e6]
    for cost in found.values():
        assert cost["examples_per_second"] > 0
        assert (cost["corpus"], cost["rows"]) == ("frank", len(labels_of(whole, "frank")))


def test_the_table_of_samples_says_so(whole):
    markdown = (whole / "nli_sample.md").read_text()
    assert markdown.startswith(
        "# SAMPLES, not the paper's data: Faithfulness by NLI models on TRUE"
    )
    assert "published" not in markdown.lower()
    assert "Left out, without a model: q2, e_orig, e_our; give --q2-model." in markdown
    assert "No marks over e_orig, which is not here." in markdown
    assert (whole / "nli_sample.tex").read_text().count("SAMPLES") == 3
    for title in ("table 1", "table 2", "table 4"):
        assert f"(Steen 2023, {title})" in markdown


def test_what_is_scored_is_kept(reproduce, whole, models, monkeypatch, refuse_work):
    table = whole / "nli_sample.json"
    before = table.read_text()
    table.unlink()
    assert reproduce(whole, *given(models))[0] == 0
    assert table.read_text() == before
    monkeypatch.undo()
    cell = whole / "q2" / "no_mc.jsonl"
    text, other = cell.read_text(), (whole / "q2" / "augmented.jsonl").stat().st_mtime_ns
    cell.unlink()
    asked = []
    really = nli_scores.score
    monkeypatch.setattr(nli_scores, "score", lambda *a, **k: asked.append(a[1]) or really(*a, **k))
    assert reproduce(whole, *given(models))[0] == 0
    assert [list(scorers) for scorers in asked] == [["no_mc"]]
    assert (cell.read_text(), table.read_text()) == (text, before)
    assert (whole / "q2" / "augmented.jsonl").stat().st_mtime_ns == other


def test_methods_of_a_model_share_its_forward_passes(reproduce, models, tmp_path, monkeypatch):
    from faith_jax.inference.class_probabilities import ClassificationEngine

    counts = []
    really = ClassificationEngine.probabilities
    monkeypatch.setattr(
        ClassificationEngine,
        "probabilities",
        lambda self, rows: counts.append((self.dropout_passes, len(rows))) or really(self, rows),
    )
    monkeypatch.setattr(nli_scores.Cells, "_check_models", lambda *_: None)
    assert reproduce(tmp_path, *given(models, "base"), "--corpora=q2")[0] == 0
    size = len(labels_of(tmp_path, "q2"))
    # Scored once for base and base_e_minus_c, which is remembered; then timed: another, again.
    assert counts == [(0, size), (0, 1), (0, size), (2, size), (2, 1), (2, size)]


def test_a_pass_that_was_stopped_is_taken_up(reproduce, models, tmp_path, whole):
    """As a kill leaves it: the file of both methods is whole, and one is taken out of it."""
    folder = tmp_path / "q2"
    folder.mkdir()
    one, two = (rows_of(whole / "q2" / f"{name}.jsonl") for name in ("base", "base_e_minus_c"))
    joined = [
        a | {field: a[field] | b[field] for field in ("scores", "words", "cut_tokens", "cut")}
        for a, b in zip(one, two, strict=True)
    ]
    text = "".join(json.dumps(row) + "\n" for row in joined)
    settings = json.loads((whole / "settings.json").read_text())
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    (folder / "base+base_e_minus_c.jsonl").write_text(text)
    (folder / "base.jsonl").write_bytes((whole / "q2" / "base.jsonl").read_bytes())
    methods = "--methods=base,base_e_minus_c"
    assert reproduce(tmp_path, *given(models, "base"), "--corpora=q2", methods)[0] == 0
    assert not (folder / "base+base_e_minus_c.jsonl").exists()
    for name in ("base", "base_e_minus_c"):
        expected = rows_of(whole / "q2" / f"{name}.jsonl")
        assert rows_of(folder / f"{name}.jsonl") == expected


def test_models_and_corpora_may_be_added(reproduce, models, tmp_path):
    base = given(models, "base")
    status, lines, _ = reproduce(tmp_path, *base, "--corpora=q2", "--methods=base")
    assert status == 0
    assert not any("table 2" in line for line in lines)  # nothing to compare
    settings = json.loads((tmp_path / "settings.json").read_text())
    assert list(settings["methods"]) == ["base"]
    more = (*given(models, "base", "summac"), "--methods=base,summac_zs")
    status, lines, _ = reproduce(tmp_path, *more, "--corpora=q2,fever")
    assert status == 0
    columns = next(line.split() for line in lines if line.startswith("method "))
    assert columns == ["method", "q2", "fever"]  # FEVER does not count in an average
    assert list(json.loads((tmp_path / "settings.json").read_text())["methods"]) == [
        "base", "summac_zs",
    ]  # fmt: skip


def test_other_settings_are_refused(reproduce, whole, models):
    base = given(models)
    before = (whole / "settings.json").read_text()
    for arguments, message in (
        ((*base, "--dropout-passes=3"), "keeps scores of all with other settings (options: "),
        ((*base, "--seed=1"), "keeps scores of all with other settings (options: "),
        ((f"--model={models['augmented']}",), "keeps scores of base with other settings"),
        ((*base, "--scorer-option=base.max_length=40"), "'max_length': 40"),
    ):
        status, out, errors = reproduce(whole, *arguments)
        assert (status, out) == (2, [])
        assert message in errors[-1]
    assert (whole / "settings.json").read_text() == before


def test_a_checkpoint_that_has_changed_is_refused(reproduce, models, tmp_path):
    model = tiny_models.write_model(tmp_path / "m", "deberta_nli", 5, label_names=NLI)
    arguments = (f"--model={model}", "--methods=base", "--corpora=q2")
    assert reproduce(tmp_path / "made", *arguments)[0] == 0
    config = tmp_path / "m" / "config.json"
    config.write_text(config.read_text() + "\n")
    status, _, errors = reproduce(tmp_path / "made", *arguments)
    assert status == 2
    assert f"{model} has changed since); name another folder, or remove" in errors[-1]


def test_kept_scores_of_other_rows_are_refused(reproduce, models, tmp_path):
    base = given(models, "base")
    assert reproduce(tmp_path, *base, "--corpora=q2", "--methods=base")[0] == 0
    (tmp_path / "q2" / "rows.sha256").write_text("another\n")
    status, _, errors = reproduce(tmp_path, *base, "--corpora=q2", "--methods=base,base_mc")
    assert status == 2
    assert "keeps scores of other rows than q2 has now" in errors[-1]


def test_corpora_without_data_are_left_out(capsys, models, tmp_path, caplog):
    """The paper's corpora themselves, none of which is here."""
    arguments = ("nli", f"--model={models['base']}", f"--output={tmp_path}", "--corpora=frank,mnbm")
    assert main(["reproduce", *arguments]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert "frank is left out: " in caplog.text
    assert "mnbm is left out: " in caplog.text
    assert not (tmp_path / "settings.json").exists()


class Scripted:
    """Q2 without its models."""

    num_compilations = 0

    def score(self, examples):
        from faith_jax.core.types import Score

        return [Score(len(example.response) % 7 / 7) for example in examples]

    def seen(self, example):
        return None


def test_ensembles_and_published_figures(reproduce, models, tmp_path, monkeypatch, capsys):
    """With the samples in the place of the paper's corpora, and a script in that of Q2's models."""
    really, load = nli_scores.corpus_input, nli_scores.load_scorer
    monkeypatch.setattr(nli_scores, "corpus_input", lambda corpus, _: really(corpus, True))
    options = []

    def scripted(name, **given):
        if name != "q2_nli":
            return load(name, **given)
        options.append(given)
        return Scripted()

    monkeypatch.setattr(nli_scores, "load_scorer", scripted)
    q2 = (f"--q2-model={models['bart']}", "--resamples=100", "--dropout-passes=2")
    arguments = (*given(models), *q2, "--corpora=frank,q2", f"--output={tmp_path}")
    assert main(["reproduce", "nli", *arguments]) == 0
    text = capsys.readouterr().out
    assert (
        "Ensembles are the mean of their members' scores, after mapping the range of all (-1"
        in text
    )
    assert options[0]["nli_model"] == models["base"]
    found = json.loads((tmp_path / "nli.json").read_text())
    cells = {(r["table"], r["method"], r["corpus"], r["figure"]): r for r in found["rows"]}
    for corpus in CORPORA:
        members = {m: scores_of(tmp_path, corpus, m) for m in ("t5_anli", "summac_zs", "q2", "all")}
        members["all"] = (members["all"] + 1) / 2
        for name, first in (("e_orig", "t5_anli"), ("e_our", "all")):
            values = np.mean([members[m] for m in (first, "summac_zs", "q2")], axis=0)
            area = roc_auc(values, labels_of(tmp_path, corpus))
            assert cells["1", name, corpus, "auc"]["value"] == pytest.approx(area)
    assert cells["1", "e_our", "frank", "auc"]["published"] == 0.915
    assert cells["1", "e_our", "average", "auc"]["published"] == 0.9  # of 91.5 and 88.5
    assert ("1", "e_our", "frank", "p_e_orig") in cells
    assert ("1", "e_our", "frank", "p_base") not in cells
    sizes = found["costs"]["q2"]["millions"]
    assert len(sizes) == 2
    markdown = (tmp_path / "nli.md").read_text()
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in markdown.splitlines()]
    assert ["all (published)", "87.7", "89.4"] in [row[:3] for row in rows]
    assert ["frank (published)", "+0.3", "+0.9", "+1.0"] in rows
    assert any(row[:1] == ["q2 (published)"] and "220 + 355 + 355" in row for row in rows)
    assert "so are the published ones of tables 1 and 2" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nli needs a classifier of three classes: give --model=FOLDER."),
        (("--model={base}x",), "--model: {base}x: there is no such checkpoint"),
        (("--model={two}",), "--model: nli_entailment: the model has 2 classes (yes, no)"),
        (("--model={unnamed}",), "say their order with labels="),
        (("--model={base}", "--augmented-model={two}"), "--augmented-model: nli_entailment: the m"),
        (("--model={base}", "--summac-model={two}"), "--summac-model: summac_zs: the model has 2"),
        (("--model={base}", "--corpora=q3"), "--corpora: there is no 'q3'. Did you mean 'q2'?"),
        (("--model={base}", "--methods=bas"), "--methods: there is no 'bas'. Did you mean 'base'"),
        (("--model={base}", "--methods=all"), "--methods: all needs a model: give --augmented-m"),
        (("--model={base}", "--methods=e_orig"), "--methods: e_orig needs a model: give --t5-mo"),
        (("--model={base}", "--dropout-passes=0"), "--dropout-passes: expected a positive number"),
        (("--model={base}", "--q2-nli-model={base}"), "--q2-nli-model: goes with --q2-model."),
        (
            ("--model={base}", "--scorer-option=base.passes=3"),
            "--scorer-option: base has no option 'passes'. Did you mean 'labels'?",
        ),
        (
            ("--model={base}", "--scorer-option=base.dropout_passes=3"),
            "base.dropout_passes is of the methods with Monte-Carlo dropout; give --dropout-passes",
        ),
        (("--model={base}", "--scorer-option=base.max_length=3"), "--model: nli_entailment: max_l"),
        (("--model={base}", "--scorer-option=q2.num_beams=3"), "q2 has no model; give --q2-model"),
        (("--model={base}", "--scorer-option=x.labels=3"), "'x' is not among the models."),
        (("--model={base}", "--draws=2"), "faith-jax reproduce nli has no argument '--draws=2'."),
    ],
)
def test_mistakes(reproduce, models, tmp_path, arguments, message):
    arguments = [argument.format(**models) for argument in arguments]
    status, out, errors = reproduce(tmp_path / "made", *arguments)
    assert (status, out) == (2, [])
    assert message.format(**models) in errors[-1]
    assert errors[-1].startswith("faith-jax: ")
    left = list((tmp_path / "made").rglob("*")) if (tmp_path / "made").exists() else []
    assert left == []


def test_options_of_the_model_reach_its_methods(reproduce, models, tmp_path):
    labels = "neutral,contradiction,entailment"
    arguments = (f"--model={models['unnamed']}", f"--scorer-option=base.labels={labels}")
    more = ("--scorer-option=base.dropout_rate=0.5", "--corpora=q2")
    assert reproduce(tmp_path, *arguments, *more)[0] == 0
    rows = rows_of(tmp_path / "q2" / "base.jsonl")
    texts = [row["grounding"] for row in rows], [row["generated_text"] for row in rows]
    options = {"labels": labels, "dropout_passes": 2, "seed": 0, "dropout_rate": 0.5}
    for method, given in (("base", {"labels": labels}), ("base_mc", options)):
        found = load_scorer("nli_entailment", model=models["unnamed"], **given).score(*texts)
        np.testing.assert_allclose(
            scores_of(tmp_path, "q2", method), [score.value for score in found], atol=1e-6
        )


def test_a_cost_that_is_not_readable_names_its_file(reproduce, models, tmp_path):
    arguments = (*given(models, "base"), "--methods=base", "--corpora=q2")
    assert reproduce(tmp_path, *arguments)[0] == 0
    path = tmp_path / nli_costs.FOLDER / "base.json"
    path.write_text("{}")
    status, _, errors = reproduce(tmp_path, *arguments)
    assert (status, f"{path}: not readable; remove it" in errors[-1]) == (2, True)
