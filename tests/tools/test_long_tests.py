import subprocess
import sys

from tests.paths import REPOSITORY


def test_long_tests_are_skipped_when_their_time_is_over():
    file = "tests/tools/test_docker.py"  # has a long test and quick ones
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--minutes=0", "-v", file]
    process = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert "3 passed, 1 skipped" in process.stdout
    assert f"no time left: 1 tests of {file}" in process.stdout
