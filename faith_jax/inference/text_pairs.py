"""Two texts as one row of an encoder: premise and hypothesis, with special tokens around them."""

import dataclasses
from typing import NamedTuple

from faith_jax.core.cutting import CutTokens, Kind, concatenated, cut, whole
from faith_jax.core.errors import ConfigError
from faith_jax.inference.opening import check_ids
from faith_jax.models.config import TransformerConfig
from faith_jax.tokenizers.base import Tokenizer

_LONGEST = 512


class PairRow(NamedTuple):
    """One row: its token ids, and how many tokens of each text did not fit."""

    ids: list[int]
    cut: CutTokens

    @property
    def cut_tokens(self) -> int:
        """How many tokens of both texts did not fit."""
        return sum(self.cut.values())


@dataclasses.dataclass(frozen=True)
class PairEncoder:
    """Makes rows of two texts.

    The premise is knowledge and the hypothesis a response, of which `core.cutting` says what
    is cut: by default the premise's end, and of a hypothesis only what would leave the premise less
    than a quarter of the row.

    Attributes:
      tokenizer: the model's.
      vocab_size: of the model.
      max_length: tokens of a row, special ones included.
      cut_policy: see `core.cutting`.
    """

    tokenizer: Tokenizer
    vocab_size: int
    max_length: int
    cut_policy: str = "knowledge"

    def __call__(self, premise: str, hypothesis: str, name: str = "a pair") -> PairRow:
        """Returns the row of a premise and a hypothesis.

        Args:
          premise: a text.
          hypothesis: a text.
          name: of the two, for errors.

        Raises:
          InputError: where they are too long, and cannot be cut by the policy.
        """
        first, second = self.tokenizer.encode(premise), self.tokenizer.encode(hypothesis)
        room = self.max_length - sum(len(ids) for ids in self.tokenizer.pair_ids)
        kinds = ((first, Kind.KNOWLEDGE), (second, Kind.RESPONSE))
        ids, parts = concatenated((text, [whole(kind, len(text))]) for text, kind in kinds)
        keep, tokens = cut(
            len(ids), parts, room, self.cut_policy, f"{name}: max_length = {self.max_length}"
        )
        split = len(first)
        row = self.tokenizer.add_special_tokens(
            ids[:split][keep[:split]].tolist(), ids[split:][keep[split:]].tolist()
        )
        return PairRow(check_ids(list(row), self.vocab_size), tokens)


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
