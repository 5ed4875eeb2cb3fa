"""Scorers of sequence classifiers: natural language inference, and FaithDial's critic."""

import functools
import math
from collections.abc import Sequence

import numpy as np

from faith_jax.errors import ConfigError
from faith_jax.labels import NliLabel
from faith_jax.scoring.base import BaseScorer, joined
from faith_jax.scoring.classification import ClassificationEngine
from faith_jax.scoring.model_cards import FAITH_CRITIC, NLI
from faith_jax.scoring.models import (
    check_whole,
    open_classifier,
    open_tokenizer,
    require_model,
)
from faith_jax.scoring.text_pairs import PairEncoder, row_length
from faith_jax.types import GroundedExample, Score, ScorerCard

# Names of the critic's two classes in published checkpoints, lower case.
_FAITHFUL = ("entailment", "faithful", "non-hallucination", "yes")
_UNFAITHFUL = ("hallucination", "unfaithful", "not faithful", "no")


class PairClassifier:
    """The class probabilities of premises and hypotheses, remembered for the last ones.

    Several scorers of one run share it, so that the model runs once for all of them.

    Args:
      engine: of the model.
      encode: of the same model.
    """

    def __init__(self, engine: ClassificationEngine, encode: PairEncoder):
        self.engine, self.encode = engine, encode
        self._last: tuple[tuple[tuple[str, str], ...], tuple[np.ndarray, list[int]]]
        self._last = ((), (np.zeros((0, len(engine.model.label_names))), []))

    @property
    def label_names(self) -> tuple[str, ...]:
        """The classes, in order."""
        return self.engine.model.label_names

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> tuple[np.ndarray, list[int]]:
        """Returns the probabilities [pairs, classes] and how many tokens of each were cut."""
        key = tuple(pairs)
        if key != self._last[0]:
            rows = [self.encode(premise, hypothesis) for premise, hypothesis in pairs]
            probabilities = self.engine.probabilities([row.ids for row in rows])
            self._last = (key, (probabilities, [row.cut_tokens for row in rows]))
        return self._last[1]


class PairScorer(BaseScorer):
    """A scorer of class probabilities, with the grounding as the premise of the response.

    Args:
      card: what it declares.
      classify: shared by the scorers of a model.
      weights: the score is the sum of the class probabilities, each times its weight.
    """

    def __init__(self, card: ScorerCard, classify: PairClassifier, weights: np.ndarray):
        self.card, self._classify = card, classify
        self._weights = weights

    @property
    def num_compilations(self) -> int:
        """How many shapes the model was compiled for."""
        return self._classify.engine.num_compilations

    def score_examples(self, examples: Sequence[GroundedExample]) -> list[Score]:
        """Returns one score for each example, NaN where the response is empty."""
        scored = [e for e in examples if e.response.strip()]
        probabilities, cut = self._classify([(joined(e.grounding), e.response) for e in scored])
        values = iter(zip(probabilities @ self._weights, cut, strict=True))
        return [_score(next(values)) if e.response.strip() else Score(math.nan) for e in examples]


def _score(value_and_cut: tuple[float, int]) -> Score:
    value, cut = value_and_cut
    return Score(float(value), (), cut)


@functools.lru_cache(maxsize=8)
def pair_classifier(
    model: str,
    vocabulary: str | None,
    dtype: str | None,
    max_length: int | None,
    dropout_passes: int,
    seed: int,
    dropout_rate: float | None,
    tokens_per_batch: int | None,
) -> PairClassifier:
    """Opens a classifier of text pairs, once for all scorers with the same options."""
    opened = open_classifier(model, dtype)
    engine = ClassificationEngine(opened, dropout_passes, seed, dropout_rate, tokens_per_batch)
    limit = row_length(opened.config, max_length)
    tokenizer = open_tokenizer(model, vocabulary)
    return PairClassifier(engine, PairEncoder(tokenizer, opened.config.vocab_size, limit))


def check_numbers(
    max_length: int | None, dropout_passes: int, seed: int, tokens_per_batch: int | None
) -> None:
    """Checks the options of classifiers that are whole numbers.

    Raises:
      ConfigError: naming the option.
    """
    check_whole("max_length", max_length, 8)
    check_whole("dropout_passes", dropout_passes, 0)
    check_whole("seed", seed, 0)
    check_whole("tokens_per_batch", tokens_per_batch, 1)


def nli_label_numbers(
    names: Sequence[str], labels: str | Sequence[str] | None = None
) -> dict[NliLabel, int]:
    """Returns the number of each NLI class, by the checkpoint's own names for its classes.

    Args:
      names: the classes' names in the model's order (its config's `id2label`).
      labels: the order that is meant, if the names do not tell: "entailment,neutral,contradiction"
        or a list.

    Raises:
      ConfigError: where the order is not clear, or there are not three classes.

    >>> nli_label_numbers(["CONTRADICTION", "NEUTRAL", "ENTAILMENT"])[NliLabel.ENTAILMENT]
    2
    """
    if labels is not None:
        given = labels.split(",") if isinstance(labels, str) else labels
        if len(given) != len(names):
            raise ConfigError(
                f"labels: expected {len(names)}, one for each of the model's classes, got "
                f"{len(given)}."
            )
        names = given
    wanted = list(NliLabel)
    if len(names) != len(wanted):
        raise ConfigError(
            f"the model has {len(names)} classes ({', '.join(names)}); expected the three of "
            "natural language inference."
        )
    cleaned = [name.strip().lower() for name in names]
    found = {label: cleaned.index(label.value) for label in wanted if label.value in cleaned}
    if len(found) != len(wanted):
        raise ConfigError(
            f"the model's classes are named {', '.join(names)}; say their order with "
            "labels=entailment,neutral,contradiction (or another)."
        )
    return found


def nli_scorer(
    name: str,
    model: str | None = None,
    vocabulary: str | None = None,
    labels: str | None = None,
    max_length: int | None = None,
    dropout_passes: int = 0,
    seed: int = 0,
    dropout_rate: float | None = None,
    dtype: str | None = None,
    tokens_per_batch: int | None = None,
) -> PairScorer:
    """Returns a scorer of natural language inference.

    Args:
      name: "nli_entailment" or "nli_e_minus_c".
      model: a folder of a classifier with three classes, whose order is read from its config.
      vocabulary: where the tokenizer is, if not with the model.
      labels: see `nli_label_numbers`.
      max_length: tokens of a row; default: 512, or fewer where the positions end before.
      dropout_passes: k of Monte-Carlo dropout (Steen 2023, section 2.2: 15); 0 = none.
      seed: of the dropout.
      dropout_rate: of the dropout; None = as the model was trained.
      dtype: of activations.
      tokens_per_batch: see `ClassificationEngine`.

    Raises:
      ConfigError: without a model, and for a wrong option.
    """
    path = require_model(model)
    check_numbers(max_length, dropout_passes, seed, tokens_per_batch)
    classify = pair_classifier(
        path, vocabulary, dtype, max_length, dropout_passes, seed, dropout_rate, tokens_per_batch
    )
    numbers = nli_label_numbers(classify.label_names, labels)
    weights = np.zeros(len(numbers))
    weights[numbers[NliLabel.ENTAILMENT]] = 1.0
    if name == "nli_e_minus_c":
        weights[numbers[NliLabel.CONTRADICTION]] = -1.0
    return PairScorer(NLI[name], classify, weights)


def faith_critic_scorer(
    model: str | None = None,
    vocabulary: str | None = None,
    faithful_label: str | None = None,
    max_length: int | None = None,
    dropout_passes: int = 0,
    seed: int = 0,
    dropout_rate: float | None = None,
    dtype: str | None = None,
    tokens_per_batch: int | None = None,
) -> PairScorer:
    """Returns FaithDial's critic: the probability that the knowledge supports the response.

    Args:
      model: a folder of a classifier with two classes of (knowledge, response).
      vocabulary: where the tokenizer is, if not with the model.
      faithful_label: which of its classes means faithful; default: the one that is called so. The
        authors' checkpoint names its classes by number: 0 is faithful there (Entailment).
      max_length: as of `nli_scorer`, and so are the others.
      dropout_passes: see there.
      seed: see there.
      dropout_rate: see there.
      dtype: see there.
      tokens_per_batch: see there.

    Raises:
      ConfigError: without a model, and for a wrong option.
    """
    path = require_model(model)
    check_numbers(max_length, dropout_passes, seed, tokens_per_batch)
    classify = pair_classifier(
        path, vocabulary, dtype, max_length, dropout_passes, seed, dropout_rate, tokens_per_batch
    )
    weights = np.zeros(len(classify.label_names))
    weights[faithful_class(classify.label_names, faithful_label)] = 1.0
    return PairScorer(FAITH_CRITIC, classify, weights)


def faithful_class(names: Sequence[str], faithful_label: str | None = None) -> int:
    """Returns the number of the critic's class that means faithful.

    Raises:
      ConfigError: where there are not two classes, or the names do not tell.

    >>> faithful_class(["Hallucination", "Entailment"])
    1
    """
    if len(names) != 2:
        raise ConfigError(
            f"the model has {len(names)} classes ({', '.join(names)}); expected a critic's two."
        )
    cleaned = [name.strip().lower() for name in names]
    if faithful_label is not None:
        wanted = str(faithful_label).strip().lower()
        if wanted not in cleaned:
            raise ConfigError(f"faithful_label: {faithful_label!r} is none of {', '.join(names)}.")
        return cleaned.index(wanted)
    if cleaned == ["label_0", "label_1"]:
        return 0
    for number, name in enumerate(cleaned):
        if name in _FAITHFUL or cleaned[1 - number] in _UNFAITHFUL:
            return number
    raise ConfigError(
        f"the model's classes are named {', '.join(names)}; say which one means faithful with "
        "faithful_label=…."
    )
