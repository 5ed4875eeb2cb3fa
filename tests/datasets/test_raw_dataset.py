import dataclasses
import pathlib

import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.datasets import raw_dataset
from faith_jax.datasets.raw_dataset import RawFile, card, load_card
from tests.datasets.demo import demo


def test_examples_get_the_files_of_their_split(tmp_path):
    data = demo(RawFile("a"), RawFile("b"), RawFile("c"), instead="c")
    data = dataclasses.replace(data, splits={"test": ("a",), "train": ("a", "b")})
    paths = {"a": tmp_path / "a", "b": tmp_path / "b"}
    (row,) = data.examples(paths, "test")
    assert set(row["paths"]) == {"a"}
    (row,) = data.examples(paths | {"c": tmp_path / "c"}, "train")
    assert set(row["paths"]) == {"c"}
    with pytest.raises(ConfigError, match=r"demo has no split 'tset'\. Did you mean 'test'"):
        data.examples(paths, "tset")


def test_files_that_are_not_described_are_had_by_hand():
    data = dataclasses.replace(demo(RawFile("a")), splits={"test": ("b",)}, instead="c")
    assert data.files == {"b": RawFile("b"), "c": RawFile("c")}
    # The raw folder has the data set's name unless it is said otherwise.
    assert (demo().folder, demo(folder="raw").folder) == ("demo", "raw")


CARDS = sorted(
    path.stem for path in (pathlib.Path(raw_dataset.__file__).parent / "cards").iterdir()
)


def read(paths, split, bad_rows):
    return iter(())


@pytest.mark.parametrize("name", CARDS)
def test_cards_describe_data_sets(name):
    fields = card(name)
    assert fields["what"]
    assert fields["releases"]
    parts = [*([""] if "config" in fields else []), *fields.get("parts", {})]
    assert parts
    for part in parts:
        dataset = load_card(name, read, part)
        assert dataset.config == (part or fields["config"])
        assert dataset.description
        assert "id" in dataset.features
        assert all(bool(file.url) == bool(file.checksum) for file in dataset.files.values())
        assert set(dataset.files) >= {file for names in dataset.splits.values() for file in names}
