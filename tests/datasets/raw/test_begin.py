import collections

import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.raw.begin import BEGIN_2021, BEGIN_BY_SOURCE
from tests.datasets.raw.files import read
from tests.paths import REAL, needs_shared

WOW = BEGIN_BY_SOURCE["wow"]
HEADER = "model_name\tdata_source\tknowledge\tmessage\tresponse\tbegin_label\r\n"
ROW = 't5\twow\tTea is a leaf.\t\t"Tea", I think, is a leaf.\tFully attributable\r\n'
HEADER_2021 = "evidence\tprevious turn\tresponse\tgold label\tfull label set\n"
ROW_2021 = "Tea is a leaf.\t\tIt is.\toff-topic\toff-topic,generic\n"


def test_fields_of_a_row(tmp_path):
    (row,) = read(WOW, "validation", tmp_path, HEADER + ROW)
    assert row == {
        "id": "begin_dev_wow-2",
        "source": "wow",
        "model": "t5",
        "knowledge": "Tea is a leaf.",
        "message": "",
        "response": '"Tea", I think, is a leaf.',
        "begin_label": "Fully attributable",
        "label": 1,
    }
    # Further columns and white space do not count.
    assert read(WOW, "validation", tmp_path, f"note\t{HEADER}A note.\t{ROW}") == [row]
    assert read(WOW, "validation", tmp_path, HEADER + ROW.replace("t5\t", " t5 \t")) == [row]


def test_fields_of_the_first_release(tmp_path):
    (row,) = read(BEGIN_2021, "validation", tmp_path, HEADER_2021 + ROW_2021)
    assert row == {
        "id": "dev_05_24_21-2",
        "knowledge": "Tea is a leaf.",
        "message": "",
        "response": "It is.",
        "begin_label": "off-topic",
        "annotations": "off-topic,generic",
        "label": 0,
    }


@pytest.mark.parametrize(
    ("dataset", "header", "row", "old", "new", "message"),
    [
        (WOW, HEADER, ROW, "attributable", "atributable", "Did you mean 'Fully attributable'"),
        (WOW, HEADER, ROW, "\twow", "", "expected 6 columns"),
        (BEGIN_2021, HEADER_2021, ROW_2021, "off-topic\t", "offtopic\t", "Did you mean 'off-topic"),
    ],
)
def test_bad_rows(tmp_path, dataset, header, row, old, new, message):
    content = header + row + row.replace(old, new, 1) + row
    (name,) = dataset.splits["validation"]
    with pytest.raises(InputError, match=rf"{name}:3: .*{message}"):
        read(dataset, "validation", tmp_path, content)
    bad_rows = BadRows(skip=True)
    kept = read(dataset, "validation", tmp_path, content, bad_rows=bad_rows)
    assert [row["id"].partition("-")[2] for row in kept] == ["2", "4"]
    assert bad_rows.count == 1


@needs_shared
@pytest.mark.parametrize(
    ("source", "count", "attributable", "generic"),
    [("wow", 430, 180, 0), ("cmu", 416, 59, 79), ("tc", 383, 74, 2)],
)
def test_the_real_development_parts(source, count, attributable, generic):
    name = f"begin_dev_{source}.tsv"
    rows = list(BEGIN_BY_SOURCE[source].examples({name: REAL / "begin" / name}, "validation"))
    labels = collections.Counter(row["begin_label"] for row in rows)
    assert len(rows) == len({row["id"] for row in rows}) == count
    assert labels["Fully attributable"] == sum(row["label"] for row in rows) == attributable
    assert labels["Generic"] == generic
