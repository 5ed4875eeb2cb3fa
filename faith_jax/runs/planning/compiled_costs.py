"""What a compiled program costs on one device: memory, work, and the time of a roofline."""

import math
import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax

from faith_jax.core.types import PyTree
from faith_jax.runs.planning.hlo import ProgramWork, Work, program_work
from faith_jax.runs.planning.programs import Program
from faith_jax.runs.planning.topologies import Topology

Report = dict[str, Any]
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
# How XLA says that a program needs more memory than there is; the first number is what it needs.
_TOO_LARGE = re.compile(r"required[^(]*\(([\d.]+)([KMGTP]?)\) exceeds available")
_USED = re.compile(r"Used ([\d.]+)([KMGTP]?) of [\d.]+[KMGTP]? hbm")


def cost_report(program: Program, topology: Topology) -> Report:
    """Compiles a program and returns its settings, memory, work and roofline as JSON has them.

    All figures are of one device. Where the arguments alone do not fit, nothing is compiled.

    Returns:
      `topology`, `devices`, the `compiler` ("CPU" in place of a GPU's), `job`, `settings`, `mesh`
      (devices by axis), `fits`, `memory` (see `memory_report`) and, where it was compiled,
      `compile_seconds` and `work`: by part of the program (`step` of training; `prefill`,
      `decode_step` and `batch` of decoding; `batch` of scores and salience maps) what `work_report`
      returns.
    """
    mesh = program.partitioner.mesh
    found: Report = {
        "topology": topology.name,
        "devices": topology.size,
        "compiler": "libtpu" if topology.is_tpu else "CPU",
        "job": program.job,
        "settings": dict(program.settings),
        "mesh": dict(mesh.shape),
    }
    arguments = {name: device_bytes(tree) for name, tree in program.arguments.items()}
    available = topology.chip.memory
    needed = sum(arguments.values())
    if available is not None and needed > available:
        return found | {"fits": False, "memory": memory_report(arguments, None, available)}
    start = time.monotonic()
    try:
        compiled = program.compile()
    except jax.errors.JaxRuntimeError as error:
        total = too_large(str(error))
        if total is None:
            raise
        memory = memory_report(arguments, None, available, total)
        return found | {"fits": False, "memory": memory}
    seconds = time.monotonic() - start
    memory = memory_report(arguments, compiled.memory_analysis(), available)
    work = program_work(compiled.as_text(), mesh.shape)
    parts = {name: work_report(part, topology, mesh) for name, part in parts_of(program, work)}
    fits = available is None or memory["total"] <= available
    return found | {"fits": fits, "memory": memory, "compile_seconds": seconds, "work": parts}


def parts_of(program: Program, work: ProgramWork) -> list[tuple[str, Work]]:
    """Returns the parts of a program by name; the last one is the whole, as the run calls it."""
    whole = work.once + work.turn * program.loops
    if program.job != "infer":
        return [("step" if program.job == "train" else "batch", whole)]
    return [("prefill", work.once), ("decode_step", work.turn), ("batch", whole)]


def device_bytes(tree: PyTree) -> int:
    """Returns the bytes of arrays on one device, from their shapes and shardings."""

    def size(leaf: Any) -> int:
        shape = leaf.sharding.shard_shape(leaf.shape) if leaf.sharding else leaf.shape
        return math.prod(shape) * leaf.dtype.itemsize

    return sum(map(size, jax.tree.leaves(tree)))


def memory_report(
    arguments: Mapping[str, int], analysis: Any, available: float | None, total: int | None = None
) -> Report:
    """Returns the bytes on one device.

    Args:
      arguments: by what they are, without padding.
      analysis: JAX's `memory_analysis`; None = the program was not compiled.
      available: for programs; None = not known.
      total: what XLA says it needs, where that was too much.

    Returns:
      `arguments` (by what they are; `padding`, of the hardware's tiles, is the rest of them),
      `outputs` (without those that reuse the memory of arguments), `temporaries`, `program`,
      `total`, `available`, `free` and `free_share` (below 0 where they do not fit).
    """
    parts: Report = dict(arguments)
    found: Report = {"arguments": parts}
    if analysis is not None:
        parts["padding"] = max(0, analysis.argument_size_in_bytes - sum(arguments.values()))
        found["outputs"] = max(0, analysis.output_size_in_bytes - analysis.alias_size_in_bytes)
        found["temporaries"] = analysis.temp_size_in_bytes
        found["program"] = analysis.generated_code_size_in_bytes
        # A run does not pass what its program does not use.
        total = analysis.argument_size_in_bytes
        total += sum(found[name] for name in ("outputs", "temporaries", "program"))
    elif total is not None:
        found["temporaries"] = max(0, total - sum(arguments.values()))
    found["total"] = sum(arguments.values()) if total is None else total
    found["is_whole"] = total is not None
    if available is not None:
        found["available"] = int(available)
        found["free"] = int(available) - found["total"]
        found["free_share"] = found["free"] / available
    return found


def too_large(message: str) -> int | None:
    """Returns the bytes that XLA says a program needs, if this is why it was not compiled."""
    found = _USED.search(message) or _TOO_LARGE.search(message)
    return int(float(found[1]) * _UNITS[found[2]]) if found else None


class Roofline(NamedTuple):
    """The time that a device needs at least: seconds, and what takes the longest.

    Attributes:
      compute: at the peak of matrix products.
      memory: at the bandwidth of its memory.
      network: at the bandwidth of its links, of each axis after the other.
    """

    compute: float
    memory: float
    network: float

    @property
    def seconds(self) -> float:
        """If all three go on at once."""
        return max(self)

    @property
    def bottleneck(self) -> str:
        """The name of the longest."""
        return max(self._asdict().items(), key=lambda item: item[1])[0]


def roofline(work: Work, topology: Topology, mesh: Any) -> Roofline | None:
    """Returns the roofline of work on a device; None where the chip is not known."""
    chip = topology.chip
    if chip.operations is None or chip.bandwidth is None:
        return None
    network = sum(
        traffic.sent / (topology.bandwidth(mesh, axes) or math.inf)
        for (_, axes), traffic in work.collectives.items()
    )
    return Roofline(work.operations / chip.operations, work.bytes / chip.bandwidth, network)


def work_report(work: Work, topology: Topology, mesh: Any) -> Report:
    """Returns work as JSON has it.

    Returns:
      `operations` (FLOPs), `bytes_moved`, `collectives` (a list: `kind`, `axes` such as "model" or
      "data+model", `count`, `bytes`, `sent_bytes`) and `roofline` (`compute_seconds`,
      `memory_seconds`, `network_seconds`, `seconds`, `bottleneck`), where the chip is known.
    """
    found: Report = {
        "operations": work.operations,
        "bytes_moved": work.bytes,
        "collectives": [
            {
                "kind": kind,
                "axes": "+".join(axes),
                "count": traffic.count,
                "bytes": traffic.bytes,
                "sent_bytes": traffic.sent,
            }
            for (kind, axes), traffic in sorted(work.collectives.items())
        ],
    }
    if (line := roofline(work, topology, mesh)) is not None:
        found["roofline"] = {f"{name}_seconds": value for name, value in line._asdict().items()}
        found["roofline"] |= {"seconds": line.seconds, "bottleneck": line.bottleneck}
    return found
