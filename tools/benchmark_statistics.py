"""Measures statistics, and the commands that read and write many rows, on generated rows.

`score` applies three scorers without models to groundings of 30 and responses of 20 words;
`evaluate` and `report` read scores of eight scorers, half of them with ties, and a label. Memory is
that of the largest process. The bootstrap of ROC AUCs, with as many rows as DialFact has in TRUE
(8,689), is compared with a loop over scikit-learn. The loop runs on the first of the same
resamples, and its time is scaled up; both must give the same areas.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

SCORERS = "token_f1,rouge1_precision,rougeL_f1_stemmed"
_SEED, _AT_ONCE = 0, 10_000
_VOCABULARY = 20_000
_GIVEN, _SAID = 30, 20  # words


def texts(rows: int) -> Iterator[tuple[str, str]]:
    """Yields groundings and responses of invented words; responses copy half of their words.

    Word frequencies follow Zipf's law.
    """
    rng = np.random.default_rng(_SEED)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, size)) for size in rng.integers(2, 11, _VOCABULARY)]
    shares = np.cumsum(1 / np.arange(1, _VOCABULARY + 1))

    def draw(count: int, length: int) -> Any:
        return np.searchsorted(shares, rng.random((count, length)) * shares[-1])

    for start in range(0, rows, _AT_ONCE):
        count = min(_AT_ONCE, rows - start)
        grounding, response_words = draw(count, _GIVEN), draw(count, _SAID)
        copied = np.take_along_axis(
            grounding, rng.integers(0, _GIVEN, response_words.shape), axis=1
        )
        response_words = np.where(rng.random(response_words.shape) < 0.5, copied, response_words)
        for source_ids, response_ids in zip(
            grounding.tolist(), response_words.tolist(), strict=True
        ):
            yield tuple(
                " ".join([words[i] for i in word_ids]).capitalize() + "."
                for word_ids in (source_ids, response_ids)
            )


def write_rows(path: pathlib.Path, rows: int, scorers: int = 0) -> None:
    """Writes rows to score, or with `scorers` > 0 rows with scores, as `score` writes them."""
    rng = np.random.default_rng(_SEED)
    names = [f"scorer_{number}" for number in range(scorers)]
    none = {"words": {}, "cut_tokens": dict.fromkeys(names, 0), "cut": {}, "undefined": {}}
    encode = json.JSONEncoder(ensure_ascii=False).encode
    end = encode(none)[1:]
    labels = (rng.random(rows) < 0.385).astype(int)
    with path.open("w", encoding="utf-8") as file:
        for number, (source, response) in enumerate(texts(rows)):
            label = int(labels[number])
            row: dict[str, Any] = {"id": f"row {number}", "label": label}
            if not scorers:
                file.write(encode(row | {"grounding": source, "response": response}) + "\n")
                continue
            values = rng.normal(size=scorers) + label
            values[::2] = np.round(values[::2], 2)
            row |= {"corpus": "generated", "grounding": [source], "perspectives": [], "history": []}
            row |= {"generated_text": response, "fields": {}}
            row["scores"] = dict(zip(names, values.round(6).tolist(), strict=True))
            file.write(f"{encode(row)[:-1]}, {end}\n")


def measured(*command: str) -> tuple[float, float, float]:
    """Runs faith-jax; returns wall-clock seconds, CPU seconds, and MB of its largest process."""
    start = time.perf_counter()
    program = "import sys; from faith_jax.cli import main; sys.exit(main())"
    process = subprocess.Popen([sys.executable, "-c", program, *command], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise SystemExit(f"faith-jax {' '.join(command)}: failed")
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def commands(folder: pathlib.Path, rows: int, scorers: int, further: Sequence[str]) -> None:
    """Measures score, evaluate and report, and prints a line for each."""
    plain, scored = folder / "rows.jsonl", folder / "scored.jsonl"
    write_rows(plain, rows)
    write_rows(scored, rows, scorers)
    page = folder / "page.html"
    runs = {
        "score": (f"--scorers={SCORERS}", f"--input={plain}", f"--output={folder / 'new.jsonl'}"),
        "evaluate": (str(scored), f"--json={folder / 'figures.json'}", *further),
        "report": (str(scored), f"--output={page}", *further),
    }
    for name, arguments in runs.items():
        seconds, used, memory = measured(name, *arguments)
        rates = f"{rows / seconds:,.0f} rows/s, {used:.1f} s of processors, {memory:,.0f} MB"
        print(f"{name}: {rows:,} rows in {seconds:.1f} s, {rates}", flush=True)
    sizes = [path.stat().st_size for path in folder.glob("page_rows_*/*")]
    beside = f", and {sum(sizes) / 1e6:,.1f} MB in {len(sizes):,} files beside it" if sizes else ""
    print(f"page: {page.stat().st_size / 1e6:.1f} MB{beside}", flush=True)


def bootstrap(rows: int, scorers: int, resamples: int, looped: int) -> None:
    """Measures the bootstrap and a loop, and prints their times and largest difference."""
    from sklearn.metrics import roc_auc_score

    from faith_jax.statistics.auc import auc_of_weights
    from faith_jax.statistics.bootstrap import drawn_counts, resampled_counts

    generator = np.random.default_rng(_SEED)
    labels = (generator.random(rows) < 0.385).astype(int)
    scores = generator.normal(size=(scorers, rows)) + labels
    scores[::2] = np.round(scores[::2], 2)
    auc_of_weights(scores[:1], labels)(resampled_counts(rows, 2).T)  # warms up
    start = time.perf_counter()
    parts, areas_of = drawn_counts(rows, resamples, _SEED), auc_of_weights(scores, labels)
    areas = np.concatenate([areas_of(part) for part in parts], axis=1)
    ours = time.perf_counter() - start
    counts = resampled_counts(rows, resamples, _SEED)[:, :looped]
    draws = [np.repeat(np.arange(rows), column) for column in counts.T]
    start = time.perf_counter()
    drawn_areas = [[roc_auc_score(labels[drawn], row[drawn]) for drawn in draws] for row in scores]
    loop = (time.perf_counter() - start) * resamples / len(draws)
    difference = np.abs(areas[:, : len(draws)] - drawn_areas).max()
    print(
        f"auc_of_weights: {ours:.2f} s; loop over roc_auc_score: {loop:.1f} s ({loop / ours:.0f}x)"
    )
    print(f"largest difference of areas: {difference:.1e}", flush=True)


def main() -> None:
    """Runs the measurements and prints their figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000, help="of the commands")
    parser.add_argument("--scorers", type=int, default=8, help="of evaluate and report")
    parser.add_argument("--bootstrap-rows", type=int, default=8689)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--loop", type=int, default=25, help="resamples of the loop")
    options = parser.parse_args()
    bootstrap(options.bootstrap_rows, options.scorers, options.resamples, options.loop)
    with tempfile.TemporaryDirectory() as folder:
        further = [f"--resamples={options.resamples}"]
        commands(pathlib.Path(folder), options.rows, options.scorers, further)


if __name__ == "__main__":
    main()
