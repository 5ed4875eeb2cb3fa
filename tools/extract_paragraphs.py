"""Extracts paragraphs of running English from folders of documents, for tools/make_mini_corpus.py.

    python tools/extract_paragraphs.py FOLDER... --output paragraphs.txt

Reads each folder's Markdown (.md), plain text (.txt; a line is a paragraph) and JSON files (.json;
every string in it). Removes front matter, headings, code, tables, templates and HTML tags. Writes a
UTF-8 file with one paragraph per line: those of 8 words or more, most of them in lower case, with a
sentence end, each once.

The same files give the same bytes.
"""

import argparse
import html
import itertools
import json
import pathlib
import re
import sys
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

MIN_WORDS = 8
MIN_LOWER_CASE = 0.6  # share of lower-case words; a list of names has fewer
_FRONT_MATTER = re.compile(r"\A---\s*\n.*?\n---\s*\n", re.DOTALL)
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{:.*?\}|\[\^[^\]]*\]:?", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_URL = re.compile(r"(?:https?://|www\.)\S+|\S+@\S+\.\S+")
_SENTENCE_END = re.compile(r"[.!?][\"\u201d\u2019)]*$")


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description="Extract paragraphs of running English from folders of documents.",
        epilog="example: python tools/extract_paragraphs.py handbook/pages --output handbook.txt",
    )
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--output", required=True, type=pathlib.Path, metavar="FILE")
    arguments = parser.parse_args()
    missing = [str(folder) for folder in arguments.folders if not folder.is_dir()]
    if missing:
        parser.error(f"no such folder: {', '.join(missing)}")
    paragraphs = dict.fromkeys(
        paragraph
        for folder in arguments.folders
        for document in documents_of(folder)
        for paragraph in document
        if is_running_text(paragraph)
    )
    if not paragraphs:
        parser.error("no paragraph of running text in these folders' .md, .txt and .json files")
    arguments.output.write_text(
        "".join(f"{paragraph}\n" for paragraph in paragraphs), encoding="utf-8"
    )
    words = sum(len(paragraph.split()) for paragraph in paragraphs)
    print(f"{arguments.output}: {len(paragraphs):,} paragraphs, {words:,} words")
    return 0


def documents_of(folder: pathlib.Path) -> Iterator[Iterator[str]]:
    """Yields the paragraphs of each of a folder's files, in the order of their paths."""
    for path in sorted(folder.rglob("*")):
        if path.suffix not in {".md", ".txt", ".json"} or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".md":
            yield markdown_paragraphs(text)
        elif path.suffix == ".txt":
            yield (plain(line) for line in text.splitlines())
        else:
            yield (plain(part) for part in strings_of(json.loads(text)))


def markdown_paragraphs(text: str) -> Iterator[str]:
    """Yields a Markdown document's paragraphs and list items without their mark-up."""
    body = _TEMPLATE.sub("", _FRONT_MATTER.sub("", text))
    tokens = MarkdownIt().parse(body)
    for before, token in itertools.pairwise(tokens):
        if before.type == "paragraph_open" and token.type == "inline":
            yield plain("".join(_inline_text(token)))


def _inline_text(token: Token) -> Iterator[str]:
    for child in token.children or ():
        if child.type in {"text", "code_inline"}:
            yield child.content
        elif child.type in {"softbreak", "hardbreak"}:
            yield " "


def strings_of(value: object) -> Iterator[str]:
    """Yields every string inside a JSON value, split at line breaks and HTML paragraphs."""
    if isinstance(value, str):
        yield from re.split(r"\n+|<br\s*/?>|</?p>", value)
    elif isinstance(value, dict):
        for part in value.values():
            yield from strings_of(part)
    elif isinstance(value, list):
        for part in value:
            yield from strings_of(part)


def plain(text: str) -> str:
    """Removes tags and addresses, resolves HTML entities, and reduces white space to one space."""
    return " ".join(html.unescape(_URL.sub("", _TAG.sub("", text))).split())


def is_running_text(paragraph: str) -> bool:
    """Whether a paragraph has enough words, most in lower case, and ends like a sentence."""
    words = paragraph.split()
    if len(words) < MIN_WORDS or not _SENTENCE_END.search(paragraph):
        return False
    if set(paragraph) & set("{}|�"):
        return False
    return sum(word[0].islower() for word in words) / len(words) >= MIN_LOWER_CASE


if __name__ == "__main__":
    sys.exit(main())
