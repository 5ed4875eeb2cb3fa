"""The settings of decoding, as one frozen and hashable configuration."""

import dataclasses
import math
from typing import Any, Literal

from faith_jax.core.errors import ConfigError


def _is_integer(value: Any, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


def _is_real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _are_ids(value: Any, low: int) -> bool:
    """Whether a value is None, a token id or several."""
    ids = value if isinstance(value, tuple) else (value,)
    return value is None or (bool(ids) and all(_is_integer(i, low) for i in ids))


def _require(holds: bool, name: str, value: Any, expected: str) -> None:
    if not holds:
        raise ConfigError(f"decoding: {name} = {value!r}; expected {expected}.")


@dataclasses.dataclass(frozen=True)
class PMIConfig:
    """Settings of PMI-Decode: the weight of the document's influence (see `decoding.pmi`).

    Attributes:
      alpha: weight of the pointwise mutual information of token and document, in [0, 1]; the
        log-likelihood has weight 1 - alpha.
      p: in (0, 1]; only the smallest set of tokens whose probabilities with the document sum to at
        least p may be selected. 1 = all tokens.

    Reference: Nandwani 2023, section 4.2 and equation (9).
    """

    alpha: float = 0.25
    p: float = 0.6

    def __post_init__(self):
        valid = _is_real(self.alpha) and 0 <= self.alpha <= 1
        _require(valid, "pmi.alpha", self.alpha, "a weight in [0, 1]")
        _require(_is_real(self.p) and 0 < self.p <= 1, "pmi.p", self.p, "a probability in (0, 1]")


@dataclasses.dataclass(frozen=True)
class DecodingConfig:
    """How tokens are selected: greedy search, sampling (temperature > 0) or beam search.

    Attributes:
      max_length: the maximum number of decoded tokens, including the end token.
      temperature: scores are divided by it before sampling; 0 = no sampling.
      top_k: sample only from the k best tokens; 0 = from all.
      top_p: sample only from the nucleus: the smallest set of most probable tokens whose
        probabilities sum to at least top_p (Holtzman 2020). Applied after temperature and top_k.
      eos_id: the token, or tokens, that end a response; None = the model's; -1 = no token.
      pad_id: the token that pads a row after its end; None = the model's.
      num_beams: width of the beam search; 1 = no beam search.
      length_penalty: a beam is ranked by its sum of scores / length**length_penalty; the length
        includes the end token. 0 = plain sums; above 0 favours longer responses.
      early_stopping: when beam search stops, see `decoding.beam`: False, True or "never".
      min_length: the minimum number of tokens, including the end token; 0 = no limit.
      no_repeat_ngram: no n-gram of this many tokens is repeated; 0 = no limit. Tokens fed before
        the response count: the start token, or the prompt of a decoder-only model.
      forced_bos_id: the first token of each response; None = not forced.
      forced_eos_id: token number `max_length` of a response that has not ended before, or the best
        of several; None = not forced. A forced token has the score 0.
      num_return: responses per example: the best beams, or that many samples.
      pmi: settings of PMI-Decode; None = use the model's probabilities.
    """

    max_length: int = 64
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    eos_id: int | tuple[int, ...] | None = None
    pad_id: int | None = None
    num_beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    min_length: int = 0
    no_repeat_ngram: int = 0
    forced_bos_id: int | None = None
    forced_eos_id: int | tuple[int, ...] | None = None
    num_return: int = 1
    pmi: PMIConfig | None = None

    def __post_init__(self):
        for name in ("eos_id", "forced_eos_id"):
            if isinstance(value := getattr(self, name), list):
                object.__setattr__(self, name, tuple(value))
        checks = {
            "max_length": (_is_integer(self.max_length, 1), "a positive number of tokens"),
            "temperature": (_is_real(self.temperature) and self.temperature >= 0, "0 or more"),
            "top_k": (_is_integer(self.top_k, 0), "0 (all tokens) or more"),
            "top_p": (_is_real(self.top_p) and 0 < self.top_p <= 1, "a probability in (0, 1]"),
            # A negative end token never occurs, so the row never ends.
            "eos_id": (_are_ids(self.eos_id, -1), "a token id, several, or None (the model's)"),
            "pad_id": (
                self.pad_id is None or _is_integer(self.pad_id, 0),
                "a token id or None (the model's)",
            ),
            "num_beams": (_is_integer(self.num_beams, 1), "a positive number of beams"),
            "length_penalty": (_is_real(self.length_penalty), "a number"),
            "early_stopping": (
                isinstance(self.early_stopping, bool) or self.early_stopping == "never",
                'False, True or "never"',
            ),
            "min_length": (
                _is_integer(self.min_length, 0)
                and (not _is_integer(self.max_length, 1) or self.min_length <= self.max_length),
                f"0 to max_length = {self.max_length}",
            ),
            "no_repeat_ngram": (
                _is_integer(self.no_repeat_ngram, 0),
                "0 (no limit) or more tokens",
            ),
            "forced_bos_id": (
                self.forced_bos_id is None or _is_integer(self.forced_bos_id, 0),
                "a token id or None",
            ),
            "forced_eos_id": (_are_ids(self.forced_eos_id, 0), "a token id, several, or None"),
            "num_return": (_is_integer(self.num_return, 1), "a positive number of responses"),
            "pmi": (self.pmi is None or isinstance(self.pmi, PMIConfig), "a PMIConfig or None"),
        }
        for name, (holds, expected) in checks.items():
            _require(holds, name, getattr(self, name), expected)
        self._check_search()

    def _check_search(self) -> None:
        """Raises for contradictory settings, with a remedy."""
        if self.num_beams > 1:
            beams = f"with num_beams = {self.num_beams}: beams are searched, not sampled"
            _require(self.temperature == 0, "temperature", self.temperature, f"0 {beams}")
            _require(self.top_k == 0, "top_k", self.top_k, f"0 {beams}")
            _require(self.top_p == 1, "top_p", self.top_p, f"1.0 {beams}")
            most = f"at most num_beams = {self.num_beams}"
            _require(self.num_return <= self.num_beams, "num_return", self.num_return, most)
        elif self.temperature == 0:
            alone = "1 in greedy search, which finds one response; set temperature or num_beams"
            _require(self.num_return == 1, "num_return", self.num_return, alone)

    @property
    def copies(self) -> int:
        """The number of rows per example: beams, or samples."""
        return self.num_beams if self.num_beams > 1 else self.num_return

    @property
    def end_ids(self) -> tuple[int, ...]:
        """The end tokens, in order.

        Raises:
          ConfigError: if they are None; call `for_model` first.
        """
        if self.eos_id is None:
            raise ConfigError("decoding: eos_id = None; expected token ids: call for_model first.")
        return self.eos_id if isinstance(self.eos_id, tuple) else (self.eos_id,)

    @property
    def forced_last_ids(self) -> tuple[int, ...]:
        """The tokens of `forced_eos_id`."""
        found = self.forced_eos_id
        if found is None:
            return ()
        return found if isinstance(found, tuple) else (found,)

    @property
    def padding(self) -> int:
        """The token that pads rows after their end; raises like `end_ids`."""
        if self.pad_id is None:
            raise ConfigError("decoding: pad_id = None; expected a token id: call for_model first.")
        return self.pad_id

    def check_vocabulary(self, vocab_size: int) -> None:
        """Checks that all tokens are in the vocabulary of a model.

        Raises:
          ConfigError: names the first setting with a token outside it.
        """
        ids = f"{{}} below the model's vocabulary size of {vocab_size}"
        ends = () if self.eos_id is None else self.end_ids
        holds = all(end < vocab_size for end in ends)
        _require(holds, "eos_id", self.eos_id, ids.format("token ids"))
        holds = all(token < vocab_size for token in self.forced_last_ids)
        _require(holds, "forced_eos_id", self.forced_eos_id, ids.format("token ids"))
        holds = self.forced_bos_id is None or self.forced_bos_id < vocab_size
        _require(holds, "forced_bos_id", self.forced_bos_id, ids.format("a token id"))
        holds = self.pad_id is None or self.pad_id < vocab_size
        _require(holds, "pad_id", self.pad_id, ids.format("a token id"))

    def for_model(self, eos_id: int | tuple[int, ...], pad_id: int) -> "DecodingConfig":
        """Returns a copy with end and padding tokens that are None replaced by the model's.

        Args:
          eos_id: the model's end token or tokens.
          pad_id: the model's padding token; if below 0, the first end token is used instead.
        """
        ends = eos_id if self.eos_id is None else self.eos_id
        if pad_id < 0:
            pad_id = max(0, ends[0] if isinstance(ends, tuple) else ends)
        return dataclasses.replace(
            self, eos_id=ends, pad_id=pad_id if self.pad_id is None else self.pad_id
        )
