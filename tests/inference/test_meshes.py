"""Eight devices compute the same as one, for all layouts of rows and parameters."""

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh

from faith_jax.core.errors import ConfigError
from faith_jax.inference import EncoderDecoderModel, load_model
from faith_jax.models.partitioning import make_mesh
from tests.models import tiny
from tests.training.processes import free_port, output_of, start_module

ONE = ("8x1/roberta", "4x2/gpt2", "1x8/t5", "2x2x2/t5")
TWO = "4x2/t5"


ENGINES = "tests.inference.mesh_engines"


def saved(path, *runs):
    for run in runs:
        output_of(run)
    with np.load(path) as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """The results of one process with eight devices: each kind of model on one device and split."""
    path = tmp_path_factory.mktemp("meshes") / "one.npz"
    cases = [f"1x1/{family}" for family in ("t5", "gpt2", "roberta")]
    return saved(path, start_module(ENGINES, path, *cases, *ONE))


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The results of two processes with four devices each."""
    path = tmp_path_factory.mktemp("meshes") / "two.npz"
    address = f"127.0.0.1:{free_port()}"
    runs = [
        start_module(ENGINES, f"--process={address}/{number}", path, TWO, devices=4)
        for number in range(2)
    ]
    return saved(path, *runs)


@pytest.mark.slow
@pytest.mark.devices
@pytest.mark.parametrize("case", ONE)
def test_results_do_not_depend_on_the_mesh(one, case):
    assert_same(one, case, one)


@pytest.mark.slow
@pytest.mark.devices
def test_results_do_not_depend_on_the_processes(two, one):
    assert_same(two, TWO, one)


def assert_same(arrays, case, one):
    """Compares the results on a mesh with those of one device."""
    mesh, family = case.split("/")
    names = [name for name in arrays if name.startswith(f"{case}/")]
    assert any(name.endswith(("log_probs", "classes")) for name in names)
    for name in names:
        kind = name.rpartition("/")[2]
        value, expected = arrays[name], one[f"1x1/{family}/{kind}"]
        if kind == "devices":
            assert (value, expected) == (8, 1), name
        elif kind == "split":
            assert (value > 10) == (mesh != "8x1"), name
        elif kind.endswith("tokens"):
            assert kind != "sampled_tokens" or len(np.unique(expected)) > 8
            np.testing.assert_array_equal(value, expected, err_msg=name)
        else:
            assert np.ptp(expected) > 0.05
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5, err_msg=name)


def test_axes_are_auto_and_named():
    mesh = make_mesh()
    assert mesh.axis_types == (AxisType.Auto,) * 2
    # A mesh that JAX makes by default has explicit axes, which Flax's constraints cannot use.
    explicit = jax.make_mesh((jax.device_count(), 1), ("data", "model"))
    config = tiny.TINY.replace(num_encoder_layers=1, num_decoder_layers=1)
    _, params = tiny.model_and_params(config)
    model = EncoderDecoderModel(config, params, mesh=explicit)
    assert model.partitioner.mesh.axis_types == (AxisType.Auto,) * 2
    inputs = tiny.rows(5, 3, width=5)
    plain = EncoderDecoderModel(config, params).target_log_probs(inputs, inputs)
    np.testing.assert_allclose(model.target_log_probs(inputs, inputs), plain, rtol=1e-6)
    with pytest.raises(ConfigError, match=r"mesh: expected a jax.sharding.Mesh of the axes"):
        load_model("mini", mesh=Mesh(np.array(jax.devices()), ("rows",)))
    with pytest.raises(ConfigError, match=r"mesh: expected a jax.sharding.Mesh .* got str"):
        EncoderDecoderModel(config, params, mesh="8x1")
    with pytest.raises(ConfigError, match=r"NUM_PARTITIONS = 3 does not divide"):
        make_mesh(3)
