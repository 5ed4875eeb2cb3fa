import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.runs.planning import topologies
from faith_jax.runs.planning.topologies import check_libtpu, parse_topology


class Device:
    """A chip at a place of a torus, or a GPU with a number."""

    def __init__(self, number, coords=()):
        self.id, self.coords = number, coords


class FakeMesh:
    """Devices on axes, as JAX's mesh has them."""

    def __init__(self, devices, axis_names):
        self.devices, self.axis_names = devices, axis_names


def torus(shape, axes):
    places = list(np.ndindex(*shape))
    devices = np.empty(len(places), object)
    devices[:] = [Device(number, place) for number, place in enumerate(places)]
    return FakeMesh(devices.reshape(axes), ("data", "model"))


@pytest.mark.parametrize(
    ("name", "size", "is_tpu"),
    [("v4:4x4x4", 64, True), ("V5E:4x4", 16, True), ("h100:8", 8, False), ("cpu:3", 3, False)],
)
def test_a_topology_has_a_device_for_each_chip(name, size, is_tpu):
    found = parse_topology(name)
    assert (found.size, found.is_tpu) == (size, is_tpu)
    assert found.name == name.lower()


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("v4:4x4", "'v4:4x4x4'"),
        ("v5:4x4", "'v5e:4x4'"),
        ("v4", "'v4:4x4x4'"),
        ("h100", "'h100:8'"),
        ("h100:0", "'h100:8'"),
        ("v4:4x4xx4", "'v4:4x4x4'"),
        ("v4:3x4x4", "'v4:4x4x4'"),
        ("v5e:1000x1000", "'v5e:16x16'"),
        ("h100:-8", "'h100:8'"),
        ("TPU", ""),
    ],
)
def test_an_unknown_topology_is_told_with_the_nearest(name, nearest):
    with pytest.raises(ConfigError, match=r"^--topology=") as raised:
        parse_topology(name)
    assert f"--topology={name}: " in str(raised.value)
    assert nearest in str(raised.value)


@pytest.mark.parametrize(
    ("name", "shape", "axes", "over", "links"),
    [
        # v4: 50 GB/s a link; rings of 4 are closed.
        ("v4:4x4x4", (4, 4, 4), (4, 16), ("model",), 4),
        ("v4:4x4x4", (4, 4, 4), (4, 16), ("data",), 2),
        ("v4:4x4x4", (4, 4, 4), (4, 16), ("data", "model"), 6),
        ("v4:4x4x4", (4, 4, 4), (32, 2), ("model",), 1),  # two of a ring of four
        ("v4:2x2x1", (2, 2, 1), (2, 2), ("model",), 1),  # no ring
        ("v5e:4x4", (4, 4), (4, 4), ("model",), 1),
        ("v5e:16x16", (16, 16), (16, 16), ("model",), 2),
    ],
)
def test_the_bandwidth_of_an_axis_is_that_of_its_links(name, shape, axes, over, links):
    found = parse_topology(name).bandwidth(torus(shape, axes), over)
    assert found == pytest.approx(links * 50e9)


def test_gpus_of_two_machines_are_joined_by_the_slower_network():
    devices = np.array([Device(number) for number in range(16)]).reshape(2, 8)
    mesh = FakeMesh(devices, ("data", "model"))
    topology = parse_topology("h100:16")
    assert topology.bandwidth(mesh, ("model",)) == 450e9
    assert topology.bandwidth(mesh, ("data",)) == 50e9
    assert topology.bandwidth(mesh, ("data", "model")) == 50e9


def test_a_v4_is_described_by_its_chips():
    found = parse_topology("v4:4x4x8").environment()
    assert found["TPU_ACCELERATOR_TYPE"] == "v4-256"  # counted in cores
    assert found["TPU_HOST_BOUNDS"] == "2,2,8"  # a host has 2x2x1 chips
    assert "TPU_HOST_BOUNDS" not in parse_topology("v5e:4x4").environment()
    assert parse_topology("h100:8").environment() == {"JAX_PLATFORMS": "cpu"}


def test_without_libtpu_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(topologies.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'pip install "faith_jax\[tpu-plan\]"'):
        check_libtpu(parse_topology("v4:4x4x4"))
    check_libtpu(parse_topology("h100:8"))
