"""Rules about words in place of annotators of NPOV responses, where there are none.

They are stand-ins. Chang 2024 (section 4.1) has people say which responses are free of errors, and
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

# Why a response is not free of errors, by the rule.
LEFT_OUT, UNUSED_TOLD, OTHER_WORDS, EMPTY = "left out", "unused told", "other words", "empty"
REASONS = (LEFT_OUT, UNUSED_TOLD, OTHER_WORDS, EMPTY)


@dataclasses.dataclass(frozen=True)
class ErrorFreeRule:
    """A rule by which a response counts as free of errors; words are content words' stems.

    Attributes:
      recall: share of the words of each given argument that the response has, at least.
      precision: share of the response's words that the given arguments or the query have, at least.
      unused: share of the words that only an unused argument has, of which the response has less.
    """

    recall: float = 0.8
    precision: float = 0.6
    unused: float = 0.5

    def error(
        self, response: str, query: str, arguments: Sequence[str], unused: Sequence[str]
    ) -> str:
        """Returns for which of `REASONS` a response is not free of errors; "" = it is.

        It answers the query and should tell the given arguments, and none of the topic's unused
        ones.
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
    """Returns which share of words the reference has; 1 of no words."""
    return matching_words(words, reference) / len(words) if words else 1.0


def retold_spans(response: str, argument: str, other_texts: Sequence[str]) -> list[tuple[int, int]]:
    """Returns where a response retells an argument: offsets of first and behind last characters.

    For each sentence of the argument, the sentence of the response that has most of its words, and
    of that the stretch from the first of them to the last. Words that the other texts (such as the
    other arguments and the query) have too count only where a sentence of the argument has no words
    of its own.
    """
    shared = {stem for text in other_texts for stem in _stem_content_words(text)}
    sentences = list(locate_sentences(response))
    spans = []
    for part in split_sentences(argument):
        stems = set(_stem_content_words(part)) - shared or set(_stem_content_words(part))
        # The stretch of each sentence that has any of them, with how many different ones.
        stretches = [
            (len({word.stem for word in hits}), (start + hits[0].start, start + hits[-1].end))
            for sentence, start, _ in sentences
            if (hits := [word for word in content_words(sentence) if word.stem in stems])
        ]
        if stretches:
            spans.append(max(stretches, key=lambda stretch: stretch[0])[1])
    return sorted(set(spans))
