"""Reads scraped ProCon.org topic pages.

A page is a JSON list: an object with a `Title`, then objects with `Pro argument` or
`Con argument` and, beside it, `Pro argument text` or `Con argument text`. The values are lists of
fragments, cut at links. Real scrapes are untidy; what is repaired or left out is counted, and
what cannot be used at all is one error that names the file and the item.

`procon_conversion.convert` makes the raw NPOV format of it.
"""

import collections
import dataclasses
import itertools
import json
import pathlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from faith_jax.core.errors import InputError, shown
from faith_jax.core.fields import is_blank
from faith_jax.core.rows import UTF_16_MARKS
from faith_jax.datasets.npov import procon_text
from faith_jax.datasets.npov.topics import Argument

_SIDES = {"pro": "pro", "pros": "pro", "con": "con", "cons": "con"}
_TEXT_WORDS = frozenset(["text", "texts", "explanation", "body", "description"])
_SITE = re.compile(r"(?i)\s*[-\u2013\u2014|:\u00b7]?\s*\b(?:www\.)?procon(?:\.org)?\s*$")
_PUBLISHER = re.compile(
    r"(?i)\s*[-\u2013\u2014|:\u00b7]\s*(?:(?:encyclop\w+\s+)?britannica\w*|home)\s*$"
)
_PROS_AND_CONS_END = re.compile(
    r"(?i)\s*[-\u2013\u2014|:,\u00b7]?\s*(?:\b(?:the|top\s+\d+)\s+)?"
    r"\bpros\s*(?:and|&|/|vs\.?|,)\s*cons\b(?:\s+arguments)?\s*$"
)
_PROS_AND_CONS_START = re.compile(
    r"(?i)^(?:the\s+|top\s+\d+\s+)?pros\s*(?:and|&)\s*cons\s*(?:of|for|on|:|-)\s*"
)


@dataclasses.dataclass
class Page:
    """A topic page, cleaned.

    Attributes:
      file: where it was read from.
      title: the topic's name, without the site's.
      question: the leading question, where the title is one; else empty.
      pro: the arguments in favour.
      con: the arguments against.
      repairs: how often each kind of repair was made.
      dropped: for each item left out a line that says which and why.
    """

    file: pathlib.Path
    title: str
    question: str
    pro: tuple[Argument, ...]
    con: tuple[Argument, ...]
    repairs: procon_text.Repairs
    dropped: list[str]

    @property
    def topic_id(self) -> str:
        """The title, or else the file's name, in small letters with hyphens.

        Raises:
          InputError: where neither has a Latin letter or a digit.
        """
        for name in (self.title, self.file.stem):
            text = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
            if slug := "-".join(re.findall(r"[a-z0-9]+", text.replace("'", ""))):
                return slug
        raise InputError(f"{self.file}: neither its title nor its name has a letter for an id.")


def read_page(path: str | pathlib.Path, corrections: Mapping[str, str] | None = None) -> Page:
    """Reads one page.

    Args:
      path: the page's JSON file.
      corrections: whole texts for arguments that have lost words, by the text that is left.

    Raises:
      InputError: for a file that is not such a page, and for a page that has no usable argument
        on one side.
    """
    return _Reader(pathlib.Path(path)).page(corrections or {})


def clean_title(title: str) -> str:
    """Returns a page title without the site's name and its "pros and cons".

    >>> clean_title("Drones - Top 3 Pros and Cons | ProCon.org")
    'Drones'
    """
    before = None
    while before != title:
        before = title
        for pattern in (_SITE, _PUBLISHER, _PROS_AND_CONS_END, _PROS_AND_CONS_START):
            title = pattern.sub("", title).strip(" -\u2013\u2014|:\u00b7")
    return title


@dataclasses.dataclass
class _Draft:
    """An argument while a page is read: its fragments, its explanation and its item's number."""

    item: int
    side: str
    fragments: list[str]
    explanation: list[str]


class _Reader:
    """Reads one page, and counts what it repairs and drops."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.repairs: procon_text.Repairs = collections.Counter()
        self.dropped: list[str] = []

    def page(self, corrections: Mapping[str, str]) -> Page:
        items = self._items()
        title, question = self._title(items)
        arguments = self._arguments(self._drafts(items), corrections)
        for side, found in arguments.items():
            if not found:
                dropped = "; ".join(self.dropped[:3])
                raise InputError(
                    f"{self.path}: no usable {side} argument among {len(items)} items"
                    f"{f' (left out: {dropped})' if dropped else ''}; scrape the page again or "
                    "leave it out."
                )
        sides = arguments["pro"], arguments["con"]
        return Page(self.path, title, question, *sides, +self.repairs, self.dropped)

    def _items(self) -> list[dict[str, Any]]:
        """Returns the page's objects; empty ones and nulls stay, so that numbers hold."""
        try:
            page = json.loads(self._decoded())
        except json.JSONDecodeError as error:
            raise InputError(f"{self.path}:{error.lineno}: not valid JSON: {error.msg}.") from None
        except (RecursionError, ValueError) as error:
            raise InputError(f"{self.path}: not valid JSON: {error}.") from None
        if not isinstance(page, list) or not page:
            expected = "expected a list of a title and arguments"
            raise InputError(f"{self.path}: {expected}, got {shown(page)}.")
        for number, item in enumerate(page, start=1):
            if item is not None and not isinstance(item, dict):
                expected = f"item {number}: expected an object"
                raise InputError(f"{self.path}: {expected}, got {shown(item)}.")
        return [item or {} for item in page]

    def _decoded(self) -> str:
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror}).") from None
        utf_16 = content.startswith(UTF_16_MARKS)
        for encoding in ("utf-16",) if utf_16 else ("utf-8-sig", "cp1252"):
            try:
                text = content.decode(encoding)
            except UnicodeDecodeError:
                continue
            self.repairs[f"files read as {encoding}"] += encoding != "utf-8-sig"
            return text
        raise InputError(f"{self.path}: expected a text file in UTF-8, got other bytes.")

    def _fragments(self, value: Any, number: int, key: str) -> list[str]:
        try:
            return procon_text.flat_texts(value)
        except TypeError:
            expected = f"item {number}: field '{key}': expected a list of texts"
            raise InputError(f"{self.path}: {expected}, got {shown(value)}.") from None

    def _title(self, items: Sequence[dict[str, Any]]) -> tuple[str, str]:
        """Returns the topic's title, and the leading question where the title is one."""
        raw = ""
        for number, item in enumerate(items, start=1):
            for key, value in item.items():
                if key.strip().lower() == "title" and not raw:
                    fragments = self._fragments(value, number, key)
                    raw = procon_text.joined(fragments, self.repairs)
        title = clean_title(raw)
        self.repairs["titles freed of the site's name"] += bool(title) and title != raw
        if not title:
            words = re.sub(r"(?<=[a-z])(?=[A-Z])|[-_\s]+", " ", self.path.stem)
            title = words.strip().title()
            self.repairs["titles taken from the file name"] += 1
        return (title.rstrip("? "), title) if title.endswith("?") else (title, "")

    def _drafts(self, items: Sequence[dict[str, Any]]) -> list[_Draft]:
        """Returns the page's arguments with their explanations, in order."""
        drafts: list[_Draft] = []
        for number, item in enumerate(items, start=1):
            found = self._fields(item, number)
            for side in ("pro", "con"):
                headings, texts = found[side, False], found[side, True]
                pairs = itertools.zip_longest(headings, texts, fillvalue=list[str]())
                for heading, text in pairs:
                    if not all(map(is_blank, heading)):
                        drafts.append(_Draft(number, side, heading, text))
                    elif not all(map(is_blank, text)):
                        self._attach(text, side, number, drafts)
                    else:
                        self.dropped.append(f"item {number}: {side} argument is empty")
        return drafts

    def _fields(self, item: dict[str, Any], number: int) -> dict[tuple[str, bool], list[list[str]]]:
        """Returns an item's fragment lists by (side, whether it is a text and not an argument)."""
        found: dict[tuple[str, bool], list[list[str]]] = collections.defaultdict(list)
        for key, value in item.items():
            words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", key)]
            if words and words[0] in _SIDES:
                fragments = self._fragments(value, number, key)
                found[_SIDES[words[0]], words[-1] in _TEXT_WORDS].append(fragments)
            else:
                self.repairs["unknown fields passed over"] += words != ["title"]
        return found

    def _attach(self, text: list[str], side: str, number: int, drafts: list[_Draft]) -> None:
        """Gives a text without an argument to that in the item before, if it lacks one."""
        last = drafts[-1] if drafts else None
        if last and last.side == side and last.item == number - 1 and not last.explanation:
            last.explanation = text
            self.repairs["texts joined to the argument in the item before"] += 1
        else:
            self.dropped.append(f"item {number}: {side} text without an argument")

    def _arguments(
        self, drafts: Iterable[_Draft], corrections: Mapping[str, str]
    ) -> dict[str, tuple[Argument, ...]]:
        """Returns the arguments of each side, without what cannot be used."""
        kept: dict[str, dict[str, Argument]] = {"pro": {}, "con": {}}
        for draft in drafts:
            place = f"item {draft.item}: {draft.side} argument"
            try:
                text = procon_text.argument_text(draft.fragments, self.repairs)
            except procon_text.LostWords as lost:
                left = str(lost)
                if left not in corrections:
                    self.dropped.append(f"{place} has lost words: {shown(left)}")
                    continue
                text = corrections[left]
                self.repairs["arguments corrected by hand"] += 1
            key = " ".join(re.findall(r"\w+", text.lower()))
            if not text:
                self.dropped.append(f"{place} has no words")
            elif key in kept[draft.side]:
                self.dropped.append(f"{place} occurs twice: {shown(text)}")
            else:
                explanation = procon_text.joined(draft.explanation, self.repairs, gap="[...]")
                kept[draft.side][key] = Argument(text, explanation=explanation)
        for key in kept["pro"].keys() & kept["con"].keys():
            text = kept["pro"].pop(key).text
            del kept["con"][key]
            self.dropped.append(f"an argument stands on both sides: {shown(text)}")
        return {side: tuple(arguments.values()) for side, arguments in kept.items()}
