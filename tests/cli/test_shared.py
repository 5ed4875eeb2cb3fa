"""The steps that all commands take before they start."""

import errno
import gc
import os
import re
import signal
import time
from unittest import mock

import pytest

from faith_jax import cli
from faith_jax.cli.gin_commands import Infer
from faith_jax.cli.score_commands import Score
from faith_jax.cli.shared import (
    TerminatedError,
    first_line,
    keep_compiled_programs,
    raising_signals,
)
from faith_jax.core.errors import InputError
from tests.paths import REPOSITORY

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
    monkeypatch.delenv("JAX_COMPILATION_CACHE_MAX_SIZE")
    keep_compiled_programs()
    assert os.environ[CACHE] == "elsewhere"
    assert "JAX_COMPILATION_CACHE_MAX_SIZE" not in os.environ
    assert os.environ[times] == "0"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, TerminatedError)]
)
def test_a_signal_during_garbage_collection_is_heard(number, kind):
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

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore Ctrl-C
    try:
        with pytest.raises(KeyboardInterrupt) as stopped, raising_signals("faith-jax"):
            run()
    finally:
        signal.signal(signal.SIGINT, before)
    assert type(stopped.value) is kind


def test_what_is_said_of_a_stop_is_signed_by_the_program(capsys, monkeypatch):
    kept = "responses so far are kept; the same command resumes there.\n"
    full = OSError(errno.ENOSPC, "full", "out.partial/rows.jsonl")
    problem = "out.partial/rows.jsonl: No space left on device. Free some space"
    stops = [(KeyboardInterrupt(), 130, "interrupted"), (full, 1, problem)]
    for main, program in ((cli.t5x_main, "t5x"), (cli.main, "faith-jax")):
        for error, status, message in stops:
            monkeypatch.setattr(Infer, "run", mock.Mock(side_effect=error))
            assert main(["infer", "--gin_file=runs/infer_file.gin"]) == status
            assert capsys.readouterr().err == f"{program}: {message}; {kept}"


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), RuntimeError("no answer")])
def test_a_stop_is_one_line_where_what_is_kept_cannot_be_counted(capsys, monkeypatch, problem):
    """A second Ctrl-C arrives meanwhile, or the storage does not answer."""
    monkeypatch.setattr(Score, "run", mock.Mock(side_effect=KeyboardInterrupt))
    monkeypatch.setattr("faith_jax.core.files.count_kept_rows", mock.Mock(side_effect=problem))
    assert cli.main(["score", "--scorers=token_f1", "--input=a.jsonl", "--output=b.jsonl"]) == 130
    message = "faith-jax: interrupted; outputs that were not finished are not written.\n"
    assert capsys.readouterr().err == message


ESCAPE = "\x1b[2J"


def test_nothing_that_commands_print_moves_the_terminal(command, tmp_path):
    """Names of outputs, and the texts of files; `show` is the only printer of commands."""
    rows = tmp_path / f"rows{ESCAPE}.jsonl"
    rows.write_text('{"grounding": "Tea.", "response": "Tea.", "col\\u001b[2J": 1}\n' * 2)
    output = tmp_path / f"scores{ESCAPE}.jsonl"
    printed = [
        command("score", "--scorers=token_f1", f"--input={rows}", f"--output={output}"),
        command("score", "--scorers=token_recall", f"--input={rows}", f"--output={output}"),
        command("evaluate", output),
        command("check", "--claim=Tea.", f"--knowledge-base=base{ESCAPE}"),
        command("score", f"--scorers=token{ESCAPE}", f"--input={rows}", f"--output={output}2"),
    ]
    assert [status for status, _, _ in printed] == [0, 2, 0, 2, 2]
    for _, out, err in printed:
        assert "\x1b" not in out + err
        assert "\\x1b[2J" in out + err
    sources = (REPOSITORY / "faith_jax" / "cli").glob("*.py")
    assert [p.name for p in sources if re.search(r"(?<![\w.])print\(", p.read_text())] == [
        "shared.py"
    ]


def test_of_a_long_error_the_middle_is_left_out():
    line = first_line(InputError(f"rows.csv:1: column {'x' * 100_000} is missing; add it."))
    assert len(line) == 1000
    assert line.startswith("rows.csv:1: column xxx")
    assert line.endswith("xxx is missing; add it.")
    assert first_line(InputError("y" * 1000)) == "y" * 1000


@pytest.mark.parametrize(
    "lines_of_gin",
    [
        "",
        "\n  In call to configurable 'infer' (<function infer>)\n  In call to configurable 'run'",
        '\n  In file "a.gin", line 3\n    INPUT = 1',
        "\n  In bindings string line 1\n    INPUT = 1",
    ],
)
def test_a_line_break_in_a_name_hides_no_remedy(lines_of_gin):
    error = InputError(f"a.csv:1: column 'Source\ntext\r' is missing; add it.{lines_of_gin}")
    assert first_line(error) == r"a.csv:1: column 'Source\ntext\r' is missing; add it."
