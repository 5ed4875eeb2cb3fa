import os
import subprocess
import sys

import pytest

from faith_jax.datasets.builders.base import prepare_builder
from faith_jax.datasets.builders.catalogue import BUILDERS
from tests.export.data_sets import write_responses, write_scores
from tests.paths import REPOSITORY

RESPONSES = [
    {"id": str(i), "inputs": "Tea?", "prediction": f"Tea {i}.", "log_prob": -i / 3, "num_tokens": i}
    | {"arguments": ["a", "b"], "predictions": [{"prediction": f"Tea {i}.", "score": 0.5}]}
    for i in range(3)
]
SCORED = [
    {"id": str(i), "corpus": "c", "grounding": ["Tea"], "perspectives": [], "history": ["Hi"]}
    | {"generated_text": "Tea.", "label": None, "fields": {"system": "x", "turn": i}}
    | {"scores": {"one": i / 7, "two": None}, "words": {"one": [[0, 3, 0.1, None]]}}
    | {"cut_tokens": {"one": 2}, "cut": {"one": {"knowledge": 2}}, "undefined": {"two": "why"}}
    for i in range(3)
]


def make(folder):
    """Writes data sets as `infer`, `score` and `prepare` do."""
    write_responses(folder / "infer", "test", RESPONSES, "Three.")
    write_scores(folder / "score", "test", SCORED, ["one", "two"])
    prepare_builder(BUILDERS["begin"], "tc_sample", folder / "prepare")


def content(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.slow
def test_another_process_makes_the_same_bytes(tmp_path):
    make(tmp_path / "here")
    program = f"import pathlib, sys; from {__name__} import make; make(pathlib.Path(sys.argv[1]))"
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    subprocess.run(
        [sys.executable, "-c", program, tmp_path / "there"],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONHASHSEED": seed},
        check=True,
        capture_output=True,
    )
    content_here = content(tmp_path / "here")
    assert sum("tfrecord" in path.name for path in content_here) == 4  # one a split
    assert content(tmp_path / "there") == content_here
