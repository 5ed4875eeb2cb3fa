"""Checks that bad input is never silently accepted and never ends in a traceback.

See docs/reliability.md. Every command that reads input runs on inputs spoiled at random, by a seed:
data of every builder, scored files, sheets, tables with columns of all types, checkpoints of many
families, gin files, settings, options and archives. A command must refuse bad input with one line
and status 2, and leave no files. It must not accept input that is certainly wrong, nor refuse input
that is right. No pickle may run, and nothing may be written outside the output.

    python tools/bad_inputs.py
    python tools/bad_inputs.py --trials=200 --seed=3 --only="score jsonl;import t5"
    python tools/bad_inputs.py --jobs=2 --table=table.md

Prints a line for each trial that fails (`--only=NAME --at=SEED` repeats it) and a table of counts.
Exit status: 0 if all trials went as promised, 1 otherwise.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import logging
import multiprocessing
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tools")]

import spoiled_files  # noqa: E402
from bad_input_cases import Case, all_cases  # noqa: E402
from spoiled_files import Change  # noqa: E402

_HANGS = 120  # seconds
_MEMORY = 10 * 2**30  # bytes of address space; beyond it, allocations raise MemoryError
_LINE = 1500  # the most characters of an error message
_LEFT = re.compile(r"\.(partial|lock|lease)\b")
_CANARY = "canary"
_WHOLE = -1  # the seed of a trial with intact input: its command must end with status 0
# Values that an option with a number cannot have, and values that may or may not be valid.
_NO_NUMBERS = ("x", "", "nan", "[1]", "1_x")
_NUMBERS = ("-7", "0", "1e400", "9" * 400, "9" * 5000, "0.5", "inf")
_TEXTS = ("", " ", "=", "a=b", ",", "a,b", "é", "x" * 5000, "/dev/null/at/all", "{IN}", "[", "{x}")
_SETTINGS = (
    "None", "-7", "0", "3", "1e400", "nan", "9" * 400, "9" * 5000, "'x'", "[]", "{}", "{'x': [1]}",
    "True", "%x", "@x", "@x()", "'", "(", "'../../x'", "[[[]]]", "1+1", "__import__('os')", "",
    "/dev/null/at/all", "x" * 5000, "{IN}", "\\x00", "@jax.jit", "@os.system()",
)  # fmt: skip


class Hang(BaseException):
    """A trial took too long; no `except Exception` may hide it."""


class Outcome(NamedTuple):
    """How a command ended.

    Attributes:
      status: the exit status; None = it hung.
      errors: the text it printed on stderr.
      raised: a shortened traceback, or "".
      before: the files in the trial's folder before the command ran.
      after: the files afterwards, relative to the folder.
    """

    status: int | None
    errors: str
    raised: str
    before: frozenset[str]
    after: frozenset[str]


class Trial(NamedTuple):
    """A test with one input, how the command reacted, and the problem; "" = none."""

    case: str
    seed: int
    change: Change
    status: int | None
    problem: str


def problem_of(outcome: Outcome, change: Change, prog: str = "faith-jax") -> str:
    """Returns the problem with a command's reaction to an input; "" = none."""
    new = sorted(outcome.after - outcome.before)
    named = re.compile(rf"{prog}( [a-z_-]+)*: ")  # a command or subcommand
    lines = [line for line in outcome.errors.splitlines() if named.match(line)]
    last_line = lines[-1] if lines else ""
    # The note of a finished `score` lies beside its output.
    ours = re.compile(r"out|in|\.out.*\.finished\.json$")
    if escaped := [name for name in new if not ours.match(name)]:
        return f"written elsewhere: {escaped[:3]}"
    if gone := sorted(outcome.before - outcome.after):
        return f"the input is gone: {gone[:3]}"
    if outcome.status is None:
        return "hangs"
    if outcome.raised:
        return f"traceback: {outcome.raised}"
    if "Traceback (most recent call last)" in outcome.errors:
        return f"prints a traceback: {outcome.errors.partition('Traceback')[2][-300:]!r}"
    if outcome.status == 0:
        left = [name for name in new if _LEFT.search(name)]
        if left:
            return f"left behind: {left[:3]}"
        return "accepted" if change.must_refuse else ""
    if outcome.status != 2:
        return f"exit status {outcome.status}: {last_line or outcome.errors[-300:]!r}"
    if len(lines) != 1:
        return f"{len(lines)} lines of errors: {outcome.errors[-300:]!r}"
    if len(last_line) > _LINE or len(last_line) < len(prog) + 12:
        return f"a line of {len(last_line)} characters: {last_line[:300]!r}"
    if change.must_accept:
        return f"refused: {last_line[:300]!r}"
    return f"left behind: {new[:3]} ({last_line[:200]})" if new else ""


def _files(folder: pathlib.Path) -> frozenset[str]:
    """Returns all files, links and folders below a folder."""
    return frozenset(str(path.relative_to(folder)) for path in folder.rglob("*"))


@contextlib.contextmanager
def _captured(errors: pathlib.Path) -> Iterator[None]:
    """Discards stdout and sends stderr, also that of child processes, to a file."""
    sys.stdout.flush(), sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    try:
        with open(errors, "w", errors="backslashreplace") as file, open(os.devnull, "w") as null:
            os.dup2(null.fileno(), 1), os.dup2(file.fileno(), 2)
            with contextlib.redirect_stdout(null), contextlib.redirect_stderr(file):
                yield
    finally:
        os.dup2(saved[0], 1), os.dup2(saved[1], 2)
        os.close(saved[0]), os.close(saved[1])


class _ToStderr(logging.StreamHandler):
    """Logs to the current `sys.stderr`."""

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, value: Any) -> None:
        pass


def _stop(number: int, frame: Any) -> None:
    raise Hang


def _where(error: BaseException) -> str:
    """Returns an error with the last frames of our own code in its traceback."""
    ours = [f for f in traceback.extract_tb(error.__traceback__) if "/faith_jax/" in f.filename]
    places = [f"{f.filename.rpartition('/faith_jax/')[2]}:{f.lineno}" for f in ours[-3:]]
    return f"{type(error).__name__}: {str(error)[:200]!r} at {' > '.join(places)}"


def outcome_of(run: Callable[[], int], folder: pathlib.Path, errors: pathlib.Path) -> Outcome:
    """Runs a command in a trial's folder; returns how it ended."""
    before, status, raised = _files(folder), None, ""
    folder_before, previous = os.getcwd(), signal.signal(signal.SIGALRM, _stop)
    os.chdir(folder)
    try:
        with _captured(errors):
            signal.alarm(_HANGS)
            try:
                status = run()
            except Hang:
                pass
            except BaseException as error:
                status, raised = 1, _where(error)
            finally:
                signal.alarm(0)
    finally:
        os.chdir(folder_before)
        signal.signal(signal.SIGALRM, previous)
        if "gin" in sys.modules:
            gin = sys.modules["gin"]
            with gin.unlock_config():
                gin.clear_config()
    return Outcome(status, errors.read_text(errors="replace"), raised, before, _files(folder))


def _spoiled_options(rng: random.Random, case: Case, arguments: list[str]) -> Change:
    """Spoils an option in place."""
    name = rng.choice(list(case.options))
    low, is_setting = case.options[name], name.startswith("--gin.")
    if is_setting:
        value = rng.choice(_SETTINGS)
        either = ("0", "3", "1+1", "True", "nan", "1e400", "None", "9" * 400, "9" * 5000)
        must = low is not None and value not in either
    else:
        value = rng.choice(_TEXTS if low is None else (*_NO_NUMBERS, *_NUMBERS))
        must = low is not None and (value in _NO_NUMBERS or (low >= 0 and value == "-7"))
    arguments[:] = [part for part in arguments if not part.startswith(f"{name}=")]
    arguments.append(f"{name}={value}")
    return Change(f"{name}={value[:40]}", must)


def _spoil(rng: random.Random, case: Case, source: pathlib.Path, arguments: list[str]) -> Change:
    if case.options and (case.good is None or rng.random() < 0.25):
        return _spoiled_options(rng, case, arguments)
    if case.spoil:
        return case.spoil(rng, source)
    canary = source.with_name(_CANARY)
    files = [source] if source.is_file() else sorted(p for p in source.rglob("*") if p.is_file())
    path = rng.choice(files)
    change = spoiled_files.spoil_file(rng, path, case.required, canary)
    name = path.relative_to(source.parent)
    is_read = source == path or any(path.relative_to(source).match(p) for p in case.read)
    is_read &= not (case.is_data and change.what in ("missing", "a link to itself"))
    is_read &= not (case.finds_encoding and path.is_file() and not _is_utf_8(path))
    return Change(f"{name}: {change.what}", change.must_refuse and is_read)


def _is_utf_8(path: pathlib.Path) -> bool:
    try:
        path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


@dataclasses.dataclass
class _Command:
    run: Callable[[], Any]


def trial(case: Case, seed: int, work: pathlib.Path) -> Trial:
    """Spoils a case's input, runs its command, and judges the outcome."""
    from faith_jax import cli

    rng = random.Random(f"{case.name} {seed}")
    # Loaded models are cached by folder, so each trial needs a new one.
    folder = pathlib.Path(tempfile.mkdtemp(dir=work))
    source = folder / f"in{case.good.suffix if case.good and case.good.is_file() else ''}"
    if case.good:
        spoiled_files.copied(case.good, source)
    arguments = list(case.arguments)
    change = _spoil(rng, case, source, arguments) if seed != _WHOLE else Change("nothing")
    output = folder / "out"
    named = [a.replace("{IN}", str(source)).replace("{OUT}", str(output)) for a in arguments]
    prog = "t5x" if named[:1] == ["t5x"] else "faith-jax"
    main = cli.t5x_main if prog == "t5x" else cli.main
    shown_arguments = named[1:] if prog == "t5x" else named
    run = functools.partial(main, shown_arguments)
    if case.run:
        command = _Command(functools.partial(case.run, source, output))
        options = argparse.Namespace(make=lambda _: command)
        run = functools.partial(cli._run_reporting_errors, options, prog)
    outcome = outcome_of(run, folder, work / "stderr")
    if case.resumes:
        changed = {name for name in outcome.after | outcome.before if name.startswith("in/")}
        changed = {name for name in changed if not _LEFT.search(name) or outcome.status != 0}
        outcome = outcome._replace(before=outcome.before - changed, after=outcome.after - changed)
    problem = problem_of(outcome, change, prog)
    if seed == _WHOLE and outcome.status != 0:
        problem = problem or f"a good input is refused: {outcome.errors[-300:]!r}"
    shutil.rmtree(folder)
    return Trial(case.name, seed, change, outcome.status, problem)


def start_process(data: pathlib.Path) -> None:
    """Prepares this process for trials: memory limit, logging, and folder of prepared data."""
    os.environ |= {"FAITH_JAX_DATA_DIR": str(data), "JAX_PLATFORMS": "cpu"}
    os.environ |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY"), "http://127.0.0.1:9")
    os.environ |= {"HTTPS_PROXY": "http://127.0.0.1:9", "TF_CPP_MIN_LOG_LEVEL": "3"}
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, hard_limit))
    logging.basicConfig(level=logging.WARNING, handlers=[_ToStderr()])


_CASES: dict[str, Case] = {}
_WORK = pathlib.Path()
_DONE = 0


def _start_worker(cases: Iterable[Case], work: pathlib.Path) -> None:
    global _WORK
    start_process(work / "data")
    _CASES.update({case.name: case for case in cases})
    _WORK = work / f"worker-{os.getpid()}"
    _WORK.mkdir()


def _worker_trial(name: str, seed: int) -> Trial:
    global _DONE
    _DONE += 1
    (_WORK / "now").write_text(f"{name}, seed {seed}")
    if _DONE % 300 == 0:  # compiled programs use up the memory maps of a process
        import jax

        jax.clear_caches()
    return trial(_CASES[name], seed, _WORK)


def planned(cases: Sequence[Case], trials: int, seed: int) -> list[tuple[str, int]]:
    """Returns (case name, seed) pairs drawn by share, after one intact trial of each case."""
    total = sum(case.share for case in cases)
    counts = {case.name: max(1, round(trials * case.share / total)) for case in cases}
    spoiled = [(name, seed * 100_000 + i) for name, count in counts.items() for i in range(count)]
    return [(case.name, _WHOLE) for case in cases if case.name != "WordNet"] + spoiled


def table(trials: Iterable[Trial]) -> str:
    """Returns the counts of trials as a Markdown table."""
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for result in trials:
        kind = "wrong" if result.problem else "accepted" if result.status == 0 else "refused"
        for name in (result.case, "all"):
            counts[name].update(["tried", kind])
    kinds = ("tried", "refused", "accepted", "wrong")
    lines = ["| command and data | tried | refused | accepted | wrong |", "| --- |" + " --- |" * 4]
    for name in [*sorted(counts.keys() - {"all"}), "all"]:
        lines.append(f"| {name} | " + " | ".join(f"{counts[name][k]:,}" for k in kinds) + " |")
    return "\n".join(lines) + "\n"


def _told(result: Trial) -> str:
    change = ascii(result.change.what)[1:-1]
    return f"FAILED {result.case}, seed {result.seed}: {change[:200]}: {result.problem}"


def run(
    cases: Sequence[Case], plan: Sequence[tuple[str, int]], work: pathlib.Path, jobs: int
) -> list[Trial]:
    """Runs trials in worker processes, and prints those that fail."""
    context, trials = multiprocessing.get_context("spawn"), []
    with concurrent.futures.ProcessPoolExecutor(
        jobs, context, _start_worker, (list(cases), work)
    ) as pool:
        futures = [pool.submit(_worker_trial, *trial_arguments) for trial_arguments in plan]
        try:
            for future in concurrent.futures.as_completed(futures):
                trials.append(result := future.result())
                if result.problem:
                    print(_told(result), flush=True)
                if len(trials) % 500 == 0:
                    print(f"{len(trials)}/{len(plan)} trials", flush=True)
        except concurrent.futures.process.BrokenProcessPool:
            running = [path.read_text() for path in work.glob("worker-*/now")]
            print(f"FAILED a process died in one of: {running}", flush=True)
            broken = Trial("a process", 0, Change(str(running)), None, "died")
            trials.append(broken)
    return trials


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tool; returns its exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = lambda text: [name.strip() for name in text.split(";")]  # noqa: E731
    parser.add_argument("--trials", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=names, default=(), help="cases, separated by semicolons")
    parser.add_argument("--at", type=int, help="the seed of one trial of the case")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--table", type=pathlib.Path, help="a file for the table of counts")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bad-inputs-") as folder:
        work = pathlib.Path(folder)
        start_process(work / "data")
        with _captured(work / "stderr"):
            cases = all_cases(work / "good", options.only)
        plan = planned(cases, options.trials, options.seed)
        if options.at is not None:
            plan = [(case.name, options.at) for case in cases]
        trials = run(cases, plan, work, options.jobs)
    print(table_text := table(trials), end="")
    if options.table:
        options.table.write_text(table_text)
    return int(any(result.problem for result in trials))


if __name__ == "__main__":
    sys.exit(main())
