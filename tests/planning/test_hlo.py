import re

import jax
import jax.numpy as jnp
import pytest

from faith_jax.planning.hlo import program_work

MESH = {"data": 2, "model": 4}


def module(body, computations="", parameters="a: f32[8,16]"):
    return f"""HloModule test, is_scheduled=true

{computations}
ENTRY %main ({parameters}) -> f32[8,16] {{
{body}
}}
"""


ADD = """%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}
"""
COLLECTIVE = """  %a = f32[8,16]{{1,0}} parameter(0)
  ROOT %r = {shape} {kind}(%a), channel_id=1, {groups}, use_global_device_ids=true"""


@pytest.mark.parametrize(
    ("kind", "shape", "groups", "axes", "made", "sent"),
    [
        # 8 x 16 float32 are 512 bytes.
        ("all-reduce", "f32[8,16]", "replica_groups={{0,1,2,3},{4,5,6,7}}", "model", 512, 768),
        ("all-reduce", "f32[8,16]", "replica_groups=[2,4]<=[8]", "model", 512, 768),
        ("all-reduce", "f32[8,16]", "replica_groups=[4,2]<=[2,4]T(1,0)", "data", 512, 512),
        ("all-reduce", "f32[8,16]", "replica_groups={}", "data+model", 512, 896),
        ("all-gather", "f32[8,64]", "replica_groups=[2,4]<=[8]", "model", 2048, 1536),
        ("reduce-scatter", "f32[2,16]", "replica_groups=[2,4]<=[8]", "model", 512, 384),
        ("all-to-all", "f32[8,16]", "replica_groups=[4,2]<=[2,4]T(1,0)", "data", 512, 256),
        (
            "all-reduce",
            "f32[8,16]",
            "replica_groups=mesh['axis_0'=2,'axis_1'=1,'axis_2'=4] {'axis_2'}",
            "model",
            512,
            768,
        ),
        (
            "all-reduce",
            "f32[8,16]",
            "replica_groups=mesh['axis_0'=2,'axis_1'=4] {'axis_1':(1)2}",
            "model",
            512,
            512,
        ),
        (
            "collective-permute",
            "f32[8,16]",
            "source_target_pairs={{0,4},{1,5},{4,0},{5,1}}",
            "data",
            512,
            512,
        ),
    ],
)  # fmt: skip
def test_what_a_device_sends_over_which_axis(kind, shape, groups, axes, made, sent):
    text = module(COLLECTIVE.format(kind=kind, shape=shape, groups=groups))
    once, turn = program_work(text, MESH)
    ((operation, names), traffic), *more = once.collectives.items()
    assert not more
    assert not turn.collectives
    assert (operation, "+".join(names)) == (kind, axes)
    assert (traffic.count, traffic.bytes, traffic.sent) == (1, made, sent)
    # What is received is written to memory, and what is sent is read.
    assert once.bytes == 512 + 4 * eval(re.search(r"\[(.*)\]", shape)[1].replace(",", "*"))


def test_a_started_collective_counts_once():
    text = module(
        """  %a = f32[8,16]{1,0} parameter(0)
  %s = (f32[8,16], f32[8,64]) all-gather-start(%a), replica_groups=[2,4]<=[8], dimensions={1}
  ROOT %r = f32[8,64] all-gather-done(%s)"""
    )
    once, _ = program_work(text, MESH)
    ((kind, traffic),) = once.collectives.items()
    assert kind == ("all-gather", ("model",))
    assert (traffic.count, traffic.sent) == (1, 1536)
    assert once.bytes == 512 + 2048


LOOP = """%body (s: (s32[], f32[8,16])) -> (s32[], f32[8,16]) {
  %s = (s32[], f32[8,16]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %x = f32[8,16] get-tuple-element(%s), index=1
  %y = f32[8,16] all-reduce(%x), replica_groups=[2,4]<=[8], to_apply=%add
  %step = s32[] constant(STEP)
  %next = s32[] add(%i, %step)
  ROOT %t = (s32[], f32[8,16]) tuple(%next, %y)
}

%condition (s: (s32[], f32[8,16])) -> pred[] {
  %limit = s32[] constant(7)
  %s = (s32[], f32[8,16]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  CONDITION
}
"""
ENTRY = """  %a = f32[8,16]{1,0} parameter(0)
  %zero = s32[] constant(START)
  %t = (s32[], f32[8,16]) tuple(%zero, %a)
  %w = (s32[], f32[8,16]) while(%t), condition=%condition, body=%bodyKNOWN
  ROOT %r = f32[8,16] get-tuple-element(%w), index=1"""
COUNTS = "ROOT %lt = pred[] compare(%i, %limit), direction=LT"
DEPENDS = """%lt = pred[] compare(%i, %limit), direction=LT
  %more = pred[] parameter(1)
  ROOT %and = pred[] and(%lt, %more)"""
KNOWN = ', backend_config={"known_trip_count":{"n":"5"}}'


@pytest.mark.parametrize(
    ("condition", "start", "step", "known", "once", "turn"),
    [
        (COUNTS, 0, 1, "", 7, 0),
        (COUNTS, 3, 1, "", 4, 0),
        (COUNTS, 0, 2, "", 4, 0),  # 0, 2, 4 and 6
        (DEPENDS, 0, 1, KNOWN, 5, 0),
        (DEPENDS, 0, 1, "", 0, 1),
    ],
)
def test_a_loop_counts_as_often_as_it_runs(condition, start, step, known, once, turn):
    body = ENTRY.replace("START", str(start)).replace("KNOWN", known)
    loop = LOOP.replace("CONDITION", condition).replace("STEP", str(step))
    loop_work = program_work(module(body, ADD + loop), MESH)
    counts = [
        sum(traffic.count for traffic in work.collectives.values())
        for work in (loop_work.once, loop_work.turn)
    ]
    assert counts == [once, turn]
    assert loop_work.once.bytes == (1024 + 12) * once  # the counter is added up in memory
    assert loop_work.turn.bytes == (1024 + 12) * turn


def test_a_fusion_reads_only_the_slices_that_it_takes():
    fused = """%fused (p: f32[24,8,16], i: s32[], q: f32[24,8,16]) -> f32[24,8,16] {
  %p = f32[24,8,16] parameter(0)
  %i = s32[] parameter(1)
  %q = f32[24,8,16] parameter(2)
  %z = s32[] constant(0)
  %d = f32[1,8,16] dynamic-slice(%p, %i, %z, %z), dynamic_slice_sizes={1,8,16}
  %n = f32[1,8,16] negate(%d)
  ROOT %u = f32[24,8,16] dynamic-update-slice(%q, %n, %i, %z, %z)
}
"""
    text = module(
        """  %a = f32[24,8,16]{2,1,0} parameter(0)
  %i = s32[] parameter(1)
  %b = f32[24,8,16]{2,1,0} parameter(2)
  ROOT %f = f32[24,8,16]{2,1,0} fusion(%a, %i, %b), kind=kLoop, calls=%fused""",
        fused,
    )
    assert program_work(text, MESH).once.bytes == 512 + 4 + 512  # slice, index, update


def test_a_scatter_in_place_moves_only_its_updates():
    # 2 of 64 rows of a cache are written.
    scatter = """scatter(%p, %i, %q), update_window_dims={1}, inserted_window_dims={0},
      scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%add""".replace("\n", "")
    operands = """  %p = f32[64,16] parameter(0)
  %i = s32[2,1] parameter(1)
  %q = f32[2,16] parameter(2)
"""
    fused = f"""%fused (p: f32[64,16], i: s32[2,1], q: f32[2,16]) -> f32[64,16] {{
{operands}  ROOT %u = f32[64,16] {scatter}
}}
"""
    fusion = "fusion(%p, %i, %q), kind=kInput, calls=%fused"
    text = module(f"{operands}  ROOT %f = f32[64,16] {fusion}", ADD + fused)
    assert program_work(text, MESH).once.bytes == 8 + 128 + 128  # indices, updates, what is written
    text = module(f"{operands}  ROOT %f = f32[64,16] {scatter}", ADD)
    assert program_work(text, MESH).once.bytes == 128 + 128


def test_what_lies_in_a_faster_memory_moves_nothing():
    text = module(
        """  %a = f32[8,16]{1,0:T(8,128)} parameter(0)
  %c = f32[8,16]{1,0:T(8,128)S(1)} copy(%a)
  %n = f32[8,16]{1,0:T(8,128)S(1)} negate(%c)
  ROOT %r = f32[8,16]{1,0:T(8,128)} negate(%n)"""
    )
    assert program_work(text, MESH).once.bytes == 512 + 512  # read once, written once


@pytest.mark.parametrize(
    ("shapes", "attributes", "operations"),
    [
        # [4, 10, 6] x [6, 8], as TPUs have it.
        (("4,10,6", "6,8,1", "4,10,8"), "window={size=1}, dim_labels=0bf_io0->0bf", 4 * 10 * 6 * 8),
        # A batch of 5 products [7, 3] x [3, 2]: the window's dilation selects the same batch.
        (
            ("5,7,3", "5,3,2", "5,7,2"),
            "window={size=5 stride=4 lhs_dilate=5}, dim_labels=0bf_0io->0bf",
            5 * 7 * 3 * 2,
        ),
        # 9 places, a kernel of 3 with padding: 3 of each but 2 at both ends.
        (
            ("9,1,1", "3,1,1", "9,1,1"),
            "window={size=3 pad=1_1}, dim_labels=0bf_0io->0bf",
            7 * 3 + 2 * 2,
        ),
    ],
)
def test_operations_of_a_convolution(shapes, attributes, operations):
    left, right, result = shapes
    text = module(
        f"""  %a = bf16[{left}] parameter(0)
  %b = bf16[{right}] parameter(1)
  ROOT %c = bf16[{result}] convolution(%a, %b), {attributes}"""
    )
    assert program_work(text, MESH).once.operations == 2 * operations


def test_a_product_of_cublas():
    body = """  %a = f32[8,16]{1,0} parameter(0)
  %product = (f32[8,4]{1,0}, s8[33554432]{0}) custom-call(%a, %b), custom_call_target="__cublas$gemm", backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}
  ROOT %r = f32[8,4]{1,0} get-tuple-element(%product), index=0"""  # noqa: E501
    body = body.replace("  %product", "  %b = f32[16,4]{1,0} parameter(1)\n  %product")
    once, _ = program_work(module(body, parameters="a: f32[8,16], b: f32[16,4]"), {"data": 1})
    assert once.operations == 2 * 8 * 16 * 4
    # The room that it works in is not moved.
    assert once.bytes == 4 * (8 * 16 + 16 * 4 + 8 * 4)


def test_products_agree_with_xla_and_scanned_layers_with_unrolled_ones():
    def layers(x, kernels, unroll):
        def layer(x, kernel):
            return jnp.tanh(x @ kernel), None

        return jax.lax.scan(layer, x, kernels, unroll=unroll)[0]

    shapes = (
        jax.ShapeDtypeStruct((32, 64), "float32"),
        jax.ShapeDtypeStruct((6, 64, 64), "float32"),
    )
    operations = {}
    for unroll in (1, 6):
        compiled = jax.jit(layers, static_argnums=2).lower(*shapes, unroll).compile()
        work = program_work(compiled.as_text(), {"data": 1, "model": 1})
        operations[unroll] = work.once.operations
        assert work.turn.operations == 0
        if unroll == 6:  # XLA counts additions and such too
            assert 1.0 <= compiled.cost_analysis()["flops"] / operations[6] < 1.1
    assert operations == {1: 2 * 6 * 32 * 64 * 64, 6: 2 * 6 * 32 * 64 * 64}


def test_bytes_of_a_plain_program_are_xlas():
    def function(x, y):
        return jnp.sin(x) @ y

    shapes = [jax.ShapeDtypeStruct((128, 128), "float32")] * 2
    compiled = jax.jit(function).lower(*shapes).compile()
    num_bytes = program_work(compiled.as_text(), {"data": 1}).once.bytes
    assert num_bytes == compiled.cost_analysis()["bytes accessed"]


def test_of_loops_in_a_row_the_one_that_does_most_counts():
    """Such as of a decoding whose cache grows: its turns are shared out among the loops."""
    body = ENTRY.replace("START", "0").replace("KNOWN", "")
    second = "  %w2 = (s32[], f32[8,16]) while(%w), condition=%condition, body=%body\n"
    loop = ADD + LOOP.replace("CONDITION", DEPENDS).replace("STEP", "1")
    work = program_work(module(body, loop), MESH)
    two = program_work(module(body.replace("  ROOT", second + "  ROOT"), loop), MESH)
    assert two == work
    assert work.turn.bytes > 0
