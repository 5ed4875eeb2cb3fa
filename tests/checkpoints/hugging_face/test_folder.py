import json
import shutil

import ml_dtypes
import numpy as np
import pytest

from faith_jax.checkpoints.checkpoint import Checkpoint, check_params, stack_layers
from faith_jax.checkpoints.hugging_face.folder import (
    is_huggingface,
    read_huggingface,
    write_huggingface,
)
from faith_jax.checkpoints.native import read_native, write_native
from faith_jax.checkpoints.tensors import write_tensor_file
from faith_jax.core.errors import CheckpointError
from faith_jax.inference import load_model
from tests.checkpoints.family_folders import draw
from tests.checkpoints.synthetic import (
    CONFIG,
    EMBED,
    TIED,
    UNUSED,
    random_tensors,
    stored,
    tensor_shapes,
    tiny_params,
    write_folder,
)
from tests.models.tiny import TINY

TOKENS = "embed_tokens.weight"
QUERY = "encoder.block.1.layer.0.SelfAttention.q.weight"
ROWS = np.array([[3, 5, 7]], np.int32), np.array([[4, 9]], np.int32)


def logits_of(folder):
    return load_model(str(folder)).logits(*ROWS)


def round_trip(folder, tmp_path):
    """Returns the folder after Hugging Face -> ours -> Hugging Face."""
    write_native(read_huggingface(folder), tmp_path / "ours")
    write_huggingface(read_native(tmp_path / "ours"), tmp_path / "theirs")
    return tmp_path / "theirs"


def error_of(folder):
    with pytest.raises(CheckpointError) as caught:
        read_huggingface(folder).read()
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_parameters_lie_where_their_names_say(tmp_path):
    tensors = random_tensors()
    checkpoint = read_huggingface(write_folder(tmp_path / "hf", tensors)).read()
    check_params(checkpoint.config, checkpoint.params)
    config = checkpoint.config
    assert (config.num_encoder_layers, config.num_decoder_layers) == (2, 1)
    assert (config.num_heads, config.head_dim, config.mlp_dim) == (2, 4, 10)
    assert config.mlp_activations == ("gelu", "linear")
    assert not config.logits_via_embedding
    decoder = checkpoint.params["decoder"]
    pairs = {
        "shared.weight": checkpoint.params["token_embedder"]["embedding"],
        "lm_head.weight": decoder["logits_dense"]["kernel"].T,
        QUERY: checkpoint.params["encoder"]["layers_1"]["attention"]["query"]["kernel"].T,
        "decoder.block.0.layer.1.EncDecAttention.o.weight": decoder["layers_0"][
            "encoder_decoder_attention"
        ]["out"]["kernel"].T,
        "decoder.block.0.layer.2.DenseReluDense.wi_1.weight": decoder["layers_0"]["mlp"]["wi_1"][
            "kernel"
        ].T,
        "decoder.block.0.layer.1.layer_norm.weight": decoder["layers_0"][
            "pre_cross_attention_layer_norm"
        ]["scale"],
    }
    for name, array in pairs.items():
        assert array.tobytes() == tensors[name].tobytes(), name


@pytest.mark.parametrize(
    ("dtype", "shards"), [(np.float32, 3), (np.float16, 1), (ml_dtypes.bfloat16, 1)]
)
def test_round_trip_gives_every_bit_back(tmp_path, dtype, shards):
    folder = write_folder(tmp_path / "hf", random_tensors(dtype=dtype), shards=shards)
    restored = round_trip(folder, tmp_path)
    assert stored(restored) == stored(folder)
    assert [file.name for file in restored.glob("*.safetensors*")] == ["model.safetensors"]


def test_round_trip_keeps_mixed_dtypes(tmp_path):
    tensors = random_tensors(dtype=ml_dtypes.bfloat16)
    for name in tensors:
        if name.endswith("wo.weight"):
            tensors[name] = tensors[name].astype(np.float32)
    folder = write_folder(tmp_path / "hf", tensors)
    assert stored(round_trip(folder, tmp_path)) == stored(folder)


def test_copies_of_the_embedding_and_what_nobody_uses_are_dropped(tmp_path):
    tensors = random_tensors(TIED)
    expected = stored(write_folder(tmp_path / "plain", tensors, TIED))
    names = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
    tensors |= {name: tensors["shared.weight"].copy() for name in names}
    tensors[UNUSED] = np.arange(16, dtype=np.float32).reshape(8, 2)
    folder = write_folder(tmp_path / "hf", tensors, TIED)
    assert read_huggingface(folder).config.logits_via_embedding
    assert stored(round_trip(folder, tmp_path)) == expected


@pytest.mark.parametrize("name", ["encoder.embed_tokens.weight", "lm_head.weight"])
def test_embedding_under_another_of_its_names(tmp_path, name):
    tensors = random_tensors(TIED)
    expected = stored(write_folder(tmp_path / "plain", tensors, TIED))
    tensors[name] = tensors.pop("shared.weight")
    folder = write_folder(tmp_path / "hf", tensors, TIED)
    checkpoint = read_huggingface(folder).read()
    assert checkpoint.config.logits_via_embedding
    embedding = checkpoint.params["token_embedder"]["embedding"]
    assert embedding.tobytes() == tensors[name].tobytes()
    assert stored(round_trip(folder, tmp_path)) == expected


def test_a_head_of_its_own_is_used_whatever_the_config_says(tmp_path):
    tensors = random_tensors()
    base_config = {k: v for k, v in CONFIG.items() if k != "tie_word_embeddings"}
    for i, config in enumerate([base_config, base_config | {"tie_word_embeddings": True}]):
        checkpoint = read_huggingface(write_folder(tmp_path / str(i), tensors, config))
        assert not checkpoint.config.logits_via_embedding


def test_a_tied_head_without_scaling_is_a_head_that_equals_the_embedding(tmp_path):
    config = TIED | {"scale_decoder_outputs": False}
    tensors = random_tensors(TIED)
    folder = write_folder(tmp_path / "hf", tensors, config)
    checkpoint = read_huggingface(folder).read()
    assert not checkpoint.config.logits_via_embedding
    kernel = checkpoint.params["decoder"]["logits_dense"]["kernel"]
    assert kernel.T.tobytes() == tensors["shared.weight"].tobytes()
    again = read_huggingface(round_trip(folder, tmp_path)).read()
    assert again.config == checkpoint.config
    assert again.params["decoder"]["logits_dense"]["kernel"].tobytes() == kernel.tobytes()


@pytest.mark.parametrize(
    ("fields", "has_head", "expected"),
    [
        ({"tie_word_embeddings": False}, False, "'tie_word_embeddings' is false"),
        ({"tie_word_embeddings": None, "architectures": ["T5Model"]}, False, "this is a T5Model"),
        ({"tie_word_embeddings": None}, False, None),  # a published T5 1.0
        ({"tie_word_embeddings": True, "architectures": 7}, False, None),
        ({"tie_word_embeddings": False}, True, None),
        ({"tie_word_embeddings": None}, True, None),
        # As Transformers 5 saves a T5 1.1.
        ({"tie_word_embeddings": True, "scale_decoder_outputs": False}, True, None),
    ],
)
def test_an_embedding_as_an_output_layer_that_should_be_separate(
    tmp_path, caplog, fields, has_head, expected
):
    tensors = random_tensors()
    if not has_head:
        del tensors["lm_head.weight"]
    read_huggingface(write_folder(tmp_path, tensors, CONFIG | fields))
    message = (
        f"{tmp_path}/config.json: {expected}, and there is no tensor lm_head.weight: the "
        "embedding, shared.weight, is the output layer, which may never have been trained."
    )
    assert [record.getMessage() for record in caplog.records] == [message] * bool(expected)


def test_a_separate_output_layer_that_should_be_tied(tmp_path, caplog):
    config = CONFIG | {"tie_word_embeddings": True}
    assert not read_huggingface(
        write_folder(tmp_path, random_tensors(), config)
    ).config.logits_via_embedding
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/config.json: 'tie_word_embeddings' is true, but the tensors lm_head.weight "
        "and shared.weight differ: lm_head.weight is the output layer."
    ]


@pytest.mark.parametrize(
    ("fields", "scale"),
    [
        ({"tie_word_embeddings": True}, EMBED**-0.5),
        ({"tie_word_embeddings": None}, EMBED**-0.5),  # Transformers leaves out its default
        ({"tie_word_embeddings": True, "scale_decoder_outputs": False}, 1.0),
    ],
)
def test_a_head_of_its_own_is_scaled_as_the_config_says(tmp_path, fields, scale):
    tensors = draw(tensor_shapes())
    folder = write_folder(tmp_path / "hf", tensors, CONFIG | fields)
    scaled = tensors | {"lm_head.weight": tensors["lm_head.weight"] * np.float32(scale)}
    plain = write_folder(tmp_path / "plain", scaled, CONFIG)
    expected = logits_of(plain)
    np.testing.assert_allclose(logits_of(folder), expected, atol=1e-5)
    again = round_trip(folder, tmp_path)
    assert stored(again) == stored(folder)
    np.testing.assert_allclose(logits_of(again), expected, atol=1e-5)


def test_decoder_has_as_many_layers_as_the_encoder_where_config_does_not_say(tmp_path):
    config = {k: v for k, v in CONFIG.items() if k != "num_decoder_layers"}
    message = error_of(write_folder(tmp_path / "hf", random_tensors(), config))
    assert "decoder.block.1." in message
    assert "missing" in message


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"feed_forward_proj": "gated-tanh"}, ("tanh", "linear")),
        # Transformers' "gelu" is the exact form, but "gated-gelu" the tanh form.
        ({"feed_forward_proj": "gated-gelu"}, ("gelu", "linear")),
        ({"feed_forward_proj": "gelu", "is_gated_act": True}, ("gelu_exact", "linear")),
        ({"feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu_new"}, ("gelu", "linear")),
        (
            {"feed_forward_proj": "gated-gelu", "dense_act_fn": "silu", "is_gated_act": True},
            ("silu", "linear"),
        ),
    ],
)
def test_activations(tmp_path, fields, expected):
    folder = write_folder(tmp_path / "hf", random_tensors(), CONFIG | fields)
    assert read_huggingface(folder).config.mlp_activations == expected


# As Transformers 5 saves each mT5, and as Transformers 4 saved a tied one.
MT5_OF_5 = {"model_type": "mt5", "tie_word_embeddings": True, "transformers_version": "5.24.0"}
MT5_OF_4 = MT5_OF_5 | {"transformers_version": "4.46.3"}


@pytest.mark.parametrize(
    ("fields", "is_scaled", "has_head"),
    [
        (MT5_OF_5, False, True),
        (MT5_OF_4, True, False),
        (MT5_OF_4 | {"tie_word_embeddings": False}, False, True),
        # Transformers 4 left out its default.
        (MT5_OF_4 | {"tie_word_embeddings": None}, False, True),
        (MT5_OF_4 | {"scale_decoder_outputs": False}, False, False),
    ],
)
def test_only_a_tied_mt5_of_transformers_4_is_scaled(tmp_path, fields, is_scaled, has_head, caplog):
    tensors = draw(tensor_shapes())
    head = tensors["lm_head.weight"] if has_head else tensors["shared.weight"]
    scale = np.float32(EMBED**-0.5 if is_scaled else 1)
    plain = write_folder(tmp_path / "plain", tensors | {"lm_head.weight": head * scale})
    expected = logits_of(plain)
    if not has_head:
        del tensors["lm_head.weight"]
    folder = write_folder(tmp_path / "hf", tensors, CONFIG | fields)
    np.testing.assert_allclose(logits_of(folder), expected, atol=1e-5)
    # Transformers would not scale what is written as an mT5.
    again = round_trip(folder, tmp_path)
    np.testing.assert_allclose(logits_of(again), expected, atol=1e-5)
    written = json.loads((again / "config.json").read_text())
    assert written["model_type"] == ("t5" if is_scaled else "mt5")
    assert written["scale_decoder_outputs"] == written["tie_word_embeddings"] == is_scaled
    assert ("this mT5 computes what a T5 does (its logits are scaled)" in caplog.text) == is_scaled


@pytest.mark.parametrize(
    ("fields", "start", "ends", "pad"),
    [
        ({}, 0, (1,), 0),
        ({"eos_token_id": 2, "bos_token_id": 1}, 0, (2,), 0),  # CodeT5
        ({"decoder_start_token_id": 3, "eos_token_id": [1, 5], "pad_token_id": 4}, 3, (1, 5), 4),
    ],
)
def test_special_tokens(tmp_path, fields, start, ends, pad):
    names = ("decoder_start_token_id", "eos_token_id", "pad_token_id")
    without = {name: value for name, value in CONFIG.items() if name not in names}
    without["model_type"] = "mt5"
    folder = write_folder(tmp_path / "hf", random_tensors(), without | fields)
    config = read_huggingface(folder).config
    assert (config.decoder_start_id, config.eos_ids, config.pad_id) == (start, ends, pad)
    again = round_trip(folder, tmp_path)
    assert read_huggingface(again).config == config
    written = json.loads((again / "config.json").read_text())
    assert [written[name] for name in names] == [start, [*ends] if len(ends) > 1 else ends[0], pad]


def test_the_end_tokens_of_generation_config_count_too(tmp_path):
    """As in chat models, whose turns end with a token that only this file names."""
    folder = write_folder(tmp_path / "hf", random_tensors(), CONFIG)
    path = folder / "generation_config.json"
    # An end token that also pads rows stays padding alone.
    path.write_text('{"eos_token_id": [5, 1, 0]}')
    assert read_huggingface(folder).config.eos_ids == (1, 5)
    assert json.loads((round_trip(folder, tmp_path) / "config.json").read_text())[
        "eos_token_id"
    ] == [1, 5]
    size = CONFIG["vocab_size"]
    path.write_text(json.dumps({"eos_token_id": size}))
    _check_end_is_refused(folder, path, size)
    path = (
        write_folder(tmp_path / "own", random_tensors(), CONFIG | {"eos_token_id": size})
        / "config.json"
    )
    _check_end_is_refused(path.parent, path, size)


def _check_end_is_refused(folder, path, size):
    with pytest.raises(CheckpointError) as caught:
        read_huggingface(folder)
    assert str(caught.value) == (
        f"{path}: field 'eos_token_id': expected tokens below the vocabulary size {size}, "
        f"got {size}."
    )


def test_mt5(tmp_path):
    config = {k: v for k, v in CONFIG.items() if k != "feed_forward_proj"} | {"model_type": "mt5"}
    folder = write_folder(tmp_path / "hf", random_tensors(), config)
    assert read_huggingface(folder).config.mlp_activations == ("gelu", "linear")
    again = round_trip(folder, tmp_path)
    assert stored(again) == stored(folder)
    assert json.loads((again / "config.json").read_text())["model_type"] == "mt5"


@pytest.mark.parametrize(
    ("activations", "tied", "scan"), [(("relu",), True, False), (("silu", "linear"), False, True)]
)
def test_a_model_of_ours_comes_back_as_it_was(tmp_path, tied, activations, scan):
    config = TINY.replace(logits_via_embedding=tied, mlp_activations=activations)
    params = tiny_params(config)
    ours = Checkpoint(config.replace(scan_layers=scan), stack_layers(params) if scan else params)
    write_huggingface(ours, tmp_path / "hf")
    restored = read_huggingface(tmp_path / "hf")
    assert restored.config == config
    write_huggingface(restored, tmp_path / "again")
    assert stored(tmp_path / "again") == stored(tmp_path / "hf")
    np.testing.assert_array_equal(
        restored.params["encoder"]["layers_1"]["mlp"]["wo"]["kernel"],
        params["encoder"]["layers_1"]["mlp"]["wo"]["kernel"],
    )


def test_fields_that_are_not_ours_are_kept(tmp_path):
    config = CONFIG | {
        "bos_token_id": 7,
        "task_specific_params": {"a": 1},
        "torch_dtype": "float16",
    }
    folder = write_folder(tmp_path / "hf", random_tensors(), config)
    written = json.loads((round_trip(folder, tmp_path) / "config.json").read_text())
    assert (written["bos_token_id"], written["task_specific_params"]) == (7, {"a": 1})
    assert written["dtype"] == "float32"
    assert "torch_dtype" not in written


def test_soft_prompts_are_not_exported(tmp_path):
    config = TINY.replace(encoder_prompt_length=3)
    with pytest.raises(CheckpointError, match="encoder_prompt_length = 3"):
        write_huggingface(Checkpoint(config, tiny_params(config)), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_existing_folders_are_not_written_to(tmp_path):
    with pytest.raises(CheckpointError, match="exists already"):
        write_huggingface(Checkpoint(TINY, tiny_params(TINY)), tmp_path)


# Bad input.


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("huggingface") / "hf", random_tensors())


@pytest.fixture
def folder(tmp_path, whole):
    return shutil.copytree(whole, tmp_path / "hf")


@pytest.mark.parametrize("length", [0, 5, 200, -1])
def test_truncated(folder, length):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    message = error_of(folder)
    assert str(path) in message
    assert "cut short" in message
    if length == -1:
        # The last tensor of the file.
        assert "shared.weight" in message


def test_truncated_at_a_tensor_names_it(folder):
    path = folder / "model.safetensors"
    content = path.read_bytes()
    header = int.from_bytes(content[:8], "little")
    begin, _ = json.loads(content[8 : 8 + header])[QUERY]["data_offsets"]
    path.write_bytes(content[: 8 + header + begin + 4])
    assert QUERY in error_of(folder)


OTHER = np.ones((24, EMBED), np.float32)
LARGER = np.ones((30, EMBED), np.float32)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda t: t.pop(QUERY), [QUERY, "missing"]),
        (lambda t: t.pop("shared.weight"), ["shared.weight (24, 6) is missing"]),
        (lambda t: t.update(bert=np.ones((2, 3), np.float32)), ["bert (2, 3) is not one of"]),
        (lambda t: t.update({QUERY: t[QUERY].T.copy()}), [QUERY, "(6, 8)", "(8, 6)"]),
        (lambda t: t.update({"shared.weight": LARGER}), ["shared.weight", "(30, 6)"]),
        (lambda t: t.update({f"decoder.{TOKENS}": OTHER}), [f"decoder.{TOKENS}"]),
        (lambda t: t.update({QUERY: np.ones((8, 6), int)}), [QUERY, "int64"]),
    ],
)
def test_tensors_of_another_model(folder, change, parts):
    tensors = random_tensors()
    change(tensors)
    message = error_of(write_folder(folder, tensors))
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        (QUERY, {"dtype": ["F32"], "shape": [8, 6], "data_offsets": [0, 192]}),
        (QUERY, {"dtype": "F32", "shape": [8, -6], "data_offsets": [0, 192]}),
        (QUERY, {"dtype": "F32", "shape": [9.6, 5.0], "data_offsets": [0, 192]}),
        (QUERY, [1, 2]),
        (QUERY, {"dtype": "F4", "shape": [8, 6], "data_offsets": [0, 192]}),
    ],
)
def test_broken_header(folder, name, fields):
    path = folder / "model.safetensors"
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + length]) | {name: fields}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + content[8 + length :])
    message = error_of(folder)
    assert str(path) in message
    assert name in message


def test_an_encoder_alone(folder):
    of_encoder = ("shared.", "encoder.")
    tensors = {k: v for k, v in random_tensors().items() if k.startswith(of_encoder)}
    write_folder(folder, tensors, CONFIG | {"architectures": ["T5EncoderModel"]})
    assert error_of(folder) == (
        f"{folder}: the encoder alone of a T5, without its decoder, which is not read; give the "
        "whole model."
    )


def test_different_tensors_of_one_name(folder):
    tensors = random_tensors() | {UNUSED: np.array(1, np.float32)}
    wrapped = {f"module.{name}": array.copy() for name, array in tensors.items()}
    write_folder(folder, tensors | wrapped)
    params = read_huggingface(folder).read().params
    assert params["token_embedder"]["embedding"].tobytes() == tensors["shared.weight"].tobytes()
    write_folder(folder, tensors | wrapped | {f"module.{QUERY}": np.zeros((8, 6), np.float32)})
    assert error_of(folder) == (
        f"{folder}/model.safetensors: the tensors {QUERY} and module.{QUERY} differ, but both are "
        f"{QUERY} of the model; keep one of them."
    )


def with_config(folder, **fields):
    (folder / "config.json").write_text(json.dumps(CONFIG | fields))
    return folder


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"model_type": "falcon"},
            "'mt5', 'qwen2', 'qwen3', 'roberta', 't5', 't5gemma', 'umt5', 'xlm-roberta']",
        ),
        ({"model_type": None}, "'model_type'"),
        ({"layer_norm_epsilon": float("inf")}, "'layer_norm_epsilon': expected a number"),
        ({"tie_word_embeddings": "relu"}, "'tie_word_embeddings': expected true or false"),
        ({"d_kv": "4"}, "'d_kv': expected a whole number, got \"4\""),
        ({"num_heads": 0}, "num_heads: expected a positive whole number, got 0"),
        ({"feed_forward_proj": "open-gelu"}, "'feed_forward_proj'"),
        ({"d_ff": 12}, "DenseReluDense.wi_0.weight has the shape (10, 6)"),
        ({"vocab_size": 25}, "shared.weight has the shape (24, 6)"),
        ({"num_layers": 1}, "encoder.block.1."),
        ({"num_layers": 10**12}, "num_encoder_layers: expected 0 to 1,000 layers, got 1000"),
    ],
)
def test_config_of_another_model(folder, fields, expected):
    assert expected in error_of(with_config(folder, **fields))


@pytest.mark.parametrize("text", ['{"model_type": "t5",\n', "[1, 2]", "\udcff"])
def test_broken_config(folder, text):
    (folder / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert str(folder / "config.json") in error_of(folder)


def test_config_without_weights_and_weights_without_config(folder):
    (folder / "config.json").unlink()
    assert is_huggingface(folder)
    assert "config.json: no such file" in error_of(folder)
    with_config(folder)
    (folder / "model.safetensors").unlink()
    assert "no weights here" in error_of(folder)


def test_pickled_weights_are_refused(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04")
    message = error_of(folder)
    assert "pytorch_model.bin" in message
    assert "safetensors" in message


@pytest.fixture
def sharded(tmp_path):
    return write_folder(tmp_path / "sharded", random_tensors(), shards=3)


def test_missing_and_truncated_shards(sharded):
    path = sharded / "model-00002-of-00003.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    assert str(path) in error_of(sharded)
    path.unlink()
    assert f"{path.name}: No such file" in error_of(sharded)


def test_an_index_that_is_none_or_points_elsewhere(sharded):
    path = sharded / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    for place in ("../other.safetensors", "/etc/passwd", 3):
        placed = index["weight_map"] | {QUERY: place}
        path.write_text(json.dumps(index | {"weight_map": placed}))
        assert "weight_map" in error_of(sharded)
    path.write_text('{"metadata": {}}')
    assert "weight_map" in error_of(sharded)


def test_whoever_reads_the_config_can_read_the_tensors(tmp_path):
    write_tensor_file(tmp_path / "x.safetensors", {"a": np.zeros(2)}, {})
    (tmp_path / "config.json").write_text("{}")
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(list(tmp_path.iterdir())) == 2
    assert len(modes) == 1
