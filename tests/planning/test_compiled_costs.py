from types import SimpleNamespace

import pytest

from faith_jax.planning.compiled_costs import (
    Roofline,
    memory_report,
    program_report,
    roofline,
    too_large,
    work_report,
)
from faith_jax.planning.hlo import Traffic, Work
from faith_jax.planning.programs import Program
from faith_jax.planning.topologies import parse_topology
from tests.planning.test_topologies import torus

ANALYSIS = SimpleNamespace(
    argument_size_in_bytes=120,
    output_size_in_bytes=50,
    alias_size_in_bytes=30,
    temp_size_in_bytes=200,
    generated_code_size_in_bytes=7,
)


def test_memory_adds_up():
    report = memory_report({"parameters": 60, "batch": 40}, ANALYSIS, 1000)
    assert report["arguments"] == {"parameters": 60, "batch": 40, "padding": 20}
    assert (report["outputs"], report["temporaries"], report["program"]) == (20, 200, 7)
    assert report["total"] == 120 + 20 + 200 + 7
    assert (report["free"], report["free_share"], report["is_whole"]) == (653, 0.653, True)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO "
            "temporaries (22.50G) exceeds available HBM (15.25G).",
            int(22.5 * 2**30),
        ),
        (
            "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory "
            "space hbm. Used 40.00G of 30.75G hbm. Exceeded hbm capacity by 9.25G.",
            40 * 2**30,
        ),
        (
            "RESOURCE_EXHAUSTED: required for HLO temporaries (3.12T) exceeds available",
            3.12 * 2**40,
        ),
        ("INTERNAL: something else (3.00G)", None),
    ],
)
def test_what_xla_needs_is_read_from_its_error(message, expected):
    num_bytes = too_large(message)
    assert num_bytes == (expected and int(expected))


def test_the_roofline_is_the_slowest_of_three():
    topology, mesh = parse_topology("v4:4x4x4"), torus((4, 4, 4), (4, 16))
    sent = {
        ("all-reduce", ("model",)): Traffic(1, 1, 200e9),  # 4 links of 50 GB/s
        ("all-gather", ("data",)): Traffic(1, 1, 50e9),  # 2 links
    }
    estimate = roofline(Work(275e12 * 2, 1.228e12 * 3, sent), topology, mesh)
    assert estimate == pytest.approx(Roofline(2.0, 3.0, 1.5))
    assert (estimate.seconds, estimate.bottleneck) == (estimate.memory, "memory")
    assert roofline(Work(1.0, 1.0), parse_topology("cpu:8"), mesh) is None


def leaf(size):
    sharding = SimpleNamespace(shard_shape=lambda shape: shape)
    return SimpleNamespace(shape=(size,), dtype=SimpleNamespace(itemsize=4), sharding=sharding)


def never():
    raise AssertionError


def test_arguments_that_do_not_fit_are_not_compiled():
    program = Program(never, {"parameters": [leaf(2**40)]}, ("step",))
    report = program_report(program, parse_topology("h100:1"), torus((1,), (1, 1)))
    assert not report["fits"]
    assert report["memory"]["total"] == 4 * 2**40
    assert "work" not in report


def test_what_lies_beside_a_program_counts():
    sizes = memory_report({"parameters": 60, "batch": 40, "state": 300}, ANALYSIS, 1000, beside=300)
    assert sizes["arguments"]["padding"] == 20
    assert sizes["total"] == 300 + 120 + 20 + 200 + 7

    class Compiled:
        def memory_analysis(self):
            return ANALYSIS

        def as_text(self):
            return "HloModule test\n\nENTRY %main () -> s32[] {\n  ROOT %c = s32[] constant(1)\n}\n"

    arguments = {"parameters": [leaf(15)], "batch": [leaf(10)], "state": [leaf(75)]}
    program = Program(Compiled, arguments, ("prefill", "decode_step", "batch"), 5, ("state",))
    report = program_report(program, parse_topology("cpu:1"), torus((1,), (1, 1)))
    assert report["memory"]["total"] == sizes["total"]
    assert report["memory"]["arguments"]["state"] == 300
    assert list(report["work"]) == ["prefill", "decode_step", "batch"]


def test_the_speed_between_slices_of_v4_is_not_known():
    mesh = torus((2, 2, 1), (1, 2, 2), axis_names=("slice", "data", "model"))
    sent = {("all-reduce", ("slice",)): Traffic(1, 1, 6.25e9)}
    for kind, seconds in (("v5p", 1.0), ("v4", 0.0)):
        topology = parse_topology(f"2x{kind}:2x2x1")
        assert roofline(Work(collectives=sent), topology, mesh).network == seconds
        (op,) = work_report(Work(collectives=sent), topology, mesh)["collectives"]
        assert op["bytes_per_second"] == (6.25e9 if seconds else None)
