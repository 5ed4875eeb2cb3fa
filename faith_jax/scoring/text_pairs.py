"""Two texts as one row of an encoder: premise and hypothesis, with special tokens around them."""

import dataclasses
from typing import NamedTuple

from faith_jax.errors import ConfigError
from faith_jax.models.config import TransformerConfig
from faith_jax.scoring.models import check_ids
from faith_jax.types import Tokenizer

_LONGEST = 512


class PairRow(NamedTuple):
    """One row: its token ids, and how many tokens of the texts did not fit."""

    ids: list[int]
    cut_tokens: int


@dataclasses.dataclass(frozen=True)
class PairEncoder:
    """Makes rows of two texts.

    What is too long loses the premise's end. The premise keeps at least a quarter of the room, or
    all of itself; only a hypothesis that does not fit beside that loses its own end.

    Attributes:
      tokenizer: the model's.
      vocab_size: of the model.
      max_length: tokens of a row, special ones included.
    """

    tokenizer: Tokenizer
    vocab_size: int
    max_length: int

    def __call__(self, premise: str, hypothesis: str) -> PairRow:
        """Returns the row of a premise and a hypothesis."""
        first, second = self.tokenizer.encode(premise), self.tokenizer.encode(hypothesis)
        room = self.max_length - sum(len(ids) for ids in self.tokenizer.pair_ids)
        kept = second[: room - min(len(first), room // 4)]
        shown = first[: room - len(kept)]
        cut = len(first) + len(second) - len(shown) - len(kept)
        ids = self.tokenizer.add_special_tokens(shown, kept)
        return PairRow(check_ids(list(ids), self.vocab_size), cut)


def row_length(config: TransformerConfig, asked: int | None) -> int:
    """Returns how many tokens a row has at most: 512, or fewer where the positions end before.

    Raises:
      ConfigError: where more are asked for than the model has positions.
    """
    table = config.max_positions or _LONGEST
    table -= config.encoder_prompt_length
    if asked is None:
        return min(_LONGEST, table)
    limit = table if config.positions == "learned" else 1 << 20
    if not 8 <= asked <= limit:
        raise ConfigError(
            f"max_length: expected 8 to {limit} tokens, the model's positions, got {asked!r}."
        )
    return asked
