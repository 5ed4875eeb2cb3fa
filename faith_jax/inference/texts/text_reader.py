"""How a language model reads texts: its tokens, its limit, and what is cut where a text is longer.

What does not fit is cut as `core.cutting` says: by default the knowledge loses its end (of several
perspectives the longest first), and history and response stay.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from faith_jax.core.cutting import (
    CutTokens,
    Part,
    check_second_branch,
    concatenate_pieces,
    cut,
    fit,
    in_tokens,
    parse,
    sum_cuts,
    without_knowledge,
)
from faith_jax.core.errors import ConfigError, InputError, all_of
from faith_jax.inference.base import BaseModel
from faith_jax.inference.causal import CausalModel
from faith_jax.inference.encoder_decoder import EncoderDecoderModel
from faith_jax.inference.opening import (
    ModelOptions,
    check_ids,
    check_options,
    input_limit,
    open_model,
    open_tokenizer,
    require_model,
)
from faith_jax.tokenizers.base import Tokenizer

# A text and its parts that may be cut, in characters.
PartedText = tuple[str, Sequence[Part]]


class ReadText(NamedTuple):
    """A text as a model reads it: token ids, special ones included, and how many were cut."""

    ids: list[int]
    cut: CutTokens


class ReadResponse(NamedTuple):
    """Inputs and the response behind them that a model can read.

    Attributes:
      inputs: token ids, special ones included.
      without_knowledge: the same without the knowledge.
      response: token ids.
      input_spans: of each of the inputs' tokens, cut ones too, its characters.
      input_places: its place in `inputs`, None = it is cut.
      response_spans: of each of the response's tokens likewise.
      response_places: its place in `response`, None = it is cut.
      cut: how many tokens of each kind of part do not fit.
    """

    inputs: list[int]
    without_knowledge: list[int]
    response: list[int]
    input_spans: list[tuple[int, int]]
    input_places: list[int | None]
    response_spans: list[tuple[int, int]]
    response_places: list[int | None]
    cut: CutTokens


@dataclasses.dataclass(frozen=True)
class TextReader:
    """Turns texts into what one language model reads.

    Attributes:
      max_length: tokens of the inputs, special ones included. In a decoder-only model the response
        is among them; in an encoder-decoder it may have as many again.
      causal: whether the model is decoder-only.
      cut_policy: see `core.cutting`.
      reserved_tokens: that stay free behind the inputs.
    """

    tokenizer: Tokenizer
    vocab_size: int
    max_length: int
    causal: bool
    cut_policy: str = "knowledge"
    reserved_tokens: int = 0

    def read(self, text: str, name: str, parts: Sequence[Part] | None = None) -> ReadText:
        """Encodes a text as the model reads it, cut to its room; `name` is for errors.

        Its `parts` are in characters; None = those of the forms of `core.templates`.

        Raises:
          InputError: where it is too long, and cannot be cut by the policy.
        """
        where = self._describe_limit(name)
        parts = parse(text) if parts is None else parts
        fitted = fit(self.tokenizer, text, self._max_text_tokens, self.cut_policy, where, parts)
        return ReadText(self._add_special_tokens(fitted.ids), fitted.cut)

    def read_response(
        self,
        inputs: Iterable[PartedText],
        response: PartedText,
        name: str,
        second_branch: bool = False,
    ) -> ReadResponse:
        """Encodes texts and the response behind them as the model reads them.

        Args:
          inputs: texts that are encoded one by one.
          response: encoded by itself.
          name: of the example, for errors.
          second_branch: the inputs without the knowledge are read too.

        Raises:
          InputError: where the policy has nothing more to cut, or leaves nothing of the response or
            of the second branch.
        """
        where = self._describe_limit(name)
        # One by one, so that no token spans two texts and their parts stay apart.
        encoded = [self._encode_with_parts(*text) for text in inputs]
        input_spans = [span for _, _, spans in encoded for span in spans]
        ids, parts = concatenate_pieces((ids, parts) for ids, parts, _ in encoded)
        response_ids, response_parts, response_spans = self._encode_with_parts(*response)
        if self.causal:
            encoded_response = (response_ids, response_parts)
            everything, all_parts = concatenate_pieces([(ids, parts), encoded_response])
            # Inputs and response share the model's limit, and are cut as one text.
            cuts = cut(len(everything), all_parts, self._max_text_tokens, self.cut_policy, where)
            keep, keep_response = np.split(cuts.keep, [len(ids)])
            tokens = cuts.tokens
        else:
            keep, first = cut(len(ids), parts, self._max_text_tokens, self.cut_policy, where)
            # The decoder's tokens do not take room from the encoder's.
            limit, of_response = self.max_length, f"{where}, response"
            keep_response, second = cut(
                len(response_ids), response_parts, limit, self.cut_policy, of_response
            )
            tokens = sum_cuts([first, second])
        if not keep_response.any():
            raise InputError(
                f"{where}: the cut policy {self.cut_policy!r} leaves nothing of the response to "
                "score; raise the limit, or choose the policy 'knowledge'."
            )
        # From the input as it is cut, so that both differ in the knowledge alone.
        without = ids[without_knowledge(keep, parts)]
        if second_branch:
            check_second_branch(len(without), tokens, self.cut_policy, where)
        return ReadResponse(
            self._add_special_tokens(ids[keep].tolist()),
            self._add_special_tokens(without.tolist()),
            check_ids(np.asarray(response_ids, int)[keep_response].tolist(), self.vocab_size),
            input_spans,
            _renumber_kept_tokens(keep, len(self.tokenizer.prefix_ids)),
            response_spans,
            _renumber_kept_tokens(keep_response),
            tokens,
        )

    def to_readable(self, ids: Sequence[int]) -> str:
        """Returns token ids as a text for people, special tokens such as `</s>` among them."""
        return self.tokenizer.to_readable(ids)

    def longest_inputs(self, responses: Sequence[Sequence[int]]) -> int:
        """Returns the most tokens that inputs in front of the longest of these responses have."""
        # A decoder-only model's response is among its tokens.
        return self.max_length - self.causal * max(map(len, responses), default=0)

    @property
    def _suffix_ids(self) -> Sequence[int]:
        return () if self.causal else self.tokenizer.suffix_ids

    @property
    def _max_text_tokens(self) -> int:
        special = len(self.tokenizer.prefix_ids) + len(self._suffix_ids)
        return self.max_length - special - self.reserved_tokens

    def _describe_limit(self, name: str) -> str:
        return f"{name}: max_length = {self.max_length}"

    def _encode_with_parts(
        self, text: str, parts: Sequence[Part]
    ) -> tuple[list[int], list[Part], list[tuple[int, int]]]:
        text = self.tokenizer.notation.to_model_notation(text)
        ids, spans = self.tokenizer.encode_with_offsets(text) if text else ([], [])
        return ids, in_tokens(parts, text, ids, self.tokenizer, spans), spans

    def _add_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """Returns inputs with special tokens, at least one that a decoder-only model can read."""
        row = [*self.tokenizer.prefix_ids, *ids, *self._suffix_ids]
        if not row and self.causal:
            first = [i for i in (self.tokenizer.bos_id, self.tokenizer.eos_id) if i is not None]
            if not first:
                raise ConfigError(
                    "the model has no token to begin with; give a cue_prompt that is not empty."
                )
            # A decoder-only model needs a token whose state predicts the response's first one.
            row = first[:1]
        return check_ids(row, self.vocab_size)


def _renumber_kept_tokens(keep: np.ndarray, first: int = 0) -> list[int | None]:
    """Returns the place of each token among those that stay, from `first` on."""
    # The number of tokens kept before each.
    places = np.cumsum(keep) - 1 + first
    return [int(p) if stays else None for p, stays in zip(places, keep, strict=True)]


def open_text_reader(
    model: str | BaseModel | None, options: ModelOptions
) -> tuple[EncoderDecoderModel | CausalModel, TextReader]:
    """Opens a language model, given by its path or name or open already, and its tokenizer.

    Raises:
      ConfigError: without a model, for a wrong option, and for a model of another kind.
    """
    named = model if isinstance(model, BaseModel) else require_model(model)
    check_options(options)
    opened: Any = named
    if not isinstance(named, BaseModel):
        opened = open_model(named, options.get("dtype"), options.get("num_partitions"))
    elif options.get("dtype") or options.get("num_partitions"):
        option = "dtype" if options.get("dtype") else "num_partitions"
        raise ConfigError(f"{option}: the model is open already; give it to load_model.")
    if not isinstance(opened, EncoderDecoderModel | CausalModel):
        raise ConfigError(
            f"model {opened.path}: expected a language model, got an encoder-only one or a "
            "classifier."
        )
    config = opened.config
    tokenizer, limit = all_of(
        lambda: open_tokenizer(opened.path, options.get("vocabulary"), config),
        lambda: input_limit(config, options.get("max_length")),
    )
    reader = TextReader(
        tokenizer,
        config.vocab_size,
        limit,
        config.is_decoder_only,
        options.get("cut_policy") or "knowledge",
    )
    return opened, reader
