import importlib
import json.decoder

import gin
import pytest

from faith_jax.runs import renamed
from faith_jax.runs.gin_config import parse
from faith_jax.runs.run_settings import differences, settings_of

OLD = """from __gin__ import dynamic_registration
from faith_jax.former import engine
import faith_jax.former.sub.wheels

engine.train.model_dir = 'a'
engine.train.total_steps = 7
faith_jax.former.sub.wheels.train.batch = 1
"""


@pytest.fixture
def moved(monkeypatch):
    table = {
        "faith_jax.former.engine": "faith_jax.runs.train",
        "faith_jax.former.sub.wheels": "faith_jax.runs.evaluate",
    }
    monkeypatch.setattr(renamed, "MODULES", table)


def test_bindings_of_a_former_file_reach_the_module_of_today(tmp_path, monkeypatch):
    # Gin knows a configurable by its first name for the life of a process: not one of ours.
    monkeypatch.setattr(renamed, "MODULES", {"faith_jax.former.reader": "json.decoder"})
    file = tmp_path / "old.gin"
    file.write_text(
        "from __gin__ import dynamic_registration\n"
        "from faith_jax.former import reader\n"
        "reader.JSONDecoder.strict = True\n"
    )
    parse([str(file)], ["reader.JSONDecoder.strict=False"])
    assert gin.get_bindings(json.decoder.JSONDecoder) == {"strict": False}


def test_a_former_config_says_the_same_as_todays(moved):
    new = OLD.replace("former import engine", "runs import train").replace("engine.", "train.")
    new = new.replace("faith_jax.former.sub.wheels", "faith_jax.runs.evaluate")
    before, now = settings_of(OLD), settings_of(new)
    assert before is not None
    assert now is not None
    assert before["total_steps"].value == 7
    assert differences(before, now) == []
    assert renamed.with_present_names(new) == new


def test_each_present_name_is_a_module():
    for present in renamed.MODULES.values():
        importlib.import_module(present)
