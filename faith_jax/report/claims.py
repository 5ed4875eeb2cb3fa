"""A page of checked claims with the evidence beside them."""

import collections
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from faith_jax.export.scored_rows import ScoredRow
from faith_jax.report.table_pages import page_template
from faith_jax.statistics.text_metrics import content_words

MOST = 2000  # claims in a page
_URLS = ("http://", "https://")


class ShownEvidence(NamedTuple):
    """A sentence of evidence: its article, and its pieces, each with whether it is marked."""

    title: str
    url: str
    pieces: list[tuple[str, bool]]


class ShownClaim(NamedTuple):
    """A claim as the page has it; `before` is the last thing that was said before it."""

    id: str
    text: str
    before: str
    verdict: str
    probabilities: str
    evidence: list[ShownEvidence]


def claims_page(title: str, rows: Iterable[ScoredRow], scorers: Sequence[str]) -> str:
    """Returns one self-contained HTML page; all text is escaped.

    Args:
      title: of the page.
      rows: scored claims, with the field `verdict`.
      scorers: whose scores are shown as probabilities.
    """
    counts = collections.Counter[str]()

    def counted() -> Iterator[ScoredRow]:
        for row in rows:
            counts[row["fields"]["verdict"]] += 1
            yield row

    left = counted()
    claims = [_shown(row, scorers) for row in itertools.islice(left, MOST)]
    more = sum(1 for _ in left)
    found = dict(counts.most_common())
    return str(
        page_template("claims.html").render(title=title, counts=found, claims=claims, left_out=more)
    )


def _shown(row: ScoredRow, scorers: Sequence[str]) -> ShownClaim:
    claim, history = row["generated_text"], row["history"]
    said = {word.stem for text in (claim, *history[-2:]) for word in content_words(text)}
    urls = json.loads(row["fields"].get("evidence_urls", "[]"))  # fields are read as texts
    places = itertools.zip_longest(row["perspectives"], urls, row["grounding"], fillvalue="")
    return ShownClaim(
        row["id"],
        claim,
        history[-1] if history else "",
        row["fields"]["verdict"],
        " / ".join(f"{row['scores'][name]:.2f}" for name in scorers),
        [
            ShownEvidence(title, url if url.startswith(_URLS) else "", _pieces(text, said))
            for title, url, text in places
        ],
    )


def _pieces(text: str, stems: set[str]) -> list[tuple[str, bool]]:
    """Returns a text in pieces; those whose stem is among the given ones are marked.

    >>> _pieces("A cat sleeps.", {"cat"})
    [('A ', False), ('cat', True), (' sleeps.', False)]
    """
    found, end = list[tuple[str, bool]](), 0
    for word in content_words(text):
        if word.stem in stems:
            found += [(text[end : word.start], False), (text[word.start : word.end], True)]
            end = word.end
    return [piece for piece in (*found, (text[end:], False)) if piece[0]]
