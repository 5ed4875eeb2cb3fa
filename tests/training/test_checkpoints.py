import hashlib
import importlib.util
import json
import logging
import pathlib
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.training import optimizers
from faith_jax.training.checkpoints import TrainCheckpoints
from faith_jax.training.trainer import TrainState

REPOSITORY = pathlib.Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location(
    "disk_faults", REPOSITORY / "tools" / "disk_faults.py"
)
disk_faults = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(disk_faults)


# Orbax leaves the reads of a damaged checkpoint to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True, scope="module")
def _quiet_orbax():
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


def params(seed=0, width=3):
    rng = np.random.default_rng(seed)
    kernel = rng.normal(size=(4, width)).astype(np.float32)
    kernel[0, 0] = -0.0
    kernel[1, 0] = np.nextafter(np.float32(1), np.float32(2))
    kernel[2, 0] = 1e-42  # below the smallest normal number
    half = jnp.asarray(rng.normal(size=(5,)), jnp.bfloat16)
    return {"encoder": {"kernel": jnp.asarray(kernel)}, "scale": half}


def state(step=0, optimizer=None, tree=None):
    tree = params() if tree is None else tree
    optimizer = optimizer or optimizers.adamw(0.01, gradient_clip=1.0)
    opt_state = jax.tree.map(lambda x: x + jnp.asarray(step, x.dtype), optimizer.init(tree))
    return TrainState(jnp.int32(step), tree, opt_state)


def losses_of(folder, losses, **options):
    """Saves a step for each loss (None = not measured); returns kept, best and newest steps."""
    checkpoints = TrainCheckpoints(folder, **options)
    for step, loss in enumerate(losses, 1):
        checkpoints.save(state(step), None if loss is None else {"loss": loss})
    checkpoints.close()
    again = TrainCheckpoints(folder, **options)  # what the next run finds
    steps = again.all_steps(), again.best_step(), again.latest_step()
    again.close()
    return steps


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with the checkpoint of step 3."""
    folder = tmp_path_factory.mktemp("saved") / "checkpoints"
    checkpoints = TrainCheckpoints(folder)
    checkpoints.save(state(3))
    checkpoints.close()
    return folder


def restore(folder, template, step=None):
    checkpoints = TrainCheckpoints(folder)
    try:
        return checkpoints.restore(template, step)
    finally:
        checkpoints.close()


def assert_identical(actual, expected):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        assert a.sharding == b.sharding
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize(
    "optimizer",
    [
        optimizers.adamw(0.01, gradient_clip=1.0),
        optimizers.adafactor(optax.linear_schedule(1, 0, 9)),
    ],
)
def test_a_state_comes_back_bit_for_bit(tmp_path, optimizer):
    wide = {"kernel": jnp.arange(128 * 130, dtype=jnp.float32).reshape(128, 130) / 7} | params()
    before = state(7, optimizer, wide)
    checkpoints = TrainCheckpoints(tmp_path)
    checkpoints.save(before)
    checkpoints.wait()
    template = state(0, optimizer, jax.tree.map(jnp.zeros_like, wide))
    assert_identical(checkpoints.restore(template), before)
    checkpoints.close()


def test_the_newest_or_a_given_step_is_restored(tmp_path):
    losses_of(tmp_path, [1.0, 2.0, 3.0], keep_last=2, keep_best=0)
    assert int(restore(tmp_path, state()).step) == 3
    older = restore(tmp_path, state(), step=2)
    assert_identical(older, state(2))
    with pytest.raises(CheckpointError, match=r"no checkpoint of step 1; there are \[2, 3\]"):
        restore(tmp_path, state(), step=1)


def test_a_step_is_written_once(tmp_path):
    checkpoints = TrainCheckpoints(tmp_path)
    checkpoints.save(state(2))
    checkpoints.wait()
    changed = state(2, tree=params(seed=1))
    checkpoints.save(changed)
    checkpoints.wait()
    assert_identical(checkpoints.restore(state()), state(2))
    checkpoints.close()


@pytest.mark.parametrize(
    ("losses", "options", "kept", "best"),
    [
        ([3.0, 1.0, 2.0, 4.0, 5.0], {}, [2, 4, 5], 2),
        ([3.0, 1.0, 2.0, 4.0, 5.0], {"keep_last": 1, "keep_best": 2}, [2, 3, 5], 2),
        # A loss that is no number is never the best; steps without a loss are only ever newest.
        ([float("nan"), 5.0, None, None], {"keep_last": 1}, [2, 4], 2),
        ([None, None, None], {"keep_last": 2}, [2, 3], None),
    ],
)
def test_the_newest_and_the_best_are_kept(tmp_path, losses, options, kept, best):
    assert losses_of(tmp_path, losses, **options) == (kept, best, len(losses))


@pytest.mark.parametrize("options", [{"keep_last": 0}, {"keep_best": -1}])
def test_the_newest_cannot_be_given_up(tmp_path, options):
    with pytest.raises(ConfigError, match=r"KEEP_LAST = .* KEEP_BEST = .* at least 1 and 0"):
        TrainCheckpoints(tmp_path, **options)


def test_a_path_that_orbax_cannot_write_to(tmp_path):
    with pytest.raises(ConfigError, match=r"run\[1\]: Orbax cannot write .* another MODEL_DIR"):
        TrainCheckpoints(tmp_path / "run[1]")


def test_a_fresh_folder_has_no_step(tmp_path):
    checkpoints = TrainCheckpoints(tmp_path / "new" / "checkpoints")
    assert checkpoints.latest_step() is None
    assert checkpoints.best_step() is None
    with pytest.raises(CheckpointError, match=r"new/checkpoints: no checkpoint of step None"):
        checkpoints.restore(state())
    checkpoints.close()


def renamed():
    tree = params()
    return {"decoder": tree["encoder"], "scale": tree["scale"]}


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            state(tree=params(width=5)),
            r"3/params: 'encoder/kernel' is float32 \[4, 3\], .* needs float32 \[4, 5\]",
        ),
        (
            state(tree=jax.tree.map(lambda x: x.astype(jnp.float32), params())),
            r"3/params: 'scale' is bfloat16 \[5\], .* needs float32 \[5\]",
        ),
        (
            state(tree=renamed()),
            r"3/params: 'decoder/kernel' is not there, .* needs float32 \[4, 3\]",
        ),
        (
            state(tree={"scale": params()["scale"]}),
            r"3/params: 'encoder/kernel' is float32 \[4, 3\], .* needs no such array",
        ),
        (state(optimizer=optax.sgd(0.1)), r"3/opt_state: '1/0/count' is int32 \[\], .* no such"),
        (
            state(optimizer=optimizers.adafactor(0.1)),
            r"3/opt_state: .*: it was written with another model, optimizer or TRAINABLE",
        ),
    ],
)
def test_another_model_or_optimizer_is_an_error_that_names_the_array(saved, wanted, message):
    with pytest.raises(CheckpointError, match=message) as caught:
        restore(saved, wanted)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda step: shutil.rmtree(step / "params"),
        lambda step: (step / "params" / "manifest.ocdbt").unlink(),
        lambda step: [p.write_bytes(p.read_bytes()[:20]) for p in step.glob("params/d/*")],
    ],
    ids=["no params", "no manifest", "truncated"],
)
def test_a_damaged_checkpoint_is_an_error_of_one_line(saved, tmp_path, damage):
    folder = tmp_path / "checkpoints"
    shutil.copytree(saved, folder)
    damage(folder / "3")
    with pytest.raises(CheckpointError, match=r"checkpoints/3.*not whole.* remove") as caught:
        restore(folder, state())
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_manifest_has_all_arrays_of_a_step(saved, tmp_path):
    folder = tmp_path / "checkpoints"
    shutil.copytree(saved, folder)
    content = json.loads((folder / "3" / "manifest.json").read_text())
    arrays = content["tensors"]
    assert {name.split("/")[0] for name in arrays} == {"params", "opt_state"}
    assert arrays["params/encoder/kernel"]["shape"] == [4, 3]
    expected = hashlib.sha256(np.asarray(params()["encoder"]["kernel"]).tobytes()).hexdigest()
    assert arrays["params/encoder/kernel"]["sha256"] == [expected]
    assert len(arrays) == len(jax.tree.leaves((state().params, state().opt_state)))
    for name, entry in arrays.items():
        content["tensors"] = arrays | {name: entry | {"sha256": ["0" * 64]}}
        (folder / "3" / "manifest.json").write_text(json.dumps(content))
        with pytest.raises(CheckpointError, match=rf"/3: the tensor {name} differs from what was"):
            restore(folder, state())
    (folder / "3" / "manifest.json").unlink()  # of a version that wrote none
    assert_identical(restore(folder, state()), state(3))


@pytest.mark.parametrize("content", [b"", b'{"loss": "x"}'])
def test_broken_metrics_are_an_error(tmp_path, content):
    assert losses_of(tmp_path, [2.0, 1.0]) == ([1, 2], 2, 2)
    path = tmp_path / "2" / "metrics" / "metrics"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"2/metrics/metrics: expected the metrics .* remove"):
        TrainCheckpoints(tmp_path)
    shutil.rmtree(path.parent)
    checkpoints = TrainCheckpoints(tmp_path)
    assert (checkpoints.all_steps(), checkpoints.best_step()) == ([1, 2], 1)
    checkpoints.close()


def test_what_a_killed_save_leaves_is_not_seen(saved, tmp_path):
    folder = tmp_path / "checkpoints"
    shutil.copytree(saved, folder)
    # Orbax writes to a temporary folder and renames it.
    shutil.copytree(saved / "3", folder / "9.orbax-checkpoint-tmp")
    (folder / "12.orbax-checkpoint-tmp" / "params").mkdir(parents=True)
    (folder / "12.orbax-checkpoint-tmp" / "metrics").mkdir()
    (folder / "12.orbax-checkpoint-tmp" / "metrics" / "metrics").write_text("")
    (folder / "notes").mkdir()
    checkpoints = TrainCheckpoints(folder)
    assert checkpoints.all_steps() == [3]
    assert int(checkpoints.restore(state()).step) == 3
    checkpoints.save(state(9))  # the same step again
    checkpoints.close()
    assert_identical(restore(folder, state()), state(9))


SAVED = """
import os, sys, jax.numpy as jnp
from faith_jax.training.checkpoints import TrainCheckpoints
from faith_jax.training.trainer import TrainState
checkpoints = TrainCheckpoints(sys.argv[1])
for step in (1, 2):
    tree = {"w": jnp.full((300_000,), step, jnp.float32)}
    state = TrainState(jnp.int32(step), tree, {"m": jnp.int32(step)})
    checkpoints.save(state, {"loss": 3.0 - step})
    checkpoints.wait()
os._exit(9)
"""


@pytest.mark.faults
def test_a_step_with_its_name_is_whole_after_a_power_cut(tmp_path):
    if not disk_faults.is_possible(tmp_path):
        pytest.skip("needs a C compiler and a file system with extended attributes")
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", SAVED, str(folder)],
        cwd=REPOSITORY,
        env=disk_faults.environment(disk_faults.shim(tmp_path), folder) | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 9, done.stderr[-2000:]
    disk_faults.cut(folder)
    template = TrainState(jnp.int32(0), {"w": jnp.zeros((300_000,))}, {"m": jnp.int32(0)})
    for step in (1, 2):
        restored = restore(folder, template, step)
        assert int(restored.opt_state["m"]) == step
        assert np.unique(np.asarray(restored.params["w"])) == [step]
    checkpoints = TrainCheckpoints(folder)
    assert (checkpoints.latest_step(), checkpoints.best_step()) == (2, 2)
    checkpoints.close()


def test_on_a_store_a_run_stops_where_another_has_saved_a_step(gs):
    folder = f"{gs}/run/checkpoints"
    first, second = TrainCheckpoints(folder), TrainCheckpoints(folder)
    first.save(state(1))
    first.wait()
    message = f"MODEL_DIR: another run has saved step 1 in {folder}; this one stops."
    with pytest.raises(ConfigError) as caught:
        second.save(state(2))
    assert str(caught.value) == message
    first.save(state(2))
    first.close()
    second.close()
    assert restore(folder, state()).step == 2
