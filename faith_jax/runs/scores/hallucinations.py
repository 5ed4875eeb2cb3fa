"""The protocol `hallucinations` of `faith-jax evaluate`: finds responses and characters.

As in RAGTruth (Niu 2024): precision, recall and F1 for hallucinated responses, and for the
characters that annotators marked. The marked characters of a row are in its field
`hallucinated_spans`, a JSON list of [start, end]; a response is hallucinated if its label is 0.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from faith_jax.core.errors import InputError, field_error
from faith_jax.core.table import DASH, Table, figure_text
from faith_jax.runs.options import EvaluateOptions
from faith_jax.runs.scores.balanced_accuracy import (
    COMMON_ROWS,
    parts_notes,
    read_parts,
    usable_parts,
)
from faith_jax.runs.scores.protocols import (
    Evaluation,
    EvaluationProtocol,
    cluster_fields,
    development_notes,
    half_notes,
    with_undefined_shares,
)
from faith_jax.statistics.auc_table import shared_scorers
from faith_jax.statistics.classification import best_threshold
from faith_jax.statistics.detection import (
    Span,
    called_spans,
    error_figures,
    merge_spans,
    shared_characters,
)
from faith_jax.statistics.intervals import method_note
from faith_jax.statistics.scored_corpora import OVERALL, Corpus, Kept
from faith_jax.statistics.units import units_of

SPANS = "hallucinated_spans"
RESPONSES, CHARACTERS = "responses", "characters"
_FIGURES = ("P", "R", "F1")
_SHARE = (0.0, 1.0)
_TIDY = ("of", "scorer", "figure", "value", "low", "high", "cut", "rows", "units")
_HALF = 0.5

# Thresholds by kind (responses, characters) and scorer.
Cuts = Mapping[tuple[str, str], float]


class _Counts(NamedTuple):
    """Counts in each row [rows] of responses or characters: called and true, called, and true."""

    hits: np.ndarray
    called: np.ndarray
    true: np.ndarray


def _marked_spans(corpus: Corpus) -> list[list[Span]]:
    """Returns the spans that annotators marked in each row, in order and without overlap.

    Raises:
      InputError: a row has no list, or a span that is not a [start, end] within the response.
    """
    rows = []
    for row, text in enumerate(corpus.field(SPANS)):
        place = f"{corpus.name}: row {corpus.ids[row]!r}"
        expected = "a JSON list of [start, end] within the response"
        try:
            spans = msgspec.json.decode(text, type=list[tuple[int, int]])
        except msgspec.MsgspecError:
            raise field_error(place, SPANS, expected, text) from None
        length = len(corpus.responses[row]) if corpus.responses else math.inf
        if any(not 0 <= start <= end <= length for start, end in spans):
            raise field_error(place, SPANS, expected, text)
        rows.append(merge_spans(spans))
    return rows


def _hallucination_table(
    parts: Mapping[str, Corpus], cuts: Cuts, options: EvaluateOptions
) -> Table:
    """Returns precision, recall and F1 of hallucinations in per cent, by part and overall.

    All rows of the parts are usable; scores below their cut are called hallucinated.
    """
    units = {name: units_of([corpus], options.cluster_field) for name, corpus in parts.items()}
    names = [*parts, *([OVERALL] if len(parts) > 1 else [])]
    # Numbers the units of all parts consecutively, since units of different parts are distinct.
    first, numbers = 0, {}
    for name, its_units in units.items():
        numbers[name] = its_units.numbers + first
        first += its_units.total
    lacking = _lacks_spans(parts)
    marked = {} if lacking else {name: _marked_spans(part) for name, part in parts.items()}
    table_rows, tidy = [], []
    for (kind, scorer), cut in cuts.items():
        counts, cells = dict[str, _Counts](), list[str]()
        if kind == RESPONSES:
            for name, part in parts.items():
                called, true = part.scores[scorer] < cut, part.labels == 0
                columns = (called & true, called, true)
                counts[name] = _Counts(*(column.astype(np.float64) for column in columns))
        elif marked and any(scorer in part.words for part in parts.values()):
            for name, part in parts.items():
                counts[name] = _character_counts(part, scorer, cut, marked[name])
        else:
            continue
        for name in names:
            part_names = [name] if name in parts else list(parts)
            hits, called, true = (
                np.concatenate(column)
                for column in zip(*(counts[n] for n in part_names), strict=True)
            )
            of_units = np.concatenate([numbers[n] for n in part_names])
            _, of_units = np.unique(of_units, return_inverse=True)
            estimates = error_figures(hits, called, true, of_units)
            for figure, estimate in zip(_FIGURES, estimates, strict=True):
                low, high = estimate.interval(options.confidence, _SHARE)
                percent = figure_text(100 * estimate.value, (100 * low, 100 * high), 1)
                cells.append(DASH if math.isnan(estimate.value) else percent)
                record = (f"{name} {figure}", estimate.value, low, high, cut)
                tidy.append((kind, scorer, *record, len(of_units), estimate.units))
        table_rows.append((kind, scorer, *cells))
    notes = [
        f"{RESPONSES}: hallucinated = label 0, and called so {_cuts_text(cuts, RESPONSES)}. "
        f"{CHARACTERS}: those that people marked, against those of words with scores "
        f"{_cuts_text(cuts, CHARACTERS)}."
    ]
    with_words = {scorer for kind, scorer, *_ in table_rows if kind == CHARACTERS}
    if without := [s for kind, s in cuts if kind == RESPONSES and s not in with_words]:
        reason = "the rows have no scores of its words"
        if lacking:
            reason = f"the rows of {', '.join(lacking)} have no field '{SPANS}'"
        notes.append(f"No row of {CHARACTERS} for {', '.join(without)}: {reason}.")
    notes += [method_note(options.confidence), *parts_notes(units, parts)]
    header = ("of", "scorer", *(f"{name} {figure}" for name in names for figure in _FIGURES))
    title = "Precision, recall and F1 of hallucinations in per cent"
    return Table(title, header, tuple(table_rows), tuple(notes), Table("", _TIDY, tuple(tidy)))


def _lacks_spans(parts: Mapping[str, Corpus]) -> list[str]:
    return [n for n, c in parts.items() if not any(SPANS in fields for fields in c.fields)]


def _character_counts(
    corpus: Corpus, scorer: str, cut: float, marked: Sequence[Sequence[Span]]
) -> _Counts:
    # In a row without scores of words, no characters are called.
    words = corpus.words.get(scorer, ((),) * len(corpus.ids))
    texts = corpus.responses or ("",) * len(corpus.ids)
    called = [called_spans(row, text, cut) for row, text in zip(words, texts, strict=True)]
    hits = [shared_characters(*spans) for spans in zip(called, marked, strict=True)]
    lengths = (
        [sum(end - start for start, end in row) for row in rows] for rows in (called, marked)
    )
    return _Counts(*(np.array(column, np.float64) for column in (hits, *lengths)))


def _cuts_text(cuts: Cuts, kind: str) -> str:
    by_scorer = {scorer: cut for (of, scorer), cut in cuts.items() if of == kind}
    if set(by_scorer.values()) <= {_HALF}:
        return "below 0.5"
    # A tuned cut is just above the tuned score, so this shows the score.
    texts = (
        f"below 0.5 by {scorer}"
        if cut == _HALF
        else f"up to {np.nextafter(cut, -math.inf):.6g} by {scorer}"
        for scorer, cut in by_scorer.items()
    )
    return f"{', '.join(texts)}, tuned on the development part by F1"


def _word_cut(development: Mapping[str, Corpus], scorer: str) -> float:
    """Returns the cut of words' scores with the best F1 of characters; 0.5 if there is none."""
    if _lacks_spans(development):
        return _HALF
    words, total = [], 0
    for corpus in development.values():
        rows = zip(corpus.words.get(scorer, ()), _marked_spans(corpus), strict=False)
        for row, marked in rows:
            total += sum(end - start for start, end in marked)
            words += [
                (score, end - start, shared_characters([(start, end)], marked))
                for start, end, score, text in row
                if text is None
            ]
    if not words or not total:
        return _HALF
    scores, lengths, hits = np.array(sorted(words)).T
    # Words with equal scores are called together, so a cut can only follow the last of them.
    ends = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))
    f1 = 2 * np.cumsum(hits)[ends] / (np.cumsum(lengths)[ends] + total)
    return _just_above(scores[ends][np.argmax(f1)])


def _just_above(score: float) -> float:
    """Returns the smallest cut that calls this score, and no larger score."""
    return float(np.nextafter(score, math.inf))


def _read_parts(files: Sequence[str], options: EvaluateOptions) -> dict[str, Corpus]:
    names = (*cluster_fields(options), options.slice_field, SPANS)
    return read_parts(files, options, Kept(groundings=False, fields=tuple(filter(None, names))))


def _evaluate_hallucinations(files: Sequence[str], options: EvaluateOptions) -> Evaluation:
    parts = _read_parts(files, options)
    scorers = shared_scorers(parts)
    cuts = {(kind, s): _HALF for kind in (RESPONSES, CHARACTERS) for s in scorers}
    tuning_notes: tuple[str, ...] = ()
    if options.development:
        development = _read_parts([options.development], options)
        for name, corpus in development.items():
            if missing := [scorer for scorer in scorers if scorer not in corpus.scores]:
                raise InputError(f"--development: {name} has no scores of {missing[0]!r}.")
        tuning = {name: corpus.only(scorers) for name, corpus in development.items()}
        tuning_notes = development_notes(tuning, options)
        development = usable_parts(development, scorers, options)
        for scorer in scorers:
            values = np.concatenate([c.scores[scorer] for c in development.values()])
            labels = np.concatenate([c.labels for c in development.values()])
            # With negated scores, hallucinated is class 1, which is called from a threshold up.
            cut = -best_threshold(-values, 1 - labels)
            if math.isnan(cut):
                raise InputError(
                    f"--development: all rows with scores of {scorer!r} have one label."
                )
            cuts[RESPONSES, scorer] = _just_above(cut)
            cuts[CHARACTERS, scorer] = _word_cut(development, scorer)
    table = _hallucination_table(usable_parts(parts, scorers, options), cuts, options)
    table = table._replace(notes=(*table.notes, *tuning_notes))
    if not options.development:
        remedy = "; --development=FILE, the scored development part, chooses one"
        table = table._replace(notes=(*table.notes, *half_notes(parts, remedy)))
    outcome = Evaluation(table, {"rows": table.records()}, parts)
    return with_undefined_shares(outcome, COMMON_ROWS, options)


HALLUCINATIONS = EvaluationProtocol(
    _evaluate_hallucinations,
    frozenset(
        ("development", "slice_field", "cluster_field", "undefined", "confidence", "scorers")
        + ("ensemble", "histograms", "roc_curves")
    ),
)
