"""Questions of `mini`'s corpus that are answered by yes or no: is what is told what was given?

To answer, an encoder has to find each word of one text in another. A T5 of the size of `mini` did
not begin to learn that in 600 steps on passages, nor in 700 where the answer was one of many target
tokens; with lists of a few frequent words, and answers of one word, it did within 500. So examples
range from two lists to passages, and words from the 20 most frequent to all.
"""

import random
from collections.abc import Sequence

import mini_texts
from mini_texts import Example, Text

from faith_jax.templates import curly_braces

# Lists draw their words from so many of the most frequent ones.
WORD_POOLS = (20, 200, 2000)
# What is asked: whether all that is told was given, whether all that was given is told, or both.
QUESTIONS = ("only", "all", "same")
_TOLD = ("response", "told", "retold", "version", "answer", "text")
_PASSAGE_SENTENCES, _WEIGHTS = (2, 3, 4, 5, 6), (30, 25, 20, 15, 10)


def make_check(text: Text, rng: random.Random) -> Example:
    """Draws a question about two lists of words, about parts of sentences, or about passages."""
    make = rng.choice((has_word, same_words, check_parts, check_passages))
    return make(text, rng)


def has_word(text: Text, rng: random.Random) -> Example:
    """Whether a list has a word."""
    first, second = _lists(text, rng)
    word = rng.choice(first)
    fields = [("word", word), (rng.choice(mini_texts.KEYS)[1], " ".join(second) or "none")]
    return _question("has", fields, word in second)


def same_words(text: Text, rng: random.Random) -> Example:
    """Whether two lists have the same words, in whatever order; or differ in one."""
    pool = text.frequent[: rng.choice(WORD_POOLS)]
    words = rng.sample(pool, min(len(pool), rng.randint(2, 6)))
    other = rng.sample(words, len(words))
    unused = [word for word in pool if word not in words]
    differs = bool(unused) and rng.random() < 0.5
    if differs:
        other[rng.randrange(len(other))] = rng.choice(unused)
    first, second = rng.choice(mini_texts.KEYS)
    return _question("same", [(first, " ".join(words)), (second, " ".join(other))], not differs)


def check_parts(text: Text, rng: random.Random) -> Example:
    """As `check_passages`, of 1 to 5 parts of sentences, 3 to 8 words each."""
    parts = []
    for sentence in rng.sample(text.sentences, rng.randint(2, 5)):
        words = sentence.split()
        length = rng.randint(3, 8)
        start = rng.randrange(max(1, len(words) - length + 1))
        parts.append(" ".join(words[start : start + length]))
    return _check(parts, text, rng)


def check_passages(text: Text, rng: random.Random) -> Example:
    """Whether a telling of two groups of sentences tells only them, or all of them, or both.

    Sentences are of anywhere, or near each other and so about one subject.
    """
    count = rng.choices(_PASSAGE_SENTENCES, _WEIGHTS)[0]
    window = min(len(text.sentences), 4 * count)
    start = rng.randrange(len(text.sentences) - window + 1)
    near = range(start, start + window)
    places = rng.sample(near if rng.random() < 0.5 else range(len(text.sentences)), count)
    return _check([text.sentences[place] for place in places], text, rng)


def _check(sentences: Sequence[str], text: Text, rng: random.Random) -> Example:
    """Makes a question of two or more sentences, of which one or two are told or given only."""
    question = rng.choice(QUESTIONS)
    faithful = rng.random() < 0.5
    missing, added = _errors(question, faithful, rng)
    places = rng.sample(range(len(sentences)), 2)
    given = [s for i, s in enumerate(sentences) if not (added and i == places[0])]
    told = [s for i, s in enumerate(sentences) if not (missing and i == places[1])]
    telling = " ".join(told)
    if rng.random() < 0.6:
        telling = mini_texts.told_groups("", mini_texts.split(told, rng), text, rng)
    return _question(question, _fields(given, telling, text, rng), faithful)


def _errors(question: str, faithful: bool, rng: random.Random) -> tuple[bool, bool]:
    """Returns whether something is missing, and whether something was added.

    What is not asked about is as likely either way, so that it does not tell the answer.
    """
    if question == "only":
        return rng.random() < 0.5, not faithful
    if question == "all":
        return not faithful, rng.random() < 0.5
    return (False, False) if faithful else rng.choice(((True, False), (False, True), (True, True)))


def _fields(
    given: Sequence[str], telling: str, text: Text, rng: random.Random
) -> list[tuple[str, str]]:
    """Returns what was given in two fields, one may be empty; the telling is before or behind."""
    keys = rng.choice(mini_texts.KEYS)
    middle = rng.randint(0, len(given))
    groups = (given[:middle], given[middle:])
    fields = [(key, " ".join(group)) for key, group in zip(keys, groups, strict=True)]
    fields.insert(rng.choice((0, 0, len(fields))), (rng.choice(_TOLD), telling))
    if text.questions and rng.random() < 0.5:
        fields.insert(0, (rng.choice(mini_texts.TITLES), rng.choice(text.questions)))
    return fields


def _lists(text: Text, rng: random.Random) -> tuple[list[str], list[str]]:
    """Returns two lists; each word of the first, not empty, is in the second as likely as not."""
    pool = text.frequent[: rng.choice(WORD_POOLS)]
    words = rng.sample(pool, min(len(pool), rng.randint(2, 6) + 4))
    split = rng.randint(1, max(1, len(words) - 4))
    first, rest = words[:split], words[split:]
    second = [w for w in first if rng.random() < 0.5] + rest[: rng.randint(0, 4)]
    rng.shuffle(second)
    return first, second


def _question(question: str, fields: Sequence[tuple[str, str]], answer: bool) -> Example:
    return Example(f"{question} {curly_braces(fields)}", "yes" if answer else "no")
