"""Reads the items of an array or object in a large JSON file, one in memory at a time.

Places name the item, as `train.json: [12]` or `train.json: item[3]`, since JSON files often have
only one line. An item is read in the same way as a line of JSON lines.
"""

import codecs
import contextlib
import itertools
import json
import pathlib
import re
from collections.abc import Iterator
from typing import IO, Any

from faith_jax.core.errors import InputError, format_value
from faith_jax.core.rows import BadRows, Row, Seen, json_problem, json_value_at, open_text

_PIECE_BYTES = 1 << 16
_MOST_OPEN = 5_000  # nested brackets in a value that is skipped
_LAST = 12  # an error within this many characters of the end may mean that a value is cut off
_BLANK = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^\s,:\[\]{}"]+', re.DOTALL)
_KINDS = {"[": "an array", "{": "an object", '"': "a text", "n": "a null"}
_KINDS |= {"t": "a boolean", "f": "a boolean"}
_ENDS = {"[": "]", "{": "}"}


def read_array(
    path: str | pathlib.Path,
    key: str = "",
    bad_rows: BadRows | None = None,
    first: int = 0,
    encoding: str = "utf-8",
) -> Iterator[Row]:
    """Yields the objects of an array; see `read_jsonl` for further arguments.

    `key` is the key of the array in the file's object, with dots between nested keys; "" = the file
    itself is an array.

    Raises:
      InputError: the file cannot be read or is not JSON (the error tells how many items are whole),
        the array is missing or empty, or an item is bad.
    """
    with _open_text(path, key, encoding) as text:
        for _ in text.find(key, "["):
            for _, row in text.read_items(key, "[", bad_rows, first):
                yield row


def read_object(
    path: str | pathlib.Path, key: str = "", bad_rows: BadRows | None = None
) -> Iterator[tuple[str, Row]]:
    """Yields the keys and values of an object whose values are objects.

    Takes the same arguments and raises the same errors as `read_array`.
    """
    with _open_text(path, key) as text:
        for _ in text.find(key, "{"):
            yield from text.read_items(key, "{", bad_rows)


def read_arrays(
    path: str | pathlib.Path, key: str, bad_rows: BadRows | None = None
) -> Iterator[tuple[str, Row]]:
    """Yields the objects of all arrays in an object, each with its array's name.

    Takes the same arguments and raises the same errors as `read_array`.
    """
    with _open_text(path, key) as text:
        for _ in text.find(key, "{"):
            text.check_kind(key, "{")
            name = None
            for name in text.members("{"):
                for _, row in text.read_items(f"{key}.{name}", "[", bad_rows):
                    yield name, row
            if name is None:
                raise text.lacks_items(key, "{")


@contextlib.contextmanager
def _open_text(path: str | pathlib.Path, key: str, encoding: str = "utf-8") -> Iterator["_Text"]:
    with open_text(path, encoding) as file:
        text = _Text(file, path)
        try:
            yield text
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise InputError(
                f"{path}: not valid JSON behind {text.whole_items} whole items of "
                f"{key or 'the file'} ({text.problem(error)}); get the file again."
            ) from None
        except RecursionError as error:
            raise InputError(f"{path}: {json_problem(error)}; get the file again.") from None
        except KeyError as error:
            raise InputError(f"{path}: {json_problem(error)}.") from None


def _describe_collection(key: str, mark: str) -> str:
    return f"{_KINDS[mark]} '{key}' of JSON objects" if key else f"{_KINDS[mark]} of JSON objects"


class _Text:
    """The text of a JSON file, read from start to end with one piece in memory at a time.

    Attributes:
      whole_items: the number of items that were read completely.
    """

    def __init__(self, file: IO[bytes], path: str | pathlib.Path):
        self.whole_items = 0
        self._file, self._path, self._is_whole = file, path, False
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._text, self._at, self._before = "", 0, 0

    def find(self, key: str, mark: str) -> Iterator[None]:
        """Yields when the collection of a key is next in the text; the caller must read it."""
        is_there = False
        for _ in self._values_of(key):
            is_there = True
            yield
        if not is_there:
            expected = _describe_collection(key, mark)
            raise InputError(f"{self._path}: has no '{key}'; expected {expected}.")
        if self._peek_mark():
            raise self._make_error("Extra data")

    def read_items(
        self, key: str, mark: str, bad_rows: BadRows | None, first: int = 0
    ) -> Iterator[tuple[Any, Row]]:
        """Yields the objects in the collection that is next, each with its number or name."""
        self.check_kind(key, mark)
        bad_rows = bad_rows or BadRows()
        count = 0
        for name in self.members(mark):
            count += 1
            place, problem = f"{self._path}: {key}[{format_value(name)}]", ""
            try:
                item = self._read_value()
            except (json.JSONDecodeError, UnicodeDecodeError):
                raise
            except (KeyError, ValueError, RecursionError) as error:
                self._skip_value()
                problem = json_problem(error)
            else:
                if not isinstance(item, dict):
                    problem = f"expected a JSON object, got {format_value(item)}"
            if count <= first:
                continue
            if problem:
                bad_rows.add(InputError(f"{place}: {problem}."))
            else:
                yield name, Row(place, item)
            self.whole_items += 1
        if not count:
            raise self.lacks_items(key, mark)

    def lacks_items(self, key: str, mark: str) -> InputError:
        """Returns the error for an empty collection."""
        expected = _describe_collection(key, mark)
        return InputError(f"{self._path}: holds no items; expected {expected}.")

    def check_kind(self, key: str, mark: str) -> None:
        """Checks that a collection of this kind is next, unless the text ends here."""
        if (begin := self._peek_mark()) and begin != mark:
            got = _KINDS.get(begin, "a number")
            raise InputError(
                f"{self._path}: expected {_describe_collection(key, mark)}, got {got}."
            )

    def _read_more(self) -> None:
        """Doubles the text in memory, so that a long value is not parsed again too often."""
        self._before += self._at
        left = self._text[self._at :]
        piece = self._file.read(max(_PIECE_BYTES, len(left)))
        self._text, self._at = left + self._decode(piece, final=not piece), 0
        self._is_whole = not piece

    def _make_error(self, problem: str) -> json.JSONDecodeError:
        """Returns an error at the current place."""
        return json.JSONDecodeError(problem, self._text[: self._at + 1], self._at)

    def problem(self, error: json.JSONDecodeError | UnicodeDecodeError) -> str:
        """Describes an error and its place in the file."""
        if isinstance(error, UnicodeDecodeError):
            return json_problem(error)
        return f"{error.msg.removesuffix(' at')} at character {self._before + error.pos + 1:,}"

    def _peek_mark(self) -> str:
        """Returns the next character that is not blank; "" at the end of the text."""
        while True:
            if match := _BLANK.match(self._text, self._at):
                self._at = match.end()
            if self._at < len(self._text) or self._is_whole:
                return self._text[self._at : self._at + 1]
            self._read_more()

    def _take_mark(self, *expected: str) -> str:
        mark = self._peek_mark()
        if mark not in expected:
            raise self._make_error(f"Expecting {' or '.join(map(repr, expected))}")
        self._at += 1
        return mark

    def _read_value(self) -> Any:
        """Returns the next value; does not advance if `json_value_at` raises an error."""
        self._peek_mark()
        while True:
            try:
                value, end = json_value_at(self._text, self._at)
            except json.JSONDecodeError as error:
                is_cut = "Unterminated" in error.msg or error.pos > len(self._text) - _LAST
                if self._is_whole or not is_cut:
                    raise
            else:
                if self._is_whole or end < len(self._text):  # else a number may continue
                    self._at = end
                    return value
            self._read_more()

    def _skip_value(self) -> None:
        """Skips the next value, whatever its size."""
        count = 0  # open brackets
        while mark := self._peek_mark():
            if mark in "[]{}":
                count += 1 if mark in "[{" else -1
                self._at += 1
            elif mark in ",:":
                self._at += 1
            else:
                match = _SCALAR.match(self._text, self._at)
                while not self._is_whole and (not match or match.end() == len(self._text)):
                    self._read_more()  # the scalar may continue
                    match = _SCALAR.match(self._text, self._at)
                if not match:
                    raise self._make_error("Unterminated string")
                self._at = match.end()
            if count > _MOST_OPEN:
                raise RecursionError
            if count <= 0:
                return
        raise self._make_error("Expecting value")

    def members(self, mark: str) -> Iterator[Any]:
        """Yields the names in an object or the numbers of an array's items, from 0.

        The caller must read the value of each before it takes the next.

        Raises:
          KeyError: a name occurs twice.
        """
        seen, end = Seen(), _ENDS[mark]
        self._take_mark(mark)
        is_end = self._peek_mark() == end and bool(self._take_mark(end))
        for number in itertools.count():
            if is_end:
                return
            name: Any = number
            if mark == "{":
                if self._peek_mark() != '"':
                    raise self._make_error("Expecting property name enclosed in double quotes")
                name = self._read_value()
                if not seen.add(name):
                    raise KeyError(name)
                self._take_mark(":")
            yield name
            is_end = self._take_mark(",", end) == end

    def _values_of(self, key: str) -> Iterator[None]:
        """Yields when the value of a key is next, skipping all other values; see `read_array`."""
        if not key:
            yield
        elif self._peek_mark() != "{":
            self._skip_value()
        else:
            first, _, rest = key.partition(".")
            for name in self.members("{"):
                if name == first:
                    yield from self._values_of(rest)
                else:
                    self._skip_value()


def item_number(place: str) -> int:
    """Returns the number of an array's item from its place.

    >>> item_number("train.json: [12]")
    12
    """
    return int(place.rpartition("[")[2].rstrip("]"))
