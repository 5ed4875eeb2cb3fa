"""Scores many rows with several processes that are killed at random moments and started again.

    python tools/shared_job.py --rows=200000 --processes=2 --kills=20

Checks that the output, a TFDS data set or a file, has every row once, in order, with its score.
Prints the time and the peak memory of a process. With --kills=0 no process is killed.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

WORDS = ("tea", "leaf", "cup", "hot", "cold", "green", "black", "water", "pot", "sugar", "milk")


def texts(number: int) -> tuple[str, str]:
    """Returns the grounding and the response of a row; the first word of both names the row."""
    rng = random.Random(number)
    grounding = f"row{number} {' '.join(rng.choices(WORDS, k=12))}"
    return grounding, f"row{number} {' '.join(rng.choices(WORDS, k=6))}"


def write_rows(path: pathlib.Path, count: int) -> None:
    """Writes rows without ids, so that their ids become the rows' numbers."""
    with path.open("w") as file:
        for number in range(count):
            grounding, response = texts(number)
            file.write(json.dumps({"grounding": grounding, "generated_text": response}) + "\n")


class Processes:
    """Runs a command in several processes.

    Attributes:
      peak: the peak memory of any process, in MiB.
      starts: how many processes were started.
    """

    def __init__(self, command: list[str], count: int, log: pathlib.Path):
        self._command, self._log = command, log
        self.peak, self.starts = 0.0, 0
        self._running = [self._start() for _ in range(count)]

    def _start(self) -> subprocess.Popen:
        self.starts += 1
        with self._log.open("a") as log:
            return subprocess.Popen(self._command, stdout=log, stderr=log)

    def watch(self) -> bool:
        """Updates `peak`; returns whether any process still runs."""
        for process in self._running:
            if process.poll() is None:
                with open(f"/proc/{process.pid}/status") as file:
                    lines = [line for line in file if line.startswith("VmHWM")]
                for line in lines:
                    self.peak = max(self.peak, int(line.split()[1]) / 1024)
        return any(process.poll() is None for process in self._running)

    def kill(self, place: int) -> None:
        """Kills a process and starts another in its place, as a cluster does."""
        self._running[place].kill()
        self._running[place].wait()
        self._running[place] = self._start()

    def end(self) -> None:
        """Kills all processes that still run."""
        for process in self._running:
            process.kill()
            process.wait()

    @property
    def statuses(self) -> list[int | None]:
        """The exit status of each process."""
        return [process.poll() for process in self._running]


def check(output: pathlib.Path, count: int, shards: int) -> None:
    """Raises AssertionError unless the output has each row once, in order, with its score."""
    import tensorflow_datasets as tfds

    from faith_jax import load_scorer
    from faith_jax.export.read_scored import read_scored_rows

    if output.is_dir():
        split = tfds.builder_from_directory(output).info.splits["rows"]
        assert split.num_examples == count
        assert len(split.shard_lengths) == shards
    scorer = load_scorer("token_f1")
    number = -1
    for number, row in enumerate(read_scored_rows(output)):
        grounding, response = texts(number)
        assert row["id"] == str(number + 1), (row["id"], number)
        assert (row["grounding"], row["generated_text"]) == ([grounding], response)
        if number % 1000 == 0:
            (score,) = scorer.score([grounding], [response])
            assert abs(row["scores"]["token_f1"] - score.value) < 1e-6
    assert number == count - 1


def run(folder: pathlib.Path, options: argparse.Namespace) -> str:
    """Runs a job, and returns a line with its figures."""
    source, rng = folder / "rows.jsonl", random.Random(options.seed)
    output = folder / ("scores" if options.format == "tfds" else "scores.jsonl")
    write_rows(source, options.rows)
    command = [sys.executable, "-m", "faith_jax", "score", f"--scorers={options.scorers}"]
    command += [f"--input={source}", f"--shards={options.shards}"]
    command += [f"--output={output}", f"--format={options.format}"]
    start, kills = time.monotonic(), 0
    processes = Processes(command, options.processes, folder / "log.txt")
    try:
        following = start + rng.uniform(0, 2 * options.seconds)
        while processes.watch():
            time.sleep(0.05)
            # A process that starts after the job is done only reports that the output exists.
            if kills < options.kills and time.monotonic() > following and not output.exists():
                processes.kill(rng.randrange(options.processes))
                kills += 1
                following = time.monotonic() + rng.uniform(0, 2 * options.seconds)
    finally:
        processes.end()
    seconds = time.monotonic() - start
    while not output.exists():  # the process started after the last kill came too late to join
        subprocess.run(command, check=True, capture_output=True)
    check(output, options.rows, options.shards)
    return (
        f"{options.rows:,} rows, {options.shards} shards, {options.processes} processes, "
        f"{kills} kills, {processes.starts} starts: {seconds:.0f} s, "
        f"{options.rows / seconds:,.0f} rows/s, at most {processes.peak:,.0f} MiB in a process; "
        f"statuses {processes.statuses}"
    )


def main() -> None:
    """Runs one job in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10.0, help="between two kills, on average")
    parser.add_argument("--format", choices=("jsonl", "tfds"), default="tfds")
    parser.add_argument("--scorers", default="token_f1")
    parser.add_argument("--seed", type=int, default=0)
    with tempfile.TemporaryDirectory() as folder:
        print(run(pathlib.Path(folder), parser.parse_args()))


if __name__ == "__main__":
    main()
