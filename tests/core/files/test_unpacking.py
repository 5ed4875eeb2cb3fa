"""Packed files and other encodings are read as UTF-8, forwards and back."""

import bz2
import gzip
import io

import pyarrow as pa
import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.files.unpacking import recode_to_utf8, unpack
from faith_jax.core.rows import read_jsonl

LINES = b"".join(b'{"n": %d}\n' % number for number in range(50_000))
PACKED = {
    "plain": LINES,
    "gzip": gzip.compress(LINES, 1),
    "bzip2": bz2.compress(LINES, 1),
    "zstandard": pa.compress(LINES, "zstd", asbytes=True),
}


@pytest.mark.parametrize("form", PACKED)
def test_packed_files_are_read_from_any_place(form):
    file = unpack(io.BytesIO(PACKED[form]))
    assert file.read() == LINES
    file.seek(10)
    assert (file.read(8), file.tell()) == (LINES[10:18], 18)
    file.seek(400_000)
    assert file.readline() == LINES[400_000:].partition(b"\n")[0] + b"\n"
    file.seek(0)
    assert file.readline() == b'{"n": 0}\n'


def test_a_zstandard_file_that_is_cut_or_damaged(tmp_path):
    path, packed = tmp_path / "rows.jsonl.zst", PACKED["zstandard"]
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match=r"zst: ends in the middle; get the file again"):
        list(read_jsonl(path))
    path.write_bytes(packed[:4] + b"Tea" * 100)
    with pytest.raises(InputError, match=r"zst: is damaged \(.*\); get the file again"):
        list(read_jsonl(path))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "cp1252", "latin-1", "utf-32"])
def test_other_encodings_become_utf_8(encoding):
    text = "Tee für 3 Ä\n" * 20_000
    file = recode_to_utf8(io.BytesIO(text.encode(encoding)), encoding)
    assert file.read().decode() == text
    file.seek(0)
    assert file.readline().decode() == "Tee für 3 Ä\n"
