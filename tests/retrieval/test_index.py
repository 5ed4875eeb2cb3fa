import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from faith_jax.core.errors import ConfigError, InputError, StorageError
from faith_jax.retrieval import index
from faith_jax.retrieval.articles import Article, Redirect
from faith_jax.retrieval.knowledge_base import DATABASE, KnowledgeBase
from tests.paths import REPOSITORY
from tests.retrieval.encyclopedia import ROWS, built, titles, write_rows


def made_of(folder, *records, **options):
    """Returns the knowledge base of records."""

    def source(file, first):
        for place, record in enumerate(records[first:], first + 1):
            yield file, place, record

    arguments = {"source": "records", "stamped": [], "paragraphs": 0, "restart": False} | options
    return index.build_from(source, folder=str(folder / "base"), **arguments)


def contents(base):
    """Returns the whole content of a knowledge base."""
    database = sqlite3.connect(base.folder / DATABASE)
    tables = ("articles", "names", "terms")
    return [database.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in tables]


def test_what_is_left_out_is_counted(tmp_path):
    twice, blank = {"title": "Beech", "text": "Other."}, {"title": "Blank", "text": " "}
    base = built(tmp_path, [*ROWS, twice, blank])
    assert base.manifest.left_out == {index.LISTS: 1, index.REPEATED: 1, index.EMPTY: 1}
    assert (base.manifest.articles, base.manifest.names) == (6, 10)
    assert base.article(2).paragraphs == (
        "Beech is a tree with smooth bark. It drops its leaves in autumn.",
    )


def test_redirects_are_names_whatever_their_order_and_length(tmp_path):
    chain = [Redirect(f"R{n}", f"R{n + 1}") for n in range(5)]
    base = made_of(
        tmp_path,
        *chain,
        Redirect("R5", "Tea"),
        Article("Tea", ("Tea is a leaf.",)),
        Redirect("tea", "Tea"),
        Redirect("Loop", "Pool"),
        Redirect("Pool", "Loop"),
        Redirect("Self", "Self"),
        Redirect("Gone", "No article"),
    )
    assert [base.find_by_name(f"r{n}") for n in range(6)] == [[1]] * 6
    assert [base.find_by_name(name) for name in ("Loop", "Self", "Gone")] == [[], [], []]
    assert base.manifest.left_out == {index.ASTRAY: 4}


def test_the_first_paragraphs_are_kept(tmp_path):
    assert built(tmp_path, paragraphs=1).search("cogs", 3) == []
    (tmp_path / "all").mkdir()
    assert built(tmp_path / "all", paragraphs=0).search("cogs", 3) == [1]


@pytest.mark.parametrize(("most", "paragraphs"), [(0, 3), (2, 2)])
def test_passages_in_a_row_are_one_article(tmp_path, monkeypatch, most, paragraphs):
    """DPR's psgs_w100.tsv has passages of 100 words, many with the same title."""
    monkeypatch.setattr(index, "_BATCH", 2)
    texts = ("Tea is a leaf.", "Tea is dried.", "Tea is poured on leaves.")
    beech = Article("Beech", ("Beech is a tree.",))
    passages = [Article("Tea", (text,)) for text in texts]
    (tmp_path / "whole").mkdir()
    whole = made_of(tmp_path / "whole", Article("Tea", texts[:paragraphs]), beech)
    base = made_of(tmp_path, *passages, passages[2], beech, passages[0], paragraphs=most)
    assert contents(base) == contents(whole)
    assert base.manifest.left_out == {index.REPEATED: 1}  # not in a row with the others
    for word in ("dried", "poured", "leaf"):
        assert base.search(word, 3) == whole.search(word, 3)


class Killed(BaseException):
    """Stands in for a kill in tests: nothing catches it."""


@pytest.mark.parametrize("after", [0, 2])
def test_a_killed_run_resumes_without_loss(tmp_path, monkeypatch, after):
    monkeypatch.setattr(index, "_BATCH", 2)
    (tmp_path / "whole").mkdir()
    whole = built(tmp_path / "whole")
    source, base = write_rows(tmp_path / "articles.jsonl"), tmp_path / "base"
    read, begun = index.read_file, []

    def dies(path, first, *rest):
        begun.append(first)
        yield from itertools.islice(read(path, first, *rest), 2 * after)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(index, "read_file", dies)
        with pytest.raises(Killed):
            index.build(str(source), str(base))
    assert not base.exists()
    if after:
        with pytest.raises(ConfigError, match="half built; give its `faith-jax index` again"):
            KnowledgeBase.open(base)
    with monkeypatch.context() as patched:
        patched.setattr(index, "read_file", lambda *a: begun.append(a[1]) or read(*a))
        resumed = index.build(str(source), str(base))
    assert begun == [0, 2 * after]
    assert contents(resumed) == contents(whole)
    assert resumed.manifest.left_out == whole.manifest.left_out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["articles.jsonl", "base", "whole"]


def test_a_run_killed_at_the_end_resumes(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(index, "move_output", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            built(tmp_path)
    base = index.build(str(tmp_path / "articles.jsonl"), str(tmp_path / "base"))
    assert titles(base, base.search("leaves in winter", 1)) == ["Hornbeam"]
    assert base.manifest.names == 10


def test_a_process_that_is_killed_in_a_transaction_resumes(tmp_path):
    rows = [{"title": f"Tea {n}", "text": f"Tea number {n} is green."} for n in range(300)]
    write_rows(tmp_path / "articles.jsonl", rows)
    code = f"""
import os, signal
from faith_jax.retrieval import index
index._BATCH, add, seen = 100, index._add_article, []
def dies(*given):
    seen.append(given)
    if len(seen) == 250:
        os.kill(os.getpid(), signal.SIGKILL)
    return add(*given)
index._add_article = dies
index.build({str(tmp_path / "articles.jsonl")!r}, {str(tmp_path / "base")!r})
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    partial = sqlite3.connect(tmp_path / "base.partial" / "made" / DATABASE)
    assert partial.execute("SELECT record FROM place").fetchone() == (200,)
    partial.close()
    base = index.build(str(tmp_path / "articles.jsonl"), str(tmp_path / "base"))
    assert titles(base, range(1, 301)) == [row["title"] for row in rows]
    assert len(base.search("green", 400)) == 300


def test_a_full_disk_is_said_and_the_run_resumes(tmp_path, monkeypatch):
    rows = [{"title": f"Tea {n}", "text": f"Tea number {n} is green. " * 20} for n in range(300)]
    source = str(write_rows(tmp_path / "articles.jsonl", rows))
    monkeypatch.setattr(index, "_BATCH", 50)
    with monkeypatch.context() as patched:
        patched.setattr(index, "_SCHEMA", f"PRAGMA max_page_count = 60; {index._SCHEMA}")
        with pytest.raises(StorageError, match=r"base: database or disk is full\."):
            index.build(source, tmp_path / "base")
    assert not (tmp_path / "base").exists()
    assert len(index.build(source, tmp_path / "base").search("green", 400)) == 300


def test_another_source_does_not_resume(tmp_path, monkeypatch):
    write_rows(tmp_path / "articles.jsonl", [*ROWS, {"title": "Bad"}])
    monkeypatch.setattr(index, "_BATCH", 2)
    with pytest.raises(InputError, match=r"articles\.jsonl:8: field 'text' is missing"):
        index.build(str(tmp_path / "articles.jsonl"), str(tmp_path / "base"))
    with pytest.raises(ConfigError, match=r"another run \(another value of source.*--restart"):
        built(tmp_path)
    assert len(built(tmp_path, restart=True)) == 6
    with pytest.raises(ConfigError, match="exists already"):
        built(tmp_path)


@pytest.mark.parametrize("rows", [[], [{"title": "A", "text": ""}]])
def test_a_source_without_articles_leaves_nothing(tmp_path, rows):
    with pytest.raises(InputError, match="no article with text"):
        built(tmp_path, rows)
    left = {path.name for path in tmp_path.iterdir()} - {"articles.jsonl"}
    assert left == set()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda base: (base / "manifest.json").unlink(), "no knowledge base"),
        (lambda base: (base / "manifest.json").write_text("{"), "not valid JSON"),
        (lambda base: changed(base, version=2), "of version 2, expected 1; make it anew"),
        (lambda base: os.truncate(base / DATABASE, 5000), "bytes, got 5,000; copy the folder"),
        (lambda base: (base / DATABASE).unlink(), "bytes, got 0; copy the folder"),
    ],
)
def test_a_knowledge_base_that_is_not_whole_is_refused(tmp_path, spoil, message):
    spoil(built(tmp_path).folder)
    with pytest.raises(ConfigError, match=message):
        KnowledgeBase.open(tmp_path / "base")


def changed(base, **values):
    manifest = json.loads((base / "manifest.json").read_text())
    (base / "manifest.json").write_text(json.dumps(manifest | values))
