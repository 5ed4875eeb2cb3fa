"""A language model's inputs and the response behind them, cut to what the model reads."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from faith_jax.core.cutting import CutTokens, Part, concatenated, cut, summed, without_knowledge
from faith_jax.core.errors import InputError
from faith_jax.tokenizers.base import Tokenizer

Encoded = tuple[Sequence[int] | np.ndarray, Sequence[Part]]


class Limit(NamedTuple):
    """How much a model reads.

    Attributes:
      max_length: tokens of the inputs, special ones included. In a decoder-only model the response
        is among them; in an encoder-decoder it may have as many again.
      causal: whether the model is decoder-only.
      policy: see `core.cutting`.
    """

    max_length: int
    causal: bool
    policy: str


class FittedResponse(NamedTuple):
    """Inputs and response that a model can read.

    Attributes:
      inputs: token ids, special ones included.
      without_knowledge: the same without the knowledge.
      response: token ids.
      keep_inputs: bool, which of the inputs' tokens stay, special ones not counted.
      keep_response: bool, which of the response's tokens stay.
      cut: how many tokens of each kind of part do not.
    """

    inputs: list[int]
    without_knowledge: list[int]
    response: list[int]
    keep_inputs: np.ndarray
    keep_response: np.ndarray
    cut: CutTokens


def fit_response(
    tokenizer: Tokenizer, inputs: Encoded, response: Encoded, limit: Limit, name: str
) -> FittedResponse:
    """Returns inputs and response, cut to a limit.

    Args:
      tokenizer: of the model.
      inputs: token ids without special ones, and their parts in tokens.
      response: likewise.
      limit: of the model.
      name: of the example, for errors.

    Raises:
      InputError: where the policy has nothing more to cut, or leaves nothing of the response.
    """
    where = f"{name}: max_length = {limit.max_length}"
    prefix = list(tokenizer.prefix_ids)
    suffix = [] if limit.causal else list(tokenizer.suffix_ids)
    room = limit.max_length - len(prefix) - len(suffix)
    ids, parts = np.asarray(inputs[0], int), inputs[1]
    if limit.causal:
        everything, all_parts = concatenated([inputs, response])
        both = cut(len(everything), all_parts, room, limit.policy, where)
        keep, keep_response = np.split(both.keep, [len(ids)])
        tokens = both.tokens
    else:
        keep, first = cut(len(ids), parts, room, limit.policy, where)
        keep_response, second = cut(
            len(response[0]), response[1], limit.max_length, limit.policy, f"{where}, response"
        )
        tokens = summed([first, second])
    if not keep_response.any():
        raise InputError(
            f"{where}: the cut policy {limit.policy!r} leaves nothing of the response to score; "
            "raise the limit, or choose the policy 'knowledge'."
        )
    return FittedResponse(
        [*prefix, *ids[keep].tolist(), *suffix],
        [*prefix, *ids[without_knowledge(keep, parts)].tolist(), *suffix],
        np.asarray(response[0], int)[keep_response].tolist(),
        keep,
        keep_response,
        tokens,
    )
