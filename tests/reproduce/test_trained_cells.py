"""Trainings in processes of their own: real ones of a tiny model, and scripts in their place."""

import json
import shutil
import sys

import pytest

from faith_jax import cli
from faith_jax.core.errors import ConfigError, ProcessError
from faith_jax.reproduce import trained_cells
from faith_jax.reproduce.trained_cells import train_recipe
from faith_jax.scoring.pair_classifier import pair_classifier
from faith_jax.training.checkpoints import newest_step
from tests.scoring import tiny_models

RECIPE = "faith_critic_finetune.gin"


@pytest.fixture(scope="module")
def bindings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "INITIAL_CHECKPOINT_PATH": tiny_models.write_model(folder / "roberta", "roberta"),
        "MIXTURE_OR_TASK_NAME": "faith_critic_sample",
        "TASK_FEATURE_LENGTHS": {"inputs": 40, "targets": 8},
        "LABEL_NAMES": ("unfaithful", "faithful"),
        "TRAIN_STEPS": 4,
        "WARMUP_STEPS": 1,
        "BATCH_SIZE": 4,
        "EVAL_PERIOD": 4,
        "CHECKPOINT_PERIOD": 2,
    }


@pytest.fixture
def instead(monkeypatch):
    """Has a script in the place of the training."""

    def put(script):
        monkeypatch.setattr(trained_cells, "_command", lambda: [sys.executable, "-c", script])

    return put


def test_a_model_is_trained_once_and_goes_on_where_it_stopped(bindings, tmp_path, instead, capfd):
    folder = tmp_path / "critic"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAITH_JAX_DATA_DIR", str(tmp_path / "data"))
        assert train_recipe(RECIPE, bindings, folder) == folder
        assert "New classification head: unfaithful, faithful" in capfd.readouterr().err
        assert newest_step(folder) == 4
        lines = (folder / "metrics.jsonl").read_text()
        shutil.rmtree(folder / "checkpoints" / "4")
        assert newest_step(folder) == 2
        train_recipe(RECIPE, bindings, folder)
        assert "Going on from step 2 of" in capfd.readouterr().err
    assert newest_step(folder) == 4
    # The same training: the loss of its last step is the one before, bit for bit.
    assert (folder / "metrics.jsonl").read_text() == lines
    assert pair_classifier(str(folder)).label_names == ("unfaithful", "faithful")
    # Done is done, and other settings are refused.
    instead("raise SystemExit(1)")
    assert train_recipe(RECIPE, bindings, str(folder)) == folder
    with pytest.raises(ConfigError, match=r"another value of BATCH_SIZE \(4, not 8\); name"):
        train_recipe(RECIPE, {**bindings, "BATCH_SIZE": 8}, folder)
    with pytest.raises(ConfigError, match="another value of recipe"):
        train_recipe("nli_anli_augmented_finetune.gin", bindings, folder)
    kept = json.loads((folder / trained_cells.SETTINGS).read_text())
    assert kept["LABEL_NAMES"] == ["unfaithful", "faithful"]
    (folder / trained_cells.SETTINGS).unlink()
    with pytest.raises(ConfigError, match="another command began"):
        train_recipe(RECIPE, bindings, folder)


def test_other_files_of_the_initial_checkpoint_are_other_settings(tmp_path, instead):
    model, folder = tmp_path / "model", tmp_path / "run"
    model.mkdir()
    instead("")
    train_recipe(RECIPE, {"INITIAL_CHECKPOINT_PATH": str(model)}, folder)
    (folder / "checkpoints" / "2").mkdir(parents=True)
    (folder / "checkpoints" / "4.orbax-checkpoint-tmp").mkdir()
    assert newest_step(folder) == 2
    train_recipe(RECIPE, {"INITIAL_CHECKPOINT_PATH": str(model)}, folder)
    (model / "model.safetensors").write_text("new")
    with pytest.raises(
        ConfigError, match="another value of state of the initial checkpoint's files"
    ):
        train_recipe(RECIPE, {"INITIAL_CHECKPOINT_PATH": str(model)}, folder)


def test_the_command_has_the_values_as_gin_reads_them(tmp_path, instead, capfd):
    instead("import sys; print('\\n'.join(sys.argv[1:]), file=sys.stderr)")
    values = {
        "TRAIN_STEPS": 3,
        "LABEL_NAMES": ("no", "yes"),
        "NAME": "a b",
        "OPTIMIZER": "@o.adam()",
    }
    train_recipe("r.gin", values, tmp_path / "run")
    assert capfd.readouterr().err.splitlines() == [
        "train",
        "--gin_file=r.gin",
        "--gin.TRAIN_STEPS=3",
        "--gin.LABEL_NAMES=('no', 'yes')",
        "--gin.NAME='a b'",
        "--gin.OPTIMIZER=@o.adam()",
        f"--gin.MODEL_DIR={str(tmp_path / 'run')!r}",
    ]


def failing(lines, status):
    return f"import sys; print({lines!r}, file=sys.stderr); sys.exit({status})"


def test_a_mistake_is_told_in_its_words(tmp_path, instead, capfd):
    instead(failing("step 1/4\nfaith-jax: There is no task 'x'.", 2))
    with pytest.raises(ConfigError, match=r"training in .*run: There is no task 'x'\.$"):
        train_recipe(RECIPE, {}, tmp_path / "run")
    assert capfd.readouterr().err == "step 1/4\n"
    assert not (tmp_path / "run").exists()
    instead("")
    train_recipe(RECIPE, {"BATCH_SIZE": 8}, tmp_path / "run")


@pytest.mark.parametrize(
    ("script", "status", "message"),
    [
        (failing("Traceback", 1), 1, "failed with exit status 1"),
        (failing("Stopped at step 2", 143), 143, "was stopped; the same command goes on"),
        ("import os; os.kill(os.getpid(), 15)", 143, "was stopped; the same command goes on"),
        ("import os; os.kill(os.getpid(), 9)", 137, "failed with exit status -9"),
    ],
)
def test_a_failure_keeps_its_exit_status(tmp_path, instead, capfd, script, status, message):
    instead(script)
    with pytest.raises(ProcessError, match=message) as raised:
        train_recipe(RECIPE, {}, tmp_path / "run")
    assert raised.value.status == status
    # As the command line ends.
    assert cli._guarded(lambda: train_recipe(RECIPE, {}, tmp_path / "run"), "faith-jax") == status
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("faith-jax: training in ")
    assert message in last


def test_a_process_that_is_interrupted_stops_its_training_which_saves(
    tmp_path, instead, monkeypatch
):
    instead(
        f"""
import pathlib, signal, sys, time
def stop(*_):
    pathlib.Path({str(tmp_path / "saved")!r}).touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
print("step 1", flush=True)
time.sleep(60)
"""
    )

    class Interrupted:
        def write(self, text):
            if text.startswith("step 1"):
                raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stderr", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        train_recipe(RECIPE, {}, tmp_path / "run")
    assert (tmp_path / "saved").exists()


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file/run: cannot be written"):
        train_recipe(RECIPE, {}, tmp_path / "file" / "run")
    with pytest.raises(ValueError, match="MODEL_DIR"):
        train_recipe(RECIPE, {"MODEL_DIR": "x"}, tmp_path / "run")
