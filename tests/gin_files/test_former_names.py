"""Gin files and configs of earlier versions still work."""

import importlib
import inspect

import gin
import pytest

from faith_jax.gin_files import config as gin_config
from faith_jax.gin_files import former_names
from faith_jax.gin_files.former_names import with_present_names
from faith_jax.gin_files.run_settings import differences, settings_of
from faith_jax.runs import infer, setup, train
from faith_jax.training.infonce import InfoNCE
from tests.paths import REPOSITORY

FORMER_CONFIG = """from __gin__ import dynamic_registration
from faith_jax.training import contrastive
import faith_jax.training.contrastive
from faith_jax.runs import datasets as inputs
from faith_jax.runs import train

train.train.model_dir = 'a'
train.train.total_steps = 7
contrastive.InfoNCE.temperature = 0.25
train.train.objective = @contrastive.InfoNCE()
faith_jax.training.contrastive.InfoNCE.weight = 2.0
eval/inputs.DatasetConfig.split = 'validation'
"""
PRESENT_CONFIG = """from __gin__ import dynamic_registration
from faith_jax.training import infonce
import faith_jax.training.infonce
from faith_jax.input import task_batches as inputs
from faith_jax.runs import train

train.Output.model_dir = 'a'
train.Optimization.total_steps = 7
infonce.InfoNCE.temperature = 0.25
train.Optimization.objective = @infonce.InfoNCE()
faith_jax.training.infonce.InfoNCE.weight = 2.0
eval/inputs.DatasetConfig.split = 'validation'
train.train.output = @train.Output()
train.train.optimization = @train.Optimization()
"""


def test_former_names_become_those_of_today():
    assert with_present_names(FORMER_CONFIG) == PRESENT_CONFIG
    assert with_present_names(PRESENT_CONFIG) == PRESENT_CONFIG


@pytest.mark.parametrize(
    "line",
    [
        "import prompts",
        "from my_project import prompts  # mine",
        "from my_project import texts as prompts",
        "import my_project.texts as prompts",
        "from faith_jax.models import soft_prompt as prompts",
    ],
)
def test_a_module_of_the_user_may_have_a_former_name(line):
    text = f"{line}\nPROMPT_INITIALIZER = @prompts.uniform()\na/prompts.uniform.scale = 0.1\n"
    assert with_present_names(text) == text
    others = text.replace(line, "from prompts import texts\nimport my_project.prompts")
    assert with_present_names(others) == others.replace("prompts.uniform", "soft_prompt.uniform")


def test_bindings_of_a_former_file_reach_the_module_of_today(tmp_path):
    file = tmp_path / "old.gin"
    file.write_text(
        "from __gin__ import dynamic_registration\n"
        "from faith_jax.training import contrastive\n"
        "contrastive.InfoNCE.temperature = 0.5\n"
    )
    gin_config.parse([str(file)], ["contrastive.InfoNCE.temperature=0.25"])
    assert gin.get_bindings(InfoNCE) == {"temperature": 0.25}


def test_a_former_config_says_the_same_as_todays():
    before, now = settings_of(FORMER_CONFIG), settings_of(PRESENT_CONFIG)
    assert before is not None
    assert now is not None
    assert before["optimization.total_steps"].value == 7
    assert differences(before, now) == []


def test_each_present_name_exists():
    modules = {
        p.rpartition(".")[2]: importlib.import_module(p)
        for p in former_names.RENAMED_MODULES.values()
    }
    for name in former_names.RENAMED_CONFIGURABLES.values():
        module, _, configurable = name.partition(".")
        assert hasattr(modules[module], configurable)


def test_each_argument_of_a_record_exists():
    modules = {"setup": setup, "train": train, "infer": infer}
    for arguments in former_names.RENAMED_ARGUMENTS.values():
        for present in arguments.values():
            module, owner, argument = present.split(".")
            assert argument in inspect.signature(getattr(modules[module], owner)).parameters


BLOCKS = """from __gin__ import dynamic_registration
from faith_jax.models import partitioning
from faith_jax.runs import train

include 'runs/train.gin'

train.train:  # as it was
    eval_period = 7
    trainable = (
        'decoder/.*',
        'encoder/.*',
    )

    partitioner_for = @partitioning.make_partitioner
train.train.keep_last = \\
    5
"""


def test_blocks_of_former_arguments_reach_the_records(tmp_path):
    file = tmp_path / "old.gin"
    file.write_text(BLOCKS)
    lengths = "TASK_FEATURE_LENGTHS={'inputs': 8, 'targets': 8}"
    macros = ["MODEL_DIR=a", "TRAIN_STEPS=3", "MIXTURE_OR_TASK_NAME=npov_generate", lengths]
    bindings = [*macros, "train.train.eval_period=9", "train.train.keep_best=4"]
    gin_config.parse(["models/t5_1_1_mini.gin", str(file)], bindings)
    bound = gin.get_bindings(train.Evaluation, resolve_references=False)
    assert bound["period"] == 9
    assert gin.get_bindings(setup.StartingPoint)["trainable"] == ("decoder/.*", "encoder/.*")
    output = gin.get_bindings(train.Output)
    assert (output["keep_last"], output["keep_best"]) == (5, 4)
    assert gin.get_bindings(train.train, resolve_references=False)[
        "partitioner_for"
    ].selector.endswith("make_partitioner")


def test_a_block_of_todays_arguments_stays():
    text = "infer.infer:\n  batch_size = 3\n  seed = 1\n"
    assert with_present_names(text) == text


def test_a_file_that_imports_whole_names_gets_whole_names():
    text = (
        "from __gin__ import dynamic_registration\n"
        "import faith_jax.runs.train\n"
        "faith_jax.runs.train.train.vocabulary = 'v'\n"
    )
    assert with_present_names(text) == (
        "from __gin__ import dynamic_registration\n"
        "import faith_jax.runs.setup\n"
        "import faith_jax.runs.train\n"
        "faith_jax.runs.setup.StartingPoint.vocabulary = 'v'\n"
        "faith_jax.runs.train.train.start = @faith_jax.runs.setup.StartingPoint()\n"
    )


@pytest.mark.parametrize("name", ["config", "config_passages", "config_finish"])
def test_configs_of_former_runs_are_read(name):
    text = (REPOSITORY / "docs" / "mini" / f"{name}.gin").read_text()
    settings = settings_of(text)
    assert settings is not None
    assert settings["optimization.total_steps"].name == "TRAIN_STEPS"
    assert settings["output.keep_last"].name == "KEEP_LAST"
    assert settings["dataset.batch_size"].name == "BATCH_SIZE"
