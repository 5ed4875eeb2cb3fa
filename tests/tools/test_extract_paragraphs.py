import json

import pytest

from tools import extract_paragraphs as tool

MARKDOWN = """---
title: Never shown, as it stands in the front matter of it.
---
# A heading of more than eight words that is left out.

The *lake* freezes in [winter](https://lakes.example), and boats
stay on the shore &amp; wait. {% include figure.html %}

    code = "this is no paragraph of running text at all."

* Ice fishing is popular with visitors who bring their own stoves.

Too short, this one.
"""
EXPECTED = [
    "The lake freezes in winter, and boats stay on the shore & wait.",
    "Ice fishing is popular with visitors who bring their own stoves.",
]


def test_markdown_text_and_json(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "b.md").write_text(MARKDOWN)
    (folder / "a.txt").write_text("Anna Berg, Carl Dahl, Eva Falk, Greta Holm and Ivar Jansson.\n")
    html = "<p>Each hut has a small stove and a bench.</p><p>Short.</p>"
    (folder / "c.json").write_text(json.dumps({"x": [{"text": html}, 3, EXPECTED[1]]}))
    output = tmp_path / "out.txt"
    monkeypatch.setattr("sys.argv", ["extract", str(folder), "--output", str(output)])
    assert tool.main() == 0
    assert output.read_text().splitlines() == [*EXPECTED, "Each hut has a small stove and a bench."]
    assert "3 paragraphs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "running"),
    [
        ("This is a whole sentence of eight words.", True),
        ("This is a whole sentence of eight words", False),
        ("Only six words are in it.", False),
        ("Use {{ this }} one in the place of that one.", False),
        ("Oslo, Bergen, Trondheim, Tromso, Bodo, Narvik, Alta and Hammerfest.", False),
    ],
)
def test_running_text(text, running):
    assert tool.is_running_text(text) == running
