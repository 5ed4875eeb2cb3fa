"""Reads scraped ProCon.org topic pages.

A page is a JSON list: an object with a `Title`, then objects with `Pro argument` or
`Con argument` and, beside it, `Pro argument text` or `Con argument text`. The values are lists of
fragments, cut at links. Real scrapes are untidy; what is repaired or left out is counted, and
what cannot be used at all is one error that names the file and the item.

`procon_folder.convert` makes the raw NPOV format of it.
"""

import collections
import dataclasses
import itertools
import json
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from faith_jax.data import procon_text
from faith_jax.data.jsonl import shown
from faith_jax.data.npov import Argument
from faith_jax.errors import InputError

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


@dataclasses.dataclass
class _Draft:
    """An argument while a page is read: its fragments, its explanation and its item's number."""

    item: int
    side: str
    fragments: list[str]
    explanation: list[str]


def read_page(path: str | pathlib.Path, corrections: Mapping[str, str] | None = None) -> Page:
    """Reads one page.

    Args:
      path: the page's JSON file.
      corrections: whole texts for arguments that have lost words, by the text that is left.

    Raises:
      InputError: for a file that is not such a page, and for a page that has no usable argument
        on one side.
    """
    path = pathlib.Path(path)
    repairs: procon_text.Repairs = collections.Counter()
    dropped: list[str] = []
    items = _items(path, repairs)
    title, question = _title(items, path, repairs)
    drafts = _drafts(items, path, repairs, dropped)
    arguments = _arguments(drafts, corrections or {}, repairs, dropped)
    for side in ("pro", "con"):
        if not arguments[side]:
            raise InputError(
                f"{path}: no usable {side} argument among {len(items)} items"
                f"{' (left out: ' + '; '.join(dropped[:3]) + ')' if dropped else ''}; "
                "scrape the page again or leave it out."
            )
    return Page(path, title, question, arguments["pro"], arguments["con"], +repairs, dropped)


def _items(path: pathlib.Path, repairs: procon_text.Repairs) -> list[dict[str, Any]]:
    """Returns the page's objects; empty ones and nulls stay, so that numbers hold."""
    try:
        page = json.loads(_decoded(path, repairs))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not valid JSON: {error.msg}.") from None
    except (RecursionError, ValueError) as error:
        raise InputError(f"{path}: not valid JSON: {error}.") from None
    if not isinstance(page, list) or not page:
        raise InputError(f"{path}: expected a list of a title and arguments, got {shown(page)}.")
    for number, item in enumerate(page, start=1):
        if item is not None and not isinstance(item, dict):
            raise InputError(f"{path}: item {number}: expected an object, got {shown(item)}.")
    return [item or {} for item in page]


def _decoded(path: pathlib.Path, repairs: procon_text.Repairs) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
    utf_16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    for encoding in ("utf-16",) if utf_16 else ("utf-8-sig", "cp1252"):
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        repairs[f"files read as {encoding}"] += encoding != "utf-8-sig"
        return text
    raise InputError(f"{path}: expected a text file in UTF-8, got other bytes.")


def _title(
    items: list[dict[str, Any]], path: pathlib.Path, repairs: procon_text.Repairs
) -> tuple[str, str]:
    """Returns the topic's title, and the leading question where the title is one."""
    raw = ""
    for number, item in enumerate(items, start=1):
        for key, value in item.items():
            if key.strip().lower() == "title" and not raw:
                raw = procon_text.joined(_fragments(value, path, number, key), repairs)
    title = clean_title(raw)
    repairs["titles freed of the site's name"] += bool(title) and title != raw
    if not title:
        title = re.sub(r"(?<=[a-z])(?=[A-Z])|[-_\s]+", " ", path.stem).strip().title()
        repairs["titles taken from the file name"] += 1
    if title.endswith("?"):
        return title.rstrip("? "), title
    return title, ""


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


def _drafts(
    items: list[dict[str, Any]],
    path: pathlib.Path,
    repairs: procon_text.Repairs,
    dropped: list[str],
) -> list[_Draft]:
    """Returns the page's arguments with their explanations, in order."""
    drafts: list[_Draft] = []
    for number, item in enumerate(items, start=1):
        found = _fields(item, path, number, repairs)
        for side in ("pro", "con"):
            headings, texts = found[side, False], found[side, True]
            pairs = itertools.zip_longest(headings, texts, fillvalue=list[str]())
            for heading, text in pairs:
                if not _is_blank(heading):
                    drafts.append(_Draft(number, side, heading, text))
                elif not _is_blank(text):
                    _attach(text, side, number, drafts, repairs, dropped)
                else:
                    dropped.append(f"item {number}: {side} argument is empty")
    return drafts


def _is_blank(fragments: list[str]) -> bool:
    return not any(fragment.strip() for fragment in fragments)


def _fields(
    item: dict[str, Any], path: pathlib.Path, number: int, repairs: procon_text.Repairs
) -> dict[tuple[str, bool], list[list[str]]]:
    """Returns an item's fragment lists by (side, whether it is a text and not an argument)."""
    found: dict[tuple[str, bool], list[list[str]]] = {
        (side, is_text): [] for side in ("pro", "con") for is_text in (False, True)
    }
    for key, value in item.items():
        words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", key)]
        if words and words[0] in _SIDES:
            fragments = _fragments(value, path, number, key)
            found[_SIDES[words[0]], words[-1] in _TEXT_WORDS].append(fragments)
        else:
            repairs["unknown fields passed over"] += words != ["title"]
    return found


def _attach(
    text: list[str],
    side: str,
    number: int,
    drafts: list[_Draft],
    repairs: procon_text.Repairs,
    dropped: list[str],
) -> None:
    """Gives a text without an argument to the argument in the item before, if that lacks one."""
    last = drafts[-1] if drafts else None
    if last and last.side == side and last.item == number - 1 and not last.explanation:
        last.explanation = text
        repairs["texts joined to the argument in the item before"] += 1
    else:
        dropped.append(f"item {number}: {side} text without an argument")


def _fragments(value: Any, path: pathlib.Path, number: int, key: str) -> list[str]:
    try:
        return procon_text.flat_texts(value)
    except TypeError:
        raise InputError(
            f"{path}: item {number}: field '{key}': expected a list of texts, got {shown(value)}."
        ) from None


def _arguments(
    drafts: Iterable[_Draft],
    corrections: Mapping[str, str],
    repairs: procon_text.Repairs,
    dropped: list[str],
) -> dict[str, tuple[Argument, ...]]:
    """Returns the arguments of each side, without what cannot be used."""
    kept: dict[str, dict[str, Argument]] = {"pro": {}, "con": {}}
    for draft in drafts:
        place = f"item {draft.item}: {draft.side} argument"
        try:
            text = procon_text.argument_text(draft.fragments, repairs)
        except procon_text.LostWords as lost:
            left = str(lost)
            if left not in corrections:
                dropped.append(f"{place} has lost words: {shown(left)}")
                continue
            text = corrections[left]
            repairs["arguments corrected by hand"] += 1
        key = " ".join(re.findall(r"\w+", text.lower()))
        if not text:
            dropped.append(f"{place} has no words")
        elif key in kept[draft.side]:
            dropped.append(f"{place} occurs twice: {shown(text)}")
        else:
            explanation = procon_text.joined(draft.explanation, repairs, gap="[...]")
            kept[draft.side][key] = Argument(text, explanation=explanation)
    for key in kept["pro"].keys() & kept["con"].keys():
        text = kept["pro"].pop(key).text
        del kept["con"][key]
        dropped.append(f"an argument stands on both sides: {shown(text)}")
    return {side: tuple(arguments.values()) for side, arguments in kept.items()}
