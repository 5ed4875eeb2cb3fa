"""Settings of a run: followed through macros, references and scopes, and compared by value."""

import gin
import pytest

from faith_jax.gin_files import config as gin_config
from faith_jax.gin_files.run_settings import (
    Reference,
    SettingDifference,
    differences,
    read_settings,
    settings_of,
)

REQUIRED = (
    "MODEL_DIR=m",
    "MIXTURE_OR_TASK_NAME=t",
    "TRAIN_STEPS=5",
    "TASK_FEATURE_LENGTHS={'inputs': 8, 'targets': 9}",
)


def parsed(*bindings, files=()):
    gin_config.parse(["models/t5_1_1_mini.gin", "runs/train.gin", *files], [*REQUIRED, *bindings])
    return settings_of(gin.config_str())


def changed(*bindings, files=()):
    return differences(parsed(), parsed(*bindings, files=files))


def test_arguments_are_followed_through_macros_references_and_scopes():
    settings = parsed("BATCH_SIZE=4")
    assert settings["optimization.total_steps"] == (5, "TRAIN_STEPS")
    assert settings["optimization.optimizer"].value == Reference(
        "faith_jax.training.optimizers.adafactor"
    )
    assert settings["optimization.optimizer.learning_rate.total_steps"] == (5, "TRAIN_STEPS")
    assert settings["dataset.batch_size"] == (4, "BATCH_SIZE")
    # The same configurable in two scopes.
    assert settings["dataset.split"].value == "train"
    assert settings["evaluation.dataset.split"].value == "validation"
    assert settings["evaluation.dataset.pack"].value is False  # a default
    assert settings["dataset.task_feature_lengths"].value == {"inputs": 8, "targets": 9}


def test_a_written_config_is_the_same():
    settings = parsed("BATCH_SIZE=4")
    assert settings_of(gin.config_str()) == settings
    assert differences(settings, settings) == []


@pytest.mark.parametrize(
    ("schedule", "rate"),
    [
        ("linear_decay", "learning_rate"),
        ("constant", "learning_rate"),
        ("inverse_square_root", "learning_rate"),
        ("factored_rate", "base_learning_rate"),
    ],
)
def test_every_schedule_has_the_rate_and_the_warm_up_that_are_set(schedule, rate):
    schedule = f"LEARNING_RATE_SCHEDULE=@optimizers.{schedule}()"
    settings = parsed(schedule, "LEARNING_RATE=0.5", "WARMUP_STEPS=3")
    place = "optimization.optimizer.learning_rate"
    assert settings[f"{place}.{rate}"] == (0.5, "LEARNING_RATE")
    assert settings[f"{place}.warmup_steps"] == (3, "WARMUP_STEPS")


@pytest.mark.parametrize(
    ("binding", "expected"),
    [
        ("RANDOM_SEED=3", ("optimization.seed", "RANDOM_SEED", "0", "3")),
        (
            "LABEL_SMOOTHING=0.1",
            ("optimization.objective.label_smoothing", "LABEL_SMOOTHING", "0.0", "0.1"),
        ),
        (
            "optimizers.adafactor.decay_rate=0.5",
            ("optimization.optimizer.decay_rate", "adafactor.decay_rate", "0.8", "0.5"),
        ),
        (
            "LEARNING_RATE=0.5",
            ("optimization.optimizer.learning_rate.learning_rate", "LEARNING_RATE", "0.001", "0.5"),
        ),
        (
            "TASK_FEATURE_LENGTHS={'inputs': 8, 'targets': 7}",
            (
                "dataset.task_feature_lengths",
                "TASK_FEATURE_LENGTHS",
                "{'inputs': 8, 'targets': 9}",
                "{'inputs': 8, 'targets': 7}",
            ),
        ),
    ],
)
def test_a_difference_is_named_as_it_is_set(binding, expected):
    assert SettingDifference(*expected) in changed(binding)


def test_another_reference_hides_its_arguments():
    assert changed("OPTIMIZER=@optimizers.adamw()") == [
        (
            "optimization.optimizer",
            "OPTIMIZER",
            "@training.optimizers.adafactor",
            "@training.optimizers.adamw",
        )
    ]


def test_what_nothing_uses_and_how_a_value_is_said_are_no_difference(tmp_path):
    (tmp_path / "more.gin").write_text(
        "from __gin__ import dynamic_registration\n"
        "import faith_jax.runs.train\n"
        "SEED_OF_MINE = 0\n"
        "RANDOM_SEED = %SEED_OF_MINE\n"
        "faith_jax.runs.train.train.keep_last = 2\n"
    )
    assert changed("optimizers.adamw.weight_decay=0.5") == []
    assert changed(files=[str(tmp_path / "more.gin")]) == []
    # A default that is written out.
    assert changed("train_split/task_batches.DatasetConfig.pack=False") == []


def test_references_in_lists_are_followed():
    text = "train.train.total_steps = 3\ntrain.train.{} = [@a.f(), (1, %X)]\na.f.y = {}\nX = {}\n"
    head = "from faith_jax.runs import train\nimport a\n"
    first, second = (settings_of(head + text.format("trainable", y, 5)) for y in (1, 2))
    (difference,) = differences(first, second)
    assert difference == ("start.trainable.0.y", "f.y", "1", "2")
    third = settings_of(head + text.format("trainable", 1, 6))
    assert [d.path for d in differences(first, third)] == ["start.trainable"]


@pytest.mark.parametrize("text", ["", "train.train.x = [", "A = %A\nfoo.bar = %A\n"])
def test_what_is_no_config_of_a_run(text):
    assert settings_of(text) is None


def test_circles_end():
    head = "from faith_jax.runs import train\nimport a\ntrain.train.total_steps = %X\nX = %Y\n"
    assert settings_of(head + "Y = %X\ntrain.train.optimizer = @a.f()\na.f.x = @a.f()\n")


def test_a_config_that_cannot_be_read_says_nothing(tmp_path):
    assert read_settings(tmp_path) is None
    for text in ("train.train.seed = (", "\x00", "import os\n= 3"):
        (tmp_path / "config.gin").write_text(text)
        assert read_settings(tmp_path) is None
