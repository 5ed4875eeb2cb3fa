"""Settings and fixtures for all tests."""

import collections
import gc
import importlib.metadata
import math
import os
import pathlib
import re
import shutil
import sys
import time

# Tests run in parallel processes with small arrays, where BLAS threads wait for each other and cost
# several times as much. The libraries of NumPy and SciPy read this when they are loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import jaxtyping
import pytest

import tests.stores
import tests.typechecking

# In tests, the functions of these modules check the shapes and dtypes of their annotations.
NUMERICS = {
    "models": "attention.masks attention.multi_head chunked_logits classification_head "
    "output_layer soft_prompt transformer",
    "decoding": "beam generation limits nucleus pmi search steps",
    "training": "infonce label_cross_entropy loss_truncation repetition",
    "inference": "class_probabilities row_likelihoods",
}
jaxtyping.install_import_hook(
    [f"faith_jax.{room}.{name}" for room, names in NUMERICS.items() for name in names.split()],
    f"{tests.typechecking.__name__}.checked",
)

import faith_jax  # noqa: E402, F401  (before TensorFlow, whose SQLite lacks FTS5)

# Tests, and processes that they start, spend more time on compiling programs than on running them.
# Without fusion emitters and in one piece, XLA compiles programs for CPUs up to three times faster.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
FLAGS = "--xla_cpu_parallel_codegen_split_count=1"
if importlib.metadata.version("jaxlib").startswith("0.10."):  # later ones abort at an unknown flag
    FLAGS += " --xla_cpu_use_fusion_emitters=false"
os.environ.setdefault("XLA_FLAGS", FLAGS)
# Broadcasting to a higher rank must be explicit in the code.
os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")

# Property tests must not fail because the machine is busy. Each run draws different examples, so a
# few are enough.
hypothesis.settings.register_profile(
    "busy",
    deadline=None,
    max_examples=40,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("busy")

# Rooms with slow tests run first, so that no process still runs one alone at the end.
SLOW = (
    *("training", "models", "gin_configs", "input", "papers", "runs", "tools", "tasks"),
    *("scoring", "inference", "decoding"),
)

MAPS = pathlib.Path("/proc/self/maps")
# A Linux process has at most 65,530 memory mappings. XLA takes several for each compiled program,
# and crashes when there are no more.
MOST_MAPS = 30_000
# Tracing in JAX makes many objects but few cycles: with the default thresholds, garbage collection
# takes a tenth of the tests' time.
gc.set_threshold(100_000, 50, 100)
CACHE = "JAX_COMPILATION_CACHE_DIR"
LEAST_SECONDS = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
MOST_COMPILED = 2**30  # bytes


# The start of an error message, also of one from argparse.
ERROR = re.compile(r"faith-jax( [\w-]+)*: ")
OUT_OF_TIME = "no time left"
# Markers of long tests, which also have quicker versions.
LONG = ("slow", "faults", "papers")
START = time.monotonic()


def pytest_addoption(parser):
    """Adds the option for the time after which no long test starts."""
    message = f"after these no test of the markers {', '.join(LONG)} begins; they are skipped"
    parser.addoption("--minutes", type=float, default=math.inf, help=message)


def pytest_runtest_setup(item):
    """Skips a long test if the time is up."""
    minutes = item.config.getoption("minutes")
    if time.monotonic() - START > 60 * minutes and any(map(item.get_closest_marker, LONG)):
        pytest.skip(f"{OUT_OF_TIME}: --minutes={minutes:g}")


def pytest_terminal_summary(terminalreporter):
    """Names the files whose long tests were skipped for lack of time."""
    skipped = [
        r for r in terminalreporter.stats.get("skipped", ()) if OUT_OF_TIME in str(r.longrepr)
    ]
    files = collections.Counter(report.nodeid.partition("::")[0] for report in skipped)
    for file, count in files.items():
        terminalreporter.write_line(f"{OUT_OF_TIME}: {count} tests of {file}")


def pytest_configure(config):
    """Keeps compiled programs in pytest's cache folder, for all processes and later runs.

    A run compiles its steps again even if its process has compiled them before.
    """
    if CACHE not in os.environ and hasattr(config, "cache"):  # not "-p no:cacheprovider"
        folder = config.cache.mkdir("compiled")
        if sum(path.stat().st_size for path in folder.iterdir()) > MOST_COMPILED:
            shutil.rmtree(folder)
        os.environ |= {CACHE: str(folder), LEAST_SECONDS: "0"}
        if "jax" in sys.modules:  # a room's conftest has imported it before these were set
            sys.modules["jax"].config.update(CACHE.lower(), str(folder))
            sys.modules["jax"].config.update(LEAST_SECONDS.lower(), 0.0)


def pytest_collection_finish():
    """Excludes the objects made by imports, which are most, from later garbage collections."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items):
    """Puts the slow rooms first."""

    def place(item):
        room = item.nodeid.split("/")[1]
        return SLOW.index(room) if room in SLOW else len(SLOW)

    items.sort(key=place)


@pytest.fixture(autouse=True)
def _no_gin_bindings():
    """Clears, after each test, the gin bindings that a run left in this process."""
    yield
    if "gin" in sys.modules:
        gin = sys.modules["gin"]
        with gin.unlock_config():
            gin.clear_config()


@pytest.fixture(scope="module", autouse=True)
def _few_compiled_programs():
    """Drops JAX's compiled programs after a module if there are many."""
    yield
    if "jax" not in sys.modules or not MAPS.exists():
        return
    with MAPS.open() as maps:
        count = sum(1 for _ in maps)
    if count > MOST_MAPS:
        sys.modules["jax"].clear_caches()
        gc.collect()


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory):
    """The folder of prepared samples, shared by all processes; preparing locks each data set."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    return folder / "faith_jax_data"


@pytest.fixture(scope="module")
def offline_data_dir(data_folder):
    """The folder for prepared data, without access to the network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAITH_JAX_DATA_DIR", str(data_folder))
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            patch.setenv(name, "http://127.0.0.1:9")
        yield data_folder


class Command:
    """Runs `faith-jax` in this process; returns (status, stdout, stderr)."""

    def __init__(self, capfd):
        self._capfd = capfd

    def __call__(self, *arguments):
        from faith_jax import cli

        self._capfd.readouterr()
        status = cli.main([str(a) for a in arguments])
        return status, *self._capfd.readouterr()

    def succeeds(self, *arguments):
        """Returns the output of a command that must end with status 0."""
        status, out, err = self(*arguments)
        assert status == 0, err
        return out

    def refuses(self, *arguments):
        """Returns the error line of a command that must end with one and status 2."""
        status, _, err = self(*arguments)
        assert status == 2, err
        assert "Traceback" not in err
        (line,) = (line for line in err.splitlines() if ERROR.match(line))
        return line


@pytest.fixture
def command(data_folder, monkeypatch, capfd):
    """Runs `faith-jax`, see `Command`."""
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(data_folder))
    return Command(capfd)


@pytest.fixture(scope="session")
def succeed(data_folder):
    """Runs `faith-jax` in this process, for outputs that several tests share."""
    from faith_jax import cli

    def run(*arguments):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FAITH_JAX_DATA_DIR", str(data_folder))
            assert cli.main([str(a) for a in arguments]) == 0

    return run


@pytest.fixture(scope="module")
def own_seqio_tasks():
    """Removes the SeqIO tasks and mixtures that a test module registers."""
    import seqio

    import faith_jax.tasks  # noqa: F401  (registers ours, which stay)

    registries = (seqio.MixtureRegistry, seqio.TaskRegistry)
    before = [set(registry.names()) for registry in registries]
    yield
    for registry, names in zip(registries, before, strict=True):
        for name in set(registry.names()) - names:
            registry.remove(name)


@pytest.fixture
def own_scorers(monkeypatch):
    """Removes the scorers that a test registers."""
    from faith_jax.scoring import registry

    for name in ("_FACTORIES", "_CARDS", "_OF_USERS"):
        monkeypatch.setattr(registry, name, getattr(registry, name).copy())


@pytest.fixture(scope="session")
def gcs_bucket():
    """The bucket of a Google Cloud Storage server on this machine."""
    with tests.stores.gcs() as settings, pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        yield f"gs://{tests.stores.BUCKET}"


@pytest.fixture(scope="session")
def s3_bucket():
    """The bucket of an S3 server on this machine."""
    with tests.stores.s3() as settings, pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        yield f"s3://{tests.stores.BUCKET}"


@pytest.fixture
def gs(gcs_bucket, tmp_path, monkeypatch):
    """A folder of Google Cloud Storage for this test."""
    monkeypatch.setenv("FAITH_JAX_STAGING", str(tmp_path / "staging"))
    return f"{gcs_bucket}/{tmp_path.parent.name}/{tmp_path.name}"


@pytest.fixture(params=["gs", "s3"])
def store(request, tmp_path, monkeypatch):
    """A folder of each object store for this test."""
    monkeypatch.setenv("FAITH_JAX_STAGING", str(tmp_path / "staging"))
    bucket = request.getfixturevalue({"gs": "gcs_bucket", "s3": "s3_bucket"}[request.param])
    return f"{bucket}/{tmp_path.parent.name}/{tmp_path.name}"
