import bz2

import pytest

from faith_jax.core.errors import InputError
from faith_jax.retrieval import articles
from faith_jax.retrieval.articles import Article, Redirect, read_file, wikitext_paragraphs

PAGES = """
<page><title>Tea</title><ns>0</ns><revision><text>'''Tea''' is a [[leaf]].</text></revision></page>
<page><title>Talk:Tea</title><ns>1</ns><revision><text>Really?</text></revision></page>
<page><title>Chai</title><ns>0</ns><redirect title="Tea" /></page>
<page><title>Mint (a)</title><ns>0</ns><revision><text>A {{disambiguation}}</text></revision></page>
<page><title>Empty</title><ns>0</ns><revision><text /></revision></page>
"""
HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11">
<siteinfo><base>https://simple.wikipedia.org/wiki/Main_Page</base></siteinfo>"""
DUMP = f"{HEAD}{PAGES}</mediawiki>"
BASE = "https://simple.wikipedia.org/wiki/"
FOUND = [
    Article("Tea", ("Tea is a leaf.",), url=f"{BASE}Tea"),
    Redirect("Chai", "Tea"),
    Article("Mint (a)", ("A",), url=f"{BASE}Mint_(a)", is_disambiguation=True),
    Article("Empty", (), url=f"{BASE}Empty"),
]


@pytest.mark.parametrize("first", range(5))
def test_pages_of_the_main_namespace_from_any_on(tmp_path, first):
    (tmp_path / "dump.bz2").write_bytes(bz2.compress(DUMP.encode()))
    assert list(read_file(tmp_path / "dump.bz2", first)) == FOUND[first:]


def test_several_processes_keep_the_order(tmp_path, monkeypatch):
    monkeypatch.setattr(articles, "_BATCH", 4)
    (tmp_path / "dump.xml").write_text(DUMP.replace(PAGES, PAGES * 2))
    assert list(read_file(tmp_path / "dump.xml", processes=2)) == FOUND * 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (DUMP[:480], "dump.xml:6: the dump ends in the middle or is damaged"),
        (f"{HEAD}{PAGES}", "the dump ends in the middle or is damaged (no element found"),
        ("<html><p>No dump</p></html>", "expected a MediaWiki dump, got XML of <html>"),
    ],
)
def test_a_dump_that_is_cut_is_an_error(tmp_path, content, message):
    (tmp_path / "dump.xml").write_text(content)
    with pytest.raises(InputError) as caught:
        list(read_file(tmp_path / "dump.xml"))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("A ''b'' '''c'''.\nd\n\n\ne", ("A b c. d", "e")),
        ("[[Tea|Black tea]], [[tea]]s [[File:A|a [[b]]]] [[Category:C]]", ("Black tea, teas",)),
        ("Tea<ref name=a>x</ref><ref name=b /> is<!-- not --> hot&nbsp;.", ("Tea is hot .",)),
        ("{{Infobox|a=b\n|c={{d}}}}\nTea ({{IPA|x}}; born {{circa|1900}})", ("Tea (born 1900)",)),
        ("{{convert|5|km|mi}}, {{lang|fr|thé}} or {{lang-de|Tee}}.", ("5 km, thé or Tee.",)),
        ("{|\n| cell\n|}\n* item\n:''See [[x]]''\nText.\n__NOTOC__", ("Text.",)),
        ("a\n== History ==\nb\n=== Use ===\n* c\n", ("a", "b")),
        ("H<sub>2</sub>O [http://a.b site] [http://a.b]<br>x", ("H2O site x",)),
        ("", ()),
    ],
)  # fmt: skip
def test_paragraphs_of_wikitext(wikitext, expected):
    assert wikitext_paragraphs(wikitext) == expected


def test_what_stands_behind_the_first_paragraphs_is_not_parsed(monkeypatch):
    seen = []
    parse = articles._section_paragraphs
    monkeypatch.setattr(
        articles, "_section_paragraphs", lambda text: seen.append(text) or parse(text)
    )
    assert wikitext_paragraphs("a\n\nb\n== C ==\nd\n== E ==\nf", max_paragraphs=3) == (
        "a",
        "b",
        "d",
    )
    assert seen == ["a\n\nb\n", "\nd\n"]
