import importlib.util
import json

import pytest

from tests.paths import REPOSITORY

_SPEC = importlib.util.spec_from_file_location(
    "extract_paragraphs", REPOSITORY / "tools" / "extract_paragraphs.py"
)
tool = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(tool)

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
    said = "<p>Each hut has a small stove and a bench.</p><p>Short.</p>"
    (folder / "c.json").write_text(json.dumps({"x": [{"text": said}, 3, EXPECTED[1]]}))
    output = tmp_path / "out.txt"
    monkeypatch.setattr("sys.argv", ["extract", str(folder), "--output", str(output)])
    assert tool.main() == 0
    assert output.read_text().splitlines() == [
        *EXPECTED,
        "Each hut has a small stove and a bench.",
    ]
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


def test_nothing_found_and_no_folder(tmp_path, monkeypatch, capsys):
    for folder, message in ((tmp_path, "no paragraph"), (tmp_path / "no", "no such folder")):
        monkeypatch.setattr("sys.argv", ["extract", str(folder), "--output", str(tmp_path / "o")])
        with pytest.raises(SystemExit):
            tool.main()
        assert message in capsys.readouterr().err
    assert not (tmp_path / "o").exists()
