import json
import math
import pathlib

import pytest

from faith_jax.report import page as page_module
from faith_jax.report.page import embedded_json, page_examples, write_page

EVIL = "</script><script>alert(1)</script>&amp;\u2028<img src=x onerror=alert(2)>"


def row(number, text="A response.", corpus="c", score=0.5):
    return {
        "id": str(number),
        "corpus": corpus,
        "label": None,
        "grounding": ["A grounding."],
        "perspectives": [],
        "history": [],
        "generated_text": text,
        "scores": {"s": score},
        "words": {"s": [[0, 1, 0.25 * number, None]]},
    }


def test_embedded_json_is_json():
    values = [{"text": EVIL, "number": 0.1, "none": None}]
    text = embedded_json(values)
    assert json.loads(text) == values
    assert not set("<>&\u2028\u2029") & set(text)
    with pytest.raises(ValueError, match="not JSON compliant"):
        embedded_json([math.nan])


def test_systems_are_corpora_with_the_same_inputs():
    rows = [row(0), row(1), row(0, corpus="d")]
    examples = page_examples(rows, ["s"])
    assert (examples.count, examples.corpora, examples.systems) == (3, ("c", "d"), True)
    assert [example["input"] for example in json.loads(examples.rows)] == [0, 1, 0]
    assert examples.ranges == {0: (0, 0.25)}
    assert not page_examples([row(0), row(1, corpus="d")], ["s"]).systems
    assert page_examples([], ["s"]).rows == "[]"


def written(folder, rows):
    page = folder / "page.html"
    write_page(page, lambda files: page_examples(rows, ["s"], files).folder)
    return page.read_text()


def test_many_rows_are_in_files_which_go_with_their_page(tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "_BLOCK", 2)
    monkeypatch.setattr(page_module, "MOST_BYTES", 500)
    rows = [row(number, EVIL) for number in range(5)]
    folder = tmp_path / written(tmp_path, rows)
    names = {"columns.js", "score-0.js", *(f"rows-{n}.js" for n in range(3))}
    assert {path.name for path in folder.iterdir()} == names
    lead, _, value = (folder / "rows-1.js").read_text(encoding="utf-8").partition(",")
    assert lead == 'loaded("rows-1"'
    assert [example["id"] for example in json.loads(value.removesuffix(")\n"))] == ["2", "3"]
    assert not any("<" in path.read_text(encoding="utf-8") for path in folder.iterdir())
    again = tmp_path / written(tmp_path, rows)
    assert (again, folder.exists()) == (folder, True)
    other_page = tmp_path / written(tmp_path, rows[:4])
    assert {path.name for path in tmp_path.iterdir()} == {"page.html", other_page.name}
    written(tmp_path, rows[:1])  # has no files
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_page_in_a_stream_has_all_rows(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(page_module, "MOST_BYTES", 10)
    monkeypatch.chdir(tmp_path)
    kept = tmp_path / f"-_rows_{'0' * 16}"
    kept.mkdir()
    write_page(pathlib.Path("-"), lambda files: page_examples([row(0)], ["s"], files).rows)
    assert [example["id"] for example in json.loads(capsys.readouterr().out)] == ["0"]
    assert list(tmp_path.iterdir()) == [kept]


def test_the_files_of_a_page_are_beside_what_its_link_leads_to(tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "MOST_BYTES", 10)
    far = tmp_path / "far"
    far.mkdir()
    (tmp_path / "page.html").symlink_to(far / "real.html")
    folder = written(tmp_path, [row(0)])
    assert folder.startswith("real_rows_")
    assert {path.name for path in far.iterdir()} == {"real.html", folder}
    assert {path.name for path in tmp_path.iterdir()} == {"far", "page.html"}


def test_an_error_leaves_the_former_page_and_its_files(tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "MOST_BYTES", 10)
    before = tmp_path / written(tmp_path, [row(0)])

    def broken():
        yield row(1)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        written(tmp_path, broken())

    def no_page(*_):
        raise OSError("full")

    monkeypatch.setattr(page_module, "write_text", no_page)
    with pytest.raises(OSError, match="full"):
        written(tmp_path, [row(2)])
    assert {path.name for path in tmp_path.iterdir()} == {"page.html", before.name}
    assert (tmp_path / "page.html").read_text() == before.name
