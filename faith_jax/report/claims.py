"""A page of checked claims with the evidence beside them."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from faith_jax.core.errors import InputError
from faith_jax.core.labels import NOT_VERIFIABLE, UNSUPPORTED, VERDICTS, DialFactLabel
from faith_jax.core.table import Table
from faith_jax.export.scored_rows import ScoredRow
from faith_jax.report.table_pages import page_template
from faith_jax.statistics.bootstrap import DRAWS, Draws, interval_note
from faith_jax.statistics.classification import call_figures
from faith_jax.statistics.texts.text_metrics import content_words

MOST = 2000  # claims on a page
VERDICT = "response_verdict"  # the field of a claim with the verdict on its response
# The fields with the gold verdict on a claim, and on its response.
GOLD, GOLD_RESPONSE = "gold_verdict", "gold_response_verdict"
_IN_THREE = {NOT_VERIFIABLE: DialFactLabel.NOT_ENOUGH_INFO.value}
_KINDS = {True: "verifiable", False: "not verifiable"}
_URLS = ("http://", "https://")


def claims_page(
    title: str, rows: Iterable[ScoredRow], scorers: Sequence[str], notes: Sequence[str] = ()
) -> str:
    """Returns one self-contained HTML page of scored claims; all text is escaped.

    Scores are shown as probabilities; `notes` say what was checked.
    """
    first_rows = list[ScoredRow]()

    def rows_keeping_first() -> Iterator[ScoredRow]:
        for row in rows:
            if len(first_rows) < MOST:
                first_rows.append(row)
            yield row

    counts = _verdict_counts(rows_keeping_first())
    responses = itertools.groupby(first_rows, _response_key)
    return str(
        page_template("claims.html").render(
            title=title,
            notes=notes,
            counts=counts,
            claims=[
                claim for _, claims in responses for claim in _show_claims(list(claims), scorers)
            ],
            left_out=sum(count.claims for count in counts.values()) - len(first_rows),
        )
    )


class _VerdictCount(NamedTuple):
    """The numbers of responses and of claims with a verdict."""

    responses: int
    claims: int


def _verdict_counts(rows: Iterable[ScoredRow]) -> dict[str, _VerdictCount]:
    """Returns the counts of each verdict; the claims of a response must be adjacent."""
    claims, responses = Counter[str](), Counter[str]()
    for (*_, verdict), claims_of_response in itertools.groupby(rows, _response_key):
        responses[verdict] += 1
        claims.update(row["fields"]["verdict"] for row in claims_of_response)
    return {name: _VerdictCount(responses[name], claims[name]) for name in VERDICTS}


def verdict_table(rows: Iterable[ScoredRow]) -> Table:
    """Returns the counts of each verdict, by system if rows name one; see `_verdict_counts`."""
    by_system: dict[str, Counter[tuple[str, str]]] = {}
    for system, rows_of_system in itertools.groupby(
        rows, lambda row: row["fields"].get("system", "")
    ):
        counts = by_system.setdefault(system, Counter())
        for verdict, count in _verdict_counts(rows_of_system).items():
            counts.update({(verdict, unit): n for unit, n in count._asdict().items()})
    named, whats = any(by_system), _VerdictCount._fields
    lines = tuple(
        (*([system] if named else []), verdict, *(counts[verdict, unit] for unit in whats))
        for system, counts in by_system.items()
        for verdict in VERDICTS
    )
    return Table("Checked claims", (*(["system"] if named else []), "verdict", *whats), lines)


def gold_table(rows: Iterable[ScoredRow], draws: Draws = DRAWS, cluster_field: str = "") -> Table:
    """Returns how well verdicts agree with gold verdicts, in per cent with intervals.

    A claim that cannot be verified counts as NOT ENOUGH INFO (Gupta 2022, section 5.3), and if a
    gold verdict is UNSUPPORTED, all verdicts but SUPPORTS count as that. If there are verifiable
    and other claims, the table also says how well the two are told apart. The bootstrap draws
    together the claims of a response, which must be adjacent, or all rows with the same value of
    `cluster_field`. Claims without a gold verdict are left out; without others, the table is empty.

    Raises:
      InputError: a row lacks the cluster field.
    """
    pairs: dict[tuple[str, str], list[tuple[str, str, Hashable]]] = {}
    for key, claims in itertools.groupby(rows, _response_key):
        for place, (fields, name) in enumerate((row["fields"], row["id"]) for row in claims):
            for unit, gold, call_field in (
                ("responses", GOLD_RESPONSE, VERDICT),
                ("claims", GOLD, "verdict"),
            ):
                if not (right := fields.get(gold)) or (unit == "responses" and place):
                    continue
                if cluster_field and cluster_field not in fields:
                    raise InputError(f"{name}: the row has no field {cluster_field!r}.")
                group = fields[cluster_field] if cluster_field else key
                triples = pairs.setdefault((fields.get("system", ""), unit), [])
                triples.append((right, fields[call_field], group))
    table_rows, tidy = [], []
    for (system, unit), triples in pairs.items():
        verdicts, called, groups = zip(*triples, strict=True)
        views: dict[str, Callable[[str], str]] = {"": lambda v: _IN_THREE.get(v, v)}
        if UNSUPPORTED in verdicts:  # the data distinguishes only two labels
            views = {"": lambda v: v if v == DialFactLabel.SUPPORTS else UNSUPPORTED}
        elif len({label == NOT_VERIFIABLE for label in verdicts}) > 1:
            views[", verifiable or not"] = lambda v: _KINDS[v != NOT_VERIFIABLE]
        for suffix, view in views.items():
            labels, calls = (list(map(view, side)) for side in (verdicts, called))
            (_, accuracy), (_, macro), *classes = call_figures(labels, calls, draws, groups).items()
            named = [(f"accuracy{suffix}", accuracy), (f"macro F1{suffix}", macro)]
            for name, figure in [*named, *((f"F1 {of}", of_class) for of, of_class in classes)]:
                table_rows.append((system, unit, len(triples), name, figure.text))
                tidy.append((system, unit, len(triples), name, figure.value, *figure.interval))
    columns = ("system", "of", "number", "figure", "%")
    first = 0 if any(system for system, _ in pairs) else 1  # drop an empty column of systems
    plain = Table("", (*columns[:-1], "value", "low", "high"), tuple(tidy))
    drawn = "groups" if cluster_field else "responses"
    notes = [interval_note(draws.confidence, draws.resamples, drawn)]
    if cluster_field:
        notes.append(f"Rows with the same {cluster_field} are drawn together.")
    return Table(
        "Verdicts against labels",
        columns[first:],
        tuple(row[first:] for row in table_rows),
        tuple(notes),
        plain,
    )


def _response_key(row: ScoredRow) -> tuple[str, ...]:
    """Returns the fields that the claims of one response share; the last is its verdict."""
    fields = row["fields"]
    names = ("system", "replicate", "response_id", VERDICT)
    return (row["corpus"], *(fields.get(name, "") for name in names))


def _show_claims(rows: Sequence[ScoredRow], scorers: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yields the claims of a response, in the form that the page's template takes."""
    for row in rows:
        claim, history, is_first = row["generated_text"], row["history"], row is rows[0]
        stems = {word.stem for text in (claim, *history[-2:]) for word in content_words(text)}
        urls = json.loads(row["fields"].get("evidence_urls", "[]"))  # fields are texts
        places = itertools.zip_longest(row["perspectives"], urls, row["grounding"], fillvalue="")
        values = (row["scores"][name] for name in scorers)
        yield {
            "id": row["id"],
            "text": claim,
            "before": history if is_first else [],
            "verdict": row["fields"]["verdict"],
            "response": row["fields"].get(VERDICT, "") if is_first and len(rows) > 1 else "",
            "probabilities": " / ".join(f"{value:.2f}" for value in values if value is not None),
            "evidence": [
                {
                    "title": title,
                    "url": url if url.startswith(_URLS) else "",
                    "pieces": _mark_matching_words(text, stems),
                    "decides": text == row["fields"].get("decisive"),
                }
                for title, url, text in places
            ],
        }


def _mark_matching_words(text: str, stems: set[str]) -> list[tuple[str, bool]]:
    """Returns a text in pieces; words whose stem is in `stems` are marked.

    >>> _mark_matching_words("A cat sleeps.", {"cat"})
    [('A ', False), ('cat', True), (' sleeps.', False)]
    """
    pieces, end = list[tuple[str, bool]](), 0
    for word in content_words(text):
        if word.stem in stems:
            pieces += [(text[end : word.start], False), (text[word.start : word.end], True)]
            end = word.end
    return [piece for piece in (*pieces, (text[end:], False)) if piece[0]]
