"""The identity of a checkpoint, in all formats."""

import os
import shutil

import numpy as np
import pytest

from faith_jax.checkpoints import identity
from faith_jax.checkpoints.checkpoint import Checkpoint
from faith_jax.checkpoints.hugging_face.folder import write_huggingface
from faith_jax.checkpoints.identity import (
    checkpoint_digest,
    checkpoint_stamp,
    opened_path,
    pin_step,
)
from faith_jax.checkpoints.native import write_model_json, write_native
from faith_jax.core.errors import CheckpointError
from faith_jax.core.files.stores import path_of
from faith_jax.models.config import TransformerConfig
from tests.checkpoints.synthetic import tiny_params, write_t5x
from tests.models.tiny import TINY
from tests.stores import record_requests

MODEL = Checkpoint(TINY, tiny_params(TINY))


def write_run(folder, steps):
    """Writes the files of a training run that are read; parameters are bytes that nobody opens."""
    folder.mkdir()
    write_model_json(folder, Checkpoint(TINY, {}))
    for step, content in steps.items():
        place = folder / "checkpoints" / str(step) / "params"
        place.mkdir(parents=True)
        (place / "data").write_bytes(content)
    return folder


def imported(folder):
    write_native(MODEL, folder)
    return folder / "params"


def published(folder):
    write_huggingface(MODEL, folder)
    return folder / "model.safetensors"


def of_t5x(folder):
    write_t5x(folder / "checkpoint_7", MODEL.params)
    return folder / "checkpoint_7"


@pytest.mark.parametrize(("write", "step"), [(imported, None), (published, None), (of_t5x, 7)])
def test_a_copy_is_the_same_and_a_change_is_not(tmp_path, write, step):
    weights = write(tmp_path / "one")
    (tmp_path / "one" / "manifest.json").unlink(missing_ok=True)
    digest = checkpoint_digest(tmp_path / "one")
    assert digest["step"] == step
    shutil.copytree(tmp_path / "one", tmp_path / "copy", copy_function=shutil.copyfile)
    (tmp_path / "copy" / "README.md").write_text("A note.")
    assert checkpoint_digest(tmp_path / "copy") == digest
    stamp = checkpoint_stamp(tmp_path / "one")
    (tmp_path / "one" / "README.md").write_text("A note.")
    assert checkpoint_stamp(tmp_path / "one") == stamp
    files = [weights] if weights.is_file() else [p for p in weights.rglob("*") if p.is_file()]
    largest = max(files, key=lambda path: path.stat().st_size)
    changed = bytearray(largest.read_bytes())
    changed[-1] ^= 1
    largest.write_bytes(changed)
    assert checkpoint_digest(tmp_path / "one")["digest"] != digest["digest"]
    path, stamps = checkpoint_stamp(tmp_path / "one")
    assert path == stamp[0] == str(tmp_path / "one")
    assert stamps != stamp[1]


def test_a_stamp_of_a_store_is_one_listing(store, monkeypatch):
    folder = path_of(f"{store}/m")
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes(b"one")
    requests = record_requests(monkeypatch)
    stamp = checkpoint_stamp(str(folder))
    assert len(requests) == 1
    assert checkpoint_stamp(str(folder)) == stamp
    assert stamp[0] == str(folder)
    assert [name for name, _ in stamp[1]] == ["config.json", "model.safetensors"]
    (folder / "metrics.jsonl").write_bytes(b"{}")  # a run goes on
    assert checkpoint_stamp(str(folder)) == stamp
    (folder / "model.safetensors").write_bytes(b"two")
    assert checkpoint_stamp(str(folder)) != stamp


def test_the_tokenizer_counts(tmp_path):
    published(tmp_path / "one")
    first = checkpoint_digest(tmp_path / "one")
    (tmp_path / "one" / "tokenizer.json").write_text("{}")
    assert checkpoint_digest(tmp_path / "one") != first


def test_the_model_counts_and_its_place_does_not(tmp_path):
    run = write_run(tmp_path / "run", {3: b"3"})
    first = checkpoint_digest(run)
    base, stamps = {"path": "/a", "content_hash": "a" * 64}, {checkpoint_stamp(run)}
    digests = []
    for changed in ({}, base, base | {"path": "/b"}, base | {"content_hash": "b" * 64}):
        write_model_json(run, Checkpoint(TINY, {}, {"source": "/c"}, base=changed or None))
        digests.append(checkpoint_digest(run))
        stamps.add(checkpoint_stamp(run))
    assert len(stamps) > 2  # a model that was opened is opened again
    assert digests[0] == first
    assert digests[1] == digests[2]
    assert len({entry["digest"] for entry in digests}) == 3
    write_model_json(run, Checkpoint(TINY.replace(max_positions=77), {}))
    assert checkpoint_digest(run) != first


def test_fields_that_a_later_version_adds_do_not_count(tmp_path, monkeypatch):
    """A run that an earlier version started with a model continues with it."""
    run = write_run(tmp_path / "run", {3: b"3"})
    first, to_dict = checkpoint_digest(run), TransformerConfig.to_dict
    monkeypatch.setattr(TransformerConfig, "to_dict", lambda self: {**to_dict(self), "later": 0})
    assert checkpoint_digest(run) == first


def test_an_embedded_model():
    digest = checkpoint_digest("mini")
    assert digest["step"] is None
    assert digest == checkpoint_digest(pin_step("mini", None))
    assert opened_path("mini") == "mini"


def test_the_step_of_a_run(tmp_path):
    run = write_run(tmp_path / "run", {3: b"three", 20: b"twenty"})
    newest = checkpoint_digest(run)
    assert newest == checkpoint_digest(run / "checkpoints" / "20")
    assert newest["step"] == 20
    third = checkpoint_digest(pin_step(run, 3))
    assert third["step"] == 3
    assert third["digest"] != newest["digest"]
    (run / "checkpoints" / "3" / "opt_state").mkdir()
    (run / "checkpoints" / "3" / "opt_state" / "data").write_bytes(b"moments")
    assert checkpoint_digest(run / "checkpoints" / "3") == third
    (run / "checkpoints" / "3" / "metrics").mkdir()
    (run / "checkpoints" / "3" / "metrics" / "metrics").write_text('{"loss": 1.0}')
    best = run / "checkpoints" / "best"
    assert checkpoint_digest(best) == third
    (run / "checkpoints" / "20" / "metrics").mkdir()
    (run / "checkpoints" / "20" / "metrics" / "metrics").write_text('{"loss": 0.5}')
    assert checkpoint_digest(best)["step"] == 20
    assert pin_step(best, 3) == run / "checkpoints" / "3"
    for path in (run, best, run / "checkpoints" / "20"):
        assert opened_path(path) == str(run / "checkpoints" / "20")


def test_a_run_is_resumed_with_its_step_or_not_at_all(tmp_path):
    run = write_run(tmp_path / "run", {3: b"3", 20: b"20"})
    assert pin_step(run, 20) == run / "checkpoints" / "20"
    shutil.rmtree(run / "checkpoints" / "3")
    with pytest.raises(CheckpointError, match=r"began with step 3, .* gone; step 20 is there now"):
        pin_step(run, 3)
    with pytest.raises(CheckpointError, match="began with step 3"):
        pin_step(run / "checkpoints" / "20", 3)
    with pytest.raises(CheckpointError, match=r"began with no step, .* step 20 is there"):
        pin_step(run, None)


def test_the_step_of_t5x(tmp_path):
    for step in (5, 10):
        write_t5x(tmp_path / f"checkpoint_{step}", MODEL.params)
    assert checkpoint_digest(tmp_path)["step"] == 10
    assert opened_path(tmp_path) == str(tmp_path / "checkpoint_10")
    assert pin_step(tmp_path, 5) == tmp_path / "checkpoint_5"
    assert pin_step(tmp_path, 10) == tmp_path / "checkpoint_10"
    assert checkpoint_digest(tmp_path / "checkpoint_5" / "checkpoint")["step"] == 5
    with pytest.raises(CheckpointError, match=r"began with step 6, .* step 10 is there now"):
        pin_step(tmp_path, 6)


def test_nothing_is_there(tmp_path):
    with pytest.raises(CheckpointError, match="there is no such checkpoint"):
        checkpoint_digest(tmp_path / "none")


def test_a_large_checkpoint_is_sampled(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run", {1: bytes(1000)})
    data = run / "checkpoints" / "1" / "params" / "data"
    monkeypatch.setattr(identity, "_WHOLE_BYTES", 999)
    monkeypatch.setattr(identity, "_END_BYTES", 100)
    monkeypatch.setattr(identity, "_BLOCK_BYTES", 10)
    monkeypatch.setattr(identity, "_BLOCKS", 8)
    first = checkpoint_digest(run)
    noticed = []
    places = range(0, 1000, 7)
    for place in places:
        content = bytearray(1000)
        content[place] = 1
        data.write_bytes(content)
        noticed.append(checkpoint_digest(run) != first)
    expected = np.zeros(1000, bool)
    expected[:100] = expected[900:] = True
    for start in range(100, 900, 100):
        expected[start : start + 10] = True
    np.testing.assert_array_equal(noticed, expected[places])
    os.truncate(data, 999)
    assert checkpoint_digest(run) != first
