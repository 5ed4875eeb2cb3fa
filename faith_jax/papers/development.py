"""Protocols that choose thresholds on a development part."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from faith_jax.core.errors import ConfigError, InputError, pluralize
from faith_jax.runs.options import SPLIT, EvaluateOptions
from faith_jax.runs.scores.protocols import chosen_corpora
from faith_jax.statistics.scored_corpora import Corpus, only_fields, row_notes


class Parts(NamedTuple):
    """The scored development and test parts, and notes on how they were parted."""

    development: Corpus
    test: Corpus
    notes: tuple[str, ...]


def development_and_test(files: Sequence[str], options: EvaluateOptions, *fields: str) -> Parts:
    """Reads the test files and the development part that the options name.

    Args:
      files: of the test part.
      options: with `development`, a file, or "split" for a random half of the rows.
      fields: of the rows, that are kept; "" = none.

    Raises:
      ConfigError: there is no development part, or it has other scorers than the test part.
      InputError: a part has several corpora.
    """
    if not options.development:
        raise ConfigError(
            f"--protocol={options.protocol} needs the scored development part: give "
            f"--development=FILE, or --development={SPLIT} to choose thresholds on a random half "
            "of the rows."
        )
    test = _read_corpus("the test files", files, options, fields)
    if options.development == SPLIT:
        order = np.random.default_rng(options.seed).permutation(len(test.ids))
        half = len(order) // 2
        sizes = f"{pluralize(half, 'row')}, tested on the other {len(order) - half:,}"
        note = f"Thresholds chosen on {sizes}: a random split with the seed {options.seed}."
        first, second = (test.part(np.sort(rows)) for rows in (order[:half], order[half:]))
        return Parts(first, second, (note,))
    development = _read_corpus(options.development, [options.development], options, fields)
    if set(development.scores) != set(test.scores):
        raise ConfigError(
            f"The development part has scores of {', '.join(development.scores)}, the test part of "
            f"{', '.join(test.scores)}."
        )
    named = {f"{development.name} (development)": development}
    return Parts(development, test, row_notes(named))


def _read_corpus(
    source: str, files: Sequence[str], options: EvaluateOptions, fields: Sequence[str]
) -> Corpus:
    corpora = chosen_corpora(files, options, only_fields(*fields))
    if len(corpora) > 1:
        raise InputError(f"{source}: expected one corpus, got {', '.join(corpora)}.")
    (corpus,) = corpora.values()
    return corpus


# The options that such protocols read.
THRESHOLD_OPTIONS = frozenset(
    ("development", "seed", "scorers", "ensemble", "histograms", "roc_curves")
)
