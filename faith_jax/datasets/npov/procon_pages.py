"""Reads scraped ProCon.org topic pages, for `procon_conversion`.

A page is a JSON list: an object with a `Title`, then objects with `Pro argument` or `Con argument`
and, beside it, `Pro argument text` or `Con argument text`. The values are lists of fragments, cut
at links. Real scrapes are untidy: repairs and what is left out are counted.
"""

import collections
import dataclasses
import pathlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from faith_jax.core.errors import InputError, field_error, shown
from faith_jax.core.json_items import read_value
from faith_jax.datasets.npov import procon_text
from faith_jax.datasets.npov.topics import Argument

_FIELDS = {"title"} | {f"{side} argument{end}" for side in ("pro", "con") for end in ("", " text")}
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
      question: the leading question if the title is one; else empty.
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
        """The title, or else the file's name, in lower case with hyphens.

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
      corrections: whole texts for arguments that have lost words, by the text that is left.

    Raises:
      InputError: the file is no such page, or has no usable argument on one side.
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
    """An argument while a page is read, with the number of its item."""

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

    def items(self) -> list[dict[str, Any]]:
        """Returns the page's objects; nulls become empty ones, so that numbers hold."""
        page = read_value(self.path)
        if not isinstance(page, list) or not page:
            expected = "expected a list of a title and arguments"
            raise InputError(f"{self.path}: {expected}, got {shown(page)}.")
        for number, item in enumerate(page, start=1):
            if item is not None and not isinstance(item, dict):
                expected = f"item {number}: expected an object"
                raise InputError(f"{self.path}: {expected}, got {shown(item)}.")
        return [
            {key.strip().lower(): value for key, value in (item or {}).items()} for item in page
        ]

    def _fragments(self, item: Mapping[str, Any], number: int, key: str) -> list[str]:
        try:
            return procon_text.flat_texts(item.get(key))
        except TypeError:
            place = f"{self.path}: item {number}"
            raise field_error(place, key, "a list of texts", item[key]) from None

    def title(self, items: Sequence[dict[str, Any]]) -> tuple[str, str]:
        """Returns the topic's title, and the leading question if the title is one."""
        found = (self._fragments(item, number, "title") for number, item in enumerate(items, 1))
        raw = next(filter(None, (procon_text.joined(title, self.repairs) for title in found)), "")
        title = clean_title(raw)
        self.repairs["titles freed of the site's name"] += bool(title) and title != raw
        if not title:
            words = re.sub(r"(?<=[a-z])(?=[A-Z])|[-_\s]+", " ", self.path.stem)
            title = words.strip().title()
            self.repairs["titles taken from the file name"] += 1
        return (title.rstrip("? "), title) if title.endswith("?") else (title, "")

    def drafts(self, items: Sequence[dict[str, Any]]) -> list[_Draft]:
        """Returns the page's arguments with their explanations, in order."""
        drafts: list[_Draft] = []
        for number, item in enumerate(items, start=1):
            self.repairs["unknown fields passed over"] += len(item.keys() - _FIELDS)
            for side in ("pro", "con"):
                heading = self._fragments(item, number, f"{side} argument")
                text = self._fragments(item, number, f"{side} argument text")
                last = drafts[-1] if drafts else None
                if "".join(heading).strip():
                    drafts.append(_Draft(number, side, heading, text))
                elif not "".join(text).strip():
                    if any(key.startswith(side) for key in item):
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
