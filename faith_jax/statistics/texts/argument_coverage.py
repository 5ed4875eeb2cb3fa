"""Which of the arguments that it was given a response tells, and which of its sentences tell one.

Both are counted by words: an argument is told if the response has enough of its content words in
neighbouring sentences, and a sentence tells arguments if these have enough of its content words.
So a response that skips an argument, repeats one, or adds a sentence of its own is found. One that
rewords its arguments shares few words with them; it needs a lower threshold, or a model that
compares meanings (the NLI scorers).

>>> told = tell_arguments(
...     "Views differ. Supporters say that tea calms people. Opponents fear higher taxes.",
...     ["Tea calms people.", "Tea stains teeth."],
... )
>>> told.arguments, told.sentences
((1.0, 0.3333333333333333), (nan, 1.0, 0.0))
"""

import collections
import dataclasses
import math
from collections.abc import Iterable, Sequence

from faith_jax.core.words import split_sentences
from faith_jax.statistics.texts.text_metrics import PUBLISHED, content_words

# Words by which a response says that views differ, who holds them and how they follow each other.
# They tell no argument, so that they do not count in a response.
_FRAMING = """
view views viewpoint opinion opinions position positions perspective perspectives side sides debate
debated matter question issue topic answer agreement disagreement consensus dispute disputed open
divided differ differs differing different disagree disagrees agree agrees people person someone
supporter supporters advocate advocates proponent proponents defender defenders opponent opponents
critic critics sceptic sceptics skeptic skeptics favour favor against oppose opposed
support say says said argue argues argued note notes noted add adds added believe believes think
thinks claim claims hold holds maintain maintains stress stresses point points out
reply respond object counter warn fear worry also however moreover furthermore addition finally
hand contrast whereas besides others lastly another
"""
FRAMING_WORDS: frozenset[str] = frozenset(_FRAMING.split())


@dataclasses.dataclass(frozen=True)
class ToldArguments:
    """How much of each argument a response tells, and of each of its sentences stands in them.

    Attributes:
      arguments: of each argument the share of its content words that neighbouring sentences of the
        response have, as many as the argument has, in [0, 1]; NaN for an argument without any.
      sentences: of each sentence of the response the share of its content words that the arguments
        have, in [0, 1]. A word counts as often as they have it, so that a sentence that is told
        twice is told once. NaN for one that has only framing words and words of the query.
      spans: of each sentence its start and end in the response.
    """

    arguments: tuple[float, ...]
    sentences: tuple[float, ...]
    spans: tuple[tuple[int, int], ...]

    def recall(self, threshold: float) -> float:
        """Returns the share of the arguments that reach the threshold; NaN without arguments."""
        return _share_of(self.arguments, threshold)

    def precision(self, threshold: float) -> float:
        """Returns the share of the telling sentences that reach the threshold; NaN without any."""
        return _share_of(self.sentences, threshold)


def _share_of(shares: Iterable[float], threshold: float) -> float:
    reached = [share >= threshold for share in shares if not math.isnan(share)]
    return sum(reached) / len(reached) if reached else math.nan


def tell_arguments(
    response: str, arguments: Sequence[str], query: str = "", normalization: str = PUBLISHED
) -> ToldArguments:
    """Compares a response with arguments of all perspectives, sentence by sentence.

    Words are Porter stems without stop words, as in Chang 2024, section 3.1; words of
    `FRAMING_WORDS` do not count in the response.
    """
    sentences = split_sentences(response)
    telling_stems = [
        [w.stem for w in content_words(s, normalization) if w.text.lower() not in FRAMING_WORDS]
        for s in sentences
    ]
    # With framing words, which an argument may have too.
    everything = [[w.stem for w in content_words(s, normalization)] for s in sentences]
    argument_stems = [[w.stem for w in content_words(text, normalization)] for text in arguments]
    query_stems = {word.stem for word in content_words(query, normalization)}
    spans, end = [], 0
    for sentence in sentences:
        # Behind the one before: a sentence may stand twice.
        start = response.index(sentence, end)
        end = start + len(sentence)
        spans.append((start, end))
    return ToldArguments(
        tuple(
            _find_best_window(words, everything, len(split_sentences(text)))
            for words, text in zip(argument_stems, arguments, strict=True)
        ),
        tuple(_measure_sentences(telling_stems, argument_stems, query_stems)),
        tuple(spans),
    )


def _find_best_window(words: Sequence[str], sentences: Sequence[Sequence[str]], size: int) -> float:
    """Returns the largest share of words that so many neighbouring sentences have."""
    if not words:
        return math.nan
    counts, best = collections.Counter(words), 0
    # Windows as long as the argument: words that are scattered over the response do not tell it.
    for start in range(max(1, len(sentences) - size + 1)):
        window = collections.Counter(w for s in sentences[start : start + size] for w in s)
        # The intersection of multisets: each occurrence matches one at most.
        best = max(best, (counts & window).total())
    return best / len(words)


def _measure_sentences(
    sentences: Sequence[Sequence[str]], arguments: Sequence[Sequence[str]], query_stems: set[str]
) -> Iterable[float]:
    # Words are used up from sentence to sentence, so that a repeated argument is found.
    left = collections.Counter(word for words in arguments for word in words)
    for words in sentences:
        # Also where `words` is empty.
        if set(words) <= query_stems:
            yield math.nan
            continue
        count = 0
        for word in words:
            if left[word]:
                left[word] -= 1
                count += 1
            # Words of the query are free: repeating the question is no claim of one's own.
            elif word in query_stems:
                count += 1
        yield count / len(words)
