import shutil

import pytest

from faith_jax.checkpoints.contents import describe_contents
from faith_jax.checkpoints.hugging_face.folder import write_huggingface
from tests.checkpoints.test_open import CHECKPOINT, error_of


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("pytorch_model.bin", ["pickled", "from_pretrained(FOLDER)"]),
        ("tf_model.h5", ["Transformers 4", "from_tf=True"]),
        ("model.ckpt-1000000.index", ["TensorFlow checkpoint", "convert_tf_checkpoint"]),
        ("model-00001-of-00002.safetensors", ["model.safetensors.index.json, is missing"]),
        ("prompt.npy", ["import-prompt"]),
        ("notes.txt", ["it has notes.txt."]),
        ("checkpoint-500/config.json", ["checkpoint-500/ is one; give its path"]),
        ("snapshots/1f2e/config.json", ["snapshots/1f2e/ is one; give its path"]),
        (None, ["the folder is empty"]),
    ],
)
def test_a_folder_is_named_for_what_lies_there(tmp_path, name, parts):
    if name is not None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    if name in ("pytorch_model.bin", "tf_model.h5", "model-00001-of-00002.safetensors"):
        write_huggingface(CHECKPOINT, tmp_path / "whole")
        (tmp_path / "whole" / "config.json").rename(tmp_path / "config.json")
        shutil.rmtree(tmp_path / "whole")
    message = error_of(tmp_path)
    if name and "/" not in name:
        assert name in message
    for part in parts:
        assert part in message


def test_many_names_are_cut(tmp_path):
    for i in range(10):
        (tmp_path / f"{i}.txt").write_text("")
    assert describe_contents(tmp_path).endswith("6.txt, 7.txt and 2 more")
