"""Yes/no questions of `mini`'s corpus: does a retelling say only, or all of, the given content?

To answer, an encoder has to find each word of one text in another. `mini` learns that first on
lists of words, then on passages (docs/mini_training.md). Verses in several translations and
arguments in several wordings make it harder: the retelling uses other words than the source.
"""

import random
from collections.abc import Sequence

import mini_responses
import mini_texts
from mini_texts import Example, Text

from faith_jax.core.templates import curly_braces

# Lists draw their words from one of these numbers of most frequent words.
WORD_POOLS = (20, 100, 600, 3000, 12000)
# "only": is everything told also given? "all": is everything given also told?
QUESTIONS = ("only", "all")
MATERIALS = ("lists", "passages", "paraphrases", "wordings")
_TOLD = ("response", "told", "retold", "version", "answer", "text")
_SENTENCES, _WEIGHTS = (1, 2, 3, 4, 5, 6), (5, 30, 25, 20, 10, 10)
_LINKED = 0.5  # share of tellings with link phrases


def make_check(text: Text, rng: random.Random, materials: Sequence[str] = MATERIALS) -> Example:
    """Draws a question about one of `materials`."""
    checks = {
        "lists": check_lists,
        "passages": check_passages,
        "paraphrases": check_paraphrases,
        "wordings": check_wordings,
    }
    return checks[rng.choice(materials)](text, rng)


def check_lists(text: Text, rng: random.Random) -> Example:
    """Asks whether one list of 1 to 10 words is part of another."""
    pool = text.frequent[: rng.choice(WORD_POOLS)]
    words = rng.sample(pool, min(len(pool), 20))
    size = rng.randint(1, max(1, min(10, len(words) // 2)))
    question, answer = rng.choice(QUESTIONS), rng.random() < 0.5
    listed, told_sentences = _two(words, size, question, answer, rng)
    key = rng.choice(mini_texts.KEYS)[0]
    fields = [(key, " ".join(listed)), (rng.choice(_TOLD), " ".join(told_sentences))]
    rng.shuffle(fields)
    return _question(question, fields, answer)


def check_passages(text: Text, rng: random.Random) -> Example:
    """Asks about two groups of sentences and a retelling that may lack some and add others.

    Sentences come from anywhere, or are near each other and so about one subject. They are whole,
    or parts of 3 to 8 words.
    """
    size = min(rng.choices(_SENTENCES, _WEIGHTS)[0], len(text.sentences) // 2)
    window = min(len(text.sentences), 8 * size)
    start = rng.randrange(len(text.sentences) - window + 1)
    near = range(start, start + window)
    places = rng.sample(near if rng.random() < 0.5 else range(len(text.sentences)), 2 * size)
    sentences = [text.sentences[place] for place in places]
    if rng.random() < 0.25:
        sentences = [_part(sentence, rng) for sentence in sentences]
    question, answer = rng.choice(QUESTIONS), rng.random() < 0.5
    make = _two if rng.random() < 0.5 else _two_of_other_lengths
    listed, told_sentences = make(sentences, size, question, answer, rng)
    return _question(
        question, _fields(listed, _telling(told_sentences, text, rng), text, rng), answer
    )


def check_paraphrases(text: Text, rng: random.Random) -> Example:
    """Asks about nearby verses and a retelling in another translation or in the same."""
    size = rng.choices((1, 2, 3, 4), (30, 35, 20, 15))[0]
    window = 4 * size
    start = rng.randrange(len(text.versions) - window + 1)
    verses = {str(i): text.versions[i] for i in rng.sample(range(start, start + window), 2 * size)}
    question, answer = rng.choice(QUESTIONS), rng.random() < 0.5
    make = _two if rng.random() < 0.5 else _two_of_other_lengths
    listed, told_sentences = make(list(verses), size, question, answer, rng)
    is_unequal = rng.random() < 0.8
    wordings = {
        place: rng.sample(list(verse_wordings), 2) for place, verse_wordings in verses.items()
    }
    retold = [wordings[place][1 if is_unequal else 0] for place in told_sentences]
    sources = [wordings[place][0] for place in listed]
    telling = _telling(retold, text, rng)
    return _question(question, _fields(sources, telling, text, rng), answer)


def check_wordings(text: Text, rng: random.Random) -> Example:
    """Asks about arguments of a topic and a response that tells them in other or the same words.

    Some examples ask which argument is missing or was added; the answer is its sentence.
    """
    topic = rng.choice(text.topics)
    sizes = rng.choices((0, 1, 2, 3, 4), (10, 35, 25, 20, 10), k=2)
    if sum(sizes) < 2:
        sizes = [rng.randint(1, 2)] * 2
    places = [
        (side, place)
        for side in (0, 1)
        for place in sorted(rng.sample(range(len(topic[1 + side])), sizes[side]))
    ]
    missing, added = rng.random() < 0.5, rng.random() < 0.5
    compared = rng.random() < 0.3
    if compared and missing and added:
        missing = added = False
    first, second = rng.sample(range(len(places)), 2)
    listed = [place for i, place in enumerate(places) if not (added and i == first)]
    response = [place for i, place in enumerate(places) if not (missing and i == second)]
    retold = 1 if rng.random() < 0.85 else 0  # in other words
    wordings = {(s, p): rng.sample(list(topic[1 + s][p]), 2) for s, p in places}
    sources, told_sentences = (
        [[wordings[key][wording] for key in keys if key[0] == side] for side in (0, 1)]
        for keys, wording in ((listed, 0), (response, retold))
    )
    telling = " ".join(told_sentences[0] + told_sentences[1])
    if rng.random() < 0.8:
        telling = mini_responses.told(told_sentences, text, rng)
    fields = [
        (key, " ".join(side))
        for key, side in zip(rng.choice(mini_responses.KEYS), sources, strict=True)
    ]
    fields.insert(rng.choice((0, 0, 2)), (rng.choice(("response", "response", *_TOLD)), telling))
    if rng.random() < 0.9:
        fields.insert(0, (rng.choice(mini_responses.QUERY_KEYS), topic.query))
    if compared:
        answer = "same"
        if missing:
            answer = f"missing: {wordings[places[second]][0]}"
        elif added:
            answer = f"added: {wordings[places[first]][retold]}"
        return Example(f"compare {curly_braces(fields)}", answer)
    question = rng.choice(QUESTIONS)
    return _question(question, fields, not (added if question == "only" else missing))


def _two(
    parts: Sequence[str], size: int, question: str, answer: bool, rng: random.Random
) -> tuple[list[str], list[str]]:
    """Returns given and told parts whose lengths do not reveal the answer.

    The side that is asked to be part of the other is never the longer one, whatever the answer.
    """
    all_parts, unused_parts = list(parts[:size]), list(parts[size:])
    part = rng.sample(all_parts, rng.randint(1, size))
    if not answer:
        count = min(len(unused_parts), rng.randint(1, len(part)))
        part[:count] = rng.sample(unused_parts, count)
        rng.shuffle(part)
    return (all_parts, part) if question == "only" else (part, all_parts)


def _two_of_other_lengths(
    parts: Sequence[str], size: int, question: str, answer: bool, rng: random.Random
) -> tuple[list[str], list[str]]:
    """Returns given and told parts that differ by one added or missing part, like real errors.

    Most keep their order. The kind of error that is not asked about occurs in half of the draws, so
    that it does not reveal the answer.
    """
    is_longer = rng.random() < 0.5
    missing, added = (is_longer, not answer) if question == "only" else (not answer, is_longer)
    parts = parts[: max(2, size)]
    first, second = rng.sample(range(len(parts)), 2)
    listed = [part for i, part in enumerate(parts) if not (added and i == first)]
    told_parts = [part for i, part in enumerate(parts) if not (missing and i == second)]
    if rng.random() < 0.3:
        rng.shuffle(told_parts)
    return listed, told_parts


def _part(sentence: str, rng: random.Random) -> str:
    words, length = sentence.split(), rng.randint(3, 8)
    start = rng.randrange(max(1, len(words) - length + 1))
    return " ".join(words[start : start + length])


def _telling(sentences: Sequence[str], text: Text, rng: random.Random) -> str:
    if rng.random() >= _LINKED:
        return " ".join(sentences)
    return mini_texts.told_groups("", mini_texts.split(sentences, rng), text, rng)


def _fields(
    listed: Sequence[str], telling: str, text: Text, rng: random.Random
) -> list[tuple[str, str]]:
    """Returns the given parts in two fields (one may be empty), and the retelling first or last."""
    keys = rng.choice(mini_texts.KEYS)
    middle = rng.randint(0, len(listed))
    groups = (listed[:middle], listed[middle:])
    fields = [(key, " ".join(group)) for key, group in zip(keys, groups, strict=True)]
    fields.insert(rng.choice((0, len(fields), len(fields))), (rng.choice(_TOLD), telling))
    if text.questions and rng.random() < 0.5:
        fields.insert(0, (rng.choice(mini_texts.TITLES), rng.choice(text.questions)))
    return fields


def _question(question: str, fields: Sequence[tuple[str, str]], answer: bool) -> Example:
    return Example(f"{question} {curly_braces(fields)}", "yes" if answer else "no")
