"""What all commands do before they begin."""

import os

from faith_jax.cli.shared import keep_compiled_programs

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
