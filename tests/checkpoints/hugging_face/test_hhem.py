"""HHEM-2.1-Open's folder against the encoder of T5 as its paper has it, in NumPy."""

import json

import numpy as np
import pytest
import safetensors.numpy

from faith_jax.checkpoints.hugging_face.families import FAMILIES, family_name
from faith_jax.checkpoints.hugging_face.folder import read_huggingface, write_huggingface
from faith_jax.core.errors import CheckpointError
from faith_jax.inference import load_model
from faith_jax.inference.class_probabilities import ClassificationEngine

WIDTH, HEADS, HEAD, INNER, LAYERS, TOKENS = 16, 2, 8, 32, 2, 300
DIMENSIONS = {
    "d_model": WIDTH,
    "num_heads": HEADS,
    "d_kv": HEAD,
    "d_ff": INNER,
    "num_layers": LAYERS,
    "vocab_size": TOKENS,
}
ROWS = [[0, 5, 6, 1], [0, 7, 8, 9, 3, 1], [0, *range(10, 60), 1]]


def tensors(seed=0):
    """Returns random tensors under the published names."""
    rng = np.random.default_rng(seed)

    def drawn(*shape):
        return rng.normal(size=shape).astype(np.float32) * shape[-1] ** -0.5

    base = "t5.transformer."
    arrays = {
        f"{base}shared.weight": 4 * drawn(TOKENS, WIDTH),
        f"{base}encoder.final_layer_norm.weight": 1 + drawn(WIDTH),
        "t5.classifier.weight": drawn(2, WIDTH),
        "t5.classifier.bias": drawn(2),
    }
    bias = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    arrays[base + bias] = drawn(32, HEADS)
    for number in range(LAYERS):
        layer = f"{base}encoder.block.{number}.layer."
        for name in "qkv":
            arrays[f"{layer}0.SelfAttention.{name}.weight"] = drawn(HEADS * HEAD, WIDTH)
        arrays[f"{layer}0.SelfAttention.o.weight"] = drawn(WIDTH, HEADS * HEAD)
        for name in ("wi_0", "wi_1"):
            arrays[f"{layer}1.DenseReluDense.{name}.weight"] = drawn(INNER, WIDTH)
        arrays[f"{layer}1.DenseReluDense.wo.weight"] = drawn(WIDTH, INNER)
        for part in (0, 1):
            arrays[f"{layer}{part}.layer_norm.weight"] = 1 + drawn(WIDTH)
    return arrays


def write(folder, arrays=None, **fields):
    folder.mkdir(exist_ok=True)
    safetensors.numpy.save_file(arrays or tensors(), folder / "model.safetensors", {"format": "pt"})
    config = {
        "architectures": ["HHEMv2ForSequenceClassification"],
        "model_type": "HHEMv2Config",
        "torch_dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config | fields))
    return str(folder)


def norm(x, scale):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale


def bucket(distance):
    """Returns T5's bucket of a distance, of 32 in both directions up to 128."""
    start, distance = (16 if distance > 0 else 0), abs(distance)
    if distance < 8:
        return start + distance
    return start + min(15, 8 + int(np.log(distance / 8) / np.log(128 / 8) * 8))


def plain_logits(arrays, row):
    """Returns the logits of the first token; every token is seen, the padding token too."""
    t = {name.removeprefix("t5.transformer.encoder."): value for name, value in arrays.items()}
    x = arrays["t5.transformer.shared.weight"][row].astype(np.float64)
    places = np.array([[bucket(j - i) for j in range(len(row))] for i in range(len(row))])
    bias = t["block.0.layer.0.SelfAttention.relative_attention_bias.weight"][places]
    for number in range(LAYERS):
        a, f = f"block.{number}.layer.0.", f"block.{number}.layer.1."
        h = norm(x, t[f"{a}layer_norm.weight"])
        q, k, v = (
            (h @ t[f"{a}SelfAttention.{n}.weight"].T).reshape(len(row), HEADS, HEAD) for n in "qkv"
        )
        scores = np.einsum("ihd,jhd->hij", q, k) + bias.transpose(2, 0, 1)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        heads = np.einsum("hij,jhd->ihd", weights, v).reshape(len(row), -1)
        x = x + heads @ t[f"{a}SelfAttention.o.weight"].T
        h = norm(x, t[f"{f}layer_norm.weight"])
        gate, inner = (h @ t[f"{f}DenseReluDense.{n}.weight"].T for n in ("wi_0", "wi_1"))
        gelu = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
        x = x + (gelu * inner) @ t[f"{f}DenseReluDense.wo.weight"].T
    x = norm(x, t["final_layer_norm.weight"])
    return x[0] @ arrays["t5.classifier.weight"].T + arrays["t5.classifier.bias"]


def test_logits_are_those_of_a_plain_t5(tmp_path):
    model = load_model(write(tmp_path / "hhem", **DIMENSIONS))
    assert model.label_names == ("LABEL_0", "LABEL_1")
    expected = np.array([plain_logits(tensors(), row) for row in ROWS])
    logits = [model.classify(np.array([row]))[0] for row in ROWS]
    np.testing.assert_allclose(logits, expected, atol=2e-5)
    # Packed with others, and filled up, they are the same.
    np.testing.assert_allclose(ClassificationEngine(model).logits(ROWS), expected, atol=2e-5)
    assert not np.allclose(plain_logits(tensors(), ROWS[0][1:]), expected[0], atol=1e-2)


def test_the_dimensions_of_its_code_are_flan_t5_bases(tmp_path):
    folder = tmp_path / "hhem"
    write(folder)
    config = FAMILIES["HHEMv2Config"].read_config(
        json.loads((folder / "config.json").read_text()), folder / "config.json"
    )
    assert (config.emb_dim, config.num_heads, config.head_dim) == (768, 12, 64)
    assert (config.num_encoder_layers, config.num_decoder_layers, config.mlp_dim) == (12, 0, 2048)
    assert (config.vocab_size, config.mlp_activations) == (32128, ("gelu", "linear"))


def test_it_is_written_as_it_is_read(tmp_path):
    path = write(tmp_path / "hhem", **DIMENSIONS)
    checkpoint = read_huggingface(path)
    assert family_name(checkpoint.config) == "HHEMv2Config"
    write_huggingface(checkpoint, tmp_path / "again")
    stored = safetensors.numpy.load_file(tmp_path / "again" / "model.safetensors")
    arrays = tensors()
    assert stored.keys() == arrays.keys()
    for name, tensor in arrays.items():
        np.testing.assert_array_equal(stored[name], tensor)
    assert read_huggingface(tmp_path / "again").config == checkpoint.config


def test_a_tensor_that_is_missing_is_named(tmp_path):
    arrays = tensors()
    del arrays["t5.transformer.encoder.block.1.layer.1.layer_norm.weight"]
    with pytest.raises(CheckpointError, match=r"block\.1\.layer\.1\.layer_norm\.weight"):
        load_model(write(tmp_path / "hhem", arrays, **DIMENSIONS))
