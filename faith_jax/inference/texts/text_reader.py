"""Reading of texts for a language model: tokens, length limit, and cutting of longer texts.

Longer texts are cut by `core.cutting`: by default the knowledge loses its end (with several
perspectives, the longest is cut first), and history and response stay.
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
from faith_jax.inference.texts.row_tokens import InputLayout
from faith_jax.tokenizers.base import Tokenizer

# A text, and the parts of it that may be cut, in characters.
PartedText = tuple[str, Sequence[Part]]


class ReadText(NamedTuple):
    """A text as a model reads it: token ids, special ones included, and the number cut."""

    ids: list[int]
    cut: CutTokens


class ReadResponse(NamedTuple):
    """Inputs and the response to them, as a model reads them.

    Attributes:
      inputs: token ids, special ones included.
      without_knowledge: the inputs' token ids without the knowledge.
      response: token ids.
      input_spans: character span of each of the inputs' tokens, cut ones included.
      input_places: index in `inputs` of each token in `input_spans`; None = it is cut.
      response_spans: character span of each of the response's tokens, cut ones included.
      response_places: index in `response` of each token in `response_spans`; None = it is cut.
      cut: number of tokens cut, for each kind of part.
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
    """Turns texts into the tokens that a language model reads.

    Attributes:
      max_length: maximum number of tokens of the inputs, special ones included. A decoder-only
        model's response counts too; an encoder-decoder's may have as many tokens again.
      causal: whether the model is decoder-only.
      cut_policy: see `core.cutting`.
      reserved_tokens: number of tokens to leave free after the inputs.
      response_start: special ids before a response, see `InputLayout.target_prefix`.
    """

    tokenizer: Tokenizer
    vocab_size: int
    max_length: int
    causal: bool
    cut_policy: str = "knowledge"
    reserved_tokens: int = 0
    response_start: tuple[int, ...] = ()

    def read(self, text: str, name: str, parts: Sequence[Part] | None = None) -> ReadText:
        """Encodes a text as the model reads it, cut to the limit; `name` is for errors.

        `parts` are its parts that may be cut, in characters; None = those that the forms of
        `core.templates` mark.

        Raises:
          InputError: if it is too long, and the policy cannot cut it.
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
        """Encodes input texts and the response to them as the model reads them.

        Args:
          inputs: texts that are encoded one by one.
          response: encoded separately.
          name: name of the example, for errors.
          second_branch: whether the model reads the inputs without the knowledge too.

        Raises:
          InputError: if the policy cannot cut enough, or leaves nothing of the response or of the
            second branch.
        """
        where = self._describe_limit(name)
        # Encode one by one, so that no token spans two texts and their parts stay separate.
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
            # The decoder has a limit of its own.
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
        # Taken from the cut input, so that the two differ only in the knowledge.
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
        """Returns token ids as readable text, with special tokens such as `</s>`."""
        return self.tokenizer.to_readable(ids)

    def longest_inputs(self, responses: Sequence[Sequence[int]]) -> int:
        """Returns the maximum number of input tokens before the longest of these responses."""
        # A decoder-only model's response counts towards its limit.
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
        """Adds special tokens to inputs; an empty input of a decoder-only model gets one token."""
        row = [*self.tokenizer.prefix_ids, *ids, *self._suffix_ids]
        if not row and self.causal:
            first = [i for i in (self.tokenizer.bos_id, self.tokenizer.eos_id) if i is not None]
            if not first:
                raise ConfigError(
                    "the model has no token to begin with; give a cue_prompt that is not empty."
                )
            # A decoder-only model needs a token whose state predicts the response's first token.
            row = first[:1]
        return check_ids(row, self.vocab_size)


def _renumber_kept_tokens(keep: np.ndarray, first: int = 0) -> list[int | None]:
    """Returns the index of each token among the kept ones, counted from `first`; None = cut."""
    # The number of tokens kept before each token.
    places = np.cumsum(keep) - 1 + first
    return [int(p) if stays else None for p, stays in zip(places, keep, strict=True)]


def open_text_reader(
    model: str | BaseModel | None, options: ModelOptions
) -> tuple[EncoderDecoderModel | CausalModel, TextReader]:
    """Opens a language model, unless it is open already, and its tokenizer.

    Raises:
      ConfigError: without a model, on a wrong option, and on a model of another kind.
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
        response_start=InputLayout.of(config, tokenizer).target_prefix,
    )
    return opened, reader
