"""A page of checked claims with the evidence beside them."""

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from faith_jax.core.labels import VERDICTS
from faith_jax.core.table import Table
from faith_jax.export.scored_rows import ScoredRow
from faith_jax.report.table_pages import page_template
from faith_jax.statistics.text_metrics import content_words

MOST = 2000  # claims in a page
VERDICT = "response_verdict"  # the field of a claim that says that of its response
_URLS = ("http://", "https://")


class ShownEvidence(NamedTuple):
    """A sentence of evidence: its article, its pieces, each with whether it is marked."""

    title: str
    url: str
    pieces: list[tuple[str, bool]]
    decides: bool


class ShownClaim(NamedTuple):
    """A claim as the page has it; `before` is the last thing that was said before it.

    `response` is the verdict on its response, of the first claim of one that has several.
    """

    id: str
    text: str
    before: str
    verdict: str
    response: str
    probabilities: str
    evidence: list[ShownEvidence]


def claims_page(title: str, rows: Iterable[ScoredRow], scorers: Sequence[str]) -> str:
    """Returns one self-contained HTML page; all text is escaped.

    Args:
      title: of the page.
      rows: scored claims, with the field `verdict`.
      scorers: whose scores are shown as probabilities.
    """
    shown = list[ScoredRow]()

    def kept() -> Iterator[ScoredRow]:
        for row in rows:
            if len(shown) < MOST:
                shown.append(row)
            yield row

    counts = verdict_counts(kept())
    responses = itertools.groupby(shown, _response)
    return str(
        page_template("claims.html").render(
            title=title,
            counts=counts,
            claims=[_shown(*it, scorers) for _, own in responses for it in _with_verdicts(own)],
            left_out=sum(it.claims for it in counts.values()) - len(shown),
        )
    )


class VerdictCount(NamedTuple):
    """How many responses and claims have a verdict."""

    responses: int
    claims: int


def verdict_counts(rows: Iterable[ScoredRow]) -> dict[str, VerdictCount]:
    """Returns how many have each verdict; the claims of a response stand together."""
    claims, responses = Counter[str](), Counter[str]()
    for (*_, verdict), own in itertools.groupby(rows, _response):
        responses[verdict] += 1
        claims.update(row["fields"]["verdict"] for row in own)
    return {name: VerdictCount(responses[name], claims[name]) for name in VERDICTS}


def verdict_table(rows: Iterable[ScoredRow]) -> Table:
    """Returns how many have each verdict, by system where rows name one; see `verdict_counts`."""
    found: dict[str, Counter[tuple[str, str]]] = {}
    for system, own in itertools.groupby(rows, lambda row: row["fields"].get("system", "")):
        counts = found.setdefault(system, Counter())
        for verdict, count in verdict_counts(own).items():
            counts.update({(verdict, what): n for what, n in count._asdict().items()})
    named, whats = any(found), VerdictCount._fields
    lines = tuple(
        (*([system] if named else []), verdict, *(counts[verdict, what] for what in whats))
        for system, counts in found.items()
        for verdict in VERDICTS
    )
    return Table("Checked claims", (*(["system"] if named else []), "verdict", *whats), lines)


def _response(row: ScoredRow) -> tuple[str, ...]:
    """Returns what the claims of one response have in common; last the verdict on it."""
    fields = row["fields"]
    names = ("system", "replicate", "response_id", VERDICT)
    return (row["corpus"], *(fields.get(name, "") for name in names))


def _with_verdicts(rows: Iterable[ScoredRow]) -> Iterator[tuple[ScoredRow, str]]:
    """Yields the claims of a response, the first of several with the verdict on all."""
    own = list(rows)
    for place, row in enumerate(own):
        is_first = place == 0 and len(own) > 1
        yield row, row["fields"].get(VERDICT, "") if is_first else ""


def _shown(row: ScoredRow, response: str, scorers: Sequence[str]) -> ShownClaim:
    claim, history = row["generated_text"], row["history"]
    said = {word.stem for text in (claim, *history[-2:]) for word in content_words(text)}
    urls = json.loads(row["fields"].get("evidence_urls", "[]"))  # fields are read as texts
    places = itertools.zip_longest(row["perspectives"], urls, row["grounding"], fillvalue="")
    return ShownClaim(
        row["id"],
        claim,
        history[-1] if history else "",
        row["fields"]["verdict"],
        response,
        " / ".join(f"{row['scores'][name]:.2f}" for name in scorers),
        [
            ShownEvidence(
                title,
                url if url.startswith(_URLS) else "",
                _pieces(text, said),
                text == row["fields"].get("decisive"),
            )
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
