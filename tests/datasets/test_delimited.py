import csv
import io
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.delimited import read_csv, read_tsv

# Every character but half surrogates, and often those that mean something to csv.
CHARACTER = st.sampled_from('"\r\n,\t\0\ufeff\u2028') | st.characters(exclude_categories=["Cs"])
TEXT = st.text(CHARACTER, max_size=12)
CELL = TEXT.filter(lambda text: text != "")
TSV_CELL = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\ufeff"), max_size=12
)
READERS = {"csv": read_csv, "tsv": read_tsv}


def write(tmp_path, content, name="rows.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@settings(deadline=None)
@given(st.lists(st.tuples(CELL, TEXT), max_size=5), st.sampled_from(["\n", "\r\n"]))
def test_whatever_csv_writes_is_read_back(tmp_path_factory, rows, end):
    buffer = io.StringIO(newline="")
    # csv writes a lone carriage return, which it then cannot read, without quotes before "\n".
    quoting = csv.QUOTE_ALL if end == "\n" else csv.QUOTE_MINIMAL
    writer = csv.writer(buffer, lineterminator=end, quoting=quoting)
    writer.writerows([("a", "b"), *rows])
    path = write(tmp_path_factory.mktemp("csv"), buffer.getvalue())
    assert [(r.fields["a"], r.fields["b"]) for r in read_csv(path, ("a", "b"))] == rows


@settings(deadline=None)
@given(
    st.lists(st.tuples(TSV_CELL, TSV_CELL).filter(any), max_size=5), st.sampled_from(["\n", "\r\n"])
)
def test_whatever_is_joined_by_tabs_is_read_back(tmp_path_factory, rows, end):
    text = end.join("\t".join(row) for row in [("a", "b"), *rows]) + end
    path = write(tmp_path_factory.mktemp("tsv"), text)
    assert [(r.fields["a"], r.fields["b"]) for r in read_tsv(path, ("a", "b"))] == rows


BAD_CSV = [
    b"1\r\n",
    b"1,2,3\r\n",
    b'"1","\xe4"\r\n',
    b'"1","a\n\xff\nb"\r\n',
    b'"1"x,2\r\n',
    b'"1","2" \r\n',
    b"1\r2,3\r\n",
]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=6), st.data(), st.sampled_from(BAD_CSV))
def test_one_bad_row_is_named_or_skipped(tmp_path_factory, rows, data, bad):
    position = data.draw(st.integers(0, len(rows)))
    pieces, line, bad_line = [b"a,b\r\n"], 2, None
    for i in range(len(rows) + 1):
        if i == position:
            bad_line = line
            pieces.append(bad)
            line += bad.count(b"\n")
        if i < len(rows):
            buffer = io.StringIO(newline="")
            csv.writer(buffer, quoting=csv.QUOTE_ALL).writerow(rows[i])
            pieces.append(buffer.getvalue().encode())
            line += pieces[-1].count(b"\n")
    path = write(tmp_path_factory.mktemp("csv"), b"".join(pieces))
    with pytest.raises(InputError, match=rf"rows\.csv:{bad_line}: "):
        list(read_csv(path, ("a", "b")))
    bad_rows = BadRows(skip=True)
    values = [(r.fields["a"], r.fields["b"]) for r in read_csv(path, ("a", "b"), bad_rows)]
    assert values == rows
    assert bad_rows.count == 1


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(TSV_CELL, TSV_CELL).filter(any), max_size=6),
    st.data(),
    st.sampled_from([b"1\n", b"1\t2\t3\n", b"1\t\xe4\r\n", b"\xed\xa0\x80\t2\n"]),
)
def test_one_bad_line_is_named_or_skipped(tmp_path_factory, rows, data, bad):
    position = data.draw(st.integers(0, len(rows)))
    lines = ["\t".join(row).encode() + b"\n" for row in rows]
    content = b"a\tb\n" + b"".join([*lines[:position], bad, *lines[position:]])
    path = write(tmp_path_factory.mktemp("tsv"), content, "rows.tsv")
    with pytest.raises(InputError, match=rf"rows\.tsv:{position + 2}: "):
        list(read_tsv(path, ("a", "b")))
    bad_rows = BadRows(skip=True)
    values = [(r.fields["a"], r.fields["b"]) for r in read_tsv(path, ("a", "b"), bad_rows)]
    assert values == rows
    assert bad_rows.count == 1


def test_columns_that_nobody_asked_for_are_read_too(tmp_path):
    path = write(tmp_path, b"\xef\xbb\xbfx,a\n1,2\n\n3,4\n")
    rows = [(row.fields, row.place) for row in read_csv(path, ("a",))]
    assert rows == [({"x": "1", "a": "2"}, f"{path}:2"), ({"x": "3", "a": "4"}, f"{path}:4")]


@pytest.mark.parametrize("reader", [read_csv, read_tsv])
def test_lines_of_separators_alone_are_blank(tmp_path, reader):
    mark = "," if reader is read_csv else "\t"
    lines = ["", "", "a b", "  ", "1 2", "  ", "3 4", " "]
    path = write(tmp_path, "\n".join(lines).replace(" ", mark))
    assert [r.fields["a"] for r in reader(path, ("a",))] == ["1", "3"]
    assert [r.place for r in reader(path, ("a",), first=1)] == [f"{path}:7"]
    path = write(tmp_path, 'a\n""\n')
    assert len(list(read_csv(path, ("a",)))) == 1


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "rows.csv: empty; its first line should name the columns"),
        (b"a b\n", "rows.csv:1: column 'a' is missing"),
        (b"\xe4\n", "rows.csv:1: .*expected UTF-8, got byte 0xe4"),
    ],
)
def test_bad_headers(tmp_path, reader, content, message):
    with pytest.raises(InputError, match=message):
        list(reader(write(tmp_path, content), ("a",)))


@pytest.mark.parametrize(
    ("reader", "content", "message"),
    [
        (read_csv, b"a,b\n1,2,3\n", "expected 2 columns .a, b., got 3; quote cells that hold a"),
        (read_tsv, b"a\tb\n1\n", "expected 2 columns .a, b., got 1; a cell holds no tab and no"),
        (read_csv, b"a,b\n1\r2,3\n", "a carriage return outside quotes; quote cells"),
        (read_csv, b'a,b\n1,"2\n3,4\n5,"6"\n', "CSV in the lines up to 4, read as one record: "),
        (read_csv, b'a,b\n1,"2\n\xff"\n', "column 2: expected UTF-8, got byte 0xff; save the"),
    ],
)
def test_errors_name_the_line_and_the_remedy(tmp_path, reader, content, message):
    with pytest.raises(InputError, match=rf"rows\.csv:2: .*{message}") as caught:
        list(reader(write(tmp_path, content), ("a",)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r\r\n"])
def test_line_ends(tmp_path, end):
    lines = [b"", b"a,b", b"1,2", b"", b"3,4"]
    for reader, between in ((read_csv, b","), (read_tsv, b"\t")):
        path = write(tmp_path, end.join(lines).replace(b",", between))
        rows = list(reader(path, ("a",)))
        assert [row.place for row in rows] == [f"{path}:3", f"{path}:5"]
        assert list(rows[0].fields) == ["a", "b"]


@pytest.mark.parametrize(
    ("reader", "between", "message"),
    [
        (read_csv, ";", 'separated by ";" (a;b); save it with a comma between its cells, or name '
         "it by --separator=';' (score) or a first line sep=;."),
        (read_csv, "|", 'separated by "|" (a|b); save it with a comma between its cells, or name '
         "it by --separator='|' (score) or a first line sep=|."),
        (read_csv, "\t", "separated by a tab ('a\\tb'); save it with a comma between its cells, or "
         "let its name end in .tsv."),
        (read_tsv, ",", 'separated by "," (a,b); save it with a tab between its cells, or let its '
         "name end in .csv."),
    ],
)  # fmt: skip
def test_another_separator_is_named(tmp_path, reader, between, message):
    path = write(tmp_path, f'a{between}b\n"1,2"{between}3\n')
    with pytest.raises(InputError) as caught:
        list(reader(path, (), BadRows(skip=True)))
    assert str(caught.value) == f"{path}:1: the file seems to be {message}"


def test_columns_are_there_once(tmp_path):
    with pytest.raises(InputError, match="column 'a' is there twice"):
        list(read_tsv(write(tmp_path, "a\tb\ta\n"), ("a",)))
    with pytest.raises(InputError, match=r"column 'label' is missing\. Did you mean 'lable'"):
        list(read_tsv(write(tmp_path, "lable\tx\n"), ("label",)))


def test_a_quote_that_is_never_closed(tmp_path):
    path = write(tmp_path, 'a,b\n1,2\n3,"4\n5,6\n')
    with pytest.raises(InputError, match=r"rows\.csv:3: a quote that is opened here is never"):
        list(read_csv(path, ("a",), BadRows(skip=True)))


def test_odd_column_names_stay_in_one_line(tmp_path):
    path = write(tmp_path, 'a,"b\rc"\n1\n')
    with pytest.raises(InputError, match=r"The columns are: a, 'b\\rc'\.") as caught:
        list(read_csv(path, ("x",)))
    assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(InputError, match=r"expected 2 columns \(a, 'b\\rc'\), got 1"):
        list(read_csv(path, ("a",)))


@pytest.mark.parametrize(("delimiter", "name"), [(";", "semicolon"), ("\t", "tab")])
def test_other_delimiters_than_commas(tmp_path, delimiter, name):
    path = write(tmp_path, f'a{delimiter}b\n"1{delimiter}"{delimiter}2,3\n1\n'.encode())
    rows = read_csv(path, ("a", "b"), delimiter=delimiter)
    assert next(rows).fields == {"a": f"1{delimiter}", "b": "2,3"}
    with pytest.raises(InputError, match=f"got 1; quote cells that hold a {name} or a line break"):
        next(rows)


def test_many_columns_are_read_in_no_time(tmp_path):
    """A check of each column against all others would take a minute."""
    path = tmp_path / "wide.csv"
    names = ["grounding", *(f"c{number}" for number in range(50_000))]
    path.write_text(",".join(names) + "\n" + "x," * 50_000 + "x\n")
    started = time.perf_counter()
    (row,) = read_csv(path, ("grounding",))
    assert len(row.fields) == 50_001
    assert time.perf_counter() - started < 10
