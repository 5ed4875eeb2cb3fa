import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows, Row, decoded, parsed, read_lines


def parse(fields, place):
    if fields["n"] < 0:
        raise InputError(f"{place}: field 'n': expected 0 or more.")
    return fields["n"]


ROWS = [Row(f"f:{i}", {"n": n}) for i, n in enumerate([3, -1, 4, -2], start=1)]


def test_reading_stops_at_the_first_bad_row():
    found = []
    with pytest.raises(InputError, match=r"^f:2: field 'n'"):
        found.extend(parsed(ROWS, parse, BadRows()))


def test_bad_rows_are_skipped_counted_and_listed():
    bad_rows = BadRows(skip=True)
    assert list(parsed(ROWS, parse, bad_rows)) == [3, 4]
    assert bad_rows.count == 2
    assert [message[:4] for message in bad_rows.messages] == ["f:2:", "f:4:"]


def test_only_the_first_messages_are_kept():
    bad_rows = BadRows(skip=True)
    list(parsed([Row(f"f:{i}", {"n": -1}) for i in range(1000)], parse, bad_rows))
    assert bad_rows.count == 1000
    assert len(bad_rows.messages) < 100


def test_a_row_that_is_read_again_counts_once():
    bad_rows = BadRows(skip=True)
    for _ in range(2):
        assert list(parsed(ROWS, parse, bad_rows)) == [3, 4]
    assert (bad_rows.count, len(bad_rows.messages)) == (2, 2)


def test_other_errors_are_not_bad_rows():
    with pytest.raises(KeyError):
        list(parsed([Row("f:1", {})], parse, BadRows(skip=True)))


def test_only_line_feeds_end_lines(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"\xef\xbb\xbfa\x0b\x85\r\nb\rc\n\nd")
    assert list(read_lines(path)) == [b"a\x0b\x85\r\n", b"b\rc\n", b"\n", b"d"]


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="nothing: no such file"):
        list(read_lines(tmp_path / "nothing"))
    with pytest.raises(InputError, match="expected a file, got a folder"):
        list(read_lines(tmp_path))
    (tmp_path / "wide").write_bytes("a".encode("utf-16"))
    with pytest.raises(InputError, match="wide:1: expected UTF-8, got UTF-16"):
        list(read_lines(tmp_path / "wide"))


def test_bytes_that_are_not_utf8_are_named():
    assert decoded("ä".encode(), "f:1") == "ä"
    with pytest.raises(InputError, match="f:3: expected UTF-8, got byte 0xe4 at byte 2"):
        decoded(b"a\xe4", "f:3")
