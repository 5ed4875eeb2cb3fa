import json
import sys

import pytest
import tensorflow_datasets as tfds

from faith_jax.cli import main
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.builders.apache_beam import BeamPipeline
from faith_jax.datasets.builders.base import prepare_builder
from faith_jax.datasets.builders.catalogue import BUILDERS
from faith_jax.datasets.raw.faithdial import FAITHDIAL
from faith_jax.datasets.raw_files import sample_files
from faith_jax.datasets.samples import sample_folder

BUILDER = BUILDERS["faithdial"]

# Runs in this process, so that tests need not wait for workers.
HERE = "direct_num_workers=1,direct_running_mode=in_memory"


def rows(builder, split):
    return list(tfds.as_numpy(builder.as_dataset(split=split)))


@pytest.fixture(scope="module")
def in_parts(tmp_path_factory):
    """With more parts than test and validation have rows."""
    data_dir = tmp_path_factory.mktemp("beam")
    return prepare_builder(BUILDER, "sample", data_dir, beam=BeamPipeline(HERE, parts=5))


@pytest.mark.slow
def test_parallel_building_keeps_every_row_and_the_order(in_parts):
    for split in FAITHDIAL.splits:
        expected = list(FAITHDIAL.examples(sample_files(FAITHDIAL), split))
        built = rows(in_parts, split)
        assert [row["id"].decode() for row in built] == [row["id"] for row in expected]
        for actual_row, row in zip(built, expected, strict=True):
            assert actual_row["response"].decode() == row["response"]
            assert [text.decode() for text in actual_row["negatives"]] == row["negatives"]


def own_files(folder):
    dialogues = json.loads((sample_folder("faithdial") / "test.json").read_text("utf-8"))
    dialogues[0]["utterances"][1]["knowledge"] = ""
    folder.mkdir()
    (folder / "test.json").write_text(json.dumps(dialogues), encoding="utf-8")
    return folder


def test_bad_rows_stop_it_or_are_counted_once(tmp_path):
    raw, beam = own_files(tmp_path / "raw"), BeamPipeline(HERE, parts=2)
    with pytest.raises(InputError, match=r"test\.json: \[0\]: field 'utterances\[1\].knowledge'"):
        prepare_builder(BUILDER, "official", tmp_path, raw, fetch=False, beam=beam)
    assert not (tmp_path / "faithdial" / "official" / "1.0.0").exists()
    bad_rows = BadRows(skip=True)
    built = prepare_builder(BUILDER, "official", tmp_path, raw, bad_rows, fetch=False, beam=beam)
    assert (len(rows(built, "test")), bad_rows.count) == (2, 1)


def test_unknown_options(capsys, tmp_path):
    options = ["--beam=direct_num_workers=2,rnner=x", f"--data-dir={tmp_path}"]
    assert main(["prepare", "faithdial/sample", *options]) == 2
    errors = capsys.readouterr().err.strip().splitlines()
    assert errors[-1] == "faith-jax: Apache Beam has no pipeline option 'rnner'."


def test_without_apache_beam(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(ConfigError, match=r"install the extra: pip install 'faith_jax\[beam\]'"):
        prepare_builder(BUILDER, "sample", tmp_path, beam=BeamPipeline(HERE))
