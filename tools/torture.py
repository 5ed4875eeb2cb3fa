"""Checks that no output is lost, mixed or silently accepted when damaged: see docs/reliability.md.

Commands run on small data. They are killed at random moments and at random writes, renames and
removals; started twice at once, also with other settings on the same output; and given full disks,
odd output paths, and checkpoints with flipped bits. After each kill and each full disk the same
command runs again, and its output must equal that of an unbroken run byte for byte (for training,
its parameters bit for bit).

    python tools/torture.py
    python tools/torture.py --kills=20 --pairs=4 --disks=0 --flips=0 --jobs=score,infer
    python tools/torture.py --seed=1 --table=table.md

Prints a line for each trial that fails, and a table of counts, also after Ctrl-C. Exit status: 0
if all trials went as promised, 1 otherwise. Full disks need root, to mount them. bad_inputs.py
tests bad inputs.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tools")]

import disk_faults  # noqa: E402

_HANGS = 300.0  # seconds after which a command counts as hanging
_SIGNALS = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
_CHECKPOINTS = ("import-checkpoint", "export-checkpoint", "train")
_RIVAL = ", other settings"
_KEPT = (".preflight.json",)  # files beside an output that are not part of it
_WORDS = [
    "tea",
    "bees",
    "honey",
    "warm",
    "rain",
    "river",
    "stone",
    "light",
    "bread",
    "garden",
    "paper",
    "winter",
]


@dataclasses.dataclass(frozen=True)
class Job:
    """A command that writes an output.

    Attributes:
      arguments: arguments of `faith-jax`; {OUT} stands for the output, in a folder of its own.
      digest: computes the part of an output that must be equal in all runs.
      processes: how many processes run the command together.
      writes: "new" if an existing output is an error, "same" if it is kept or made again.
      rival: a text in the arguments and its replacement for other settings; () = no rival.
    """

    arguments: Sequence[str]
    digest: Callable[[pathlib.Path], str]
    processes: int = 1
    writes: str = "new"
    rival: tuple[str, ...] = ()

    def with_other_settings(self) -> "Job":
        """Returns the rival of this job, for the same output."""
        arguments = [argument.replace(*self.rival) for argument in self.arguments]
        return dataclasses.replace(self, arguments=arguments, rival=())


class Trial(NamedTuple):
    """A test of one job, and the problem it found; "" = none."""

    kind: str
    job: str
    problem: str


@dataclasses.dataclass
class Setting:
    """The data that all trials share, and the digests, times and write counts of unbroken runs."""

    folder: pathlib.Path
    library: pathlib.Path
    jobs: dict[str, Job]
    digests: dict[str, str] = dataclasses.field(default_factory=dict)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    writes: dict[str, int] = dataclasses.field(default_factory=dict)


def content_digest(output: pathlib.Path) -> str:
    """Returns a hash of a file, or of all files in a folder with their names."""
    digest = hashlib.sha256()
    for path in sorted(output.rglob("*")) if output.is_dir() else [output]:
        if path.is_file() and not path.name.endswith(_KEPT) and ".snakemake" not in path.parts:
            digest.update(str(path.relative_to(output)).encode() + path.read_bytes())
    return digest.hexdigest()


def checkpoint_params(folder: pathlib.Path) -> str:
    """Returns the hash of a checkpoint's parameters and config."""
    from faith_jax.checkpoints.checkpoint import content_hash
    from faith_jax.checkpoints.open import open_checkpoint

    checkpoint = open_checkpoint(folder)
    return f"{content_hash(checkpoint.params)} {checkpoint.config}"


def checkpoint_content(folder: pathlib.Path) -> str:
    """Returns `checkpoint_params`, after checking the tensors that training resumes from."""
    from faith_jax.checkpoints.manifest import check_tensors, read_manifest
    from faith_jax.checkpoints.native import read_part

    manifest = read_manifest(folder)
    names = [name for name in manifest.tensors if name.startswith(("opt_state/", "objective/"))]
    check_tensors(folder, manifest, {name: read_part(folder, name, ()) for name in names})
    return checkpoint_params(folder)


def params_digest(model_dir: pathlib.Path) -> str:
    """Returns the hash of the parameters in a run's newest checkpoint, with its step."""
    from faith_jax.checkpoints.embedded import newest_step

    step = newest_step(model_dir)
    return f"{step} {checkpoint_params(model_dir / 'checkpoints' / str(step))}"


def prepared(folder: pathlib.Path) -> dict[str, Job]:
    """Writes the data that all trials read, and returns the jobs."""
    from tests.scoring import tiny_models

    rng = random.Random(0)
    texts = [" ".join(rng.choices(_WORDS, k=30)) for _ in range(600)]
    rows = [
        {"grounding": text, "generated_text": " ".join(rng.sample(text.split(), 12)), "id": str(i)}
        for i, text in enumerate(texts)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    queries = [{"inputs": f"Is {text.split()[0]} number {i} warm?"} for i, text in enumerate(texts)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(q) + "\n" for q in queries[:48]))
    for name in ("gpt2", "bart"):
        tiny_models.write_model(folder / name, name)
    rows_file = f"--input={folder}/rows.jsonl"
    lexical = ("score", "--scorers=rouge2_f1,bleu", rows_file, "--output={OUT}")
    infer = (
        *("infer", "--gin_file=runs/infer_file.gin", f"--gin.CHECKPOINT_PATH={folder}/gpt2"),
        *(f"--gin.INPUT_FILE={folder}/queries.jsonl", "--gin.INFER_OUTPUT_DIR={OUT}"),
        *("--gin.MAX_INPUT_LENGTH=24", "--gin.DECODE_LENGTH=8", "--gin.BATCH_SIZE=4"),
        "--gin.TEMPERATURE=1.0",
    )
    train = (
        *("train", f"--gin_search_paths={REPOSITORY}/tests/testdata/gin", "--gin_file=tiny.gin"),
        *("--gin.CHECKPOINT_PERIOD=2", "--gin.EVAL_PERIOD=4", "--gin.MODEL_DIR={OUT}"),
    )
    model = f"--scorer-option=pmi_faith_mean.model={folder}/gpt2"
    few = f"--input={folder}/few.jsonl"
    (folder / "few.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:48]))
    jsonl = "--gin.FORMATS=('jsonl',)"
    scorers, length = ("rouge2_f1,bleu", "rouge1_f1,bleu"), ("DECODE_LENGTH=8", "DECODE_LENGTH=6")
    return {
        "score": Job(
            (*lexical, "--format=jsonl", "--batch-size=20"), content_digest, rival=scorers
        ),
        "score parquet": Job(
            (*lexical, "--format=parquet", "--batch-size=20"), content_digest, rival=scorers
        ),
        "score tfds": Job((*lexical, "--format=tfds", "--batch-size=20"), content_digest),
        "score model": Job(
            ("score", "--scorers=pmi_faith_mean", model, few, "--output={OUT}", "--batch-size=8"),
            content_digest,
        ),
        "infer": Job((*infer, jsonl), content_digest, writes="same", rival=length),
        "infer tfds": Job(infer, content_digest, writes="same"),
        "infer, 2 processes": Job((*infer, jsonl), content_digest, 2, "same"),
        "train": Job(train, params_digest, writes="same"),
        "train, 2 processes": Job(train, params_digest, 2, "same"),
        "prepare": Job(
            ("prepare", "faithdial/sample", "--data-dir={OUT}"),
            # A kill after the last rename leaves a lock and an empty note beside the data set.
            lambda output: content_digest(output / "faithdial" / "sample" / "1.0.0"),
            writes="same",
        ),
        "import-checkpoint": Job(
            ("import-checkpoint", f"{folder}/bart", "{OUT}"), checkpoint_params
        ),
        "export-checkpoint": Job(("export-checkpoint", f"{folder}/gpt2", "{OUT}"), content_digest),
        "reproduce": Job(
            ("reproduce", "begin", "--sample", "--output={OUT}", "--scorers=bleu,token_f1"),
            content_digest,
            writes="same",
        ),
    }


def output_of(job: str, folder: pathlib.Path) -> pathlib.Path:
    """Returns the output path of a job or its rival; `folder` belongs to the trial."""
    job = job.removesuffix(_RIVAL)
    return folder / ("out.jsonl" if job in ("score", "score model") else _suffixed(job))


def _suffixed(job: str) -> str:
    return "out.parquet" if job == "score parquet" else "out"


def started(
    setting: Setting,
    name: str,
    folder: pathlib.Path,
    environment: Mapping[str, str],
    *more: str,
    output: str = "",
    directory: pathlib.Path = REPOSITORY,
) -> list[subprocess.Popen]:
    """Starts the processes of a job, with stderr appended to the file `<folder>.err`."""
    job = setting.jobs[name]
    output = output or str(output_of(name, folder))
    environment = {**environment, "PYTHONPATH": str(REPOSITORY), "JAX_PLATFORMS": "cpu"}
    command = [part.replace("{OUT}", output) for part in (*job.arguments, *more)]
    lists = [command]
    if job.processes > 1:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{listener.getsockname()[1]}"
        lists = [
            [*command, f"--coordinator_address={address}", f"--process_count={job.processes}"]
            + [f"--process_index={index}"]
            for index in range(job.processes)
        ]
    started_processes = []
    for arguments in lists:
        with open(f"{folder}.err", "a") as errors:
            started_processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "faith_jax", *arguments],
                    cwd=directory,
                    env={**environment, "TF_CPP_MIN_LOG_LEVEL": "3"},
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    # Processes started in the background would otherwise ignore Ctrl-C.
                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                )
            )
    return started_processes


def ended(processes: Sequence[subprocess.Popen], wait: float = _HANGS) -> list[int | None]:
    """Waits for processes, kills those that hang, and returns their statuses (None = it hung)."""
    deadline, statuses = time.monotonic() + wait, []
    for process in processes:
        try:
            statuses.append(process.wait(max(0.1, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            statuses.append(None)
    return statuses


def complaint(folder: pathlib.Path, statuses: Sequence[int | None], allowed: set[int]) -> str:
    """Describes a hang, an unexpected exit status or a traceback; "" = no complaint."""
    errors = pathlib.Path(f"{folder}.err").read_text(errors="replace")
    if None in statuses:
        return "hangs"
    if not set(statuses) <= allowed:
        return f"exit status {statuses}: {errors.strip().splitlines()[-1:]}"
    # Python itself handles a Ctrl-C that arrives before the command's own code runs.
    too_early = errors.endswith("KeyboardInterrupt\n") and ", in main\n" not in errors
    return "traceback" if "Traceback" in errors and not too_early else ""


def measured(setting: Setting, name: str) -> None:
    """Runs a job unbroken, and records its digest, its seconds and its number of writes."""
    folder = setting.folder / "unbroken" / name.replace(" ", "_")
    folder.mkdir(parents=True)
    count = pathlib.Path(f"{folder}.count")
    environment = disk_faults.environment(setting.library, folder, count)
    start = time.monotonic()
    statuses = ended(started(setting, name, folder, environment))
    if statuses != [0] * len(statuses):
        raise SystemExit(f"{name}: {statuses}: {pathlib.Path(f'{folder}.err').read_text()[-2000:]}")
    setting.seconds[name] = time.monotonic() - start
    setting.digests[name] = setting.jobs[name].digest(output_of(name, folder))
    setting.writes[name] = disk_faults.writes(count)
    lost = [path for path in disk_faults.unsynced(output_of(name, folder)) if path.is_file()]
    if lost:
        print(f"{name}: not on disk when it ends: {sorted(map(str, lost))[:3]}", flush=True)


def finished(setting: Setting, name: str, folder: pathlib.Path) -> str:
    """Runs a job to its end after a fault; returns the problem, or ""."""
    pathlib.Path(f"{folder}.err").write_text("")
    statuses = ended(started(setting, name, folder, os.environ))
    if problem := complaint(folder, statuses, {0}):
        return f"the next run: {problem}"
    try:
        is_same = setting.jobs[name].digest(output_of(name, folder)) == setting.digests[name]
    except Exception as error:
        return f"its output cannot be read: {error}"
    return left_behind(folder) or ("" if is_same else "another output")


def left_behind(folder: pathlib.Path, output: pathlib.Path | None = None) -> str:
    """Names leftovers in a job's folder; only rows kept for `output` are allowed. "" = clean."""
    endings = (".partial", ".lock", ".private")
    paths = (p.relative_to(folder) for p in folder.rglob("*") if p.name.endswith(endings))
    expected_names = {".snakemake"} | ({f"{output.name}.partial"} if output else set())
    left = [str(path) for path in paths if expected_names.isdisjoint(path.parts)]
    return f"left behind: {left[:5]}" if left else ""


def kept_complete(setting: Setting, name: str, folder: pathlib.Path) -> str:
    """Runs a job whose output was complete before the kill, then removes it; returns the problem.

    The next run must refuse to overwrite the output, except that `score` may report it as finished
    if it was killed after noting that. Neither may change the output.
    """
    output = output_of(name, folder)
    allowed = {0, 2} if name.startswith("score") else {2}
    pathlib.Path(f"{folder}.err").write_text("")
    statuses = ended(started(setting, name, folder, os.environ))
    if problem := complaint(folder, statuses, allowed) or left_behind(folder, output):
        return f"the next run, which finds the output: {problem}"
    if setting.jobs[name].digest(output) != setting.digests[name]:
        return "another output"
    shutil.rmtree(output) if output.is_dir() else output.unlink()
    return ""


def kill_trial(setting: Setting, name: str, seed: int) -> Trial:
    """Kills a job once or twice, in every fourth trial with a power cut, then lets it finish."""
    rng, folder = random.Random(f"{name} {seed}"), setting.folder / "kills" / f"{name}-{seed}"
    folder.mkdir(parents=True)
    output, job = output_of(name, folder), setting.jobs[name]
    for _ in range(rng.choice((1, 1, 2))):
        at_write = seed % 2 == 0
        count = pathlib.Path(f"{folder}.count")
        count.unlink(missing_ok=True)
        first = rng.choice((1, 1, setting.writes[name] * 3 // 4))  # most removals come late
        number = rng.randint(first or 1, setting.writes[name]) if at_write else None
        environment = disk_faults.environment(setting.library, folder, count, number)
        processes = started(setting, name, folder, environment)
        sent = signal.SIGKILL
        if at_write and job.processes > 1:
            while not any(process.poll() is not None for process in processes):
                time.sleep(0.1)
        elif not at_write:
            sent = rng.choice(list(_SIGNALS))
            time.sleep(rng.uniform(0.1, setting.seconds[name]))
            for process in processes if sent != signal.SIGKILL else [rng.choice(processes)]:
                process.send_signal(sent)
        if job.processes > 1 and sent == signal.SIGKILL:
            # The others would wait for the killed process until JAX ends them.
            for process in processes:
                process.kill()
        statuses = ended(processes)
        # A signal that arrives before the command handles signals gives the status -signal.
        allowed = {0, -int(sent), _SIGNALS[sent], -9}
        # JAX decides how a process ends whose partner was killed.
        is_ours = job.processes == 1 or sent != signal.SIGKILL
        if is_ours and (problem := complaint(folder, statuses, allowed)):
            return Trial("kill", name, f"seed {seed}: {problem}")
        if at_write and seed % 4 == 0:
            disk_faults.cut(folder)
        if job.writes == "new" and output.exists():
            break
    is_done = output.exists() and job.writes == "new"
    problem = kept_complete(setting, name, folder) if is_done else ""
    problem = problem or finished(setting, name, folder)
    shutil.rmtree(folder)
    return Trial("power cut" if seed % 4 == 0 else "kill", name, problem and f"{seed}: {problem}")


def pair_trial(setting: Setting, name: str, seed: int) -> Trial:
    """Starts a job twice, the second time a moment after the first."""
    rng, folder = random.Random(f"{name} {seed}"), setting.folder / "pairs" / f"{name}-{seed}"
    folder.mkdir(parents=True)
    processes = started(setting, name, folder, os.environ)
    time.sleep(rng.uniform(0.0, 0.6 * setting.seconds[name]))
    processes += started(setting, name, folder, os.environ)
    statuses = ended(processes)
    job = setting.jobs[name]
    problem = complaint(folder, statuses, {0, 2})
    if not problem and 0 not in statuses:
        problem = f"no winner: {statuses}"
    if not problem and job.digest(output_of(name, folder)) != setting.digests[name]:
        problem = "another output"
    shutil.rmtree(folder)
    return Trial("concurrent pair", name, problem and f"{seed}: {problem}")


def rival_trial(setting: Setting, name: str, seed: int) -> Trial:
    """Starts a job, and a moment later its rival with other settings for the same output.

    In half of the trials one of the two is killed. Without an output both run again. The output
    must be entirely that of one of the two.
    """
    rng, folder = random.Random(f"{name} {seed}"), setting.folder / "rivals" / f"{name}-{seed}"
    folder.mkdir(parents=True)
    names = rng.sample([name, name + _RIVAL], 2)
    more = ["--restart"] if name.startswith("score") and seed % 3 == 0 else []
    processes = started(setting, names[0], folder, os.environ)
    time.sleep(rng.uniform(0.0, setting.seconds[name]))
    processes += started(setting, names[1], folder, os.environ, *more)
    if seed % 2:
        time.sleep(rng.uniform(0.0, setting.seconds[name]))
        processes[rng.randrange(2)].kill()
    problem = complaint(folder, ended(processes), {0, 2, -9})
    output = output_of(name, folder)
    for again in names if not problem and not output.exists() else ():
        problem = problem or complaint(
            folder, ended(started(setting, again, folder, os.environ)), {0, 2}
        )
    if not problem and not output.exists():
        problem = "no winner"
    if not problem:
        digest = setting.jobs[name].digest(output)
        problem = "" if digest in (setting.digests[n] for n in names) else "a mixed output"
    shutil.rmtree(folder)
    return Trial("pair with other settings", name, problem and f"{seed}: {problem}")


def odd_paths(output: pathlib.Path) -> dict[str, tuple[str, pathlib.Path]]:
    """Returns ways to name an output from the folder `here` beside it, and the path each means."""
    folder, name = output.parent, output.name
    odd = "a  b \u00fc\u65e5'\"$x;"
    return {
        "spaces": (f"{folder}/{odd}/{odd} {name}", folder / odd / f"{odd} {name}"),
        "a dash": (f"-{name}", folder / "here" / f"-{name}"),
        "relative": (name, folder / "here" / name),
        "two dots": (f"../here/../{name}", output),
        "a slash": (f"{folder}//here/./{name}/", folder / "here" / name),
        "a link": (f"{folder}/link/{name}", folder / "here" / name),
        "behind a link": (f"../link/../{name}", output),
    }


def path_trial(setting: Setting, name: str, seed: int) -> Trial:
    """Runs a job with an odd output path."""
    folder = setting.folder / "paths" / f"{name}-{seed}"
    (folder / "here").mkdir(parents=True)
    (folder / "link").symlink_to("here")
    paths = odd_paths(output_of(name, folder))
    kind = list(paths)[seed % len(paths)]
    text, place = paths[kind]
    place.parent.mkdir(exist_ok=True)
    if "{OUT}" in setting.jobs[name].arguments and text.startswith("-"):
        text = f"./{text}"  # a positional argument cannot start with "-"
    trial_folder = folder / "here"
    processes = started(setting, name, folder, os.environ, output=text, directory=trial_folder)
    problem = complaint(folder, ended(processes), {0}) or left_behind(folder)
    if not problem and not place.exists():
        problem = f"not there: {sorted(str(p.relative_to(folder)) for p in folder.rglob('*'))[:5]}"
    if not problem and setting.jobs[name].digest(place) != setting.digests[name]:
        problem = "another output"
    shutil.rmtree(folder)
    return Trial("odd path", name, problem and f"{seed} ({kind}): {problem}")


@contextlib.contextmanager
def small_disk(folder: pathlib.Path, size: int) -> Iterator[Callable[[], None]]:
    """Mounts a disk of `size` bytes at a folder; yields a function that enlarges it to 1 GiB."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    try:
        yield (
            lambda: (
                subprocess.run(["mount", "-o", "remount,size=1G", str(folder)], check=True) and None
            )
        )
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def disk_trial(setting: Setting, name: str, seed: int) -> Trial:
    """Runs a job on a disk that is full after 30%, 60% or 90% of the bytes the job writes."""
    unbroken = setting.folder / "unbroken" / name.replace(" ", "_")
    size = sum(path.stat().st_size for path in unbroken.rglob("*") if path.is_file())
    share = (0.3, 0.6, 0.9)[seed % 3]
    folder = setting.folder / "disks" / f"{name}-{seed}"
    with small_disk(folder, max(4096, int(size * share))) as enlarge:
        statuses = ended(started(setting, name, folder, os.environ))
        problem = complaint(folder, statuses, {0, 1})
        enlarge()
        done = statuses == [0] and setting.jobs[name].writes == "new"
        problem = problem or ("" if done else finished(setting, name, folder))
    return Trial("full disk", name, problem and f"{seed}: {problem}")


def flip_trial(setting: Setting, name: str, seed: int) -> Trial:
    """Flips a bit in a file of a checkpoint, which then must not open with different content.

    It may open unchanged: some bytes have no meaning, such as the times that Orbax notes.
    """
    from faith_jax.core.errors import FaithJaxError

    rng, source = random.Random(seed), setting.folder / "unbroken" / name.replace(" ", "_") / "out"
    folder = setting.folder / "flips" / f"{name}-{seed}"
    shutil.copytree(source, folder)
    inner = folder / "checkpoints" if (folder / "checkpoints").is_dir() else folder
    files = [path for path in sorted(inner.rglob("*")) if path.is_file() and path.stat().st_size]
    path = rng.choices(files, [file.stat().st_size for file in files])[0]
    content = bytearray(path.read_bytes())
    place = rng.randrange(len(content))
    content[place] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    steps = [p for p in inner.iterdir() if p.name.isdecimal()] if inner != folder else []
    opened = next((p for p in steps if p in path.parents), folder)
    try:
        original = checkpoint_content(source / opened.relative_to(folder))
        is_same = checkpoint_content(opened) == original
        problem = "" if is_same else f"byte {place} of {path.relative_to(folder)}: opens"
    except FaithJaxError:
        problem = ""
    except Exception as error:
        problem = f"byte {place} of {path.relative_to(folder)}: {error!r}"
    shutil.rmtree(folder)
    return Trial("flipped bit", name, problem and f"{seed}: {problem}")


def table(trials: Sequence[Trial]) -> str:
    """Returns the counts of trials as a Markdown table."""
    tried = collections.Counter((trial.kind, trial.job) for trial in trials)
    failed = collections.Counter((t.kind, t.job) for t in trials if t.problem)
    lines = ["| trial | command | tried | as promised |", "| --- | --- | --- | --- |"]
    for key, count in sorted(tried.items()):
        lines.append(f"| {key[0]} | {key[1]} | {count} | {count - failed[key]} |")
    num_trials = len(trials)
    lines.append(f"| all | | {num_trials} | {num_trials - sum(failed.values())} |")
    return "\n".join(lines) + "\n"


def run(options: argparse.Namespace, folder: pathlib.Path) -> list[Trial]:
    """Runs all trials, and prints each failure when its trial ends."""
    if not disk_faults.is_possible(folder):
        raise SystemExit("needs a C compiler (cc), and a file system with extended attributes")
    jobs = prepared(folder)
    if unknown := set(options.jobs) - set(jobs):
        raise SystemExit(f"--jobs: there is no {min(unknown)!r}; there are: {', '.join(jobs)}")
    setting = Setting(folder, disk_faults.shim(folder), jobs)
    job_names = [name for name in jobs if not options.jobs or name in options.jobs]
    rivals = [name for name in job_names if jobs[name].rival and options.rivals]
    jobs |= {name + _RIVAL: jobs[name].with_other_settings() for name in rivals}
    for name in (*job_names, *(name + _RIVAL for name in rivals)):
        measured(setting, name)
        print(f"{name}: {setting.seconds[name]:.1f} s, {setting.writes[name]} writes", flush=True)
    alone = [name for name in job_names if jobs[name].processes == 1]
    checkpoints = [
        name for name in job_names if name in ("import-checkpoint", "export-checkpoint", "train")
    ]
    kinds = (
        (kill_trial, options.kills, job_names),
        (pair_trial, options.pairs, alone),
        (rival_trial, options.rivals, rivals),
        (path_trial, options.paths, alone),
        (disk_trial, options.disks, alone),
        (flip_trial, options.flips, checkpoints),
    )
    planned = [
        (trial, names[number % len(names)], options.seed * 10_000 + number // len(names))
        for trial, count, names in kinds
        for number in range(count if names else 0)
    ]
    trials = []
    with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
        futures = [pool.submit(trial, setting, name, seed) for trial, name, seed in planned]
        try:
            for future in concurrent.futures.as_completed(futures):
                trials.append(result := future.result())
                if result.problem:
                    print(f"FAILED {result.kind}, {result.job}: {result.problem}", flush=True)
                elif len(trials) % 20 == 0:
                    print(f"{len(trials)}/{len(planned)} trials", flush=True)
        except KeyboardInterrupt:
            print(f"stopped: {len(trials)} of {len(planned)} trials ran", flush=True)
            pool.shutdown(wait=False, cancel_futures=True)
    return trials


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tool; returns its exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = lambda text: [name.strip() for name in text.split(";")]  # noqa: E731
    parser.add_argument("--kills", type=int, default=208, help="kills, by turns of all jobs")
    parser.add_argument("--pairs", type=int, default=22, help="pairs that start at once")
    parser.add_argument("--rivals", type=int, default=100, help="pairs with other settings")
    parser.add_argument("--paths", type=int, default=77, help="outputs at odd paths")
    parser.add_argument("--disks", type=int, default=33, help="full disks")
    parser.add_argument("--flips", type=int, default=120, help="flipped bits")
    parser.add_argument("--jobs", type=names, default=(), help="names, separated by semicolons")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parallel", type=int, default=2, help="trials at once")
    parser.add_argument("--table", type=pathlib.Path, help="a file for the table of counts")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        trials = run(options, pathlib.Path(folder))
    print(table_text := table(trials), end="")
    if options.table:
        options.table.write_text(table_text)
    return int(any(trial.problem for trial in trials))


if __name__ == "__main__":
    sys.exit(main())
