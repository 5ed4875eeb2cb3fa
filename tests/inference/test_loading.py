import pathlib

import pytest

from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.inference import CausalModel, load_model
from tests.scoring import tiny_models


@pytest.mark.parametrize("path", [None, "", 3, b"folder", ["folder"]])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(CheckpointError, match=r"^load_model: expected the path of a checkpoint"):
        load_model(path)


def test_paths_of_both_kinds_and_dtypes(tmp_path):
    folder = tiny_models.write_model(tmp_path / "m", "gpt2")
    assert isinstance(load_model(folder), CausalModel)
    assert load_model(pathlib.Path(folder), dtype="bfloat16").config.dtype == "bfloat16"
    for dtype in ("float61", 3):
        with pytest.raises(ConfigError, match=rf"dtype: expected .* got {dtype!r}"):
            load_model(folder, dtype=dtype)
