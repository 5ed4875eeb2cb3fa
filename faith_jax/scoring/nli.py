"""Scorers that use sequence classifiers: natural language inference, and FaithDial's critic."""

import functools
from collections.abc import Callable, Sequence
from typing import TypeVar, Unpack

import numpy as np

from faith_jax.core import templates
from faith_jax.core.errors import ConfigError
from faith_jax.core.labels import DecodeLabel, NliLabel
from faith_jax.core.types import GroundedExample, ScorerCard
from faith_jax.inference.texts.text_pairs import (
    CRITIC_FORM,
    NLI_FORM,
    NOT_ENTAILED,
    LabelForm,
    PairRow,
)
from faith_jax.scoring.base import Judgement, ModelScorer, join_texts
from faith_jax.scoring.model_cards import CARDS
from faith_jax.scoring.pair_classifier import (
    ClassifierOptions,
    PairClassifier,
    PairRows,
    name_list,
    pair_classifier,
)

# The texts that an NLI model may read as the premise of a response.
PREMISES: dict[str, Callable[[GroundedExample], str]] = {
    "grounding": lambda example: join_texts(example.grounding),
    "last_turn": lambda example: " ".join(example.history[-1:]),
    # Speakers alternate, and the last turn is not by the responding speaker.
    "speaker_turns": lambda example: " ".join(example.history[::-1][1::2][::-1]),
}
# The tasks that a critic may have been trained for.
CRITIC_FORMS = {
    "critic": CRITIC_FORM,
    "nli": NLI_FORM,
    "decode": LabelForm(tuple(label.value for label in DecodeLabel), templates.nli_inputs),
}
# Names of the faithful and the unfaithful class in published checkpoints, in lower case.
_CLASSES = {
    "critic": (
        ("entailment", "faithful", "non_hallucination", "yes"),
        ("hallucination", "unfaithful", "not_faithful", "no"),
    ),
    "decode": (("not_contradiction", "non_contradiction"), ("contradiction",)),
}


class _PairScorer(ModelScorer[PairRow]):
    """Scores a response, with the grounding as its premise, by class probabilities.

    The score is the weighted sum of the class probabilities. With `calls` the most probable class,
    or the first of equally probable ones, gets the probability 1 and the others 0.
    """

    def __init__(
        self,
        card: ScorerCard,
        classify: PairClassifier,
        weights: np.ndarray,
        calls: bool = False,
        premise: str = "grounding",
    ):
        self.card, self._classify = card, classify
        self._weights, self._calls = weights, calls
        self._premise_of = PREMISES[premise]

    def read(self, example: GroundedExample) -> PairRow:
        name = f"example {example.id!r}"
        return self._classify.encode(self._premise_of(example), example.response, name)

    def choose_shapes(self, rows: Sequence[PairRow], window: int, total: int) -> None:
        self._classify.choose_shapes([[row] for row in rows], window, total)

    def texts(self, row: PairRow) -> dict[str, str]:
        """Returns premise and response as a single input."""
        return {"input": self._classify.encode.tokenizer.to_readable(row.ids)}

    def judge_rows(
        self, examples: Sequence[GroundedExample], rows: Sequence[PairRow]
    ) -> list[Judgement]:
        probabilities = self._classify.probabilities(rows)
        if self._calls:
            probabilities = np.eye(len(self._weights))[probabilities.argmax(axis=1)]
        return [Judgement(float(value)) for value in probabilities @ self._weights]


def nli_label_numbers(
    names: Sequence[str], labels: str | Sequence[str] | None = None
) -> dict[NliLabel, int]:
    """Returns the number of each NLI class, found by the checkpoint's names for its classes.

    Args:
      names: the classes' names in the model's order (its config's `id2label`).
      labels: the order of the classes if the names do not show it, as a list or as
        "entailment,neutral,contradiction".

    Raises:
      ConfigError: the order is not clear, or there are not three classes.

    >>> nli_label_numbers(["contradictory", "NEUTRAL", "Entailment"])[NliLabel.ENTAILMENT]
    2
    """
    class_names = [label.value for label in NliLabel]
    if len(names) != len(class_names):
        raise ConfigError(
            f"the model has {len(names)} classes ({', '.join(names)}); expected the three of "
            "natural language inference; faith_critic reads a model of two."
        )
    cleaned = [name.strip().lower() for name in name_list("labels", labels) or names]
    for label in class_names:  # also "entails", and XNLI's "contradictory"
        cleaned = [label if name.startswith(label[:6]) else name for name in cleaned]
    if sorted(cleaned) != sorted(class_names):
        order = ",".join(class_names)
        if labels is not None:
            raise ConfigError(
                f"labels: expected the model's {len(names)} classes in its order, each once, such "
                f"as {order}; got {labels!r}."
            )
        raise ConfigError(
            f"the model's classes are named {', '.join(names)}; say their order with "
            f"labels={order} (or another)."
        )
    return {label: cleaned.index(label.value) for label in NliLabel}


Pairs = TypeVar("Pairs", bound=PairRows)


class SentencePairScorer(ModelScorer[Pairs]):
    """Base class of scorers that compare sentences by natural language inference."""

    def __init__(
        self,
        model: str | None,
        labels: str | Sequence[str] | None,
        **options: Unpack[ClassifierOptions],
    ):
        order = functools.partial(nli_label_numbers, labels=labels)
        self._classify = pair_classifier(model, check_classes=order, **options)
        numbers = order(self._classify.label_names)
        # The numbers of the two classes in the model's output.
        self._entailment = numbers[NliLabel.ENTAILMENT]
        self._contradiction = numbers[NliLabel.CONTRADICTION]

    def choose_shapes(self, rows: Sequence[Pairs], window: int, total: int) -> None:
        self._classify.choose_shapes([row.rows for row in rows], window, total)

    def texts(self, row: Pairs) -> dict[str, str]:
        """Returns the first pair; empty if there is no pair to read."""
        return self._classify.show_first(row, "pair")


def nli_scorer(
    name: str,
    model: str | None = None,
    labels: str | Sequence[str] | None = None,
    premise: str = "grounding",
    **options: Unpack[ClassifierOptions],
) -> _PairScorer:
    """Returns "nli_entailment", "nli_e_minus_c" or "nli_neutral".

    Args:
      name: one of the three names.
      model: a folder of a classifier with three classes, whose order is read from its config, or of
        an encoder-decoder that generates the class (`label_words`). For "nli_entailment" the latter
        may also use only two words, for entailment and all else.
      labels: see `nli_label_numbers`; for an encoder whose class names do not show their order.
      premise: the text that may entail the response: "grounding", "last_turn" (of the history) or
        "speaker_turns" (the responding speaker's turns in the history), which models of dialogue
        NLI read (Welleck 2019). Without such turns the premise is empty.
      **options: see `ClassifierOptions`.

    Raises:
      ConfigError: without a model, or for a wrong option.
    """
    if premise not in PREMISES:
        raise ConfigError(f"premise: {premise!r} is none of {', '.join(PREMISES)}.")

    def weights(names: Sequence[str]) -> np.ndarray:
        if names[1:] == (NOT_ENTAILED,) and name == "nli_entailment":
            return np.array([1.0, 0.0])
        numbers = nli_label_numbers(names, labels)
        class_weights = np.zeros(len(numbers))
        class_weights[
            numbers[NliLabel.NEUTRAL if name == "nli_neutral" else NliLabel.ENTAILMENT]
        ] = 1.0
        if name == "nli_e_minus_c":
            class_weights[numbers[NliLabel.CONTRADICTION]] = -1.0
        return class_weights

    classify = pair_classifier(model, check_classes=weights, **options)
    return _PairScorer(CARDS[name], classify, weights(classify.label_names), premise=premise)


def faith_critic_scorer(
    name: str,
    model: str | None = None,
    faithful_label: str | int | None = None,
    form: str = "critic",
    **options: Unpack[ClassifierOptions],
) -> _PairScorer:
    """Returns a scorer of FaithDial's critic.

    Args:
      name: "faith_critic", the probability that the knowledge supports the response, or
        "faith_critic_call", the critic's decision, 1 or 0, as reported by Nandwani 2023.
      model: a folder of a classifier of (knowledge, response) with two classes, or of an
        encoder-decoder that generates the class (`label_words`: faithful, unfaithful).
      faithful_label: see `faithful_class`.
      form: the task that the model was trained for: "critic"; "nli" (three classes; entailment
        means faithful); or "decode" (contradiction; not_contradiction means faithful).
      **options: see `ClassifierOptions`.

    Raises:
      ConfigError: without a model, or for a wrong option.
    """
    if form not in CRITIC_FORMS:
        raise ConfigError(f"form: expected {', '.join(CRITIC_FORMS)}, got {form!r}.")

    def faithful(names: Sequence[str]) -> int:
        return faithful_class(names, faithful_label, form)

    classify = pair_classifier(model, CRITIC_FORMS[form], faithful, **options)
    weights = np.zeros(len(classify.label_names))
    weights[faithful(classify.label_names)] = 1.0
    return _PairScorer(CARDS[name], classify, weights, calls=name == "faith_critic_call")


def faithful_class(
    names: Sequence[str], faithful_label: str | int | None = None, form: str = "critic"
) -> int:
    """Returns the number of the critic's class that means faithful.

    Args:
      names: the names of the model's classes, in its order.
      faithful_label: the name of the faithful class, or its number, 0 or 1; default: found by name.
        If the names are only LABEL_0 and LABEL_1, as in the authors' checkpoint, it is the first,
        as there.
      form: one of `CRITIC_FORMS`; for "nli", entailment means faithful.

    Raises:
      ConfigError: the number of classes is wrong, or their names do not show the faithful one.

    >>> faithful_class(["Hallucination", "Entailment"])
    1
    """
    if form == "nli" and faithful_label is None:
        return nli_label_numbers(names)[NliLabel.ENTAILMENT]
    if len(names) != 2:
        raise ConfigError(
            f"the model has {len(names)} classes ({', '.join(names)}); expected a critic's two."
        )
    cleaned = [name.strip().lower() for name in names]
    is_same_name = cleaned[0] == cleaned[1]
    if faithful_label is not None:
        requested_label = str(faithful_label).strip().lower()
        choices = [*([] if is_same_name else cleaned), "0", "1"]
        if requested_label not in choices:
            raise ConfigError(
                f"faithful_label: {faithful_label!r} is none of {', '.join(names)}; give the name "
                "of a class, or its number, 0 or 1."
            )
        return choices.index(requested_label) % 2
    if is_same_name:
        raise ConfigError(
            f"both of the model's classes are named {names[0]}; say the number of the one that "
            "means faithful with faithful_label=0 or faithful_label=1."
        )
    if cleaned == ["label_0", "label_1"] and form == "critic":
        return 0
    faithful, unfaithful = _CLASSES[form]
    plain = [name.replace("-", "_").replace(" ", "_") for name in cleaned]
    for number, name in enumerate(plain):
        if name in faithful or plain[1 - number] in unfaithful:
            return number
    raise ConfigError(
        f"the model's classes are named {', '.join(names)}; say which one means faithful with "
        "faithful_label=…."
    )
