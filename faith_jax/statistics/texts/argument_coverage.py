"""Which given arguments a response tells, and which of its sentences tell an argument.

Both are determined by words: an argument is told if neighbouring sentences of the response have
enough of its content words, and a sentence tells arguments if these have enough of its content
words. This detects a response that skips an argument, repeats one, or adds a sentence of its own. A
response that rewords its arguments shares few words with them and needs a lower threshold, or a
model that compares meanings (the NLI scorers).

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

from faith_jax.core.words import locate_sentences, split_sentences
from faith_jax.statistics.texts.text_metrics import PUBLISHED, content_words

# Words by which a response says that views differ, who holds them and how they follow each other.
# They do not tell an argument, so they are not counted in a response.
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
    """How much of each argument a response tells, and how much of each sentence is in arguments.

    Attributes:
      arguments: for each argument, the share of its content words in the best window of as many
        sentences of the response as the argument has, in [0, 1]; NaN without content words.
      sentences: for each sentence of the response, the share of its content words in the arguments,
        in [0, 1]. A word matches only as often as the arguments have it, so a repeated sentence
        matches once. NaN for a sentence of only framing words and words of the query.
      spans: start and end of each sentence in the response.
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
    sentences = list(locate_sentences(response))
    words_by_sentence = [content_words(s.text, normalization) for s in sentences]
    telling_stems = [
        [w.stem for w in words if w.text.lower() not in FRAMING_WORDS]
        for words in words_by_sentence
    ]
    # Arguments may have framing words too, so this keeps them.
    everything = [[w.stem for w in words] for words in words_by_sentence]
    argument_stems = [[w.stem for w in content_words(text, normalization)] for text in arguments]
    query_stems = {word.stem for word in content_words(query, normalization)}
    return ToldArguments(
        tuple(
            _find_best_window(words, everything, len(split_sentences(text)))
            for words, text in zip(argument_stems, arguments, strict=True)
        ),
        tuple(_measure_sentences(telling_stems, argument_stems, query_stems)),
        tuple((sentence.start, sentence.end) for sentence in sentences),
    )


def _find_best_window(words: Sequence[str], sentences: Sequence[Sequence[str]], size: int) -> float:
    """Returns the largest share of words in a window of `size` neighbouring sentences."""
    if not words:
        return math.nan
    counts, best = collections.Counter(words), 0
    # Windows are as long as the argument: words scattered over the response do not tell it.
    for start in range(max(1, len(sentences) - size + 1)):
        window = collections.Counter(w for s in sentences[start : start + size] for w in s)
        # The intersection of multisets: each occurrence matches at most once.
        best = max(best, (counts & window).total())
    return best / len(words)


def _measure_sentences(
    sentences: Sequence[Sequence[str]], arguments: Sequence[Sequence[str]], query_stems: set[str]
) -> Iterable[float]:
    # Words are used up from sentence to sentence, so that a repeated argument is detected.
    left = collections.Counter(word for words in arguments for word in words)
    for words in sentences:
        # This includes empty `words`.
        if set(words) <= query_stems:
            yield math.nan
            continue
        count = 0
        for word in words:
            if left[word]:
                left[word] -= 1
                count += 1
            # Words of the query always match: repeating the question adds no claim.
            elif word in query_stems:
                count += 1
        yield count / len(words)
