import subprocess
import sys

import pytest

from tests.paths import REPOSITORY


@pytest.mark.parametrize(("minutes", "skipped"), [("0", 1), ("60", 0)])
def test_long_tests_are_skipped_when_their_time_is_over(minutes, skipped):
    file = "tests/tools/test_benchmark_jobs.py"  # has a long test and a quick one
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--minutes={minutes}"]
    chosen = "is_a_part" if skipped == 0 else ""
    process = subprocess.run(
        [*command, "-v", "-k", chosen, file],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"1 passed{', 1 skipped' if skipped else ', 1 deselected'}" in process.stdout
    assert (f"no time left: 1 tests of {file}" in process.stdout) == bool(skipped)
