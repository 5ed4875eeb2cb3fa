import importlib.util
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.planning import topologies
from faith_jax.planning.topologies import check_libtpu, parse_topology, partition_counts


class Device:
    """A chip with its coordinates in a torus, or a GPU with a number."""

    def __init__(self, number, coords=()):
        self.id, self.coords = number, coords


class FakeMesh:
    """Devices on axes, as JAX's mesh has them."""

    def __init__(self, devices, axis_names):
        self.devices, self.axis_names = devices, axis_names
        self.shape = dict(zip(axis_names, devices.shape, strict=True))


def torus(shape, axes, axis_names=("data", "model")):
    places = list(np.ndindex(*shape))
    devices = np.empty(len(places), object)
    devices[:] = [Device(number, place) for number, place in enumerate(places)]
    return FakeMesh(devices.reshape(axes), axis_names)


@pytest.mark.parametrize(
    ("name", "size", "is_tpu"),
    [("v4:4x4x4", 64, True), ("2xv6e:4x4", 32, True), ("h100:8", 8, False), ("cpu:3", 3, False)],
)
def test_a_topology_has_a_device_for_each_chip(name, size, is_tpu):
    topology = parse_topology(name)
    assert (topology.size, topology.is_tpu) == (size, is_tpu)
    assert topology.name == name.lower()


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("v4:4x4", "'v4:4x4x4'"),
        ("v4", "such as v4:4x4x4"),
        ("h100:0", "'h100:8'"),
        ("v5e:1000x1000", "'v5e:16x16'"),
        ("TPU", ""),
        ("2x2xv4:4x4x4", "'v4:4x4x4'"),
        ("2xh100:8", "give h100:16."),
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
    bandwidth = parse_topology(name).bandwidth(torus(shape, axes), over)
    assert bandwidth == pytest.approx(links * 50e9)


def test_gpus_of_two_machines_are_joined_by_the_slower_network():
    devices = np.array([Device(number) for number in range(16)]).reshape(2, 8)
    mesh = FakeMesh(devices, ("data", "model"))
    topology = parse_topology("h100:16")
    assert topology.bandwidth(mesh, ("model",)) == 450e9
    assert topology.bandwidth(mesh, ("data",)) == 50e9
    assert topology.bandwidth(mesh, ("data", "model")) == 50e9


needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="needs libtpu: the extra tpu-plan"
)


@needs_libtpu
@pytest.mark.parametrize(
    ("name", "reason"),
    [("v4:3x4x4", "'v4:4x4x4'"), ("v5p:2x3x3", "'v5p:2x2x2'"), ("2xv6e:3x4", "'v6e:4x4'")],
)
def test_a_torus_that_does_not_exist_is_told_with_the_nearest(name, reason):
    script = f"""from faith_jax.planning.topologies import parse_topology
parse_topology({name!r}).devices()"""
    environment = os.environ | parse_topology(name).environment()
    command = [sys.executable, "-c", script]
    message = subprocess.run(command, env=environment, capture_output=True, text=True).stderr
    last = message.strip().splitlines()[-1]
    assert f"ConfigError: --topology={name}: libtpu has no such topology" in last
    assert reason in last


def test_partitions_divide_devices_and_leave_each_a_row():
    assert partition_counts(64, 1, 16) == [4, 8, 16, 32, 64]
    assert partition_counts(8, 1, 8) == [1, 2, 4, 8]
    assert partition_counts(12, 1, 3) == [4, 12]
    assert partition_counts(16, 2, 4) == [4, 8]


def test_without_libtpu_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(topologies.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'pip install "faith_jax\[tpu-plan\]"'):
        check_libtpu(parse_topology("v4:4x4x4"))
    check_libtpu(parse_topology("h100:8"))


def test_a_plugin_compiles_for_gpus_that_are_described(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=x")
    for installed, plugin in (((), ""), (("xla_cuda12",), "xla_cuda12")):
        monkeypatch.setattr(topologies, "_has_plugin", lambda name, has=installed: name in has)
        for name in ("h100:8", "h200:1"):
            gpus = parse_topology(name)
            assert gpus.gpu_plugin == plugin
            assert gpus.compilers() == (("jax-cuda12-plugin",) if plugin else ("jaxlib",))
            flags = gpus.environment().get("XLA_FLAGS", "")
            assert flags.startswith("--xla_dump_to=x --xla_gpu_autotune_level=0") == bool(plugin)
        for name in ("a100:8", "cpu:2", "v4:2x2x1"):
            assert parse_topology(name).gpu_plugin == ""


def test_descriptions_of_gpus_say_what_is_known_of_them():
    for name, chip in topologies.CHIPS.items():
        if target := topologies._GPU_TARGETS.get(name):
            values = dict(re.findall(r"(\w+): (\d+)$", target.read_text(), re.MULTILINE))
            # Some of the memory is the driver's.
            assert int(values["device_memory_size"]) == pytest.approx(chip.memory, rel=0.07)
            assert int(values["memory_bandwidth"]) == pytest.approx(chip.bandwidth, rel=0.01)
    assert set(topologies._GPU_TARGETS) == {"h100", "h200"}


@pytest.mark.skipif(
    not parse_topology("h200:1").gpu_plugin, reason="needs JAX's plugin for CUDA (gpu-plan)"
)
def test_a_program_for_gpus_that_are_not_here():
    script = (
        "import jax, jax.numpy as jnp\n"
        "from faith_jax.planning.topologies import parse_topology\n"
        "devices = parse_topology('h200:2').devices()\n"
        "sharding = jax.sharding.SingleDeviceSharding(devices[0])\n"
        "array = jax.ShapeDtypeStruct((256, 256), jnp.bfloat16, sharding=sharding)\n"
        "text = jax.jit(jnp.matmul).lower(array, array).compile().as_text()\n"
        "print(len(devices), '__cublas$' in text)"
    )
    environment = os.environ | parse_topology("h200:2").environment()
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["2", "True"]
