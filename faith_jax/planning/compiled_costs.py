"""Costs of a compiled program on one device: memory, work, and roofline time."""

import math
import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax

from faith_jax.planning.hlo import Work, program_work
from faith_jax.planning.programs import Program, RunPrograms
from faith_jax.planning.topologies import Topology

Report = dict[str, Any]
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
# XLA's messages about too little memory; the first number is the memory that the program needs.
_TOO_LARGE = re.compile(r"required[^(]*\(([\d.]+)([KMGTP]?)\) exceeds available")
_USED = re.compile(r"Used ([\d.]+)([KMGTP]?) of [\d.]+[KMGTP]? hbm")


def cost_report(job: RunPrograms, topology: Topology, evaluations: bool = True) -> Report:
    """Compiles a run's programs, and returns their costs as a JSON object.

    All figures are per device. A program whose arguments alone do not fit is not compiled.

    Returns:
      `topology`, `devices`, the `compiler` ("CPU" if it stands in for a GPU's), `job`, `settings`,
      `mesh` (devices by axis), the keys of `program_report`, and, if asked for, `evaluations`: a
      `program_report` by name. `fits` and `free_share` are of the program that needs the most.
    """
    report: Report = {
        "topology": topology.name,
        "devices": topology.size,
        "compiler": "CPU" if topology.compilers() == ("jaxlib",) else topology.compilers()[0],
        "job": job.name,
        "settings": dict(job.settings),
        "mesh": dict(job.partitioner.mesh.shape),
    }
    report.update(program_report(job.program, topology, job.partitioner.mesh))
    if evaluations:
        report["evaluations"] = {
            name: program_report(program, topology, job.partitioner.mesh)
            for name, program in job.evaluations.items()
        }
        for evaluation in report["evaluations"].values():
            report["fits"] &= evaluation["fits"]
            if "free_share" in evaluation:
                report["free_share"] = min(report["free_share"], evaluation["free_share"])
    return report


def program_report(program: Program, topology: Topology, mesh: Any) -> Report:
    """Compiles a program and returns its memory, work and roofline.

    Returns:
      `fits`, `free_share`, `memory` (see `memory_report`) and, if it was compiled,
      `compile_seconds` and `work`: a `work_report` for each of the program's parts, of which the
      last is the whole program.
    """
    arguments = {  # bytes on one device, from shapes and shardings
        name: sum(
            math.prod(leaf.sharding.shard_shape(leaf.shape) if leaf.sharding else leaf.shape)
            * leaf.dtype.itemsize
            for leaf in jax.tree.leaves(tree)
        )
        for name, tree in program.arguments.items()
    }
    beside = sum(arguments[name] for name in program.beside)
    available = topology.chip.memory
    needed = sum(arguments.values())
    report: Report = {}
    if available is not None and needed > available:
        memory = memory_report(arguments, None, available)
    else:
        start = time.monotonic()
        try:
            compiled = program.compile()
        except jax.errors.JaxRuntimeError as error:
            total = too_large(str(error))
            if total is None:
                raise
            memory = memory_report(arguments, None, available, total + beside)
        else:
            report["compile_seconds"] = time.monotonic() - start
            memory = memory_report(arguments, compiled.memory_analysis(), available, beside=beside)
            once, turn = program_work(compiled.as_text(), mesh.shape)
            works = (once, turn, once + turn * program.loops)[-len(program.parts) :]
            report["work"] = {
                name: work_report(work, topology, mesh)
                for name, work in zip(program.parts, works, strict=True)
            }
    if available is not None:
        report["free_share"] = memory["free_share"]
    return {"fits": available is None or memory["free"] >= 0, "memory": memory, **report}


def memory_report(
    arguments: Mapping[str, int],
    analysis: Any,
    available: float | None,
    total: int | None = None,
    beside: int = 0,
) -> Report:
    """Returns the bytes on one device.

    Args:
      arguments: bytes by kind, without padding.
      analysis: JAX's `memory_analysis`; None = the program was not compiled.
      available: bytes that programs can use; None = not known.
      total: the bytes that XLA says the program needs, if they were too many.
      beside: bytes of the arguments that are not passed to the program.

    Returns:
      `arguments` (by kind, and `padding` to the hardware's tiles), `outputs` (without outputs that
      reuse the memory of arguments), `temporaries`, `program`, `total`, `is_whole` (False = `total`
      is of arguments alone), `available`, `free` and `free_share` (below 0 if it does not fit).
    """
    parts: Report = dict(arguments)
    report: Report = {"arguments": parts}
    if analysis is not None:
        passed = sum(arguments.values()) - beside
        parts["padding"] = max(0, analysis.argument_size_in_bytes - passed)
        report["outputs"] = max(0, analysis.output_size_in_bytes - analysis.alias_size_in_bytes)
        report["temporaries"] = analysis.temp_size_in_bytes
        report["program"] = analysis.generated_code_size_in_bytes
        # A run does not pass arguments that its program does not use.
        total = beside + analysis.argument_size_in_bytes
        total += sum(report[name] for name in ("outputs", "temporaries", "program"))
    elif total is not None:
        report["temporaries"] = max(0, total - sum(arguments.values()))
    report["total"] = sum(arguments.values()) if total is None else total
    report["is_whole"] = total is not None
    if available is not None:
        report["available"] = int(available)
        report["free"] = int(available) - report["total"]
        report["free_share"] = report["free"] / available
    return report


def too_large(message: str) -> int | None:
    """Returns the bytes that a program needs if XLA's error is about memory, else None."""
    match = _USED.search(message) or _TOO_LARGE.search(message)
    return int(float(match[1]) * _UNITS[match[2]]) if match else None


class Roofline(NamedTuple):
    """The least time in seconds that a device needs for each kind of work.

    Attributes:
      compute: at the peak rate of matrix products.
      memory: at the bandwidth of the main memory.
      network: at the bandwidth of the links, one axis after the other; axes of unknown bandwidth
        are left out.
    """

    compute: float
    memory: float
    network: float

    @property
    def seconds(self) -> float:
        """The time if all three overlap fully."""
        return max(self)

    @property
    def bottleneck(self) -> str:
        """The name of the part that takes longest."""
        return max(self._asdict().items(), key=lambda item: item[1])[0]


def roofline(work: Work, topology: Topology, mesh: Any) -> Roofline | None:
    """Returns the roofline of work on a device; None if the chip's speed is not known."""
    chip = topology.chip
    if chip.operations is None or chip.bandwidth is None:
        return None
    network = 0.0
    for (_, axes), traffic in work.collectives.items():
        if speed := topology.bandwidth(mesh, axes):
            network += traffic.sent / speed
    return Roofline(work.operations / chip.operations, work.bytes / chip.bandwidth, network)


def work_report(work: Work, topology: Topology, mesh: Any) -> Report:
    """Returns work as a JSON object.

    Returns:
      `operations` (FLOPs), `bytes_moved`, `collectives` (a list: `kind`, `axes` such as "model" or
      "data+model", `count`, `bytes`, `sent_bytes`, `bytes_per_second` of the links, None = not
      known) and, for a known chip, `roofline` (`compute_seconds`, `memory_seconds`,
      `network_seconds`, `seconds`, `bottleneck`).
    """
    report: Report = {
        "operations": work.operations,
        "bytes_moved": work.bytes,
        "collectives": [
            {
                "kind": kind,
                "axes": "+".join(axes),
                "count": traffic.count,
                "bytes": traffic.bytes,
                "sent_bytes": traffic.sent,
                "bytes_per_second": topology.bandwidth(mesh, axes),
            }
            for (kind, axes), traffic in sorted(work.collectives.items())
        ],
    }
    if (line := roofline(work, topology, mesh)) is not None:
        report["roofline"] = {f"{name}_seconds": value for name, value in line._asdict().items()}
        report["roofline"] |= {"seconds": line.seconds, "bottleneck": line.bottleneck}
    return report
