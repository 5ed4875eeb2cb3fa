import json
import re
import subprocess
import sys

import pytest
import tensorflow_datasets as tfds

from faith_jax.datasets.builders.base import prepare_builder
from faith_jax.datasets.builders.catalogue import BUILDERS
from tests.paths import REPOSITORY

TOOL = str(REPOSITORY / "tools" / "prepare_procon.py")


def prepare(*arguments):
    command = [sys.executable, TOOL, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def pages(tmp_path):
    (tmp_path / "pages").mkdir()
    for name in ("Kites", "Lamps", "Bells"):
        items = [
            {"Title": f"{name} ProCon.org"},
            {"Pro argument": [f"1. {name} are good. "], "Pro argument text": ["\n", "Very."]},
            {"Con argument": [f"{name} are bad"], "Con argument text": []},
            {"Con argument": ["The ", " was wrong."]},
        ]
        (tmp_path / "pages" / f"{name}.json").write_text(json.dumps(items), encoding="utf-8")
    return tmp_path / "pages"


def test_from_pages_to_tfds(pages, tmp_path):
    done = prepare(pages, "--output", tmp_path / "manual" / "procon_npov")
    assert (done.returncode, done.stderr) == (0, "")
    for line in (
        f"  {pages / 'Kites.json'}: 'Kites', 1 pro and 1 con",
        "Splits: proportional (seed 0), since Chang 2024 does not have 3 of the topics (Bells ...)",
        "      3 full stops given",
        "      3 numbers of headings removed",
        "Left out: 3",
        f'  {pages / "Bells.json"}: item 4: con argument has lost words: "The was wrong."',
    ):
        assert line in done.stdout.splitlines()
    assert "the responses are templates, not written text" in done.stdout
    assert re.search(r"end token included: inputs \d+, targets \d+; a run's TASK_F", done.stdout)
    builder = prepare_builder(
        BUILDERS["procon_npov"], "full", tmp_path / "tfds", tmp_path / "manual"
    )
    rows = [
        row
        for split in ("train", "validation", "test")
        for row in tfds.as_numpy(builder.as_dataset(split=split))
    ]
    assert len(rows) == 36
    assert {row["topic"] for row in rows} == {b"kites", b"lamps", b"bells"}
    assert {row["con_arguments"][0] for row in rows} == {
        b"Kites are bad.", b"Lamps are bad.", b"Bells are bad."
    }  # fmt: skip


def test_mistakes_are_one_line_and_status_2(pages, tmp_path):
    (pages / "Bells.json").write_text("{", encoding="utf-8")
    failed = prepare(pages, "--output", tmp_path / "out")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr == (
        f"prepare_procon: error: {pages / 'Bells.json'}: not valid JSON: Expecting property name "
        "enclosed in double quotes at column 2; get the file again.\n"
    )
    assert not (tmp_path / "out").exists()
    failed = prepare(pages, "--output", tmp_path / "out", "--responses-per-topic", "0")
    assert failed.returncode == 2
    assert "expected a positive number, got 0" in failed.stderr


def test_help_has_an_example():
    done = prepare("--help")
    assert done.returncode == 0
    assert "python tools/prepare_procon.py procon_pages" in done.stdout
    assert "--output ~/tensorflow_datasets/downloads/manual/procon_npov" in done.stdout
