"""Reads packed files (gzip, bzip2, Zstandard) and files in other encodings as UTF-8 bytes."""

import codecs
import importlib
import io
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

_MODULES = {b"\x1f\x8b": "gzip", b"BZh": "bz2"}  # the modules that read files, by first bytes
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_PIECE_BYTES = 1 << 16
PACKED_ENDINGS = (".gz", ".bz2", ".zst")


def unpack(file: IO[bytes]) -> IO[bytes]:
    """Returns the content of a packed file, or the file itself."""
    begin = file.read(4)
    file.seek(0)
    for mark, module in _MODULES.items():
        if begin.startswith(mark):
            content: IO[bytes] = importlib.import_module(module).open(file, "rb")
            return content
    if begin != _ZSTANDARD:
        return file
    return io.BufferedReader(_Pieces(lambda: _decompress_zstandard(file)), _PIECE_BYTES)


def recode_to_utf8(file: IO[bytes], encoding: str) -> IO[bytes]:
    """Returns a text file in another encoding as UTF-8.

    Reading raises a UnicodeDecodeError if bytes are not valid in the encoding.
    """

    def convert() -> Iterator[bytes]:
        file.seek(0)
        decoder = codecs.getincrementaldecoder(encoding)()
        while piece := file.read(_PIECE_BYTES):
            yield decoder.decode(piece).encode("utf-8")
        yield decoder.decode(b"", final=True).encode("utf-8")

    return io.BufferedReader(_Pieces(convert), _PIECE_BYTES)


def _decompress_zstandard(file: IO[bytes]) -> Iterator[bytes]:
    import pyarrow

    file.seek(0)
    source = pyarrow.PythonFile(_Borrowed(file), mode="r")
    stream = pyarrow.CompressedInputStream(source, "zstd")
    try:
        while piece := stream.read(_PIECE_BYTES):
            yield piece
    except (OSError, pyarrow.ArrowException) as error:
        problem = str(error).partition("\n")[0]
        raise EOFError if "Truncated" in problem else zlib.error(problem) from None


class _Borrowed(io.RawIOBase):
    """A wrapper of a file; the file stays open when Arrow closes the wrapper."""

    def __init__(self, file: IO[bytes]):
        self._file = file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)


class _Pieces(io.RawIOBase):
    """A file of bytes that come in pieces; seeking back starts again, as in Python's gzip."""

    def __init__(self, begin: Callable[[], Iterator[bytes]]):
        self._begin = begin
        self._restart()

    def _restart(self) -> None:
        self._pieces, self._piece, self._place = self._begin(), memoryview(b""), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._piece = memoryview(piece)
        count = min(len(buffer), len(self._piece))
        buffer[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        self._place += count
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset += self._place
        elif whence == io.SEEK_END:
            raise io.UnsupportedOperation("a packed file has no known end")
        if offset < self._place:
            self._restart()
        space = bytearray(_PIECE_BYTES)
        while self._place < offset:
            if not self.readinto(memoryview(space)[: offset - self._place]):
                break
        return self._place
