"""Texts from texts, many at once and in few compiled shapes, for scorers that ask a model."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from faith_jax.errors import ConfigError
from faith_jax.language_model import LanguageModel
from faith_jax.scoring.likelihood import rung
from faith_jax.scoring.models import check_ids, input_limit, open_language_model, open_tokenizer
from faith_jax.types import Tokenizer

_LENGTHS = (32, 64, 128, 256, 512)


@dataclasses.dataclass(frozen=True)
class TextGenerator:
    """An encoder-decoder that answers texts with texts.

    Attributes:
      model: of an encoder and a decoder.
      tokenizer: of the same model.
      max_input_length: tokens of an input; a longer one loses its end.
      max_length: tokens of an answer.
      rows: decoded at once.
    """

    model: LanguageModel
    tokenizer: Tokenizer
    max_input_length: int
    max_length: int
    rows: int = 16

    @classmethod
    def open(
        cls, folder: str, vocabulary: str | None, max_input_length: int | None, max_length: int
    ) -> "TextGenerator":
        """Opens a checkpoint.

        Raises:
          ConfigError: for one of another kind.
        """
        model = open_language_model(folder)
        if not isinstance(model, LanguageModel):
            raise ConfigError(f"model {folder}: expected an encoder-decoder, such as a T5.")
        tokenizer = open_tokenizer(folder, vocabulary, model.config)
        limit = input_limit(model.config, max_input_length)
        return cls(model, tokenizer, limit, max_length)

    def __call__(
        self, texts: Sequence[str], num_beams: int = 1, **search: Any
    ) -> tuple[list[list[str]], list[int]]:
        """Returns for each text its answers, the best first, and how many of its tokens were cut.

        Args:
          texts: may repeat; each is answered once.
          num_beams: of the search, all of which are answers.
          **search: further fields of `DecodingConfig`, such as `no_repeat_ngram`.
        """
        unique = list(dict.fromkeys(texts))
        rows, cuts = self._encoded(unique)
        answers: dict[str, list[str]] = {}
        by_length: dict[int, list[int]] = {}
        for number, row in enumerate(rows):
            by_length.setdefault(rung(len(row), _LENGTHS), []).append(number)
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
        cut = dict(zip(unique, cuts, strict=True))
        return [answers[text] for text in texts], [cut[text] for text in texts]

    def _encoded(self, texts: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        rows, cut = [], []
        for text in texts:
            ids = list(self.tokenizer.encode(text))
            kept = ids[: self.max_input_length - len(self.tokenizer.add_special_tokens([]))]
            cut.append(len(ids) - len(kept))
            row = list(self.tokenizer.add_special_tokens(kept))
            rows.append(check_ids(row, self.model.config.vocab_size))
        return rows, cut

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
