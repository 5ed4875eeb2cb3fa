import importlib

import gin

from faith_jax.runs import renamed
from faith_jax.runs.gin_config import differences, parse, settings_of
from faith_jax.training.infonce import InfoNCE

OLD = """from __gin__ import dynamic_registration
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
NEW = """from __gin__ import dynamic_registration
from faith_jax.training import infonce
import faith_jax.training.infonce
from faith_jax.input import task_batches as inputs
from faith_jax.runs import train

train.train.model_dir = 'a'
train.train.total_steps = 7
infonce.InfoNCE.temperature = 0.25
train.train.objective = @infonce.InfoNCE()
faith_jax.training.infonce.InfoNCE.weight = 2.0
eval/inputs.DatasetConfig.split = 'validation'
"""


def test_former_names_become_those_of_today():
    assert renamed.with_present_names(OLD) == NEW
    assert renamed.with_present_names(NEW) == NEW


def test_bindings_of_a_former_file_reach_the_module_of_today(tmp_path):
    file = tmp_path / "old.gin"
    file.write_text(
        "from __gin__ import dynamic_registration\n"
        "from faith_jax.training import contrastive\n"
        "contrastive.InfoNCE.temperature = 0.5\n"
    )
    parse([str(file)], ["contrastive.InfoNCE.temperature=0.25"])
    assert gin.get_bindings(InfoNCE) == {"temperature": 0.25}


def test_a_former_config_says_the_same_as_todays():
    before, now = settings_of(OLD), settings_of(NEW)
    assert before is not None
    assert now is not None
    assert before["total_steps"].value == 7
    assert differences(before, now) == []


def test_each_present_name_exists():
    modules = {p.rpartition(".")[2]: importlib.import_module(p) for p in renamed.MODULES.values()}
    for name in renamed.CONFIGURABLES.values():
        module, _, configurable = name.partition(".")
        assert hasattr(modules[module], configurable)
