"""FaithDial's tables 5 and 8: the steps of the workflow, and its commands run in this process."""

import math
import pathlib
import shutil
import sys

import numpy as np
import pytest
import sacrebleu

from faith_jax.gin_files.config import config_folder
from faith_jax.papers.faithdial.generators import (
    FAITHDIAL_WOW,
    IN_DOMAIN,
    METHODS,
    TESTED_ON,
    TRAINED_ON,
    System,
    Table,
    task_of,
)
from faith_jax.papers.faithdial.options import Faithdial
from faith_jax.scoring.registry import load_scorer
from faith_jax.statistics.texts import text_metrics
from faith_jax.tasks import lookup
from tests.papers.workflows import figures, rows_of, run_in_process, shown_commands
from tests.scoring import tiny_models

pytestmark = pytest.mark.usefixtures("offline_data_dir")


def table(rows=1000, models=None, without=(), **options):
    """Returns a table whose tasks have these numbers of rows."""
    recipe = Faithdial(models=models or {"t5": "mine"}, output="", **options)
    return Table(recipe, lambda task, _: 0 if task in without else rows)


def bindings(method, data, models=None, rows=1000, **options):
    """Returns the settings of a system's first training."""
    model = next(iter(models or {"t5": ""}))
    systems = table(rows, models=models, methods=[method], trained_on=[data], **options)
    return systems.trainings[
        f"{model}/seed_0/{'doha' if model == 'doha' else method}_{data}"
    ].bindings


def test_every_training_has_a_recipe_and_a_task():
    for method, recipe in METHODS.items():
        assert (config_folder() / recipe).is_file()
        for data in ("wow", "faithdial", FAITHDIAL_WOW, *IN_DOMAIN):
            if System("t5", method, data).is_possible:
                lookup.get_task(task_of(method, data, sample=True))


def test_the_papers_systems_are_twenty():
    models = {"gpt2": "a", "dialogpt": "b", "doha": "c", "t5": "d"}
    plain = list(table(models=models, methods=["cross_entropy"]).checkpoints)
    other_names = list(table(methods=list(METHODS)[1:]).checkpoints)
    names = {s.name for s in (*plain, *other_names) if s.trained_on not in IN_DOMAIN}
    assert len(names) == 20
    assert "wow/t5_infonce" not in names
    published = table().layout()["published"]
    assert set(published["faithdial"]) == names
    assert sum(map(len, published.values())) == 26  # table 8 has six more


def test_in_domain_systems_are_of_cross_entropy_and_respond_to_their_own_data():
    systems = table()
    tested = {name: set() for name in TESTED_ON}
    for name, run in systems.responses.items():
        tested[name.partition("/")[0]] |= set(run.bindings["CHECKPOINT_PATH"])
    assert {name for name in tested["cmu_dog"] if name.startswith(IN_DOMAIN)} == {"cmu_dog/t5"}
    assert not any(name.startswith(IN_DOMAIN) for name in tested["faithdial"])
    for corpus in ("wow", "topical_chat", "cmu_dog"):  # table 8
        assert set(systems.layout()["published"][corpus]) <= tested[corpus]
    checkpoints = list(table(tested_on=["faithdial", "cmu_dog"]).checkpoints)
    assert {s.trained_on for s in checkpoints} & set(IN_DOMAIN) == {"cmu_dog"}
    # Dziri 2022, appendix D; their code has 2 to 100 tokens.
    settings = ("TOP_P", "MIN_DECODE_LENGTH", "DECODE_LENGTH")
    drawn = {tuple(run.bindings[name] for name in settings) for run in systems.responses.values()}
    assert drawn == {(0.6, 2, 100)}
    # Zero-shot responses have no gold ones.
    assert set(systems.scorers_of("cmu_dog")) == {"knowledge"}
    assert set(systems.scorers_of("faithdial")) == {"knowledge", "target"}


def test_what_a_training_is_told():
    bound = bindings(
        "infonce", "faithdial", train_steps=200, train_batch_size=6, learning_rate=0.1,
        max_input_length=512, target_length=256, sample=True,
    )  # fmt: skip
    assert bound["MIXTURE_OR_TASK_NAME"] == "faithdial_generate_infonce_sample"
    assert bound["TASK_FEATURE_LENGTHS"] == {"inputs": 512, "targets": 256, "negatives": (8, 64)}
    assert bound["NUM_MICROBATCHES"] == 2  # what 4 pieces and 6 rows both divide into
    assert (bound["TRAIN_STEPS"], bound["WARMUP_STEPS"], bound["EVAL_PERIOD"]) == (200, 8, 10)
    assert (bound["RANDOM_SEED"], bound["INITIAL_CHECKPOINT_PATH"]) == (0, "mine")
    recipes_own = bindings("cross_entropy", "faithdial", rows=18_357)
    assert not {"TRAIN_STEPS", "BATCH_SIZE", "LEARNING_RATE"} & set(recipes_own)
    of_other_rows = bindings("cross_entropy", "faithdial", rows=160)
    assert of_other_rows["TRAIN_STEPS"] == 10 * 160 / 32


@pytest.mark.parametrize("batch_size", [8, 48])  # 32: the recipe's own steps
def test_noise_is_first_left_out_after_as_many_examples_whatever_the_batch(batch_size):
    """A run with these settings reads ten epochs, and truncates after 10,000 examples."""
    rows = 18_357
    bound = bindings("loss_truncation", "faithdial", rows=rows, train_batch_size=batch_size)
    read = [step * batch_size for step in range(1, bound["TRAIN_STEPS"] + 1)]
    assert 0 <= read[-1] - 10 * rows < batch_size
    before_truncation = read[bound["TRUNCATION_WARMUP_STEPS"] - 1]
    assert abs(before_truncation - 10_000) <= batch_size / 2


@pytest.mark.parametrize(
    ("data", "split"), [("topical_chat", "validation_rare"), ("cmu_dog", "validation")]
)
def test_ten_epochs_of_other_data(data, split):
    bound = bindings("cross_entropy", data, rows=640)
    assert (bound["TRAIN_STEPS"], bound["WARMUP_STEPS"]) == (200, 8)
    assert bound.get("EVAL_SPLIT", "validation") == split
    assert bindings("cross_entropy", data, rows=331, train_batch_size=10)["TRAIN_STEPS"] == 331
    assert split in lookup.get_task(task_of("cross_entropy", data, True)).splits


def test_doha_is_trained_by_its_recipe_alone():
    recipe = Faithdial(models={"t5": "a", "doha": "b"}, output="")
    systems = Table(recipe, lambda task, _: 18_357 if task.startswith("faithdial") else 83_247)
    assert [s.method for s in systems.checkpoints if s.model == "doha"] == ["cross_entropy"] * 5
    first = systems.trainings["doha/seed_0/doha_wow"]
    second = systems.trainings["doha/seed_0/doha_wow_then_faithdial"]
    assert first.files == second.files == ["faithdial_generate_doha.gin"]
    assert first.bindings["TRAIN_STEPS"] == math.ceil(25 * 83_247 / 32)
    assert first.bindings["WARMUP_STEPS"] == round(0.1 * first.bindings["TRAIN_STEPS"])
    assert first.bindings["EVAL_PERIOD"] == first.bindings["TRAIN_STEPS"] // 50
    assert "TRAIN_STEPS" not in second.bindings  # the recipe's own
    assert (
        second.bindings["INITIAL_CHECKPOINT_PATH"] == "models/doha/seed_0/doha_wow/checkpoints/best"
    )
    assert second.inputs == ["models/doha/seed_0/doha_wow.trained"]
    bound = bindings("cross_entropy", "faithdial", {"doha": "bart"}, train_batch_size=12)
    assert bound["NUM_MICROBATCHES"] == 4  # what 8 pieces and 12 rows both divide into


def test_infonce_begins_with_the_training_of_cross_entropy():
    """Wizard of Wikipedia has no negatives; the same training is not made twice."""
    systems = table(trained_on=["wow", "wow_then_faithdial"], methods=["cross_entropy", "infonce"])
    assert list(systems.trainings) == [
        "t5/seed_0/cross_entropy_wow",
        "t5/seed_0/cross_entropy_wow_then_faithdial",
        "t5/seed_0/infonce_wow_then_faithdial",
    ]
    then = systems.trainings["t5/seed_0/infonce_wow_then_faithdial"]
    assert then.inputs == ["models/t5/seed_0/cross_entropy_wow.trained"]
    first = "models/t5/seed_0/cross_entropy_wow/checkpoints/best"
    assert then.bindings["INITIAL_CHECKPOINT_PATH"] == first
    expected = [f"models/{name}.trained" for name in systems.trainings]
    assert systems.responses["faithdial/plain"].inputs == expected


def test_systems_without_data_are_left_out():
    systems = table(
        without=["wizard_of_wikipedia_generate"],
        trained_on=["faithdial", "wow_then_faithdial"],
        methods=["cross_entropy"],
    )
    assert [s.name for s in systems.checkpoints] == ["faithdial/t5"]
    left_out = "wow_then_faithdial/t5 (no data of wizard_of_wikipedia_generate)"
    assert any(f"Left out: {left_out}" in note for note in systems.layout()["notes"])
    assert systems.left_out == [left_out, "wow (no data)"]
    nothing = table(
        without=["faithdial_generate"], trained_on=["faithdial"], methods=["cross_entropy"]
    )
    assert not nothing.scores
    # No system that is in domain elsewhere responds to its own data set.
    systems = table(trained_on=["topical_chat"], tested_on=["topical_chat", "cmu_dog"])
    assert list(systems.scores) == ["topical_chat/knowledge"]


def test_methods_are_compared_with_cross_entropy_on_the_same_data():
    pairs = table(trained_on=TRAINED_ON[:2], methods=["cross_entropy", "ctrl"]).comparisons()
    assert pairs == [("wow/t5_ctrl", "wow/t5"), ("faithdial/t5_ctrl", "faithdial/t5")]
    assert table(methods=["ctrl"]).comparisons() == []


def test_published_figures_of_other_functions_do_not_stand():
    layout = table(bertscore_model="m").layout()
    assert layout["published"]["faithdial"]["wow/t5"]["F1"] == 61.7
    assert "BERTScore" not in layout["published"]["faithdial"]["wow/t5"]
    assert any(
        note.startswith("No published BERTScore: bertscore.base") for note in layout["notes"]
    )
    same = table(bertscore_model="m", scorer_option=["bertscore.baseline=b.tsv"])
    assert same.scorers["bertscore"]["lower_grounding"] is True
    assert same.layout()["published"]["faithdial"]["wow/t5"]["BERTScore"] == 0.41


def test_without_spacy_its_column_is_left_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    text_metrics.english_tokenizer.cache_clear()
    layout = table(sample=True).layout()
    assert set(layout["columns"]) == {"TRUE F1", "BLEU", "ROUGE"}
    needed = "F1 is left out: it needs spaCy (pip install 'faith_jax[augmentation]')."
    assert needed in layout["notes"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "critic": tiny_models.write_model(folder / "critic", "bart", max_positions=512),
        "bart": tiny_models.write_model(folder / "bart", "bart", max_positions=320),
    }


def arguments(output, models, *more):
    options = ("faithdial", "--sample", f"--output={output}", "--resamples=100", "--max-length=4")
    return (*options, "--limit=2", f"--critic-model={models['critic']}", *more)


ALONE = ("--trained-on=faithdial", "--tested-on=faithdial")


@pytest.mark.papers
def test_figures_are_means_over_rows_and_seeds(models, tmp_path, capfd):
    options = (f"--models=t5={models['bart']}", *ALONE, "--seeds=0,1")
    options += ("--methods=cross_entropy,ctrl",)
    options += tuple(f"--trained=t5{m}/faithdial={models['bart']}" for m in ("", "_ctrl"))
    commands = shown_commands(capfd, *arguments(tmp_path, models, *options))
    assert len(commands) == 5  # responses with and without tokens, two sets of scores, the table
    run_in_process(capfd, tmp_path, commands)
    folder = tmp_path / "responses" / "faithdial"
    plain, steered = (rows_of(folder / kind / "predictions.jsonl") for kind in ("plain", "ctrl"))
    tokens = "<no-first-person> <high-prec> <entailed> "  # as text, in this vocabulary
    for before, row in zip(plain, steered, strict=True):
        assert row["inputs"] == tokens + before["inputs"]
        assert (before["system"], row["system"]) == ("faithdial/t5", "faithdial/t5_ctrl")
        assert before["replicate"] == row["replicate"]
    assert [row["replicate"] for row in steered] == ["0", "0", "1", "1"]
    # Both are the same checkpoint here, but each replicate samples with its own seed.
    assert [r["log_prob"] for r in steered[:2]] != [r["log_prob"] for r in steered[2:]]
    knowledge, texts, gold = (
        [row[name] for row in steered] for name in ("knowledge", "prediction", "target")
    )
    cells = figures(tmp_path, "faithdial_sample")
    critic = load_scorer("faith_critic", model=models["critic"]).score(knowledge, texts)
    unfaithful = [s.value < 0.5 for s in critic if not np.isnan(s.value)]
    cell = cells["faithdial/t5_ctrl", "Critic"]
    assert cell["value"] == pytest.approx(100 * np.mean(unfaithful))
    assert 0 < cell["p_value"] <= 1
    assert cells["faithdial/t5", "Critic"]["p_value"] is None
    for column, scorer, against in (
        ("F1", "q2_baseline_token_f1", knowledge),
        ("TRUE F1", "token_f1", knowledge),
        ("ROUGE", "rougeL_f1_stemmed", gold),
    ):
        scores = np.array([s.value for s in load_scorer(scorer).score(against, texts)])
        cell = cells["faithdial/t5_ctrl", column]
        assert cell["value"] == pytest.approx(100 * np.nanmean(scores)), column
        by_seed = [100 * np.nanmean(part) for part in (scores[:2], scores[2:])]
        assert cell["spread"] == pytest.approx(np.std(by_seed, ddof=1)), column
    lower = [[text.lower() for text in column] for column in (texts, gold)]
    bleu = sacrebleu.BLEU(effective_order=True).corpus_score(lower[0], [lower[1]]).score
    assert cells["faithdial/t5_ctrl", "BLEU"]["value"] == pytest.approx(bleu)
    markdown = (tmp_path / "faithdial_sample.md").read_text("utf-8")
    assert markdown.startswith("**SAMPLES, not the paper's data: Systems by training data")
    for column in ("Q\u00b2 F1", "Q\u00b2 NLI"):
        assert f"{column} is left out: it needs models (--q2-model, --q2-nli-model)." in markdown
    # A system that is added responds alone; the others are kept.
    times = {path: path.stat().st_mtime_ns for path in folder.glob("plain/*/*/*/*.jsonl")}
    more = (f"--models=gpt={models['bart']}", f"--trained=gpt/faithdial={models['bart']}")
    more += (f"--trained=gpt_ctrl/faithdial={models['bart']}",)
    # Snakemake removes this file if a setting changes.
    (folder / "plain" / "predictions.jsonl").unlink()
    (tmp_path / "faithdial_sample.md").unlink()
    shutil.rmtree(tmp_path / "scores")
    commands = shown_commands(capfd, *arguments(tmp_path, models, *options, *more))
    run_in_process(
        capfd, tmp_path, [line for line in commands if "DIR=responses/faithdial/plain" in line]
    )
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    assert len(rows_of(folder / "plain" / "predictions.jsonl")) == 8
    # Responses of a checkpoint that has changed since are not taken for its own.
    changed = pathlib.Path(models["bart"]) / "config.json"
    before = changed.read_text()
    changed.write_text(before + "\n")
    with pytest.raises(AssertionError, match=r"responses with other contents of checkpoint"):
        run_in_process(capfd, tmp_path, [line for line in commands if " infer " in line][:1])
    changed.write_text(before)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--tested-on=multidoc"], "--tested-on: there is no 'multidoc'."),
        (["--seeds=0,0"], "--seeds: expected different whole numbers"),
        (["--models=t5"], "--models: expected NAME=CHECKPOINT, got 't5'"),
        (["--models=t5=other"], "--models: 't5' is given twice."),
        (["--trained=nothing/faithdial=x"], "--trained: there is no 'nothing/faithdial'."),
        (["--models=doha=mini", "--methods=ctrl"], "--methods: doha is trained by cross_entropy"),
        (["--q2-model=mini"], "q2_f1 needs a model that asks questions (--q2-model) and one of na"),
    ],
)
def test_wrong_options(command, models, tmp_path, given, message):
    whole = arguments(tmp_path / "table", models, f"--models=t5={models['bart']}", *ALONE, *given)
    assert message in command.refuses("reproduce", *whole)
    assert not (tmp_path / "table").exists()


def test_a_gpt2_becomes_no_doha_and_a_bart_is_none_yet(command, models, tmp_path):
    gpt2 = tiny_models.write_model(tmp_path / "gpt2", "gpt2")
    for options, message in (
        ((f"--models=doha={gpt2}",), f"doha: {gpt2}: DoHA is made of a BART, but this is gpt2; g"),
        (
            (f"--models=doha={models['bart']}", f"--trained=doha/faithdial={models['bart']}"),
            f"--trained: doha/faithdial: {models['bart']}: has no attention over the knowledge",
        ),
    ):
        whole = arguments(tmp_path / "table", models, *ALONE, "--methods=cross_entropy", *options)
        assert message in command.refuses("reproduce", *whole)
        assert not (tmp_path / "table").exists()
