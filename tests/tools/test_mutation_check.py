"""The list of faults is well formed, and the tool tells caught faults from those tests miss."""

import subprocess

import pytest

from tests.paths import REPOSITORY
from tools import mutation_check

MUTANTS, Outcome = mutation_check.MUTANTS, mutation_check.Outcome

TEST_FILE = "tests/test_sums.py"
CODE = """
def add(first, second):
    return first + second
"""
TESTS = """
from faith_jax.arithmetic import add
from faith_jax.tasks.sums import LARGEST

def test_sums():
    assert add(2, 3) == 5

def test_of_one_and_one():
    assert add(1, 1) == 2

def test_largest():
    assert LARGEST == 9
"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A repository of one module and its tests, which git knows."""
    folder = tmp_path_factory.mktemp("toy")
    files = {
        "faith_jax/__init__.py": "",
        "faith_jax/arithmetic.py": CODE,
        "tasks/__init__.py": "",
        "tasks/sums.py": "LARGEST = 9\n",
        "gin_configs/__init__.py": "",
        "tests/__init__.py": "",
        "tests/test_sums.py": TESTS,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def mutant(number, old, new, file="faith_jax/arithmetic.py", tests=TEST_FILE):
    return mutation_check.Mutant(str(number), "data", file, old, new, tests)


def test_each_edit_has_one_place_and_changes_something():
    mutation_check.check_edits(MUTANTS, REPOSITORY)
    assert all(mutant.old != mutant.new for mutant in MUTANTS)
    edits = {(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}
    assert len(edits) == len({mutant.id for mutant in MUTANTS}) == len(MUTANTS) >= 60


@pytest.mark.parametrize(
    "area", ["decoding", "objectives", "models", "scorers", "statistics", "data"]
)
def test_each_area_has_ten_at_least(area):
    assert sum(mutant.area == area for mutant in MUTANTS) >= 10
    assert area in mutation_check.AREAS


def test_the_tests_that_are_named_are_there():
    for fault in MUTANTS:
        for test in fault.tests.split():
            file, _, name = test.partition("::")
            text = (REPOSITORY / file).read_text(encoding="utf-8")
            assert not name or f"\ndef {name}(" in text, test


@pytest.mark.slow
def test_faults_are_caught_where_a_test_fails(toy):
    """Faults in the package and in a mapped package; the working tree stays unchanged."""
    before = (toy / "faith_jax" / "arithmetic.py").read_bytes()
    mutants = [
        mutant("sign", "first + second", "first - second"),
        mutant("order", "first + second", "second + first"),  # no fault
        mutant("mapped", "9", "8", "tasks/sums.py"),
        mutant("missed", "first + second", "first * 2", tests=f"{TEST_FILE}::test_of_one_and_one"),
        mutant("no_python", "return", "return return"),
    ]
    results = {r.mutant.id: r for r in mutation_check.check(mutants, toy, jobs=2)}
    assert {name: result.outcome for name, result in results.items()} == {
        "sign": Outcome.CAUGHT,
        "order": Outcome.SURVIVED,
        "mapped": Outcome.CAUGHT,
        "missed": Outcome.SURVIVED,
        "no_python": Outcome.NOT_IMPORTED,
    }
    assert results["sign"].test == "tests/test_sums.py::test_sums"
    assert results["mapped"].test == "tests/test_sums.py::test_largest"
    assert (toy / "faith_jax" / "arithmetic.py").read_bytes() == before
    table = mutation_check.summary(list(results.values()))
    assert table.splitlines()[1].split() == ["data", "5", "3", "60%"]


def test_tests_that_do_not_end_are_ended(toy, tmp_path):
    copy = mutation_check.copy_repository(toy, tmp_path)
    variables = mutation_check.environment(copy, toy, "")
    endless = mutant("endless", "return first", "while True: pass\n    return first")
    result = mutation_check.plant_and_test(endless, copy, variables, timeout=1.0)
    assert result.outcome is Outcome.TIMED_OUT
    assert (copy / "faith_jax" / "arithmetic.py").read_text() == CODE


@pytest.mark.slow
def test_tests_that_fail_without_a_fault_end_the_check(toy, tmp_path):
    failing = toy / "tests" / "test_failing.py"
    failing.write_text("def test_never():\n    assert False\n")
    mutants = [mutant("sign", "first + second", "first - second", tests="tests/test_failing.py")]
    with pytest.raises(mutation_check.CheckError, match="Tests fail without a fault"):
        list(mutation_check.check(mutants, toy))
    failing.unlink()


@pytest.mark.parametrize(
    ("old", "file", "message"),
    [
        ("third", "faith_jax/arithmetic.py", "its text stands 0 times"),
        ("first", "faith_jax/arithmetic.py", "its text stands 2 times"),
        ("first", "faith_jax/algebra.py", "there is no such file"),
    ],
)
def test_an_edit_without_its_one_place(toy, old, file, message):
    with pytest.raises(mutation_check.CheckError, match=f"rotten: {file}: {message}"):
        list(mutation_check.check([mutant("rotten", old, "x", file)], toy))


def test_exit_status(monkeypatch, capsys):
    """1 where fewer than 95% are caught, 2 for an unknown fault."""
    outcomes = iter([Outcome.SURVIVED, *19 * [Outcome.CAUGHT]])
    results = [mutation_check.Result(m, next(outcomes), "", 1.0) for m in MUTANTS[:20]]
    monkeypatch.setattr(mutation_check, "check", lambda *_: iter(results))
    assert mutation_check.main([]) == 0
    output = capsys.readouterr().out
    assert f"survived: {MUTANTS[0].id}" in output
    results = results[:19]
    assert mutation_check.main([]) == 1
    assert mutation_check.main(["--only=nothing"]) == 2
    assert "--only: there is no nothing." in capsys.readouterr().err


def test_areas_and_ids_choose():
    decoding = [m for m in MUTANTS if m.area == "decoding"]
    assert mutation_check.select_mutants(["decoding"], []) == decoding
    assert mutation_check.select_mutants([], ["pmi-sign"]) == [
        m for m in decoding if m.id == "pmi-sign"
    ]
    assert len(mutation_check.select_mutants([], [])) == len(MUTANTS)
