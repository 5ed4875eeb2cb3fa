"""Descriptions of folders without a readable checkpoint, with a remedy."""

import pathlib

from faith_jax.checkpoints.native import METADATA

_SHOWN = 8
_SAVE = "and save_pretrained(NEW_FOLDER)"
_PICKLED = "pickled weights are not read, because unpickling can run any code; save them with "
# Patterns of file names, with a description and a remedy; the first match is used.
_FORMS = (
    (
        ("pytorch_model*.bin*", "*.pt", "*.pth"),
        f"{_PICKLED}safetensors: with Transformers, from_pretrained(FOLDER) {_SAVE} do that",
    ),
    (
        ("adapter_model.bin",),
        f"{_PICKLED}safetensors: with PEFT, PeftModel.from_pretrained(BASE_MODEL, FOLDER) {_SAVE} "
        "do that",
    ),
    (
        ("tf_model*.h5",),
        "weights of Transformers' TensorFlow classes, which are not read; convert them with "
        f"Transformers 4, from_pretrained(FOLDER, from_tf=True) {_SAVE}",
    ),
    (
        ("model.ckpt*.index", "*.ckpt*.index"),
        "a TensorFlow checkpoint, such as those of the first T5, which is not read; convert it "
        "with T5X's scripts/convert_tf_checkpoint.py",
    ),
    (
        ("*.gguf", "ggml*.bin", "*.onnx", "saved_model.pb", "*.tflite"),
        "a form for inference by other programs, which is not read; take the model's own weights",
    ),
    (("*.msgpack",), "a msgpack file of another name; Flax's weights are flax_model.msgpack"),
    (
        ("model-*-of-*.safetensors",),
        "one of several files of weights, whose index, model.safetensors.index.json, is missing; "
        "copy it from where the files are from",
    ),
    (("*.safetensors",), "safetensors of another name; weights are model.safetensors"),
    (("*.npz", "*.npy"), "NumPy's arrays, no model; a prompt's .npy goes to import-prompt"),
    (("*.bin", "*.ckpt"), "mostly pickled weights, which are not read; save them with safetensors"),
)


def describe_contents(folder: pathlib.Path) -> str:
    """Returns a description of a folder: weights in an unsupported form, or the names in it."""
    for patterns, description in _FORMS:
        name = next((path.name for p in patterns for path in sorted(folder.glob(p))), "")
        if name:
            return f"{name} is there: {description}"
    if (folder / METADATA).is_file():
        return "it is a folder of Orbax's, but of no parameters that are known here"
    names = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
    if not names:
        return "the folder is empty"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"it has {', '.join(names[:_SHOWN])}{more}"
