"""Protocols that choose thresholds on a development part."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from faith_jax.core.errors import ConfigError, InputError, pluralize
from faith_jax.runs.options import SPLIT, EvaluateOptions
from faith_jax.runs.scores.protocols import chosen_corpora, development_notes
from faith_jax.statistics.scored_corpora import Corpus, only_fields
from faith_jax.statistics.units import units_of


class Parts(NamedTuple):
    """The scored development and test parts, and notes on the split."""

    development: Corpus
    test: Corpus
    notes: tuple[str, ...]


def development_and_test(files: Sequence[str], options: EvaluateOptions, *fields: str) -> Parts:
    """Reads the test files and the development part that the options name.

    Args:
      files: files of the test part.
      options: with `development`, a file, or "split" for a random half of the rows, where rows of a
        unit stay together; see `faith_jax.statistics.units.units_of`.
      fields: names of the rows' fields to keep; empty names are ignored.

    Raises:
      ConfigError: if there is no development part, or it has other scorers than the test part.
      InputError: if a part has several corpora, or the rows are a single unit.
    """
    if not options.development:
        raise ConfigError(
            f"--protocol={options.protocol} needs the scored development part: give "
            f"--development=FILE, or --development={SPLIT} to choose thresholds on a random half "
            "of the rows."
        )
    test = _read_corpus("the test files", files, options, fields)
    if options.development == SPLIT:
        # Keep a document's rows together, or thresholds would be tested on documents they know.
        units = units_of([test], options.cluster_field)
        if units.total < 2:
            shared = f" with the same {units.field}" if units.field else ""
            rows = pluralize(len(test.ids), "row")
            raise InputError(
                f"--development={SPLIT}: {rows}{shared} cannot be divided; give --development=FILE."
            )
        order = np.random.default_rng(options.seed).permutation(units.total)
        is_first = np.isin(units.numbers, order[: units.total // 2])
        first, second = test.part(is_first), test.part(~is_first)
        sizes = f"{pluralize(len(first.ids), 'row')}, tested on the other {len(second.ids):,}"
        whole = f", in which rows with the same {units.field} stay together" if units.field else ""
        note = f"Thresholds chosen on {sizes}: a random split with the seed {options.seed}{whole}."
        return Parts(first, second, (note,))
    development = _read_corpus(options.development, [options.development], options, fields)
    if set(development.scores) != set(test.scores):
        raise ConfigError(
            f"The development part has scores of {', '.join(development.scores)}, the test part of "
            f"{', '.join(test.scores)}."
        )
    return Parts(development, test, development_notes({development.name: development}, options))


def _read_corpus(
    source: str, files: Sequence[str], options: EvaluateOptions, fields: Sequence[str]
) -> Corpus:
    corpora = chosen_corpora(files, options, only_fields(*fields))
    if len(corpora) > 1:
        raise InputError(f"{source}: expected one corpus, got {', '.join(corpora)}.")
    (corpus,) = corpora.values()
    return corpus


# The options of protocols with a development part.
THRESHOLD_OPTIONS = frozenset(
    ("development", "seed", "scorers", "ensemble", "histograms", "roc_curves")
)
