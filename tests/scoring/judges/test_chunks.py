import math
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from faith_jax.core.words import split_sentences
from faith_jax.scoring.judges.card import EvenSentences, Sentences, Windows
from faith_jax.scoring.judges.chunks import text_between, text_chunks, windows

WORD = st.sampled_from(["Tea", "leaf", "hill", "frost", "a-b", "it's"])
SENTENCE = st.lists(WORD, min_size=1, max_size=6).map(lambda words: " ".join(words) + ".")
TEXT = st.lists(SENTENCE, min_size=1, max_size=12)


def words(text):
    return len(text.split())


def minicheck(document, length, count):
    """The chunks by MiniCheck's rules, step by step: sentences and line breaks, greedily."""
    pieces = []
    for line in document.split("\n"):
        pieces += [*split_sentences(line), "\n"]
    pieces.pop()
    chunks, chunk, size = [], [], 0
    for piece in pieces:
        if size + count(piece) > length:
            chunks.append(" ".join(chunk))
            chunk, size = [], 0
        chunk.append(piece)
        size += count(piece)
    chunks.append(" ".join(chunk))
    chunks = [chunk.replace(" \n ", "\n").strip() for chunk in chunks]
    return [chunk for chunk in chunks if chunk]


@given(st.lists(TEXT.map(" ".join) | st.just(""), min_size=1, max_size=5), st.integers(1, 12))
def test_sentences_and_lines_as_minicheck_fills_chunks(lines, length):
    document = "\n".join(lines)
    rule = Sentences(length, "words", keep_lines=True)
    texts = [chunk.text for chunk in text_chunks([document], rule, len)]
    assert texts == minicheck(document, length, words)
    # The same with another count, in which a line break is something.
    rule = Sentences(length, "tokens", keep_lines=True)
    texts = [chunk.text for chunk in text_chunks([document], rule, len)]
    assert texts == minicheck(document, length, len)


@given(TEXT, st.integers(1, 12), st.sampled_from([" ", "\n"]))
def test_chunks_of_whole_sentences_hold_all_of_them_and_are_full(sentences, length, between):
    rule = Sentences(length, "words", joined_by=between)
    document = " ".join(sentences)
    chunks = text_chunks([document], rule, len)
    parts = [chunk.text.split("." + between) for chunk in chunks]
    rejoined = [s if s.endswith(".") else s + "." for part in parts for s in part]
    assert rejoined == sentences
    for chunk, part in zip(chunks, parts, strict=True):
        assert words(chunk.text) <= length or len(part) == 1
        assert document[chunk.start : chunk.end].split() == chunk.text.split()
    # Nothing that follows would still fit.
    for chunk, following in zip(chunks, parts[1:], strict=False):
        assert words(chunk.text) + words(following[0]) > length


@given(TEXT, TEXT, TEXT, st.integers(1, 12))
def test_chunks_stay_where_others_come_at_their_boundaries(front, inner, behind, length):
    rule = Sentences(length, "words")

    def chunks(*parts):
        document = " ".join(sentence for part in parts for sentence in part)
        return [chunk.text for chunk in text_chunks([document], rule, len)]

    alone = chunks(inner)
    assume(words(chunks(front)[-1]) + words(inner[0]) > length)
    combined = chunks(front, inner)
    assert combined == [*chunks(front), *alone]
    assume(words(alone[-1]) + words(behind[0]) > length)
    assert chunks(inner, behind) == [*alone, *chunks(behind)]
    assert chunks(front, inner, behind) == [*combined, *chunks(behind)]


def test_nltks_words_are_counted_as_factcg_does():
    # "Tea is hot." has 4 of them and "So it's." 4, but only 3 and 2 words between white space.
    plain = Sentences(5, "words")
    assert len(text_chunks(["Tea is hot. So it's."], plain, len)) == 1
    with_breaks = Sentences(8, "treebank_words", joined_by="\n")
    assert [c.text for c in text_chunks(["Tea is hot. So it's."], with_breaks, len)] == [
        "Tea is hot.\nSo it's."
    ]
    two = Sentences(7, "treebank_words", joined_by="\n")
    assert [c.text for c in text_chunks(["Tea is hot. So it's."], two, len)] == [
        "Tea is hot.",
        "So it's.",
    ]


def test_single_sentences_without_short_ones_as_in_summac():
    rule = Sentences(1, "sentences", shortest=11)
    texts = ["Tea is a leaf. It is dry. Ten chars.", "The lake freezes in winter."]
    chunks = text_chunks(texts, rule, len)
    assert [chunk.text for chunk in chunks] == ["Tea is a leaf.", "The lake freezes in winter."]
    whole = text_between(rule).join(texts)
    assert [whole[chunk.start : chunk.end] for chunk in chunks] == [chunk.text for chunk in chunks]
    assert text_chunks(["It is dry."], rule, len) == []


@given(TEXT, st.integers(1, 40))
def test_even_chunks_as_in_alignscore(sentences, length):
    document = " ".join(sentences)
    number = len(document.split()) // length + 1
    size = max(len(sentences) // number, 1)
    expected = [" ".join(sentences[i : i + size]) for i in range(0, len(sentences), size)]
    chunks = text_chunks([document], EvenSentences(length), len)
    assert [chunk.text for chunk in chunks] == expected


@given(st.integers(1, 400), st.integers(1, 60), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9]))
def test_windows_cover_all_and_begin_as_in_scale(count, length, overlap):
    spans = windows(count, length, overlap)
    assert set().union(*(range(*window) for window in spans)) == set(range(count))
    assert all(0 <= start < end <= min(start + length, count) for start, end in spans)
    if count <= length:
        assert spans == [(0, count)]
        return
    # SCALE's rules, which leave out the end of a very long text.
    scale = [
        (int(length * (1 - overlap)) * i, int(length * (1 - overlap)) * i + length)
        for i in range(math.ceil(count / (length * (1 - overlap))))
    ]
    if int(length * (1 - overlap)):
        inside = [(start, min(end, count)) for start, end in scale if start < count]
        assert spans[: len(inside)] == inside


@given(TEXT, st.integers(1, 12), st.sampled_from([0.0, 0.5]))
def test_windows_of_words_are_passages_of_the_grounding(sentences, length, overlap):
    document = "  ".join(sentences)
    chunks = text_chunks([document], Windows(length, "words", overlap), len)
    listed = document.split()
    expected = [listed[start:end] for start, end in windows(len(listed), length, overlap)]
    assert [chunk.text.split() for chunk in chunks] == expected
    assert all(document[chunk.start : chunk.end] == chunk.text for chunk in chunks)


@pytest.mark.parametrize(
    "rule",
    [
        None,
        Sentences(9, "words"),
        EvenSentences(9),
        Windows(9, "words"),
        Windows(9, "tokens"),
        Sentences(9, "tokens", keep_lines=True),
    ],
)
def test_a_blank_grounding_has_no_chunks(rule):
    assert text_chunks([], rule, len) == text_chunks([" ", "\n"], rule, len) == []


def test_without_a_rule_all_texts_are_one_chunk():
    chunks = text_chunks(["Tea is hot.", "So is it."], None, len)
    assert [tuple(chunk) for chunk in chunks] == [("Tea is hot. So is it.", 0, 21)]
    assert re.fullmatch(r"Tea is hot\. So is it\.", chunks[0].text)
