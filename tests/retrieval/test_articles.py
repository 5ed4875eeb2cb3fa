import bz2
import gzip
import json
import os
import subprocess
import sys

import pytest

from faith_jax.core.errors import InputError
from faith_jax.retrieval.articles import Article, read_file, source_files

TEA = Article("Tea", ("Tea is a leaf.", "It is hot."), ("Chai",), "https://example.org/tea")
OURS = {
    "title": " Tea",
    "text": "Tea is\na leaf.\n \n\nIt is hot.\n",
    "aliases": ["Chai", " "],
    "url": "https://example.org/tea",
}
KILT = {
    "wikipedia_title": "Tea (drink)",
    "text": [
        "Tea (drink)\n",
        "Tea is a leaf.\n",
        "Section::::Use.\n",
        "BULLET::::- hot\n",
        "It is.",
    ],
    "wikidata_info": {"aliases": {"alias": ["Chai"]}, "wikidata_id": "Q6097"},
    "anchors": [{"href": "Leaf"}],
}


def written(path, *rows, pack=bytes):
    path.write_bytes(pack("".join(json.dumps(row) + "\n" for row in rows).encode()))
    return path


# Without the time, by which tests that run in parallel would have other names.
PACKED = gzip.compress(b'{"title": "a", "text": "a"}\n' * 99, mtime=0)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
def test_rows_of_title_and_text(tmp_path, pack):
    listed = OURS | {"text": ["Tea is a leaf.", "", "It is hot."]}
    path = written(tmp_path / "rows", OURS, listed, {"title": "Ö (a)", "text": ""}, pack=pack)
    assert list(read_file(path)) == [TEA, TEA, Article("Ö (a)", ())]


def test_rows_of_kilt_lose_headings_and_items_of_lists(tmp_path):
    (found,) = read_file(written(tmp_path / "kilt.json", KILT))
    url = "https://en.wikipedia.org/wiki/Tea_(drink)"
    assert found == Article("Tea (drink)", ("Tea is a leaf.", "It is."), ("Chai",), url)


def test_only_the_first_paragraphs_are_taken(tmp_path):
    (found,) = read_file(written(tmp_path / "rows.jsonl", OURS), max_paragraphs=1)
    assert found.paragraphs == ("Tea is a leaf.",)
    assert TEA.sentences == ["Tea is a leaf.", "It is hot."]


@pytest.mark.parametrize(
    ("title", "text", "is_list"),
    [
        ("Mercury", "Mercury may refer to:", True),
        ("Mercury", "Mercury can also refer to", True),
        ("Mercury (disambiguation)", "Mercury is:", True),
        ("Mercury", "Mercury may refer to the past. It is a planet.", False),
    ],
)
def test_articles_that_only_list_a_name_are_marked(tmp_path, title, text, is_list):
    (found,) = read_file(written(tmp_path / "rows.jsonl", {"title": title, "text": text}))
    assert found.is_disambiguation is is_list


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"title": "Tea"}\n', "rows:1: field 'text' is missing."),
        (b'{"title": "Tea", "text": "a"}\n{"title": "Mi', "rows:2: not valid JSON"),
        (b"title,text\n", "rows: expected a MediaWiki XML dump, or JSON lines"),
        (PACKED[:-20], "rows: ends in the middle"),
        (PACKED[:10] + b"damaged!", "rows: is damaged"),
    ],
)
def test_bad_files_are_one_clear_error(tmp_path, content, message):
    (tmp_path / "rows").write_bytes(content)
    with pytest.raises(InputError) as caught:
        list(read_file(tmp_path / "rows"))
    assert message in str(caught.value)


def test_a_folder_is_its_files_in_order(tmp_path):
    for name in ("b.jsonl", "a.jsonl"):
        (tmp_path / name).touch()
    assert [path.name for path in source_files(tmp_path)] == ["a.jsonl", "b.jsonl"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no files"):
        source_files(tmp_path / "empty")
    with pytest.raises(InputError, match="no such file or folder"):
        source_files(tmp_path / "none")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("kb.json", json.dumps([{"title": "Tea", "text": "A drink."}]), "it is one JSON array"),
        ("kb.csv", "title,text\nTea,A drink.\n", r"it is a table \(\.csv\)"),
    ],
)
def test_other_formats_come_with_a_command_that_makes_lines(tmp_path, name, content, problem):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(
        InputError, match=rf"JSON lines .*; {problem}; make lines of it: "
    ) as caught:
        list(read_file(path))
    command = str(caught.value).partition("make lines of it: ")[2].removesuffix(".")
    subprocess.run(command.replace("python", sys.executable, 1), shell=True, check=True)
    (found,) = read_file(tmp_path / "kb.jsonl")
    assert (found.title, found.paragraphs) == ("Tea", ("A drink.",))


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is a pipe or a device"):
        source_files(tmp_path / "pipe")
