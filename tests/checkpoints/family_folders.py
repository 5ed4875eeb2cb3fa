"""Folders of tiny published models: stored config.json and tensor names, weights from NumPy.

`tools/make_family_fixtures.py` stores the outputs of Transformers for them. It draws the same
weights as the tests, so that weights need not be stored.
"""

import json
import pathlib
import shutil
import zlib

import flax.serialization
import numpy as np
import safetensors.numpy

from faith_jax.checkpoints.checkpoint import unflatten
from faith_jax.checkpoints.hugging_face.families import family_of_fields
from faith_jax.checkpoints.hugging_face.family import ConfigFields
from faith_jax.inference import load_model

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "testdata" / "families"
T5 = ("t5_v1_1", "t5_v1_0", "t5_deep")
VOCAB = 40
# The lowest token in test inputs: lower ones are special (begin 0, end 2, padding).
FIRST_TOKEN = 4


def draw(shapes, seed=0):
    """Returns float32 tensors for {name: shape}; each depends on its name, shape and seed only."""
    tensors = {}
    for name, shape in shapes.items():
        rng = np.random.default_rng([seed, zlib.crc32(f"{name} {tuple(shape)}".encode())])
        array = rng.normal(size=shape)
        if len(shape) == 2 and shape[0] > 1:
            # Kernels keep activations near 1; the long axis of an embedding is not an input.
            array *= min(shape) ** -0.5
        elif name.endswith("weight"):
            array = 1 + 0.2 * array
        tensors[name] = array.astype(np.float32)
    return tensors


def write(folder, config, tensors):
    """Writes config.json and model.safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    safetensors.numpy.save_file(contiguous, folder / "model.safetensors", {"format": "pt"})
    return folder


def write_flax(folder, config, tensors, shards=1):
    """Writes config.json and the tensors as Transformers' Flax classes save them.

    Kernels are transposed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    tree = {}
    for name, array in tensors.items():
        *path, kind = name.split(".")
        module = ["", *path][-1]
        is_norm = "norm" in module or module.startswith("ln_")
        embeds = "embed" in module or module in ("shared", "wte", "wpe", "relative_attention_bias")
        if kind == "weight" and is_norm:
            # The scales of T5's and Llama's norms are called weights.
            kind = "weight" if module in ("layer_norm", "final_layer_norm", "norm") else "scale"
        elif kind == "weight" and embeds:
            kind = "embedding"
        elif kind == "weight" and array.ndim == 2:
            kind, array = "kernel", array.T
        tree["/".join([*path, kind])] = np.ascontiguousarray(array)
    parts = [list(names) for names in np.array_split(sorted(tree), shards)]
    placed = {}
    for i, names in enumerate(parts, 1):
        file = f"flax_model-{i:05d}-of-{shards:05d}.msgpack" if shards > 1 else "flax_model.msgpack"
        part = unflatten({str(name): tree[str(name)] for name in names})
        (folder / file).write_bytes(flax.serialization.msgpack_serialize(part))
        placed |= {str(name): file for name in names}
    if shards > 1:
        index = json.dumps({"metadata": {}, "weight_map": placed})
        (folder / "flax_model.msgpack.index.json").write_text(index)
    return folder


def cases():
    """Returns the names of the stored models except T5's, which has its own reader."""
    return sorted({path.parent.name for path in FOLDER.glob("*/config.json")} - set(T5))


def config_of(case):
    return json.loads((FOLDER / case / "config.json").read_text())


def family_of(case):
    path = FOLDER / case / "config.json"
    return family_of_fields(ConfigFields(config_of(case), path))


def shapes_of(case):
    """Returns {published tensor name: shape}, as Transformers names and saves them."""
    return json.loads((FOLDER / case / "tensors.json").read_text())


def expected_of(case):
    return dict(np.load(FOLDER / case / "expected.npz"))


def write_case(folder, case, seed=0):
    """Writes a stored model's folder: its config files unchanged, and its weights."""
    write(folder, config_of(case), draw(shapes_of(case), seed))
    for path in (FOLDER / case).glob("*config.json"):
        shutil.copyfile(path, folder / path.name)
    return folder


def load_case(folder, case):
    """Returns a model from its written folder, and its expected outputs."""
    return load_model(str(write_case(folder, case))), expected_of(case)


def rows(*lengths, pad_id, seed=0):
    """Returns int32 [len(lengths), max(lengths)] of random tokens, padded on the right."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(FIRST_TOKEN, VOCAB, (len(lengths), max(lengths))).astype(np.int32)
    inside = np.arange(tokens.shape[1]) < np.array(lengths)[:, None]
    return np.where(inside, tokens, pad_id).astype(np.int32)
