"""The commands' entry: signals before, while and after a command runs."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from tests.paths import REPOSITORY

SIGNALS = [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")]


def run(script, *arguments, before=()):
    # -P: as in the installed commands, the working folder is not on the path.
    command = [*before, sys.executable, "-P", "-c", script, *map(str, arguments)]
    # Where the tests run in the background, Ctrl-C would be ignored.
    heard = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    return subprocess.run(
        command, capture_output=True, text=True, cwd=REPOSITORY, check=False, preexec_fn=heard
    )


@pytest.mark.parametrize(
    ("program", "entry", "number", "kind"),
    [("faith-jax", "main", *SIGNALS[0]), ("t5x", "t5x_main", *SIGNALS[1])],
)
def test_a_signal_while_the_program_is_imported(program, entry, number, kind):
    result = run(f"""
import importlib.abc, os, sys

class Signal(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "faith_jax.cli.parser":
            os.kill(os.getpid(), {int(number)})

sys.meta_path.insert(0, Signal())
from faith_jax.command import {entry}
{entry}()
""")
    assert result.stderr == f"{program}: {kind}; nothing was begun.\n"
    assert (result.returncode, result.stdout) == (128 + number, "")


def test_a_signal_while_a_command_runs(tmp_path):
    number, kind = SIGNALS[1]
    rows = tmp_path / "rows.jsonl"
    row = '{"id": "1", "corpus": "c", "label": 1, "scores": {"s": 0.5}, "fields": {}}\n'
    rows.write_text(row)
    result = run(
        f"""
import os, sys, time
from faith_jax.runs.scores import evaluate_scores

def stop(*_, **__):
    os.kill(os.getpid(), {int(number)})
    time.sleep(10)

evaluate_scores.has_labels = stop
from faith_jax.command import main
sys.exit(main())
""",
        *("evaluate", rows, f"--json={tmp_path}/out.json"),
    )
    (line,) = result.stderr.splitlines()
    assert line == f"faith-jax: {kind}; outputs that were not finished are not written."
    assert result.returncode == 128 + number
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.jsonl"]


def test_a_working_folder_that_is_gone(tmp_path):
    result = run(
        f"""
import os, sys
os.mkdir({str(tmp_path / "gone")!r})
os.chdir({str(tmp_path / "gone")!r})
os.rmdir({str(tmp_path / "gone")!r})
from faith_jax.command import main
sys.exit(main())
""",
        "score",
        "--input=rows.jsonl",
        "--output=scores.jsonl",
        "--scorers=token_f1",
    )
    message = "faith-jax: the working folder has been removed; change to another one.\n"
    assert (result.returncode, result.stderr) == (2, message)


@pytest.mark.parametrize(
    ("output", "message"),
    [(".", ". exists already"), ("..", ".. exists already"), ("/", "is no place for an output")],
)
def test_outputs_without_a_name(command, tmp_path, monkeypatch, output, message):
    monkeypatch.chdir(tmp_path)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"grounding": "Tea is hot.", "response": "Tea."}\n')
    status, _, errors = command(
        "score", "--input=rows.jsonl", f"--output={output}", "--scorers=token_f1"
    )
    assert (status, message in errors) == (2, True)
    assert list(tmp_path.iterdir()) == [rows]


def test_names_of_files_are_utf_8(command):
    status, _, err = command("report", "s\udce4.jsonl", "--output=page.html")
    assert (status, r"faith-jax: 's\udce4.jsonl': not UTF-8" in err) == (2, True)


def test_a_signal_while_a_command_imports_modules(tmp_path):
    """An extension module would turn the exception into an ImportError, or abort."""
    number, kind = SIGNALS[0]
    (tmp_path / "slow_extension.py").write_text(f"""
import os
try:
    os.kill(os.getpid(), {int(number)})
    os.listdir()  # where Python runs the handler
except BaseException as error:
    raise ImportError("Encountered an error while initializing the extension.") from error
""")
    result = run(f"""
import sys
from faith_jax import cli
from faith_jax.runs.scores import evaluate_scores

def run(options):
    sys.path.insert(0, {str(tmp_path)!r})
    import slow_extension

evaluate_scores.evaluate = run
from faith_jax.command import main
sys.argv = ["faith-jax", "evaluate", "x.jsonl"]
sys.exit(main())
""")
    assert result.stderr == f"faith-jax: {kind}; run the same command again.\n"
    assert result.returncode == 128 + number


# Root can read files without permissions, unless it drops this capability.
AS_A_USER = ("setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search")


CLOSED = [
    ("evaluate", "{closed}/scores.jsonl"),
    ("score", "--input={rows}", "--output={closed}/scores.jsonl", "--scorers=token_f1"),
    ("npov", "inputs", "--knowledge={closed}/topics", "--output={out}"),
]


def test_folders_that_are_closed_to_the_user(tmp_path):
    """All in one process."""
    if os.geteuid() == 0 and shutil.which(AS_A_USER[0]) is None:
        pytest.skip("root reads every folder, and there is no setpriv")
    places = {name: tmp_path / name for name in ("closed", "out")}
    places["rows"] = tmp_path / "rows.jsonl"
    places["rows"].write_text('{"grounding": "Tea is hot.", "response": "Tea."}\n')
    places["closed"].mkdir(mode=0)
    commands = [[argument.format(**places) for argument in arguments] for arguments in CLOSED]
    result = run(
        f"""
import sys
from faith_jax import cli
for arguments in {commands!r}:
    print("status", cli.main(arguments), file=sys.stderr)
""",
        before=AS_A_USER if os.geteuid() == 0 else (),
    )
    places["closed"].chmod(0o700)
    assert (result.returncode, "Traceback" in result.stderr) == (0, False), result.stderr
    *messages, end = result.stderr.split("status 2\n")
    assert (len(messages), end) == (len(CLOSED), "")
    for arguments, errors in zip(commands, messages, strict=True):
        *_, line = errors.splitlines()
        checks = (line.startswith("faith-jax: "), str(places["closed"]) in line, "denied" in line)
        assert checks == (True,) * 3, (arguments, line)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["closed", "rows.jsonl"]
