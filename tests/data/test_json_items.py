import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.data.json_items import read_array, read_object
from faith_jax.data.rows import BadRows
from faith_jax.errors import InputError

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
VALUE = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | TEXT | st.lists(TEXT)
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
    found = [(key, row.fields["t"], row.place) for key, row in read_object(path, "docs")]
    assert found == [
        ("one", "a", f'{path}: docs["one"]'),
        ("two", "b", f'{path}: docs["two"]'),
    ]


def test_items_that_are_no_objects(tmp_path):
    path = write(tmp_path, [{"a": 1}, 3, {"a": 2}])
    with pytest.raises(InputError, match=r"items\.json: \[1\]: expected a JSON object, got 3"):
        list(read_array(path))
    bad_rows = BadRows(skip=True)
    assert [row.fields["a"] for row in read_array(path, bad_rows=bad_rows)] == [1, 2]
    assert bad_rows.count == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[{"a": 1}, {"a": ', "not valid JSON behind 1 whole items"),
        (b'[{"a": 1}] more', "not valid JSON behind 1 whole items"),
        (b'[{"a": "\xe9"}]', "not valid JSON behind 0 whole items"),
        (b"", "not valid JSON behind 0 whole items"),
        (b'{"a": 1}', "holds no items; expected an array of JSON objects"),
        (b"[]", "holds no items"),
    ],
)
def test_files_that_are_no_array(tmp_path, content, message):
    with pytest.raises(InputError, match=message) as caught:
        list(read_array(write(tmp_path, content)))
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        list(read_array(tmp_path / "nothing.json"))
    with pytest.raises(InputError, match="got a folder"):
        list(read_object(tmp_path))
    with pytest.raises(InputError, match="expected an object 'docs' of JSON objects"):
        list(read_object(write(tmp_path, {"x": {"a": {}}}), "docs"))


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = tmp_path / "items.json"
    item = json.dumps({"text": "x" * 1000})
    with open(path, "w", encoding="utf-8") as file:
        file.write("[" + ",".join([item] * 5000) + "]")
    tracemalloc.start()
    assert sum(1 for _ in read_array(path)) == 5000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert path.stat().st_size > 5_000_000 > 5 * peak
