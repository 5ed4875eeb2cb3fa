import collections

import pytest

from faith_jax.data.raw import begin
from faith_jax.data.raw_files import sample_files
from faith_jax.data.rows import BadRows
from faith_jax.errors import InputError
from tests.paths import REAL, needs_shared

HEADER = "model_name\tdata_source\tknowledge\tmessage\tresponse\tbegin_label\r\n"
ROW = 't5\twow\tTea is a leaf.\t\t"Tea", I think, is a leaf.\tFully attributable\r\n'


def read(tmp_path, content, bad_rows=None):
    path = tmp_path / "begin_dev_wow.tsv"
    path.write_text(content, encoding="utf-8", newline="")
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
        ("\twow", "\tdd", "field 'data_source': expected one of wow, cmu, tc"),
        ("\twow", "", "expected 6 columns"),
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


@pytest.mark.parametrize("dataset", [begin.BEGIN, begin.BEGIN_2021], ids=lambda d: d.name)
def test_samples_have_all_labels(dataset):
    paths = sample_files(dataset)
    rows = [row for split in dataset.splits for row in dataset.examples(paths, split)]
    assert len({row["id"] for row in rows}) == len(rows)
    labels = {row["begin_label"]: row["label"] for row in rows}
    assert sorted(labels.values(), reverse=True) == [1] + [0] * (len(labels) - 1)
    assert len(labels) == (3 if dataset is begin.BEGIN else 5)


def test_the_source_s_files_are_those_of_the_whole():
    for source, part in begin.BEGIN_BY_SOURCE.items():
        for split, names in part.splits.items():
            assert set(names) < set(begin.BEGIN.splits[split])
            assert all(source in name for name in names)
