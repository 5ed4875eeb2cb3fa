"""The gin files for real T5X, as far as they can be read without it.

A stand-in replaces T5X and keeps its arguments. The tests check that our half of each model file
parses and builds the right network, but not T5X's half (docs/t5x.md lists the runs under real
T5X).
"""

import sys
import types

import gin
import jax
import numpy as np
import pytest

from faith_jax.models.transformer import Transformer, parameter_shapes
from faith_jax.tokenizers.seqio_vocabulary import DefaultVocabulary
from tests.paths import REPOSITORY

FOLDER = REPOSITORY / "gin_configs"
MODELS = sorted(p.name for p in (FOLDER / "t5x" / "models").glob("*.gin"))
# Parameters of the published checkpoints; mini is ours.
PARAMETERS = {
    "t5_1_0_base.gin": 222_903_552,
    "t5_1_0_large.gin": 737_668_096,
    "t5_1_0_small.gin": 60_506_624,
    "t5_1_0_xl.gin": 2_851_598_336,
    "t5_1_0_xxl.gin": 11_307_321_344,
    "t5_1_1_base.gin": 247_577_856,
    "t5_1_1_large.gin": 783_150_080,
    "t5_1_1_mini.gin": 5_767_136,
    "t5_1_1_small.gin": 76_961_152,
    "t5_1_1_xl.gin": 2_849_757_184,
    "t5_1_1_xxl.gin": 11_135_332_352,
}


class Recorder:
    """Keeps its keyword arguments."""

    def __init__(self, **arguments):
        self.arguments = arguments


class EncoderDecoderModel(Recorder):
    pass


class Adafactor(Recorder):
    pass


def standard_logical_axis_rules(additional_rules=()):
    return list(additional_rules)


def stand_in(name, **contents):
    """Returns a module with contents whose `__module__` is its name, where gin looks for them."""
    module = types.ModuleType(name)
    for key, value in contents.items():
        setattr(module, key, value)
        if not isinstance(value, types.ModuleType):
            value.__module__ = name
    return module


T5X_MODELS = stand_in("t5x.models", EncoderDecoderModel=EncoderDecoderModel)
T5X_ADAFACTOR = stand_in("t5x.adafactor", Adafactor=Adafactor)
T5X_PARTITIONING = stand_in(
    "t5x.partitioning", standard_logical_axis_rules=standard_logical_axis_rules
)
T5X = stand_in("t5x", models=T5X_MODELS, adafactor=T5X_ADAFACTOR, partitioning=T5X_PARTITIONING)


@pytest.fixture
def build(monkeypatch):
    """Returns the value of MODEL after gin has read a file and bindings."""
    for module in (T5X, T5X_MODELS, T5X_ADAFACTOR, T5X_PARTITIONING):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    prefixes = list(gin.config._LOCATION_PREFIXES)

    def parse(file, *bindings):
        gin.clear_config()
        gin.add_config_file_search_path(str(FOLDER))
        gin.parse_config_file(file)
        gin.parse_config(list(bindings))
        return gin.query_parameter("%MODEL").scoped_configurable_fn()

    yield parse
    gin.config._LOCATION_PREFIXES[:] = prefixes


def test_every_size_is_listed():
    assert sorted(PARAMETERS) == MODELS


@pytest.mark.parametrize("file", MODELS)
def test_model_file_wraps_our_network_of_the_published_size(build, file):
    model = build(f"t5x/models/{file}", "VOCABULARY_FILE = 'english_4096'")
    module = model.arguments["module"]
    assert isinstance(module, Transformer)
    assert not module.scan_layers  # T5X checkpoints name their layers one by one
    assert module.config.logits_via_embedding == file.startswith("t5_1_0")
    params = parameter_shapes(module)["params"]
    count = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(params))
    assert count == PARAMETERS[file]
    assert isinstance(model.arguments["optimizer_def"], Adafactor)
    assert model.arguments["z_loss"] == 0.0001


def test_mini_comes_with_the_vocabulary_of_our_tasks(build):
    model = build("t5x/models/t5_1_1_mini.gin")
    for name in ("input_vocabulary", "output_vocabulary"):
        vocabulary = model.arguments[name]
        assert vocabulary == DefaultVocabulary()
        assert vocabulary.vocab_size == 4196


def test_other_sizes_ask_for_a_vocabulary(build):
    with pytest.raises(TypeError, match="in scope 'VOCABULARY_FILE'"):
        build("t5x/models/t5_1_1_small.gin")


def test_optimizer_has_a_rule_for_every_axis_of_the_network(build):
    model = build("t5x/models/t5_1_1_mini.gin", "SCAN_LAYERS = True", "ENCODER_PROMPT_LENGTH = 2")
    axes = parameter_shapes(model.arguments["module"])["params_axes"]
    is_axes = lambda node: hasattr(node, "names")  # noqa: E731
    names = {name for leaf in jax.tree.leaves(axes, is_leaf=is_axes) for name in leaf.names}
    rules = model.arguments["optimizer_def"].arguments["logical_factor_rules"]
    assert set(rules) == names
    assert set(rules.values()) == {"row", "column", "none", "batch"}
    assert gin.query_parameter("standard_logical_axis_rules.additional_rules") == [("prompt", None)]


def test_macros_reach_the_network(build):
    model = build(
        "t5x/models/t5_1_1_mini.gin",
        "DTYPE = 'bfloat16'",
        "DROPOUT_RATE = 0.3",
        "SCAN_LAYERS = True",
    )
    config = model.arguments["module"].config
    assert (config.dtype, config.dropout_rate, config.scan_layers) == ("bfloat16", 0.3, True)
