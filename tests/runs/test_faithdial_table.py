"""FaithDial's tables 5 and 8 through the command, with models that stand in for trained ones."""

import json
import sys

import numpy as np
import pytest
import sacrebleu

from faith_jax.checkpoints.checkpoint import Checkpoint, flatten, unflatten
from faith_jax.checkpoints.hugging_face.bart import doha_from_bart
from faith_jax.checkpoints.native import write_native
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.cli import main
from faith_jax.errors import InputError
from faith_jax.evaluation import q2_baselines
from faith_jax.evaluation.decodings import compared, mean_measure
from faith_jax.runs import faithdial_table
from faith_jax.runs.faithdial_options import FaithDialOptions
from faith_jax.runs.faithdial_report import report
from faith_jax.runs.faithdial_systems import Training
from faith_jax.runs.faithdial_table import control_prefix
from faith_jax.scoring.registry import load_scorer
from tests.scoring import tiny_models

pytestmark = pytest.mark.usefixtures("offline_data_dir")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "critic": tiny_models.write_model(folder / "critic", "bart", max_positions=512),
        "bart": tiny_models.write_model(folder / "bart", "bart", max_positions=320),
    }


@pytest.fixture
def reproduce(capsys, models):
    def run(output, *arguments):
        given = ("--sample", "--models=t5=" + models["bart"], "--resamples=100")
        given += ("--max-length=4", "--limit=2", f"--critic-model={models['critic']}")
        trained = (
            f"--trained=t5{method}/{data}={models['bart']}"
            for method in ("", "_ctrl", "_loss_truncation", "_infonce")
            for data in ("faithdial", "wow")
            if (method, data) != ("_infonce", "wow")
        )
        arguments = ("faithdial", f"--output={output}", *given, *trained, *arguments)
        status = main(["reproduce", *map(str, arguments)])
        out, err = capsys.readouterr()
        return status, out.splitlines(), err.strip().splitlines()

    return run


FAITHDIAL_ALONE = ("--trained-on=faithdial", "--tested-on=faithdial")


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_figures_are_means_over_rows_and_seeds(reproduce, models, tmp_path):
    given = (*FAITHDIAL_ALONE, "--seeds=0,1", "--methods=cross_entropy,ctrl")
    status, lines, _ = reproduce(tmp_path, *given)
    assert status == 0
    assert lines[0].startswith("SAMPLES, not the paper's data: Systems by training data")
    told = json.loads((tmp_path / "faithdial_sample.json").read_text())
    figures = {(row["system"], row["column"]): row for row in told["rows"]}
    responses = [
        row
        for seed in (0, 1)
        for row in rows_of(tmp_path / "faithdial" / f"t5_ctrl_faithdial_seed_{seed}.jsonl")
    ]
    assert len(responses) == 4
    knowledge = [row["knowledge"] for row in responses]
    texts, gold = ([row[name] for row in responses] for name in ("generated_text", "gold"))
    critic = load_scorer("faith_critic", model=models["critic"]).score(knowledge, texts)
    unfaithful = [s.value < 0.5 for s in critic if not np.isnan(s.value)]
    assert figures["t5_ctrl", "Critic"]["value"] == pytest.approx(100 * np.mean(unfaithful))
    for column, scorer, against in (
        ("F1", "q2_baseline_token_f1", knowledge),
        ("TRUE F1", "token_f1", knowledge),
        ("ROUGE", "rougeL_f1_stemmed", gold),
    ):
        scores = [s.value for s in load_scorer(scorer).score(against, texts)]
        expected = pytest.approx(100 * np.nanmean(scores))
        assert figures["t5_ctrl", column]["value"] == expected, column
    lower = [[text.lower() for text in column] for column in (texts, gold)]
    bleu = sacrebleu.BLEU(effective_order=True).corpus_score(lower[0], [lower[1]]).score
    assert figures["t5_ctrl", "BLEU"]["value"] == pytest.approx(bleu)
    by_seed = [
        row["value"]
        for row in told["by_seed"]
        if (row["system"], row["column"]) == ("t5_ctrl", "F1")
    ]
    assert figures["t5_ctrl", "F1"]["value"] == pytest.approx(np.mean(by_seed))
    assert figures["t5_ctrl", "F1"]["seeds_sd"] == pytest.approx(np.std(by_seed, ddof=1))
    assert figures["t5", "Critic"]["p_value"] is None
    assert figures["t5_ctrl", "Critic"]["p_value"] > 0
    assert any("faithdial: 2 rows can say little" in line for line in lines)
    for column in ("Q\u00b2 F1", "Q\u00b2 NLI"):
        assert f"{column} is left out: it needs models (--q2-model, --q2-nli-model)." in lines


def test_ctrl_is_asked_for_a_faithful_response(reproduce, models, tmp_path):
    status, _, _ = reproduce(tmp_path, *FAITHDIAL_ALONE, "--methods=cross_entropy,ctrl")
    assert status == 0
    plain = rows_of(tmp_path / "faithdial" / "rows.jsonl")
    asked = rows_of(tmp_path / "faithdial" / "rows_t5_ctrl.jsonl")
    assert len(plain) == len(asked) == 2
    for before, row in zip(plain, asked, strict=True):
        assert row["inputs"] == control_prefix(models["bart"]) + before["inputs"]
    assert control_prefix("english_4096") == "<extra_id_99> <extra_id_95> <extra_id_94> "


def test_what_is_there_is_kept_and_cells_may_be_added(reproduce, tmp_path):
    assert reproduce(tmp_path, *FAITHDIAL_ALONE, "--methods=cross_entropy,infonce")[0] == 0
    table = (tmp_path / "faithdial_sample.md").read_text()
    removed = tmp_path / "faithdial" / "t5_infonce_faithdial_seed_0_faith_critic.jsonl"
    before = removed.read_bytes()
    removed.unlink()
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("t5*.jsonl")}
    assert reproduce(tmp_path, *FAITHDIAL_ALONE, "--methods=cross_entropy,infonce")[0] == 0
    assert removed.read_bytes() == before
    assert (tmp_path / "faithdial_sample.md").read_text() == table
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    given = ("--trained-on=wow,faithdial", "--tested-on=faithdial,cmu_dog")
    status, lines, _ = reproduce(tmp_path, *given, "--methods=cross_entropy,infonce")
    assert status == 0
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    rows = [line.split()[:3] for line in lines if line.startswith(("faithdial ", "cmu_dog "))]
    assert rows == [
        ["faithdial", "wow", "t5"],
        ["faithdial", "faithdial", "t5"],
        ["faithdial", "faithdial", "t5_infonce"],
        ["cmu_dog", "wow", "t5"],
        ["cmu_dog", "faithdial", "t5"],
        ["cmu_dog", "faithdial", "t5_infonce"],
    ]
    told = json.loads((tmp_path / "faithdial_sample.json").read_text())
    columns = {row["column"] for row in told["rows"] if row["tested_on"] == "cmu_dog"}
    assert columns == {"Critic", "F1", "TRUE F1"}  # zero-shot responses have no gold ones


def test_in_domain_rows(reproduce, models, tmp_path):
    given = ("--trained-on=faithdial,cmu_dog", "--tested-on=faithdial,cmu_dog")
    given += ("--methods=cross_entropy,ctrl", f"--trained=t5/cmu_dog={models['bart']}")
    status, lines, errors = reproduce(tmp_path, *given)
    assert status == 0, errors
    rows = [line.split()[:3] for line in lines if line.startswith(("faithdial ", "cmu_dog "))]
    assert rows == [
        ["faithdial", "faithdial", "t5"],
        ["faithdial", "faithdial", "t5_ctrl"],
        ["cmu_dog", "faithdial", "t5"],
        ["cmu_dog", "faithdial", "t5_ctrl"],
        ["cmu_dog", "cmu_dog", "t5"],
    ]
    status, _, errors = reproduce(tmp_path / "no", "--trained-on=cmu_dog", "--tested-on=faithdial")
    assert (status, len(errors)) == (2, 1)
    assert "--methods, --trained-on, --tested-on: no method has such data" in errors[0]


def test_published_figures_of_the_in_domain_rows():
    options = FaithDialOptions({"t5": "mine"}, training=Training(sample=False))
    figures = compared({"t5": {"Critic": mean_measure([1.0, 1.0], 0.0, 0.01)}}, "t5", 10)
    cells = {(data, data, "t5"): figures["t5"] for data in ("topical_chat", "cmu_dog", "wow")}
    found = report(cells, [], {}, [], options)
    published = [row[3] for row in found.table.rows if row[2] == "t5 (published)"]
    assert published == ["95", "95.5", "57.9"]


def test_published_figures_stand_below_ours():
    options = FaithDialOptions({"t5": "mine"}, training=Training(sample=False))
    measure = mean_measure([0.0, 1.0], 0.0, 0.01)
    figures = compared({"t5": {"Critic": measure}}, "t5", 10)
    cut = {"faithdial": 3, "wow": 0}
    found = report({("faithdial", "wow", "t5"): figures["t5"]}, [], cut, [], options)
    assert found.table.rows[0][:3] == ("faithdial", "wow", "t5")
    assert found.table.rows[0][3].startswith("50.0 (")
    assert found.table.rows[1] == ("faithdial", "wow", "t5 (published)", "46.5")
    assert found.table.notes[-2] == (
        f"Cut at {options.training.input_length} tokens, counted for the system with the most: "
        "3 inputs of faithdial."
    )
    assert "Dziri 2022, tables 5 and 8" in found.table.notes[-1]


@pytest.mark.parametrize(
    ("scorers", "published", "why"),
    [
        ({"model": "m", "baseline": "b.tsv"}, "0.41", ""),
        ({"model": "m"}, "", "No published BERTScore: bertscore.baseline=FILE is not given, by wh"),
    ],
)
def test_a_score_that_is_not_the_papers_has_no_published_figure(scorers, published, why):
    training = Training(sample=False)
    options = FaithDialOptions({"t5": "mine"}, training=training, scorers={"bertscore": scorers})
    assert options.scorers["bertscore"]["lower_grounding"] is True
    measures = {"F1": mean_measure([0.5, 0.7], 0.0, 0.01), "BERTScore": mean_measure([0.2, 0.4])}
    figures = compared({"t5": measures}, "t5", 10)
    found = report({("faithdial", "wow", "t5"): figures["t5"]}, [], {}, [], options)
    assert found.table.rows[1][3:] == ("61.7", published)
    by_column = {row["column"]: row["published"] for row in found.figures["rows"]}
    assert by_column == {"F1": 61.7, "BERTScore": 0.41 if published else None}
    assert any(note.startswith(why) for note in found.table.notes)


def test_without_spacy_its_column_is_left_out(reproduce, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    q2_baselines.english_tokenizer.cache_clear()
    status, lines, _ = reproduce(tmp_path, *FAITHDIAL_ALONE, "--methods=cross_entropy")
    assert status == 0
    needed = "F1 is left out: it needs spaCy (pip install 'faith_jax[augmentation]')."
    assert needed in lines
    told = json.loads((tmp_path / "faithdial_sample.json").read_text())
    assert {row["column"] for row in told["rows"]} == {"Critic", "TRUE F1", "BLEU", "ROUGE"}


def test_systems_without_data_are_left_out(reproduce, tmp_path, monkeypatch):
    def problem(task, split):
        return InputError("no files") if task.startswith("wizard") else None

    monkeypatch.setattr(faithdial_table, "_problem", problem)
    given = ("--trained-on=faithdial,wow_then_faithdial", "--tested-on=faithdial")
    status, lines, _ = reproduce(tmp_path, *given, "--methods=cross_entropy")
    assert status == 0
    shown = "t5/wow_then_faithdial (no data of wizard_of_wikipedia_generate_sample)"
    assert any(f"Left out: {shown}." in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods=infonc"], "--methods: there is no 'infonc'. Did you mean"),
        (["--trained-on=wiki"], "--trained-on: there is no 'wiki'."),
        (["--tested-on=multidoc"], "--tested-on: there is no 'multidoc'."),
        (["--seeds=0,0"], "--seeds: expected different whole numbers"),
        (["--seeds=a"], "--seeds: expected whole numbers with commas"),
        (["--models=t5"], "--models: expected NAME=FOLDER, got 't5'."),
        (["--models=t5=other"], "--models: 't5' is given twice."),
        (["--trained=t5/nothing=x"], "--trained: there is no 't5/nothing'."),
        (["--critic-model=nowhere"], "nowhere: there is no such checkpoint"),
        (["--models=doha=mini"], "--models: doha: mini: DoHA is made of a BART, but this is t5"),
        (["--models=doha=mini", "--methods=ctrl"], "--methods: doha is trained by cross_entropy"),
        (["--models=gpt2=nowhere"], "--models: nowhere: there is no such checkpoint"),
        (["--q2-model=mini"], "q2_f1 needs a model that asks questions (--q2-model) and one of na"),
        (["--q2-model=mini"], "--q2-nli-model is not given."),
        (["--scorers=token_f1"], "has no argument '--scorers=token_f1'"),
    ],
)
def test_wrong_options(reproduce, tmp_path, arguments, message):
    status, _, errors = reproduce(tmp_path / "table", *FAITHDIAL_ALONE, *arguments)
    assert status == 2
    assert message in errors[-1]
    assert len([line for line in errors if line.startswith("faith-jax:")]) == 1
    assert not (tmp_path / "table").exists()


def test_a_gpt2_becomes_no_doha_and_a_bart_is_none_yet(reproduce, models, tmp_path):
    gpt2 = tiny_models.write_model(tmp_path / "gpt2", "gpt2")
    for given, message in (
        ((f"--models=doha={gpt2}",), "doha: {}: DoHA is made of a BART, but this is gpt2; give a"),
        (
            (f"--models=doha={models['bart']}", f"--trained=doha/faithdial={models['bart']}"),
            "--trained: doha/faithdial: {}: has no attention over the knowledge",
        ),
    ):
        status, _, errors = reproduce(tmp_path / "table", *FAITHDIAL_ALONE, *given)
        assert status == 2
        folder = gpt2 if "gpt2" in message else models["bart"]
        assert message.format(folder) in errors[-1]
        assert not (tmp_path / "table").exists()


def test_a_trained_doha_responds_from_its_knowledge(reproduce, models, tmp_path):
    checkpoint = doha_from_bart(open_checkpoint(models["bart"]))
    write_native(checkpoint, tmp_path / "doha")
    params = flatten(checkpoint.params)
    for name in params:
        if "knowledge_attention/out/kernel" in name:
            params[name] = np.zeros_like(params[name])
    blind = Checkpoint(checkpoint.config, unflatten(params))
    write_native(blind, tmp_path / "blind")
    found = {}
    for name in ("doha", "blind"):
        status, lines, _ = reproduce(
            tmp_path / f"table_{name}",
            *FAITHDIAL_ALONE,
            "--methods=cross_entropy",
            f"--models=doha={models['bart']}",
            f"--trained=doha/faithdial={tmp_path / name}",
        )
        assert status == 0
        assert any(line.split()[:3] == ["faithdial", "faithdial", "doha"] for line in lines)
        rows = rows_of(tmp_path / f"table_{name}" / "faithdial" / "doha_faithdial_seed_0.jsonl")
        found[name] = [row["log_prob"] for row in rows]
    assert found["doha"] != found["blind"]


def test_a_folder_of_other_settings_is_refused(reproduce, tmp_path):
    given = (*FAITHDIAL_ALONE, "--methods=cross_entropy")
    assert reproduce(tmp_path, *given)[0] == 0
    status, _, errors = reproduce(tmp_path, *given, "--max-length=5")
    assert status == 2
    assert "keeps responses or scores with another value of max-length (4, not 5)" in errors[-1]
    (tmp_path / "settings.json").write_text('{"table": "faith_critic"}')
    assert "another value of table (faith_critic, not fa" in reproduce(tmp_path, *given)[2][-1]
    (tmp_path / "settings.json").write_text("no json")
    assert "settings.json: not readable" in reproduce(tmp_path, *given)[2][-1]
