"""A scorer in the shape of Hugging Face `evaluate`'s metrics."""

from collections.abc import Sequence
from typing import Any

from faith_jax.scoring.base import BaseScorer


class EvaluateMetric:
    """Collects predictions with their references, and computes a mean score.

    Args:
      scorer: from `faith_jax.load_scorer`.

    >>> from faith_jax import load_scorer
    >>> metric = EvaluateMetric(load_scorer("token_f1"))
    >>> metric.add_batch(predictions=["Tea is hot.", "No."], references=["Hot tea is.", "Yes."])
    >>> metric.compute()
    {'token_f1': 0.5, 'scores': [1.0, 0.0]}
    """

    def __init__(self, scorer: BaseScorer):
        self.scorer = scorer
        self._predictions: list[str] = []
        self._references: list[str | Sequence[str]] = []

    @property
    def name(self) -> str:
        """The scorer's name."""
        return self.scorer.card.name

    def add(self, *, prediction: str, reference: str | Sequence[str]) -> None:
        """Adds a response and its grounding, a text or several."""
        self.add_batch(predictions=[prediction], references=[reference])

    def add_batch(
        self, *, predictions: Sequence[str], references: Sequence[str | Sequence[str]]
    ) -> None:
        """Adds responses and as many groundings.

        Raises:
          ValueError: for lengths that differ.
        """
        if len(predictions) != len(references):
            raise ValueError(f"{len(predictions)} predictions, {len(references)} references.")
        self._predictions += predictions
        self._references += references

    def compute(
        self,
        *,
        predictions: Sequence[str] | None = None,
        references: Sequence[str | Sequence[str]] | None = None,
    ) -> dict[str, Any]:
        """Scores everything that was added, these too, and forgets it.

        Returns:
          The mean under the scorer's name, over scores that are defined (None where none is), and
          all `scores` in order, None where undefined.

        Raises:
          ValueError: for lengths that differ, and where nothing was added.
        """
        self.add_batch(predictions=predictions or [], references=references or [])
        if not self._predictions:
            raise ValueError("There are no predictions to score.")
        found = self.scorer.score(self._references, self._predictions)
        self._predictions, self._references = [], []
        scores = [None if score.value != score.value else score.value for score in found]
        defined = [score for score in scores if score is not None]
        mean = sum(defined) / len(defined) if defined else None
        return {self.name: mean, "scores": scores}
