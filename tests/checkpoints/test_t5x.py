import dataclasses
import json
import shutil

import flax.serialization
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest

from faith_jax.checkpoints.checkpoint import Checkpoint, flatten, stack_layers, unflatten
from faith_jax.checkpoints.identity import checkpoint_digest, pin_step
from faith_jax.checkpoints.native import write_native
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.checkpoints.t5x import infer_config, is_t5x, read_t5x
from faith_jax.core.errors import CheckpointError
from tests.checkpoints.synthetic import tiny_params, unpack_t5x, write_t5x, write_t5x_orbax
from tests.models.tiny import TINY

# Not in the shapes; T5's own values.
UNTOLD = {"relative_attention_max_distance": 128, "dropout_rate": 0.1}
CONFIG = TINY.replace(**UNTOLD)
QUERY = "encoder/layers_1/attention/query/kernel"


def equal(tree, expected):
    tree, expected = ({n: np.asarray(a) for n, a in flatten(x).items()} for x in (tree, expected))
    assert sorted(tree) == sorted(expected)
    for name, array in expected.items():
        assert tree[name].dtype == array.dtype, name
        assert tree[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mlp_activations": ("relu",), "logits_via_embedding": True},
        {"num_decoder_layers": 1, "num_heads": 1, "head_dim": 6},
        {"encoder_prompt_length": 3},
    ],
)
def test_dimensions_are_read_from_shapes(tmp_path, changes):
    config = CONFIG.replace(**changes)
    params = tiny_params(config)
    checkpoint = read_t5x(write_t5x(tmp_path / "checkpoint_7", params))
    assert checkpoint.config == config
    equal(checkpoint.params, params)


def test_a_given_config_is_kept(tmp_path):
    config = CONFIG.replace(relative_attention_max_distance=20, mlp_activations=("silu", "linear"))
    checkpoint = read_t5x(write_t5x(tmp_path / "checkpoint_7", tiny_params(config)), config)
    assert checkpoint.config == config


@pytest.mark.parametrize("stored_as", ["layers_0", "layers"])
def test_scanned_layers(tmp_path, stored_as):
    params = tiny_params(CONFIG)
    stacked = stack_layers(params)
    scan = CONFIG.replace(scan_layers=True)
    write_t5x(tmp_path / "checkpoint_7", stacked if stored_as == "layers" else params)
    equal(read_t5x(tmp_path, CONFIG).params, params)
    equal(read_t5x(tmp_path, scan).params, stacked)
    assert read_t5x(tmp_path).config == (scan if stored_as == "layers" else CONFIG)


def as_scalable_t5(params, axis=1, inner=None):
    """Returns parameters as T5X's scanned network has them: all layers in one array."""
    scanned = {}
    for name, array in flatten(stack_layers(params)).items():
        stack, separator, rest = name.partition("/layers/")
        name = f"{stack}/{inner or stack}/{rest}" if separator else name
        scanned[name] = np.moveaxis(np.asarray(array), 0, axis) if separator else array
    return scanned


@pytest.mark.parametrize(
    ("axis", "inner", "write"),
    [(1, None, write_t5x), (0, None, write_t5x), (1, "layers", write_t5x_orbax)],
)
def test_layers_that_t5x_scanned(tmp_path, axis, inner, write):
    config = CONFIG.replace(num_decoder_layers=3)
    params = tiny_params(config)
    folder = tmp_path / "checkpoint_7" if write is write_t5x else tmp_path
    write(folder, unflatten(as_scalable_t5(params, axis, inner)))
    opened = open_checkpoint(tmp_path)
    assert opened.config == config
    equal(opened.params, params)
    scan = config.replace(scan_layers=True)
    equal(read_t5x(tmp_path, scan).params, stack_layers(params))


@pytest.mark.parametrize("write", [write_t5x, write_t5x_orbax])
def test_a_prompt_of_prompt_tuning(tmp_path, write):
    config = CONFIG.replace(encoder_prompt_length=3)
    params = tiny_params(config)
    stored = {key: value for key, value in params.items() if key != "encoder_prompt"}
    prompt = {"prompt": {"prompt": params["encoder_prompt"]["embedding"]}}
    stored["encoder"] = {**stored["encoder"], "prompt": prompt}
    opened = read_t5x(write(tmp_path / "checkpoint_7", stored))
    assert opened.config == config
    equal(opened.params, params)


def test_position_biases_inside_the_scan(tmp_path):
    params = tiny_params(CONFIG)
    scanned = as_scalable_t5(params)
    for stack in ("encoder", "decoder"):
        bias = scanned.pop(f"{stack}/relpos_bias/rel_embedding")
        scanned[f"{stack}/{stack}/relpos_bias/rel_embedding"] = np.stack([bias, bias], axis=1)
    equal(read_t5x(write_t5x(tmp_path / "checkpoint_7", unflatten(scanned))).params, params)
    scanned["decoder/decoder/relpos_bias/rel_embedding"][0, 1, 0] += 1
    opened = read_t5x(write_t5x(tmp_path / "umt5" / "checkpoint_7", unflatten(scanned)))
    assert opened.config == CONFIG.replace(layer_position_biases=True)
    bias = scanned["decoder/decoder/relpos_bias/rel_embedding"][:, 1]
    layer_bias = opened.params["decoder"]["layers_1"]["relpos_bias"]["rel_embedding"]
    np.testing.assert_array_equal(layer_bias, bias)


@pytest.mark.parametrize("scan", [False, True])
def test_position_biases_of_each_layer(tmp_path, scan):
    config = CONFIG.replace(layer_position_biases=True)
    params = tiny_params(config)
    params, config = (
        (stack_layers(params), config.replace(scan_layers=True)) if scan else (params, config)
    )
    checkpoint = read_t5x(write_t5x(tmp_path / "checkpoint_7", params))
    assert checkpoint.config == config
    equal(checkpoint.params, params)


def test_scanned_layers_that_do_not_fit(tmp_path):
    scanned = as_scalable_t5(tiny_params(CONFIG))
    scanned["encoder/encoder/mlp/wo/kernel"] = np.ones(3, np.float32)
    message = error_of(write_t5x(tmp_path / "checkpoint_7", unflatten(scanned)))
    assert "encoder/encoder/mlp/wo/kernel has the shape (3,)" in message
    scanned["encoder/encoder/mlp/wo/kernel"] = np.ones((16, 1, 8), np.float32)
    message = error_of(write_t5x(tmp_path / "other" / "checkpoint_7", unflatten(scanned)))
    assert "encoder/layers_1/mlp/wo/kernel (16, 8) is missing" in message


def test_the_newest_whole_checkpoint_is_taken(tmp_path):
    old, new = tiny_params(CONFIG), tiny_params(CONFIG.replace(mlp_dim=12))
    write_t5x(tmp_path / "checkpoint_9", old)
    write_t5x(tmp_path / "checkpoint_10", new)
    write_t5x(tmp_path / "checkpoint_30.tmp-1700000000", old)
    (tmp_path / "checkpoint_20").mkdir()
    assert is_t5x(tmp_path)
    checkpoint = read_t5x(tmp_path)
    assert checkpoint.config.mlp_dim == 12
    assert checkpoint.metadata["source"] == str(tmp_path / "checkpoint_10")
    equal(read_t5x(tmp_path / "checkpoint_9" / "checkpoint").params, old)
    assert not is_t5x(tmp_path / "checkpoint_20")
    with pytest.raises(CheckpointError, match="no T5X checkpoint"):
        read_t5x(tmp_path / "checkpoint_20")


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_what_train_py_writes_today(tmp_path, dtype):
    params = unflatten({n: a.astype(dtype) for n, a in flatten(tiny_params(CONFIG)).items()})
    folder = write_t5x_orbax(tmp_path, params)
    write_t5x(tmp_path / "checkpoint_3", tiny_params(CONFIG.replace(mlp_dim=12)))
    (tmp_path / "checkpoint_9.orbax-checkpoint-tmp" / "state").mkdir(parents=True)
    for path in (tmp_path, folder):
        assert is_t5x(path)
        checkpoint = open_checkpoint(path)
        assert checkpoint.config == CONFIG
        assert checkpoint.metadata == {"source": str(folder), "format": "t5x"}
        equal(checkpoint.params, params)
    equal(read_t5x(folder, CONFIG.replace(scan_layers=True)).params, stack_layers(params))
    digest = checkpoint_digest(tmp_path)
    assert digest["step"] == 7
    assert pin_step(tmp_path, 7) == folder
    assert pin_step(tmp_path, 3) == tmp_path / "checkpoint_3"
    # A bit of the parameters.
    largest = max((folder / "state").rglob("d/*"), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    assert checkpoint_digest(tmp_path) != digest


def test_orbax_without_parameters_of_t5x(tmp_path):
    folder = write_t5x_orbax(tmp_path, {"encoder": {"other": np.ones(3, np.float32)}})
    assert "encoder/relpos_bias/rel_embedding is missing" in error_of(folder)
    bad = write_t5x_orbax(tmp_path / "two", {"encoder": {"other": np.ones(3, np.int32)}})
    assert "the parameter encoder/other is of int32" in error_of(bad)
    (bad / "state" / "_METADATA").write_text("{}")
    assert "_METADATA: not a description of arrays by Orbax" in error_of(bad)


def save_orbax(folder, tree, name="default"):
    """Writes a tree as Orbax's checkpointers do, in a folder of a step if it has a name."""
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder / name if name else folder, tree)
    return folder


MOMENTS = {"mu": {"token_embedder": {"embedding": np.ones(3, np.float32)}}}


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("", "params"),
        ("default", ""),
        ("params", ""),
        ("default", "params"),
        ("state_of_mine", ""),
        ("state", "params"),
        ("model", ""),
    ],
)
def test_parameters_alone_in_orbaxs_form(tmp_path, name, level):
    params = tiny_params(CONFIG)
    tree = {level: params, "opt_state": MOMENTS, "step": np.int32(7)} if level else params
    folder = save_orbax(tmp_path / "run" / "12", tree, name)
    save_orbax(tmp_path / "run" / "9", {"token_embedder": MOMENTS}, name)
    if name == "state_of_mine":
        with pytest.raises(CheckpointError, match=r"state_of_mine/ is one"):
            open_checkpoint(folder)
        folder = folder / name
    else:
        assert checkpoint_digest(tmp_path / "run")["step"] == 12
        equal(open_checkpoint(tmp_path / "run").params, params)
    opened = open_checkpoint(folder)
    assert opened.config == CONFIG
    equal(opened.params, params)
    digest = checkpoint_digest(folder)
    largest = max(folder.rglob("d/*"), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes() + b"x")
    assert checkpoint_digest(folder) != digest


def test_orbax_folders_of_other_things(tmp_path):
    save_orbax(tmp_path / "other", {"shared": {"embedding": np.ones((3, 2), np.float32)}}, "")
    message = error_of(tmp_path / "other")
    assert "a folder of Orbax's with 1 arrays (shared/embedding …)" in message
    write_native(Checkpoint(CONFIG, tiny_params(CONFIG)), tmp_path / "ours")
    with pytest.raises(CheckpointError, match=f"a part of the checkpoint {tmp_path / 'ours'}"):
        open_checkpoint(tmp_path / "ours" / "params")


# Bad input.


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_t5x(tmp_path_factory.mktemp("t5x") / "checkpoint_7", tiny_params(CONFIG))


@pytest.fixture
def folder(tmp_path, whole):
    return shutil.copytree(whole, tmp_path / "checkpoint_7")


def place_of(folder, name):
    return folder / f"target.{name.replace('/', '.')}"


def error_of(folder, config=None):
    with pytest.raises(CheckpointError) as caught:
        read_t5x(folder, config).read()
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_every_chunk_is_needed(folder):
    place = place_of(folder, QUERY)
    for chunk in ("0.0", "1.1"):
        content = (place / chunk).read_bytes()
        (place / chunk).unlink()
        message = error_of(folder)
        assert f"the parameter {QUERY} cannot be read" in message
        assert f'/{chunk}" is missing' in message
        (place / chunk).write_bytes(content)
    assert read_t5x(folder).config == CONFIG


@pytest.mark.parametrize("kept", [0, -9])
def test_truncated_chunk(folder, kept):
    chunk = place_of(folder, QUERY) / "1.0"
    chunk.write_bytes(chunk.read_bytes()[:kept])
    message = error_of(folder)
    assert QUERY in message
    assert "Not enough data" in message


def test_missing_array(folder):
    shutil.rmtree(place_of(folder, QUERY))
    message = error_of(folder)
    assert f"the parameter {QUERY} cannot be read" in message
    assert "does not exist" in message


def change_zarray(folder, **fields):
    path = place_of(folder, QUERY) / ".zarray"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_array_of_another_shape_than_said(folder):
    change_zarray(folder, shape=[8, 6])
    message = error_of(folder)
    assert QUERY in message
    assert "(8, 6)" in message
    assert "(8, 8)" in message


def test_array_of_another_dtype(folder):
    change_zarray(folder, dtype="<i4")
    message = error_of(folder)
    assert QUERY in message
    assert "int32" in message
    change_zarray(folder, dtype={"of": "x"})
    assert QUERY in error_of(folder)


def test_array_of_more_chunks_than_any_memory_holds(folder):
    change_zarray(folder, chunks=[1, 1e-9])
    assert f"the parameter {QUERY} cannot be read" in error_of(folder)
    change_zarray(folder, shape=[10**12, 10**12], chunks=[1, 1])
    assert f"the parameter {QUERY}" in error_of(folder)


def test_chunks_of_zeros_are_stored(tmp_path):
    # A chunk that is not there is an error, so one of zeros must be there.
    params = unflatten({n: np.zeros_like(a) for n, a in flatten(tiny_params(CONFIG)).items()})
    equal(read_t5x(write_t5x(tmp_path / "checkpoint_7", params)).params, params)


@pytest.mark.parametrize("text", ["", '{"shape": [8], "chunks": [0], "dtype": "<f4"}'])
def test_broken_description_of_an_array(folder, text):
    (place_of(folder, QUERY) / ".zarray").write_text(text)
    message = error_of(folder)
    assert QUERY in message
    assert "cannot be read" in message


@pytest.mark.parametrize("share", [0.01, 0.99])
def test_truncated_tree(folder, share):
    path = folder / "checkpoint"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    assert str(path) in error_of(folder)


def test_tensorflow_checkpoint(folder):
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-1000"\n')
    assert "T5X" in error_of(folder)
    (folder / "model.ckpt-1000.index").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"1000.index is there: a TensorFlow.*convert_tf_"):
        open_checkpoint(folder)


def write_tree(folder, target):
    state = {"version": 3, "optimizer": {"target": target}}
    (folder / "checkpoint").write_bytes(flax.serialization.msgpack_serialize(state))


def changed(tmp_path, change):
    flat = dict(flatten(tiny_params(CONFIG)))
    change(flat)
    return write_t5x(tmp_path / "changed", unflatten(flat))


@pytest.mark.parametrize("name", [QUERY, "encoder/relpos_bias/rel_embedding", "decoder/layers_0"])
def test_dropped_parameter(tmp_path, name):
    def drop(flat):
        for key in [k for k in flat if k.startswith(name)]:
            del flat[key]

    message = error_of(changed(tmp_path, drop))
    assert name in message
    assert "missing" in message


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"bert": np.ones(3, np.float32)}, ["bert"]),
        ({QUERY: np.ones((8, 10), np.float32)}, [QUERY, "(8, 10)"]),
    ],
)
def test_parameters_of_another_model(tmp_path, change, parts):
    message = error_of(changed(tmp_path, lambda flat: flat.update(change)))
    for part in parts:
        assert part in message


def test_shapes_of_no_model(tmp_path):
    vector = np.ones(8, np.float32)
    name = "token_embedder/embedding"
    message = error_of(changed(tmp_path, lambda flat: flat.update({name: vector})))
    assert name in message
    assert "2 dimensions" in message
    bias = {"encoder/relpos_bias/rel_embedding": np.ones((2, 7), np.float32)}
    shutil.rmtree(tmp_path / "changed")
    assert "relative_attention_num_buckets" in error_of(changed(tmp_path, lambda f: f.update(bias)))


def test_config_of_other_dimensions(folder):
    message = error_of(folder, CONFIG.replace(mlp_dim=20))
    assert "mlp" in message
    assert "(8, 20)" in message


@pytest.mark.parametrize("leaf", ["PLACEHOLDER://x", 3])
def test_leaf_that_is_no_array_of_t5x(folder, leaf):
    write_tree(folder, {"token_embedder": {"embedding": leaf}})
    assert "token_embedder/embedding" in error_of(folder)


@pytest.mark.parametrize("tree", [{"optimizer": {}}, {"optimizer": {"target": []}}, [1]])
def test_tree_of_something_else(folder, tree):
    (folder / "checkpoint").write_bytes(flax.serialization.msgpack_serialize(tree))
    assert "optimizer/target" in error_of(folder)


# T5X's own checkpoint.


def test_fixture_of_t5x(tmp_path):
    checkpoint = read_t5x(unpack_t5x(tmp_path))
    shapes = {n: a.shape for n, a in flatten(checkpoint.params).items()}
    assert infer_config(shapes, "fixture") == checkpoint.config
    expected = {"vocab_size": 20, "emb_dim": 8, "num_heads": 2, "head_dim": 4, "mlp_dim": 12}
    expected |= {"num_encoder_layers": 2, "num_decoder_layers": 3}
    config = dataclasses.asdict(checkpoint.config)
    assert {name: config[name] for name in expected} == expected
    assert checkpoint.config.mlp_activations == ("gelu", "linear")
