"""The example of grounded generation, its scores, the step function and the notation.

Notation used in shapes throughout the library:

| letter in a shape | meaning |
| --- | --- |
| batch | examples in a batch |
| length | tokens of a sequence; `encoder_length`, `decoder_length` where both occur |
| embed | width of the residual stream (`emb_dim`) |
| heads, head_dim | attention heads and the width of each |
| mlp | width of the feed-forward layer |
| vocab | entries of the vocabulary |
| prompt | soft prompt vectors |

Token id 0 is padding (and starts the decoder), 1 ends a sequence. Logarithms are natural.
A boolean mask is True where the value counts.
"""

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from faith_jax.core.errors import format_value

# The perspectives of arguments, and the fields of rows that contain them.
SIDES = ("pro", "con")
SIDE_FIELDS = ("pro_arguments", "con_arguments")

T = TypeVar("T")


def as_tuple(value: T | tuple[T, ...] | list[T] | None) -> tuple[T, ...]:
    """Returns one or several values as a tuple; None becomes ()."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _make_tuples(instance: Any, *fields: str) -> None:
    """Converts lists in the fields of a frozen dataclass to tuples.

    Raises:
      ValueError: if a field is a single text, whose letters would count as texts.
    """
    for field in fields:
        value = getattr(instance, field)
        if type(value) is tuple:
            continue
        if isinstance(value, str):
            raise ValueError(
                f"{type(instance).__name__}.{field}: expected a tuple of texts, got the text "
                f"{format_value(value)}; give a tuple of one, ({format_value(value)},)."
            )
        if value is None:
            raise ValueError(
                f"{type(instance).__name__}.{field}: expected a tuple of texts, got None; give ()."
            )
        object.__setattr__(instance, field, tuple(value))


@dataclasses.dataclass(frozen=True)
class Grounding:
    """The texts that a response may state, optionally with named perspectives.

    Lists become tuples.

    Attributes:
      texts: knowledge sentences, evidence or arguments.
      perspectives: the perspective of each text, such as "pro" or "con"; () = no perspectives.

    Raises:
      ValueError: if `texts` is a single text, or the number of perspectives differs.
    """

    texts: tuple[str, ...]
    perspectives: tuple[str, ...] = ()

    def __post_init__(self):
        _make_tuples(self, "texts", "perspectives")
        if self.perspectives and len(self.perspectives) != len(self.texts):
            raise ValueError(
                f"Grounding has {len(self.texts)} texts but {len(self.perspectives)} perspectives."
            )

    # The `__repr__` of dataclasses takes four times as long; digests of rows use this text.
    def __repr__(self) -> str:
        return f"Grounding(texts={self.texts!r}, perspectives={self.perspectives!r})"

    @classmethod
    def two_sided(cls, pro: Sequence[str], con: Sequence[str]) -> "Grounding":
        """Returns a grounding of arguments for ("pro") and against ("con")."""
        return cls((*pro, *con), ("pro",) * len(pro) + ("con",) * len(con))

    def of(self, perspective: str) -> tuple[str, ...]:
        """Returns the texts of one perspective, in order."""
        return tuple(
            t for t, p in zip(self.texts, self.perspectives, strict=True) if p == perspective
        )

    def labels(self, plain: str = "text") -> tuple[str, ...]:
        """Returns a label for each text: its perspective (or `plain`) and its number there, from 1.

        >>> Grounding(("a", "b", "c"), ("pro", "pro", "con")).labels()
        ('pro 1', 'pro 2', 'con 1')
        """
        sides = self.perspectives or (plain,) * len(self.texts)
        return tuple(f"{side} {sides[: i + 1].count(side)}" for i, side in enumerate(sides))


@dataclasses.dataclass(frozen=True)
class GroundedExample:
    """One example of grounded generation.

    Lists become tuples.

    Attributes:
      id: unique within its data set.
      grounding: the texts that the response may state.
      history: earlier turns of the dialogue, oldest first, or one query.
      response: the text to judge or to learn; empty if it is to be generated.
      label: 1 = faithful, 0 = unfaithful, None = unknown.

    Raises:
      ValueError: if the history is a single text.
    """

    id: str
    grounding: Grounding
    history: tuple[str, ...] = ()
    response: str = ""
    label: int | None = None

    def __post_init__(self):
        _make_tuples(self, "history")

    def __repr__(self) -> str:
        return (
            f"GroundedExample(id={self.id!r}, grounding={self.grounding!r}, "
            f"history={self.history!r}, response={self.response!r}, label={self.label!r})"
        )


@dataclasses.dataclass(frozen=True)
class WordScore:
    """The score of one word.

    Attributes:
      word: the word as it appears in its text.
      start: offset of its first character in the text.
      end: offset after its last character.
      score: higher = more faithful.
      text: index of the grounding's text that contains the word; None = the response contains it.
    """

    word: str
    start: int
    end: int
    score: float
    text: int | None = None


@dataclasses.dataclass(frozen=True)
class Score:
    """A scorer's result for one example.

    Attributes:
      value: see the scorer's card; NaN = undefined, such as for an empty response.
      words: scores of single words, if the scorer has them.
      cut: number of tokens that were cut from too long an input, by part: "knowledge", "history",
        "response", and "other" for text between them. Parts that were not cut are left out.
      undefined: why the value is NaN; "" = it is not NaN.
      evidence: the passages of the grounding that determine the value, each with the score that it
        gives to the response or, in order, to one of its sentences.
    """

    value: float
    words: tuple[WordScore, ...] = ()
    cut: Mapping[str, int] = dataclasses.field(default_factory=dict)
    undefined: str = ""
    evidence: tuple[WordScore, ...] = ()

    @property
    def cut_tokens(self) -> int:
        """The total number of tokens that were cut."""
        return sum(self.cut.values())


class Direction(enum.StrEnum):
    """The meaning of a higher score."""

    FAITHFUL = "higher = more faithful"
    NONE = "says nothing of faithfulness by itself"


@dataclasses.dataclass(frozen=True)
class ScorerCard:
    """The description that a scorer gives of itself.

    Attributes:
      name: name of the scorer.
      description: one sentence on what the scorer measures.
      low: the smallest value, may be -inf.
      high: the largest value, may be inf.
      source: paper and section.
      direction: the meaning of a higher value.
      needs_model: whether the scorer needs a checkpoint.
      needs_history: whether examples without a history cannot be scored.
      word_level: whether the scorer also scores words.
    """

    name: str
    description: str
    low: float
    high: float
    source: str
    direction: Direction = Direction.FAITHFUL
    needs_model: bool = False
    needs_history: bool = False
    word_level: bool = False


Array = Any  # a jax.Array or np.ndarray; numerics do not need to tell them apart
PyTree = Any


class StepScores(NamedTuple):
    """The scores that a decoding step assigns to all next tokens.

    Attributes:
      scores: float32 [rows, vocab], by which a search ranks tokens; -inf = forbidden. If several
        tokens per row were fed, [rows, several, vocab].
      log_probs: of the same shape, the model's log-probabilities; a plain model's scores are equal.
      without_document: of the same shape, the log-probabilities of PMI-Decode's other branch; None
        for other models.
    """

    scores: Array
    log_probs: Array
    without_document: Array | None = None


@runtime_checkable
class StepFunction(Protocol):
    """One decoding step of any model; the only interface that `faith_jax.decoding` searches use."""

    def __call__(self, tokens: Array, cache: PyTree) -> tuple[StepScores, PyTree]:
        """Feeds one token per row; returns the scores of the next token and the new cache.

        Args:
          tokens: int32 [rows], the last token of each row. A search over `batch` examples has
            rows = batch * copies (beams or samples); row r belongs to example r // copies. With
            speculation, int32 [rows, several]: the last token and drafts of the following ones.
          cache: the model's state.
        """
        ...
