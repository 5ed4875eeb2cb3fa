"""Articles of an encyclopedia, and readers of several formats, which are detected from the file.

- a MediaWiki XML dump, such as `enwiki-latest-pages-articles.xml.bz2`. Only pages in namespace 0
  are articles, not talk, templates or files. Only the sentences of wikitext are kept: tables,
  lists, headings, references, pictures and categories are dropped, and so are templates, except for
  a few that occur in the middle of sentences;
- KILT's knowledge source: JSON lines with `wikipedia_title` and `text`, a list of paragraphs;
- JSON lines with `title` and `text` (a list of paragraphs, or a text with blank lines between
  them), and optionally `aliases` and `url`: exports of TFDS's and Hugging Face's `wikipedia`, or
  your own;
- tables with these columns: a JSON array, CSV, TSV, Parquet or Arrow.

Files may be packed with gzip or bzip2. A folder is read file by file, in the order of names.
"""

import concurrent.futures
import contextlib
import functools
import itertools
import multiprocessing
import pathlib
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

import msgspec

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.rows import Row, open_text, read_jsonl
from faith_jax.core.schema import Text, convert_row
from faith_jax.core.templates import one_space
from faith_jax.core.words import split_sentences
from faith_jax.datasets.tables import named_form, read_rows

_BATCH = 1000  # pages of a dump that are parsed at once
WIKIPEDIA = "https://en.wikipedia.org/wiki/"
_BLANK_LINES = re.compile(r"\n\s*\n")
# In KILT's list of paragraphs, the marks of headings and list items.
_KILT_MARKS = ("Section::::", "BULLET::::")
_HEADING = re.compile(r"^=+.+=+[ \t]*$", re.MULTILINE)
_NO_LINK = re.compile(r"\s*(?:file|image|category|media)\s*:", re.IGNORECASE)
_MAGIC_WORD = re.compile(r"__[A-Z]+__")
_LIST_ITEM = "\0"
_LIST_MARKS = ("*", "#", ":", ";")
_DROPPED_TAGS = frozenset(
    {"ref", "table", "gallery", "timeline", "score", "math", "div", "references"}
)
_LIST_TEMPLATE = re.compile(r"\{\{\s*(?:[\w ]*disambig\w*|dab|hndis|geodis)\s*[|}]", re.IGNORECASE)
# Templates with text, and the positions of the parameters that contain it; 0 = the first.
_TEMPLATES = {
    "convert": (0, 1), "cvt": (0, 1), "lang": (1,), "transl": (-1,), "transliteration": (-1,),
    "nowrap": (0,), "nobr": (0,), "nihongo": (0,), "abbr": (0,), "circa": (0,), "ship": (0, 1),
}  # fmt: skip
# What a dropped template leaves in parentheses: "( ; )", "(; born 1931)".
_EMPTY_PARENTHESES = re.compile(r"\s?\((?:\s|[,;:])*\)")
_OPENING = re.compile(r"\((?:\s|[,;:])+")
_DISAMBIGUATION = re.compile(r"\b(?:may|can|could)(?: also)? (?:refer|stand|mean)\b[^.]{0,40}:?$")


class Article(NamedTuple):
    """An article: its paragraphs without headings, lists and tables, and its names.

    Attributes:
      title: the encyclopedia's title, such as "Queen (band)".
      paragraphs: the paragraphs, with single spaces.
      aliases: other names.
      url: web address of the article.
      is_disambiguation: whether the article only lists articles that share a name.
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


def _lists_names(title: str, paragraphs: Sequence[str]) -> bool:
    """Returns whether an article only lists articles of one name, judged by title and beginning."""
    first = paragraphs[0] if paragraphs else ""
    return title.endswith("(disambiguation)") or bool(_DISAMBIGUATION.search(first))


class Redirect(NamedTuple):
    """A name that redirects to an article or to another redirect."""

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


def _wiki_url(title: str, base: str = WIKIPEDIA) -> str:
    """Returns the web address of an article.

    >>> _wiki_url("Queen (band)")
    'https://en.wikipedia.org/wiki/Queen_(band)'
    """
    return base + urllib.parse.quote(title.replace(" ", "_"), safe="/:,()'!*")


def source_files(source: pathlib.Path) -> list[pathlib.Path]:
    """Returns the file, or the files of the folder, from which articles are read.

    Raises:
      InputError: if there is no such file or folder, it cannot be read twice, or it is empty.
    """
    if not source.exists():
        raise InputError(f"{source}: no such file or folder.")
    if not source.is_dir() and not source.is_file():
        raise InputError(
            f"{source}: is a pipe or a device, which cannot be read twice; write it to a file."
        )
    files = [source] if source.is_file() else sorted(p for p in source.iterdir() if p.is_file())
    if not files:
        raise InputError(f"{source}: the folder has no files; expected a dump or JSON lines.")
    return files


def read_file(
    path: pathlib.Path, first: int = 0, max_paragraphs: int | None = None, processes: int = 1
) -> Iterator[Article | Redirect]:
    """Yields the articles and redirects of a file.

    Args:
      path: the file.
      first: the row or page to begin with, from 0.
      max_paragraphs: number of an article's first paragraphs to keep; None = all.
      processes: number of processes that parse wikitext.

    Raises:
      InputError: if the file is missing, has an unknown format, is damaged or incomplete.
    """
    with open_text(path) as file:
        begin = file.read(4096).lstrip()[:1]
    if begin == b"<":
        return _read_dump(path, first, max_paragraphs, processes)
    if begin == b"{":
        return articles_of(read_jsonl(path, first=first), max_paragraphs)
    if form := named_form(path) or ("json" if begin == b"[" else ""):
        return articles_of(read_rows(path, form, first=first), max_paragraphs)
    raise InputError(
        f"{path}: expected a MediaWiki XML dump, or JSON lines or a table with title and text; it "
        "is neither."
    )


def articles_of(rows: Iterable[Row], max_paragraphs: int | None = None) -> Iterator[Article]:
    """Yields the article of each row of KILT, or with `title` and `text`.

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
            url = _wiki_url(title)
        else:
            plain = convert_row(row.fields, row.place, _ArticleRow)
            title, names, url = one_space(plain.title), plain.aliases, plain.url
            texts = _BLANK_LINES.split(plain.text) if isinstance(plain.text, str) else plain.text
        paragraphs = tuple(itertools.islice(filter(None, map(one_space, texts)), max_paragraphs))
        aliases = tuple(filter(None, map(one_space, names)))
        yield Article(title, paragraphs, aliases, url, _lists_names(title, paragraphs))


class _Page(NamedTuple):
    title: str
    wikitext: str
    base: str


def _read_dump(
    path: pathlib.Path, first: int, max_paragraphs: int | None, processes: int
) -> Iterator[Article | Redirect]:
    """Yields the articles and redirects of a dump, beginning with page `first` of namespace 0.

    Raises:
      ConfigError: if mwparserfromhell is not installed.
      InputError: if the file is incomplete or not a dump.
    """
    try:
        import mwparserfromhell  # noqa: F401
    except ImportError:
        raise ConfigError(
            f"{path}: a MediaWiki dump is read with mwparserfromhell; install the extra: pip "
            "install 'faith_jax[wikipedia]', or '.[wikipedia]' in a clone."
        ) from None
    pages = itertools.islice(_read_pages(path), first, None)
    parse_page = functools.partial(wikitext_paragraphs, max_paragraphs=max_paragraphs)
    with _open_parser(parse_page, processes) as parse:
        while batch := list(itertools.islice(pages, _BATCH)):
            parsed = iter(parse([page.wikitext for page in batch if isinstance(page, _Page)]))
            for page in batch:
                if isinstance(page, Redirect):
                    yield page
                    continue
                texts, has_mark = next(parsed), bool(_LIST_TEMPLATE.search(page.wikitext))
                is_list = has_mark or _lists_names(page.title, texts)
                yield Article(page.title, texts, (), _wiki_url(page.title, page.base), is_list)


def _read_pages(path: pathlib.Path) -> Iterator[_Page | Redirect]:
    """Yields the pages of namespace 0, with only one page in memory at a time."""
    base = WIKIPEDIA
    with open_text(path) as file:
        events = ElementTree.iterparse(file, events=("start", "end"))
        try:
            _, root = next(events)
            space, name = re.fullmatch(r"(\{.*\})?(.*)", root.tag).groups("")  # type: ignore[union-attr]
            if name != "mediawiki":
                raise InputError(f"{path}: expected a MediaWiki dump, got XML of <{name}>.")
            for event, element in events:
                if event == "start":
                    continue
                if element.tag == f"{space}base":
                    base = f"{(element.text or base).rpartition('/')[0]}/"
                if element.tag != f"{space}page":
                    continue
                title, target = (
                    element.findtext(f"{space}title", ""),
                    element.find(f"{space}redirect"),
                )
                if element.findtext(f"{space}ns", "0") == "0":
                    if target is not None:
                        yield Redirect(title, target.get("title", ""))
                    else:
                        text = element.findtext(f"{space}revision/{space}text", "")
                        yield _Page(title, text, base)
                root.clear()
        except ElementTree.ParseError as error:
            line = error.position[0]
            raise InputError(
                f"{path}:{line}: the dump ends in the middle or is damaged ({error}); get it again."
            ) from None


@contextlib.contextmanager
def _open_parser(
    parse: Callable[[str], tuple[str, ...]], processes: int
) -> Iterator[Callable[[Sequence[str]], Iterable[tuple[str, ...]]]]:
    """Yields a function that parses texts, in several processes if there are many texts."""
    with contextlib.ExitStack() as held:
        pool: concurrent.futures.ProcessPoolExecutor | None = None

        def parse_all(texts: Sequence[str]) -> Iterable[tuple[str, ...]]:
            nonlocal pool
            if processes == 1 or (pool is None and len(texts) < _BATCH // 2):
                return map(parse, texts)
            if pool is None:  # spawned, not forked, because this process may have threads
                context = multiprocessing.get_context("spawn")
                executor = concurrent.futures.ProcessPoolExecutor(processes, context)
                pool = held.enter_context(executor)
            return pool.map(parse, texts, chunksize=20)

        yield parse_all


def wikitext_paragraphs(wikitext: str, max_paragraphs: int | None = None) -> tuple[str, ...]:
    r"""Returns the first paragraphs of a wikitext; sections after the last one are not parsed.

    >>> wikitext_paragraphs("Tea is a [[drink]] ({{IPA|x}}).<ref>Lee</ref>\n== Use ==\n* hot\n")
    ('Tea is a drink.',)
    """
    texts: list[str] = []
    for section in _HEADING.split(wikitext):
        texts += _section_paragraphs(section)
        if max_paragraphs is not None and len(texts) >= max_paragraphs:
            break
    return tuple(texts[:max_paragraphs])


def _section_paragraphs(wikitext: str) -> Iterator[str]:
    import mwparserfromhell

    for block in _BLANK_LINES.split(_extract_text(mwparserfromhell.parse(wikitext))):
        lines = (line for line in block.split("\n") if not line.lstrip().startswith(_LIST_ITEM))
        text = _EMPTY_PARENTHESES.sub("", _MAGIC_WORD.sub("", " ".join(lines)))
        if text := one_space(_OPENING.sub("(", text).replace(_LIST_ITEM, "")):
            yield text


def _extract_text(code: Any) -> str:
    """Returns the text of parsed wikitext."""
    return "".join(map(_node_text, code.nodes)) if code else ""


def _node_text(node: Any) -> str:
    from mwparserfromhell import nodes

    match node:
        case nodes.Text():
            return str(node.value)
        case nodes.Wikilink():
            return "" if _NO_LINK.match(str(node.title)) else _extract_text(node.text or node.title)
        case nodes.ExternalLink():
            return _extract_text(node.title)
        case nodes.HTMLEntity():
            return node.normalize()
        case nodes.Heading():
            return "\n\n"
        case nodes.Template():
            name = str(node.name).strip().lower()
            places = (0,) if name.startswith("lang-") else _TEMPLATES.get(name, ())
            values = [parameter.value for parameter in node.params if not parameter.showkey]
            shown_values = (values[p] for p in places if p < len(values) and values)
            return " ".join(_extract_text(value).strip() for value in shown_values)
        case nodes.Tag():
            name = str(node.tag).strip().lower()
            if node.wiki_markup in _LIST_MARKS:
                return _LIST_ITEM
            return (
                " "
                if name == "br"
                else ""
                if name in _DROPPED_TAGS
                else _extract_text(node.contents)
            )
    return ""  # comments, arguments of templates
