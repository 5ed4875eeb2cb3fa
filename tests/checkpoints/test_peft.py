import json

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.checkpoints.peft import (
    DECODER_ONLY,
    ENCODER_DECODER,
    embedding_scale,
    is_peft,
    read_peft_prompt,
    write_peft_prompt,
)
from faith_jax.core.errors import CheckpointError
from tests.models.tiny import TINY

VECTORS = np.linspace(-1, 1, 6 * 8, dtype=np.float32).reshape(6, 8)
# As PEFT 0.21.2 saves a prompt of three vectors of a T5.
FIELDS = {
    "auto_mapping": None,
    "base_model_name_or_path": "google/t5-v1_1-small",
    "inference_mode": True,
    "modules_to_save": None,
    "num_attention_heads": 2,
    "num_layers": 2,
    "num_transformer_submodules": 2,
    "num_virtual_tokens": 3,
    "peft_type": "PROMPT_TUNING",
    "peft_version": "0.21.2",
    "prompt_tuning_init": "RANDOM",
    "prompt_tuning_init_text": None,
    "revision": None,
    "task_type": "SEQ_2_SEQ_LM",
    "token_dim": 8,
    "tokenizer_kwargs": None,
    "tokenizer_name_or_path": None,
}
CAUSAL = {"task_type": "CAUSAL_LM", "num_transformer_submodules": 1, "num_virtual_tokens": 6}


def write_peft(folder, changes=None, vectors=VECTORS, name="prompt_embeddings"):
    """Writes a folder as PEFT's `save_pretrained` does."""
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(FIELDS | (changes or {}), indent=2))
    tensors = {name: vectors} if isinstance(vectors, np.ndarray) else vectors
    file = folder / "adapter_model.safetensors"
    safetensors.numpy.save_file(tensors, file, metadata={"format": "pt"})
    (folder / "README.md").write_text("a model card")
    return folder


@pytest.mark.parametrize(
    ("changes", "count", "task_type"),
    [
        ({}, 3, ENCODER_DECODER),  # the decoder's three are of no use to PEFT
        ({"num_transformer_submodules": None}, 3, ENCODER_DECODER),
        ({"num_transformer_submodules": 1, "num_virtual_tokens": 6}, 6, ENCODER_DECODER),
        ({"peft_type": "P_TUNING", "encoder_hidden_size": 16}, 3, ENCODER_DECODER),
        (CAUSAL, 6, DECODER_ONLY),
        (CAUSAL | {"num_transformer_submodules": None}, 6, DECODER_ONLY),
        ({"num_virtual_tokens": 6, "num_transformer_submodules": 1, "task_type": None}, 6, ""),
    ],
)
def test_what_peft_wrote_is_read(tmp_path, changes, count, task_type):
    folder = write_peft(tmp_path / "peft", changes)
    assert is_peft(folder)
    assert not is_peft(tmp_path)
    prompt = read_peft_prompt(folder)
    assert prompt.vectors.dtype == np.float32
    np.testing.assert_array_equal(prompt.vectors, VECTORS[:count])
    assert (prompt.task_type, prompt.base) == (task_type, "google/t5-v1_1-small")


def test_halves_are_read(tmp_path):
    halves = VECTORS.astype(ml_dtypes.bfloat16)
    folder = write_peft(tmp_path / "peft", CAUSAL, halves)
    np.testing.assert_array_equal(read_peft_prompt(folder).vectors, halves.astype(np.float32))


@pytest.mark.parametrize(
    ("config", "task_type"),
    [(TINY, ENCODER_DECODER), (TINY.replace(num_encoder_layers=0), DECODER_ONLY)],
)
def test_what_we_wrote_is_in_pefts_form(tmp_path, config, task_type):
    write_peft_prompt(tmp_path, VECTORS, config, "checkpoints/base")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"adapter_config.json", "adapter_model.safetensors"}
    tensors = safetensors.numpy.load_file(tmp_path / "adapter_model.safetensors")
    assert list(tensors) == ["prompt_embeddings"]
    np.testing.assert_array_equal(tensors["prompt_embeddings"], VECTORS)
    fields = json.loads((tmp_path / "adapter_config.json").read_text())
    assert set(fields) <= set(FIELDS)
    assert fields["peft_type"] == "PROMPT_TUNING"
    assert fields["task_type"] == task_type
    assert (fields["num_virtual_tokens"], fields["token_dim"]) == (6, 8)
    assert fields["num_transformer_submodules"] == 1
    assert fields["base_model_name_or_path"] == "checkpoints/base"
    prompt = read_peft_prompt(tmp_path)
    np.testing.assert_array_equal(prompt.vectors, VECTORS)
    assert (prompt.task_type, prompt.base) == (task_type, "checkpoints/base")


def test_prompts_are_in_the_units_of_the_embeddings():
    assert embedding_scale(TINY) == 1
    assert embedding_scale(TINY.replace(scale_embeddings=True, emb_dim=16)) == 4


def truncate(folder):
    path = folder / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])


def pickle_only(folder):
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")


@pytest.mark.parametrize(
    ("changes", "vectors", "damage", "parts"),
    [
        ({"peft_type": "LORA"}, VECTORS, None, ["'peft_type'", "import-checkpoint", '"LORA"']),
        ({"peft_type": None}, VECTORS, None, ["without 'peft_type'"]),
        ({"task_type": "SEQ_CLS"}, VECTORS, None, ["'task_type'", '"SEQ_CLS"']),
        ({"num_virtual_tokens": 5}, VECTORS, None, ["(6, 8)", "(10, 8)"]),
        ({"num_virtual_tokens": "3"}, VECTORS, None, ["'num_virtual_tokens'", '"3"']),
        ({"num_transformer_submodules": 3}, VECTORS, None, ["expected one of 1, 2, got 3"]),
        (CAUSAL | {"num_transformer_submodules": 2}, VECTORS, None, ["(6, 8)", "(12, 8)"]),
        ({}, np.where(VECTORS > 0.9, np.nan, VECTORS), None, ["finite", "vector 5"]),
        ({}, VECTORS.astype(np.int32), None, ["int32"]),
        ({}, {"base.lora_A.weight": VECTORS}, None, ["prompt_embeddings", "lora_A"]),
        ({}, VECTORS, truncate, ["adapter_model.safetensors", "cut short"]),
        ({}, VECTORS, pickle_only, ["adapter_model.bin", "pickled"]),
        ({}, VECTORS, lambda f: (f / "adapter_model.safetensors").unlink(), ["no such file"]),
        ({}, VECTORS, lambda f: (f / "adapter_config.json").unlink(), ["adapter_config.json"]),
    ],
)
def test_bad_folders_are_one_line(tmp_path, changes, vectors, damage, parts):
    folder = write_peft(tmp_path / "peft", changes, vectors)
    if damage is not None:
        damage(folder)
    with pytest.raises(CheckpointError) as caught:
        read_peft_prompt(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(folder))
    for part in parts:
        assert part in message


@pytest.mark.parametrize("name", ["promt_peft", "prompt_peft/adapter_model.safetensors"])
def test_no_folder_of_pefts(tmp_path, name):
    write_peft(tmp_path / "prompt_peft")
    with pytest.raises(CheckpointError, match=rf"{name}: no folder of PEFT's: expected adapter_"):
        read_peft_prompt(tmp_path / name)


def test_an_adapter_is_no_checkpoint(tmp_path):
    folder = write_peft(tmp_path / "peft")
    with pytest.raises(CheckpointError, match="import-prompt"):
        open_checkpoint(folder)
