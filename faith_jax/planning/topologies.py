"""Kinds of accelerators and how many of them a job has, by the names that clouds use.

libtpu describes TPUs and compiles for them on any machine. JAX's CUDA plugin does the same for GPUs
with a description in gpu_targets/. For other GPUs, or without the plugin, a process's CPU pretends
to be as many devices.
"""

import importlib
import importlib.util
import math
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.core.errors import ConfigError, did_you_mean

GIB = 2**30


class Chip(NamedTuple):
    """An accelerator as its maker describes it.

    Attributes:
      name: such as "v4".
      operations: FLOPs per second of bfloat16 matrix products; None = not known.
      memory: bytes that programs can use: as libtpu says for TPUs, the whole memory for GPUs.
      bandwidth: of the memory, in bytes per second.
      link: bytes per second that a device sends in one direction over one link of a TPU's torus, or
        over all of a GPU's NVLinks.
      axes: dimensions of a TPU's torus; 0 = no torus.
      wraps: a side of a torus is closed to a ring if its length is a multiple of this.
      host: GPUs in one machine, joined by NVLinks.
      between: bytes per second that a device sends to another machine of GPUs, or to another slice
        of TPUs; None = not known.
    """

    name: str
    operations: float | None = None
    memory: float | None = None
    bandwidth: float | None = None
    link: float | None = None
    axes: int = 0
    wraps: int = 0
    host: int = 8
    between: float | None = None


# Sources for TPUs: Google Cloud's pages "TPU v4", "TPU v5e", "TPU v5p" and "TPU v6e", which give a
# chip's share of the data center's network except for v4. For GPUs: NVIDIA's data sheets of the SXM
# modules, without sparsity; between machines, one network card per GPU as in the HGX reference
# design.
CHIPS: Mapping[str, Chip] = {
    chip.name: chip
    for chip in (
        Chip("v4", 275e12, 30.75 * GIB, 1.228e12, 50e9, axes=3, wraps=4),
        Chip("v5e", 197e12, 15.75 * GIB, 0.819e12, 50e9, axes=2, wraps=16, between=3.125e9),
        Chip("v5p", 459e12, 95.74 * GIB, 2.765e12, 100e9, axes=3, wraps=4, between=6.25e9),
        Chip("v6e", 918e12, 31.25 * GIB, 1.64e12, 100e9, axes=2, wraps=16, between=12.5e9),
        Chip("a100", 312e12, 80 * GIB, 2.039e12, 300e9, between=25e9),
        Chip("a100-40gb", 312e12, 40 * GIB, 1.555e12, 300e9, between=25e9),
        Chip("h100", 989e12, 80 * GIB, 3.35e12, 450e9, between=50e9),
        Chip("h200", 989e12, 141e9, 4.8e12, 450e9, between=50e9),
        Chip("cpu"),
    )
}
# Valid names, to suggest when an unknown one is given.
_EXAMPLES = [
    f"{kind}:{sizes}"
    for kinds, several in (
        (("v4", "v5p"), ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8")),
        (("v5e", "v6e"), ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")),
        (("h100", "h200", "a100", "a100-40gb"), ("8", "16")),
        (("cpu",), ("8",)),
    )
    for kind in kinds
    for sizes in several
]
_MOST_DEVICES = 8192
# Descriptions of GPUs by chip, as XLA writes them on a machine with such a GPU (--xla_dump_to).
_GPU_TARGETS = {
    path.stem: path for path in (pathlib.Path(__file__).parent / "gpu_targets").glob("*.txt")
}
# Kernels cannot be autotuned without the GPU, and then Triton fails for some matrix products, so
# that all are left to cuBLAS.
_GPU_FLAGS = "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"
_NAME = re.compile(
    r"((?P<slices>\d{1,4})x)?(?P<kind>[a-z][\w\-]*):(?P<sizes>\d{1,6}(x\d{1,6})*)", re.ASCII
)


class Topology(NamedTuple):
    """A number of chips of one kind, with the name that the user gave.

    `shape` is the torus of one slice, or `(number,)` for GPUs and CPUs; the data center's network
    joins the `slices`.
    """

    name: str
    chip: Chip
    shape: tuple[int, ...]
    slices: int = 1

    @property
    def is_tpu(self) -> bool:
        """Whether libtpu compiles for it."""
        return self.chip.axes > 0

    @property
    def size(self) -> int:
        """How many devices there are: one for each chip."""
        return self.slices * math.prod(self.shape)

    @property
    def gpu_plugin(self) -> str:
        """The JAX plugin that compiles for it; "" if none can, or none is installed."""
        if self.chip.name not in _GPU_TARGETS:
            return ""
        return next((name for name in ("xla_cuda13", "xla_cuda12") if _has_plugin(name)), "")

    def environment(self) -> dict[str, str]:
        """Returns the variables that a process must set before it imports JAX."""
        variables = {"JAX_PLATFORMS": "cpu"}
        if self.gpu_plugin:
            variables["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_GPU_FLAGS}".strip()
        if self.is_tpu:
            variables |= {"TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
            variables |= {"TPU_WORKER_HOSTNAMES": "localhost", "TPU_ACCELERATOR_TYPE": "v4-8"}
        return variables

    def compilers(self) -> tuple[str, ...]:
        """Returns the packages that compile for it, besides JAX."""
        if plugin := self.gpu_plugin:
            return (f"jax-{plugin.removeprefix('xla_')}-plugin",)
        return ("libtpu",) if self.is_tpu else ("jaxlib",)

    def devices(self) -> list[Any]:
        """Returns JAX's devices; the process must have been started with this `environment`.

        Raises:
          ConfigError: libtpu knows no such topology.
        """
        import jax
        from jax.experimental import topologies

        if plugin := self.gpu_plugin:
            module: Any = importlib.import_module(f"jax_plugins.{plugin}")
            # This check asks the driver, which is absent, for the versions of CUDA's libraries.
            module._check_cuda_versions = lambda *_, **__: None
            machines, gpus = -(-self.size // self.chip.host), min(self.chip.host, self.size)
            absent_gpus = topologies.get_topology_desc(
                platform="cuda",
                topology_name=self.chip.name,
                topology=f"1x{machines}x{gpus}",
                target_config=_GPU_TARGETS[self.chip.name].read_text(encoding="utf-8"),
            )
            return list(absent_gpus.devices)[: self.size]
        if not self.is_tpu:
            jax.config.update("jax_num_cpu_devices", self.size)
            return jax.devices("cpu")
        more: dict[str, Any] = {}
        if self.chip.name == "v4":
            # Make each chip one device, as JAX does on Cloud TPU. By default its two cores would be
            # devices, each with half of the memory.
            more["chip_config_name"] = "megacore"
        if math.prod(self.shape) == 1:  # libtpu assumes 2x2 chips per host
            more["chips_per_host_bounds"] = (1, 1, 1)
        if self.slices > 1:
            more["num_slices"] = self.slices
        name = f"{self.chip.name}:{'x'.join(map(str, self.shape))}"
        try:
            devices = topologies.get_topology_desc(name, "tpu", **more).devices
        except jax.errors.JaxRuntimeError as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(
                f"--topology={self.name}: libtpu has no such topology ({reason})."
                f"{did_you_mean(name, _EXAMPLES)}"
            ) from None
        return list(devices)

    def bandwidth(self, mesh: Any, axes: Sequence[str]) -> float | None:
        """Returns the bytes per second that a device can send along these mesh axes.

        None = not known.
        """
        from faith_jax.models.partitioning import SLICE_AXIS

        link = self.chip.link
        if link is None or (self.slices > 1 and SLICE_AXIS in axes):
            return self.chip.between
        index = tuple(slice(None) if name in axes else 0 for name in mesh.axis_names)
        group = mesh.devices[index].reshape(-1).tolist()
        if not self.is_tpu:
            machines = {device.id // self.chip.host for device in group}
            return link if len(machines) == 1 else self.chip.between
        total = 0.0
        for dimension, side in enumerate(self.shape):
            places = {device.coords[dimension] for device in group}
            if len(places) > 1:
                is_ring = len(places) == side and side % self.chip.wraps == 0
                total += 2 * link if is_ring else link
        return total


def _has_plugin(name: str) -> bool:
    try:
        return importlib.util.find_spec(f"jax_plugins.{name}") is not None
    except ModuleNotFoundError:  # no plugin is installed
        return False


def partition_counts(devices: int, slices: int, rows: int) -> list[int]:
    """Returns the numbers of partitions that divide the devices and evenly split a batch's rows.

    >>> partition_counts(64, 1, 16), partition_counts(8, 2, 2)
    ([4, 8, 16, 32, 64], [4])
    """
    per_slice = devices // slices
    return [n for n in range(1, per_slice + 1) if per_slice % n == 0 and rows % (devices // n) == 0]


def parse_topology(name: str) -> Topology:
    """Returns the topology of a name such as "v4:4x4x4", "v5e:4x4", "2xv5e:16x16" or "h100:8".

    Raises:
      ConfigError: the name is unknown; the message suggests the nearest ones.
    """
    match = _NAME.fullmatch(name.strip().lower())
    kind = match["kind"] if match else ""
    chip = CHIPS.get(kind)
    if match is None or chip is None:
        raise ConfigError(_explain_unknown_topology(name))
    shape, slices = tuple(map(int, match["sizes"].split("x"))), int(match["slices"] or 1)
    topology = Topology(match[0], chip, shape, slices)
    if len(shape) != (chip.axes or 1) or not 1 <= topology.size <= _MOST_DEVICES:
        raise ConfigError(_explain_unknown_topology(name))
    if slices > 1 and not topology.is_tpu:
        raise ConfigError(f"--topology={name}: only TPUs have slices; give {kind}:{topology.size}.")
    return topology


def _explain_unknown_topology(name: str) -> str:
    kind = name.lower().partition(":")[0].rpartition("x")[2]
    examples = [example for example in _EXAMPLES if example.startswith(f"{kind}:")] or _EXAMPLES
    return (
        f"--topology={name}: there is no such topology.{did_you_mean(name.lower(), examples)} "
        f"Expected KIND:SIZES with KIND one of {', '.join(CHIPS)}: a TPU's chips as a torus, such "
        "as v4:4x4x4 or v5e:4x4, two slices of them as 2xv4:4x4x4, or a number of GPUs or CPUs, "
        "such as h100:8."
    )


def check_libtpu(topology: Topology) -> None:
    """Raises ConfigError if libtpu is needed and not installed."""
    if topology.is_tpu and importlib.util.find_spec("libtpu") is None:
        raise ConfigError(
            f"--topology={topology.name}: compiling for TPUs needs libtpu, which is not installed: "
            'pip install "faith_jax[tpu-plan]".'
        )
