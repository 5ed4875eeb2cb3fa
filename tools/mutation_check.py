"""Checks that tests catch faults: plants each fault of `mutants.py` in a copy, and runs its tests.

The working tree is not touched: each job works in a temporary copy (the files that git tracks or
does not ignore), and makes sure that the tests import the copy's code. The tests of all chosen
faults must pass before any fault is planted. A fault is caught if its tests fail, run out of time
or cannot be imported; the last two are reported as such.

    python tools/mutation_check.py
    python tools/mutation_check.py --area=decoding --area=models --jobs=1
    python tools/mutation_check.py --only=pmi-sign --only=holm-factors

Exit status: 0 if at least 95% are caught, 1 if fewer are, and 2 if the check is impossible because
the text of an edit does not occur exactly once in its file, or tests fail without a fault.
"""

import argparse
import concurrent.futures
import contextlib
import enum
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from mutants import AREAS, MUTANTS, Mutant

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
LEAST_CAUGHT = 0.95
# Folders that setup.cfg's package_dir maps into the package.
_MAPPED = {"faith_jax/tasks": "tasks", "faith_jax/gin_configs": "gin_configs"}
# Before any fault is planted, each job runs all tests in this many parts.
_PARTS = 3
_PASSED, _FAILED, _STOPPED = 0, 1, 2
_FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class CheckError(Exception):
    """A problem that makes the check impossible."""


class Outcome(enum.StrEnum):
    """The outcome of a planted fault."""

    CAUGHT = "caught"
    TIMED_OUT = "caught, out of time"
    NOT_IMPORTED = "caught, not imported"
    SURVIVED = "SURVIVED"


class Result(NamedTuple):
    """A fault, its outcome, the first test that failed, and the seconds its tests took."""

    mutant: Mutant
    outcome: Outcome
    test: str
    seconds: float


def check_edits(mutants: Sequence[Mutant], repository: pathlib.Path) -> None:
    """Checks that the text of each edit occurs exactly once in its file.

    Raises:
      CheckError: names all edits whose text does not.
    """
    wrong = []
    for mutant in mutants:
        path = repository / mutant.file
        count = path.read_text(encoding="utf-8").count(mutant.old) if path.is_file() else None
        if count != 1:
            problem = "there is no such file" if count is None else f"its text stands {count} times"
            wrong.append(f"{mutant.id}: {mutant.file}: {problem}; expected exactly once")
    if wrong:
        raise CheckError("\n".join([*wrong, "Bring tools/mutants.py up to the code."]))


def copy_repository(repository: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    """Copies the files that git tracks or does not ignore, and links the mapped packages.

    Raises:
      CheckError: the folder is not a git repository.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=repository, capture_output=True, text=True,
    )  # fmt: skip
    if listed.returncode:
        raise CheckError(f"{repository}: git does not list its files: {listed.stderr.strip()}")
    for name in filter(None, listed.stdout.split("\0")):
        if (repository / name).is_file():  # skips files deleted in the working tree
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(repository / name, target / name)
    for package, folder in _MAPPED.items():
        if (target / folder).is_dir():
            (target / package).symlink_to(target / folder, target_is_directory=True)
    # Compiled files are checked by their source's hash: by time and size, Python could miss an edit
    # made a moment later.
    code = [str(target / name) for name in ("faith_jax", "tasks") if (target / name).is_dir()]
    compiling = ["-m", "compileall", "-q", "--invalidation-mode=checked-hash", *code]
    subprocess.run([sys.executable, *compiling], check=True)
    return target


def environment(copy: pathlib.Path, repository: pathlib.Path, cache: str) -> dict[str, str]:
    """Returns the environment variables for the tests of a copy."""
    defaults = {
        "FAITH_JAX_SHARED": str(repository.parent / "shared"),
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    return defaults | os.environ | {"PYTHONPATH": str(copy)}


def check_imports(copy: pathlib.Path, variables: Mapping[str, str]) -> None:
    """Checks that Python finds the packages in the copy, and not in the working tree.

    Raises:
      CheckError: Python finds other packages.
    """
    script = (
        "import importlib.util, os\n"
        "for name in ('faith_jax', 'faith_jax.tasks', 'faith_jax.gin_configs', 'tests'):\n"
        "    print(os.path.realpath(importlib.util.find_spec(name).origin))\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", script],
        cwd=copy,
        env=dict(variables),
        capture_output=True,
        text=True,
    )
    inside = [line.startswith(f"{copy.resolve()}{os.sep}") for line in process.stdout.splitlines()]
    if process.returncode or len(inside) != 4 or not all(inside):
        raise CheckError(f"The copy's code is not imported: {process.stdout}{process.stderr}")


def run_tests(
    tests: Sequence[str],
    copy: pathlib.Path,
    variables: Mapping[str, str],
    timeout: float,
    first_failure: bool = True,
) -> tuple[int | None, str]:
    """Returns pytest's exit status (None = it ran out of time) and its output."""
    options = ["-q", "-p", "no:cacheprovider", "--no-header", "--tb=short", "-rfE"]
    options += ["-x"] if first_failure else []
    # With this profile, Hypothesis draws the same examples each time and has no deadlines.
    options += ["--hypothesis-profile=ci"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=copy, env=dict(variables), text=True, errors="replace", start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        return None, ""
    except BaseException:
        _end(process)
        raise
    return process.returncode, output


def _end(process: subprocess.Popen[str]) -> None:
    """Kills a process and its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    process.communicate()


def plant_and_test(
    mutant: Mutant, copy: pathlib.Path, variables: Mapping[str, str], timeout: float
) -> Result:
    """Plants a fault in the copy, runs its tests, and removes the fault.

    Raises:
      CheckError: pytest finds none of the tests.
    """
    path = copy / mutant.file
    before = path.read_text(encoding="utf-8")
    start = time.monotonic()
    try:
        path.write_text(before.replace(mutant.old, mutant.new), encoding="utf-8")
        status, output = run_tests(mutant.tests.split(), copy, variables, timeout)
    finally:
        path.write_text(before, encoding="utf-8")
    failed = _FAILURE.search(output)
    test, seconds = failed.group(1) if failed else "", time.monotonic() - start
    if status is None:
        return Result(mutant, Outcome.TIMED_OUT, test, seconds)
    if status == _STOPPED and "rror" in output:  # an error while tests are collected
        return Result(mutant, Outcome.NOT_IMPORTED, test, seconds)
    if status == _FAILED or status < 0:  # a crash is a failure too
        return Result(mutant, Outcome.CAUGHT, test, seconds)
    if status != _PASSED:
        raise CheckError(f"{mutant.id}: pytest ended with {status}:\n{output}")
    return Result(mutant, Outcome.SURVIVED, "", seconds)


def check(
    mutants: Sequence[Mutant],
    repository: pathlib.Path,
    jobs: int = 2,
    timeout: float = 600.0,
) -> Iterator[Result]:
    """Yields the result of each fault, as its tests end.

    Args:
      mutants: the faults, in any order.
      repository: a git working tree, which is only read.
      jobs: how many faults are tested at a time, each in its own copy.
      timeout: the most seconds for the tests of one fault.

    Raises:
      CheckError: see `check_edits`; also if tests fail without a fault.
    """
    check_edits(mutants, repository)
    with tempfile.TemporaryDirectory(prefix="faith_jax_mutants_") as folder:
        root = pathlib.Path(folder)
        cache = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(root / "compiled"))
        copies: queue.SimpleQueue[tuple[pathlib.Path, dict[str, str]]] = queue.SimpleQueue()
        for number in range(jobs):
            copy = copy_repository(repository, root / f"copy_{number}")
            variables = environment(copy, repository, cache)
            check_imports(copy, variables)
            copies.put((copy, variables))
        _check_tests(mutants, copies, jobs, timeout)

        def one(mutant: Mutant) -> Result:
            copy, variables = copies.get()
            try:
                return plant_and_test(mutant, copy, variables, timeout)
            finally:
                copies.put((copy, variables))

        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            futures = [pool.submit(one, mutant) for mutant in mutants]
            try:
                for future in concurrent.futures.as_completed(futures):
                    yield future.result()
            finally:
                pool.shutdown(cancel_futures=True)


def _check_tests(
    mutants: Sequence[Mutant],
    copies: "queue.SimpleQueue[tuple[pathlib.Path, dict[str, str]]]",
    jobs: int,
    timeout: float,
) -> None:
    """Runs all tests of the faults without a fault, divided among the jobs by file."""
    tests = sorted({test for mutant in mutants for test in mutant.tests.split()})
    whole_files = [test for test in tests if "::" not in test]
    tests = [t for t in tests if t in whole_files or t.partition("::")[0] not in whole_files]
    files = sorted({test.partition("::")[0] for test in tests})
    count = _PARTS * jobs
    parts = [
        part
        for number in range(count)
        if (part := [t for t in tests if t.partition("::")[0] in files[number::count]])
    ]
    _say(f"Without a fault: {len(tests)} groups of tests …")

    def run(part: Sequence[str]) -> None:
        copy, variables = copies.get()
        try:
            limit = timeout * len(part)
            status, output = run_tests(part, copy, variables, limit, first_failure=False)
        finally:
            copies.put((copy, variables))
        if status != _PASSED:
            reason = "They ran out of time." if status is None else output[-4000:]
            raise CheckError(f"Tests fail without a fault; repair them first.\n{reason}")

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run, parts))


def summary(results: Sequence[Result]) -> str:
    """Returns a table of the faults and how many were caught, by area and in total."""
    lines = [f"{'area':<12} {'faults':>6} {'caught':>6} {'share':>6}"]
    areas = [area for area in AREAS if any(r.mutant.area == area for r in results)]
    for area in [*areas, "all"]:
        part = [r for r in results if area in (r.mutant.area, "all")]
        caught = sum(r.outcome is not Outcome.SURVIVED for r in part)
        lines.append(f"{area:<12} {len(part):>6} {caught:>6} {caught / len(part):>6.0%}")
    return "\n".join(lines)


def select_mutants(areas: Sequence[str], only: Sequence[str]) -> list[Mutant]:
    """Returns the faults of these areas or with these ids; all faults if neither is given.

    Raises:
      CheckError: for an unknown id.
    """
    unknown = set(only) - {mutant.id for mutant in MUTANTS}
    if unknown:
        raise CheckError(f"--only: there is no {', '.join(sorted(unknown))}.")
    return [
        mutant
        for mutant in MUTANTS
        if (not areas and not only) or mutant.area in areas or mutant.id in only
    ]


def _say(text: str) -> None:
    print(text, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the check; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--area", action="append", default=[], choices=AREAS, help="of the faults; repeatable"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="ID", help="one fault; repeatable"
    )
    parser.add_argument("--jobs", type=int, default=2, help="faults at a time (default: 2)")
    parser.add_argument(
        "--timeout", type=float, default=600.0, help="seconds of one fault's tests (default: 600)"
    )
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error("--jobs: expected 1 or more.")
    start = time.monotonic()
    results: list[Result] = []
    try:
        mutants = select_mutants(options.area, options.only)
        for result in check(mutants, REPOSITORY, options.jobs, options.timeout):
            results.append(result)
            _say(
                f"{len(results):>3}/{len(mutants)} {result.outcome:<20} {result.mutant.area:<10} "
                f"{result.mutant.id:<34} {result.seconds:>5.0f} s  {result.test}"
            )
    except CheckError as error:
        print(f"mutation_check: {error}", file=sys.stderr)
        return 2
    survived = [result for result in results if result.outcome is Outcome.SURVIVED]
    _say(f"\n{summary(results)}\n{(time.monotonic() - start) / 60:.1f} minutes")
    for result in survived:
        _say(f"survived: {result.mutant.id} ({result.mutant.file}; {result.mutant.tests})")
    return int(1 - len(survived) / len(results) < LEAST_CAUGHT)


if __name__ == "__main__":
    sys.exit(main())
