import importlib.util
import json

import jax
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

from faith_jax.models import parameters
from faith_jax.models.config import TransformerConfig
from faith_jax.models.parameters import random_params
from faith_jax.models.partitioning import make_partitioner
from faith_jax.models.transformer import Transformer, initial_variables, parameter_shapes
from tests.models.families import BERT, FAMILIES, GPT2
from tests.models.tiny import TINY
from tests.paths import REPOSITORY

_SPEC = importlib.util.spec_from_file_location(
    "update_parameter_snapshot", REPOSITORY / "tools" / "update_parameter_snapshot.py"
)
update_parameter_snapshot = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(update_parameter_snapshot)

TESTDATA = REPOSITORY / "tests" / "testdata"
OURS = json.loads((TESTDATA / "parameters.json").read_text())
T5X = json.loads((TESTDATA / "t5x_parameters.json").read_text())


def differences(expected, actual):
    """Returns one line for each parameter that differs."""
    return [
        f"{name}: expected {expected.get(name, 'no such parameter')}, "
        f"got {actual.get(name, 'no such parameter')}"
        for name in sorted(expected | actual)
        if expected.get(name) != actual.get(name)
    ]


@pytest.mark.parametrize("name", list(update_parameter_snapshot.CONFIGS))
def test_parameters_are_those_of_the_snapshot(name):
    config = update_parameter_snapshot.CONFIGS[name]
    snapshot = update_parameter_snapshot.snapshot(config)
    assert OURS[name]["config"] == snapshot["config"]
    lines = differences(OURS[name]["parameters"], snapshot["parameters"])
    assert not lines, (
        "The model's parameters have changed, so that saved checkpoints would not load:\n"
        + "\n".join(lines)
        + "\nIf the change is meant, and former checkpoints still load, run "
        "tools/update_parameter_snapshot.py. T5X's names must stay: see the next test."
    )


@pytest.mark.parametrize("version", list(T5X))
def test_parameters_are_those_of_t5x(version):
    config = TransformerConfig.from_dict(T5X[version]["config"])
    our_parameters = update_parameter_snapshot.parameters(Transformer(config))
    lines = differences(T5X[version]["parameters"], our_parameters)
    assert not lines, (
        "T5X's checkpoints would no longer load. The names are T5X's own and no reason on our "
        "side makes it right to change this snapshot; only a new T5X does "
        "(tools/compare_with_t5x.py --write_snapshot):\n" + "\n".join(lines)
    )


def test_start_of_the_parameters_has_t5s_spread():
    config = TransformerConfig(
        vocab_size=600, emb_dim=256, num_heads=4, head_dim=64, mlp_dim=400, num_encoder_layers=1,
        num_decoder_layers=1,
    )  # fmt: skip
    params = jax.device_get(random_params(Transformer(config), make_partitioner(config), seed=3))
    attention = params["encoder"]["layers_0"]["attention"]
    # Mesh TensorFlow T5's: 1/sqrt(fan in), with attention's 1/sqrt(head_dim) in the query kernel.
    expected = {
        "query": 1 / np.sqrt(256 * 64),
        "key": 1 / np.sqrt(256),
        "value": 1 / np.sqrt(256),
        "out": 1 / np.sqrt(4 * 64),
    }
    for name, deviation in expected.items():
        np.testing.assert_allclose(np.std(attention[name]["kernel"]), deviation, rtol=0.02)
    mlp = params["decoder"]["layers_0"]["mlp"]
    np.testing.assert_allclose(np.std(mlp["wi"]["kernel"]), 1 / np.sqrt(256), rtol=0.02)
    np.testing.assert_allclose(np.std(mlp["wo"]["kernel"]), 1 / np.sqrt(400), rtol=0.02)
    np.testing.assert_allclose(np.std(params["token_embedder"]["embedding"]), 1.0, rtol=0.02)
    assert np.all(params["encoder"]["encoder_norm"]["scale"] == 1.0)


CONFIGS = {
    name: FAMILIES[name] for name in ("albert", "modernbert", "deberta_v1", "doha", "t5gemma")
}
CONFIGS |= {
    # Rematerialisation would enclose the initializers.
    "t5": TINY.replace(num_decoder_layers=1, encoder_prompt_length=3, remat_policy="full"),
    "scanned": GPT2.replace(scan_layers=True, decoder_prompt_length=2),
    "two": BERT.replace(num_encoder_layers=3, question_encoder=True),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_shapes_of_the_first_layer_are_those_of_all(name):
    """Only one layer of a stack is traced."""
    module = Transformer(CONFIGS[name])
    traced = jax.eval_shape(lambda: initial_variables(module, jax.random.key(0)))
    shapes = parameter_shapes(module)
    assert jax.tree.structure(shapes) == jax.tree.structure(traced)
    assert jax.tree.leaves(shapes) == jax.tree.leaves(traced)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t5", "scanned", "albert", "two"])
def test_random_parameters_are_the_modules_own(name):
    assert_modules_own(CONFIGS[name])


def assert_modules_own(config):
    module = Transformer(config)
    params = random_params(module, make_partitioner(config), seed=5)
    expected = jax.jit(lambda: initial_variables(module, jax.random.key(5))["params"])()
    assert jax.tree.structure(params) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, params, expected)


def test_layers_of_one_shape_share_the_programs_of_their_initializers(monkeypatch):
    programs = []

    def note(function):
        programs.append(function)
        return jaxpr_as_fun(function)

    monkeypatch.setattr(parameters, "jaxpr_as_fun", note)
    counts = []
    for num_layers in (1, 2):
        config = GPT2.replace(num_decoder_layers=num_layers)
        if num_layers == 2:
            assert_modules_own(config)
        else:
            random_params(Transformer(config), make_partitioner(config), seed=5)
        counts.append(len(programs))
        programs.clear()
    assert 5 < counts[0] == counts[1]
