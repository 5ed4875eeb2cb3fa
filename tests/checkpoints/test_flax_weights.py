import json
from unittest import mock

import flax.serialization
import ml_dtypes
import numpy as np
import pytest

from faith_jax.checkpoints.checkpoint import flatten
from faith_jax.checkpoints.flax_weights import restore_msgpack
from faith_jax.checkpoints.hugging_face.folder import is_huggingface
from faith_jax.checkpoints.identity import checkpoint_digest
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.errors import CheckpointError
from faith_jax.runs import convert
from tests.checkpoints import family_folders
from tests.checkpoints.family_folders import draw, write, write_flax
from tests.checkpoints.synthetic import CONFIG, TIED, tensor_shapes

QUERY = "encoder.block.1.layer.0.SelfAttention.q.weight"


def equal(tree, expected):
    tree, expected = ({n: np.asarray(a) for n, a in flatten(x).items()} for x in (tree, expected))
    assert sorted(tree) == sorted(expected)
    for name, array in expected.items():
        assert tree[name].dtype == array.dtype, name
        assert tree[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize(("config", "shards"), [(CONFIG, 3), (TIED, 1)])
def test_a_t5_of_flax_is_the_same_model(tmp_path, config, shards):
    tensors = draw(tensor_shapes(config))
    from_pt = open_checkpoint(write(tmp_path / "pt", config, tensors))
    folder = write_flax(tmp_path / "flax", config, tensors, shards)
    assert is_huggingface(folder)
    opened = open_checkpoint(folder)
    assert (opened.config, opened.family) == (from_pt.config, "t5")
    equal(opened.params, from_pt.params)


@pytest.mark.parametrize("case", ["bart_plain", "gpt2_inner_relu", "bloom_3_heads"])
def test_other_families_of_flax(tmp_path, case):
    config, tensors = family_folders.config_of(case), draw(family_folders.shapes_of(case))
    from_pt = open_checkpoint(write(tmp_path / "pt", config, tensors))
    opened = open_checkpoint(write_flax(tmp_path / "flax", config, tensors))
    assert opened.config == from_pt.config
    equal(opened.params, from_pt.params)


def test_dtypes_are_kept(tmp_path):
    tensors = {n: a.astype(ml_dtypes.bfloat16) for n, a in draw(tensor_shapes()).items()}
    from_pt = open_checkpoint(write(tmp_path / "pt", CONFIG, tensors))
    equal(open_checkpoint(write_flax(tmp_path / "flax", CONFIG, tensors)).params, from_pt.params)


def test_a_level_of_params(tmp_path):
    folder = write_flax(tmp_path / "flax", CONFIG, draw(tensor_shapes()))
    expected = open_checkpoint(folder).read().params
    path = folder / "flax_model.msgpack"
    tree = flax.serialization.msgpack_restore(path.read_bytes())
    path.write_bytes(flax.serialization.msgpack_serialize({"params": tree}))
    equal(open_checkpoint(folder).params, expected)


def test_it_is_imported_verified_and_told_from_others(tmp_path):
    folder = write_flax(tmp_path / "flax", CONFIG, draw(tensor_shapes()))
    convert.import_checkpoint(str(folder), str(tmp_path / "ours"))
    equal(open_checkpoint(tmp_path / "ours").params, open_checkpoint(folder).params)
    digest = checkpoint_digest(folder)
    convert.add_manifest(str(folder))
    open_checkpoint(folder).read()
    (folder / "manifest.json").unlink()
    assert checkpoint_digest(folder) == digest
    write_flax(folder, CONFIG, draw(tensor_shapes(), seed=1))
    assert checkpoint_digest(folder) != digest


def test_safetensors_come_first_and_pickles_last(tmp_path):
    tensors = draw(tensor_shapes())
    folder = write_flax(tmp_path / "both", CONFIG, tensors)
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    (folder / "tf_model.h5").write_bytes(b"")
    np.testing.assert_array_equal(
        np.asarray(
            open_checkpoint(folder).params["encoder"]["layers_1"]["attention"]["query"]["kernel"]
        ),
        tensors[QUERY].T,
    )
    other_tensors = draw(tensor_shapes(), seed=1)
    opened = open_checkpoint(write(folder, CONFIG, other_tensors))
    equal(opened.params["token_embedder"], {"embedding": other_tensors["shared.weight"]})


# Bad input.


def error_of(folder):
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder).read()
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder) in message
    return message


@pytest.mark.parametrize("share", [0.0, 0.99])
def test_truncated_file(tmp_path, share):
    folder = write_flax(tmp_path / "flax", CONFIG, draw(tensor_shapes()))
    path = folder / "flax_model.msgpack"
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    assert "flax_model.msgpack: not a whole file of Flax weights" in error_of(folder)


@pytest.mark.parametrize("tree", [{}, [1], {"shared": {"embedding": "text"}}])
def test_a_file_of_something_else(tmp_path, tree):
    folder = write_flax(tmp_path / "flax", CONFIG, draw(tensor_shapes()))
    (folder / "flax_model.msgpack").write_bytes(flax.serialization.msgpack_serialize(tree))
    assert "expected a tree of arrays" in error_of(folder)


def test_missing_arrays_and_files(tmp_path):
    tensors = draw(tensor_shapes())
    less = {name: array for name, array in tensors.items() if name != QUERY}
    message = error_of(write_flax(tmp_path / "less", CONFIG, less))
    assert f"{QUERY} (8, 6) is missing" in message
    folder = write_flax(tmp_path / "shards", CONFIG, tensors, shards=2)
    (folder / "flax_model-00002-of-00002.msgpack").unlink()
    assert "flax_model-00002-of-00002.msgpack: No such file" in error_of(folder)
    index = folder / "flax_model.msgpack.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../elsewhere.msgpack"}}))
    assert "../elsewhere.msgpack" in error_of(folder)
    # The clients of stores give their errors no number.
    path = mock.Mock(**{"read_bytes.side_effect": OSError("Forbidden: no permission")})
    with pytest.raises(CheckpointError, match="Forbidden: no permission"):
        restore_msgpack(path, "file")
