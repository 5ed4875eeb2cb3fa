"""What all tests share."""

import gc
import os
import pathlib
import shutil
import sys
import tempfile

import jaxtyping
import pytest

import tests.typechecking

# In tests, numerics check the shapes and dtypes of their annotations.
NUMERICS = {
    "models": "attention chunked_logits classification masks output_layer soft_prompt transformer",
    "decoding": "beam causal encoder_decoder limits nucleus pmi search steps",
    "training": "classification infonce loss_truncation repetition",
    "inference": "class_probabilities row_likelihoods",
}
jaxtyping.install_import_hook(
    [f"faith_jax.{room}.{name}" for room, names in NUMERICS.items() for name in names.split()],
    f"{tests.typechecking.__name__}.checked",
)

MAPS = pathlib.Path("/proc/self/maps")
# Linux gives a process 65,530 mappings, and XLA takes some for each program that it compiles: at
# the end of them it crashes.
MOST_MAPS = 15_000
CACHE = "JAX_COMPILATION_CACHE_DIR"
_CACHE_FOLDER = pytest.StashKey[str]()


def pytest_configure(config):
    """Keeps compiled programs on disk until the tests end, for all of their processes.

    A run compiles its steps anew, whatever its process has compiled before.
    """
    if CACHE not in os.environ:
        config.stash[_CACHE_FOLDER] = folder = tempfile.mkdtemp(prefix="faith_jax_compiled_")
        os.environ |= {CACHE: folder, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3"}


def pytest_unconfigure(config):
    """Removes them."""
    if _CACHE_FOLDER in config.stash:
        shutil.rmtree(config.stash[_CACHE_FOLDER], ignore_errors=True)


@pytest.fixture(autouse=True)
def _no_gin_bindings():
    """Clears behind a test what a run bound in gin for its process."""
    yield
    if "gin" in sys.modules:
        gin = sys.modules["gin"]
        with gin.unlock_config():
            gin.clear_config()


@pytest.fixture(scope="module", autouse=True)
def _few_compiled_programs():
    """Drops JAX's compiled programs behind a module once there are many."""
    yield
    if "jax" not in sys.modules or not MAPS.exists():
        return
    with MAPS.open() as maps:
        count = sum(1 for _ in maps)
    if count > MOST_MAPS:
        sys.modules["jax"].clear_caches()
        gc.collect()


@pytest.fixture(scope="module")
def quick_compilation():
    """Compiles without most optimizations, for tests that wait for nothing but compilation."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def own_seqio_tasks():
    """Removes the SeqIO tasks and mixtures that a module of tests registers."""
    import seqio

    import faith_jax.tasks  # noqa: F401  (registers ours, which stay)

    registries = (seqio.MixtureRegistry, seqio.TaskRegistry)
    before = [set(registry.names()) for registry in registries]
    yield
    for registry, names in zip(registries, before, strict=True):
        for name in set(registry.names()) - names:
            registry.remove(name)
