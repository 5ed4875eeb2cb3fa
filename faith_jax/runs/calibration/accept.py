"""The run `accept`: decides about new rows by a calibration, and tests whether they resemble it."""

import dataclasses
import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from faith_jax.core.errors import ConfigError, did_you_mean, pluralize
from faith_jax.core.files import atomic_file, report_write_errors, reserve_outputs
from faith_jax.core.files.stores import path_of
from faith_jax.core.files.whole import json_text
from faith_jax.core.table import Table
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.report.table_pages import render_table
from faith_jax.runs.calibration.options import AcceptOptions
from faith_jax.runs.calibration.stored import (
    ABSTAIN,
    DECISIONS,
    Calibration,
    Decider,
    check_range,
    mix_of,
    read_calibration,
    read_scores,
)
from faith_jax.statistics.calibration.drift import compare_scores, compare_shares, detectable_share
from faith_jax.statistics.calibration.guarantees import one_row_of_each
from faith_jax.statistics.intervals import p_value_text
from faith_jax.statistics.scored_corpora import Corpus, pool_corpora
from faith_jax.statistics.units import units_of

logger = logging.getLogger("faith_jax")

# The name, in comparisons of scores, for all corpora that pooled thresholds decide about.
_POOLED = "all together"
_COLUMNS = ("corpus", "rows", *DECISIONS, "a change of the scores")
_NOTICED = (
    "A change of the scores is looked for by the two-sample test of Kolmogorov and Smirnov, with "
    "one row of each group. Low scores are those of the calibration's lowest tenth: where so many "
    "new rows have them, the test finds it four times in five."
)


@reserve_outputs(
    lambda options: ([*options.files, options.calibration], {"--output": options.output})
)
def accept(options: AcceptOptions) -> str:
    """Decides about the rows of scored files, writes them, and returns a table as text.

    Raises:
      FaithJaxError: for a bad or missing file, wrong options, or if the calibration covers no
        corpus of the files.
    """
    calibration = read_calibration(path_of(options.calibration))
    field = options.cluster_field or calibration.cluster_field
    corpora, scorer = read_scores(options.files, calibration.scorer, field)
    low = -math.inf if calibration.low is None else calibration.low
    high = math.inf if calibration.high is None else calibration.high
    for corpus in corpora.values():
        check_range(corpus, low, high)
    deciders = _choose_deciders(calibration, options, list(corpora))
    # By corpus: counts of decisions, and of decisions with labels, such as "accept 0".
    counts = {name: Counter[str]() for name in corpora}
    with report_write_errors(options.output), atomic_file(options.output) as beside:
        with open(beside, "w", encoding="utf-8") as file:
            for path in options.files:
                for row in read_scored_rows(path_of(path), [scorer]):
                    decider, score = deciders[row["corpus"]], row["scores"][scorer]
                    decision, probability = ABSTAIN, None
                    if isinstance(decider, str):
                        reason = decider
                    elif score is None:
                        why = row["undefined"].get(scorer, "")
                        reason = f"the score is undefined{why and f': {why}'}"
                    else:
                        decision, reason = decider.decide(score)
                        probability = round(decider.probability(score), 6)
                    counts[row["corpus"]].update((decision, f"{decision} {row['label']}"))
                    row |= {"decision": decision, "probability": probability, "reason": reason}
                    file.write(json_text(row) + "\n")
        likenesses = _compare_with_calibration(options, corpora, deciders, field)
    cells, notes = [], []
    for name, count in counts.items():
        rows = sum(count[decision] for decision in DECISIONS)
        shares = (f"{count[decision]:,} ({count[decision] / rows:.0%})" for decision in DECISIONS)
        compared = _POOLED if options.pooled else name
        likeness = likenesses.get(compared) if isinstance(deciders[name], Decider) else None
        cells.append((name, rows, *shares, likeness.text if likeness else "not compared"))
        wrong, right = count["accept 0"], count["accept 1"]
        if wrong + right:
            notes.append(
                f"{name}: of {pluralize(wrong + right, 'accepted row')} with a label, {wrong:,} "
                f"({wrong / (wrong + right):.1%}) are unfaithful."
            )
    for likeness in likenesses.values():
        if likeness.alarm:
            logger.warning("%s", likeness.alarm)
    title = f"Decisions by {calibration.scorer}"
    notes = [*calibration.promises(), *notes, _NOTICED]
    return render_table(Table(title, _COLUMNS, tuple(cells), tuple(notes)))


def _choose_deciders(
    calibration: Calibration, options: AcceptOptions, names: Sequence[str]
) -> dict[str, Decider | str]:
    """Returns by corpus the decider about its rows, or the reason why there is none.

    Raises:
      ConfigError: nothing decides about any of the corpora.
    """
    by_corpus, where = calibration.corpora, options.calibration
    listed = ", ".join(by_corpus) or "all corpora together (--pooled)"
    if options.pooled:
        if calibration.pooled is None:
            raise ConfigError(f"--pooled: {where} has no pooled thresholds, only of {listed}.")
        pooled = calibration.pooled
        deciders: dict[str, Decider | str] = {
            name: pooled if name in pooled.mix else f"corpus {name!r} is none of the pooled ones"
            for name in names
        }
    elif options.corpus:
        if options.corpus not in by_corpus:
            reason = calibration.left_out.get(
                options.corpus, did_you_mean(options.corpus, by_corpus)
            )
            raise ConfigError(
                f"--corpus: {where} has no thresholds of {options.corpus!r}, only of {listed}. "
                f"{reason.strip()}".rstrip()
            )
        deciders = dict.fromkeys(names, by_corpus[options.corpus])
    else:
        deciders = {name: f"the calibration has no corpus {name!r}" for name in names}
        for name in names:
            if name in by_corpus:
                deciders[name] = by_corpus[name]
            elif name in calibration.left_out:
                reason = calibration.left_out[name]
                deciders[name] = f"corpus {name!r} has no thresholds: {reason}"
    if not any(isinstance(decider, Decider) for decider in deciders.values()):
        raise ConfigError(
            f"{where} decides about rows of {listed}, not of {', '.join(names)}. If these are rows "
            "of the same kind, from the same system, say so by "
            f"--corpus={next(iter(by_corpus)) if len(by_corpus) == 1 else 'NAME'}."
        )
    return deciders


class _Likeness(NamedTuple):
    """Whether new scores look like a calibration's."""

    text: str  # for the table
    alarm: str = ""  # a warning; "" = no change was found


def _compare_with_calibration(
    options: AcceptOptions,
    corpora: Mapping[str, Corpus],
    deciders: Mapping[str, Decider | str],
    field: str,
) -> dict[str, _Likeness]:
    """Returns whether scores resemble the calibration's, by corpus or for pooled ones together."""
    # `pool_corpora` leaves out rows without a label, so every row gets one.
    covered = [
        dataclasses.replace(corpus, labels=np.zeros(len(corpus.ids)))
        for corpus in corpora.values()
        if isinstance(deciders[corpus.name], Decider)
    ]
    covered = [corpus.part(corpus.usable()) for corpus in covered]
    groups = {_POOLED: covered} if options.pooled else {c.name: [c] for c in covered}
    likenesses = {}
    for name, members in groups.items():
        decider = deciders[members[0].name]
        new = pool_corpora(name, members)
        if isinstance(decider, str) or not new.ids:
            continue
        drawn = one_row_of_each(units_of([new], field).numbers, options.seed)
        (scores,) = new.scores.values()
        reference = np.array(decider.sample)
        p_value = compare_scores(reference, scores[drawn]).p_value
        mix = mix_of(members, drawn)
        mix_names = sorted({*decider.mix, *mix})
        mix_counts = [np.array([rows.get(n, 0) for n in mix_names]) for rows in (decider.mix, mix)]
        if p_value <= options.alarm:
            chance = p_value_text(p_value)
            likenesses[name] = _Likeness(
                f"FOUND ({chance})",
                f"{name}: the scores do not look like those of the calibration ({chance}): do not "
                "rely on the guarantee; label some of these rows and calibrate again.",
            )
        elif options.pooled and (mix_p_value := compare_shares(*mix_counts)) <= options.alarm:
            chance = p_value_text(mix_p_value)
            likenesses[name] = _Likeness(
                f"FOUND: another mix ({chance})",
                f"{name}: the rows are another mix of corpora than the calibration's ({chance}), "
                "for which the pooled guarantee does not hold; decide by the threshold of each "
                "corpus, without --pooled.",
            )
        else:
            share = detectable_share(reference, drawn.size, options.alarm, seed=options.seed)
            power = f"{share:.0%} low scores would be"
            if math.isnan(share):
                power = "of so few rows, none would be"
            likenesses[name] = _Likeness(f"none found ({p_value_text(p_value)}; {power})")
    return likenesses
