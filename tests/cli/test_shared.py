"""What all commands do before they begin."""

import gc
import os
import signal
import time

import pytest

from faith_jax.cli.shared import (
    first_line,
    hearing_signals,
    keep_compiled_programs,
    resumable,
)
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


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_garbage_collection_is_heard(capsys, number, status):
    """JAX has a callback of the garbage collector; Python drops what a signal raises in one."""
    sent = []

    def callback(*_):
        if not sent:
            sent.append(number)
            signal.raise_signal(number)

    def run():
        gc.callbacks.append(callback)
        gc.collect()
        gc.callbacks.remove(callback)
        assert sent
        time.sleep(30)
        return 0

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore Ctrl-C
    try:
        with hearing_signals():
            assert resumable(run, lambda: "kept") == status
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err.endswith("; kept\n")


def test_of_a_long_error_the_middle_is_left_out():
    told = first_line(InputError(f"rows.csv:1: column {'x' * 100_000} is missing; add it.\nmore"))
    assert len(told) == 1000
    assert told.startswith("rows.csv:1: column xxx")
    assert told.endswith("xxx is missing; add it.")
    assert first_line(InputError("y" * 1000)) == "y" * 1000
