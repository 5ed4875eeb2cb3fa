import pytest

from faith_jax.planning.planner import CompilingProcess
from faith_jax.planning.topologies import parse_topology
from faith_jax.planning.worker import PlanRequest, Recipe
from tests.paths import REPOSITORY
from tests.runs.conftest import tiny_run, train_once  # noqa: F401  (fixtures)

FOLDERS = (str(REPOSITORY / "tests/testdata/gin"),)


@pytest.fixture(scope="session")
def tiny():
    """The recipe of `tiny_run` with further bindings."""

    def recipe(*bindings, files=("tiny.gin",)):
        return Recipe(files, bindings, FOLDERS, ())

    return recipe


@pytest.fixture(scope="module")
def eight(tiny):
    """Plans of the tiny recipe on eight forced devices, which share one process."""
    with CompilingProcess(tiny("BATCH_SIZE=8"), parse_topology("cpu:8")) as ask:
        yield lambda choice: ask(PlanRequest(choice, evaluations=False))
