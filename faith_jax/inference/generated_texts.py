"""Generation of answers to many texts at once, in few compiled shapes."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from faith_jax.core.cutting import CutTokens, Part
from faith_jax.core.errors import ConfigError
from faith_jax.inference.batching import Batcher, pad_rows, padded_length
from faith_jax.inference.encoder_decoder import EncoderDecoderModel
from faith_jax.inference.opening import ModelOptions
from faith_jax.inference.texts.text_reader import ReadText, TextReader, open_text_reader

# Padded lengths of prompts. There are few, since each is compiled separately.
_LENGTHS = (32, 64, 128, 256, 512)


class Prompt(NamedTuple):
    """A text to answer, and the parts of it that may be cut, in characters."""

    text: str
    parts: tuple[Part, ...] = ()


@dataclasses.dataclass(frozen=True)
class TextGenerator:
    """An encoder-decoder that answers texts with texts.

    Attributes:
      model: the encoder-decoder.
      max_length: maximum number of tokens of an answer.
    """

    model: EncoderDecoderModel
    reader: TextReader
    max_length: int
    rows: int = 16

    @classmethod
    def open(cls, folder: str, max_length: int, options: ModelOptions) -> "TextGenerator":
        """Opens a checkpoint.

        Raises:
          ConfigError: if it is not an encoder-decoder.
        """
        model, reader = open_text_reader(folder, options)
        if not isinstance(model, EncoderDecoderModel):
            raise ConfigError(f"model {folder}: expected an encoder-decoder, such as a T5.")
        return cls(model, reader, max_length)

    def __call__(
        self, prompts: Sequence[Prompt], num_beams: int = 1, **search: Any
    ) -> tuple[list[list[str]], list[CutTokens]]:
        """Returns each text's answers, the best first, and the number of its tokens that were cut.

        Repeated prompts are answered once. All beams of the search are returned as answers;
        `search` has further fields of `DecodingConfig`, such as `no_repeat_ngram`.

        Raises:
          InputError: on a text that is too long and cannot be cut.
        """
        unique = list(dict.fromkeys(prompts))
        encoded = [self.encode(prompt) for prompt in unique]
        answers: dict[Prompt, list[str]] = {}
        # A batch has at most `rows` prompts, and fewer if they are longer than 512 tokens.
        batcher = Batcher("answers", self.rows * _LENGTHS[-1])
        shapes = [(padded_length(len(ids), _LENGTHS),) for ids, _ in encoded]
        for batch in batcher.batches(shapes, lambda shape: self.rows):
            ids = [encoded[n][0] for n in batch.rows]
            tokens = pad_rows(ids, batch.shape[0], self.model.pad_id, batch.size)
            # Padding lines get an end token, since there must be something to attend to.
            tokens[len(ids) :, 0] = self.model.config.eos_ids[0]
            decoded = self.model.decode(
                tokens,
                max_length=self.max_length,
                num_beams=num_beams,
                num_return=num_beams,
                **search,
            )
            # [rows, num_beams, max_length]; one beam has no axis of its own.
            beams = np.asarray(decoded.tokens).reshape(len(tokens), num_beams, -1)
            for n, row in zip(batch.rows, beams, strict=False):
                answers[unique[n]] = [
                    self.reader.tokenizer.decode(beam.tolist()).strip() for beam in row
                ]
        cuts = {prompt: tokens for prompt, (_, tokens) in zip(unique, encoded, strict=True)}
        return [answers[prompt] for prompt in prompts], [cuts[prompt] for prompt in prompts]

    def encode(self, prompt: Prompt, name: str = "an input") -> ReadText:
        """Encodes a prompt as the model reads it; raises as `TextReader.read`."""
        return self.reader.read(prompt.text, name, prompt.parts)
