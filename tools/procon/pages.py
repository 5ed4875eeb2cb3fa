"""Reads scraped ProCon.org topic pages, for `conversion`.

A page is a JSON list: an object with a `Title`, then objects with `Pro argument` and `Pro argument
text`, or `Con argument` and `Con argument text`. The values are lists of fragments, cut at links.
Real scrapes are untidy: repairs are counted, and items left out are listed.
"""

import collections
import dataclasses
import pathlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from faith_jax.core.errors import InputError, format_value
from faith_jax.core.rows import read_value
from faith_jax.core.schema import convert_row
from faith_jax.datasets.npov.topics import Argument

from . import text as procon_text
from .text import flat_texts

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


# A text, or a list of texts, nulls and lists of texts and nulls.
Fragments = str | list[str | list[str | None] | None]


class _Item(msgspec.Struct):
    title: Fragments | None = None
    pro: Fragments | None = msgspec.field(name="pro argument", default=None)
    pro_text: Fragments | None = msgspec.field(name="pro argument text", default=None)
    con: Fragments | None = msgspec.field(name="con argument", default=None)
    con_text: Fragments | None = msgspec.field(name="con argument text", default=None)


_FIELDS = frozenset(field.encode_name for field in msgspec.structs.fields(_Item))


@dataclasses.dataclass
class Page:
    """A topic page, cleaned.

    Attributes:
      file: the page's file.
      title: the topic's name, without the site's name.
      question: the title if it is a question; else empty.
      pro: the arguments in favour.
      con: the arguments against.
      repairs: how often each kind of repair was made.
      dropped: for each item left out, a line with its place and the reason.
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
        """The title in lower case with hyphens; without a usable title, the file's name.

        Raises:
          InputError: neither has a Latin letter or a digit.
        """
        for name in (self.title, self.file.stem):
            text = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
            if slug := "-".join(re.findall(r"[a-z0-9]+", text.replace("'", ""))):
                return slug
        raise InputError(f"{self.file}: neither its title nor its name has a letter for an id.")


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


def read_page(path: str | pathlib.Path, corrections: Mapping[str, str] | None = None) -> Page:
    """Reads one page.

    Args:
      path: the page's JSON file.
      corrections: complete texts of arguments that have lost words, by their remaining text.

    Raises:
      InputError: the file is not a topic page, or has no usable argument on one side.
    """
    reader = _Reader(pathlib.Path(path))
    items = reader.items()
    title, question = reader.title(items)
    sides = reader.arguments(reader.drafts(items), corrections or {})
    for side, arguments in sides.items():
        if not arguments:
            dropped = "; ".join(reader.dropped[:3])
            raise InputError(
                f"{path}: no usable {side} argument among {len(items)} items"
                f"{f' (left out: {dropped})' if dropped else ''}; scrape the page again or "
                "leave it out."
            )
    return Page(
        reader.path, title, question, **sides, repairs=+reader.repairs, dropped=reader.dropped
    )


@dataclasses.dataclass
class _Draft:
    """An unfinished argument, with the number of its item on the page."""

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

    def items(self) -> list[_Item]:
        """Returns the page's items; nulls become empty items, to keep the numbering."""
        page = read_value(self.path)
        if not isinstance(page, list) or not page:
            expected = "expected a list of a title and arguments"
            raise InputError(f"{self.path}: {expected}, got {format_value(page)}.")
        items = []
        for number, item in enumerate(page, start=1):
            if isinstance(item, dict):
                item = {key.strip().lower(): value for key, value in item.items()}
                self.repairs["unknown fields passed over"] += len(item.keys() - _FIELDS)
            place = f"{self.path}: item {number}"
            items.append(convert_row({} if item is None else item, place, _Item, strip=False))
        return items

    def title(self, items: Sequence[_Item]) -> tuple[str, str]:
        """Returns the topic's title, and its leading question if the title is a question."""
        titles = (procon_text.joined(flat_texts(item.title), self.repairs) for item in items)
        raw = next(filter(None, titles), "")
        title = clean_title(raw)
        self.repairs["titles freed of the site's name"] += bool(title) and title != raw
        if not title:
            words = re.sub(r"(?<=[a-z])(?=[A-Z])|[-_\s]+", " ", self.path.stem)
            title = words.strip().title()
            self.repairs["titles taken from the file name"] += 1
        return (title.rstrip("? "), title) if title.endswith("?") else (title, "")

    def drafts(self, items: Sequence[_Item]) -> list[_Draft]:
        """Returns the page's arguments with their explanations, in order."""
        drafts: list[_Draft] = []
        for number, item in enumerate(items, start=1):
            for side in ("pro", "con"):
                argument_fields = getattr(item, side), getattr(item, f"{side}_text")
                heading, text = map(flat_texts, argument_fields)
                last = drafts[-1] if drafts else None
                if "".join(heading).strip():
                    drafts.append(_Draft(number, side, heading, text))
                elif not "".join(text).strip():
                    if argument_fields != (None, None):
                        self.dropped.append(f"item {number}: {side} argument is empty")
                elif last and (last.side, last.item, last.explanation) == (side, number - 1, []):
                    last.explanation = text
                    self.repairs["texts joined to the argument in the item before"] += 1
                else:
                    self.dropped.append(f"item {number}: {side} text without an argument")
        return drafts

    def arguments(
        self, drafts: Iterable[_Draft], corrections: Mapping[str, str]
    ) -> dict[str, tuple[Argument, ...]]:
        """Returns the usable arguments of each side."""
        usable: dict[str, dict[str, Argument]] = {"pro": {}, "con": {}}
        for draft in drafts:
            place = f"item {draft.item}: {draft.side} argument"
            try:
                text = procon_text.argument_text(draft.fragments, self.repairs)
            except procon_text.LostWords as lost:
                left = str(lost)
                if left not in corrections:
                    self.dropped.append(f"{place} has lost words: {format_value(left)}")
                    continue
                text = corrections[left]
                self.repairs["arguments corrected by hand"] += 1
            key = " ".join(re.findall(r"\w+", text.lower()))
            if not text:
                self.dropped.append(f"{place} has no words")
            elif key in usable[draft.side]:
                self.dropped.append(f"{place} occurs twice: {format_value(text)}")
            else:
                explanation = procon_text.joined(draft.explanation, self.repairs, gap="[...]")
                usable[draft.side][key] = Argument(text, explanation=explanation)
        for key in usable["pro"].keys() & usable["con"].keys():
            text = usable["pro"].pop(key).text
            del usable["con"][key]
            self.dropped.append(f"an argument stands on both sides: {format_value(text)}")
        return {side: tuple(arguments.values()) for side, arguments in usable.items()}
