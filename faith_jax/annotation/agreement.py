"""Agreement between annotators of the same responses: on errors, on words, on arguments.

An item is anything that annotators say yes or no to: a response has one item per error, and one per
word or argument that they may name. Ratings of a response are a boolean array [annotators, items].
Intervals come from drawing responses with replacement.

>>> ratings = [[True, False, False], [True, True, False]]  # two annotators, three words
>>> found = binary_agreement([ratings], resamples=100)
>>> found.agreement, found.f1
(0.6666666666666666, 0.6666666666666666)
"""

import collections
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faith_jax.annotation.marks import Annotations, Span
from faith_jax.annotation.sheets import ERRORS, FULL_ERRORS
from faith_jax.core.errors import pluralize
from faith_jax.core.table import Table, plain
from faith_jax.statistics.bootstrap import Draws, bootstrap, interval_note
from faith_jax.statistics.texts.text_metrics import content_words

Interval = tuple[float | None, float | None]
_NO_INTERVAL: Interval = (None, None)
_FIGURES = ("agreement", "alpha", "kappa", "f1")
_PUBLISHED = (
    "Chang 2024, section 4.1.1 (another model's responses, 5 of 10 annotators each): alpha 0.60 "
    "for hallucination, 0.73 for coverage."
)


@dataclasses.dataclass(frozen=True)
class Agreement:
    """The agreement of annotators, with the ends of bootstrap intervals; None = undefined.

    Attributes:
      responses: number with at least two annotators; all figures but `yes_share` are of these.
      items: number of items in these responses.
      yes_share: share of yes among all ratings, including responses with a single annotator.
      agreement: share of pairs of annotators that agree on an item, the mean over items.
      alpha: Krippendorff's (2011), nominal: at most 1, 0 = agreement by chance. None if all ratings
        are the same.
      kappa: Fleiss' (1971), on the same scale; None also if responses have different numbers of
        annotators.
      f1: F1 between the items that two annotators say yes to, over all pairs: 2 * both / (one + the
        other). None if nobody says yes.
    """

    responses: int
    items: int
    yes_share: float | None
    agreement: float | None = None
    agreement_interval: Interval = _NO_INTERVAL
    alpha: float | None = None
    alpha_interval: Interval = _NO_INTERVAL
    kappa: float | None = None
    kappa_interval: Interval = _NO_INTERVAL
    f1: float | None = None
    f1_interval: Interval = _NO_INTERVAL


def marked_words(text: str, spans: Sequence[Iterable[Span]]) -> NDArray[np.bool_]:
    """Returns which content words each annotator's spans overlap: bool [annotators, words].

    >>> marked_words("Tea cures colds.", [[(4, 15)], [(4, 9)]]).tolist()
    [[False, True, True], [False, True, False]]
    """
    words = content_words(text)
    meets = [
        [
            any(word.start < end and start < word.end for start, end in annotator_spans)
            for word in words
        ]
        for annotator_spans in spans
    ]
    return np.array(meets, bool).reshape(len(spans), len(words))


def binary_agreement(
    ratings: Sequence[ArrayLike], resamples: int = 1000, confidence: float = 0.95, seed: int = 0
) -> Agreement:
    """Returns how far annotators agree on yes-or-no ratings.

    `ratings` holds a boolean array [annotators, items] for each response. The bootstrap draws
    responses with at least two annotators; the same seed draws the same responses for any ratings.
    """
    tables = [np.asarray(table, bool) for table in ratings]
    several = [table for table in tables if len(table) > 1]
    size = sum(table.size for table in tables)
    yes_share = sum(int(table.sum()) for table in tables) / size if size else None
    items = sum(table.shape[1] for table in several)
    if not items:
        return Agreement(len(several), 0, yes_share)
    # The terms of all figures, each a sum over the items of a response: items, yes, no, agreeing
    # pairs / pairs, disagreeing pairs / (raters - 1), pairs where both say yes, and the yes answers
    # of both raters in all pairs.
    sums = []
    for table in several:
        raters, other_raters = len(table), len(table) - 1
        yes = table.sum(axis=0).astype(np.float64)
        no = raters - yes
        agreeing = (yes * (yes - 1) + no * (no - 1)) / (raters * other_raters)
        parts = (np.ones_like(yes), yes, no, agreeing, yes * no / other_raters)
        sums.append([part.sum() for part in (*parts, yes * (yes - 1) / 2, yes * other_raters)])
    by_response = np.stack(sums, axis=1)
    same_raters = len({len(table) for table in several}) == 1

    def compute_figures(weights: NDArray[Any]) -> NDArray[np.float64]:
        """Returns `_FIGURES` [4, draws] of responses with weights [draws, responses]."""
        items, yes, no, agreeing, disagreeing, both_yes, either = by_response @ weights.T
        total = yes + no
        with np.errstate(divide="ignore", invalid="ignore"):
            agreement = agreeing / items
            alpha = 1 - (total - 1) * disagreeing / (yes * no)
            chance = (yes / total) ** 2 + (no / total) ** 2
            kappa = (agreement - chance) / (1 - chance)
            f1 = 2 * both_yes / either
        mixed = (yes > 0) & (no > 0)
        alpha = np.where(mixed, alpha, np.nan)
        kappa = np.where(mixed & same_raters, kappa, np.nan)
        return np.stack([agreement, alpha, kappa, f1])

    drawn = bootstrap(
        compute_figures,
        len(several),
        Draws(resamples, confidence, seed),
        # All at once: computing in parts would change the last bits of the sums.
        cells=resamples * len(several),
    )
    figures: dict[str, Any] = {}
    for name, (value, interval) in zip(_FIGURES, drawn, strict=True):
        figures |= {name: plain(value), f"{name}_interval": tuple(plain(interval))}
    return Agreement(len(several), items, yes_share, **figures)


def agreement_table(
    annotations: Annotations, resamples: int = 1000, confidence: float = 0.95, seed: int = 0
) -> tuple[Table, dict[str, Any]]:
    """Returns how far the annotators of sheets agree, as a table and as a JSON object."""
    settings = (resamples, confidence, seed)
    questions: dict[str, tuple[str, ...]] = {error: (error,) for error in ERRORS}
    questions |= {"any full error": FULL_ERRORS, "any error": ERRORS}
    groups = annotations.by_id().values()
    marks = {
        name: binary_agreement(
            [[[any(mark.answers[e] for e in errors)] for mark in marks] for marks in groups],
            *settings,
        )
        for name, errors in questions.items()
    }
    named = {
        name: binary_agreement(units, *settings)
        for name, units in _rate_named_items(annotations).items()
    }
    rows = []
    for name, agreement in {**marks, **named}.items():
        yes = "\u2013" if agreement.yes_share is None else f"{100 * agreement.yes_share:.1f}"
        agreed = _format_figure(agreement.agreement, agreement.agreement_interval, "{:.1f}", 100)
        chance = (
            _format_figure(agreement.alpha, agreement.alpha_interval),
            _format_figure(agreement.kappa, agreement.kappa_interval),
        )
        items, f1 = (
            (agreement.items, _format_figure(agreement.f1, agreement.f1_interval))
            if name in named
            else ("", "")
        )
        rows.append((name, agreement.responses, items, yes, agreed, *chance, f1))
    columns = ("", "responses", "items", "yes %", "agreement %", "alpha", "kappa", "F1")
    title = f"Agreement of annotators, with {100 * confidence:g}% bootstrap intervals"
    notes = _compose_table_notes(
        annotations, marks["hallucination"].responses, resamples, confidence
    )
    return Table(title, columns, tuple(rows), notes), {
        "title": title,
        "notes": list(notes),
        "annotators": list(annotations.annotators()),
        "rows": len(annotations.marks),
        "not_annotated": len(annotations.empty),
        "resamples": resamples,
        "confidence": confidence,
        "seed": seed,
        "marks": {name: dataclasses.asdict(agreement) for name, agreement in marks.items()},
        "named": {name: dataclasses.asdict(agreement) for name, agreement in named.items()},
    }


def _rate_named_items(annotations: Annotations) -> dict[str, list[ArrayLike]]:
    """Returns ratings of the items that annotators name: words in spans, and arguments left out."""
    units: dict[str, list[ArrayLike]] = collections.defaultdict(list)
    for identifier, marks in annotations.by_id().items():
        example, named = annotations.examples[identifier], [mark.named for mark in marks]
        full = [by_error["hallucination"] for by_error in named]
        full_or_partial = [
            by_error["hallucination"] + by_error["partial_hallucination"] for by_error in named
        ]
        units["unsupported words"].append(marked_words(example.response, full))
        units["unsupported or partial words"].append(
            marked_words(example.response, full_or_partial)
        )
        labels = example.grounding.labels()
        missing = [[label in by_error["coverage"] for label in labels] for by_error in named]
        units["missing arguments"].append(missing)
    return units


def _compose_table_notes(
    annotations: Annotations, responses: int, resamples: int, confidence: float
) -> tuple[str, ...]:
    numbers = collections.Counter(len(group) for group in annotations.by_id().values())
    listed = ", ".join(
        f"{pluralize(count, 'response')} marked by {number}"
        for number, count in sorted(numbers.items(), reverse=True)
    )
    notes = [f"{pluralize(len(annotations.annotators()), 'annotator')}: {listed}."]
    if annotations.empty:
        notes.append(f"Not annotated yet: {pluralize(len(annotations.empty), 'row')}.")
    if not responses:
        return (*notes, "No response has two annotators, without whom there is no agreement.")
    notes.append(
        "yes %: of all ratings; the rest is of responses with two annotators or more. agreement %: "
        "pairs of annotators that say the same. Words are content words of the response."
    )
    if len(set(numbers) - {1}) > 1:
        notes.append("No Fleiss' kappa: responses have different numbers of annotators.")
    notes.append(interval_note(confidence, resamples, pluralize(responses, "response")))
    return (*notes, _PUBLISHED)


def _format_figure(
    value: float | None, interval: Interval, form: str = "{:.2f}", scale: int = 1
) -> str:
    if value is None:
        return "\u2013"
    ends = ", ".join(form.format(scale * end) for end in interval if end is not None)
    return form.format(scale * value) + (f" [{ends}]" if ends else "")
