"""The text that `mini`'s corpus is made of, and how a text is told again."""

import collections
import itertools
import random
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from faith_jax.tokenizers.vocabularies import load_vocabulary

_SENTENCE_END = re.compile(r'(?<=[.!?]["”)])\s+(?=[A-Z"“(])|(?<=[.!?])\s+(?=[A-Z"“(])')
# A word can stand in lower case where it does so this many times as often as it does not. Only the
# most frequent ones change it: a model that copies must not guess how others are written.
LOWER_CASE_RATIO, LOWER_CASE_WORDS = 5, 150
# How often a piece is drawn for another that stands at least 1,000 times in the paragraphs.
RARE_PIECES = ((20, 12), (250, 4), (1000, 2))
SHARED = range(4, 80)  # sentences that have a word, where arguments about it are drawn
KEYS = (
    ("first", "second"), ("left", "right"), ("one", "other"), ("before", "after"),
    ("a", "b"), ("here", "there"), ("old", "new"),
    ("plan", "result"), ("north", "south"), ("public", "private"), ("team", "office"),
)  # fmt: skip
_WHO = (
    ("Some", "Others"), ("Some people", "Other people"),
    ("Those on one side", "Those on the other"), ("Those for it", "Those against it"),
    ("On the one hand, some", "On the other, others"), ("These", "Those"),
    ("Those who agree", "Those who do not"), ("Friends of it", "Its opponents"),
)  # fmt: skip
_VERBS = ("say", "add", "note", "hold", "believe", "argue", "think", "point out")
_MORE = ("They also {verb}", "They {verb} too", "And they {verb}", "Also, they {verb}")
TITLES = ("query", "question", "title", "topic", "about")
OPENINGS = (
    "There are two views.", "Opinions differ.", "There is more than one answer.",
    "This can be seen in two ways.", "The question is open.",
)  # fmt: skip
TITLED_OPENINGS = (
    "{title} There is more than one view.", 'On "{title}" there are two views.',
    "{title} This is open.", 'Not all see "{title}" in the same way.',
)  # fmt: skip


class Example(NamedTuple):
    """A row of the corpus."""

    inputs: str
    targets: str


class Topic(NamedTuple):
    """A question, and of each side the arguments, each in several wordings."""

    query: str
    pro: Sequence[Sequence[str]]
    con: Sequence[Sequence[str]]


def sentences_of(paragraph: str) -> list[str]:
    """Splits a paragraph into its sentences, each a whole number of words."""
    return [part.strip() for part in _SENTENCE_END.split(paragraph.strip()) if part.strip()]


def is_plain(sentence: str) -> bool:
    """Whether a sentence can stand alone: 5 to 32 words, from a capital to a full stop."""
    words = sentence.split()
    return (
        5 <= len(words) <= 32
        and sentence[0].isupper()
        and sentence[-1] in ".!?"
        and not set(sentence) & set("{}<>")
    )


class Text(NamedTuple):
    """What examples are made of.

    Attributes:
      paragraphs: of 8 words or more.
      sentences: that can stand alone.
      questions: those of the sentences that ask.
      lower_case: words that need no capital but at a sentence's start.
      frequent: words in lower case, the most frequent first.
      sharing: where a word of 5 letters or more stands in some sentences, not many: in which.
      shared: the words of `sharing`.
      pieces: of the vocabulary, see `vocabulary_pieces`.
      versions: of each verse of a book, two or more wordings; empty without such a book.
      topics: with arguments in several wordings; empty without such a file.
    """

    paragraphs: Sequence[str]
    sentences: Sequence[str]
    questions: Sequence[str]
    lower_case: frozenset[str]
    frequent: Sequence[str] = ()
    sharing: Mapping[str, Sequence[int]] = {}
    shared: Sequence[str] = ()
    pieces: Sequence[str] = ()
    versions: Sequence[Sequence[str]] = ()
    topics: Sequence["Topic"] = ()

    @classmethod
    def of(
        cls,
        paragraphs: Sequence[str],
        versions: Sequence[Sequence[str]] = (),
        topics: Sequence["Topic"] = (),
    ) -> "Text":
        """Finds them in paragraphs."""
        all_sentences = [s for paragraph in paragraphs for s in sentences_of(paragraph)]
        plain = [s for s in all_sentences if is_plain(s)]
        sharing = sentences_by_word(plain)
        return cls(
            [paragraph for paragraph in paragraphs if len(paragraph.split()) >= 8],
            plain,
            [s for s in plain if s.endswith("?")],
            lower_case_words(all_sentences),
            frequent_words(all_sentences),
            sharing,
            list(sharing),
            vocabulary_pieces(paragraphs),
            versions,
            topics,
        )


def frequent_words(sentences: Sequence[str]) -> list[str]:
    """Returns the words that stand in lower case inside sentences, the most frequent first."""
    counts = collections.Counter(w for s in sentences for w in s.split()[1:] if w.isalpha())
    return [word for word, _ in counts.most_common() if word.islower()]


def sentences_by_word(sentences: Sequence[str]) -> dict[str, list[int]]:
    """Returns in which sentences a word of 5 letters or more stands, if these are 4 to 79."""
    places: dict[str, list[int]] = collections.defaultdict(list)
    for index, sentence in enumerate(sentences):
        for word in dict.fromkeys(re.findall(r"[a-z]{5,}", sentence)):
            places[word].append(index)
    return {word: word_places for word, word_places in places.items() if len(word_places) in SHARED}


def vocabulary_pieces(paragraphs: Sequence[str]) -> list[str]:
    """Returns the pieces of english_4096 that have a letter or a digit, no bytes.

    Pieces that the paragraphs seldom have stand several times: a model that hardly ever reads a
    piece cannot copy it.
    """
    vocabulary = load_vocabulary()
    counts = collections.Counter(token for text in paragraphs for token in vocabulary.encode(text))
    last = vocabulary.vocab_size - vocabulary.extra_ids
    pieces = [(token, vocabulary.stored_piece(token) or "") for token in range(3 + 256, last)]
    return [
        piece
        for token, piece in pieces
        if any(c.isalnum() for c in piece)
        for _ in range(next((n for max_count, n in RARE_PIECES if counts[token] < max_count), 1))
    ]


def lower_case_words(sentences: Sequence[str]) -> frozenset[str]:
    """Returns the words of sentences whose first letter may lose its capital in a copy."""
    counts = collections.Counter(w for s in sentences for w in s.split()[1:] if w.isalpha())
    lower = (
        word
        for word, count in counts.most_common()
        if word.islower() and count > LOWER_CASE_RATIO * counts[word.capitalize()]
    )
    return frozenset(itertools.islice(lower, LOWER_CASE_WORDS))


def two_groups(
    sentences: Sequence[str], rng: random.Random
) -> tuple[tuple[Sequence[str], Sequence[str]], tuple[str, str]]:
    """Cuts two or more sentences into two groups, neither empty; and draws a key for each."""
    middle = rng.randint(1, len(sentences) - 1)
    return (sentences[:middle], sentences[middle:]), rng.choice(KEYS)


def split(sentences: Sequence[str], rng: random.Random) -> Sequence[Sequence[str]]:
    """Returns sentences in two groups; a single one in one."""
    return [sentences] if len(sentences) == 1 else two_groups(sentences, rng)[0]


def told_groups(
    opening: str, groups: Sequence[Sequence[str]], text: Text, rng: random.Random
) -> str:
    """Tells one or two groups of sentences as running text, with link phrases."""
    who = rng.choice(_WHO)
    group_sentences = [
        _told(group, name, text, rng) for group, name in zip(groups, who, strict=False)
    ]
    return " ".join(filter(None, [opening, *group_sentences]))


def _told(sentences: Sequence[str], who: str, text: Text, rng: random.Random) -> str:
    """Tells a group's sentences in their order, each behind a link phrase or as it is."""
    told_sentences = []
    for number, sentence in enumerate(sentences):
        verb = rng.choice(_VERBS)
        link = f"{who} {verb}" if number == 0 else rng.choice(_MORE).format(verb=verb)
        told_sentences.append(
            sentence if number and rng.random() < 0.4 else linked(link, sentence, text)
        )
    return " ".join(told_sentences)


def linked(link: str, sentence: str, text: Text) -> str:
    """Returns a sentence behind a link phrase: in a "that" clause if its first word allows it."""
    first, _, rest = sentence.partition(" ")
    if first.lower() in text.lower_case and not sentence.endswith(("?", "!")):
        return f"{link} that {first.lower()} {rest}"
    return f"{link}: {sentence}"
