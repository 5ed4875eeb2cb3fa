"""Divides a grounding that is too long to be read at once into chunks."""

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from faith_jax.core.heavy_imports import light_module
from faith_jax.core.words import Piece, locate_sentences
from faith_jax.scoring.judges.card import EvenSentences, Sentences, Windows

_LINE = "\n"


def text_between(rule: Sentences | Windows | EvenSentences | None) -> str:
    """Returns the separator with which the texts of a grounding are joined into one."""
    return _LINE if isinstance(rule, Sentences) and rule.keep_lines else " "


def text_chunks(
    texts: Sequence[str],
    rule: Sentences | Windows | EvenSentences | None,
    count_tokens: Callable[[str], int],
) -> list[Piece]:
    """Returns the chunks of a grounding as the model reads them; empty if the grounding is blank.

    Args:
      texts: the texts of the grounding.
      rule: the rule of a card. Windows of tokens are made later, from the grounding as one chunk.
      count_tokens: returns how many tokens a text has.

    Returns:
      The chunks, with offsets in the texts joined by `text_between`. No sentence spans two texts.

    >>> rule = Sentences(length=4, unit="words")
    >>> chunks = text_chunks(["Tea is a leaf. It is hot. It is dry."], rule, len)
    >>> [chunk.text for chunk in chunks]
    ['Tea is a leaf.', 'It is hot.', 'It is dry.']
    """
    grounding = text_between(rule).join(texts)
    if not grounding.strip():
        return []
    if isinstance(rule, Sentences):
        return list(_fill_chunks(_split_into_sentences(texts, rule), rule, count_tokens))
    if isinstance(rule, EvenSentences):
        return list(_group_evenly(_split_into_sentences(texts, rule), len(grounding.split()), rule))
    if isinstance(rule, Windows) and rule.unit == "words":
        words = [match.span() for match in re.finditer(r"\S+", grounding)]
        ends = windows(len(words), rule.length, rule.overlap)
        spans = [(words[first][0], words[last - 1][1]) for first, last in ends]
        return [Piece(grounding[start:end], start, end) for start, end in spans]
    return [Piece(grounding, 0, len(grounding))]


def windows(count: int, length: int, overlap: float) -> list[tuple[int, int]]:
    """Returns the start and end of each window of a sequence.

    The number of windows is that of SCALE's code, so the last window may lie within the one before
    it; more windows are added if needed to reach the end of the sequence.

    Args:
      count: the length of the sequence.
      length: the length of a window.
      overlap: the share of a window that the next one repeats, in [0, 1).

    >>> windows(10, 4, 0.25)
    [(0, 4), (3, 7), (6, 10), (9, 10)]
    """
    if count <= length:
        return [(0, count)]
    step = max(1, int(length * (1 - overlap)))
    number = math.ceil(count / (length * (1 - overlap)))
    number = max(number, math.ceil((count - length) / step) + 1)
    starts = range(0, min(number * step, count), step)
    return [(start, min(start + length, count)) for start in starts]


def _split_into_sentences(texts: Sequence[str], rule: Sentences | EvenSentences) -> Iterator[Piece]:
    """Yields the sentences of a grounding, and line breaks too if the rule keeps lines."""
    keeps_lines = isinstance(rule, Sentences) and rule.keep_lines
    shortest = rule.shortest if isinstance(rule, Sentences) else 1
    start = 0
    for text in texts:
        for line in text.split(_LINE) if keeps_lines else [text]:
            if keeps_lines and start:
                yield Piece(_LINE, start - 1, start)
            for piece in locate_sentences(line):
                if len(piece.text) >= shortest:
                    yield Piece(piece.text, start + piece.start, start + piece.end)
            start += len(line) + 1  # one more for the line break or separator


def _fill_chunks(
    pieces: Iterable[Piece], rule: Sentences, count_tokens: Callable[[str], int]
) -> Iterator[Piece]:
    """Yields chunks of as many sentences as fit."""
    size_of = _COUNTS.get(rule.unit, count_tokens)
    chunk, size = list[Piece](), 0
    for piece in pieces:
        count = size_of(piece.text)
        if chunk and size + count > rule.length:
            yield from _join_pieces(chunk, rule.joined_by)
            chunk, size = [], 0
        chunk.append(piece)
        size += count
    yield from _join_pieces(chunk, rule.joined_by)


def _join_pieces(pieces: Sequence[Piece], between: str) -> Iterator[Piece]:
    """Yields the chunk of some sentences and line breaks, unless there are only line breaks."""
    sentences = [piece for piece in pieces if piece.text != _LINE]
    if sentences:
        text = between.join(piece.text for piece in pieces)
        # A line break needs no space around it.
        text = text.replace(f" {_LINE} ", _LINE).strip()
        yield Piece(text, sentences[0].start, sentences[-1].end)


def _group_evenly(pieces: Iterable[Piece], words: int, rule: EvenSentences) -> Iterator[Piece]:
    sentences = list(pieces)
    number = max(len(sentences) // (words // rule.length + 1), 1)
    for first in range(0, len(sentences), number):
        yield from _join_pieces(sentences[first : first + number], " ")


@functools.cache
def _load_treebank_tokenizer() -> Any:
    return light_module("nltk.tokenize.destructive").NLTKWordTokenizer()


_COUNTS: dict[str, Callable[[str], int]] = {
    "words": lambda text: len(text.split()),
    "treebank_words": lambda text: len(_load_treebank_tokenizer().tokenize(text)),
    "sentences": lambda text: int(text != _LINE),
}
