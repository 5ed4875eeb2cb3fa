"""Articles of an encyclopedia, and their readers; the format is found from the file.

- a MediaWiki XML dump, as `enwiki-latest-pages-articles.xml.bz2` (`mediawiki.py`);
- KILT's knowledge source: JSON lines with `wikipedia_title` and `text`, a list of paragraphs;
- JSON lines with `title` and `text` (paragraphs between blank lines, or a list of them), and
  `aliases` and `url` where they are known: exports of TFDS's and Hugging Face's `wikipedia`, or
  your own.

Each may be packed by gzip or bzip2. A folder is read file by file, in the order of their names.
"""

import itertools
import pathlib
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from faith_jax.core.errors import InputError
from faith_jax.core.rows import Row, open_text, read_jsonl
from faith_jax.core.schema import Text, convert_row
from faith_jax.core.templates import one_space
from faith_jax.core.words import split_sentences

WIKIPEDIA = "https://en.wikipedia.org/wiki/"
_BLANK_LINES = re.compile(r"\n\s*\n")
# What KILT's list of paragraphs has beside paragraphs: headings, and items of lists.
_KILT_MARKS = ("Section::::", "BULLET::::")
_DISAMBIGUATION = re.compile(r"\b(?:may|can|could)(?: also)? (?:refer|stand|mean)\b[^.]{0,40}:?$")


class Article(NamedTuple):
    """An article: its paragraphs without headings, lists and tables, and other names that it has.

    Attributes:
      title: as the encyclopedia writes it, "Queen (band)".
      paragraphs: with single spaces.
      aliases: other names.
      url: where it is.
      is_disambiguation: it only lists articles that share a name.
    """

    title: str
    paragraphs: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    url: str = ""
    is_disambiguation: bool = False

    @property
    def sentences(self) -> list[str]:
        """The sentences of the paragraphs, in order."""
        return [sentence for text in self.paragraphs for sentence in split_sentences(text)]


def lists_names(title: str, paragraphs: Sequence[str]) -> bool:
    """Returns whether an article only lists articles that share a name, by how it begins."""
    first = paragraphs[0] if paragraphs else ""
    return title.endswith("(disambiguation)") or bool(_DISAMBIGUATION.search(first))


class Redirect(NamedTuple):
    """A name that leads to an article, or to another such name."""

    name: str
    target: str


class _ArticleRow(msgspec.Struct):
    title: Text
    text: str | list[str]
    aliases: list[str] = []
    url: str = ""


class _Aliases(msgspec.Struct):
    alias: list[str] = []


class _WikidataInfo(msgspec.Struct):
    aliases: _Aliases | list[str] = []


class _KiltRow(msgspec.Struct):
    wikipedia_title: Text
    text: list[str]
    wikidata_info: _WikidataInfo = msgspec.field(default_factory=_WikidataInfo)


def wiki_url(title: str, base: str = WIKIPEDIA) -> str:
    """Returns the address of an article.

    >>> wiki_url("Queen (band)")
    'https://en.wikipedia.org/wiki/Queen_(band)'
    """
    return base + urllib.parse.quote(title.replace(" ", "_"), safe="/:,()'!*")


def source_files(source: pathlib.Path) -> list[pathlib.Path]:
    """Returns the file, or the files of the folder, that articles are read from.

    Raises:
      InputError: there is none.
    """
    if not source.exists():
        raise InputError(f"{source}: no such file or folder.")
    files = [source] if source.is_file() else sorted(p for p in source.iterdir() if p.is_file())
    if not files:
        raise InputError(f"{source}: the folder has no files; expected a dump or JSON lines.")
    return files


def read_file(
    path: pathlib.Path, first: int = 0, most: int | None = None, processes: int = 1
) -> Iterator[Article | Redirect]:
    """Yields the articles and redirects of a file.

    Args:
      path: of the file.
      first: the row or page to begin with, from 0.
      most: paragraphs of an article, from its beginning; None = all.
      processes: that turn wikitext into paragraphs.

    Raises:
      InputError: the file is missing, of no known format, damaged, or ends in the middle.
    """
    with open_text(path) as file:
        begin = file.read(4096).lstrip()[:1]
    if begin == b"<":
        from faith_jax.retrieval.mediawiki import read_dump

        return read_dump(path, first, most, processes)
    if begin == b"{":
        return articles_of(read_jsonl(path, first=first), most)
    raise InputError(
        f"{path}: expected a MediaWiki XML dump, or JSON lines with title and text; it is neither."
    )


def articles_of(rows: Iterable[Row], max_paragraphs: int | None = None) -> Iterator[Article]:
    """Yields the article of each row, KILT's or one with `title` and `text`.

    Raises:
      InputError: names the field that is missing or wrong.
    """
    for row in rows:
        if "wikipedia_title" in row.fields:
            kilt = convert_row(row.fields, row.place, _KiltRow)
            title, listed = one_space(kilt.wikipedia_title), kilt.wikidata_info.aliases
            names = listed.alias if isinstance(listed, _Aliases) else listed
            texts = [text for text in kilt.text if not text.startswith(_KILT_MARKS)]
            if texts and one_space(texts[0]) == title:
                del texts[0]
            url = wiki_url(title)
        else:
            plain = convert_row(row.fields, row.place, _ArticleRow)
            title, names, url = one_space(plain.title), plain.aliases, plain.url
            texts = _BLANK_LINES.split(plain.text) if isinstance(plain.text, str) else plain.text
        paragraphs = tuple(itertools.islice(filter(None, map(one_space, texts)), max_paragraphs))
        aliases = tuple(filter(None, map(one_space, names)))
        yield Article(title, paragraphs, aliases, url, lists_names(title, paragraphs))
