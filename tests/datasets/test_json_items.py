import json
import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets import json_items
from faith_jax.datasets.json_items import read_array, read_arrays, read_object

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
VALUE = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.lists(TEXT)
ITEMS = st.lists(st.dictionaries(TEXT, VALUE, max_size=3), min_size=1, max_size=5)


def write(tmp_path, content):
    path = tmp_path / "items.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


@settings(deadline=None)
@given(ITEMS)
def test_whatever_json_writes_is_read_back(tmp_path_factory, items):
    path = write(tmp_path_factory.mktemp("json"), items)
    assert [row.fields for row in read_array(path)] == items
    path = write(path.parent, {"x": 1, "a": {"b": items}})
    assert [row.fields for row in read_array(path, "a.b")] == items


def test_places_name_the_item(tmp_path):
    path = write(tmp_path, b'\xef\xbb\xbf[{"a": 1}, {"a": 2.5}]')
    assert [row.place for row in read_array(path)] == [f"{path}: [0]", f"{path}: [1]"]
    assert [row.fields["a"] for row in read_array(path)] == [1, 2.5]


def test_objects_by_key(tmp_path):
    path = write(tmp_path, {"docs": {"one": {"t": "a"}, "two": {"t": "b"}}})
    items = [(key, row.fields["t"], row.place) for key, row in read_object(path, "docs")]
    assert items == [("one", "a", f'{path}: docs["one"]'), ("two", "b", f'{path}: docs["two"]')]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[{"a": 1}, {"a": ', "not valid JSON behind 1 whole items"),
        (b'[{"a": 1}] more', "not valid JSON behind 1 whole items"),
        (b'[{"a": "\xe9"}]', "not valid JSON behind 0 whole items"),
        (b'{"a": 1}', "expected an array of JSON objects, got an object"),
        (b"[]", "holds no items; expected an array of JSON objects"),
        ("[{}]".encode("utf-16"), "expected UTF-8, got UTF-16; save the file as UTF-8"),
        (b'[{"a": "x\ny"}]', r"\(Invalid control character at character 10\); get"),
        (b'[{"a": 1}, {"a": 1 "b": 2}]', r"behind 1 .*Expecting ',' delimiter at character 20\)"),
    ],
)
def test_files_that_are_no_array(tmp_path, content, message):
    with pytest.raises(InputError, match=message) as caught:
        list(read_array(write(tmp_path, content)))
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=message):
        list(read_array(tmp_path / "items.json", bad_rows=BadRows(skip=True)))


@pytest.mark.parametrize(
    ("read", "key", "content", "message"),
    [
        (read_array, "a.b", {"a": {"b": {"x": {"c": 1}}}}, "expected an array 'a.b' of JSON obj"),
        (read_array, "a.b", {"a": [{"b": [{}]}]}, "has no 'a.b'; expected an array 'a.b' of JSON"),
        (read_object, "", [{"a": {}}], "expected an object of JSON objects, got an array"),
        (read_object, "", b'{"a": {}, "b": {', "not valid JSON behind 1 whole items of the file"),
        (read_object, "docs", {"x": {"a": {}}}, "has no 'docs'; expected an object 'docs' of JSON"),
        (read_arrays, "data", {"data": {}}, "holds no items; expected an object 'data' of JSON"),
        (read_arrays, "data", {"x": {"a": [{}]}}, "has no 'data'; expected an object 'data'"),
    ],
)
def test_keys_without_items(tmp_path, read, key, content, message):
    with pytest.raises(InputError, match=rf"items\.json: {message}"):
        list(read(write(tmp_path, content), key))


@settings(deadline=None)
@given(ITEMS, st.data())
def test_a_truncated_file_names_how_many_items_came_whole(tmp_path_factory, items, data):
    pieces = [json.dumps(item) for item in items]
    whole = data.draw(st.integers(0, len(items) - 1))
    cut = data.draw(st.integers(0, len(pieces[whole]) - 1))
    content = "[" + "".join(piece + "," for piece in pieces[:whole]) + pieces[whole][:cut]
    path = write(tmp_path_factory.mktemp("json"), content.encode())
    items_read = []
    with pytest.raises(InputError, match=f"not valid JSON behind {whole} whole items"):
        items_read.extend(row.fields for row in read_array(path))


@settings(deadline=None)
@given(ITEMS, st.data())
def test_one_item_that_is_no_object_is_named_or_skipped(tmp_path_factory, items, data):
    position = data.draw(st.integers(0, len(items)))
    bad = data.draw(VALUE)
    path = write(tmp_path_factory.mktemp("json"), [*items[:position], bad, *items[position:]])
    with pytest.raises(InputError, match=rf": \[{position}\]: expected a JSON object"):
        list(read_array(path))
    bad_rows = BadRows(skip=True)
    assert [row.fields for row in read_array(path, bad_rows=bad_rows)] == items
    assert bad_rows.count == 1


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        list(read_array(tmp_path / "nothing.json"))
    with pytest.raises(InputError, match="got a folder"):
        list(read_object(tmp_path))


READ = """
import resource, sys
from faith_jax.datasets.json_items import read_array
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = sum(1 for _ in read_array(sys.argv[1], "data.items"))
print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = tmp_path / "items.json"
    item = json.dumps({"text": "x" * 1000})
    items = "[" + ",".join([item] * 8_000) + "]"
    path.write_text(f'{{"before": {items}, "data": {{"items": {items}}}}}', encoding="utf-8")
    assert path.stat().st_size > 16_000_000
    done = subprocess.run(
        [sys.executable, "-c", READ, path], capture_output=True, text=True, check=True
    )
    count, kilobytes = map(int, done.stdout.split())
    assert (count, kilobytes < 4_000) == (8_000, True)


def test_arrays_of_an_object(tmp_path):
    path = write(tmp_path, {"x": {"c": [{}]}, "data": {"a": [{"n": 1}], "b": [{"n": 2}, {"n": 3}]}})
    items = [(name, row.fields["n"], row.place) for name, row in read_arrays(path, "data")]
    assert items == [
        ("a", 1, f"{path}: data.a[0]"),
        ("b", 2, f"{path}: data.b[0]"),
        ("b", 3, f"{path}: data.b[1]"),
    ]


def test_what_is_nested_too_deeply(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text('{"x": ' + "[" * 100_000)
    with pytest.raises(InputError, match=r"deep\.json: not valid JSON: nested too deeply;"):
        list(read_array(path, "data"))
    nested = "[" * 1000 + "]" * 1000
    path.write_text(f'{{"x": {nested}, "data": [{{"a": "{"[" * 3000}"}}]}}')
    assert [row.fields for row in read_array(path, "data")] == [{"a": "[" * 3000}]
    path.write_text(f'[{{"a": {nested}}}, {{"a": [[1]]}}]')
    bad_rows = BadRows(skip=True)
    assert [row.fields for row in read_array(path, "", bad_rows)] == [{"a": [[1]]}]
    assert bad_rows.messages == [f"{path}: [0]: not valid JSON: nested too deeply."]


def test_items_are_read_as_lines_are(tmp_path):
    path = write(tmp_path, b'[{"a": NaN}, {"a": -Infinity, "b": 99999999999999999999, "c": 1e400}]')
    first, second = [row.fields for row in read_array(path)]
    assert math.isnan(first["a"])
    assert second == {"a": -math.inf, "b": 99999999999999999999, "c": math.inf}
    surrogate = rb'{"a": "\ud83d\ude00 \ud83d"}'
    write(tmp_path, b'[{"a": "\\ud83d\\ude00"}, ' + surrogate + b', {"a": ' + b"1" * 5000 + b"}]")
    bad_rows = BadRows(skip=True)
    assert [row.fields for row in read_array(path, "", bad_rows)] == [{"a": "\U0001f600"}]
    assert bad_rows.messages == [
        f"{path}: [1]: holds half of a surrogate pair, no character.",
        f"{path}: [2]: not valid JSON: a number of more than 4,300 digits.",
    ]


def test_names_that_are_there_twice(tmp_path):
    for content in ('{"d": {"a": {}, "b": {}, "a": {}}}', '{"d": {"b": {}}, "a": 1, "a": 2}'):
        path = write(tmp_path, content.encode())
        with pytest.raises(InputError, match=r'items\.json: the key "a" is there twice; rename or'):
            list(read_object(path, "d"))


@settings(deadline=None)
@given(ITEMS, st.integers(1, 9), st.sampled_from([None, 1, " "]))
def test_a_file_is_read_in_pieces(tmp_path_factory, items, size, indent):
    path = tmp_path_factory.mktemp("json") / "items.json"
    content = {"\u00e9\\": [{"\u00e9\\": items}, '"'], "a": {"\u00e9": items, "b": items}}
    path.write_text(json.dumps(content, indent=indent, ensure_ascii=False), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_items, "_PIECE_BYTES", size)
        assert [row.fields for row in read_array(path, "a.b")] == items
