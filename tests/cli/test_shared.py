"""What all commands do before they begin."""

import os

from faith_jax.cli.shared import first_line, keep_compiled_programs
from faith_jax.core.errors import InputError

CACHE = "JAX_COMPILATION_CACHE_DIR"


def test_compiled_programs_are_kept_in_the_users_cache(tmp_path, monkeypatch):
    times = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
    for name in (CACHE, "JAX_COMPILATION_CACHE_MAX_SIZE", times):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    keep_compiled_programs()
    folder = os.environ[CACHE]
    assert os.path.dirname(folder) == str(tmp_path / "faith_jax" / "compiled")
    assert int(os.environ["JAX_COMPILATION_CACHE_MAX_SIZE"]) == 4 * 1024**3
    monkeypatch.setenv(CACHE, "elsewhere")
    keep_compiled_programs()
    assert os.environ[CACHE] == "elsewhere"


def test_of_a_long_error_the_middle_is_left_out():
    told = first_line(InputError(f"rows.csv:1: column {'x' * 100_000} is missing; add it.\nmore"))
    assert len(told) == 1000
    assert told.startswith("rows.csv:1: column xxx")
    assert told.endswith("xxx is missing; add it.")
    assert first_line(InputError("y" * 1000)) == "y" * 1000
