"""Measures how fast raw files are parsed and built, and how fast SeqIO delivers tokens.

Each data set's sample is repeated up to the requested number of rows. `parse` reads the rows,
`build` also writes TFDS's records; both in rows per second, on one core. `--tokens` measures how
fast a task feeds a training run, in tokens per second without padding; tools/benchmark.py measures
how many tokens a training step consumes.
"""

import argparse
import contextlib
import io
import itertools
import json
import pathlib
import shutil
import tempfile
import time
from collections.abc import Iterable

import tabulate

from faith_jax.datasets.builders.base import RawBuilder, prepare_builder
from faith_jax.datasets.builders.catalogue import BUILDERS
from faith_jax.datasets.raw_dataset import RawDataset
from faith_jax.datasets.raw_files import sample_files

# Files that rows refer to, which are not repeated.
_LOOKED_UP = (
    "WikiData",
    "wiki.json",
    "multidoc2dial_doc.json",
    "topics.jsonl",
    "shared_task_dev.jsonl",
)
_UNIQUE_IDS = ("responses.jsonl",)
_EXAMPLE = """examples:
  python tools/benchmark_data.py
  python tools/benchmark_data.py --datasets=faithdial,wizard_of_wikipedia --rows=50000 --tokens
"""


def repeated(source: pathlib.Path, target: pathlib.Path, factor: int) -> None:
    """Writes a raw file with its rows repeated `factor` times, and conversations renamed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.name in _LOOKED_UP or source.stem.endswith("_articles"):
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)
    elif source.is_dir():
        target.mkdir()
        for path, number in itertools.product(source.iterdir(), range(factor)):
            shutil.copyfile(path, target / f"{number}-{path.name}")
    elif source.suffix == ".json":
        value = json.loads(source.read_text(encoding="utf-8"))
        target.write_text(json.dumps(_repeated_json(value, factor)), encoding="utf-8")
    elif source.suffix == ".jsonl":
        rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
        with open(target, "w", encoding="utf-8") as file:
            for number, row in itertools.product(range(factor), rows):
                new = {"id": f"{row['id']}-{number}"} if source.name in _UNIQUE_IDS else {}
                file.write(json.dumps(row | new) + "\n")
    else:
        head, body = (source.read_bytes().rstrip(b"\r\n") + b"\n").split(b"\n", 1)
        target.write_bytes(head + b"\n" + body * factor)


def _repeated_json(value: list | dict, factor: int) -> list | dict:
    if isinstance(value, list):
        rows = value * factor
        numbered = rows and "dialog_idx" in rows[0]
        return [row | {"dialog_idx": n} for n, row in enumerate(rows)] if numbered else rows
    if "dial_data" in value:
        lists = {name: rows * factor for name, rows in value["dial_data"].items()}
        return {"dial_data": lists}
    return {f"{key}-{number}": value[key] for number in range(factor) for key in value}


def measured(builder: type[RawBuilder], config: str, rows: int) -> tuple[int, float, float]:
    """Returns the number of rows, and how many were parsed and built per second."""
    dataset = builder.builder_configs[config].dataset
    split = next(iter(dataset.splits))
    paths = {name: sample_files(dataset)[name] for name in dataset.splits[split]}
    count = sum(1 for _ in dataset.examples(paths, split))
    with tempfile.TemporaryDirectory() as folder:
        raw = pathlib.Path(folder) / "raw"
        large = {name: raw / name for name in paths}
        for name, path in paths.items():
            repeated(path, large[name], -(-rows // count))
        size, seconds = _timed(dataset, large, split)
        start = time.perf_counter()
        with contextlib.redirect_stderr(io.StringIO()):
            prepare_builder(builder, config, pathlib.Path(folder) / "tfds", raw, fetch=False)
        return size, size / seconds, size / (time.perf_counter() - start)


def _timed(dataset: RawDataset, paths: dict[str, pathlib.Path], split: str) -> tuple[int, float]:
    start = time.perf_counter()
    size = sum(1 for _ in dataset.examples(paths, split))
    return size, time.perf_counter() - start


def delivered_tokens(name: str, batches: int) -> float:
    """Returns the tokens per second, without padding, that a task feeds to a training run."""
    from faith_jax.input.task_batches import DatasetConfig, SplitRows
    from faith_jax.models.config import TransformerConfig

    config = DatasetConfig(name, {"inputs": 128, "targets": 64}, batch_size=16)
    any_t5 = TransformerConfig(vocab_size=1 << 20)
    stream = SplitRows(config, any_t5).training_batches()
    next(stream)  # excludes one-time preparation and loading
    start, tokens = time.perf_counter(), 0
    for batch in itertools.islice(stream, batches):
        tokens += sum(int((batch[f"{side}_tokens"] != 0).sum()) for side in _SIDES)
    return tokens / (time.perf_counter() - start)


_SIDES = ("encoder_input", "decoder_target")


def main() -> None:
    """Runs the measurements and prints the tables."""
    types = BUILDERS
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=_EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", default=",".join(sorted(types)), help="default: all")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of each (default 20,000)")
    parser.add_argument("--tokens", action="store_true", help="measure a task's tokens too")
    parser.add_argument("--task", default="faithdial_generate_sample", help="for --tokens")
    options = parser.parse_args()
    table = []
    for name, config in _configs(options.datasets.split(","), types):
        size, parsed, built = measured(types[name], config, options.rows)
        table.append((f"{name}/{config}", size, round(parsed), round(built)))
        print(f"{name}/{config}", flush=True)
    print(tabulate.tabulate(table, ("data set", "rows", "parse (rows/s)", "build (rows/s)")))
    if options.tokens:
        print(f"{options.task}: {delivered_tokens(options.task, 300):,.0f} tokens/s")


def _configs(names: Iterable[str], types: dict[str, type[RawBuilder]]) -> Iterable[tuple[str, str]]:
    """Yields the measured data sets: each corpus of TRUE, and the first config of all others."""
    for name in names:
        configs = [c for c in types[name].builder_configs if not c.endswith("sample")]
        for config in configs if name == "true_benchmark" else configs[:1]:
            yield name, config


if __name__ == "__main__":
    main()
