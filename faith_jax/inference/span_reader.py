"""Extractive question answering: the span of a text that answers a question, or that none does.

A model of SQuAD 2.0 reads question and text side by side and gives each token a logit to start and
one to end the answer. An answer is the span of the text with the highest sum of both, unless the
sum at the first token, which stands for "no answer", is higher still (Devlin 2019, section 4.3).
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
    """A question about a text of a kind, which may be cut."""

    question: str
    text: str
    kind: Kind = Kind.KNOWLEDGE


class _SpanRow(NamedTuple):
    """A question and its text, as the model reads them.

    Attributes:
      second: where the tokens of type 1 begin, see `PairRow`.
      start: where the text begins, which it does behind the question and what stands between.
      offsets: of the text's tokens that stayed, their characters in it.
      cut: how many of its tokens did not stay.
    """

    ids: list[int]
    second: int
    start: int
    offsets: list[tuple[int, int]]
    cut: CutTokens


class Spans(NamedTuple):
    """The best span of each row: float32 and int32 [rows].

    Attributes:
      score: the sum of its two logits.
      null: the same sum at the first token.
      start: its first token.
      end: its last token.
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
    """Returns the best span of each row, of several equal ones the first, then the shortest.

    Args:
      logits: to start and to end there.
      first: the text's first token.
      text_end: the place behind its last token.
      longest: tokens of a span, at most.
    """
    rows, length, _ = logits.shape
    places = jnp.arange(length)[None]
    # No answer is in the question, in special tokens or in padding.
    inside = (places >= first[:, None]) & (places < text_end[:, None])
    starts, ends = (jnp.where(inside, logits[..., side], -jnp.inf) for side in (0, 1))
    # Spans that would end behind the row have no end.
    ends = jnp.pad(ends, ((0, 0), (0, longest)), constant_values=-jnp.inf)
    # [rows, length, longest]: column d is of the spans of d + 1 tokens.
    ends = jnp.stack([ends[:, d : d + length] for d in range(longest)], axis=-1)
    # [rows, length * longest]: the score of the span from i to j is S . T_i + E . T_j (Devlin 2019,
    # section 4.2).
    sums = (starts[..., None] + ends).reshape(rows, -1)
    # Of equal sums argmax takes the first: the earliest start, and of that the shortest span.
    best = jnp.argmax(sums, axis=1)
    # Index of the flat [length, longest]: best = start * longest + (end - start).
    start, more = best // longest, best % longest
    # SQuAD 2.0's models give "no answer" the start and the end at their first token ([CLS]).
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
      model: with a head of extractive question answering.
      max_length: tokens of a row, the question among them.
      longest: tokens of an answer.
      cut_policy: what is cut of a text that does not fit, see `core.cutting`; never the question.
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
          ConfigError: for one of another kind.
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
        """Encodes a question and its text, of which the text may be cut.

        Raises:
          InputError: for a text that is too long and cannot be cut.
        """
        front, between, _ = self.tokenizer.pair_ids
        question = self.tokenizer.encode(text_question.question)
        text, offsets = self.tokenizer.encode_with_offsets(text_question.text)
        # A question without parts that may be cut stays whole.
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
        """Returns the answer to each question, "" = there is none, and what was cut of its text.

        Raises:
          InputError: see `encode`.
        """
        # Equal questions of equal texts are read once.
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
            # [3, rows]: where type 1 begins, where the text begins, and the place behind it.
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
                # Of equal sums the span is the answer; also a text without a token has none.
                if row.offsets and not spans.null[line] > spans.score[line]:
                    # Counted from the text's first token, as its offsets are.
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
