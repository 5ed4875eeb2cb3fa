import logging

import numpy as np
import pytest
import safetensors.numpy

from faith_jax.core.errors import CheckpointError
from faith_jax.runs.prompt_start import (
    PROMPT_START,
    prompt_starts,
    read_prompt_starts,
    read_start_origin,
    write_prompt_starts,
)

STARTS = {"encoder_prompt": np.arange(6, dtype=np.float32).reshape(2, 3)}
ORIGIN = {"initializer": "uniform", "seed": "3"}
OTHER = {"encoder_prompt": np.zeros((2, 3), np.float32)}


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, vectors in expected.items():
        np.testing.assert_array_equal(found[name], vectors)


def test_a_new_run_keeps_its_start(tmp_path):
    assert read_prompt_starts(tmp_path) is None
    same(prompt_starts(tmp_path, OTHER, ORIGIN, resumed=False), OTHER)
    same(
        prompt_starts(tmp_path, STARTS, ORIGIN, resumed=False), STARTS
    )  # nothing was trained before
    same(read_prompt_starts(tmp_path), STARTS)
    assert read_start_origin(tmp_path) == ORIGIN
    assert [path.name for path in tmp_path.iterdir()] == [PROMPT_START]


def test_a_run_that_goes_on_has_the_start_that_it_kept(tmp_path):
    assert read_start_origin(tmp_path) == {}
    write_prompt_starts(tmp_path, STARTS)
    assert read_start_origin(tmp_path) == {}
    same(prompt_starts(tmp_path, OTHER, ORIGIN, resumed=True), STARTS)
    same(read_prompt_starts(tmp_path), STARTS)


def test_a_start_that_was_not_kept_is_not_made_up(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="faith_jax"):
        assert prompt_starts(tmp_path, OTHER, ORIGIN, resumed=True) == {}
    assert "does not say where its prompt started" in caplog.text
    assert not list(tmp_path.iterdir())


def test_a_run_without_prompts_keeps_none(tmp_path):
    write_prompt_starts(tmp_path, STARTS)
    assert prompt_starts(tmp_path, {}, ORIGIN, resumed=False) == {}
    assert not list(tmp_path.iterdir())
    assert prompt_starts(tmp_path, {}, ORIGIN, resumed=True) == {}


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"prompt": STARTS["encoder_prompt"]}, "expected the tensors of encoder_prompt"),
        ({"encoder_prompt": np.zeros(3, np.float32)}, r"float32 \[length, embed\]"),
        ({"encoder_prompt": np.zeros((2, 3), np.int32)}, r"float32 \[length, embed\]"),
        (None, "cut short"),
    ],
)
def test_a_broken_file_is_named(tmp_path, tensors, message):
    path = tmp_path / PROMPT_START
    safetensors.numpy.save_file(tensors or STARTS, path)
    if tensors is None:
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=message) as caught:
        read_prompt_starts(tmp_path)
    assert str(caught.value).startswith(str(path))
