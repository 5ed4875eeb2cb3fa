"""How far annotators of the same responses agree: on marks, on words, on arguments.

Whatever they say yes or no to is an item: a response has one item for each mark, and as many as it
has words or arguments for what they name in it. Intervals are of responses drawn with replacement.

>>> unit = RatedUnit([[True, False, False], [True, True, False]])  # two annotators, three words
>>> found = binary_agreement([unit], resamples=100)
>>> found.agreement.value, found.f1.value
(0.6666666666666666, 0.6666666666666666)
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faith_jax.evaluation.agreement import fleiss_kappa, krippendorff_alpha
from faith_jax.evaluation.bootstrap import Interval, percentile_interval, resampled_counts
from faith_jax.evaluation.dataset_statistics import Table
from faith_jax.evaluation.text_metrics import content_words

NONE = Interval(np.nan, np.nan)


class RatedUnit(NamedTuple):
    """What the annotators of one response say of its items.

    Attributes:
      ratings: [annotators, items], true = yes.
    """

    ratings: ArrayLike


class Figure(NamedTuple):
    """A figure with its interval; NaN = undefined."""

    value: float
    interval: Interval = NONE


class Agreement(NamedTuple):
    """How far annotators agree.

    Attributes:
      responses: how many have two annotators at least; all but the share of yes is of these.
      items: how many they have.
      yes_share: of all ratings, those of single annotators too.
      agreement: share of pairs of annotators that agree on an item, the mean over items.
      alpha: Krippendorff's, nominal.
      kappa: Fleiss'; NaN where responses have different numbers of annotators.
      f1: of what two annotators say yes to, over all pairs: 2 * both / (one + the other).
    """

    responses: int
    items: int
    yes_share: float
    agreement: Figure
    alpha: Figure
    kappa: Figure
    f1: Figure


def marked_words(text: str, spans: Sequence[Sequence[tuple[int, int]]]) -> RatedUnit:
    """Returns which content words of a response each annotator's spans meet.

    Args:
      text: the response; words are those of `faith_jax.evaluation.text_metrics.content_words`.
      spans: for each annotator, offsets of the first character and behind the last.

    >>> marked_words("Tea cures colds.", [[(4, 15)], [(4, 9)]]).ratings.tolist()
    [[False, True, True], [False, True, False]]
    """
    words = content_words(text)
    meets = [
        [any(word.start < end and start < word.end for start, end in found) for word in words]
        for found in spans
    ]
    return RatedUnit(np.array(meets, bool).reshape(len(spans), len(words)))


def binary_agreement(
    units: Sequence[RatedUnit],
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """Returns how far annotators agree on a yes or no.

    Args:
      units: of all responses.
      resamples: of the bootstrap over responses with two annotators at least.
      confidence: of the intervals.
      seed: the same seed draws the same responses, whatever is rated.

    Returns:
      Figures that are undefined are NaN: alpha and kappa where all say the same of everything, F1
      where nobody says yes, and all of them where no response has two annotators.
    """
    tables = [np.asarray(unit.ratings, bool) for unit in units]
    several = [table for table in tables if len(table) > 1]
    ratings = sum(table.size for table in tables)
    yes_share = sum(int(table.sum()) for table in tables) / ratings if ratings else np.nan
    items = sum(table.shape[1] for table in several)
    if not items:
        undefined = Figure(np.nan)
        return Agreement(len(several), 0, yes_share, *[undefined] * 4)
    raters = {len(table) for table in several}
    sums = np.stack([_sums(table) for table in several], axis=1)
    drawn = sums @ resampled_counts(len(several), resamples, seed).astype(np.float64)
    values = _figures(sums.sum(axis=1), len(raters) == 1) | {
        "alpha": krippendorff_alpha(_side_by_side(several, max(raters)))
    }
    if len(raters) == 1:
        values["kappa"] = fleiss_kappa(_category_counts(several))
    with np.errstate(divide="ignore", invalid="ignore"):
        resampled = _figures(drawn, len(raters) == 1)
    figures = {
        name: Figure(float(value), percentile_interval(resampled[name], confidence))
        for name, value in values.items()
    }
    return Agreement(len(several), items, yes_share, **figures)


def _sums(table: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Returns what all figures are made of, each a sum over the items of one response.

    They are: items, yes, no, agreeing pairs over pairs, disagreeing pairs over others, pairs that
    both say yes, and yes of either in all pairs.
    """
    raters = len(table)
    yes = table.sum(axis=0).astype(np.float64)
    no = raters - yes
    others = raters - 1
    agreeing = (yes * (yes - 1) + no * (no - 1)) / (raters * others)
    both, either = yes * (yes - 1) / 2, yes * others
    parts = (np.ones_like(yes), yes, no, agreeing, yes * no / others, both, either)
    return np.array([part.sum() for part in parts])


def _figures(sums: NDArray[np.float64], same_raters: bool) -> dict[str, Any]:
    """Returns the figures of summed parts, [7] or [7, resamples]."""
    items, yes, no, agreeing, disagreeing, both, either = np.asarray(sums, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        agreement = agreeing / items
        total = yes + no
        alpha = 1 - (total - 1) * disagreeing / (yes * no)
        chance = (yes / total) ** 2 + (no / total) ** 2
        kappa = (agreement - chance) / (1 - chance)
        f1 = 2 * both / either
    mixed = (yes > 0) & (no > 0)
    return {
        "agreement": agreement,
        "alpha": np.where(mixed, alpha, np.nan),
        "kappa": np.where(mixed & same_raters, kappa, np.nan),
        "f1": f1,
    }


def _side_by_side(tables: Sequence[NDArray[np.bool_]], raters: int) -> list[list[bool | None]]:
    """Returns ratings as `krippendorff_alpha` takes them; which annotator is which is no matter."""
    rows: list[list[bool | None]] = [[] for _ in range(raters)]
    for table in tables:
        for place, row in enumerate(rows):
            row += table[place].tolist() if place < len(table) else [None] * table.shape[1]
    return rows


def _category_counts(tables: Sequence[NDArray[np.bool_]]) -> NDArray[np.int64]:
    """Returns how many say no and yes to each item: [items, 2]."""
    yes = np.concatenate([table.sum(axis=0) for table in tables])
    return np.stack([len(tables[0]) - yes, yes], axis=1)


def agreement_rows(
    marks: Mapping[str, Agreement], named: Mapping[str, Agreement], confidence: float
) -> Table:
    """Returns the figures as a table.

    Args:
      marks: by what is answered with yes or no.
      named: by what is named in responses, such as words of spans, for which there is an F1.
      confidence: of the intervals.
    """
    rows = []
    for name, found in {**marks, **named}.items():
        f1 = _shown(found.f1, 1) if name in named else ""
        counts = (found.responses, found.items if name in named else "")
        shares = (_percent(found.yes_share), _shown(found.agreement, 100))
        rows.append((name, *counts, *shares, _shown(found.alpha), _shown(found.kappa), f1))
    columns = ("", "responses", "items", "yes %", "agreement %", "alpha", "kappa", "F1")
    title = f"Agreement of annotators, with {100 * confidence:g}% bootstrap intervals"
    return Table(title, columns, tuple(rows))


def _percent(share: float) -> str:
    return "\u2013" if np.isnan(share) else f"{100 * share:.1f}"


def _shown(figure: Figure, scale: int = 1) -> str:
    digits = 2 if scale == 1 else 1
    if np.isnan(figure.value):
        return "\u2013"
    low, high = figure.interval
    ends = "" if np.isnan(low) else f" [{scale * low:.{digits}f}, {scale * high:.{digits}f}]"
    return f"{scale * figure.value:.{digits}f}{ends}"


def agreement_figures(found: Agreement) -> dict[str, Any]:
    """Returns the figures as JSON has them, undefined ones as null."""
    told: dict[str, Any] = {"responses": found.responses, "items": found.items}
    told["yes_share"] = _number(found.yes_share)
    for name in ("agreement", "alpha", "kappa", "f1"):
        value, interval = getattr(found, name)
        told[name] = _number(value)
        told[f"{name}_interval"] = [_number(end) for end in interval]
    return told


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
