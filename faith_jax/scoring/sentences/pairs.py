"""The base of scorers of pairs of sentences: an NLI classifier, and the texts that it reads."""

import functools
from collections.abc import Sequence
from typing import Protocol, TypeVar, Unpack

from faith_jax.core.cutting import CutTokens
from faith_jax.inference.texts.text_pairs import PairRow
from faith_jax.scoring.base import ModelScorer
from faith_jax.scoring.nli import nli_label_numbers
from faith_jax.scoring.pair_classifier import ClassifierOptions, pair_classifier


class SentencePairs(Protocol):
    """The pairs of sentences that are read of an example."""

    @property
    def rows(self) -> list[PairRow]:
        """A row of each pair."""

    @property
    def cut(self) -> CutTokens:
        """How many tokens of all rows are cut."""


Pairs = TypeVar("Pairs", bound=SentencePairs)


class SentencePairScorer(ModelScorer[Pairs]):
    """A scorer that compares sentences by natural language inference.

    Args:
      model: a folder of an NLI classifier, or "mini_nli".
      labels: see `nli_label_numbers`.
      **options: see `ClassifierOptions`.

    Raises:
      ConfigError: without a model, and for a wrong option.
    """

    def __init__(
        self,
        model: str | None,
        labels: str | Sequence[str] | None,
        **options: Unpack[ClassifierOptions],
    ):
        order = functools.partial(nli_label_numbers, labels=labels)
        self._classify = pair_classifier(model, check_classes=order, **options)
        self._class_numbers = order(self._classify.label_names)

    def texts(self, row: Pairs) -> dict[str, str]:
        """Returns the first pair; none where there is no pair to read."""
        if not row.rows:
            return {}
        input_text = self._classify.encode.tokenizer.to_readable(row.rows[0].ids)
        return {f"pair 1 of {len(row.rows)}": input_text}
