import os
import re
import subprocess
import sys

import pytest

from tests.paths import REPOSITORY


@pytest.mark.slow
def test_a_small_measurement_of_each_kind_of_file(tmp_path):
    """JSON arrays, JSON objects, JSON lines, delimited files, folders."""
    names = "faithdial,topical_chat,multidoc2dial,npov_errors,begin,cmu_dog"
    command = [sys.executable, "tools/benchmark_data.py", f"--datasets={names}", "--rows=30"]
    environment = os.environ | {"FAITH_JAX_DATA_DIR": str(tmp_path), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
    rows = re.findall(r"^(\w+)/\w+ +(\d+) +(\d+) +(\d+)$", done.stdout, re.MULTILINE)
    assert [name for name, *_ in rows] == names.split(",")
    for name, size, parsed, built in rows:
        assert int(size) >= 30, name
        assert int(parsed) > int(built) > 0, name
