import json

import ml_dtypes
import numpy as np
import pytest
import safetensors
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.checkpoints import tensors
from faith_jax.checkpoints.tensors import read_header, write_tensor_file
from faith_jax.core.errors import CheckpointError

TENSORS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(4, np.float16)}


def written(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def entry(begin, end, shape=(2,)):
    return {"dtype": "F32", "shape": list(shape), "data_offsets": [begin, end]}


def test_tensors_lie_one_behind_the_other(tmp_path):
    write_tensor_file(tmp_path / "whole.safetensors", TENSORS | {"c": np.zeros((0, 3))}, {"k": "v"})
    entries, metadata = read_header(tmp_path / "whole.safetensors")
    assert metadata == {"k": "v"}
    for name, array in TENSORS.items():
        assert np.asarray(entries[name].array).tobytes() == array.tobytes()
    # In any order.
    path = written(tmp_path / "t", {"b": entry(8, 16), "a": entry(0, 8)}, bytes(16))
    assert list(read_header(path)[0]) == ["b", "a"]


@pytest.mark.parametrize(
    ("header", "size", "message"),
    [
        (
            {"a": entry(0, 8), "b": entry(9, 17)},
            17,
            "b begins at byte .* not behind the one before",
        ),
        ({"a": entry(0, 8), "b": entry(4, 12)}, 12, "b begins at byte"),
        ({"a": entry(1, 9)}, 9, "a begins at byte"),
        ({"a": entry(0, 8)}, 9, "bytes, but its tensors end at"),
        ({}, 1, "bytes, but its tensors end at"),
    ],
)
def test_gaps_overlaps_and_more_bytes_are_errors(tmp_path, header, size, message):
    path = written(tmp_path / "t.safetensors", header, bytes(size))
    with pytest.raises(CheckpointError, match=rf"t.safetensors: .*{message}"):
        read_header(path)


@pytest.mark.parametrize("dtype", ["F8_E4M3", "I16"])
def test_other_dtypes_are_named_and_no_broken_file(tmp_path, dtype):
    path = written(tmp_path / "t.safetensors", {"a": entry(0, 8) | {"dtype": dtype}}, bytes(8))
    with pytest.raises(CheckpointError) as error:
        read_header(path)
    assert str(error.value) == (
        f'{path}: the tensor a has the dtype "{dtype}", which is not read; give weights in '
        "float32, bfloat16 or float16, without quantisation."
    )


@given(data=st.data())
@pytest.mark.parametrize("shape", [(7,), (0, 3), (5, 4, 6)])
def test_any_part_is_read_by_its_ranges_of_bytes(tmp_path_factory, data, shape):
    array = np.random.default_rng(0).normal(size=shape).astype(ml_dtypes.bfloat16)
    path = tmp_path_factory.getbasetemp() / f"parts{len(shape)}.safetensors"
    write_tensor_file(path, {"before": np.ones(3), "a": array}, {})
    lazy_array = read_header(path)[0]["a"].array
    assert (lazy_array.shape, lazy_array.dtype) == (array.shape, array.dtype)
    box = []
    for size in shape:
        start = data.draw(st.integers(0, size))
        box.append(slice(start, data.draw(st.integers(start, size))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensors, "_BLOCK_BYTES", data.draw(st.sampled_from([1, 50])))
        part = lazy_array[tuple(box)]
    assert part.tobytes() == array[tuple(box)].tobytes()
    assert part.shape == array[tuple(box)].shape


def test_a_file_that_was_cut_after_it_was_opened(tmp_path):
    path = tmp_path / "t.safetensors"
    write_tensor_file(path, TENSORS, {})
    array = read_header(path)[0]["b"].array
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(CheckpointError, match=r"t.safetensors: the tensor b is cut short"):
        np.asarray(array)


def test_metadata_have_one_order(tmp_path):
    metadata = {name: '\u00e9"' * number for number, name in enumerate("qwertzuiop")}
    tensors = {"b": np.arange(3.0), "a": np.ones((2, 1), np.float32)}
    path = tmp_path / "x.safetensors"
    write_tensor_file(path, tensors, metadata)
    first = path.read_bytes()
    assert first.index(b'"e"') < first.index(b'"w"') < first.index(b'"z"')
    for _ in range(8):  # the library's order differs in one process, too
        write_tensor_file(path, tensors, dict(reversed(metadata.items())))
        assert path.read_bytes() == first
    with safetensors.safe_open(path, "np") as file:
        assert file.metadata() == metadata
        for name, array in tensors.items():
            np.testing.assert_array_equal(file.get_tensor(name), array)
