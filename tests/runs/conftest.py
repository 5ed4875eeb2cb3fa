import functools
import os
import subprocess
import sys

import filelock
import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from faith_jax.inference.batch_decoder import BatchDecoder, DecodedRow
from faith_jax.models import parameters
from faith_jax.models.partitioning import make_partitioner
from faith_jax.runs import setup
from faith_jax.runs.data import knowledge
from faith_jax.training.trainer import Trainer
from tests.paths import REPOSITORY

# It registers tasks with unreadable rows; collecting its doctests would import it.
collect_ignore = ["bad_rows.py"]


@pytest.fixture(scope="session")
def start(data_folder):
    """Starts `faith-jax` with arguments and returns the process."""
    environment = os.environ | {
        "FAITH_JAX_DATA_DIR": str(data_folder),
        "PYTHONPATH": str(REPOSITORY),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }

    def run(*arguments):
        return subprocess.Popen(
            [sys.executable, "-m", "faith_jax", *map(str, arguments)],
            env=environment,
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return run


@pytest.fixture
def new_user_cache(tmp_path, monkeypatch):
    """The folder of a new user's cache, not yet made; the sample's knowledge base is not open."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    knowledge._sample_base.cache_clear()
    yield tmp_path / "cache" / "faith_jax"
    knowledge._sample_base.cache_clear()


@pytest.fixture(scope="session", autouse=True)
def random_params_once():
    """Draws a model's random parameters once for all runs, since the initializers take a second."""

    @functools.cache
    def drawn(module, seed, part):
        return jax.device_get(
            parameters.random_params(module, make_partitioner(module.config), seed, part)
        )

    def placed(module, partitioner, seed, part=None):
        shardings = parameters.param_shardings(module, partitioner)
        shardings = shardings if part is None else shardings[part]
        return partitioner.put(drawn(module, seed, part), shardings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "random_params", placed)
        yield


COST = {"step_operations": 0.0, "step_bytes": 0.0}


@pytest.fixture
def uncosted(monkeypatch):
    """Makes dry runs skip the costs of a step, for which they would compile a program."""
    monkeypatch.setattr(Trainer, "step_cost", lambda *_: COST)


@pytest.fixture
def untrained(uncosted, monkeypatch):
    """Makes training steps count without compiling or training anything."""

    def step(self, state, frozen, batch):
        metrics = {"loss": 1.0, "gradient_norm": 1.0, "weight": 1.0}
        return state._replace(step=state.step + 1), metrics

    monkeypatch.setattr(Trainer, "train_step", step)


@pytest.fixture
def undecoded(monkeypatch):
    """Makes inference respond with an end token without compiling a program."""

    class EndingDecoder(BatchDecoder):
        def __call__(self, params, inputs, numbers, second_inputs=None, on_done=None):
            return [[DecodedRow(np.array([1]), -1.0, -1.0, True)] for _ in numbers]

    monkeypatch.setattr(setup, "BatchDecoder", EndingDecoder)


def settings(**values):
    """Returns command-line arguments that set gin macros."""
    return [f"--gin.{name}={value}" for name, value in values.items()]


TINY = ("train", "--gin_search_paths=tests/testdata/gin", "--gin_file=tiny.gin")


@pytest.fixture(scope="session")
def train_once(succeed, data_folder):
    """Returns a function that trains a MODEL_DIR once for all processes; only read its result."""

    def train(name, *arguments, costed=False):
        folder, is_done = data_folder.with_name(name), data_folder.with_name(f"{name}_is_done")
        with filelock.FileLock(data_folder.with_name(f"{name}.lock")):
            if not is_done.exists():
                with pytest.MonkeyPatch.context() as patch:
                    if not costed:
                        patch.setattr(Trainer, "step_cost", lambda *_: COST)
                    succeed(*TINY, *arguments, f"--gin.MODEL_DIR={folder}")
                is_done.touch()
        return folder

    return train


@pytest.fixture(scope="session")
def tiny_run(train_once):
    """The MODEL_DIR of two training steps from random parameters."""
    steps = ("--gin.TRAIN_STEPS=2", "--gin.WARMUP_STEPS=0", "--gin.CHECKPOINT_PERIOD=1")
    return train_once("tiny_run", *steps, costed=True)


PROMPT = (
    "--gin_file=prompts/sampled_vocabulary.gin",
    "--gin.OPTIMIZER=@optimizers.adamw()",
    "--gin.LEARNING_RATE=0.1",
    "--gin.TRAIN_STEPS=4",
    "--gin.WARMUP_STEPS=0",
    "--gin.EVAL_PERIOD=2",
    "--gin.CHECKPOINT_PERIOD=2",
)


@pytest.fixture(scope="session")
def tuned_run(train_once, tiny_run):
    """The MODEL_DIR of four steps of tuning a prompt of five vectors, from `tiny_run`'s model."""
    return train_once("tuned_run", *PROMPT, f"--gin.INITIAL_CHECKPOINT_PATH={tiny_run}")


def read_item(folder):
    """Reads one item of a training checkpoint, optimizer states included, as NumPy arrays."""
    with ocp.StandardCheckpointer() as checkpointer:
        tree = checkpointer.metadata(folder).item_metadata.tree
    template = jax.tree.map(lambda x: np.empty(x.shape, x.dtype), tree)
    arguments = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), template)
    with ocp.PyTreeCheckpointer() as reader:
        return reader.restore(
            folder, args=ocp.args.PyTreeRestore(item=template, restore_args=arguments)
        )


def seqio_task(name, dataset, keeps_order=False):
    """Registers a user's SeqIO task, unless it exists, and returns its name.

    Args:
      name: the name of the task.
      dataset: a function (split, shuffle_files, seed) -> tf.data data set of a split's texts.
      keeps_order: whether its rows are never shuffled.
    """
    import seqio

    from faith_jax.tokenizers.seqio_vocabulary import DefaultVocabulary

    if name not in seqio.TaskRegistry.names():
        feature = seqio.Feature(vocabulary=DefaultVocabulary(), add_eos=True)
        seqio.TaskRegistry.add(
            name,
            source=seqio.FunctionDataSource(dataset, splits=["train", "validation"]),
            preprocessors=[seqio.preprocessors.tokenize, seqio.preprocessors.append_eos_after_trim],
            output_features={"inputs": feature, "targets": feature},
            shuffle_buffer_size=None if keeps_order else 1000,
        )
    return name
