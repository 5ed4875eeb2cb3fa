"""Reading the items of a large JSON file one by one: of an array, or of an object by key.

The file is streamed: no more than one item is in memory. A place names the item, as
`train.json: [12]` or `train.json: item[3]`, since JSON files often have a single line.
"""

import decimal
import pathlib
from collections.abc import Iterator
from typing import Any

import ijson

from faith_jax.data.fields import shown
from faith_jax.data.rows import BYTE_ORDER_MARK, BadRows, Row
from faith_jax.errors import InputError


def read_array(
    path: str | pathlib.Path, key: str = "", bad_rows: BadRows | None = None
) -> Iterator[Row]:
    """Yields the objects of an array.

    Args:
      path: the file.
      key: of the array in the file's object, with dots between nested keys; empty = the file
        is an array itself.
      bad_rows: what to do with an item that is no object; by default reading stops.

    Raises:
      InputError: for a file that is missing, cannot be read or is not JSON (naming the last
        whole item), without that array, and for a bad item.
    """
    bad_rows = bad_rows or BadRows()
    prefix = f"{key}.item" if key else "item"
    count = 0
    for number, item in enumerate(_streamed(path, ijson.items, prefix, key)):
        count += 1
        place = f"{path}: {key}[{number}]"
        if not isinstance(item, dict):
            bad_rows.add(InputError(f"{place}: expected a JSON object, got {shown(item)}."))
            continue
        yield Row(place, item)
    if not count:
        what = f"an array '{key}'" if key else "an array"
        raise InputError(f"{path}: holds no items; expected {what} of JSON objects.")


def read_object(
    path: str | pathlib.Path, key: str = "", bad_rows: BadRows | None = None
) -> Iterator[tuple[str, Row]]:
    """Yields the keys and values of an object whose values are objects.

    Arguments and errors are those of `read_array`.
    """
    bad_rows = bad_rows or BadRows()
    count = 0
    for name, item in _streamed(path, ijson.kvitems, key, key):
        count += 1
        place = f"{path}: {key}[{shown(name)}]"
        if not isinstance(item, dict):
            bad_rows.add(InputError(f"{place}: expected a JSON object, got {shown(item)}."))
            continue
        yield name, Row(place, item)
    if not count:
        what = f"an object '{key}'" if key else "an object"
        raise InputError(f"{path}: holds no items; expected {what} of JSON objects.")


def _streamed(path: str | pathlib.Path, read: Any, prefix: str, key: str) -> Iterator[Any]:
    done = 0
    try:
        with open(path, "rb") as file:
            if file.read(len(BYTE_ORDER_MARK)) != BYTE_ORDER_MARK:
                file.seek(0)
            for item in read(file, prefix, use_float=True):
                yield item
                done += 1
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except IsADirectoryError:
        raise InputError(f"{path}: expected a file, got a folder.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
    except (ijson.JSONError, UnicodeDecodeError, decimal.InvalidOperation, OverflowError) as error:
        problem = " ".join(str(error).split())
        raise InputError(
            f"{path}: not valid JSON behind {done} whole items of {key or 'the file'} "
            f"({problem}); get the file again."
        ) from None
