"""Checkpoints of random numbers in the formats of other libraries, written without our writers."""

import json
import tarfile

import flax.serialization
import jax
import numpy as np
import orbax.checkpoint as ocp
import safetensors.numpy
import tensorstore

from faith_jax.checkpoints.checkpoint import flatten, unflatten
from tests.models.tiny import model_and_params
from tests.paths import REPOSITORY

VOCAB, EMBED, HEADS, HEAD_DIM, MLP, BUCKETS = 24, 6, 2, 4, 10, 8
UNUSED = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
CONFIG = {
    "architectures": ["T5ForConditionalGeneration"],
    "d_ff": MLP,
    "d_kv": HEAD_DIM,
    "d_model": EMBED,
    "feed_forward_proj": "gated-gelu",
    "model_type": "t5",
    "num_decoder_layers": 1,
    "num_heads": HEADS,
    "num_layers": 2,
    "relative_attention_max_distance": 12,
    "relative_attention_num_buckets": BUCKETS,
    "tie_word_embeddings": False,
    "vocab_size": VOCAB,
}
TIED = CONFIG | {"feed_forward_proj": "relu", "tie_word_embeddings": True}


def tensor_shapes(config=CONFIG):
    """Returns the shapes of a T5's tensors, by T5's names: 2 encoder layers, 1 decoder layer."""
    inner = HEADS * HEAD_DIM
    wi = ["wi_0", "wi_1"] if config["feed_forward_proj"].startswith("gated") else ["wi"]
    shapes = {"shared.weight": (VOCAB, EMBED)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (VOCAB, EMBED)
    blocks = {
        "encoder.block.0": ["SelfAttention"],
        "encoder.block.1": ["SelfAttention"],
        "decoder.block.0": ["SelfAttention", "EncDecAttention"],
    }
    for block, attentions in blocks.items():
        for i, attention in enumerate(attentions):
            shapes |= {f"{block}.layer.{i}.{attention}.{x}.weight": (inner, EMBED) for x in "qkv"}
            shapes[f"{block}.layer.{i}.{attention}.o.weight"] = (EMBED, inner)
            shapes[f"{block}.layer.{i}.layer_norm.weight"] = (EMBED,)
        last = f"{block}.layer.{len(attentions)}"
        shapes |= {f"{last}.DenseReluDense.{x}.weight": (MLP, EMBED) for x in wi}
        shapes[f"{last}.DenseReluDense.wo.weight"] = (EMBED, MLP)
        shapes[f"{last}.layer_norm.weight"] = (EMBED,)
    for stack in ("encoder", "decoder"):
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        shapes[bias] = (BUCKETS, HEADS)
        shapes[f"{stack}.final_layer_norm.weight"] = (EMBED,)
    return shapes


def random_tensors(config=CONFIG, dtype=np.float32, seed=0):
    """Returns tensors of random bits whose numbers are all finite."""
    rng = np.random.default_rng(seed)
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")

    def draw(shape):
        numbers = rng.integers(0, np.iinfo(bits).max, shape, bits, endpoint=True)
        values = numbers.view(dtype)
        return np.where(np.isfinite(values.astype(np.float32)), values, values.dtype.type(0.75))

    return {name: draw(shape) for name, shape in tensor_shapes(config).items()}


def write_folder(folder, tensors, config=CONFIG, shards=1):
    """Writes config.json and the tensors, with `shards` > 1 in several files with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if shards == 1:
        safetensors.numpy.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        return folder
    placed = {}
    for i, names in enumerate(np.array_split(sorted(tensors), shards), 1):
        file = f"model-{i:05d}-of-{shards:05d}.safetensors"
        part = {str(name): tensors[str(name)] for name in names}
        safetensors.numpy.save_file(part, folder / file, {"format": "pt"})
        placed |= dict.fromkeys(part, file)
    total = sum(array.nbytes for array in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": placed}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def stored(folder):
    """Returns {name: (dtype, shape, bytes)} of a folder's tensors, read by `safetensors`."""
    stored_tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        for name, tensor in safetensors.deserialize(file.read_bytes()):
            assert name not in stored_tensors
            stored_tensors[name] = (tensor["dtype"], tuple(tensor["shape"]), bytes(tensor["data"]))
    return stored_tensors


def write_t5x(folder, params, in_file=("scale",), chunks=2):
    """Writes checkpoint_<step> as T5X does: chunked zarr arrays, and small arrays in the file."""
    folder.mkdir(parents=True)
    target = {}
    for name, array in flatten(params).items():
        if name.endswith(in_file):
            target[name] = np.asarray(array)
            continue
        place = f"target.{name.replace('/', '.')}"
        metadata = {
            "compressor": {"id": "gzip", "level": 1},
            "shape": list(array.shape),
            "chunks": [max(1, n // chunks) for n in array.shape],
        }
        spec = {"driver": "zarr", "dtype": array.dtype.name, "metadata": metadata}
        driver_spec = {"kvstore": {"driver": "file", "path": f"{folder / place}/"}}
        tensorstore.open(spec | driver_spec, create=True).result().write(array).result()
        # T5X writes the path relative to the checkpoint.
        target[name] = spec | {"kvstore": {"driver": "file", "path": f"{place}/"}}
    state = {"state": {"step": np.int32(7)}, "target": unflatten(target)}
    # Lists stay lists, as in T5X.
    content = flax.serialization.msgpack_serialize({"version": 3, "optimizer": state})
    (folder / "checkpoint").write_bytes(content)
    return folder


def write_t5x_orbax(folder, params, step=7):
    """Writes checkpoint_<step> as T5X's train.py does by default: its whole state with Orbax."""
    state = {
        "state": {
            "step": np.int32(step),
            "param_states": {"token_embedder": {"embedding": {"v": np.ones(3, np.float32)}}},
        },
        "target": params,
    }
    handlers = {"state": ocp.PyTreeCheckpointHandler(use_ocdbt=True)}
    options = ocp.CheckpointManagerOptions(step_prefix="checkpoint")
    with ocp.CheckpointManager(folder, options=options, item_handlers=handlers) as manager:
        save_args = jax.tree.map(lambda _: ocp.SaveArgs(), state)
        saved = ocp.args.PyTreeSave(state, save_args=save_args)
        manager.save(step, args=ocp.args.Composite(state=saved))
    return folder / f"checkpoint_{step}"


def unpack_t5x(folder):
    """Writes the checkpoint that T5X itself wrote (tools/compare_with_t5x.py); returns `folder`."""
    with tarfile.open(REPOSITORY / "tests/testdata/t5x_checkpoint.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def tiny_params(config):
    """Returns NumPy parameters of a tiny model."""
    return unflatten({n: np.asarray(a) for n, a in flatten(model_and_params(config)[1]).items()})
