import numpy as np
import pytest

from faith_jax.core.errors import InputError
from faith_jax.input.row_cache import RowCache, read_cache, write_cache


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
    every = list(rows(2500))
    pieces = [every[:1200], [], every[1200:]] if files == 3 else [every]
    paths = [tmp_path / f"{number}.arrow" for number in range(files)]
    for path, piece in zip(paths, pieces, strict=True):
        write_cache(path, piece, "a", "task, split 'train'")
    cache = RowCache(paths, "task")
    assert len(cache) == 2500
    for number in (0, 999, 1000, 1001, 1199, 1200, 2499, 7):
        row, expected = cache[number], every[number]
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
