"""Measures the time short commands spend on imports, opening a checkpoint, compiling and the rest.

Each command runs in new processes, first with an empty cache of compiled programs, then with the
programs that the first call cached. Seconds are processor time (user and system, all threads), the
lowest of several rounds.
"""

import argparse
import atexit
import collections
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

# File names and phases: the innermost frame of the main thread in such a file tells the phase.
PLACES = {"importlib._bootstrap": "imports", "/faith_jax/checkpoints/": "opening"}
PLACES |= dict.fromkeys(("/partial_eval.py", "/mlir.py", "_src/compiler.py"), "compiling")
PHASES = ("imports", "opening", "compiling", "the rest")
SCORE = "score --input={rows} --grounding-column=pro=pro,con=con --output={new}.jsonl --scorers="
COMMANDS = {
    "--help": "--help",
    "tasks": "tasks",
    "score, no model": f"{SCORE}token_f1,rouge1_precision,npov_rouge1_coverage",
    "evaluate": "evaluate {scores}",
    "report": "report {scores} --output={new}.html",
    "score, salience": f"{SCORE}salience_hallucination,salience_coverage "
    "--scorer-option=salience_hallucination.model=mini "
    "--scorer-option=salience_coverage.model=mini",
    "infer": "infer --gin_file=runs/infer_file.gin --gin.CHECKPOINT_PATH='mini' "
    "--gin.INPUT_FILE='{rows}' --gin.DECODE_LENGTH=64 --gin.INFER_OUTPUT_DIR='{new}'",
    "train, 2 steps": "train --gin_file=quickstart.gin --gin.TRAIN_STEPS=2 --gin.MODEL_DIR='{new}'",
}
ROW = {"query": "Should tea be free at work?", "pro": ["It helps people to relax."]}
ROW |= {"con": ["It costs money."], "generated_text": "It helps people to relax, but costs money."}


def sample(thread, counts):
    """Adds the processor time of this process to its phases, until it ends."""
    last, listens = 0.0, False
    while True:
        time.sleep(0.003)
        if not listens and (listens := hasattr(jax := sys.modules.get("jax"), "monitoring")):
            jax.monitoring.register_event_listener(lambda event, **_: counts.update([event]))
        frame, now = sys._current_frames()[thread], time.process_time()
        while frame and not (
            matching_places := [p for p in PLACES if p in frame.f_code.co_filename]
        ):
            frame = frame.f_back
        counts[PLACES[matching_places[0]] if frame else "the rest"] += now - last
        last = now


def run_one(report, *arguments):
    """Runs a command in this process and writes the seconds of its phases."""
    sample_counts = collections.Counter()
    threading.Thread(
        target=sample, args=(threading.get_ident(), sample_counts), daemon=True
    ).start()
    atexit.register(lambda: pathlib.Path(report).write_text(json.dumps(sample_counts)))
    from faith_jax import cli

    sys.exit(cli.main(arguments))


def measured(name, places, cache):
    """Runs a command in a new process; returns seconds by phase, and cache misses and hits."""
    command = [sys.executable, __file__, "--one", report := f"{places['new']}.told"]
    command += [part.format(**places) for part in COMMANDS[name].split()]
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(cache)}
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    counts = json.loads(pathlib.Path(report).read_text())
    counts_by_name = {name.split("/")[-1]: count for name, count in counts.items()}
    return {
        name: round(counts_by_name.get(name, 0), 2)
        for name in (*PHASES, "cache_misses", "cache_hits")
    }


def draw(measurements, picture):
    """Draws a bar chart of the phases of each command and call."""
    from matplotlib import pyplot

    pyplot.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "start", "font.size": 9}
    figure, axes = pyplot.subplots(
        figsize=(7, 0.27 * len(measurements) + 0.9), layout="constrained"
    )
    for label, phases in reversed(measurements.items()):
        for number, phase in enumerate(PHASES):
            left = sum(map(phases.get, PHASES[:number]))
            axes.barh(label, phases[phase], left=left, color=f"C{number}")
    axes.set(xlabel="seconds of the processor")
    axes.legend(PHASES)
    figure.savefig(picture, metadata={"Date": None})


def main(names, rounds, picture):
    """Measures the commands, prints a table and draws the picture."""
    best = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        places = {name: folder / f"{name}.jsonl" for name in ("rows", "scores")}
        places["rows"].write_text(f"{json.dumps(ROW)}\n" * 6)
        measured("score, no model", places | {"new": folder / "scores"}, "")
        for number, name, call in itertools.product(range(rounds), names, ("first", "second")):
            places["new"] = folder / f"{number}_{name}_{call}".replace(" ", "_")
            measurement = measured(name, places, folder / f"cache_{number}_{name}")
            measurements = best.get(label := f"{name}, {call}", measurement), measurement
            best[label] = min(
                measurements, key=lambda measurement: sum(map(measurement.get, PHASES))
            )
    for label, measurement in best.items():
        cells = " | ".join(f"{measurement[phase]:.1f}" for phase in PHASES)
        seconds = sum(map(measurement.get, PHASES))
        programs = f"{seconds:.1f} | {measurement['cache_misses']}, {measurement['cache_hits']}"
        print(f"| {label} | {cells} | {programs} |")
    draw(best, picture)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run_one(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(COMMANDS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--picture", metavar="SVG", default="docs/images/start.svg")
    main(**vars(parser.parse_args()))
