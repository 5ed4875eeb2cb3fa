import json
import os
import shutil

import numpy as np
import pytest

from faith_jax.checkpoints.checkpoint import Checkpoint, content_hash, flatten
from faith_jax.checkpoints.native import write_native
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.errors import CheckpointError, ConfigError, StorageError
from faith_jax.core.files import atomic_folder
from faith_jax.runs import convert
from faith_jax.runs.convert import export_checkpoint, import_checkpoint
from tests.checkpoints.synthetic import (
    TIED,
    random_tensors,
    stored,
    tiny_params,
    write_folder,
    write_t5x,
)
from tests.models.tiny import TINY

COMPANIONS = {
    "spiece.model": b"\x00pieces",
    "sentencepiece.model": b"\x00pieces too",
    "vocab.txt": b"[UNK]\n",
    "chat_template.jinja": b"{{ messages }}",
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b'{"eos_token": "</s>"}',
    "special_tokens_map.json": b"{ }",
    "generation_config.json": b'{"eos_token_id": 1}\n',
}


@pytest.fixture
def source(tmp_path):
    folder = write_folder(tmp_path / "source", random_tensors(TIED), TIED)
    for name, content in COMPANIONS.items():
        (folder / name).write_bytes(content)
    (folder / "training_args.bin").write_bytes(b"not ours to copy")
    return folder


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_hugging_face_to_ours_and_back(tmp_path, source):
    ours, exported = tmp_path / "ours", tmp_path / "theirs"
    import_checkpoint(str(source), str(ours))
    assert names(ours) == {"model.json", "manifest.json", "params", *COMPANIONS}
    export_checkpoint(str(ours), str(exported))
    assert names(exported) == {"config.json", "manifest.json", "model.safetensors", *COMPANIONS}
    assert stored(exported) == stored(source)
    for name, content in COMPANIONS.items():
        assert (exported / name).read_bytes() == content
    assert names(tmp_path) == {"source", "ours", "theirs"}


def test_t5x_to_ours_and_to_hugging_face(tmp_path):
    config = TINY.replace(relative_attention_max_distance=128)
    params = tiny_params(config)
    write_t5x(tmp_path / "run" / "checkpoint_7", params)
    import_checkpoint(str(tmp_path / "run"), str(tmp_path / "new" / "ours"))
    export_checkpoint(str(tmp_path / "run" / "checkpoint_7"), str(tmp_path / "theirs"))
    for folder in (tmp_path / "new" / "ours", tmp_path / "theirs"):
        checkpoint = open_checkpoint(folder)
        assert checkpoint.config == config
        assert content_hash(checkpoint.params) == content_hash(params)


def test_a_target_that_exists_is_replaced_only_where_asked(tmp_path, source):
    target = write_folder(tmp_path / "target", random_tensors(seed=1))
    before = stored(target)
    with pytest.raises(ConfigError, match="--overwrite"):
        export_checkpoint(str(source), str(target))
    assert stored(target) == before
    export_checkpoint(str(source), str(target), overwrite=True)
    assert stored(target) == stored(source)
    import_checkpoint(str(source), str(target), overwrite=True)
    assert names(target) == {"model.json", "manifest.json", "params", *COMPANIONS}
    assert names(tmp_path) == {"source", "target"}


def test_overwrite_replaces_nothing_but_checkpoints(tmp_path, source):
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="is no checkpoint"):
        export_checkpoint(str(source), str(home), overwrite=True)
    with pytest.raises(ConfigError, match="is a file"):
        export_checkpoint(str(source), str(home / "thesis.txt"), overwrite=True)
    assert (home / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_stream_is_no_target(source, overwrite):
    for target, kind in (("-", "standard output"), ("/dev/null", "a device")):
        with pytest.raises(ConfigError, match=f"^{target}: {kind} is no place for an output that"):
            export_checkpoint(str(source), target, overwrite)


def test_overwrite_does_not_lose_the_source(tmp_path, source):
    before = stored(source)
    inner = shutil.copytree(source, source / "inner")
    for inside in (source, inner):
        with pytest.raises(ConfigError, match="SOURCE"):
            import_checkpoint(str(inside), str(source), overwrite=True)
    assert stored(source) == before


@pytest.mark.parametrize("run", [import_checkpoint, export_checkpoint])
def test_a_failure_leaves_the_target_as_it_was(tmp_path, source, monkeypatch, run):
    target = write_folder(tmp_path / "target", random_tensors(seed=1))
    before = stored(target)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(convert.hugging_face, "copy_companions", full)
    with pytest.raises(StorageError, match=r"cannot be written \(No space left on device\)"):
        run(str(source), str(target), overwrite=True)
    assert stored(target) == before
    with pytest.raises(StorageError):
        run(str(source), str(tmp_path / "other"))
    assert names(tmp_path) == {"source", "target"}


def test_parameters_rounded_to_bfloat16(tmp_path):
    config = TINY.replace(relative_attention_max_distance=128)
    params = tiny_params(config)
    write_native(Checkpoint(config, params), tmp_path / "ours")
    export_checkpoint(str(tmp_path / "ours"), str(tmp_path / "half"), dtype="bfloat16")
    checkpoint = open_checkpoint(tmp_path / "half")
    whole, half = flatten(params), flatten(checkpoint.params)
    assert {array.dtype.name for array in half.values()} == {"bfloat16"}
    for name, array in half.items():
        np.testing.assert_allclose(np.float32(array), whole[name], rtol=2**-8)
    assert json.loads((tmp_path / "half" / "config.json").read_text())["dtype"] == "bfloat16"
    export_checkpoint(str(tmp_path / "half"), str(tmp_path / "again"), dtype="float32")
    assert {dtype for dtype, _, _ in stored(tmp_path / "again").values()} == {"F32"}
    assert json.loads((tmp_path / "again" / "config.json").read_text())["dtype"] == "float32"
    assert names(tmp_path) == {"ours", "half", "again"}


# Through the command line.


@pytest.fixture
def refuses(command):
    """Runs a command that must exit with 2, one line and no target; returns the line."""

    def run(target, *arguments):
        status, _, err = command(*arguments)
        assert status == 2, err
        assert "Traceback" not in err
        assert err.count("\n") == 1, err
        assert err.startswith("faith-jax: ")
        assert not target.exists()
        return err

    return run


def test_commands_convert(command, tmp_path, source):
    ours, exported = tmp_path / "ours", tmp_path / "theirs"
    assert command("import-checkpoint", source, ours) == (0, f"{ours}\n", "")
    assert command("export-checkpoint", ours, exported) == (0, f"{exported}\n", "")
    assert stored(exported) == stored(source)


def test_commands_refuse_a_truncated_file(refuses, tmp_path, source):
    path = source / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    target = tmp_path / "target"
    line = refuses(target, "import-checkpoint", source, target)
    assert "the tensor shared.weight" in line


def test_an_adapter_of_a_method_that_is_not_read_is_named(tmp_path):
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "ADALORA"}')
    with pytest.raises(CheckpointError, match=r'"ADALORA".*this method is not read; .*merge'):
        import_checkpoint(str(tmp_path), str(tmp_path / "out"), base="mini")


def test_the_old_target_is_put_back_where_the_new_one_cannot_be_renamed(
    tmp_path, source, monkeypatch
):
    target = write_folder(tmp_path / "target", random_tensors(seed=1))
    before, replace = stored(target), os.replace

    def refuse(old, new):
        if str(old).endswith("target.partial/made"):
            raise OSError(13, "Permission denied")
        replace(old, new)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(ConfigError, match="Permission denied"):
        export_checkpoint(str(source), str(target), overwrite=True)
    assert stored(target) == before
    assert names(tmp_path) == {"source", "target"}


def test_leftovers_of_a_killed_conversion_do_not_matter(tmp_path, source):
    with atomic_folder(tmp_path / "target", "a checkpoint"):
        shutil.copytree(tmp_path / "target.partial", tmp_path / "left")
    assert names(tmp_path) == {"source", "left"}
    (tmp_path / "left").rename(tmp_path / "target.partial")
    (tmp_path / "target.partial" / "made").mkdir()
    (tmp_path / "target.partial" / "made" / "junk").write_text("of a run that was killed")
    (tmp_path / "target").mkdir()
    import_checkpoint(str(source), str(tmp_path / "target"), overwrite=True)
    assert names(tmp_path) == {"source", "target"}
    assert names(tmp_path / "target") == {"model.json", "manifest.json", "params", *COMPANIONS}
