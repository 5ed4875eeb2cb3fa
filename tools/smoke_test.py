"""Runs train, infer, score and salience of `mini` on the devices of this machine.

    python tools/smoke_test.py [--jobs score,salience --rows ROWS.jsonl]

All jobs read the embedded sample. At least a given share of their numbers must agree with those of
a CPU (tools/smoke_test.json) within a relative tolerance; see TOLERANCES. Prints devices,
differences and times, and exits with status 1 if numbers differ. Matrix products use full float32
precision; on accelerators the default is lower. `--write` writes the file again. Without
TensorFlow, as on some GPU machines, `score` and `salience` can run on rows that another machine has
written: faith-jax score --tfds=npov_errors/sample --split='test[:8]' --scorers=token_f1
--output=ROWS.jsonl
"""

import argparse
import contextlib
import json
import logging
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from faith_jax import cli

EXPECTED = pathlib.Path(__file__).with_suffix(".json")
# The largest relative difference, and the share of values that must be within it: where two tokens
# are almost equally probable, a response and so its log-probability may change.
TOLERANCES = {
    "train": (1e-3, 1.0),
    "infer": (1e-3, 0.9),
    "score": (1e-3, 1.0),
    "salience": (1e-3, 1.0),
}
_COMPILED = "/jax/core/compile/backend_compile_duration"
_ROWS = ["--tfds=npov_errors/sample", "--split=test[:8]"]


def ran(arguments: list[str]) -> None:
    """Runs a command, and exits with its status if it fails."""
    main = cli.main if arguments[0] == "score" else cli.t5x_main
    status = main(arguments)
    if status:
        sys.exit(status)


def read(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Yields the rows of a file of JSON lines."""
    yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def train(folder: pathlib.Path) -> list[float]:
    """Returns the losses of four steps of prompt-tuning, then the validation loss, in nats."""
    ran(
        ["train", "--gin_file=quickstart.gin", f"--gin.MODEL_DIR={folder / 'run'}",
         "--gin.TRAIN_STEPS=4", "--gin.WARMUP_STEPS=0", "--gin.LOG_PERIOD=1",
         "--gin.DECODING=None"]
    )  # fmt: skip
    return [row["loss"] for row in read(folder / "run/metrics.jsonl")]


def infer(folder: pathlib.Path) -> list[float]:
    """Returns the log-probabilities of the first 32 tokens of greedy responses, in nats."""
    ran(
        ["infer", "--gin_file=runs/infer.gin", "--gin.CHECKPOINT_PATH='mini'",
         "--gin.MIXTURE_OR_TASK_NAME='npov_generate_sample'", "--gin.DECODE_LENGTH=32",
         f"--gin.INFER_OUTPUT_DIR={folder / 'responses'}"]
    )  # fmt: skip
    return [row["log_prob"] for row in read(folder / "responses/predictions.jsonl")]


def scored(folder: pathlib.Path, scorer: str, rows: list[str]) -> list[float]:
    """Returns a scorer's scores of 8 responses.

    Args:
      folder: the folder for the scores.
      scorer: the name of the scorer.
      rows: the command's options that name the rows.
    """
    ran(
        ["score", f"--scorers={scorer}", f"--scorer-option={scorer}.model=mini", *rows,
         f"--output={folder / scorer}.jsonl"]
    )  # fmt: skip
    return [row["scores"][scorer] for row in read(folder / f"{scorer}.jsonl")]


def main() -> int:
    """Runs the jobs; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the numbers of this machine")
    parser.add_argument("--jobs", default=",".join(TOLERANCES), help="(default: %(default)s)")
    parser.add_argument("--rows", metavar="FILE", help="what score and salience read")
    options = parser.parse_args()
    job_names = options.jobs.split(",")
    if unknown := set(job_names) - set(TOLERANCES):
        parser.error(f"--jobs: {', '.join(sorted(unknown))} not among {', '.join(TOLERANCES)}")
    rows = [f"--input={options.rows}"] if options.rows else _ROWS
    logging.getLogger("faith_jax").setLevel(logging.WARNING)
    jax.config.update("jax_default_matmul_precision", "highest")
    compiled: list[float] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(seconds) if event == _COMPILED else None
    )
    devices = jax.devices()
    print(
        f"{len(devices)} x {devices[0].device_kind} ({devices[0].platform}), jax {jax.__version__}"
    )
    values_by_job: dict[str, list[float]] = {}
    times = {}
    jobs = {
        "train": train,
        "infer": infer,
        "score": lambda folder: scored(folder, "pmi_faith_mean", rows),
        "salience": lambda folder: scored(folder, "salience_hallucination", rows),
    }
    with tempfile.TemporaryDirectory(prefix="smoke_test_") as name:
        for job in job_names:
            compiled.clear()
            start = time.perf_counter()
            with contextlib.redirect_stdout(sys.stderr):
                values_by_job[job] = jobs[job](pathlib.Path(name))
            times[job] = (time.perf_counter() - start, sum(compiled))
    if options.write:
        rounded = json.loads(EXPECTED.read_text(encoding="utf-8"))
        rounded |= {
            job: [float(f"{value:.7g}") for value in values]
            for job, values in values_by_job.items()
        }
        EXPECTED.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))
    failed = False
    for job in job_names:
        tolerance, share = TOLERANCES[job]
        computed, reference = np.array(values_by_job[job]), np.array(expected[job])
        has_same_length = len(computed) == len(reference)
        differs = (
            np.abs(computed - reference) / np.maximum(np.abs(reference), 1e-3)
            if has_same_length
            else np.array([np.inf])
        )
        is_equal = bool(np.mean(differs <= tolerance) >= share)
        failed |= not is_equal
        total, compiling = times[job]
        print(
            f"{job:9} {'equal' if is_equal else 'DIFFERS'}: {len(computed)} numbers, largest "
            f"relative difference {differs.max():.1e} (tolerance {tolerance:.0e}); "
            f"compiled {compiling:.1f} s, the rest {total - compiling:.1f} s"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
