"""Texts from texts, many at once and in few compiled shapes, for scorers that ask a model."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from faith_jax.core.cutting import CutTokens, Part, cut, in_tokens
from faith_jax.core.errors import ConfigError
from faith_jax.core.progress import Progress
from faith_jax.inference import EncoderDecoderModel
from faith_jax.inference.opening import check_ids, input_limit, open_language_model, open_tokenizer
from faith_jax.inference.row_likelihoods import rung
from faith_jax.tokenizers.base import Tokenizer

_LENGTHS = (32, 64, 128, 256, 512)


class Prompt(NamedTuple):
    """A text to answer, and its parts that may be cut, in characters."""

    text: str
    parts: tuple[Part, ...] = ()


@dataclasses.dataclass(frozen=True)
class TextGenerator:
    """An encoder-decoder that answers texts with texts.

    Attributes:
      model: of an encoder and a decoder.
      tokenizer: of the same model.
      max_input_length: tokens of an input.
      max_length: tokens of an answer.
      cut_policy: what a longer input loses, see `faith_jax.core.cutting`.
      rows: decoded at once.
    """

    model: EncoderDecoderModel
    tokenizer: Tokenizer
    max_input_length: int
    max_length: int
    cut_policy: str = "knowledge"
    rows: int = 16

    @classmethod
    def open(
        cls,
        folder: str,
        vocabulary: str | None,
        max_input_length: int | None,
        max_length: int,
        cut_policy: str = "knowledge",
    ) -> "TextGenerator":
        """Opens a checkpoint.

        Raises:
          ConfigError: for one of another kind.
        """
        model = open_language_model(folder)
        if not isinstance(model, EncoderDecoderModel):
            raise ConfigError(f"model {folder}: expected an encoder-decoder, such as a T5.")
        tokenizer = open_tokenizer(folder, vocabulary, model.config)
        limit = input_limit(model.config, max_input_length)
        return cls(model, tokenizer, limit, max_length, cut_policy)

    def __call__(
        self, prompts: Sequence[Prompt], num_beams: int = 1, **search: Any
    ) -> tuple[list[list[str]], list[CutTokens]]:
        """Returns for each text its answers, the best first, and how many of its tokens were cut.

        Args:
          prompts: may repeat; each is answered once.
          num_beams: of the search, all of which are answers.
          **search: further fields of `DecodingConfig`, such as `no_repeat_ngram`.

        Raises:
          InputError: for a text that is too long and cannot be cut.
        """
        unique = list(dict.fromkeys(prompts))
        encoded = [self.encoded(prompt) for prompt in unique]
        rows = [row for row, _ in encoded]
        answers: dict[Prompt, list[str]] = {}
        by_length: dict[int, list[int]] = {}
        for number, row in enumerate(rows):
            by_length.setdefault(rung(len(row), _LENGTHS), []).append(number)
        progress = Progress("answers to row", len(rows))
        for length, numbers in by_length.items():
            for start in range(0, len(numbers), self.rows):
                batch = numbers[start : start + self.rows]
                tokens = np.full((self.rows, length), self.model.pad_id, np.int32)
                # Rows that nobody asked for end at once.
                tokens[len(batch) :, 0] = self.model.config.eos_ids[0]
                for line, number in zip(tokens, batch, strict=False):
                    line[: len(rows[number])] = rows[number]
                for number, found in zip(
                    batch, self._decoded(tokens, num_beams, search), strict=False
                ):
                    answers[unique[number]] = found
                progress.add(len(batch))
        cuts = {prompt: tokens for prompt, (_, tokens) in zip(unique, encoded, strict=True)}
        return [answers[prompt] for prompt in prompts], [cuts[prompt] for prompt in prompts]

    def encoded(self, prompt: Prompt, name: str = "an input") -> tuple[list[int], CutTokens]:
        """Returns what the model reads of a text, and how many tokens of it are cut.

        Args:
          prompt: the text.
          name: of it, for errors.

        Raises:
          InputError: for a text that is too long and cannot be cut.
        """
        ids = np.asarray(self.tokenizer.encode(prompt.text), int)
        parts = in_tokens(prompt.parts, prompt.text, ids, self.tokenizer)
        room = self.max_input_length - len(self.tokenizer.add_special_tokens([]))
        keep, tokens = cut(
            len(ids), parts, room, self.cut_policy, f"{name}: max_length = {self.max_input_length}"
        )
        row = list(self.tokenizer.add_special_tokens(ids[keep].tolist()))
        return check_ids(row, self.model.config.vocab_size), tokens

    def _decoded(
        self, tokens: np.ndarray, num_beams: int, search: Mapping[str, Any]
    ) -> list[list[str]]:
        found = self.model.decode(
            tokens, max_length=self.max_length, num_beams=num_beams, num_return=num_beams, **search
        )
        beams = np.asarray(found.tokens).reshape(len(tokens), num_beams, -1)
        return [
            [self.tokenizer.decode([int(t) for t in beam]).strip() for beam in row] for row in beams
        ]
