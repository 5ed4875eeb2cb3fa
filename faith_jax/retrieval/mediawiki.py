"""MediaWiki XML dumps as articles: pages one by one, wikitext as paragraphs.

Pages of other namespaces than 0 (talk, templates, files) are no articles. Of wikitext, the
sentences stay: tables, lists, headings, references, pictures and categories are left out, and so
are templates, but for a few that stand in the middle of sentences.
"""

import concurrent.futures
import contextlib
import functools
import itertools
import multiprocessing
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.rows import open_text
from faith_jax.core.templates import one_space
from faith_jax.retrieval.articles import WIKIPEDIA, Article, Redirect, lists_names, wiki_url

_BATCH = 1000  # pages that are parsed at once
_HEADING = re.compile(r"^=+.+=+[ \t]*$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n\s*\n")
_NO_LINK = re.compile(r"\s*(?:file|image|category|media)\s*:", re.IGNORECASE)
_MAGIC_WORD = re.compile(r"__[A-Z]+__")
_LIST_ITEM = "\0"
_LIST_MARKS = ("*", "#", ":", ";")
_DROPPED_TAGS = frozenset(
    {"ref", "table", "gallery", "timeline", "score", "math", "div", "references"}
)
_DISAMBIGUATION = re.compile(r"\{\{\s*(?:[\w ]*disambig\w*|dab|hndis|geodis)\s*[|}]", re.IGNORECASE)
# Templates that have a text: that of the parameters at these places, 0 = the first.
_TEMPLATES = {
    "convert": (0, 1), "cvt": (0, 1), "lang": (1,), "transl": (-1,), "transliteration": (-1,),
    "nowrap": (0,), "nobr": (0,), "nihongo": (0,), "abbr": (0,), "circa": (0,), "ship": (0, 1),
}  # fmt: skip
# What a template leaves in parentheses: "( ; )", "(; born 1931)".
_EMPTY_PARENTHESES = re.compile(r"\s?\((?:\s|[,;:])*\)")
_OPENING = re.compile(r"\((?:\s|[,;:])+")


class _Page(NamedTuple):
    title: str
    wikitext: str
    base: str


def read_dump(
    path: pathlib.Path, first: int = 0, most: int | None = None, processes: int = 1
) -> Iterator[Article | Redirect]:
    """Yields the articles and redirects of a dump, from page `first` of namespace 0 on.

    Args:
      path: of the dump.
      first: counted from 0.
      most: paragraphs of an article, from its beginning; None = all.
      processes: that parse wikitext.

    Raises:
      ConfigError: mwparserfromhell is not installed.
      InputError: the file ends in the middle, or is no dump.
    """
    try:
        import mwparserfromhell  # noqa: F401
    except ImportError:
        raise ConfigError(
            f"{path}: a MediaWiki dump is read with mwparserfromhell; install the extra: pip "
            "install 'faith_jax[wikipedia]', or '.[wikipedia]' in a clone."
        ) from None
    pages = itertools.islice(_read_pages(path), first, None)
    with _open_parser(functools.partial(paragraphs, most=most), processes) as parse:
        while batch := list(itertools.islice(pages, _BATCH)):
            parsed = iter(parse([page.wikitext for page in batch if isinstance(page, _Page)]))
            for page in batch:
                if isinstance(page, Redirect):
                    yield page
                    continue
                texts, has_mark = next(parsed), bool(_DISAMBIGUATION.search(page.wikitext))
                is_list = has_mark or lists_names(page.title, texts)
                yield Article(page.title, texts, (), wiki_url(page.title, page.base), is_list)


def _read_pages(path: pathlib.Path) -> Iterator[_Page | Redirect]:
    """Yields the pages of namespace 0; one at a time is in memory."""
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
    """Yields a function that parses texts, by several processes where there are many texts."""
    with contextlib.ExitStack() as held:
        pool: concurrent.futures.ProcessPoolExecutor | None = None

        def parse_all(texts: Sequence[str]) -> Iterable[tuple[str, ...]]:
            nonlocal pool
            if processes == 1 or (pool is None and len(texts) < _BATCH // 2):
                return map(parse, texts)
            if pool is None:  # not by a fork: this process may have threads
                context = multiprocessing.get_context("spawn")
                executor = concurrent.futures.ProcessPoolExecutor(processes, context)
                pool = held.enter_context(executor)
            return pool.map(parse, texts, chunksize=20)

        yield parse_all


def paragraphs(wikitext: str, most: int | None = None) -> tuple[str, ...]:
    r"""Returns the paragraphs of a wikitext; what stands behind the first `most` is not parsed.

    >>> paragraphs("'''Tea''' is a [[drink]] ({{IPA|x}}).<ref>Lee</ref>\n== Use ==\n* hot\n")
    ('Tea is a drink.',)
    """
    texts: list[str] = []
    for section in _HEADING.split(wikitext):
        texts += _section_paragraphs(section)
        if most is not None and len(texts) >= most:
            break
    return tuple(texts[:most])


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
