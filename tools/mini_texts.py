"""The text that `mini`'s corpus is made from, and functions that retell it."""

import collections
import itertools
import random
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from faith_jax.tokenizers.vocabularies import load_vocabulary

_SENTENCE_END = re.compile(r'(?<=[.!?]["”)])\s+(?=[A-Z"“(])|(?<=[.!?])\s+(?=[A-Z"“(])')
# A word may lose its capital if its lower-case form is this many times as frequent. Only the most
# frequent words do: a model that copies must not guess the case of other words.
LOWER_CASE_RATIO, LOWER_CASE_WORDS = 5, 150
# (count, weight): pieces that occur fewer than `count` times are drawn `weight` times as often.
RARE_PIECES = ((20, 12), (250, 4), (1000, 2))
SHARED = range(4, 80)  # how many sentences may share a word that arguments are drawn around
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
    """A question and the arguments of each side, each in several wordings."""

    query: str
    pro: Sequence[Sequence[str]]
    con: Sequence[Sequence[str]]


def sentences_of(paragraph: str) -> list[str]:
    """Splits a paragraph into its sentences, each a whole number of words."""
    return [part.strip() for part in _SENTENCE_END.split(paragraph.strip()) if part.strip()]


def is_plain(sentence: str) -> bool:
    """Whether a sentence can stand alone: 5 to 32 words, with a capital and an end mark."""
    words = sentence.split()
    return (
        5 <= len(words) <= 32
        and sentence[0].isupper()
        and sentence[-1] in ".!?"
        and not set(sentence) & set("{}<>")
    )


class Text(NamedTuple):
    """The material that examples are made from.

    Attributes:
      paragraphs: paragraphs of 8 words or more.
      sentences: sentences that can stand alone.
      questions: the questions among `sentences`.
      lower_case: words that need a capital only at the start of a sentence.
      frequent: lower-case words, the most frequent first.
      sharing: for words of 5 letters or more in 4 to 79 sentences, the indices of these sentences.
      shared: the words of `sharing`.
      pieces: pieces of the vocabulary, see `vocabulary_pieces`.
      versions: two or more wordings of each verse of a book; may be empty.
      topics: topics with arguments in several wordings; may be empty.
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
        """Returns the material found in paragraphs."""
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
    """Returns the lower-case words inside sentences, the most frequent first."""
    counts = collections.Counter(w for s in sentences for w in s.split()[1:] if w.isalpha())
    return [word for word, _ in counts.most_common() if word.islower()]


def sentences_by_word(sentences: Sequence[str]) -> dict[str, list[int]]:
    """Maps words of 5 letters or more to the indices of their sentences, if these are 4 to 79."""
    places: dict[str, list[int]] = collections.defaultdict(list)
    for index, sentence in enumerate(sentences):
        for word in dict.fromkeys(re.findall(r"[a-z]{5,}", sentence)):
            places[word].append(index)
    return {word: word_places for word, word_places in places.items() if len(word_places) in SHARED}


def vocabulary_pieces(paragraphs: Sequence[str]) -> list[str]:
    """Returns the pieces of english_4096 that have a letter or a digit, without byte pieces.

    Pieces that are rare in the paragraphs are repeated: a model that hardly ever reads a piece
    cannot copy it.
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
    """Returns the words whose first letter may lose its capital in a copy."""
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
    """Cuts two or more sentences into two non-empty groups, and draws a key for each."""
    middle = rng.randint(1, len(sentences) - 1)
    return (sentences[:middle], sentences[middle:]), rng.choice(KEYS)


def split(sentences: Sequence[str], rng: random.Random) -> Sequence[Sequence[str]]:
    """Returns sentences in two groups, or a single sentence in one group."""
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
    """Tells a group's sentences in their order, each after a link phrase or unchanged."""
    told_sentences = []
    for number, sentence in enumerate(sentences):
        verb = rng.choice(_VERBS)
        link = f"{who} {verb}" if number == 0 else rng.choice(_MORE).format(verb=verb)
        told_sentences.append(
            sentence if number and rng.random() < 0.4 else linked(link, sentence, text)
        )
    return " ".join(told_sentences)


def linked(link: str, sentence: str, text: Text) -> str:
    """Returns a sentence after a link phrase, as a "that" clause if its first word allows it."""
    first, _, rest = sentence.partition(" ")
    if first.lower() in text.lower_case and not sentence.endswith(("?", "!")):
        return f"{link} that {first.lower()} {rest}"
    return f"{link}: {sentence}"
