"""Rules of words that replace annotators of NPOV responses if there are none.

They are stand-ins. In Chang 2024 (section 4.1), people say which responses are free of errors, and
which words are hallucinated; rules of words favour detectors of words, such as ROUGE.

>>> rule = ErrorFreeRule()
>>> rule.error("Tea calms.", "Is tea good?", ["Tea calms.", "Tea is cheap."], [])
'left out'
>>> rule.error("Tea calms and is cheap.", "Is tea good?", ["Tea calms.", "It is cheap."], [])
''
"""

import dataclasses
from collections.abc import Sequence

from faith_jax.core.words import locate_sentences, split_sentences
from faith_jax.statistics.texts.text_metrics import content_words, matching_words

# The rule's reasons why a response is not free of errors.
LEFT_OUT, UNUSED_TOLD, OTHER_WORDS, EMPTY = "left out", "unused told", "other words", "empty"
REASONS = (LEFT_OUT, UNUSED_TOLD, OTHER_WORDS, EMPTY)


@dataclasses.dataclass(frozen=True)
class ErrorFreeRule:
    """A rule for whether a response is free of errors; words are stems of content words.

    Attributes:
      recall: minimum share of each given argument's words that are in the response.
      precision: minimum share of the response's words that are in given arguments or the query.
      unused: if the response has at least this share of the words that only an unused argument
        has, it counts as telling this argument.
    """

    recall: float = 0.8
    precision: float = 0.6
    unused: float = 0.5

    def error(
        self, response: str, query: str, arguments: Sequence[str], unused: Sequence[str]
    ) -> str:
        """Returns which of `REASONS` makes a response not free of errors; "" = it is.

        The response should tell the given arguments, but no unused argument of the topic.
        """
        stems = _stem_content_words(response)
        if not stems:
            return EMPTY
        if any(
            _compute_covered_share(_stem_content_words(argument), stems) < self.recall
            for argument in arguments
        ):
            return LEFT_OUT
        allowed = [stem for text in (query, *arguments) for stem in _stem_content_words(text)]
        for argument in unused:
            unused_stems = [
                stem for stem in _stem_content_words(argument) if stem not in set(allowed)
            ]
            if unused_stems and _compute_covered_share(unused_stems, stems) >= self.unused:
                return UNUSED_TOLD
        return "" if _compute_covered_share(stems, allowed) >= self.precision else OTHER_WORDS


def _stem_content_words(text: str) -> list[str]:
    return [word.stem for word in content_words(text)]


def _compute_covered_share(words: Sequence[str], reference: Sequence[str]) -> float:
    """Returns the share of words that the reference has; 1 without words."""
    return matching_words(words, reference) / len(words) if words else 1.0


def retold_spans(response: str, argument: str, other_texts: Sequence[str]) -> list[tuple[int, int]]:
    """Returns where a response retells an argument, as (start, end) character offsets.

    For each sentence of the argument, takes the response's sentence with most of its words, and in
    that the span from the first to the last of these words. Words that are also in the other texts
    (such as the other arguments and the query) count only if the argument's sentence has no words
    of its own.
    """
    shared = {stem for text in other_texts for stem in _stem_content_words(text)}
    sentences = list(locate_sentences(response))
    spans = []
    for part in split_sentences(argument):
        stems = set(_stem_content_words(part)) - shared or set(_stem_content_words(part))
        # For each sentence with any of these words: their number, and the span that has them.
        stretches = [
            (len({word.stem for word in hits}), (start + hits[0].start, start + hits[-1].end))
            for sentence, start, _ in sentences
            if (hits := [word for word in content_words(sentence) if word.stem in stems])
        ]
        if stretches:
            spans.append(max(stretches, key=lambda stretch: stretch[0])[1])
    return sorted(set(spans))
