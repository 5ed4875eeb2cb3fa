import json

from hypothesis import given
from hypothesis import strategies as st

from faith_jax.export.jsonl import append_rows, complete_rows, keep_rows

ROWS = [{"id": "1", "text": "a\nb \u2028 c"}, {"id": "2", "text": "\u00e9"}]


def test_rows_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "rows.jsonl"
    assert complete_rows(path) == []
    append_rows(path, ROWS[:1])
    append_rows(path, ROWS[1:])
    assert complete_rows(path) == ROWS


@given(cut=st.integers(1, 40))
def test_a_line_that_a_kill_cut_is_dropped(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "rows.jsonl"
    append_rows(path, ROWS)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    kept = complete_rows(path)
    assert kept == ROWS[: len(kept)]
    # What is left in the file is whole lines, to which more can be appended.
    assert [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] == kept
    assert len(kept) == whole[:-cut].count(b"\n")


def test_rows_behind_the_first_ones_are_dropped(tmp_path):
    path = tmp_path / "rows.jsonl"
    assert keep_rows(path, 0) == 0  # of no file
    append_rows(path, [*ROWS, *ROWS])
    assert keep_rows(path, 3) == 3
    assert complete_rows(path) == [*ROWS, ROWS[0]]
    assert keep_rows(path, 0) == 0
    assert path.read_bytes() == b""
