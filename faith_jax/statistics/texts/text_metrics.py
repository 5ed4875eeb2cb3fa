"""Word overlap between texts: token F1, ROUGE, BLEU, argument precision and recall, copied spans.

All functions take plain texts and are pure. Unless a function says otherwise, it returns a share in
[0, 1], higher = more overlap. Undefined values (a share of no words) are NaN, never 0. Words are
matched as multisets: a word that occurs twice in a response needs two occurrences in the reference.

Each metric splits texts as published; with the normalization "unicode", all metrics compare
`core.words.unicode_words`, words of any script.

>>> token_overlap("The cat sat.", "A cat sat in the sun.").f1
0.8
>>> overlap = argument_overlap(
...     "Tea calms people.", {"pro": ["It calms you."], "con": ["It stains teeth."]}
... )
>>> overlap.precision  # of "tea", "calms", "people" only "calms" is in an argument
0.3333333333333333
>>> overlap.recall_by_perspective  # "calms" of the pro side, nothing of the con side
{'pro': 1.0, 'con': 0.0}
"""

import collections
import dataclasses
import functools
import importlib.util
import itertools
import math
import re
import string
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import regex

from faith_jax.core.errors import ConfigError
from faith_jax.core.heavy_imports import light_module
from faith_jax.core.words import WORD_CHARACTER, Piece, lower_words, unicode_words

ROUGE_TYPES = ("rouge1", "rouge2", "rougeL")

PUBLISHED, UNICODE, SPACY = "published", "unicode", "spacy"
# The words that token F1 does not count, by normalisation.
NORMALIZATIONS = {
    "true": frozenset(["a", "an", "the", "in", "our"]),
    "squad": frozenset(["a", "an", "the"]),
    UNICODE: frozenset[str](),
}
_DROPPED = {name: re.compile(rf"\b({'|'.join(words)})\b") for name, words in NORMALIZATIONS.items()}
# Texts are split as UTF-8, whose bytes below 128 are the ASCII characters: replacing or deleting
# bytes takes half the time of characters.
_PUNCTUATION = string.punctuation.encode()
# Runs of letters and digits; white space and punctuation (including the underscore) separate words.
_WORD = regex.compile(f"[{WORD_CHARACTER}]+")
_ROUGE_CHARACTERS = frozenset((string.ascii_lowercase + string.digits).encode())
_ROUGE_WORDS = bytes(byte if byte in _ROUGE_CHARACTERS else 32 for byte in range(256))
# Function words, which do not tell the topic of a text: NLTK's English list (the stop words corpus
# of nltk_data, commit 5db857e), which Chang 2024 and much other work uses. NLTK took it from the
# Snowball project (BSD licence; by way of PostgreSQL's text search) and added contractions. It is
# copied here because NLTK's package does not include its data.
_STOP_WORDS = """
i me my myself we our ours ourselves you you're you've you'll you'd your yours yourself
yourselves he him his himself she she's her hers herself it it's its itself they them their
theirs themselves what which who whom this that that'll these those am is are was were be been
being have has had having do does did doing a an the and but if or because as until while of at
by for with about against between into through during before after above below to from up down
in out on off over under again further then once here there when where why how all any both each
few more most other some such no nor not only own same so than too very s t can will just don
don't should should've now d ll m o re ve y ain aren aren't couldn couldn't didn didn't doesn
doesn't hadn hadn't hasn hasn't haven haven't isn isn't ma mightn mightn't mustn mustn't needn
needn't shan shan't shouldn shouldn't wasn wasn't weren weren't won won't wouldn wouldn't
"""

ENGLISH_STOP_WORDS: frozenset[str] = frozenset(_STOP_WORDS.split())


class Overlap(NamedTuple):
    """The share of a response's units in the reference (precision), and vice versa (recall).

    F1 is 2 * matches / (units of both). NaN without units.
    """

    precision: float
    recall: float
    f1: float


def _divide_or_nan(part: int, total: int) -> float:
    return part / total if total else math.nan


def match_words(words: Sequence[Hashable], reference: Iterable[Hashable]) -> tuple[bool, ...]:
    """Returns for each word whether it matches; each word of the reference matches at most once.

    If a word occurs more often than in the reference, its first occurrences match.
    """
    left = collections.Counter(reference)
    matched = []
    for word in words:
        if count := left.get(word, 0):
            left[word] = count - 1
        matched.append(count > 0)
    return tuple(matched)


def matching_words(words: Iterable[Hashable], reference: Iterable[Hashable]) -> int:
    """Returns how many words `match_words` finds in the reference."""
    left: dict[Hashable, int] = {}
    count_of, count = left.get, 0
    for word in reference:
        left[word] = count_of(word, 0) + 1
    for word in words:
        if remaining := count_of(word, 0):
            left[word] = remaining - 1
            count += 1
    return count


def f1_words(text: str, normalization: str = "true") -> list[str]:
    """Returns the words that token F1 compares.

    The text is lower-cased, stripped of ASCII punctuation and split at white space. "true" also
    drops a, an, the, in and our, as TRUE does (Honovich 2022, after Q²'s answer overlap), "squad"
    only the articles (Rajpurkar 2016), "unicode" nothing. For the tokens of Q²'s baseline see
    `content_tokens`.
    """
    if normalization == UNICODE:
        return _unicode_texts(text)
    encoded = text.lower().encode("utf-8", "surrogatepass").translate(None, _PUNCTUATION)
    plain = encoded.decode("utf-8", "surrogatepass")
    if not plain.isascii():  # dashes and curly quotes, which stay, end a dropped word too
        return _DROPPED[normalization].sub(" ", plain).split()
    words, dropped = plain.split(), NORMALIZATIONS[normalization]
    return words if dropped.isdisjoint(words) else [word for word in words if word not in dropped]


def _unicode_texts(text: str) -> list[str]:
    return [word.text for word in unicode_words(text)]


def token_overlap(response: str, reference: str, normalization: str = "true") -> Overlap:
    """Returns token precision, recall and F1 of a response and its reference; see `f1_words`."""
    words, reference_words = (f1_words(text, normalization) for text in (response, reference))
    matches = matching_words(words, reference_words)
    return Overlap(
        precision=_divide_or_nan(matches, len(words)),
        recall=_divide_or_nan(matches, len(reference_words)),
        f1=_divide_or_nan(2 * matches, len(words) + len(reference_words)),
    )


def rouge(
    response: str,
    reference: str,
    use_stemmer: bool = False,
    kinds: tuple[str, ...] = ROUGE_TYPES,
    normalization: str = PUBLISHED,
) -> dict[str, Overlap]:
    """Returns ROUGE as the rouge-score package computes it (Lin 2004), optionally of Porter stems.

    Words are runs of a-z and 0-9 after lower-casing. Texts too short for a bigram have no ROUGE-2
    (NaN). Values equal the package's, but ROUGE-L needs no table of all pairs of words.
    """
    words, reference_words = (
        _rouge_words(text, use_stemmer, normalization) for text in (response, reference)
    )
    overlaps = {}
    for name in kinds:
        # A common subsequence keeps the order of words, which need not be adjacent.
        if name == "rougeL":
            matches = common_subsequence(words, reference_words)
            sizes = len(words), len(reference_words)
        else:
            # N-grams: zip the words with themselves, shifted by 1 to n - 1.
            order = int(name[-1])
            units, other_units = (
                side if order == 1 else list(zip(*(side[i:] for i in range(order)), strict=False))
                for side in (words, reference_words)
            )
            matches, sizes = matching_words(units, other_units), (len(units), len(other_units))
        precision, recall = (_divide_or_nan(matches, size) for size in sizes)
        # Computed in the package's order, for equal rounding; it takes a share of nothing as 0.
        f1 = 2 * precision * recall / (precision + recall) if matches else 0.0
        overlaps[name] = Overlap(precision, recall, f1 if any(sizes) else math.nan)
    return overlaps


def _rouge_words(text: str, use_stemmer: bool, normalization: str) -> list[str]:
    """Returns the words of rouge-score's three regular expressions, or those of any script."""
    if normalization == UNICODE:
        words = _unicode_texts(text)
    else:
        plain = text.lower().encode("utf-8", "surrogatepass").translate(_ROUGE_WORDS)
        words = plain.decode("ascii").split()
    # The package stems words of more than three letters.
    return list(map(_cached_stems(shortest=4).__getitem__, words)) if use_stemmer else words


def common_subsequence(words: Sequence[Hashable], reference: Sequence[Hashable]) -> int:
    """Returns the length of the longest common subsequence.

    Bit i of `unmatched` is 0 if the longest common subsequence of the words up to i and the
    reference so far is longer than without word i. One integer holds all bits, so a step takes
    len(words) / 64 machine operations.

    Reference: Hyyrö 2004, Bit-parallel LCS-length computation revisited.

    >>> common_subsequence("the cat sat on the mat".split(), "the cat lay on a mat".split())
    4
    """
    # The paper's M: for each word, an integer with a bit for each position where it occurs.
    places: dict[Hashable, int] = {}
    for place, word in enumerate(words):
        places[word] = places.get(word, 0) | 1 << place
    all_bits = (1 << len(words)) - 1
    unmatched = all_bits
    for bits in filter(None, map(places.get, reference)):
        # V := (V + (V & M)) | (V & ~M). In each run of ones, the sum clears the lowest place that
        # matches; its carry sets the 0 above the run, as the same length is now reached earlier.
        # `all_bits` drops the carry out of the last run, which adds one to the length.
        free = unmatched & bits
        unmatched = (unmatched + free | unmatched - free) & all_bits
    return len(words) - unmatched.bit_count()


@dataclasses.dataclass(frozen=True)
class ContentWord:
    """A word that carries content, its Porter stem in lower case, and its character offsets."""

    text: str
    stem: str
    start: int
    end: int


def _words_of(text: str, normalization: str) -> Iterator[Piece]:
    """Yields the words of a text, in lower case, without English stop words."""
    plain = (Piece(match.group().lower(), *match.span()) for match in _WORD.finditer(text))
    words = unicode_words(text) if normalization == UNICODE else plain
    return (word for word in words if word.text not in ENGLISH_STOP_WORDS)


def content_words(text: str, normalization: str = PUBLISHED) -> tuple[ContentWord, ...]:
    """Returns the words of a text without stop words, in order, with NLTK's Porter stems.

    White space and punctuation separate words, so "don't" is "don" and "t", both stop words.

    Reference: Chang 2024, section 3.1.
    """
    stems = _cached_stems()
    return tuple(
        ContentWord(text[start:end], stems[word], start, end)
        for word, start, end in _words_of(text, normalization)
    )


def words_in_none(response: str, texts: Iterable[str]) -> tuple[ContentWord, ...]:
    """Returns the content words of a response that occur in none of the texts, in order.

    Words are compared by their stems, words with digits as written in lower case.

    >>> [word.text for word in words_in_none("PJ drank 30 teas.", ["Drink 3 cups of tea."])]
    ['PJ', 'drank', '30']
    """
    forms = {_stem_unless_number(word) for text in texts for word in content_words(text)}
    return tuple(word for word in content_words(response) if _stem_unless_number(word) not in forms)


def _stem_unless_number(word: ContentWord) -> str:
    is_number = any(character.isdigit() for character in word.text)
    return word.text.lower() if is_number else word.stem


_MOST_STEMS = 100_000  # maximum size of the cache


class _Stems(dict[str, str]):
    """Cache of words' Porter stems; words with fewer than `shortest` letters are not stemmed."""

    def __init__(self, shortest: int = 0):
        super().__init__()
        self._stem = light_module("nltk.stem.porter").PorterStemmer().stem
        self._shortest = shortest

    def __missing__(self, word: str) -> str:
        if len(self) >= _MOST_STEMS:
            self.clear()
        stem = self[word] = self._stem(word) if len(word) >= self._shortest else word
        return stem


_cached_stems = functools.cache(_Stems)


@dataclasses.dataclass(frozen=True)
class ArgumentOverlap:
    """The matching content words of a response and its arguments, and their shares.

    Attributes:
      response_words: the response's content words.
      response_matched: for each, whether any argument has it (False hints at a hallucination).
      argument_words: by perspective, the content words of each argument, with offsets in it.
      argument_matched: for each, whether the response has it (False hints at a coverage error).
    """

    response_words: tuple[ContentWord, ...]
    response_matched: tuple[bool, ...]
    argument_words: Mapping[str, tuple[tuple[ContentWord, ...], ...]]
    argument_matched: Mapping[str, tuple[tuple[bool, ...], ...]]

    @property
    def precision(self) -> float:
        """The share of the response's words in the arguments; low → hallucination."""
        return _divide_or_nan(sum(self.response_matched), len(self.response_matched))

    @property
    def recall_by_perspective(self) -> dict[str, float]:
        """The share of each perspective's words in the response."""
        shares = {}
        for perspective, matched in self.argument_matched.items():
            flat = [m for argument in matched for m in argument]
            shares[perspective] = _divide_or_nan(sum(flat), len(flat))
        return shares

    @property
    def recall(self) -> float:
        """The smallest recall of a perspective; low → coverage error. NaN if any is, or if none."""
        shares = list(self.recall_by_perspective.values())
        return math.nan if not shares or any(map(math.isnan, shares)) else min(shares)


def argument_overlap(
    response: str, arguments: Mapping[str, Sequence[str]], normalization: str = PUBLISHED
) -> ArgumentOverlap:
    """Matches a response's content words with those of its arguments, given by perspective.

    Precision is over the arguments of all perspectives together. Recall is computed for each
    perspective separately, so one response word may count for a pro and for a con argument.

    Reference: Chang 2024, section 3.1.
    """
    find = functools.partial(content_words, normalization=normalization)
    response_words = find(response)
    response_stems = [word.stem for word in response_words]
    words = {side: tuple(map(find, texts)) for side, texts in arguments.items()}
    stems = {side: [w.stem for text in texts for w in text] for side, texts in words.items()}
    covered: dict[str, tuple[tuple[bool, ...], ...]] = {}
    for side, texts in words.items():
        # Match all arguments of a side as one multiset, then split the matches by argument.
        matched = iter(match_words(stems[side], response_stems))
        covered[side] = tuple(tuple(itertools.islice(matched, len(text))) for text in texts)
    all_stems = itertools.chain.from_iterable(stems.values())
    return ArgumentOverlap(response_words, match_words(response_stems, all_stems), words, covered)


def lexical_overlap(claim: str, sentences: Sequence[str], normalization: str = PUBLISHED) -> float:
    """Returns the largest share of a claim's words that one of the sentences has.

    0 without sentences. Punctuation, stop words (NLTK's, or spaCy's with the normalization "spacy")
    and case are ignored; a word that occurs twice in the claim counts twice.

    Reference: Gupta 2022, section 5.1 (with spaCy's words).
    """
    if normalization == SPACY:
        words, *sentence_words = map(content_tokens, (claim, *sentences))
    else:
        words, *sentence_words = (
            [word.text for word in _words_of(text, normalization)] for text in (claim, *sentences)
        )
    if not words:
        return math.nan
    # Unlike in token F1, one occurrence in a sentence may match several words of the claim.
    word_sets = map(frozenset, sentence_words)
    return max(
        (sum(word in word_set for word in words) / len(words) for word_set in word_sets),
        default=0.0,
    )


def sentence_bleu(response: str, reference: str, normalization: str = PUBLISHED) -> float:
    """Returns sacrebleu's smoothed sentence BLEU-4, from 0 to 100; higher = closer."""
    import sacrebleu

    if normalization == UNICODE:
        response, reference = (" ".join(_unicode_texts(text)) for text in (response, reference))
        return sacrebleu.sentence_bleu(response, [reference], tokenize="none").score
    return sacrebleu.sentence_bleu(response, [reference]).score


class Extractiveness(NamedTuple):
    """How extractive a response is; NaN for a response without words.

    Coverage is the share of its words in copied spans; density is the mean over its words of the
    length, in words, of the span that the word is in (0 for none).
    """

    coverage: float
    density: float


def extractiveness(response: str, knowledge: str, normalization: str = PUBLISHED) -> Extractiveness:
    """Returns coverage and density of a response; words are compared in lower case.

    Reference: Grusky 2018, section 3; Dziri 2022, section 4.2 and figure 3.
    """
    split = _unicode_texts if normalization == UNICODE else lower_words
    words, source = split(response), split(knowledge)
    if not words:
        return Extractiveness(math.nan, math.nan)
    lengths = [length for _, length in extractive_fragments(words, source)]
    # Each word of a span counts the span's length, so a span adds its length squared.
    squares = sum(length * length for length in lengths)
    return Extractiveness(sum(lengths) / len(words), squares / len(words))


def extractive_fragments(
    response: Sequence[Hashable], knowledge: Sequence[Hashable]
) -> list[tuple[int, int]]:
    """Returns the copied spans of a response's words as (start, length), from left to right.

    At each word, the longest match in the knowledge is taken, and the search resumes after it. As
    in the authors' procedure, no match starts inside an earlier one in the knowledge, so of
    overlapping repetitions only the first counts.
    """
    places: dict[Hashable, list[int]] = {}
    for place, word in enumerate(knowledge):
        places.setdefault(word, []).append(place)
    fragments, start = [], 0
    while start < len(response):
        longest, free = 0, 0
        for place in places.get(response[start], ()):
            # Skip places inside the last match, as in the authors' procedure.
            if place >= free:
                length, max_length = 1, min(len(response) - start, len(knowledge) - place)
                while length < max_length and response[start + length] == knowledge[place + length]:
                    length += 1
                longest, free = max(longest, length), place + length
        if longest:
            fragments.append((start, longest))
        # Continue after the span: a word of the response is in at most one span.
        start += max(longest, 1)
    return fragments


# The functions below compute the word overlap that Q²'s authors compare it with, as their code does
# (Honovich 2021, baselines.py). Dziri 2022's F1 and Nandwani 2023's F1-U and BLEU use them, not
# TRUE's token F1 or sacrebleu's sentence BLEU. Both take the response as written and the knowledge
# in lower case. Texts without a common word, even empty ones, score 0: nothing is NaN.


def has_spacy() -> bool:
    """Whether spaCy is installed."""
    return importlib.util.find_spec("spacy") is not None


@functools.cache
def english_tokenizer() -> Any:
    """Returns spaCy's English tokenizer, which needs no trained pipeline.

    Raises:
      ConfigError: if spaCy is not installed.
    """
    try:
        import spacy
    except ImportError:
        raise ConfigError(
            "spaCy, whose tokens and stop words are counted here, is not installed; install the "
            "extra: pip install 'faith_jax[augmentation]', or '.[augmentation]' in a clone."
        ) from None
    # The authors load en_core_web_sm, which has the same tokenizer and word lists.
    return spacy.blank("en")


def english_tokens(text: str) -> list[str]:
    """Returns the texts of spaCy's tokens, including punctuation.

    >>> english_tokens("I'm late, i.e. hungry!")
    ['I', "'m", 'late', ',', 'i.e.', 'hungry', '!']
    """
    return [token.text for token in english_tokenizer()(text)]


def content_tokens(text: str) -> list[str]:
    """Returns spaCy's tokens without stop words and punctuation, in lower case.

    A run of white space beyond a single space is a token too, as in the authors' code.

    >>> content_tokens("In the Andes, it doesn't rain much.")
    ['andes', 'rain']
    """
    tokens = english_tokenizer()(text)
    return [token.text.lower() for token in tokens if not token.is_stop and not token.is_punct]


def q2_baseline_token_f1(response: str, knowledge: str) -> float:
    """Returns the F1 of `content_tokens` as multisets; higher = more in common.

    >>> q2_baseline_token_f1("The Andes are high.", "Llamas live in the high Andes.")
    0.6666666666666666
    """
    return bag_f1(content_tokens(response), content_tokens(knowledge.lower()))


def bag_f1(words: Sequence[str], reference: Sequence[str]) -> float:
    """Returns the F1 of two multisets of words; 0 if they have no word in common."""
    num_shared = matching_words(words, reference)
    # Harmonic mean of num_shared / words and num_shared / reference.
    return 2 * num_shared / (len(words) + len(reference)) if num_shared else 0.0


def q2_baseline_bleu(response: str, knowledge: str) -> float:
    """Returns sacrebleu's corpus BLEU-4 of one response, from 0 to 100; higher = closer.

    All four orders of n-grams count, so a response of fewer than four tokens scores 0.

    >>> round(q2_baseline_bleu("a cat sat here", "A cat sat here"), 1)
    100.0
    """
    import sacrebleu

    # Sentence BLEU would leave out the orders that a short response lacks; corpus BLEU does
    # not.
    return float(sacrebleu.corpus_bleu([response], [[knowledge.lower()]]).score)
