import types

import pytest

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.files.stores import path_of
from faith_jax.input.row_cache import RowCache
from faith_jax.input.row_parts import Part, count_parts, make_parts


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


def parts(made, fingerprint="a", bad=-1):
    """Four parts of three rows; `made` gets the number of each that is made."""

    def rows(number):
        made.append(number)
        for row in range(3):
            yield {"id": f"{number}-{row}"}
        if number == bad:
            raise InputError(f"part {number}: a bad row")

    return [Part(f"{n}.arrow", fingerprint, lambda n=n: rows(n)) for n in range(4)]


def ids(folder):
    return RowCache([folder / f"{n}.arrow" for n in range(4)], "task").column("id").to_pylist()


IDS = [f"{number}-{row}" for number in range(4) for row in range(3)]


def test_only_parts_that_are_not_there_are_made(tmp_path):
    made, folder = [], tmp_path / "new"
    make_parts(parts(made), folder, folder, "rows")
    assert ids(folder) == IDS
    (folder / "2.arrow").unlink()
    (folder / "3.arrow").write_bytes((folder / "3.arrow").read_bytes()[:-9])
    make_parts(parts(made), folder, folder, "rows")
    assert made == [0, 1, 2, 3, 2, 3]
    make_parts(parts(made, "b"), folder, folder, "rows")
    assert made[6:] == [0, 1, 2, 3]
    assert ids(folder) == IDS


def test_parts_on_a_store_are_made_once(gcs_bucket, tmp_path):
    made, shared = [], path_of(f"{gcs_bucket}/{tmp_path.name}/rows")
    for machine in ("one", "other"):
        make_parts(parts(made), tmp_path / machine, shared, "rows")
        assert ids(tmp_path / machine) == IDS
    assert made == [0, 1, 2, 3]
    (shared / "2.arrow").unlink()
    make_parts(parts(made), tmp_path / "third", shared, "rows")
    assert made[4:] == [2]


def test_nothing_is_kept_of_data_with_a_bad_row(tmp_path):
    made, folder = [], tmp_path / "new"
    with pytest.raises(InputError, match=r"^part 2: a bad row$"):
        make_parts(parts(made, bad=2), folder, folder, "rows")
    assert made == [0, 1, 2]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file/rows: rows: cannot be written"):
        make_parts(parts([]), tmp_path / "file/rows", tmp_path / "file/rows", "rows")
