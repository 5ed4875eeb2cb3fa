import itertools
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core.settings import sharing_programs
from faith_jax.inference import packing
from faith_jax.inference.packing import (
    LINE_LENGTHS,
    MOST_SHAPES,
    BlockShape,
    CompiledShapes,
    Group,
    Packer,
    _best_lengths,
    _even_size,
    _lines_by_length,
    attention_share,
    fill_blocks,
    fill_lines,
    pack_blocks,
    split_groups,
)
from tests.models import tiny


@st.composite
def many_groups(draw, longest=200):
    """Groups of numbered rows."""
    sizes = draw(
        st.lists(
            st.tuples(
                st.integers(1, longest), st.lists(st.integers(0, longest), min_size=1, max_size=9)
            ),
            min_size=1,
            max_size=12,
        )
    )
    groups, number = [], 0
    for shared, lengths in sizes:
        groups.append(Group(shared, [(n, number + i) for i, n in enumerate(lengths)]))
        number += len(lengths)
    return groups


def rows_of(groups):
    return {number: (group.shared, length) for group in groups for length, number in group.rows}


def check_line(line, rows, length):
    """A line holds its inputs and rows, and only rows of the input that they have."""
    used = 0
    for placed in line:
        assert placed.rows
        assert {rows[number][0] for _, number in placed.rows} == {placed.shared}
        used += placed.shared + sum(rows[number][1] for _, number in placed.rows)
    assert used <= length
    return used


@given(many_groups(), st.integers(400, 900))
def test_each_row_is_in_one_line_with_its_input(groups, length):
    rows = rows_of(groups)
    lines = fill_lines(groups, length)
    numbers = [n for _, line in lines for placed in line for _, n in placed.rows]
    assert sorted(numbers) == sorted(rows)
    for used, line in lines:
        assert used == check_line(line, rows, length)
    # Best fit never leaves two lines that fit into one.
    two = sorted(used for used, _ in lines)[:2]
    assert len(two) < 2 or sum(two) > length
    whole = {n for g in groups if g.total <= length for n in [tuple(n for _, n in g.rows)]}
    together = {tuple(sorted(n for _, n in placed.rows)) for _, line in lines for placed in line}
    assert whole <= together


@given(many_groups(), st.integers(200, 2000), st.integers(1, 3), st.integers(1, 5))
def test_each_row_is_in_one_block_with_its_keys(groups, tokens, devices, key_lines):
    groups = [group._replace(rows=[(size + 1, n) for size, n in group.rows]) for group in groups]
    rows = rows_of(groups)
    pieces = split_groups(groups, tokens)
    assert max(piece.unshared for piece in pieces) <= max(
        tokens, *(size for _, size in rows.values())
    )
    lines = [pieces[start : start + 2] for start in range(0, len(pieces), 2)]
    blocks = pack_blocks(lines, 400, key_lines, tokens, devices)
    check_blocks(blocks, rows, devices)
    # A job's shape may be too small for a line, which is then split.
    shape = BlockShape(400, 1, max(size for _, size in rows.values()), 256, 1)
    check_blocks(fill_blocks(lines, shape, devices, devices), rows, devices)


def check_blocks(blocks, rows, devices):
    assert len(blocks) % devices == 0
    shape = blocks[0].shape
    numbers = []
    for block in blocks:
        assert block.shape == shape
        lines = dict.fromkeys(range(shape.lines), 0)
        assert len(block.keys) <= shape.key_lines
        for line in block.keys:
            lengths = [rows[number][1] for placed in line for _, number in placed.rows]
            assert sum(placed.shared for placed in line) <= shape.keys
            assert sum(lengths) <= shape.queries
            for placed in line:
                assert {rows[n][0] for _, n in placed.rows} == {placed.shared}
                for part, number in placed.rows:
                    lines[part] += rows[number][1]
                    numbers.append(number)
        assert max(lines.values()) <= shape.targets
    assert sorted(numbers) == sorted(rows)


def long_tailed(mean, count=512, seed=0):
    """Lengths as texts have them: most are short, some long."""
    lengths = np.random.default_rng(seed).lognormal(np.log(mean), 0.6, count)
    return np.clip(lengths, 8, 512).astype(int).tolist()


@pytest.mark.parametrize("mean", [40, 90, 200])
def test_less_than_5_percent_is_padding(mean):
    groups = [Group(length, [(0, n)]) for n, length in enumerate(long_tailed(mean))]
    packed = Packer(attention_share(tiny.TINY.replace(emb_dim=512, mlp_dim=2048)), 2048).lines(
        groups
    )
    assert len(packed) <= 3
    assert {block.length for block in packed} <= set(LINE_LENGTHS)
    used, slots = sum(group.shared for group in groups), sum(block.slots for block in packed)
    assert 0.95 < used / slots <= 1
    numbers = [
        n for block in packed for line in block.lines for placed in line for _, n in placed.rows
    ]
    assert sorted(numbers) == list(range(len(groups)))


def test_16_texts_to_an_article_rarely_have_it_twice():
    rng = np.random.default_rng(1)
    groups = [
        Group(int(rng.integers(300, 500)), [(int(n), 16 * g + i) for i, n in enumerate(unshared)])
        for g, unshared in enumerate(rng.integers(50, 110, (32, 16)))
    ]
    blocks = pack_blocks([[group] for group in split_groups(groups, 4096)], 512, 8, 4096)
    assert sum(len(line) for block in blocks for line in block.keys) == len(groups)
    shape, unshared = blocks[0].shape, sum(group.unshared for group in groups)
    assert unshared / (len(blocks) * shape.lines * shape.targets) > 0.8
    packed = Packer(0.0, 2048).lines(groups)
    inputs = [placed for packed_block in packed for line in packed_block.lines for placed in line]
    assert len(inputs) == len(groups)


def test_batches_are_full_or_even():
    assert [_even_size(count, 16) for count in (1, 16, 17, 31, 33, 300)] == [2, 16, 10, 16, 12, 16]


def test_devices_share_the_lines_of_a_batch():
    groups = [Group(100, [(0, n)]) for n in range(21)]
    (packed,) = Packer(0.0, 1024, devices=4).lines(groups)
    assert packed.size % 4 == 0
    assert sum(len(lines) for lines in packed.batches()) == len(packed.lines)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(1, 3))
def test_no_other_lengths_pad_less(used, most):
    def cost(length):
        return length * (1 + 0.02 * length)

    def total(lengths):
        return sum(cost(n) * lines for n, lines in _lines_by_length(used, lengths).items())

    with mock.patch.object(packing, "_STEP", 8):
        lengths = _best_lengths(used, most, cost)
    assert len(lengths) <= most
    assert lengths == sorted(lengths)
    all_lengths = range(8, 72, 8)
    length_sets = [
        sizes_tried
        for count in range(1, most + 1)
        for sizes_tried in itertools.combinations(all_lengths, count)
        if sizes_tried[-1] >= max(used)
    ]
    assert total(lengths) == pytest.approx(min(map(total, length_sets)))


@given(st.lists(st.integers(2, 500), min_size=1, max_size=60), st.integers(0, 9))
def test_a_job_has_three_shapes_whatever_rows_come(sample, seed):
    packer = Packer(1e-4, 2048, devices=2)
    packer.choose([Group(n, [(0, 0)]) for n in sample], 500, 64, 1000)
    assert len(packer.sizes) <= MOST_SHAPES
    assert all(size % 2 == 0 for size in packer.sizes.values())
    lengths = np.random.default_rng(seed).integers(1, 501, 80)
    packed = packer.lines([Group(int(n), [(0, i)]) for i, n in enumerate(lengths)])
    assert {(block.length, block.size) for block in packed} <= set(packer.sizes.items())
    rows = [p.rows[0][1] for block in packed for line in block.lines for p in line]
    assert sorted(rows) == list(range(80))
    for block in packed:
        assert max(sum(p.shared for p in line) for line in block.lines) <= block.length
    before = dict(packer.sizes)
    packer.halve()
    assert packer.sizes == {n: max(2, size // 4 * 2) for n, size in before.items()}


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 300))
def test_compiled_shapes_cost_at_most_twice_the_better_habit(calls, compilation):
    """Either one program per shape, or the first large enough program for all calls."""
    shapes, cost, programs = CompiledShapes(compilation), 0, 0
    for size in calls:
        before = len(shapes)
        options = {size: size} | {shape: shape for shape in shapes if shape >= size}
        with sharing_programs():
            shape = shapes.choose(options)
        assert shape in shapes
        assert shape in options
        programs += len(shapes) - before
        cost += shape - size  # the padding
    cost += programs * compilation
    assert cost <= 2 * programs * compilation
    assert programs <= len(set(calls))


def shapes_of(packer, rows):
    groups = [Group(size, [(0, number)]) for number, size in enumerate(rows)]
    with sharing_programs():
        batches = [packer.reuse(packed) for packed in packer.lines(groups)]
    for packed in batches:
        for line in packed.lines:
            assert sum(placed.shared for placed in line) <= packed.length
    return [(packed.length, packed.size) for packed in batches]


def test_shapes_that_are_far_too_large_are_not_used_for_long():
    packer = Packer(0.001, 2048)
    assert shapes_of(packer, [500] * 16) == [(512, 4)]
    # Padding that costs as much as 2,807 tokens once; twice it would cost more than a program.
    calls = [shapes_of(packer, [100]) for _ in range(3)]
    assert calls == [[(512, 4)], [(128, 2)], [(128, 2)]]


def test_elsewhere_than_in_a_service_shapes_depend_on_the_rows_alone():
    """Jobs may be stopped and resumed between any two calls."""
    packer = Packer(0.001, 2048)
    with sharing_programs():
        shapes_of(packer, [500] * 16)
    batches = packer.lines([Group(100, [(0, 0)])])
    assert [packer.reuse(packed) for packed in batches] == batches


def test_rows_that_are_longer_than_the_sample_have_a_shape_too():
    packer = Packer(0.0, 2048)
    packer.choose([Group(n, [(0, 0)]) for n in (60, 100, 128) * 99], 512, 256, 10**6)
    assert max(packer.sizes) == 512
    packed = packer.lines([Group(300, [(0, 0)]), Group(90, [(0, 1)])])
    assert {block.length for block in packed} <= packer.sizes.keys()
