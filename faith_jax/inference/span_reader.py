"""Extractive question answering: finds the span of a text that answers a question, if any.

A SQuAD 2.0 model reads question and text as a pair and gives each token a logit for starting the
answer and one for ending it. The answer is the span of the text with the highest sum of the two,
unless the sum at the first token, which means "no answer", is higher (Devlin 2019, section 4.3).
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Integer

from faith_jax.core.cutting import CutTokens, Kind, concatenate_pieces, one_part
from faith_jax.core.errors import ConfigError
from faith_jax.core.types import Array, PyTree
from faith_jax.inference.batching import Batcher, pad_rows, padded_length, token_types
from faith_jax.inference.encoder import EncoderModel
from faith_jax.inference.opening import (
    LONGEST_PAIR,
    ModelOptions,
    check_options,
    input_limit,
    open_model,
    open_tokenizer,
)
from faith_jax.inference.texts.text_pairs import cut_pair
from faith_jax.models.transformer import Transformer
from faith_jax.tokenizers.base import Tokenizer


class TextQuestion(NamedTuple):
    """A question about a text, which may be cut according to its kind."""

    question: str
    text: str
    kind: Kind = Kind.KNOWLEDGE


class _SpanRow(NamedTuple):
    """A question and its text, as the model reads them.

    Attributes:
      second: index of the first token of type 1, see `PairRow`.
      start: index of the text's first token, after the question and the separator.
      offsets: character spans in the text of the tokens that were kept.
      cut: number of the text's tokens that were cut.
    """

    ids: list[int]
    second: int
    start: int
    offsets: list[tuple[int, int]]
    cut: CutTokens


class Spans(NamedTuple):
    """The best span of each row: float32 and int32 [rows].

    Attributes:
      score: the sum of the span's two logits.
      null: the sum of the two logits at the first token, for "no answer".
      start: index of the span's first token.
      end: index of the span's last token.
    """

    score: Any
    null: Any
    start: Any
    end: Any


def best_spans(
    logits: Float[Array, "rows length 2"],
    first: Integer[Array, "rows"],
    text_end: Integer[Array, "rows"],
    longest: int,
) -> Spans:
    """Returns the best span of each row; ties go to the first span, then the shortest.

    Args:
      logits: for a span to start, and to end, at each token.
      first: index of the text's first token.
      text_end: index after the text's last token.
      longest: maximum number of tokens of a span.
    """
    rows, length, _ = logits.shape
    places = jnp.arange(length)[None]
    # The question, special tokens and padding contain no answers.
    inside = (places >= first[:, None]) & (places < text_end[:, None])
    starts, ends = (jnp.where(inside, logits[..., side], -jnp.inf) for side in (0, 1))
    # Spans that would end after the row get -inf.
    ends = jnp.pad(ends, ((0, 0), (0, longest)), constant_values=-jnp.inf)
    # [rows, length, longest]: column d holds the ends of spans of d + 1 tokens.
    ends = jnp.stack([ends[:, d : d + length] for d in range(longest)], axis=-1)
    # [rows, length * longest]: the score of the span from i to j is S . T_i + E . T_j (Devlin 2019,
    # section 4.2).
    sums = (starts[..., None] + ends).reshape(rows, -1)
    # Of equal sums, argmax takes the first: the earliest start, then the shortest span.
    best = jnp.argmax(sums, axis=1)
    # Index of the flat [length, longest]: best = start * longest + (end - start).
    start, more = best // longest, best % longest
    # For SQuAD 2.0, "no answer" is a span that starts and ends at the first token ([CLS]).
    return Spans(jnp.max(sums, axis=1), logits[:, 0].sum(axis=-1), start, start + more)


@functools.partial(jax.jit, static_argnums=0, static_argnames="longest")
def _find_best_spans(
    module: Transformer,
    params: PyTree,
    tokens: Array,
    types: Array,
    first: Array,
    text_end: Array,
    longest: int,
) -> Spans:
    logits: Any = module.apply({"params": params}, tokens, False, types, method="spans")
    return best_spans(logits, first, text_end, longest)


@dataclasses.dataclass(frozen=True)
class SpanReader:
    """A model that answers questions by spans of texts.

    Attributes:
      model: a model with an extractive question answering head.
      max_length: maximum number of tokens of a row, the question included.
      longest: maximum number of tokens of an answer.
      cut_policy: how a text that does not fit is cut, see `core.cutting`; the question never is.
      tokens_per_batch: see `Batcher`.
    """

    model: EncoderModel
    tokenizer: Tokenizer
    max_length: int
    longest: int = 30
    cut_policy: str = "knowledge"
    tokens_per_batch: int | None = None

    @classmethod
    def open(cls, folder: str, longest: int, options: ModelOptions) -> "SpanReader":
        """Opens a checkpoint.

        Raises:
          ConfigError: if the model has no extractive question answering head.
        """
        check_options(options)
        model = open_model(folder, options.get("dtype"), options.get("num_partitions"))
        if not isinstance(model, EncoderModel) or not model.config.span_head:
            raise ConfigError(
                f"model {folder}: expected a model of extractive question answering (…ForQuestion"
                "Answering), or an encoder-decoder, such as a T5."
            )
        return cls(
            model,
            open_tokenizer(folder, options.get("vocabulary"), model.config),
            input_limit(model.config, options.get("max_length"), LONGEST_PAIR),
            longest,
            options.get("cut_policy") or "knowledge",
            options.get("tokens_per_batch"),
        )

    def encode(self, text_question: TextQuestion, name: str = "a question") -> _SpanRow:
        """Encodes a question and its text; only the text may be cut.

        Raises:
          InputError: on a text that is too long and cannot be cut.
        """
        front, between, _ = self.tokenizer.pair_ids
        question = self.tokenizer.encode(text_question.question)
        text, offsets = self.tokenizer.encode_with_offsets(text_question.text)
        # The question has no parts that may be cut, so it stays whole.
        ids, parts = concatenate_pieces(
            [(question, []), (text, [one_part(text_question.kind, len(text))])]
        )
        limits = self.max_length, self.cut_policy, f"{name}: max_length = {self.max_length}"
        vocab_size = self.model.config.vocab_size
        row, keep = cut_pair(self.tokenizer, vocab_size, ids, len(question), parts, *limits)
        start = len(front) + len(question) + len(between)
        spans = zip(offsets, keep[len(question) :], strict=True)
        return _SpanRow(
            row.ids, row.second, start, [span for span, stays in spans if stays], row.cut
        )

    def __call__(self, questions: Sequence[TextQuestion]) -> tuple[list[str], list[CutTokens]]:
        """Returns each question's answer ("" = no answer), and the tokens cut from its text.

        Raises:
          InputError: see `encode`.
        """
        # Equal pairs of question and text are read once.
        unique = list(dict.fromkeys(questions))
        rows = [self.encode(question) for question in unique]
        answers: dict[TextQuestion, str] = {}
        partitioner = self.model.partitioner
        batcher = Batcher(
            "answers",
            self.tokens_per_batch,
            on_cpu=2048,
            multiple_of=partitioner.data_parallelism,
        )
        bound = functools.partial(
            _find_best_spans, self.model.module, self.model.params, longest=self.longest
        )
        for batch in batcher.batches([(padded_length(len(row.ids)),) for row in rows]):
            batch_rows = [rows[n] for n in batch.rows]
            length = batch.shape[0]
            # [3, rows]: indices of the first token of type 1, the text's first token, and its end.
            numbers = np.zeros((3, batch.size), np.int32)
            for line, row in enumerate(batch_rows):
                numbers[:, line] = row.second, row.start, row.start + len(row.offsets)
            second, first, text_end = numbers
            tokens = pad_rows(
                [row.ids for row in batch_rows], length, self.model.pad_id, batch.size
            )
            tokens[len(batch_rows) :, 0] = batch_rows[0].ids[0]  # something to attend to
            spans = partitioner.compute(bound, tokens, token_types(second, length), first, text_end)
            for line, (number, row) in enumerate(zip(batch.rows, batch_rows, strict=True)):
                question, answer = unique[number], ""
                # A tie goes to the span; a text without tokens has no answer.
                if row.offsets and not spans.null[line] > spans.score[line]:
                    # Relative to the text's first token, like `offsets`.
                    begin, end = (int(n[line]) - row.start for n in (spans.start, spans.end))
                    answer = question.text[row.offsets[begin][0] : row.offsets[end][1]].strip()
                answers[question] = answer
        cuts = {question: row.cut for question, row in zip(unique, rows, strict=True)}
        return [answers[question] for question in questions], [
            cuts[question] for question in questions
        ]

    def to_readable(self, text_question: TextQuestion, name: str) -> tuple[str, CutTokens]:
        """Returns the model's input for a question, as text, and the tokens cut; see `encode`."""
        row = self.encode(text_question, name)
        return self.tokenizer.to_readable(row.ids), row.cut
