"""Makes the corpus that the embedded base model `mini` is trained on, from plain English text.

    python tools/make_mini_corpus.py TEXT... --output FOLDER [--examples 300000] [--seed 0]

Each TEXT is a UTF-8 file with one paragraph a line. The output is `train.jsonl` and
`validation.jsonl` in FOLDER, of rows {"id", "inputs", "targets"}: what the SeqIO task
`text_to_text` reads. Every hundredth paragraph is kept for validation, before any example is made.

The examples teach a model to fill gaps (span corruption, Raffel 2020, section 3.1.4) and to
restate what it reads: to copy it, to copy a part that is named, to put sentences into an order, to
merge the groups of a list into running text, with link phrases, whole or as "that" clauses, and to
tell what one text has and its merged form lacks, or has too much. No example is about a debate, and
none has a phrase of the NPOV sample's responses by intent.

The same texts, options and seed give the same bytes.
"""

import argparse
import collections
import itertools
import json
import pathlib
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from faith_jax.data.vocabularies import load_vocabulary
from faith_jax.errors import InputError
from faith_jax.templates import curly_braces

VALIDATION_EVERY = 100  # paragraphs
VALIDATION_SHARE = 500  # an example for so many of training
MOST_SENTENCES = 6  # of an example
# How many an example has: most have few, so that several examples fit a packed row.
SENTENCES, SENTENCE_WEIGHTS = (1, 2, 3, 4, 5, 6), (5, 40, 20, 15, 10, 10)
MAX_WORDS = 110  # of an input's text: about 160 tokens
NOISE_DENSITY, MEAN_SPAN = 0.15, 3
_SENTENCE_END = re.compile(r'(?<=[.!?]["”)])\s+(?=[A-Z"“(])|(?<=[.!?])\s+(?=[A-Z"“(])')
# A word can stand in lower case where it does so this many times as often as it does not. Only the
# most frequent ones change their case: a model that copies must not guess the pieces of rare words.
LOWER_CASE_RATIO, LOWER_CASE_WORDS = 5, 150
_KEYS = (
    ("first", "second"), ("left", "right"), ("one", "other"), ("before", "after"),
    ("a", "b"), ("pro", "con"), ("for", "against"), ("here", "there"), ("old", "new"),
    ("plan", "result"), ("north", "south"), ("public", "private"), ("team", "office"),
)  # fmt: skip
_WHO = (
    ("Some", "Others"), ("Some people", "Other people"), ("Many", "Others"), ("A few", "Most"),
    ("Those on one side", "Those on the other"), ("Those for it", "Those against it"),
    ("On the one hand, some", "On the other, others"), ("These", "Those"),
    ("Those who agree", "Those who do not"), ("Friends of it", "Its opponents"),
)  # fmt: skip
_VERBS = ("say", "add", "note", "hold", "believe", "argue", "think", "point out")
_MORE = ("They also {verb}", "They {verb} too", "And they {verb}", "Also, they {verb}")
_TITLES = ("query", "question", "title", "topic", "about")
_OPENINGS = (
    "There are two views.", "Opinions differ.", "There is more than one answer.",
    "This can be seen in two ways.", "The question is open.",
)  # fmt: skip
_TITLED_OPENINGS = (
    "{title} There is more than one view.", 'On "{title}" there are two views.',
    "{title} This is open.", 'Not all see "{title}" in the same way.',
)  # fmt: skip


class Example(NamedTuple):
    """A row of the corpus."""

    inputs: str
    targets: str


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


def corrupt_spans(text: str, rng: random.Random) -> Example:
    """Replaces spans of about 3 words, 15% of all, by extra ids, which the targets spell out."""
    words = text.split()
    spans = max(1, round(len(words) * NOISE_DENSITY / MEAN_SPAN))
    starts = sorted(rng.sample(range(len(words)), min(spans, len(words))))
    inputs: list[str] = []
    targets: list[str] = []
    position = number = 0
    for start in starts:
        if start < position:
            continue
        length = min(rng.randint(1, 2 * MEAN_SPAN - 1), len(words) - start)
        mark = f"<extra_id_{number}>"
        inputs += [*words[position:start], mark]
        targets += [mark, *words[start : start + length]]
        position, number = start + length, number + 1
    return Example(
        " ".join(inputs + words[position:]), " ".join([*targets, f"<extra_id_{number}>"])
    )


class Text(NamedTuple):
    """What examples are made of.

    Attributes:
      paragraphs: of 8 words or more.
      sentences: that can stand alone.
      questions: those of the sentences that ask.
      lower_case: words that need no capital but at a sentence's start.
    """

    paragraphs: Sequence[str]
    sentences: Sequence[str]
    questions: Sequence[str]
    lower_case: frozenset[str]

    @classmethod
    def of(cls, paragraphs: Sequence[str]) -> "Text":
        """Finds them in paragraphs."""
        whole = [s for paragraph in paragraphs for s in sentences_of(paragraph)]
        plain = [s for s in whole if is_plain(s)]
        return cls(
            [paragraph for paragraph in paragraphs if len(paragraph.split()) >= 8],
            plain,
            [s for s in plain if s.endswith("?")],
            lower_case_words(whole),
        )


def lower_case_words(sentences: Sequence[str]) -> frozenset[str]:
    """Returns the most frequent of the words that stand in lower case inside sentences."""
    counts = collections.Counter(w for s in sentences for w in s.split()[1:] if w.isalpha())
    lower = (
        word
        for word, count in counts.most_common()
        if word.islower() and count > LOWER_CASE_RATIO * counts[word.capitalize()]
    )
    return frozenset(itertools.islice(lower, LOWER_CASE_WORDS))


def copy(sentences: Sequence[str], text: Text, rng: random.Random) -> Example:
    """All of the text, or one sentence that is named by its place."""
    whole = " ".join(sentences)
    if len(sentences) == 1 or rng.random() < 0.5:
        return Example(rng.choice(("copy: ", "repeat: ", "text: ")) + whole, whole)
    place = rng.randrange(len(sentences))
    name = ("first", "second", "third", "fourth", "fifth", "sixth")[place]
    return Example(f"{name} sentence: {whole}", sentences[place])


def reorder(sentences: Sequence[str], text: Text, rng: random.Random) -> Example:
    """Numbered sentences, and the order in which they are told."""
    order = rng.sample(range(len(sentences)), len(sentences))
    numbered = " ".join(f"({i + 1}) {s}" for i, s in enumerate(sentences))
    wanted = " ".join(str(i + 1) for i in order)
    return Example(f"order {wanted}: {numbered}", " ".join(sentences[i] for i in order))


def merge(sentences: Sequence[str], text: Text, rng: random.Random) -> Example:
    """Two groups of sentences, told as running text with link phrases; a key may pick one.

    The list may have a title, a question, that the told text seldom takes up.
    """
    groups, keys = _two_groups(sentences, rng)
    fields = [(key, " ".join(group)) for key, group in zip(keys, groups, strict=True)]
    title = rng.choice(text.questions) if text.questions and rng.random() < 0.6 else ""
    kind = rng.random()
    if kind < 0.1:
        chosen = rng.randrange(2)
        return _answered(_listed([("tell", keys[chosen]), *fields], rng), " ".join(groups[chosen]))
    if title:
        fields.insert(0, (rng.choice(_TITLES), title))
    if kind < 0.35:
        return _answered(_listed(fields, rng), " ".join(sentences))
    opening = ""
    if kind > 0.85:
        form = rng.choice(_TITLED_OPENINGS if title and kind > 0.92 else _OPENINGS)
        opening = form.format(title=title)
    return _answered(_listed(fields, rng), _told_groups(opening, groups, text, rng))


def compare(sentences: Sequence[str], text: Text, rng: random.Random) -> Example:
    """A list, and a telling of it that may lack a sentence or have one too much: which one."""
    given, told = list(sentences), list(sentences)
    kind = rng.choice(("same", "missing", "added"))
    odd = rng.randrange(len(sentences))
    if kind == "missing":
        del told[odd]
    elif kind == "added":
        del given[odd]
    if not given or not told:
        return copy(sentences, text, rng)
    telling = _told_groups("", _split(told, rng), text, rng)
    if len(given) > 1:
        groups, keys = _two_groups(given, rng)
        fields = [(key, " ".join(group)) for key, group in zip(keys, groups, strict=True)]
    else:
        fields = [("list", given[0])]
    place = rng.choice((0, len(fields)))
    fields.insert(place, (rng.choice(("told", "retold", "version")), telling))
    if rng.random() < 0.5 and text.questions:
        fields.insert(0, (rng.choice(_TITLES), rng.choice(text.questions)))
    answer = "same" if kind == "same" else f"{kind}: {sentences[odd]}"
    return Example("compare " + _listed(fields, rng), answer)


def _two_groups(
    sentences: Sequence[str], rng: random.Random
) -> tuple[tuple[Sequence[str], Sequence[str]], tuple[str, str]]:
    middle = rng.randint(1, len(sentences) - 1)
    return (sentences[:middle], sentences[middle:]), rng.choice(_KEYS)


def _split(sentences: Sequence[str], rng: random.Random) -> Sequence[Sequence[str]]:
    return [sentences] if len(sentences) == 1 else _two_groups(sentences, rng)[0]


def _listed(fields: Sequence[tuple[str, str]], rng: random.Random) -> str:
    if rng.random() < 0.7:
        return curly_braces(fields)
    mark = rng.choice((" | ", " ; ", " "))
    return mark.join(f"{key}: {value}" for key, value in fields)


def _answered(inputs: str, told: str) -> Example:
    """Puts the target between curly braces where the input has them."""
    if inputs.startswith("{"):
        return Example(inputs, curly_braces([("response", told)]))
    return Example(inputs, told)


def _told_groups(
    opening: str, groups: Sequence[Sequence[str]], text: Text, rng: random.Random
) -> str:
    who = rng.choice(_WHO)
    told = [_told(group, name, text, rng) for group, name in zip(groups, who, strict=False)]
    return " ".join(filter(None, [opening, *told]))


def _told(sentences: Sequence[str], who: str, text: Text, rng: random.Random) -> str:
    """Tells a group's sentences in their order, each behind a link phrase or as it is."""
    told = []
    for number, sentence in enumerate(sentences):
        verb = rng.choice(_VERBS)
        link = f"{who} {verb}" if number == 0 else rng.choice(_MORE).format(verb=verb)
        first, _, rest = sentence.partition(" ")
        if number and rng.random() < 0.4:
            told.append(sentence)
        elif first.lower() in text.lower_case and not sentence.endswith(("?", "!")):
            told.append(f"{link} that {first.lower()} {rest}")
        else:
            told.append(f"{link}: {sentence}")
    return " ".join(told)


_KINDS: tuple[tuple[float, Callable[[Sequence[str], Text, random.Random], Example] | None], ...] = (
    (0.12, None), (0.08, copy), (0.08, reorder), (0.52, merge), (0.2, compare),
)  # fmt: skip


def make_example(text: Text, rng: random.Random) -> Example:
    """Draws one example, from a paragraph or from sentences of anywhere."""
    make = rng.choices([make for _, make in _KINDS], [weight for weight, _ in _KINDS])[0]
    if make is None:
        words = rng.choice(text.paragraphs).split()
        length = rng.choice((MAX_WORDS // 4, MAX_WORDS // 2, MAX_WORDS))
        start = rng.randrange(max(1, len(words) - length + 1))
        return corrupt_spans(" ".join(words[start : start + length]), rng)
    count = rng.choices(SENTENCES, SENTENCE_WEIGHTS)[0]
    if make in (merge, reorder):
        count = max(2, count)
    chosen: list[str] = []
    for index in rng.sample(range(len(text.sentences)), count):
        if len(chosen) < 2 or sum(len(s.split()) for s in chosen) < MAX_WORDS - 20:
            chosen.append(text.sentences[index])
    return make(chosen, text, rng)


def examples(
    paragraphs: Sequence[str], count: int, seed: str, max_tokens: int
) -> Iterator[Example]:
    """Yields `count` examples made of the paragraphs.

    Args:
      paragraphs: the texts.
      count: how many.
      seed: another seed draws other examples; its last word names the part, for errors.
      max_tokens: longest inputs and targets, in tokens of english_4096, end token included;
        longer examples are drawn anew.

    Raises:
      InputError: where they hold too few sentences that can stand alone.
    """
    rng = random.Random(seed)
    text = Text.of(paragraphs)
    vocabulary = load_vocabulary()
    if len(text.sentences) < MOST_SENTENCES:
        raise InputError(
            f"The texts' {seed.split()[1]} part has {len(text.sentences)} sentences of 5 to 32 "
            f"words, expected {MOST_SENTENCES} or more. Give more text, one paragraph a line."
        )
    while count:
        example = make_example(text, rng)
        if all(len(vocabulary.encode(part)) < max_tokens for part in example):
            count -= 1
            yield example


def read_paragraphs(paths: Sequence[pathlib.Path]) -> list[str]:
    """Returns the different lines of the files, single-spaced.

    Raises:
      InputError: where a file cannot be read as UTF-8.
    """
    lines: dict[str, None] = {}
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot be read as UTF-8 text: {error}.") from None
        lines.update(dict.fromkeys(" ".join(line.split()) for line in text.splitlines()))
    return [line for line in lines if line]


def write(path: pathlib.Path, rows: Iterator[Example], split: str) -> None:
    """Writes a part beside its place and renames it."""
    beside = path.with_name(path.name + ".partial")
    try:
        with beside.open("w", encoding="utf-8") as file:
            for number, example in enumerate(rows):
                row = {"id": f"{split}-{number}", **example._asdict()}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        beside.rename(path)
    finally:
        beside.unlink(missing_ok=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Reads the texts and writes both parts; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="+", type=pathlib.Path, metavar="TEXT")
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="FOLDER")
    parser.add_argument("--examples", type=int, default=300_000, help="of the training part")
    parser.add_argument("--max_tokens", type=int, default=192, help="of inputs, and of targets")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    try:
        lines = read_paragraphs(args.texts)
        parts = {
            "validation": (lines[::VALIDATION_EVERY], max(1, args.examples // VALIDATION_SHARE)),
            "train": ([s for i, s in enumerate(lines) if i % VALIDATION_EVERY], args.examples),
        }
        args.output.mkdir(parents=True, exist_ok=True)
        for split, (paragraphs, count) in parts.items():
            path = args.output / f"{split}.jsonl"
            write(path, examples(paragraphs, count, f"{args.seed} {split}", args.max_tokens), split)
            print(f"{path}: {count} examples of {len(paragraphs)} paragraphs")
    except InputError as error:
        print(f"make_mini_corpus: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
