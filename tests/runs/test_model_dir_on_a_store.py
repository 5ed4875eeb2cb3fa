"""MODEL_DIR and checkpoints on Google Cloud Storage, emulated on this machine."""

import json

import numpy as np
import pytest

from faith_jax.checkpoints.checkpoint import flatten
from faith_jax.checkpoints.embedded import checkpoint_path, newest_step
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.files.stores import path_of, versions
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.runs.conftest import TINY

STEPS = ("--gin.WARMUP_STEPS=0", "--gin.CHECKPOINT_PERIOD=1")


def upload(source, target):
    """Copies a folder as a user does, without our marker of completion."""
    for path in source.rglob("*"):
        if path.is_file():
            path_of(f"{target}/{path.relative_to(source).as_posix()}").write_bytes(
                path.read_bytes()
            )


def training(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row for row in rows if row["part"] == "train"]


def assert_equal_params(actual, expected):
    actual, expected = flatten(actual), flatten(expected)
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(np.asarray(actual[name]), np.asarray(array), err_msg=name)


@pytest.mark.faults
def test_a_run_on_a_store_is_that_of_a_disk_and_resumes(command, gs, tiny_run, caplog):
    """One command trains the first step, another the second; further commands read the result."""
    folder = f"{gs}/run"
    for steps in (1, 2):
        command.succeeds(*TINY, *STEPS, f"--gin.TRAIN_STEPS={steps}", f"--gin.MODEL_DIR={folder}")
    assert f"Resuming from step 1 of {folder}" in caplog.text
    assert newest_step(folder) == newest_step(tiny_run) == 2
    assert_equal_params(open_checkpoint(folder).params, open_checkpoint(tiny_run).params)
    best = f"{folder}/checkpoints/best"
    assert checkpoint_path(best).parent == path_of(folder) / "checkpoints"
    names = list(versions(path_of(folder)))
    assert not any(".lock" in name or ".writable" in name for name in names)
    assert sum("events.out.tfevents" in name for name in names) >= 2
    on_disk = training(tiny_run / "metrics.jsonl")
    assert training(path_of(f"{folder}/metrics.jsonl")) == on_disk
    # A checkpoint that was being written is not seen.
    for name in ("commit_success.txt", "manifest.json"):
        path_of(f"{folder}/checkpoints/2/{name}").unlink()
    assert newest_step(folder) == 1


@pytest.mark.faults
def test_checkpoints_are_read_from_stores(s3_bucket, tiny_run, tmp_path, monkeypatch):
    monkeypatch.setenv("FAITH_JAX_STAGING", str(tmp_path / "staging"))
    folder = f"{s3_bucket}/{tmp_path.name}"
    upload(checkpoint_path("mini"), f"{folder}/mini")
    opened = open_checkpoint(f"{folder}/mini")
    assert_equal_params(opened.params, open_checkpoint("mini").params)
    assert opened.metadata["source"] == f"{folder}/mini"
    text = "Tea is a leaf."
    assert load_vocabulary(f"{folder}/mini").encode(text) == load_vocabulary("mini").encode(text)
    upload(tiny_run, f"{folder}/run")
    assert_equal_params(open_checkpoint(f"{folder}/run").params, open_checkpoint(tiny_run).params)


def test_orbax_does_not_write_to_s3(command, s3_bucket):
    assert (
        f"{s3_bucket}/run: Orbax cannot write to s3://; let MODEL_DIR be local or on"
        in command.refuses(*TINY, "--gin.TRAIN_STEPS=1", f"--gin.MODEL_DIR={s3_bucket}/run")
    )


@pytest.mark.faults
def test_checkpoints_are_imported_and_exported_on_a_store(command, gs):
    native, exported = f"{gs}/native", f"{gs}/exported"
    upload(checkpoint_path("mini"), f"{gs}/mini")
    for _ in range(2):
        command.succeeds("import-checkpoint", f"{gs}/mini", native, "--overwrite")
        assert_equal_params(open_checkpoint(native).params, open_checkpoint("mini").params)
    command.succeeds("export-checkpoint", native, exported)
    assert_equal_params(open_checkpoint(exported).params, open_checkpoint("mini").params)
    assert f"{gs}/mini is there, and no run has made it; name another output." in command.refuses(
        "import-checkpoint", "mini", f"{gs}/mini", "--overwrite"
    )
    assert_equal_params(open_checkpoint(f"{gs}/mini").params, open_checkpoint("mini").params)
