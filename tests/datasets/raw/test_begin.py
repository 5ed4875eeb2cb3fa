import collections

import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.raw import begin
from tests.paths import REAL, needs_shared

HEADER = "model_name\tdata_source\tknowledge\tmessage\tresponse\tbegin_label\r\n"
ROW = 't5\twow\tTea is a leaf.\t\t"Tea", I think, is a leaf.\tFully attributable\r\n'


def read(tmp_path, content, bad_rows=None):
    path = tmp_path / "begin_dev_wow.tsv"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    return list(begin.BEGIN_BY_SOURCE["wow"].examples({path.name: path}, "validation", bad_rows))


def test_fields_of_a_row(tmp_path):
    (row,) = read(tmp_path, HEADER + ROW)
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


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Fully attributable", "Fully atributable", "Did you mean 'Fully attributable'"),
        ("Tea is a leaf.\t", "\t", "field 'knowledge': expected a text that is not empty"),
        ("\twow", "", "expected 6 columns"),
        ("\r\n", "\tmore\r\n", "expected 6 columns .*, got 7"),
        ("Tea is", "T\udce4 is", "column 3: expected UTF-8, got byte 0xe4"),
    ],
)
def test_bad_rows(tmp_path, old, new, message):
    content = HEADER + ROW + ROW.replace(old, new, 1) + ROW
    with pytest.raises(InputError, match=rf"begin_dev_wow\.tsv:3: .*{message}"):
        read(tmp_path, content)
    bad_rows = BadRows(skip=True)
    kept = [row["id"] for row in read(tmp_path, content, bad_rows)]
    assert kept == ["begin_dev_wow-2", "begin_dev_wow-4"]
    assert bad_rows.count == 1


@pytest.mark.parametrize("column", HEADER.split()[2:4])
def test_a_missing_column(tmp_path, column):
    header = HEADER.replace(column, f"{column}s")
    message = rf"\.tsv:1: column '{column}' is missing\. Did you mean '{column}s'"
    with pytest.raises(InputError, match=message):
        read(tmp_path, header + ROW, BadRows(skip=True))


def test_what_is_read_like_the_plain_form(tmp_path):
    plain = read(tmp_path, HEADER + ROW)
    assert read(tmp_path, "\ufeff" + HEADER + ROW) == plain
    assert read(tmp_path, (HEADER + ROW).replace("\r\n", "\n").rstrip("\n")) == plain
    assert read(tmp_path, "note\t" + HEADER + "A note.\t" + ROW) == plain
    assert read(tmp_path, HEADER + ROW.replace("t5\t", " t5 \t")) == plain
    (row,) = read(tmp_path, HEADER + ROW.replace("leaf", "l\0\u2028f"))
    assert row["knowledge"] == "Tea is a l\0\u2028f."


def test_a_header_alone_has_no_examples(tmp_path):
    assert read(tmp_path, HEADER) == []
    with pytest.raises(InputError, match=r"begin_dev_wow\.tsv: empty; its first line should name"):
        read(tmp_path, "")


ROW_2021 = "Tea is a leaf.\t\tIt is.\toff-topic\toff-topic,generic\n"
HEADER_2021 = "evidence\tprevious turn\tresponse\tgold label\tfull label set\n"


def read_2021(tmp_path, content, bad_rows=None):
    path = tmp_path / "dev_05_24_21.tsv"
    path.write_text(content, encoding="utf-8")
    return list(begin.BEGIN_2021.examples({path.name: path}, "validation", bad_rows))


def test_fields_of_the_first_release(tmp_path):
    (row,) = read_2021(tmp_path, HEADER_2021 + ROW_2021)
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
    ("old", "new", "message"),
    [
        ("\toff-topic\t", "\tofftopic\t", "field 'gold label'.* Did you mean 'off-topic'"),
        ("Tea is a leaf.", "", "field 'evidence': expected a text"),
    ],
)
def test_bad_rows_of_the_first_release(tmp_path, old, new, message):
    content = HEADER_2021 + ROW_2021 + ROW_2021.replace(old, new) + ROW_2021
    with pytest.raises(InputError, match=rf"dev_05_24_21\.tsv:3: {message}"):
        read_2021(tmp_path, content)
    bad_rows = BadRows(skip=True)
    assert len(read_2021(tmp_path, content, bad_rows)) == 2
    assert bad_rows.count == 1


@needs_shared
@pytest.mark.parametrize(
    ("source", "count", "attributable", "generic"),
    [("wow", 430, 180, 0), ("cmu", 416, 59, 79), ("tc", 383, 74, 2)],
)
def test_the_real_development_parts(source, count, attributable, generic):
    name = f"begin_dev_{source}.tsv"
    paths = {name: REAL / "begin" / name}
    rows = list(begin.BEGIN_BY_SOURCE[source].examples(paths, "validation"))
    labels = collections.Counter(row["begin_label"] for row in rows)
    assert len(rows) == len({row["id"] for row in rows}) == count
    assert labels["Fully attributable"] == sum(row["label"] for row in rows) == attributable
    assert labels["Generic"] == generic
