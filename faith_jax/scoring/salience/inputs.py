"""The input of a model for salience, and the tokens of each word in it.

An example with perspectives is shown in the format of the NPOV tasks (Chang 2024, appendix B), with
its response in braces as in their targets; other examples in the format of the dialogue tasks.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from faith_jax.core import templates
from faith_jax.core.cutting import CutTokens, Kind, Part, parse
from faith_jax.core.types import GroundedExample
from faith_jax.inference.row_likelihoods import LikelihoodRow
from faith_jax.inference.texts.text_reader import TextReader
from faith_jax.statistics.texts.salience_scores import PlacedWord
from faith_jax.statistics.texts.text_metrics import ContentWord, content_words

# A private-use character that stands for a grounding text while the input is assembled.
_MARK = "\ue000"


class Word(NamedTuple):
    """A content word of an example, with the places of its tokens in the inputs or targets."""

    word: PlacedWord
    tokens: tuple[int, ...]


class SalienceInput(NamedTuple):
    """The token ids of an example, and the content words whose salience is scored.

    Attributes:
      row: the token ids; in a decoder-only model the inputs precede the targets.
      argument_words: the grounding's content words, in order.
      response_words: the response's content words, in order.
      cut: the numbers of tokens of inputs and response that did not fit, by kind.
    """

    row: LikelihoodRow
    argument_words: tuple[Word, ...]
    response_words: tuple[Word, ...]
    cut: CutTokens


class _Shown(NamedTuple):
    """The text that a model is shown, with the grounding's texts in it and their offsets."""

    inputs: str
    parts: list[Part]
    texts: list[str]
    starts: list[int]


@dataclasses.dataclass(frozen=True)
class SalienceEncoder:
    """Makes the inputs of one model, cut by `reader`; words that are cut off have no score."""

    reader: TextReader

    def __call__(self, example: GroundedExample) -> SalienceInput | None:
        """Returns the ids and words of an example; None if its response is empty."""
        if not example.response.strip():
            return None
        prompt, grounding = _shown_inputs(example), example.grounding
        before, response, after = "", templates.one_space(example.response), ""
        if grounding.perspectives:
            before, _, after = templates.npov_generate_targets(_MARK).partition(_MARK)
            response = templates.clean_value(example.response)
        target, end = before + response + after, len(before + response)
        part = Part(Kind.RESPONSE, 0, len(before), end, end + len(after))
        name = f"example {example.id!r}"
        read = self.reader.read_response([(prompt.inputs, prompt.parts)], (target, [part]), name)
        named = zip(content_words(example.response), content_words(response), strict=True)
        first = self.reader.response_start
        places = [None if place is None else len(first) + place for place in read.response_places]
        words = _with_tokens(named, read.response_spans, len(before), places)
        numbers = _order_grounding_texts(example)
        names = grounding.perspectives or ("",) * len(numbers)
        words_by_text: dict[int, tuple[Word, ...]] = {}
        for number, text, start in zip(numbers, prompt.texts, prompt.starts, strict=True):
            original = content_words(grounding.texts[number])
            named = zip(original, content_words(text), strict=True)
            words_by_text[number] = tuple(
                Word(word._replace(number=number, perspective=names[number]), tokens)
                for word, tokens in _with_tokens(named, read.input_spans, start, read.input_places)
            )
        argument_words = tuple(word for n in sorted(numbers) for word in words_by_text[n])
        row = LikelihoodRow(read.inputs, [*first, *read.response])
        return SalienceInput(row, argument_words, words, read.cut)

    def input_ids(self, example: GroundedExample, targets: int = 0) -> list[int]:
        """Returns the model's input for generating a response of at most `targets` tokens."""
        prompt, num_targets = _shown_inputs(example), targets if self.reader.causal else 0
        reader = dataclasses.replace(self.reader, reserved_tokens=num_targets)
        return reader.read(prompt.inputs, f"example {example.id!r}", prompt.parts).ids


def generated_response(example: GroundedExample, text: str) -> str:
    """Returns the response contained in a text that the model generated for an example."""
    return templates.npov_response(text) if example.grounding.perspectives else text.strip()


def _order_grounding_texts(example: GroundedExample) -> list[int]:
    """Returns the numbers of the grounding's texts, in the order in which the model sees them."""
    perspectives = example.grounding.perspectives
    numbers = range(len(example.grounding.texts))
    if not perspectives:
        return list(numbers)
    names = _perspective_names(perspectives)
    return sorted(numbers, key=lambda number: names.index(perspectives[number]))


def _perspective_names(perspectives: Sequence[str]) -> list[str]:
    """Returns the distinct perspectives: pro and con first, as in the NPOV tasks, then others."""
    names = list(dict.fromkeys(perspectives))
    return sorted(names, key=lambda name: ("pro", "con", name).index(name))


def _shown_inputs(example: GroundedExample) -> _Shown:
    """Returns the text that the model is shown for an example, without the response."""
    grounding = example.grounding
    turns = tuple(turn.replace(_MARK, " ") for turn in example.history)
    texts = [
        grounding.texts[number].replace(_MARK, " ") for number in _order_grounding_texts(example)
    ]
    if not grounding.perspectives:
        clean_texts = [templates.clean_tagged(text) for text in texts]
        marks = " ".join(_MARK for _ in texts)
        inputs, starts = _fill_marks(templates.dialogue_inputs(marks, turns), clean_texts)
        return _Shown(inputs, parse(inputs), clean_texts, starts)
    pairs = [(Kind.HISTORY, "query", turns[-1])] if turns else []
    for name in _perspective_names(grounding.perspectives):
        marks = " ".join(_MARK for p in grounding.perspectives if p == name)
        pairs.append((Kind.KNOWLEDGE, name, marks))
    clean_texts = [templates.clean_value(text) for text in texts]
    inputs, parts, starts = "", list[Part](), list[int]()
    for kind, name, value in pairs:
        start = len(inputs)
        pair = (" " if inputs else "") + templates.curly_braces([(name, value)])
        filled, places = _fill_marks(pair, clean_texts[len(starts) :][: value.count(_MARK)])
        starts += [start + place for place in places]
        inputs += filled
        text_start = start + pair.index(": ") + 2
        parts.append(Part(kind, start, text_start, len(inputs) - 1, len(inputs)))
    return _Shown(inputs, parts, clean_texts, starts)


def _fill_marks(template: str, texts: Sequence[str]) -> tuple[str, list[int]]:
    """Replaces the marks by texts; returns the result and the offset of each text."""
    parts = template.split(_MARK)
    inputs, starts = parts[0], []
    for text, part in zip(texts, parts[1:], strict=True):
        starts.append(len(inputs))
        inputs += text + part
    return inputs, starts


def _with_tokens(
    pairs: Iterable[tuple[ContentWord, ContentWord]],
    spans: Sequence[tuple[int, int]],
    start: int,
    places: Sequence[int | None],
) -> tuple[Word, ...]:
    """Returns words with the tokens that overlap them; words without tokens are left out.

    `pairs` has each word in the example's own text and in the shown text, which begins at `start`
    of the tokenized text. `spans` are the offsets of the tokens, `places` their places in the row.
    """
    words_with_tokens = []
    for word, shown_word in pairs:
        begin, end = start + shown_word.start, start + shown_word.end
        tokens = tuple(
            place
            for (first, last), place in zip(spans, places, strict=True)
            if first < end and begin < last and place is not None
        )
        if tokens:
            words_with_tokens.append(Word(PlacedWord(word.text, word.start, word.end), tokens))
    return tuple(words_with_tokens)
