"""The inputs of a judge's model: a row for each chunk of a grounding, with the response.

The response is never cut. A chunk that does not fit loses its end; the cut tokens are counted.
"""

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from faith_jax.core.cutting import Kind, Part, concatenate_pieces, cut, in_tokens
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.words import Piece
from faith_jax.inference.opening import check_ids
from faith_jax.inference.texts.text_pairs import PairRow, cut_pair
from faith_jax.scoring.judges.card import GROUNDING, QUERY, RESPONSE, JudgeCard, Windows
from faith_jax.scoring.judges.chunks import text_chunks, windows
from faith_jax.tokenizers.base import NAMES, Tokenizer

# The response has the kind HISTORY, as `core.cutting` would cut a RESPONSE beside long knowledge.
_KINDS = {GROUNDING: Kind.KNOWLEDGE, RESPONSE: Kind.HISTORY, QUERY: Kind.OTHER}
Offsets = list[tuple[int, int]]  # start and end of each token, in characters of a text
_FIELDS = re.compile(rf"\{{({'|'.join(_KINDS)})\}}")


class ChunkRow(NamedTuple):
    """The row of a chunk with a response.

    Attributes:
      chunk: the chunk as the model reads it, with its offsets in the whole grounding.
      row: the tokens of the row.
      response: the index of the response's first token in the row.
      offsets: the offsets of the response's tokens in its text.
    """

    chunk: Piece
    row: PairRow
    response: int
    offsets: Offsets


class _Encoded(NamedTuple):
    """A tokenized input, without the special tokens around it, and its parts.

    Attributes:
      ids: int [tokens].
      parts: the parts of the input, such as grounding and response, in tokens.
      offsets: the offsets of the grounding's and the response's tokens in their texts.
      split: the number of tokens of the first text; all tokens if there is only one text.
    """

    ids: np.ndarray
    parts: list[Part]
    offsets: dict[Kind, Offsets]
    split: int

    def part(self, kind: Kind) -> Part:
        """Returns the part of the grounding or of the response."""
        return next(part for part in self.parts if part.kind == kind)


@dataclasses.dataclass(frozen=True)
class JudgeEncoder:
    """Makes the rows of a judge's model.

    Attributes:
      max_length: the most tokens of a row, including special tokens.
      cut_policy: "knowledge", or "error" if nothing may be cut.

    Raises:
      ConfigError: the tokenizer lacks a special token, or the chunks leave no room for a response.
    """

    card: JudgeCard
    tokenizer: Tokenizer
    vocab_size: int
    max_length: int
    cut_policy: str = "knowledge"

    def __post_init__(self):
        prompt = self._count_row_tokens(
            self._encode_fields({GROUNDING: "", RESPONSE: "", QUERY: ""})
        )
        rule = self.card.chunks
        length = getattr(rule, "length", 0)
        unit = getattr(rule, "unit", "")
        # Words and sentences may have any number of tokens.
        needed = {"tokens": prompt + length + 1, "row_tokens": prompt + 2}.get(unit, prompt + 2)
        problem = ""
        if needed > self.max_length:
            problem = f"the judge's prompt of {prompt} tokens"
            problem += f" and chunks of {length} leave" if unit == "tokens" else " leaves"
        elif unit == "row_tokens" and not needed <= length <= self.max_length:
            raise ConfigError(
                f"chunks.length: expected {needed} to {self.max_length} tokens of a whole row, the "
                f"judge's prompt of {prompt} included, got {length}."
            )
        if problem:
            raise ConfigError(
                f"{problem} no room for a response in max_length = {self.max_length}; give a "
                "larger max_length, or a card with shorter chunks."
            )

    def chunks(self, texts: Sequence[str]) -> list[Piece]:
        """Returns the chunks of a grounding; a single one if `rows` makes windows of tokens."""
        return text_chunks(texts, self.card.chunks, lambda text: len(self.tokenizer.encode(text)))

    def rows(
        self, chunks: Sequence[Piece], response: str, query: str, where: str
    ) -> list[ChunkRow]:
        """Returns the row of each chunk with a response, or with one of its sentences.

        The query is the last turn of the history; `where` names the example in errors.

        Raises:
          InputError: the response leaves no room for a chunk.
        """
        place = f"{where}: max_length = {self.max_length}"
        rows = list[ChunkRow]()
        for chunk in chunks:
            encoded = self._encode_fields({GROUNDING: chunk.text, RESPONSE: response, QUERY: query})
            knowledge = encoded.part(Kind.KNOWLEDGE)
            num_tokens = self._count_row_tokens(encoded)
            around = num_tokens - (knowledge.end - knowledge.start)
            if around >= self.max_length and num_tokens > self.max_length:
                raise InputError(
                    f"{place}: the response and the judge's prompt have {around} tokens, which "
                    "leaves no room for any of the grounding; a response is never cut: shorten it, "
                    "or raise max_length."
                )
            if isinstance(self.card.chunks, Windows) and self.card.chunks.unit != "words":
                rows += self._build_window_rows(chunk, encoded, around, self.card.chunks, place)
                continue
            rows.append(self._build_chunk_row(chunk, encoded, place))
        return rows

    def _build_window_rows(
        self, chunk: Piece, encoded: _Encoded, around: int, rule: Windows, place: str
    ) -> Iterator[ChunkRow]:
        """Yields a row for each window of a grounding's tokens."""
        knowledge = encoded.part(Kind.KNOWLEDGE)
        length = rule.length - (around if rule.unit == "row_tokens" else 0)
        if length < 1:
            raise InputError(
                f"{place}: the response and the judge's prompt have {around} tokens, which leaves "
                f"no room for any of the grounding in the card's chunks of {rule.length}; a "
                "response is never cut: shorten it."
            )
        count = knowledge.end - knowledge.start
        for first, last in windows(count, length, rule.overlap):
            start, end = knowledge.start + first, knowledge.start + last
            removed = count - (last - first)
            window = _Encoded(
                np.concatenate(
                    [
                        encoded.ids[: knowledge.start],
                        encoded.ids[start:end],
                        encoded.ids[knowledge.end :],
                    ]
                ),
                [_move_part(part, knowledge, last - first) for part in encoded.parts],
                encoded.offsets | {Kind.KNOWLEDGE: encoded.offsets[Kind.KNOWLEDGE][first:last]},
                encoded.split - removed * (knowledge.start < encoded.split),
            )
            spans = window.offsets[Kind.KNOWLEDGE]
            begin, stop = spans[0][0], spans[-1][1]
            piece = Piece(chunk.text[begin:stop], chunk.start + begin, chunk.start + stop)
            yield self._build_chunk_row(piece, window, place)

    def _build_chunk_row(self, chunk: Piece, encoded: _Encoded, place: str) -> ChunkRow:
        ids, parts, response = encoded.ids, encoded.parts, encoded.part(Kind.HISTORY)
        limits = self.cut_policy, place
        if self.card.input.pair:
            row, keep = cut_pair(
                self.tokenizer, self.vocab_size, ids, encoded.split, parts, self.max_length, *limits
            )
            front, between, _ = self.tokenizer.pair_ids
            begin = len(front) + (len(between) if response.start >= encoded.split else 0)
        else:
            room = self.max_length - len(self._build_empty_row())
            keep, tokens = cut(len(ids), parts, room, *limits)
            row_ids = self.tokenizer.add_special_tokens(ids[keep].tolist())
            row = PairRow(check_ids(row_ids, self.vocab_size), tokens, len(row_ids))
            begin = len(self.tokenizer.prefix_ids)
        # The response is whole, and follows the tokens kept of the text before it.
        begin += int(keep[: response.start].sum())
        return ChunkRow(chunk, row, begin, encoded.offsets[Kind.HISTORY])

    def _build_empty_row(self) -> list[int]:
        return self.tokenizer.add_special_tokens([], [] if self.card.input.pair else None)

    def _count_row_tokens(self, encoded: _Encoded) -> int:
        return len(encoded.ids) + len(self._build_empty_row())

    def _encode_fields(self, values: Mapping[str, str]) -> _Encoded:
        offsets: dict[Kind, Offsets] = {Kind.KNOWLEDGE: [], Kind.HISTORY: []}
        texts = [
            [self._encode_segment(segment, values, offsets) for segment in segments]
            for segments in self.segments
        ]
        ids, parts = concatenate_pieces(segment for text in texts for segment in text)
        return _Encoded(ids, parts, offsets, sum(len(segment_ids) for segment_ids, _ in texts[0]))

    def _encode_segment(
        self,
        segment: int | list[str],
        values: Mapping[str, str],
        offsets: dict[Kind, Offsets],
    ) -> tuple[list[int], list[Part]]:
        """Returns the tokens and parts of a segment: a special token or a stretch of text.

        Adds the offsets of the grounding's and the response's tokens to `offsets`.
        """
        if isinstance(segment, int):
            return [segment], []
        text, parts = "", list[Part]()
        for number, piece in enumerate(segment):
            start = len(text)
            if number % 2:  # a field
                text += values[piece]
                parts.append(Part(_KINDS[piece], start, start, len(text), len(text)))
            else:
                text += piece
        ids, places = self.tokenizer.encode_with_offsets(text)
        in_ids = in_tokens(parts, text, ids, self.tokenizer)
        for written, part in zip(parts, in_ids, strict=True):
            if part.kind in offsets:
                last = written.end - written.start
                offsets[part.kind] += [
                    (max(0, start - written.start), min(end - written.start, last))
                    for start, end in places[part.start : part.end]
                ]
        return ids, in_ids

    @functools.cached_property
    def segments(self) -> list[list[int | list[str]]]:
        """The texts of the input, each a list of special tokens (by id) and stretches.

        A stretch alternates between text and fields, and begins and ends with text.
        """
        read = self.card.input
        ids = {getattr(self.tokenizer, f"{name}_id") for name in NAMES} - {None}
        id_of = {self.tokenizer.stored_piece(token): token for token in sorted(ids)}
        for token in read.special_tokens:
            if token not in id_of:
                raise ConfigError(
                    f"input.special_tokens: the model's tokenizer has no {token!r}, but "
                    f"{', '.join(map(repr, id_of))}; this card is for another tokenizer."
                )
        special = {token: id_of[token] for token in read.special_tokens}
        marks = re.compile("|".join(f"({re.escape(token)})" for token in special) or "(?!)")
        texts = []
        for template in read.templates:
            pieces = [piece for piece in marks.split(template) if piece]
            texts.append(
                [special[piece] if piece in special else _FIELDS.split(piece) for piece in pieces]
            )
        return texts


def _move_part(part: Part, knowledge: Part, length: int) -> Part:
    """Returns a part's new place after the grounding's part has changed to `length` tokens."""
    if part.kind == Kind.KNOWLEDGE:
        return Part(part.kind, *(min(place, knowledge.start + length) for place in part[1:]))
    shift = length - (knowledge.end - knowledge.start) if part.start >= knowledge.end else 0
    return Part(part.kind, *(place + shift for place in part[1:]))
