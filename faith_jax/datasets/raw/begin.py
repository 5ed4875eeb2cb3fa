"""BEGIN (Dziri 2021): responses of dialogue models, labelled for attribution to their knowledge.

`begin` is the second release (which Nandwani 2023 evaluates on), `begin_2021` the first one (which
TRUE and Steen 2023 evaluate on). Both are tab-separated without quoting: a quote mark is text.
"""

import functools
import pathlib
from typing import Literal

import msgspec

from faith_jax.core.labels import Begin2021Label, BeginLabel
from faith_jax.core.schema import Text, columns_of
from faith_jax.datasets.delimited import read_tsv
from faith_jax.datasets.raw_dataset import Examples, each_row, load_card

SOURCES = ("wow", "cmu", "tc")


class _Response(msgspec.Struct):
    """A row of the second release."""

    model_name: Text
    data_source: Literal["wow", "cmu", "tc"]
    knowledge: Text
    message: str  # empty where the response opens a dialogue
    response: Text
    begin_label: BeginLabel


class _Response2021(msgspec.Struct):
    """A row of the first release."""

    evidence: Text
    message: str = msgspec.field(name="previous turn")
    response: Text
    label: Begin2021Label = msgspec.field(name="gold label")
    labels: Text = msgspec.field(name="full label set")


def _build_example(row: _Response, place: str) -> Examples:
    yield {
        "id": _row_id(place),
        "source": row.data_source,
        "model": row.model_name,
        "knowledge": row.knowledge,
        "message": row.message,
        "response": row.response,
        "begin_label": row.begin_label.value,
        "label": int(row.begin_label.faithfulness),
    }


def _example_2021(row: _Response2021, place: str) -> Examples:
    yield {
        "id": _row_id(place),
        "knowledge": row.evidence,
        "message": row.message,
        "response": row.response,
        "begin_label": row.label.value,
        "annotations": row.labels,
        "label": int(row.label.faithfulness),
    }


def _row_id(place: str) -> str:
    """Returns a row's id: its file's name and its line.

    >>> _row_id("raw/begin_dev_wow.tsv:2")
    'begin_dev_wow-2'
    """
    path, _, line = place.rpartition(":")
    return f"{pathlib.PurePath(path).stem}-{line}"


_rows = functools.partial(read_tsv, columns=columns_of(_Response))
_rows_2021 = functools.partial(read_tsv, columns=columns_of(_Response2021))
_read = each_row(_rows, _Response, _build_example)

BEGIN = load_card("begin", _read)
BEGIN_BY_SOURCE = {source: load_card("begin", _read, part=source) for source in SOURCES}
BEGIN_2021 = load_card("begin_2021", each_row(_rows_2021, _Response2021, _example_2021))
