"""Measures whole jobs of `faith-jax score` against a plain loop over the same rows and model.

The model is `mini` as an NLI judge, so that most of a job is work of the host: imports, reading,
tokenizing, packing, compiling, writing. The loop tokenizes all rows, sorts them by length, and
computes batches of 32, each padded to its longest row. Both take turns in new processes. The first
call of the job starts without compiled programs; the second call finds those of the first.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

WORDS = (
    "tea",
    "leaf",
    "lake",
    "cold",
    "hot",
    "water",
    "grows",
    "in",
    "the",
    "north",
    "book",
    "river",
)
LOOP_ROWS = 32
LABELS = ("1", "0")


def rows_of(count: int) -> list[dict[str, str]]:
    """Returns rows with groundings of 80 to 330 words and responses of 8 to 40 words."""
    draw = random.Random(0)

    def text(low: int, high: int) -> str:
        return " ".join(draw.choices(WORDS, k=draw.randint(low, high)))

    return [
        {"id": str(n), "grounding": text(80, 330), "generated_text": text(8, 40)}
        for n in range(count)
    ]


def loop(rows_file: str) -> None:
    """Scores rows with the plain loop, and prints their scores."""
    import numpy as np

    from faith_jax.inference import load_model
    from faith_jax.inference.batching import pad_rows
    from faith_jax.inference.opening import open_tokenizer
    from faith_jax.inference.texts.text_pairs import NLI_FORM, PairEncoder, label_tokens

    model = load_model("mini")
    tokenizer = open_tokenizer(model.path, None, model.config)
    encode = PairEncoder(tokenizer, model.config.vocab_size, 512, form=NLI_FORM.inputs)
    rows = [json.loads(line) for line in pathlib.Path(rows_file).read_text().splitlines()]
    ids = [encode(row["grounding"], row["generated_text"]).ids for row in rows]
    order = sorted(range(len(ids)), key=lambda number: len(ids[number]))
    targets = label_tokens(tokenizer, LABELS)
    scores = np.zeros((len(ids), len(targets)))
    for start in range(0, len(order), LOOP_ROWS):
        batch = order[start : start + LOOP_ROWS]
        tokens = pad_rows([ids[n] for n in batch], max(len(ids[n]) for n in batch), model.pad_id)
        for label, target in enumerate(targets):
            log_probs = model.target_log_probs(tokens, [target] * len(batch))
            scores[batch, label] = log_probs.sum(axis=1)
    print(json.dumps((1 / (1 + np.exp(scores[:, 1] - scores[:, 0]))).tolist()))


def timed(command: list[str], cache: pathlib.Path) -> tuple[float, str]:
    """Runs a command in a new process; returns its seconds and its output."""
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(cache)}
    environment |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return time.perf_counter() - start, done.stdout


def measure(rows: list[dict[str, str]], folder: pathlib.Path) -> list[str]:
    """Measures both, and returns the lines of the report."""
    source = folder / "rows.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    seconds: dict[str, list[float]] = {"score": [], "loop": []}
    largest = 0.0
    for call in ("first", "second", "measured"):
        output, costs = folder / f"{call}.jsonl", folder / f"{call}.costs.json"
        command = [sys.executable, "-m", "faith_jax", "score", "--scorers=nli_entailment"]
        options = {"model": "mini", "label_words": str(LABELS), "max_length": "512"}
        command += [f"--scorer-option=nli_entailment.{n}={value}" for n, value in options.items()]
        command += [f"--input={source}", f"--output={output}"]
        if call == "measured":  # apart from the timed calls, since --costs takes time too
            timed([*command, f"--costs={costs}"], folder / "job")
            break
        seconds["score"].append(timed(command, folder / "job")[0])
        took, printed = timed([sys.executable, __file__, "--loop", str(source)], folder / "loop")
        seconds["loop"].append(took)
        scored = [json.loads(line)["scores"] for line in output.read_text().splitlines()]
        largest = max(
            largest,
            *(
                abs(score["nli_entailment"] - loop_score)
                for score, loop_score in zip(
                    scored, json.loads(printed.splitlines()[-1]), strict=True
                )
            ),
        )
    waited = json.loads(costs.read_text())["nli_entailment"]["device_waited"]
    lines = [
        f"score, {call} call: {len(rows):,} rows in {ours:.1f} s; plain loop: {plain:.1f} s "
        f"({plain / ours:.2f}x)"
        for call, ours, plain in zip(("first", "second"), *seconds.values(), strict=True)
    ]
    return [*lines, f"the device waited {waited:.0%}; largest difference of scores {largest:.1e}"]


def main(arguments: list[str] | None = None) -> None:
    """Runs the measurements and prints their report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--loop", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.loop:
        loop(options.loop)
        return
    with tempfile.TemporaryDirectory() as folder:
        print("\n".join(measure(rows_of(options.rows), pathlib.Path(folder))), flush=True)


if __name__ == "__main__":
    main()
