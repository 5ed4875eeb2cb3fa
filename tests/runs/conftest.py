import os
import subprocess
import sys

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from tests.paths import REPOSITORY

# It registers tasks that cannot be read; looking for doctests would import it.
collect_ignore = ["bad_rows.py"]


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """The environment of commands: prepared data goes to a folder of this test run."""
    folder = tmp_path_factory.getbasetemp() / "faith_jax_data"
    return os.environ | {
        "FAITH_JAX_DATA_DIR": str(folder),
        "PYTHONPATH": str(REPOSITORY),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


@pytest.fixture(scope="session")
def start(environment):
    """Starts `faith-jax` with arguments and returns the process."""

    def run(*arguments, cwd=None):
        return subprocess.Popen(
            [sys.executable, "-m", "faith_jax", *map(str, arguments)],
            env=environment,
            cwd=cwd or REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return run


@pytest.fixture
def command(environment, monkeypatch, capfd):
    """Runs `faith-jax` in this process; returns (status, stdout, stderr)."""
    from faith_jax import cli

    monkeypatch.setenv("FAITH_JAX_DATA_DIR", environment["FAITH_JAX_DATA_DIR"])

    def run(*arguments):
        capfd.readouterr()
        status = cli.main([str(a) for a in arguments])
        out, err = capfd.readouterr()
        return status, out, err

    return run


@pytest.fixture(scope="session")
def succeed(environment):
    """Runs `faith-jax` in this process, for what several tests read."""
    from faith_jax import cli

    def run(*arguments):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FAITH_JAX_DATA_DIR", environment["FAITH_JAX_DATA_DIR"])
            assert cli.main([str(a) for a in arguments]) == 0

    return run


TINY = ("train", "--gin_search_paths=tests/testdata/gin", "--gin_file=tiny.gin")


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
    """Registers a SeqIO task of a user's own, unless it is there, and returns its name.

    Args:
      name: of the task.
      dataset: makes the tf.data set of a split's texts: (split, shuffle_files, seed).
      keeps_order: whether its rows are never shuffled.
    """
    import seqio

    from faith_jax.tokenizers.seqio_vocabulary import DefaultVocabulary

    if name not in seqio.TaskRegistry.names():
        feature = seqio.Feature(vocabulary=DefaultVocabulary(), add_eos=True)
        seqio.TaskRegistry.add(
            name,
            source=seqio.FunctionDataSource(dataset, splits=["train", "validation"]),
            preprocessors=[
                seqio.preprocessors.tokenize,
                seqio.preprocessors.append_eos_after_trim,
            ],
            output_features={"inputs": feature, "targets": feature},
            shuffle_buffer_size=None if keeps_order else 1000,
        )
    return name


@pytest.fixture(scope="module")
def offline_data_dir(tmp_path_factory):
    """A fresh folder for prepared data, on a machine that reaches no network."""
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAITH_JAX_DATA_DIR", str(folder))
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            patch.setenv(name, "http://127.0.0.1:9")
        yield folder
