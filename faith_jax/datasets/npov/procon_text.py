"""Repairs of the texts that a scrape of a web page leaves: one argument from its fragments.

A scraper that takes the direct text nodes of an element cuts a text at every link, footnote and
italic, and loses the words inside. Where that leaves a hole in a sentence (`The decision in ` +
` was wrong.`), the argument cannot be repaired from the page, and `LostWords` says so.
"""

import collections
import html
import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

Repairs = collections.Counter  # how often each kind of repair was made


class LostWords(Exception):
    """The fragments do not make a whole sentence."""


_TYPOGRAPHIC = str.maketrans(
    {
        "\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "\u2032": "'", "\u00b4": "'",
        "\u201c": '"', "\u201d": '"', "\u201e": '"', "\u201f": '"', "\u2033": '"',
        "\u00ab": '"', "\u00bb": '"', "\u2026": "...", "\u2010": "-", "\u2011": "-",
        "\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl",
    }
)  # fmt: skip
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060\ufeff\x00-\x08\x0e-\x1b\x7f]")
_MISDECODED = re.compile(r"[\u00c2\u00c3][\u0080-\u00bf]|\u00e2\u20ac|\u00e2\u0080|\u00c3.")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_FOOTNOTE = re.compile(r"\s*\[\s*(?:\d{1,3}(?:\s*[,-]\s*\d{1,3})*|citation needed)\s*\]")
_RAISED_NUMBER = re.compile(r"(?<=[.!?,;\"'])[\u00b9\u00b2\u00b3\u2070\u2074-\u2079]+")
_NUMBERING = re.compile(
    r"""(?ix)^(?:
      (?:pro|con)s?(?:\s+argument)?\s*\#?\s*\d{1,2}(?![\w%,-]|\.\d)\s*[:.)\u2013\u2014-]?\s*
    | (?:argument|reason|point)\s*\#?\s*\d{1,2}\s*[:.)\u2013\u2014-]\s*
    | (?:pro|con)s?\s*(?:[:\u2013\u2014]\s*|\s-\s+)
    | \#\s*\d{1,2}\s*[:.)]?\s+
    | \(?\d{1,2}[.):]\)?\s+
    | [*\u2022\u00b7\u25aa\u25cf\u2023\u2013\u2014-]+\s+
    )"""
)
_NOT_ARGUMENTS = frozenset(
    ["pro", "con", "pros", "cons", "read more", "show more", "learn more", "more", "source"]
)

# Words that cannot end a sentence, or cannot stand beside each other, show a hole. Words that are
# verbs and nouns both (states, shows, will) are left out of the verbs.
_ARTICLES = frozenset(["a", "an", "the", "its", "their", "his", "her", "our", "your", "my"])
_PREPOSITIONS = frozenset(
    ["in", "of", "on", "at", "by", "from", "with", "into", "under", "for", "against", "during"]
    + ["within", "without", "via", "per"]
)
_CONJUNCTIONS = frozenset(["and", "or", "but", "because", "if", "than"])
_FINITE_VERBS = frozenset(
    ["is", "are", "was", "were", "has", "have", "had", "would", "should", "could", "does", "did"]
    + ["said", "stated", "ruled", "argues", "argued"]
)


def plain_text(text: str, repairs: Repairs) -> str:
    """Returns a fragment as plain text: no tags, entities, invisible or typographic characters.

    White space stays as it is, since the seams between fragments are judged by it.
    """
    for name, change in (
        ("HTML entities resolved", html.unescape),
        ("wrongly decoded characters mended", _redecoded),
        ("HTML tags removed", lambda t: _TAG.sub("", t)),
        ("invisible characters removed", lambda t: _INVISIBLE.sub("", t)),
        ("typographic characters made plain", lambda t: t.translate(_TYPOGRAPHIC)),
        ("characters composed", lambda t: unicodedata.normalize("NFC", t)),
        ("footnote marks removed", lambda t: _RAISED_NUMBER.sub("", _FOOTNOTE.sub("", t))),
    ):
        changed = change(text)
        repairs[name] += changed != text
        text = changed
    return text


def _redecoded(text: str) -> str:
    """Mends UTF-8 that was read as Windows-1252, where all of the text allows it."""
    if not _MISDECODED.search(text):
        return text
    try:
        return b"".join(_byte(character) for character in text).decode("utf-8")
    except UnicodeError:
        return text


def _byte(character: str) -> bytes:
    """Returns the byte that Windows-1252 reads as this character; undefined ones as Latin-1."""
    try:
        return character.encode("cp1252")
    except UnicodeEncodeError:
        return character.encode("latin-1")


def flat_texts(value: Any) -> list[str]:
    """Returns the texts in a fragment list that may be nested, a lone text, or null.

    Raises:
      TypeError: for anything else in it.
    """
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in flat_texts(item)]
    raise TypeError


def joined(fragments: Iterable[str], repairs: Repairs, gap: str = "") -> str:
    """Returns the fragments as one text on one line.

    Args:
      fragments: a text's fragments, as scraped.
      repairs: is counted up.
      gap: what to put where a seam shows that words are lost.
    """
    text = ""
    for right in _pieces(fragments, repairs):
        if text and gap and _seam_is_cut(text, right):
            text += gap
            repairs["gaps in explanations marked"] += 1
        elif text and _needs_space(text, right):
            text += " "
        text += right
    return _tidied(text)


def _pieces(fragments: Iterable[str], repairs: Repairs) -> list[str]:
    """Returns the fragments that hold more than white space, as plain text."""
    plain = [plain_text(fragment, repairs) for fragment in fragments]
    return [piece for piece in plain if piece.strip()]


def _needs_space(left: str, right: str) -> bool:
    """Says whether two fragments that meet without white space need a space between them."""
    if left[-1].isspace() or right[0].isspace() or re.search(r"\d[.,:]$", left):
        return False
    return (left[-1].isalnum() or left[-1] in ".!?,;:)") and (right[0].isalnum() or right[0] == "(")


def _tidied(text: str) -> str:
    text = " ".join(text.split())
    text = re.sub(r"\s+([,;:!?)\]]|\.(?!\d))", r"\1", text)
    return re.sub(r"([(\[])\s+", r"\1", text)


def argument_text(fragments: Sequence[str], repairs: Repairs) -> str:
    """Returns an argument as one or more full sentences on one line, with a full stop.

    Args:
      fragments: the argument's fragments, as scraped.
      repairs: is counted up.

    Returns:
      The text; empty where the fragments hold no argument (blank, a number, "Read more").

    Raises:
      LostWords: with the joined text, where words between or inside the fragments are missing.
    """
    pieces = _pieces(fragments, repairs)
    text = joined(pieces, collections.Counter())
    stripped = _unnumbered(text)
    repairs["numbers of headings removed"] += stripped != text
    if not re.search(r"[^\W\d_]", stripped) or stripped.strip(" .:!").lower() in _NOT_ARGUMENTS:
        return ""
    if _has_lost_words(pieces, stripped):
        raise LostWords(stripped)
    repairs["arguments joined from several fragments"] += len(pieces) > 1
    return _as_sentence(stripped, repairs)


def _unnumbered(text: str) -> str:
    """Removes numbering from the front; twice, for `Pro 1` followed by `1.`."""
    return _NUMBERING.sub("", _NUMBERING.sub("", text, count=1), count=1)


def _as_sentence(text: str, repairs: Repairs) -> str:
    """Gives a text a capital at the start and a sentence end."""
    if text[0].islower() and not text[1:2].isupper():  # not "iPhones"
        text = text[0].upper() + text[1:]
        repairs["capitals given"] += 1
    bare = text.rstrip("\"')]")
    if not bare.endswith((".", "!", "?")):
        # "the end," or 'the "end' -> a full stop in place of a comma, behind a quote or bracket.
        text = text.rstrip(" ,;:-\u2013\u2014") + "."
        repairs["full stops given"] += 1
    elif re.search(r"(?<!\.)\.\.$", text):
        text = text[:-1]
    return text


def _has_lost_words(pieces: Sequence[str], text: str) -> bool:
    """Says whether the joined text has a hole; the seams of its pieces are looked at closest."""
    first, last = _words(text)[:1], _words(text)[-1:]
    if text[0] in ",;:.!?)" or (text[0].islower() and first and first[0] in _FINITE_VERBS):
        return True
    if text[-1].isalnum() and last[0].lower() in _ARTICLES | _CONJUNCTIONS:
        return True
    if "\ufffd" in text:
        return True
    for left, right in itertools.pairwise(pieces):
        if _seam_is_cut(left, right) or _clash(left, right):
            return True
    holes = re.finditer(r"\s{2,}", "".join(pieces).strip())
    whole = "".join(pieces).strip()
    return any(_clash(whole[: hole.start()], whole[hole.end() :]) for hole in holes)


def _seam_is_cut(left: str, right: str) -> bool:
    """Says whether white space shows that an element with words stood between two fragments.

    `law ` + `, which` and `in ` + ` was`: the page had a word between these spaces.
    """
    end, start = left.rstrip()[-1], right.lstrip()[0]
    if not left[-1].isspace() or not (end.isalnum() or end in "\"'"):
        return False
    if not right[0].isspace():
        return start in ",.;:!?"
    return start.islower()


def _clash(left: str, right: str) -> bool:
    """Says whether the words on both sides of a seam cannot follow each other in English."""
    before, after = _words(left)[-1:], _words(right)[:1]
    if not before or not left.rstrip()[-1].isalnum():
        return False
    word = before[0].lower()
    if right.lstrip()[0] in ".!?;:,)":
        return word in _ARTICLES or (left[-1].isspace() and word in _PREPOSITIONS)
    if not after or right.lstrip()[len(after[0]) :].startswith("-"):  # the in-state students
        return False
    following = after[0].lower()
    if word in _ARTICLES:
        return following in _FINITE_VERBS | _PREPOSITIONS | _CONJUNCTIONS
    return word in _PREPOSITIONS and following in _FINITE_VERBS


def _words(text: str) -> list[str]:
    return re.findall(r"[\w']+", text)
