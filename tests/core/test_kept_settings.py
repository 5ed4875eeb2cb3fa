import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.core.kept_settings import (
    SETTINGS,
    as_json,
    check_same,
    checkpoint_state,
    made_folder,
    read_settings_file,
    write_settings,
)


def test_settings_are_read_as_they_were_written(tmp_path):
    settings = as_json({"seeds": (0, 1), "folder": tmp_path, "scorers": {"näher": {}}})
    write_settings(tmp_path, settings)
    assert read_settings_file(tmp_path / SETTINGS, "scorers") == settings
    assert settings["seeds"] == [0, 1]
    assert settings["folder"] == str(tmp_path)


@pytest.mark.parametrize("text", [None, "", "no json", "[1]", "3", '{"scorers": []}', "{}"])
def test_what_is_no_settings_file(tmp_path, text):
    path = tmp_path / SETTINGS
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=r"settings\.json: not readable; name another --output"):
        read_settings_file(path, "scorers")


def test_another_value_is_named(tmp_path):
    before = {"seed": 0, "model": "a", "former": 1}
    check_same(tmp_path, before, {"seed": 0}, "draws")
    with pytest.raises(ConfigError, match=r"keeps draws with another value of model \(a, not b\)"):
        check_same(tmp_path, before, {"seed": 0, "model": "b"}, "draws")
    with pytest.raises(ConfigError, match=r"another value of later \(None, not 2\)"):
        check_same(tmp_path, before, {"later": 2}, "draws")


def test_the_state_of_a_checkpoint_changes_with_its_files(tmp_path):
    file = tmp_path / "deep" / "model.safetensors"
    file.parent.mkdir()
    file.write_bytes(b"1")
    first = checkpoint_state(str(tmp_path))
    assert checkpoint_state(str(tmp_path)) == first
    file.write_bytes(b"12")
    assert checkpoint_state(str(tmp_path)) != first


def test_a_folder_that_cannot_be_made(tmp_path):
    assert made_folder(tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"--output: .*file: cannot be written \(File exists\)"):
        made_folder(tmp_path / "file")
