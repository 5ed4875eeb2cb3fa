"""Responses of `mini`'s corpus: arguments of two sides, told as two views.

The arguments are sentences of any text, about one subject or several, or arguments of a topic. A
response tells each of them once, in their order and in their own words. It says who holds them, but
not how many people do, because the input does not say that either.
"""

import random
from collections.abc import Sequence

import mini_noise
import mini_texts
from mini_texts import Example, Text

from faith_jax.core.templates import curly_braces

KEYS = (("pro", "con"), ("pro", "con"), ("pro", "con"), ("for", "against"), ("yes", "no"))
QUERY_KEYS = ("query", "query", "query", "question", "topic")
# The holders of the first and of the second view.
HOLDERS = (
    ("Supporters", "Opponents"), ("Supporters", "Critics"), ("Supporters", "Opponents"),
    ("Proponents", "Opponents"), ("Proponents", "Critics"), ("Advocates", "Opponents"),
    ("Advocates", "Critics"), ("Those in favour", "Those against"),
    ("Those for it", "Those against it"), ("Those who agree", "Those who disagree"),
    ("Some people", "Other people"), ("Some", "Others"),
)  # fmt: skip
CONTRASTS = ("{who}", "{who}", "{who}", "{who}, however,", "On the other hand, {who}")
VERBS = ("say", "say", "argue", "argue", "note", "believe", "point out", "think")
MORE = (
    "They also {verb}", "They also {verb}", "They add", "They add", "In addition, they {verb}",
    "They further {verb}", "Finally, they {verb}",
)  # fmt: skip
_OPENINGS = (
    "Views differ.", "Opinions differ.", "People disagree about this.", "This is disputed.",
    "There are different views on this.", "There is no agreement on this.",
)  # fmt: skip
COUNTS, COUNT_WEIGHTS = (1, 2, 3, 4, 5), (25, 27, 25, 19, 4)
MOST_WORDS = 190  # in all arguments together
_ASKING = (
    "Should",
    "Is it right that",
    "Is it true that",
    "Would it help if",
    "Does it matter that",
)
TOPIC_SHARE = 0.3  # share of responses to topics, if there are any
PIECES_SHARE = 0.2  # share of the other responses that copy pieces of the vocabulary


def respond(text: Text, rng: random.Random) -> Example:
    """Draws a query with arguments of both sides, and the response to it."""
    counts = rng.choices(COUNTS, COUNT_WEIGHTS, k=2)
    if rng.random() < 0.6:
        counts[1] = counts[0]
    question = ""
    if text.topics and rng.random() < TOPIC_SHARE:
        topic = rng.choice(text.topics)
        question = topic.query
        counts = [min(count, len(side)) for count, side in zip(counts, topic[1:], strict=True)]
        drawn = [rng.sample(list(s), count) for s, count in zip(topic[1:], counts, strict=True)]
        sentences = [rng.choice(wordings) for side in drawn for wordings in side]
    elif rng.random() < PIECES_SHARE:
        sentences = [mini_noise.sentence_of_pieces(text.pieces, rng) for _ in range(sum(counts))]
    else:
        sentences = _arguments(sum(counts), text, rng)
    sentences = mini_noise.noisy(sentences, text.pieces, rng)
    if rng.random() < 0.2:
        sentences = [sentence.rstrip(".") for sentence in sentences]
    # There may be fewer sentences than asked for; the sides keep their shares.
    middle = max(1, round(len(sentences) * counts[0] / sum(counts)))
    groups = [sentences[:middle], sentences[middle:]]
    keys = rng.choice(KEYS)
    fields = [(key, " ".join(group)) for key, group in zip(keys, groups, strict=True)]
    if rng.random() < 0.95:
        fields.insert(0, (rng.choice(QUERY_KEYS), question or _query(sentences, text, rng)))
    return Example(curly_braces(fields), curly_braces([("response", told(groups, text, rng))]))


def _arguments(count: int, text: Text, rng: random.Random) -> list[str]:
    """Draws sentences from anywhere, from one place, or with a shared word; some are joined."""
    kind = rng.random()
    if kind < 0.35 or not text.shared:
        places = [rng.randrange(len(text.sentences)) for _ in range(2 * count)]
    elif kind < 0.6:
        window = min(len(text.sentences), 6 * count)
        start = rng.randrange(len(text.sentences) - window + 1)
        places = rng.sample(range(start, start + window), min(2 * count, window))
    else:
        sharing_topics = text.sharing[rng.choice(text.shared)]
        places = rng.sample(sharing_topics, min(2 * count, len(sharing_topics)))
    drawn: dict[str, None] = {}
    words = 0
    for place in places:
        sentence = text.sentences[place]
        if words + len(sentence.split()) > MOST_WORDS or len(drawn) == count:
            break
        if drawn and rng.random() < 0.06:
            last = drawn.popitem()[0]
            sentence = f"{last} {sentence}"
        drawn[sentence] = None
        words += len(text.sentences[place].split())
    return list(drawn)


def _query(sentences: Sequence[str], text: Text, rng: random.Random) -> str:
    """Returns a question of the texts, or one made from a sentence or an argument."""
    kind = rng.random()
    if kind < 0.4 and text.questions:
        return rng.choice(text.questions)
    words = rng.choice(sentences).rstrip(".!?").split()
    if kind < 0.7:
        words = rng.choice(text.sentences).rstrip(".!?").split()
    start = rng.randrange(max(1, len(words) - 4))
    part = " ".join(words[start : start + rng.randint(3, 10)])
    return f"{rng.choice(_ASKING)} {part[:1].lower()}{part[1:]}?"


def told(groups: Sequence[Sequence[str]], text: Text, rng: random.Random) -> str:
    """Tells the arguments of two sides, one of which may have none, as two views."""
    parts = [rng.choice(_OPENINGS)] if rng.random() < 0.65 else []
    for number, (group, holder) in enumerate(zip(groups, rng.choice(HOLDERS), strict=True)):
        if not group:
            continue
        form = rng.choice(CONTRASTS) if number else "{who}"
        who = form.format(who=holder if form.startswith("{") else holder[:1].lower() + holder[1:])
        linked = rng.choice((0.2, 0.6, 1.0))
        for place, argument in enumerate(group):
            verb = rng.choice(VERBS)
            link = f"{who} {verb}" if place == 0 else rng.choice(MORE).format(verb=verb)
            full_sentence = argument if argument[-1] in ".!?" else argument + "."
            if place and rng.random() >= linked:
                parts.append(full_sentence)
            else:
                parts.append(mini_texts.linked(link, full_sentence, text))
    return " ".join(parts)


def link(rng: random.Random) -> str:
    """Returns a link phrase that says who holds an argument, as in `told`."""
    verb = rng.choice(VERBS)
    if rng.random() < 0.5:
        return rng.choice(MORE).format(verb=verb)
    first, second = rng.choice(HOLDERS)
    if rng.random() < 0.5:
        return f"{first} {verb}"
    form = rng.choice(CONTRASTS)
    who = second if form.startswith("{") else second[:1].lower() + second[1:]
    return f"{form.format(who=who)} {verb}"
