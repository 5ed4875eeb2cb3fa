import json
import math

import numpy as np
import pytest

from faith_jax.checkpoints.checkpoint import flatten
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.cli import main
from faith_jax.errors import ConfigError
from faith_jax.evaluation.published_faithdial import SYSTEMS
from faith_jax.runs import faithdial_systems, trained_cells
from faith_jax.runs.faithdial_options import TESTED_ON, FaithDialOptions
from faith_jax.runs.faithdial_systems import (
    FAITHDIAL_WOW,
    IN_DOMAIN,
    RECIPES,
    System,
    Training,
    best_checkpoint,
    check_trainings,
    stages,
    task_of,
    trained_system,
)
from faith_jax.runs.gin_config import config_folder
from faith_jax.tasks import lookup
from tests.scoring import tiny_models


def test_every_training_has_a_recipe_and_a_task():
    for method, recipe in RECIPES.items():
        assert (config_folder() / recipe).is_file()
        for data in ("wow", "faithdial", FAITHDIAL_WOW, *IN_DOMAIN):
            if System("t5", method, data, 0).is_possible:
                lookup.get_task(task_of(method, data, sample=True))


def test_infonce_begins_with_cross_entropy_where_there_is_nothing_to_contrast():
    plans = {m: list(stages(System("t5", m, "wow_then_faithdial", 0))) for m in RECIPES}
    assert plans["infonce"] == [("cross_entropy", "wow"), ("infonce", "faithdial")]
    assert plans["ctrl"] == [("ctrl", "wow"), ("ctrl", "faithdial")]
    assert not System("t5", "infonce", "wow", 0).is_possible
    assert not System("t5", "ctrl", FAITHDIAL_WOW, 0).is_possible


def test_the_papers_systems_are_twenty():
    models = {"gpt2": "a", "dialogpt": "b", "doha": "c", "t5": "d"}
    plain = FaithDialOptions(models, methods=("cross_entropy",)).systems()
    others = FaithDialOptions({"t5": "d"}, methods=tuple(RECIPES)[1:]).systems()
    names = {(s.trained_on, s.name) for s in (*plain, *others) if s.trained_on not in IN_DOMAIN}
    assert len(names) == 20
    assert ("wow", "t5_infonce") not in names


def test_in_domain_systems_are_of_cross_entropy_and_respond_to_their_own_data():
    """Table 8's rows."""
    systems = FaithDialOptions({"t5": "d"}).systems()
    tested = {
        (corpus, s.trained_on, s.name)
        for corpus in TESTED_ON
        for s in systems
        if s.is_tested_on(corpus)
    }
    assert {key for key in tested if key[1] in IN_DOMAIN} == {
        ("topical_chat", "topical_chat", "t5"),
        ("cmu_dog", "cmu_dog", "t5"),
    }
    table_8 = {key for key in SYSTEMS if key[0] != "faithdial"}
    assert table_8 < tested
    assert len(table_8) == 6
    there = FaithDialOptions({"t5": "d"}, tested_on=("faithdial", "cmu_dog")).systems()
    assert {s.trained_on for s in there} & set(IN_DOMAIN) == {"cmu_dog"}


@pytest.mark.parametrize(
    ("data", "split"), [("topical_chat", "validation_rare"), ("cmu_dog", "validation")]
)
def test_an_in_domain_training(monkeypatch, data, split):
    monkeypatch.setattr(faithdial_systems, "_count", lambda task: 640)
    told = Training().bindings("cross_entropy", data, "start", 0)
    assert told["MIXTURE_OR_TASK_NAME"] == f"{data}_generate"
    assert (told["TRAIN_STEPS"], told["WARMUP_STEPS"]) == (200, 8)
    assert told.get("eval_split/datasets.DatasetConfig.split", "validation") == split
    assert split in lookup.get_task(f"{data}_generate_sample").splits


def test_what_a_training_is_told():
    told = Training(steps=200, batch_size=6, learning_rate=0.1, sample=True).bindings(
        "infonce", "faithdial", "start", 3
    )
    assert told["MIXTURE_OR_TASK_NAME"] == "faithdial_generate_infonce_sample"
    assert told["TASK_FEATURE_LENGTHS"] == {"inputs": 512, "targets": 256, "negatives": (8, 64)}
    assert told["NUM_MICROBATCHES"] == 2  # what 4 pieces and 6 rows both divide into
    assert (told["TRAIN_STEPS"], told["WARMUP_STEPS"], told["EVAL_PERIOD"]) == (200, 8, 10)
    assert (told["RANDOM_SEED"], told["INITIAL_CHECKPOINT_PATH"]) == (3, "start")
    truncated = Training(steps=5736).bindings("loss_truncation", "faithdial", "start", 0)
    assert truncated["TRUNCATION_WARMUP_STEPS"] == 313
    assert truncated["WARMUP_STEPS"] == 229
    assert truncated["EVAL_PERIOD"] == 286
    recipes_own = Training().bindings("cross_entropy", "faithdial", "start", 0)
    assert not {"TRAIN_STEPS", "BATCH_SIZE", "LEARNING_RATE"} & set(recipes_own)


def test_ten_epochs_of_wizard_of_wikipedia(monkeypatch):
    monkeypatch.setattr(faithdial_systems, "_count", lambda task: 331)
    told = Training(batch_size=10).bindings("cross_entropy", "wow", "start", 0)
    assert told["TRAIN_STEPS"] == 331
    assert told["eval_split/datasets.DatasetConfig.split"] == "validation_unseen"


def test_doha_is_trained_by_its_recipe_alone(tmp_path, monkeypatch):
    options = FaithDialOptions({"t5": "a", "doha": "b"})
    assert [s.method for s in options.systems() if s.model == "doha"] == ["cross_entropy"] * 5
    trained = []
    monkeypatch.setattr(faithdial_systems, "train_recipe", lambda *given: trained.append(given))
    monkeypatch.setattr(faithdial_systems, "best_checkpoint", lambda place: place / "best")
    monkeypatch.setattr(faithdial_systems, "_count", lambda task: 83_247)
    system = System("doha", "cross_entropy", "wow_then_faithdial", 0)
    trained_system(system, {"doha": "bart"}, tmp_path, Training())
    (first, on_wow, place), (second, on_faithdial, _) = trained
    assert first == second == "faithdial_generate_doha.gin"
    assert place.name == "doha_wow"
    assert on_wow["TRAIN_STEPS"] == math.ceil(25 * 83_247 / 32)
    assert on_wow["WARMUP_STEPS"] == round(0.1 * on_wow["TRAIN_STEPS"])
    assert on_wow["EVAL_PERIOD"] == on_wow["TRAIN_STEPS"] // 50
    assert "TRAIN_STEPS" not in on_faithdial  # the recipe's own
    assert on_faithdial["INITIAL_CHECKPOINT_PATH"] == str(place / "best")
    told = Training(batch_size=12).bindings("doha", "faithdial", "bart", 0)
    assert told["NUM_MICROBATCHES"] == 4  # what 8 pieces and 12 rows both divide into


RATE = 1e-3


@pytest.fixture(scope="module")
def chain(tmp_path_factory, offline_data_dir, quick_compilation):
    """Parameters by training: T5 trained on WoW, then on FaithDial by two methods.

    Each training is one step, in this process in place of one of its own.
    """
    base = tiny_models.write_t5(tmp_path_factory.mktemp("base") / "t5")
    folder, places = tmp_path_factory.mktemp("systems"), []

    def run(arguments, place):
        places.append(place.name)
        assert main(arguments) == 0

    training = Training(1, 4, RATE, input_length=256, target_length=96, negatives=2, sample=True)
    params = {"base": flatten(open_checkpoint(base).params)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trained_cells, "_run", run)
        for method in ("cross_entropy", "infonce"):
            system = System("t5", method, "wow_then_faithdial", 1)
            found = trained_system(system, {"t5": base}, folder, training)
            assert found.relative_to(folder).parts[:2] == ("t5", "seed_1")
            assert found.parts[-3:-1] == (f"{method}_wow_then_faithdial", "checkpoints")
    for place in places:
        checkpoint = best_checkpoint(folder / "t5" / "seed_1" / place)
        params[place] = flatten(open_checkpoint(checkpoint).params)
    return params


def farthest(first, second):
    """The largest difference of two sets of parameters, in steps of Adam."""
    return max(np.abs(first[name] - second[name]).max() for name in first) / RATE


@pytest.mark.slow
def test_systems_share_the_training_that_they_begin_with(chain):
    assert list(chain) == [
        "base", "cross_entropy_wow", "cross_entropy_wow_then_faithdial",
        "infonce_wow_then_faithdial",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_training_starts_from_the_checkpoint_of_the_one_before(chain):
    """Adam's first step moves a parameter by the learning rate, whatever its gradient."""
    base, wow = chain["base"], chain["cross_entropy_wow"]
    assert farthest(wow, base) == pytest.approx(1, rel=0.01)
    for method in ("cross_entropy", "infonce"):
        then = chain[f"{method}_wow_then_faithdial"]
        assert farthest(then, wow) == pytest.approx(1, rel=0.01)
        assert farthest(then, base) == pytest.approx(2, rel=0.01)


def test_a_training_of_other_settings_is_refused_before_any_begins(tmp_path):
    system = System("t5", "ctrl", "wow_then_faithdial", 0)
    models = {"t5": "mini"}
    check_trainings(system, models, tmp_path, Training(steps=20, sample=True))  # none has begun
    first = tmp_path / "t5" / "seed_0" / "ctrl_wow"
    (first / "checkpoints" / "20").mkdir(parents=True)
    bindings = Training(steps=20, sample=True).bindings("ctrl", "wow", "mini", 0)
    settings = trained_cells._settings("faithdial_generate_ctrl.gin", bindings)
    (first / "recipe.json").write_text(json.dumps(settings))
    check_trainings(system, models, tmp_path, Training(steps=20, sample=True))
    with pytest.raises(ConfigError, match=r"ctrl_wow: .* of TRAIN_STEPS \(20, not 10\)"):
        check_trainings(system, models, tmp_path, Training(steps=10, sample=True))
    second = tmp_path / "t5" / "seed_0" / "ctrl_wow_then_faithdial" / "checkpoints" / "20"
    second.mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"ctrl_wow_then_faithdial: .* no readable recipe.json"):
        check_trainings(system, models, tmp_path, Training(steps=20, sample=True))


def test_a_folder_without_checkpoints(tmp_path):
    with pytest.raises(ConfigError, match="has no checkpoint; remove it"):
        best_checkpoint(tmp_path)
