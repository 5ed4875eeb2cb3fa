import types

import numpy as np
import pytest

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.files.stores import path_of
from faith_jax.input.row_cache import (
    RowCache,
    RowsPart,
    count_parts,
    make_parts,
    read_cache,
    write_cache,
)


def rows(count):
    for number in range(count):
        yield {
            "id": f"row {number}",
            "inputs": list(range(number % 7)),
            "targets": [number, 1],
            "negatives": [[5, 1]] * (number % 3),
            "cut": [0, number % 2, 0, 0],
        }


@pytest.mark.parametrize("files", [1, 3])
def test_any_row_is_read_as_it_was_written(tmp_path, files):
    """From one file, and from several, of which one is empty."""
    all_rows = list(rows(2500))
    pieces = [all_rows[:1200], [], all_rows[1200:]] if files == 3 else [all_rows]
    paths = [tmp_path / f"{number}.arrow" for number in range(files)]
    for path, piece in zip(paths, pieces, strict=True):
        write_cache(path, piece, "a", "task, split 'train'")
    cache = RowCache(paths, "task")
    assert len(cache) == 2500
    for number in (0, 999, 1000, 1001, 1199, 1200, 2499, 7):
        row, expected = cache[number], all_rows[number]
        assert row["inputs"].tolist() == expected["inputs"]
        assert row["targets"].tolist() == expected["targets"]
        assert row["negatives"] == expected["negatives"]
        assert row["knowledge"].tolist() == []
        assert row["label"] is None
    assert cache.lengths("inputs").tolist() == [n % 7 for n in range(2500)]
    cut = np.asarray(cache.column("cut").combine_chunks().flatten()).reshape(-1, 4)
    assert cut[:, 1].tolist() == [n % 2 for n in range(2500)]


def test_only_a_whole_cache_of_the_same_rows_is_found_again(tmp_path):
    path = tmp_path / "rows.arrow"
    assert not read_cache(path, "a")
    write_cache(path, rows(10), "a", "task")
    assert read_cache(path, "a")
    assert not read_cache(path, "b")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert not read_cache(path, "a")


def test_a_cache_appears_whole_or_not_at_all(tmp_path):
    def stopped():
        yield from rows(1500)
        raise InputError("example 1500 is bad")

    with pytest.raises(InputError, match="example 1500"):
        write_cache(tmp_path / "rows.arrow", stopped(), "a", "task")
    assert list(tmp_path.iterdir()) == []


def task(examples, in_ranges=False, files=1, keeps_order=False):
    source = types.SimpleNamespace(
        num_input_examples=lambda split: examples,
        supports_arbitrary_sharding=in_ranges,
        list_shards=lambda split: ["file"] * files,
    )
    size = None if keeps_order else 1000
    return types.SimpleNamespace(source=source, shuffle_buffer_size=size)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (task(9000, in_ranges=True), 5),
        (task(1, in_ranges=True), 1),
        (task(10**7, in_ranges=True), 64),
        (task(9000, in_ranges=True, keeps_order=True), 1),
        (task(9000), 1),
        (task(9000, files=3), 3),
        (task(9000, files=100), 5),
        (task(None, files=100), 64),
        (task(None), 1),
    ],
)
def test_how_many_parts(given, expected):
    assert count_parts(given, "train", False) == expected


def parts(rows_made, fingerprint="a", bad=-1):
    """Four parts of three rows; `made` collects the numbers of the rows that are made."""

    def rows(number):
        rows_made.append(number)
        for row in range(3):
            yield {"id": f"{number}-{row}"}
        if number == bad:
            raise InputError(f"part {number}: a bad row")

    return [RowsPart(f"{n}.arrow", fingerprint, lambda n=n: rows(n)) for n in range(4)]


def ids_in(folder):
    return RowCache([folder / f"{n}.arrow" for n in range(4)], "task").column("id").to_pylist()


IDS = [f"{number}-{row}" for number in range(4) for row in range(3)]


def test_only_parts_that_are_not_there_are_made(tmp_path):
    rows_made, folder = [], tmp_path / "new"
    make_parts(parts(rows_made), folder, folder, "rows")
    assert ids_in(folder) == IDS
    (folder / "2.arrow").unlink()
    (folder / "3.arrow").write_bytes((folder / "3.arrow").read_bytes()[:-9])
    make_parts(parts(rows_made), folder, folder, "rows")
    assert rows_made == [0, 1, 2, 3, 2, 3]
    make_parts(parts(rows_made, "b"), folder, folder, "rows")
    assert rows_made[6:] == [0, 1, 2, 3]
    assert ids_in(folder) == IDS


def test_parts_on_a_store_are_made_once(gcs_bucket, tmp_path):
    rows_made, shared = [], path_of(f"{gcs_bucket}/{tmp_path.name}/rows")
    for machine in ("one", "other"):
        make_parts(parts(rows_made), tmp_path / machine, shared, "rows")
        assert ids_in(tmp_path / machine) == IDS
    assert rows_made == [0, 1, 2, 3]
    (shared / "2.arrow").unlink()
    make_parts(parts(rows_made), tmp_path / "third", shared, "rows")
    assert rows_made[4:] == [2]


def test_nothing_is_kept_of_data_with_a_bad_row(tmp_path):
    rows_made, folder = [], tmp_path / "new"
    with pytest.raises(InputError, match=r"^part 2: a bad row$"):
        make_parts(parts(rows_made, bad=2), folder, folder, "rows")
    assert rows_made == [0, 1, 2]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file/rows: rows: cannot be written"):
        make_parts(parts([]), tmp_path / "file/rows", tmp_path / "file/rows", "rows")
