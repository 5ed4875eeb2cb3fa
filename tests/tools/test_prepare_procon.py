import json
import re
import sys

import pytest
import tensorflow_datasets as tfds

from faith_jax.datasets.builders.base import prepare_builder
from faith_jax.datasets.builders.catalogue import BUILDERS
from tests.paths import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tools"))
import prepare_procon

sys.path.remove(str(REPOSITORY / "tools"))


@pytest.fixture
def prepare(capsys):
    """Runs the tool; returns (status, stdout, stderr)."""

    def run(*arguments):
        status = prepare_procon.main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return run


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


def test_from_pages_to_tfds(prepare, pages, tmp_path):
    status, out, err = prepare(pages, "--output", tmp_path / "manual" / "procon_npov")
    assert (status, err) == (0, "")
    for line in (
        f"  {pages / 'Kites.json'}: 'Kites', 1 pro and 1 con",
        "Splits: proportional (seed 0), since Chang 2024 does not have 3 of the topics (Bells ...)",
        "      3 full stops given",
        "      3 numbers of headings removed",
        "Left out: 3",
        f'  {pages / "Bells.json"}: item 4: con argument has lost words: "The was wrong."',
    ):
        assert line in out.splitlines()
    assert "the responses are templates, not written text" in out
    assert re.search(r"end token included: inputs \d+, targets \d+; a run's TASK_F", out)
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


def test_mistakes_are_one_line_and_status_2(prepare, pages, tmp_path, capsys):
    (pages / "Bells.json").write_text("{", encoding="utf-8")
    assert prepare(pages, "--output", tmp_path / "out") == (
        2,
        "",
        f"prepare_procon: error: {pages / 'Bells.json'}: not valid JSON: Expecting property name "
        "enclosed in double quotes at column 2; get the file again.\n",
    )
    assert not (tmp_path / "out").exists()
    options = ("--output", tmp_path / "out", "--responses-per-topic", "0")
    with pytest.raises(SystemExit) as stopped:
        prepare(pages, *options)
    assert stopped.value.code == 2
    assert "expected a positive number, got 0" in capsys.readouterr().err
