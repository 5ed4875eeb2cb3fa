"""Repairs texts of scraped web pages: joins the fragments of an argument.

A scraper that only takes the direct text nodes of an element cuts a text at every link, footnote
and italic, and loses the words inside. A hole in a sentence (`The decision in ` + ` was wrong.`)
cannot be repaired from the page: it raises `LostWords`.
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

# Words that cannot end a sentence, or cannot follow each other, show a hole. The verbs leave out
# words that can also be nouns (states, shows, will).
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
    """Returns a fragment without tags, entities, and invisible or typographic characters.

    White space stays, since it shows whether words between two fragments are lost.
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
    """Repairs UTF-8 that was decoded as Windows-1252 (with Latin-1 for its undefined bytes)."""
    try:
        codes = ("latin-1" if "\x80" <= character <= "\x9f" else "cp1252" for character in text)
        return b"".join(map(str.encode, text, codes)).decode("utf-8")
    except UnicodeError:
        return text


def flat_texts(value: Any) -> list[str]:
    """Returns the texts in a possibly nested list, a single text, or null, as a flat list."""
    if value is None or isinstance(value, str):
        return [value] if value is not None else []
    return [text for item in value for text in flat_texts(item)]


def joined(fragments: Iterable[str], repairs: Repairs, gap: str = "") -> str:
    """Joins the fragments into one line, with `gap` where words between two of them are lost."""
    text = ""
    for right in _pieces(fragments, repairs):
        if text and gap and _seam_is_cut(text, right):
            text += gap
            repairs["gaps in explanations marked"] += 1
        elif text and _needs_space(text, right):
            text += " "
        text += right
    text = " ".join(text.split())
    text = re.sub(r"\s+([,;:!?)\]]|\.(?!\d))", r"\1", text)
    return re.sub(r"([(\[])\s+", r"\1", text)


def _pieces(fragments: Iterable[str], repairs: Repairs) -> list[str]:
    """Returns the fragments that are not blank, as plain text."""
    plain = [plain_text(fragment, repairs) for fragment in fragments]
    return [piece for piece in plain if piece.strip()]


def _needs_space(left: str, right: str) -> bool:
    """Whether two adjacent fragments lack a space between them."""
    if left[-1].isspace() or right[0].isspace() or re.search(r"\d[.,:]$", left):
        return False
    return (left[-1].isalnum() or left[-1] in ".!?,;:)") and (right[0].isalnum() or right[0] == "(")


def argument_text(fragments: Sequence[str], repairs: Repairs) -> str:
    """Returns an argument as full sentences on one line, or "" if the fragments hold none.

    Blanks, a number or "Read more" are not arguments.

    Raises:
      LostWords: words are missing; the error's message is the remaining text.
    """
    pieces = _pieces(fragments, repairs)
    text = joined(pieces, collections.Counter())
    stripped = text
    for _ in range(2):  # twice, for `Pro 1` followed by `1.`
        stripped = _NUMBERING.sub("", stripped, count=1)
    repairs["numbers of headings removed"] += stripped != text
    if not re.search(r"[^\W\d_]", stripped) or stripped.strip(" .:!").lower() in _NOT_ARGUMENTS:
        return ""
    if _has_lost_words(pieces, stripped):
        raise LostWords(stripped)
    repairs["arguments joined from several fragments"] += len(pieces) > 1
    return _as_sentence(stripped, repairs)


def _as_sentence(text: str, repairs: Repairs) -> str:
    """Returns a text with a capital at the start and an end mark."""
    if text[0].islower() and not text[1:2].isupper():  # not "iPhones"
        text = text[0].upper() + text[1:]
        repairs["capitals given"] += 1
    bare = text.rstrip("\"')]")
    if not bare.endswith((".", "!", "?")):
        # A full stop replaces a final comma ("the end,") or follows a quote or bracket.
        text = text.rstrip(" ,;:-\u2013\u2014") + "."
        repairs["full stops given"] += 1
    elif re.search(r"(?<!\.)\.\.$", text):
        text = text[:-1]
    return text


def _has_lost_words(pieces: Sequence[str], text: str) -> bool:
    """Whether words are missing in the joined text."""
    words = _words(text)
    if text[0] in ",;:.!?)" or (text[0].islower() and words[:1] and words[0] in _FINITE_VERBS):
        return True
    if text[-1].isalnum() and words[-1].lower() in _ARTICLES | _CONJUNCTIONS:
        return True
    if "\ufffd" in text:
        return True
    if any(_seam_is_cut(*seam) or _clash(*seam) for seam in itertools.pairwise(pieces)):
        return True
    joined_text = "".join(pieces).strip()
    holes = re.finditer(r"\s{2,}", joined_text)
    return any(_clash(joined_text[: hole.start()], joined_text[hole.end() :]) for hole in holes)


def _seam_is_cut(left: str, right: str) -> bool:
    """Whether white space shows that words between two fragments are lost: `law ` + `, which`."""
    end, start = left.rstrip()[-1], right.lstrip()[0]
    if not left[-1].isspace() or not (end.isalnum() or end in "\"'"):
        return False
    if not right[0].isspace():
        return start in ",.;:!?"
    return start.islower()


def _clash(left: str, right: str) -> bool:
    """Whether the words on both sides of a seam cannot follow each other in English."""
    before, after = _words(left)[-1:], _words(right)[:1]
    if not before or not left.rstrip()[-1].isalnum():
        return False
    word = before[0].lower()
    if right.lstrip()[0] in ".!?;:,)":
        return word in _ARTICLES or (left[-1].isspace() and word in _PREPOSITIONS)
    if not after or right.lstrip()[len(after[0]) :].startswith("-"):  # "the in-state students"
        return False
    following = after[0].lower()
    if word in _ARTICLES:
        return following in _FINITE_VERBS | _PREPOSITIONS | _CONJUNCTIONS
    return word in _PREPOSITIONS and following in _FINITE_VERBS


def _words(text: str) -> list[str]:
    return re.findall(r"[\w']+", text)
