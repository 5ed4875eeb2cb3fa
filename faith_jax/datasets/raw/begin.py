"""BEGIN (Dziri 2021): responses of dialogue models, labelled for attribution to their knowledge.

`begin` is the second release (used by Nandwani 2023), `begin_2021` the first release (used by TRUE
and Steen 2023). Both are tab-separated without quoting: a quote mark is text.
"""

import functools
import pathlib
from typing import Literal

import msgspec

from faith_jax.core.labels import Begin2021Label, BeginLabel
from faith_jax.core.schema import Text, columns_of
from faith_jax.datasets.delimited import read_tsv
from faith_jax.datasets.raw_dataset import Examples, Reader, each_row, load_card

SOURCES = ("wow", "cmu", "tc")


class _Response(msgspec.Struct):
    """A row of the second release."""

    model: Text = msgspec.field(name="model_name")
    source: Literal["wow", "cmu", "tc"] = msgspec.field(name="data_source")
    knowledge: Text
    message: str  # empty if the response opens a dialogue
    response: Text
    label: BeginLabel = msgspec.field(name="begin_label")


class _Response2021(msgspec.Struct):
    """A row of the first release."""

    knowledge: Text = msgspec.field(name="evidence")
    message: str = msgspec.field(name="previous turn")
    response: Text
    label: Begin2021Label = msgspec.field(name="gold label")
    annotations: Text = msgspec.field(name="full label set")


def _build_example(row: _Response | _Response2021, place: str) -> Examples:
    yield msgspec.structs.asdict(row) | {
        "id": _row_id(place),
        "begin_label": row.label.value,
        "label": int(row.label.faithfulness),
    }


def _row_id(place: str) -> str:
    """Returns a row's id: its file's name and its line.

    >>> _row_id("raw/begin_dev_wow.tsv:2")
    'begin_dev_wow-2'
    """
    path, _, line = place.rpartition(":")
    return f"{pathlib.PurePath(path).stem}-{line}"


def _make_reader(schema: type[_Response] | type[_Response2021]) -> Reader:
    return each_row(functools.partial(read_tsv, columns=columns_of(schema)), schema, _build_example)


_read = _make_reader(_Response)
BEGIN = load_card("begin", _read)
BEGIN_BY_SOURCE = {source: load_card("begin", _read, part=source) for source in SOURCES}
BEGIN_2021 = load_card("begin_2021", _make_reader(_Response2021))
