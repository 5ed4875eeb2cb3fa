"""The example that runs through the whole house, the Protocols and the notation.

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
from typing import Any, Protocol

import numpy as np


@dataclasses.dataclass(frozen=True)
class Grounding:
    """What a response may say: texts, in named perspectives where there are several.

    Attributes:
      texts: the knowledge sentences, evidence or arguments, in order.
      perspectives: for each text the perspective it belongs to ("pro", "con"); empty where
        the grounding has no perspectives.
    """

    texts: tuple[str, ...]
    perspectives: tuple[str, ...] = ()

    def __post_init__(self):
        if self.perspectives and len(self.perspectives) != len(self.texts):
            raise ValueError(
                f"Grounding has {len(self.texts)} texts but {len(self.perspectives)} perspectives."
            )

    def of(self, perspective: str) -> tuple[str, ...]:
        """Returns the texts of one perspective, in order."""
        return tuple(
            t for t, p in zip(self.texts, self.perspectives, strict=True) if p == perspective
        )


@dataclasses.dataclass(frozen=True)
class GroundedExample:
    """One example of grounded generation.

    Attributes:
      id: stable and unique within its data set.
      grounding: what the response may say.
      history: the dialogue's earlier turns, oldest first, or one query.
      response: the text to judge or to learn; empty where it is to be generated.
      label: 1 = faithful, 0 = unfaithful, None = unknown.
    """

    id: str
    grounding: Grounding
    history: tuple[str, ...] = ()
    response: str = ""
    label: int | None = None


Array = Any  # a jax.Array or np.ndarray; numerics do not need to tell them apart
PyTree = Any


class StepFunction(Protocol):
    """One decoding step of any model: the loop in `faith_jax.decoding` knows nothing else."""

    def __call__(self, tokens: Array, cache: PyTree) -> tuple[Array, PyTree]:
        """Feeds one token a row and returns the next token's logits.

        Args:
          tokens: int32 [batch], the last token of each row.
          cache: the model's state, every leaf with the batch or none.

        Returns:
          float32 logits [batch, vocab] and the new cache.
        """
        ...


class Vocabulary(Protocol):
    """What the library asks of a vocabulary (SeqIO's satisfy it)."""

    @property
    def vocab_size(self) -> int:
        """Number of ids, special and extra ids included."""
        ...

    def encode(self, s: str) -> list[int]:
        """Returns the ids of a text, without an end token."""
        ...

    def decode(self, ids: list[int] | np.ndarray) -> str:
        """Returns the text of the ids, up to the first end token."""
        ...
