import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.inference.batching import Batcher, fill_batches, pad_rows, padded_length
from tests.paths import REPOSITORY


def test_lengths_above_a_ladder_grow_by_halves():
    assert [padded_length(n, (4, 8)) for n in (1, 4, 5, 8, 9, 12, 13, 17, 25)] == [
        4, 4, 8, 8, 12, 12, 16, 24, 32,
    ]  # fmt: skip


_SHAPES = [(0, 32), (0, 64), (64, 64), (128, 64), (64, 512)]


@given(st.dictionaries(st.sampled_from(_SHAPES), st.integers(1, 40)), st.integers(1, 2000))
def test_rows_fill_up_the_batches_of_longer_shapes(counts, tokens):
    def size(shape):
        return max(1, tokens // sum(shape))

    def batches(rows):
        return sum(-(-len(numbers) // size(shape)) for shape, numbers in rows.items())

    shape_of, rows = [], {}
    for shape, count in counts.items():
        rows[shape] = list(range(len(shape_of), len(shape_of) + count))
        shape_of += [shape] * count
    filled = fill_batches(rows, size)
    assert sorted(n for numbers in filled.values() for n in numbers) == list(range(len(shape_of)))
    assert set(filled) <= set(rows)
    assert batches(filled) <= batches(rows)
    for shape, numbers in filled.items():
        for number in numbers:
            assert all(a <= b for a, b in zip(shape_of[number], shape, strict=True))


def test_three_rows_find_room_in_the_next_batch():
    rows = {(0, 32): [0, 1, 2], (0, 64): [3, 4, 5, 6, 7]}
    assert fill_batches(rows, lambda shape: 256 // shape[1]) == {(0, 64): [3, 4, 5, 6, 7, 0, 1, 2]}


def test_batches_have_one_size_a_shape_which_the_devices_share():
    shapes = [(0, 32)] * 5 + [(0, 16)]
    batcher = Batcher("row", tokens_per_batch=100, multiple_of=2)
    batches = list(batcher.batches(shapes))
    assert [(batch.shape, batch.size, batch.rows) for batch in batches] == [
        ((0, 32), 2, [0, 1]),
        ((0, 32), 2, [2, 3]),
        ((0, 32), 2, [4, 5]),
    ]
    assert batcher.num_shapes == 1
    kept = Batcher("row", tokens_per_batch=100, fill=False)
    assert [batch.rows for batch in kept.batches(shapes)] == [[5], [0, 1, 2], [3, 4]]
    assert [b.size for b in kept.batches(shapes, lambda shape: 2)] == [2, 2, 2, 2]


def test_rows_are_filled_up_on_the_right():
    tokens = pad_rows([[1, 2], [3]], 4, -1, 3)
    assert tokens.tolist() == [[1, 2, -1, -1], [3, -1, -1, -1], [-1] * 4]
    assert tokens.dtype == np.int32


def test_whoever_pads_rows_to_a_ladder_takes_them_from_the_batcher_or_the_packer():
    padding = {
        path.name: path.read_text("utf-8")
        for path in (REPOSITORY / "faith_jax").rglob("*.py")
        if path.name not in ("batching.py", "packing.py")
        and path.parent.name != "planning"  # it has shapes alone, no rows
        and "padded_length(" in path.read_text("utf-8")
    }
    assert "row_likelihoods.py" in padding
    for name, text in padding.items():
        assert "Batcher(" in text or "Packer(" in text or "PackedEngine" in text, name
