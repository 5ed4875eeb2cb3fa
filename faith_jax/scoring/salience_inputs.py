"""What a model reads of an example for salience, and which tokens its words are made of.

An example with perspectives is shown in the format of the NPOV tasks (Chang 2024, appendix B), its
response between braces as they train it; any other in that of the dialogue tasks.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from faith_jax import templates
from faith_jax.evaluation.salience_scores import PlacedWord
from faith_jax.evaluation.text_metrics import ContentWord, content_words
from faith_jax.scoring.likelihood import LikelihoodRow
from faith_jax.scoring.models import check_ids
from faith_jax.types import GroundedExample, Tokenizer

# Stands for a text of the grounding while the model's input is put together; a private character.
_MARK = "\ue000"


class Word(NamedTuple):
    """A content word and its tokens.

    Attributes:
      word: where it stands in the example.
      tokens: places in the row's inputs or targets, one or more.
    """

    word: PlacedWord
    tokens: tuple[int, ...]


class SalienceInput(NamedTuple):
    """What is scored of an example.

    Attributes:
      row: the token ids. In a decoder-only model the inputs stand in front of the targets.
      argument_words: the grounding's content words, in order.
      response_words: the response's.
      cut_tokens: tokens of inputs and response that did not fit.
    """

    row: LikelihoodRow
    argument_words: tuple[Word, ...]
    response_words: tuple[Word, ...]
    cut_tokens: int


@dataclasses.dataclass(frozen=True)
class SalienceEncoder:
    """Makes the inputs of one model.

    The response keeps up to half of the tokens and loses its end; the inputs get the rest (in an
    encoder-decoder as many again) and lose their end. Words that are cut off have no score.

    Attributes:
      tokenizer: the model's.
      vocab_size: of the model.
      max_length: tokens of the inputs, and in a decoder-only model of inputs and response.
      causal: whether the model is decoder-only.
    """

    tokenizer: Tokenizer
    vocab_size: int
    max_length: int
    causal: bool

    def __call__(self, example: GroundedExample) -> SalienceInput | None:
        """Returns what is scored of an example; None where its response is empty."""
        if not example.response.strip():
            return None
        inputs, texts, starts = _shown_inputs(example)
        before, response, behind = _target(example)
        ids, spans = self.tokenizer.encode_with_offsets(before + response + behind)
        targets = ids[: max(1, self.max_length // 2)]
        cut = len(ids) - len(targets)
        input_ids, input_spans = self.tokenizer.encode_with_offsets(inputs)
        fed, kept = self._with_special(input_ids, len(targets))
        cut += len(input_ids) - kept
        argument_words = self._argument_words(
            example, texts, starts, input_spans[:kept], len(self.tokenizer.prefix_ids)
        )
        shown = content_words(response)
        named = zip(content_words(example.response), shown, strict=True)
        response_words = _with_tokens(named, spans[: len(targets)], len(before), 0)
        row = LikelihoodRow(
            check_ids(fed, self.vocab_size), check_ids(list(targets), self.vocab_size)
        )
        return SalienceInput(row, argument_words, response_words, cut)

    def input_ids(self, example: GroundedExample, targets: int = 0) -> list[int]:
        """Returns what the model reads in front of the response, to generate one.

        Args:
          example: whose response does not matter.
          targets: tokens of the response at most, which a decoder-only model needs room for.
        """
        ids = self.tokenizer.encode(_shown_inputs(example)[0])
        return check_ids(self._with_special(ids, targets)[0], self.vocab_size)

    def _with_special(self, ids: Sequence[int], targets: int) -> tuple[list[int], int]:
        """Returns the inputs as the model reads them, and how many of the ids were kept."""
        prefix = list(self.tokenizer.prefix_ids)
        suffix = [] if self.causal else list(self.tokenizer.suffix_ids)
        room = self.max_length - len(prefix) - len(suffix) - (targets if self.causal else 0)
        kept = list(ids[: max(0, room)])
        return [*prefix, *kept, *suffix], len(kept)

    @staticmethod
    def _argument_words(
        example: GroundedExample,
        texts: Sequence[str],
        starts: Sequence[int],
        spans: Sequence[tuple[int, int]],
        first: int,
    ) -> tuple[Word, ...]:
        numbers = _order(example)
        names = example.grounding.perspectives or ("",) * len(numbers)
        words: dict[int, tuple[Word, ...]] = {}
        for number, shown, start in zip(numbers, texts, starts, strict=True):
            original = content_words(example.grounding.texts[number])
            pairs = zip(original, content_words(shown), strict=True)
            words[number] = tuple(
                Word(found._replace(number=number, perspective=names[number]), tokens)
                for found, tokens in _with_tokens(pairs, spans, start, first)
            )
        return tuple(word for number in sorted(words) for word in words[number])


def generated_response(example: GroundedExample, text: str) -> str:
    """Returns the response in a text that the model generated from the inputs of an example."""
    return templates.npov_response(text) if example.grounding.perspectives else text.strip()


def _shown_inputs(example: GroundedExample) -> tuple[str, list[str], list[int]]:
    """Returns the model's input, the grounding's texts as they stand in it, and where."""
    template, texts = _input_template(example)
    inputs, starts = _filled(template, texts)
    return inputs, texts, starts


def _order(example: GroundedExample) -> list[int]:
    """Returns the numbers of the grounding's texts in the order in which the model sees them."""
    perspectives = example.grounding.perspectives
    numbers = range(len(example.grounding.texts))
    if not perspectives:
        return list(numbers)
    names = _perspective_names(perspectives)
    return sorted(numbers, key=lambda number: names.index(perspectives[number]))


def _perspective_names(perspectives: Sequence[str]) -> list[str]:
    """Returns pro and con first, as the NPOV tasks have them, then others as they come."""
    names = list(dict.fromkeys(perspectives))
    return sorted(names, key=lambda name: ("pro", "con", name).index(name))


def _input_template(example: GroundedExample) -> tuple[str, list[str]]:
    """Returns the model's input with a mark for each text, and the texts as they are shown."""
    grounding = example.grounding
    turns = tuple(turn.replace(_MARK, " ") for turn in example.history)
    texts = [grounding.texts[number].replace(_MARK, " ") for number in _order(example)]
    if not grounding.perspectives:
        shown = [templates.clean_tagged(text) for text in texts]
        marks = " ".join(_MARK for _ in texts)
        return templates.dialogue_inputs(marks, turns), shown
    pairs = [("query", turns[-1])] if turns else []
    for name in _perspective_names(grounding.perspectives):
        pairs.append((name, " ".join(_MARK for p in grounding.perspectives if p == name)))
    return templates.curly_braces(pairs), [templates.clean_value(text) for text in texts]


def _filled(template: str, texts: Sequence[str]) -> tuple[str, list[int]]:
    """Puts texts in place of the marks; returns the offset of each too."""
    parts = template.split(_MARK)
    inputs, starts = parts[0], []
    for text, part in zip(texts, parts[1:], strict=True):
        starts.append(len(inputs))
        inputs += text + part
    return inputs, starts


def _target(example: GroundedExample) -> tuple[str, str, str]:
    """Returns what stands in front of the response, the response as it is shown, what is behind."""
    if not example.grounding.perspectives:
        return "", templates.one_space(example.response), ""
    whole = templates.npov_generate_targets(_MARK)
    before, _, behind = whole.partition(_MARK)
    return before, templates.clean_value(example.response), behind


def _with_tokens(
    pairs: Iterable[tuple[ContentWord, ContentWord]],
    spans: Sequence[tuple[int, int]],
    start: int,
    first: int,
) -> tuple[Word, ...]:
    """Returns words with the tokens that hold a character of them; those without a token are left.

    Args:
      pairs: each word in the example's own text and as it is shown.
      spans: of the tokens, in the text that the model sees.
      start: where the shown text begins in it.
      first: the place of the first token in the row.
    """
    found, token = [], 0
    for word, shown in pairs:
        begin, end = start + shown.start, start + shown.end
        while token < len(spans) and spans[token][1] <= begin:
            token += 1
        last = token
        tokens = []
        while last < len(spans) and spans[last][0] < end:
            tokens.append(first + last)
            last += 1
        if tokens:
            found.append(Word(PlacedWord(word.text, word.start, word.end), tuple(tokens)))
    return tuple(found)
