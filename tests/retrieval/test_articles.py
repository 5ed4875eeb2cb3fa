import bz2
import gzip
import json
import os

import pandas as pd
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
    (article,) = read_file(written(tmp_path / "kilt.json", KILT))
    url = "https://en.wikipedia.org/wiki/Tea_(drink)"
    assert article == Article("Tea (drink)", ("Tea is a leaf.", "It is."), ("Chai",), url)


def test_only_the_first_paragraphs_are_taken(tmp_path):
    (article,) = read_file(written(tmp_path / "rows.jsonl", OURS), max_paragraphs=1)
    assert article.paragraphs == ("Tea is a leaf.",)
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
    (article,) = read_file(written(tmp_path / "rows.jsonl", {"title": title, "text": text}))
    assert article.is_disambiguation is is_list


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


@pytest.mark.parametrize("name", ["kb.json", "kb", "kb.csv", "kb.tsv", "kb.parquet"])
def test_tables_of_articles_are_read(tmp_path, name):
    path, frame = (
        tmp_path / name,
        pd.DataFrame({"title": ["Ink", "Tea"], "text": ["A", "A drink."]}),
    )
    if path.suffix in (".csv", ".tsv"):
        frame.to_csv(path, index=False, sep={".csv": ",", ".tsv": "\t"}[path.suffix])
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records")
    assert [(a.title, a.paragraphs) for a in read_file(path, first=1)] == [("Tea", ("A drink.",))]


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is a pipe or a device"):
        source_files(tmp_path / "pipe")
