"""Makes the corpus that the embedded base model `mini` is trained on, from plain English text.

    python tools/make_mini_corpus.py TEXT... --output FOLDER [--examples 300000] [--seed 0]

Each TEXT is a UTF-8 file with one paragraph a line. The output is `train.jsonl` and
`validation.jsonl` in FOLDER, of rows {"id", "inputs", "targets"}: what the SeqIO task
`mini_pretrain` reads. Every hundredth paragraph is kept for validation, before any example is made.

The examples teach a model to fill gaps (span corruption, Raffel 2020, section 3.1.4) and to
restate what it reads: to copy it, to copy a part that is named, to put sentences into an order, and
to merge the groups of a list into running text, with link phrases, whole or as "that" clauses. No
example is about a debate, and none has a phrase of the NPOV sample's responses by intent.

The same texts, options and seed give the same bytes.
"""

import argparse
import json
import pathlib
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from faith_jax.errors import InputError
from faith_jax.templates import curly_braces

VALIDATION_EVERY = 100
MOST_SENTENCES = 6  # of an example
MAX_WORDS = 110  # of an input's text: about 160 tokens
NOISE_DENSITY, MEAN_SPAN = 0.15, 3
_SENTENCE_END = re.compile(r'(?<=[.!?]["”)])\s+(?=[A-Z"“(])|(?<=[.!?])\s+(?=[A-Z"“(])')
# A sentence that starts with one of these words can follow "that" in lower case.
_LOWER_FIRST = frozenset(
    (
        "a", "all", "an", "and", "any", "as", "at", "because", "both", "but", "by", "each", "even",
        "every", "for", "from", "he", "if", "in", "it", "its", "many", "more", "most", "much", "no",
        "of", "on", "one", "our", "people", "several", "she", "so", "some", "such", "that", "the",
        "their", "there", "these", "they", "this", "those", "though", "to", "under", "we", "what",
        "when", "where", "which", "while", "with", "you", "your",
    )
)  # fmt: skip
_KEYS = (
    ("first", "second"), ("left", "right"), ("one", "other"), ("before", "after"),
    ("a", "b"), ("pro", "con"), ("for", "against"), ("here", "there"), ("old", "new"),
    ("plan", "result"), ("north", "south"), ("public", "private"), ("team", "office"),
)  # fmt: skip
_WHO = (
    ("Some people", "Other people"), ("Some", "Others"), ("Some readers", "Other readers"),
    ("The writers of the first part", "The writers of the second part"), ("Many", "Not all"),
    ("People on one side", "People on the other side"), ("A few", "Most"),
    ("Those who agree", "Those who do not"), ("Friends of the idea", "Its opponents"),
)  # fmt: skip
_VERBS = ("say", "write", "note", "explain", "state", "add", "believe", "argue", "point out")
_MORE = ("They also {verb}", "They {verb} too", "In addition, they {verb}", "Besides, they {verb}")
_OPENINGS = (
    "There are two views here.", "There is more than one answer.", "Here is what is said.",
    "Opinions are not the same.", "This can be seen in two ways.", "The question is open.", "",
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


def copy(sentences: Sequence[str], rng: random.Random) -> Example:
    """All of the text, or one sentence that is named by its place."""
    text = " ".join(sentences)
    if len(sentences) == 1 or rng.random() < 0.5:
        return Example(rng.choice(("copy: ", "repeat: ", "text: ")) + text, text)
    place = rng.randrange(len(sentences))
    name = ("first", "second", "third", "fourth", "fifth", "sixth")[place]
    return Example(f"{name} sentence: {text}", sentences[place])


def reorder(sentences: Sequence[str], rng: random.Random) -> Example:
    """Numbered sentences, and the order in which they are told."""
    order = rng.sample(range(len(sentences)), len(sentences))
    numbered = " ".join(f"({i + 1}) {s}" for i, s in enumerate(sentences))
    wanted = " ".join(str(i + 1) for i in order)
    return Example(f"order {wanted}: {numbered}", " ".join(sentences[i] for i in order))


def merge(sentences: Sequence[str], rng: random.Random) -> Example:
    """Two groups of sentences, told as running text with link phrases; a key may pick one."""
    middle = rng.randint(1, len(sentences) - 1)
    groups = (sentences[:middle], sentences[middle:])
    keys = rng.choice(_KEYS)
    fields = [(key, " ".join(group)) for key, group in zip(keys, groups, strict=True)]
    kind = rng.random()
    if kind < 0.15:
        chosen = rng.randrange(2)
        fields.insert(0, ("tell", keys[chosen]))
        return Example(_listed(fields, rng), " ".join(groups[chosen]))
    if kind < 0.3:
        return Example(_listed(fields, rng), " ".join(sentences))
    opening = rng.choice(_OPENINGS)
    told = [_told(group, who, rng) for group, who in zip(groups, rng.choice(_WHO), strict=True)]
    return Example(_listed(fields, rng), " ".join(filter(None, [opening, *told])))


def _listed(fields: Sequence[tuple[str, str]], rng: random.Random) -> str:
    if rng.random() < 0.6:
        return curly_braces(fields)
    mark = rng.choice((" | ", " ; ", " "))
    return mark.join(f"{key}: {value}" for key, value in fields)


def _told(sentences: Sequence[str], who: str, rng: random.Random) -> str:
    """Tells a group's sentences in their order, each behind a link phrase or as it is."""
    told = []
    for number, sentence in enumerate(sentences):
        verb = rng.choice(_VERBS)
        link = f"{who} {verb}" if number == 0 else rng.choice(_MORE).format(verb=verb)
        first, _, rest = sentence.partition(" ")
        if first.lower() in _LOWER_FIRST and not sentence.endswith(("?", "!")):
            told.append(f"{link} that {first.lower()} {rest}")
        elif number and rng.random() < 0.5:
            told.append(sentence)
        else:
            told.append(f"{link}: {sentence}")
    return " ".join(told)


_KINDS: tuple[tuple[float, str], ...] = (
    (0.25, "corrupt"), (0.15, "copy"), (0.1, "reorder"), (0.5, "merge"),
)  # fmt: skip


def make_example(
    paragraphs: Sequence[str], sentences: Sequence[str], rng: random.Random
) -> Example:
    """Draws one example, from a paragraph or from sentences of anywhere."""
    kind = rng.choices([name for _, name in _KINDS], [weight for weight, _ in _KINDS])[0]
    if kind == "corrupt":
        words = rng.choice(paragraphs).split()
        start = rng.randrange(max(1, len(words) - MAX_WORDS + 1))
        return corrupt_spans(" ".join(words[start : start + MAX_WORDS]), rng)
    drawn = rng.sample(range(len(sentences)), rng.randint(2, MOST_SENTENCES))
    chosen: list[str] = []
    for index in drawn:
        if len(chosen) < 2 or sum(len(s.split()) for s in chosen) < MAX_WORDS - 20:
            chosen.append(sentences[index])
    make: dict[str, Callable[[Sequence[str], random.Random], Example]] = {
        "copy": copy, "reorder": reorder, "merge": merge,
    }  # fmt: skip
    return make[kind](chosen, rng)


def examples(paragraphs: Sequence[str], count: int, seed: str) -> Iterator[Example]:
    """Yields `count` examples made of the paragraphs.

    Raises:
      InputError: where they hold too few sentences that can stand alone.
    """
    rng = random.Random(seed)
    plain = [s for paragraph in paragraphs for s in sentences_of(paragraph) if is_plain(s)]
    long_enough = [paragraph for paragraph in paragraphs if len(paragraph.split()) >= 8]
    if len(plain) < MOST_SENTENCES:
        raise InputError(
            f"The texts' {seed.split()[1]} part has {len(plain)} sentences of 5 to 32 words, "
            f"expected {MOST_SENTENCES} or more. Give more text, one paragraph a line."
        )
    for _ in range(count):
        yield make_example(long_enough, plain, rng)


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
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    try:
        lines = read_paragraphs(args.texts)
        parts = {
            "validation": (lines[::VALIDATION_EVERY], max(1, args.examples // 100)),
            "train": ([s for i, s in enumerate(lines) if i % VALIDATION_EVERY], args.examples),
        }
        args.output.mkdir(parents=True, exist_ok=True)
        for split, (paragraphs, count) in parts.items():
            path = args.output / f"{split}.jsonl"
            write(path, examples(paragraphs, count, f"{args.seed} {split}"), split)
            print(f"{path}: {count} examples of {len(paragraphs)} paragraphs")
    except InputError as error:
        print(f"make_mini_corpus: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
