"""The settings of decoding, as one frozen and hashable configuration."""

import dataclasses
from typing import Annotated, Literal

import msgspec

from faith_jax.core.settings import (
    NotNegative,
    NotNegativeNumber,
    Number,
    Positive,
    PositiveShare,
    Settings,
    Share,
    TokenId,
    TokenIds,
)
from faith_jax.core.types import as_tuple

# A negative end token never occurs, so the response never ends.
_End = Annotated[int, msgspec.Meta(ge=-1, description="a token id")]
# The shortest cache that a loop starts with must hold a step: the last token and its draft.
DraftLength = Annotated[int, msgspec.Meta(ge=1, le=63, description="a whole number from 1 to 63")]
_Ends = Annotated[tuple[_End, ...], msgspec.Meta(min_length=1, description="several")]


@dataclasses.dataclass(frozen=True)
class PMIConfig(Settings):
    """Settings of PMI-Decode: the weight of the document's influence (see `decoding.pmi`).

    Attributes:
      alpha: weight of the pointwise mutual information of token and document, in [0, 1]; the
        log-likelihood has weight 1 - alpha.
      p: in (0, 1]; only the smallest set of tokens whose probabilities with the document sum to at
        least p may be selected. 1 = all tokens.

    Reference: Nandwani 2023, section 4.2 and equation (9).
    """

    alpha: Share = 0.25
    p: PositiveShare = 0.6


@dataclasses.dataclass(frozen=True)
class DecodingConfig(Settings):
    """How tokens are selected: greedy search, sampling (temperature > 0) or beam search.

    Attributes:
      max_length: the maximum number of decoded tokens, including the end token.
      temperature: scores are divided by the temperature before sampling; 0 = no sampling.
      top_k: sample only from the k best tokens; 0 = from all tokens.
      top_p: sample only from the nucleus: the smallest set of most probable tokens whose
        probabilities sum to at least top_p (Holtzman 2020). Applied after temperature and top_k.
      eos_id: the token or tokens that end a response; None = the model's; -1 = no token.
      pad_id: the token that pads a row after its end; None = the model's.
      num_beams: width of the beam search; 1 = no beam search.
      length_penalty: a beam is ranked by its sum of scores / length**length_penalty; the length
        includes the end token. 0 = plain sums; above 0 favours longer responses.
      early_stopping: when beam search stops, see `decoding.beam`: False, True or "never".
      min_length: the minimum number of tokens, including the end token; 0 = no limit.
      no_repeat_ngram: no n-gram of this many tokens is repeated; 0 = no limit. Tokens fed before
        the response count: the start token, or the prompt of a decoder-only model.
      forced_bos_id: the first token of each response; None = not forced.
      forced_eos_id: the last token of a response that has not ended before `max_length`; if there
        are several, the best of them; None = not forced. A forced token has the score 0.
      num_return: number of responses per example: the best beams, or samples.
      pmi: settings of PMI-Decode; None = use the model's probabilities.
      speculation: "ngram" = draft the next tokens by looking up the last tokens in the input; see
        `decoding.speculation`. None = one token per step. Responses are the same.
      draft_length: number of tokens in a draft, at most 63.
    """

    max_length: Positive = 64
    temperature: NotNegativeNumber = 0.0
    top_k: NotNegative = 0
    top_p: PositiveShare = 1.0
    eos_id: _End | _Ends | None = None
    pad_id: TokenId | None = None
    num_beams: Positive = 1
    length_penalty: Number = 1.0
    early_stopping: bool | Literal["never"] = False
    min_length: NotNegative = 0
    no_repeat_ngram: NotNegative = 0
    forced_bos_id: TokenId | None = None
    forced_eos_id: TokenId | TokenIds | None = None
    num_return: Positive = 1
    pmi: PMIConfig | None = None
    speculation: Literal["ngram"] | None = None
    draft_length: DraftLength = 5

    def __post_init__(self):
        super().__post_init__()
        limit = f"at most max_length = {self.max_length}"
        self.require("min_length", self.min_length <= self.max_length, limit)
        if self.num_beams > 1:
            beams = f"with num_beams = {self.num_beams}: beams are searched, not sampled"
            self.require("temperature", self.temperature == 0, f"0 {beams}")
            self.require("top_k", self.top_k == 0, f"0 {beams}")
            self.require("top_p", self.top_p == 1, f"1.0 {beams}")
            limit = f"at most num_beams = {self.num_beams}"
            self.require("num_return", self.num_return <= self.num_beams, limit)
            self.require("speculation", self.speculation is None, f"None {beams}")
        # Greedy search always finds the same response.
        elif self.temperature == 0:
            alone = "1 in greedy search, which finds one response; set temperature or num_beams"
            self.require("num_return", self.num_return == 1, alone)
            greedy = "with temperature = 0: greedy search draws no samples; set temperature"
            self.require("top_k", self.top_k == 0, f"0 {greedy}")
            self.require("top_p", self.top_p == 1, f"1.0 {greedy}")

    @property
    def copies(self) -> int:
        """The number of rows per example: beams or samples."""
        return self.num_beams if self.num_beams > 1 else self.num_return

    @property
    def num_drafted(self) -> int:
        """The number of tokens that each step drafts."""
        return self.draft_length if self.speculation else 0

    @property
    def cache_length(self) -> int:
        """The number of tokens that a model's cache must hold: drafts may exceed `max_length`."""
        return self.max_length + self.num_drafted

    @property
    def end_ids(self) -> tuple[int, ...]:
        """The end tokens, in order.

        Raises:
          ConfigError: if they are None; call `for_model` first.
        """
        self.require("eos_id", self.eos_id is not None, "token ids: call for_model first")
        return as_tuple(self.eos_id)

    @property
    def forced_last_ids(self) -> tuple[int, ...]:
        """The tokens of `forced_eos_id`."""
        return as_tuple(self.forced_eos_id)

    @property
    def padding(self) -> int:
        """The token that pads rows after their end; raises like `end_ids`."""
        self.require("pad_id", self.pad_id is not None, "a token id: call for_model first")
        return as_tuple(self.pad_id)[0]

    def check_vocabulary(self, vocab_size: int) -> None:
        """Checks that all tokens are in the vocabulary of a model.

        Raises:
          ConfigError: names the first setting with a token outside it.
        """
        for name in ("eos_id", "forced_eos_id", "forced_bos_id", "pad_id"):
            holds = all(token < vocab_size for token in as_tuple(getattr(self, name)))
            self.require(name, holds, f"tokens below the model's vocabulary size of {vocab_size}")

    def for_model(self, eos_id: int | tuple[int, ...], pad_id: int) -> "DecodingConfig":
        """Returns a copy with end and padding tokens that are None replaced by the model's.

        Args:
          eos_id: the model's end token or tokens.
          pad_id: the model's padding token; if below 0, the first end token is used instead.
        """
        ends = eos_id if self.eos_id is None else self.eos_id
        if pad_id < 0:
            # Any token can pad the end; a model without end tokens never needs padding.
            pad_id = max(0, ends[0] if isinstance(ends, tuple) else ends)
        return dataclasses.replace(
            self, eos_id=ends, pad_id=pad_id if self.pad_id is None else self.pad_id
        )
