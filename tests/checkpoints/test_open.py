import shutil

import pytest

from faith_jax.checkpoints import embedded
from faith_jax.checkpoints.checkpoint import Checkpoint
from faith_jax.checkpoints.hugging_face.folder import write_huggingface
from faith_jax.checkpoints.native import write_model_json, write_native
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.errors import CheckpointError
from tests.checkpoints.synthetic import tiny_params, write_t5x
from tests.models.tiny import TINY

CONFIG = TINY.replace(relative_attention_max_distance=128)
CHECKPOINT = Checkpoint(CONFIG, tiny_params(CONFIG))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("formats")
    write_native(CHECKPOINT, folder / "ours")
    write_huggingface(CHECKPOINT, folder / "huggingface")
    write_t5x(folder / "t5x" / "checkpoint_7", CHECKPOINT.params)
    return folder


@pytest.mark.parametrize("name", ["ours", "huggingface", "t5x", "t5x/checkpoint_7"])
def test_every_form_is_recognised(folders, name):
    for path in (folders / name, str(folders / name)):
        checkpoint = open_checkpoint(path)
        assert checkpoint.config == CONFIG
        assert "encoder" in checkpoint.params
    assert open_checkpoint(folders / name, config=CONFIG).config == CONFIG
    with pytest.raises(CheckpointError, match=r"mlp/w.* \(8, 16\)|mlp/w.* \(16, 8\)"):
        open_checkpoint(folders / name, config=CONFIG.replace(mlp_dim=12))


def test_a_folder_within_a_run_is_what_it_holds(tmp_path, folders):
    write_model_json(tmp_path, Checkpoint(TINY.replace(vocab_size=99), {}))
    inner = shutil.copytree(folders / "huggingface", tmp_path / "exports" / "huggingface")
    assert open_checkpoint(inner).config == CONFIG


def test_embedded_models_are_found_by_name(tmp_path, folders, monkeypatch):
    place = tmp_path / "embedded"
    shutil.copytree(folders / "huggingface", place / "t5_mini")
    (place / "notes").mkdir()
    monkeypatch.setattr(embedded, "_FOLDER", place)
    assert embedded.embedded_models() == ["t5_mini"]
    assert open_checkpoint("t5_mini").config == CONFIG
    with pytest.raises(CheckpointError, match="Did you mean 't5_mini'"):
        open_checkpoint("t5_mimi")


def error_of(path):
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_missing_path_gets_the_nearest_names(folders):
    message = error_of(folders / "huggingfac")
    assert "there is no such checkpoint" in message
    assert "'huggingface'" in message
    assert "there is no such checkpoint" in error_of(folders / "no" / "such" / "folder")


def test_only_checkpoints_are_suggested(folders, tmp_path):
    (tmp_path / ".zebra_notes").write_text("")
    (tmp_path / "zebra_data").mkdir()
    assert "Did you mean" not in error_of(tmp_path / "zebra")
    shutil.copytree(folders / "huggingface", tmp_path / "zebra_t5")
    assert "Did you mean 'zebra_t5'?" in error_of(tmp_path / "zebra")


def test_an_unknown_name_is_told_what_is_accepted(tmp_path, monkeypatch, folders):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(embedded, "_FOLDER", tmp_path / "embedded")
    message = error_of("mini")
    for expected in ("mini: there is no such checkpoint", "Hugging Face", "T5X", "MODEL_DIR"):
        assert expected in message
    shutil.copytree(folders / "huggingface", tmp_path / "embedded" / "t5_mini")
    monkeypatch.setattr(embedded, "_FOLDER", tmp_path / "embedded")
    assert "the package's models: t5_mini" in error_of("mini")
    command = "hf download google/flan-t5-small --local-dir checkpoints/flan-t5-small"
    assert command in error_of("google/flan-t5-small")
    assert "hf download" not in error_of("checkpoints/flan-t5-small")


def test_a_folder_of_other_things_and_a_file(tmp_path, folders):
    message = error_of(tmp_path)
    for expected in ("config.json", "a file named checkpoint", "model.json"):
        assert expected in message
    assert "give the folder" in error_of(folders / "huggingface" / "model.safetensors")
