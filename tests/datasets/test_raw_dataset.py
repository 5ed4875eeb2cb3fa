import dataclasses

import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.datasets.raw_dataset import RawDataset, RawFile, files_by_name


def dataset(*files, **fields):
    named = files_by_name(*files)
    return RawDataset(
        name="demo",
        splits={"test": tuple(named)},
        files=named,
        features={"id": "text"},
        read=lambda paths, split, bad_rows: iter([{"id": split, "paths": paths}]),
        description="A demo.",
        homepage="https://example.org/demo",
        licence="none",
        citation="",
        **fields,
    )


def test_a_file_comes_with_a_url_and_a_checksum_or_neither():
    with pytest.raises(ValueError, match="a URL and a checksum go together"):
        RawFile("a", url="http://x")


def test_examples_get_the_files_of_their_split(tmp_path):
    data = dataset(RawFile("a"), RawFile("b"), RawFile("c"), instead="c")
    data = dataclasses.replace(data, splits={"test": ("a",), "train": ("a", "b")})
    paths = {"a": tmp_path / "a", "b": tmp_path / "b"}
    (row,) = data.examples(paths, "test")
    assert set(row["paths"]) == {"a"}
    (row,) = data.examples(paths | {"c": tmp_path / "c"}, "train")
    assert set(row["paths"]) == {"c"}
    with pytest.raises(ConfigError, match=r"demo has no split 'tset'\. Did you mean 'test'"):
        data.examples(paths, "tset")


def test_a_file_that_is_not_described_is_had_by_hand():
    data = dataclasses.replace(dataset(RawFile("a")), splits={"test": ("b",)}, instead="c")
    assert data.files == files_by_name(RawFile("b"), RawFile("c"))


def test_the_raw_folder_has_the_data_sets_name_unless_said_otherwise():
    assert dataset(RawFile("a")).folder == "demo"
    assert dataset(RawFile("a"), folder="raw").folder == "raw"
