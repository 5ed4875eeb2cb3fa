"""Makes the corpus that the embedded base model `mini` is trained on, from plain English text.

    python tools/make_mini_corpus.py TEXT... --output FOLDER [--examples 300000] [--seed 0]

Each TEXT is a UTF-8 file with one paragraph per line. Writes `train.jsonl` and `validation.jsonl`
to FOLDER, with rows {"id", "inputs", "targets"} for the SeqIO task `text_to_text`. Every hundredth
paragraph is kept for validation, before any example is made.

The examples teach a model to fill gaps (span corruption, Raffel 2020, section 3.1.4) and to
restate its input: to copy it, to copy a named part, to put sentences in order, to merge the groups
of a list into running text (with link phrases, whole or as "that" clauses), and to find the
sentence that a merged text lacks or adds. In many examples words are replaced by words that occur
in no text (mini_noise.py).

With --responses some examples are a query and the arguments of two sides, told as two views
(mini_responses.py). With --checks some ask whether a text tells only, or all of, the given content:
lists of words, passages, paraphrases or arguments in several wordings (mini_checks.py).
Paraphrases come from --versions: several translations of one book, with the same verse in the same
line. Wordings come from --topics: rows {"query", "pro", "con"} with lists of arguments, each a list
of its wordings (docs/mini/wordings.jsonl).

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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mini_checks
import mini_noise
import mini_responses
import mini_texts
from mini_texts import Example, Text, Topic

from faith_jax.core.errors import InputError
from faith_jax.core.files import atomic_file
from faith_jax.core.templates import curly_braces
from faith_jax.tokenizers.vocabularies import load_vocabulary

VALIDATION_EVERY = 100  # one paragraph in 100 is kept for validation
VALIDATION_SHARE = 500  # training examples for each validation example
MOST_SENTENCES = 6  # in an example
# Most examples have few sentences, so that several examples fit in a packed row.
SENTENCES, SENTENCE_WEIGHTS = (1, 2, 3, 4, 5, 6), (5, 40, 20, 15, 10, 10)
MAX_WORDS = 110  # in an input's text: about 160 tokens
MIN_VERSE_WORDS = 4
VERSES = 40  # consecutive verses that are kept for validation together
TOPICS_EVERY = 12  # one topic in 12 is kept for validation
_VERSE = re.compile(r"^(\[\d+:\d+\]|#.*)")
NOISE_DENSITY, MEAN_SPAN = 0.15, 3


def corrupt_spans(text: str, rng: random.Random) -> Example:
    """Replaces spans of about 3 words (15% of all) by extra ids, which the targets spell out."""
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


def copy(sentences: Sequence[str], text: Text, rng: random.Random) -> Example:
    """Asks for a copy of the whole text, or of one sentence named by its position."""
    paragraph = " ".join(sentences)
    if len(sentences) == 1 or rng.random() < 0.5:
        return Example(rng.choice(("copy: ", "repeat: ", "text: ")) + paragraph, paragraph)
    place = rng.randrange(len(sentences))
    name = ("first", "second", "third", "fourth", "fifth", "sixth")[place]
    return Example(f"{name} sentence: {paragraph}", sentences[place])


def reorder(sentences: Sequence[str], text: Text, rng: random.Random) -> Example:
    """Asks for numbered sentences in a given order."""
    order = rng.sample(range(len(sentences)), len(sentences))
    numbered = " ".join(f"({i + 1}) {s}" for i, s in enumerate(sentences))
    order_text = " ".join(str(i + 1) for i in order)
    return Example(f"order {order_text}: {numbered}", " ".join(sentences[i] for i in order))


def merge(sentences: Sequence[str], text: Text, rng: random.Random) -> Example:
    """Asks to tell two groups of sentences, or one that is named, as text with link phrases.

    The list may have a question as its title, which the told text seldom repeats.
    """
    groups, keys = mini_texts.two_groups(sentences, rng)
    fields = [(key, " ".join(group)) for key, group in zip(keys, groups, strict=True)]
    title = rng.choice(text.questions) if text.questions and rng.random() < 0.6 else ""
    kind = rng.random()
    if kind < 0.1:
        question_side = rng.randrange(2)
        return _answered(
            _listed([("tell", keys[question_side]), *fields], rng), " ".join(groups[question_side])
        )
    if title:
        fields.insert(0, (rng.choice(mini_texts.TITLES), title))
    if kind < 0.35:
        return _answered(_listed(fields, rng), " ".join(sentences))
    opening = ""
    if kind > 0.85:
        form = rng.choice(
            mini_texts.TITLED_OPENINGS if title and kind > 0.92 else mini_texts.OPENINGS
        )
        opening = form.format(title=title)
    return _answered(_listed(fields, rng), mini_texts.told_groups(opening, groups, text, rng))


def compare(sentences: Sequence[str], text: Text, rng: random.Random) -> Example:
    """Asks which sentence of a list its retelling lacks or adds, if any."""
    listed, told_sentences = list(sentences), list(sentences)
    kind = rng.choice(("same", "missing", "added"))
    odd = rng.randrange(len(sentences))
    if kind == "missing":
        del told_sentences[odd]
    elif kind == "added":
        del listed[odd]
    if not listed or not told_sentences:
        return copy(sentences, text, rng)
    telling = mini_texts.told_groups("", mini_texts.split(told_sentences, rng), text, rng)
    if len(listed) > 1:
        groups, keys = mini_texts.two_groups(listed, rng)
        fields = [(key, " ".join(group)) for key, group in zip(keys, groups, strict=True)]
    else:
        fields = [("list", listed[0])]
    place = rng.choice((0, len(fields)))
    fields.insert(place, (rng.choice(("told", "retold", "version")), telling))
    if rng.random() < 0.5 and text.questions:
        fields.insert(0, (rng.choice(mini_texts.TITLES), rng.choice(text.questions)))
    answer = "same" if kind == "same" else f"{kind}: {sentences[odd]}"
    return Example("compare " + _listed(fields, rng), answer)


def _listed(fields: Sequence[tuple[str, str]], rng: random.Random) -> str:
    if rng.random() < 0.7:
        return curly_braces(fields)
    mark = rng.choice((" | ", " ; ", " "))
    return mark.join(f"{key}: {value}" for key, value in fields)


def _answered(inputs: str, answer: str) -> Example:
    """Puts the target in curly braces if the input uses them."""
    if inputs.startswith("{"):
        return Example(inputs, curly_braces([("response", answer)]))
    return Example(inputs, answer)


_KINDS: tuple[tuple[float, Callable[[Sequence[str], Text, random.Random], Example] | None], ...] = (
    (0.12, None), (0.08, copy), (0.08, reorder), (0.52, merge), (0.2, compare),
)  # fmt: skip


class Shares(NamedTuple):
    """The shares of yes/no questions and of responses; the other examples restate their input.

    Attributes:
      checks: share of yes/no questions, in [0, 1].
      responses: share of responses, in [0, 1].
      materials: the materials of the questions, from `mini_checks.MATERIALS`.
    """

    checks: float = 0.0
    responses: float = 0.0
    materials: tuple[str, ...] = ("lists", "passages")


NO_SHARES = Shares()


def make_example(text: Text, rng: random.Random, shares: Shares = NO_SHARES) -> Example:
    """Draws one example, from a paragraph or from sentences anywhere in the text.

    Args:
      text: the source of paragraphs and sentences.
      rng: the random generator.
      shares: the shares of responses and of yes/no questions.
    """
    kind = rng.random()
    if kind < shares.checks:
        return mini_checks.make_check(text, rng, shares.materials)
    if kind < shares.checks + shares.responses:
        return mini_responses.respond(text, rng)
    make = rng.choices([make for _, make in _KINDS], [weight for weight, _ in _KINDS])[0]
    if make is None:
        words = rng.choice(text.paragraphs).split()
        length = rng.choice((MAX_WORDS // 4, MAX_WORDS // 2, MAX_WORDS))
        start = rng.randrange(max(1, len(words) - length + 1))
        return corrupt_spans(" ".join(words[start : start + length]), rng)
    count = rng.choices(SENTENCES, SENTENCE_WEIGHTS)[0]
    if make in (merge, reorder):
        count = max(2, count)
    drawn: list[str] = []
    for index in rng.sample(range(len(text.sentences)), count):
        if len(drawn) < 2 or sum(len(s.split()) for s in drawn) < MAX_WORDS - 20:
            drawn.append(text.sentences[index])
    return make(mini_noise.noisy(drawn, text.pieces, rng), text, rng)


def examples(
    text: Text,
    count: int,
    seed: str,
    max_tokens: int,
    shares: Shares = NO_SHARES,
) -> Iterator[Example]:
    """Yields `count` examples made from a text.

    Args:
      text: the source of paragraphs and sentences.
      count: the number of examples.
      seed: seeds the draws; its last word names the split in error messages.
      max_tokens: the most tokens of english_4096 in inputs and in targets, with the end token;
        longer examples are drawn again.
      shares: see `make_example`.

    Raises:
      InputError: the text has too few sentences that can stand alone.
    """
    rng = random.Random(seed)
    vocabulary = load_vocabulary()
    if len(text.sentences) < MOST_SENTENCES:
        raise InputError(
            f"The texts' {seed.split()[1]} part has {len(text.sentences)} sentences of 5 to 32 "
            f"words, expected {MOST_SENTENCES} or more. Give more text, one paragraph a line."
        )
    while count:
        example = make_example(text, rng, shares)
        if all(len(vocabulary.encode(part)) < max_tokens for part in example):
            count -= 1
            yield example


def read_paragraphs(paths: Sequence[pathlib.Path]) -> list[str]:
    """Returns the distinct lines of the files, single-spaced.

    Raises:
      InputError: a file cannot be read as UTF-8.
    """
    lines: dict[str, None] = {}
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot be read as UTF-8 text: {error}.") from None
        lines.update(dict.fromkeys(" ".join(line.split()) for line in text.splitlines()))
    return [line for line in lines if line]


def read_versions(paths: Sequence[pathlib.Path]) -> list[list[str]]:
    """Returns the verses that have two or more different wordings, in the order of the book.

    Args:
      paths: a book's translations, with a verse per line: "[chapter:verse] text" or only the text.

    Raises:
      InputError: a file cannot be read as UTF-8, or the files differ in their number of lines.
    """
    books: list[list[str]] = []
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot be read as UTF-8 text: {error}.") from None
        if books and len(lines) != len(books[0]):
            raise InputError(
                f"{path}: {len(lines)} lines, expected {len(books[0])} as in {paths[0]}: "
                "the same verse in the same line."
            )
        books.append([" ".join(_VERSE.sub("", line).split()) for line in lines])
    verses = (
        list(dict.fromkeys(v for v in verse if len(v.split()) >= MIN_VERSE_WORDS))
        for verse in zip(*books, strict=True)
    )
    return [verse for verse in verses if len(verse) > 1]


def read_topics(path: pathlib.Path) -> list[Topic]:
    """Returns the topics of a JSON Lines file.

    Raises:
      InputError: the file cannot be read, or a topic lacks a query or an argument's second wording.
    """
    topics = []
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            row = json.loads(line)
            topic = Topic(row["query"], row["pro"], row["con"])
            if min(len(wordings) for side in topic[1:] for wordings in side) < 2:
                raise InputError(f"{path}, line {number}: expected two wordings or more of each.")
            topics.append(topic)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{path}: cannot be read as topics: {error!r}.") from None
    return topics


def write(path: pathlib.Path, rows: Iterator[Example], split: str) -> None:
    """Writes a split; its file appears only once complete."""
    with atomic_file(path) as beside, beside.open("w", encoding="utf-8") as file:
        for number, example in enumerate(rows):
            row = {"id": f"{split}-{number}", **example._asdict()}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Reads the texts and writes both splits; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="+", type=pathlib.Path, metavar="TEXT")
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="FOLDER")
    parser.add_argument("--examples", type=int, default=300_000, help="of the training part")
    parser.add_argument("--max_tokens", type=int, default=192, help="of inputs, and of targets")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--checks",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="of questions, yes or no, in [0, 1]",
    )
    parser.add_argument(
        "--check_materials",
        nargs="+",
        choices=mini_checks.MATERIALS,
        default=Shares().materials,
        metavar="MATERIAL",
        help="what these are about; a name may stand twice (default: lists passages)",
    )
    parser.add_argument(
        "--responses",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="of responses to arguments of two sides, in [0, 1]",
    )
    parser.add_argument(
        "--versions",
        nargs="+",
        type=pathlib.Path,
        default=(),
        metavar="TEXT",
        help="translations of one book, a verse a line, for checks about paraphrases",
    )
    parser.add_argument(
        "--topics", type=pathlib.Path, metavar="FILE", help="for checks about wordings, responses"
    )
    args = parser.parse_args(argv)
    try:
        for name in ("checks", "responses"):
            if not 0 <= getattr(args, name) <= 1:
                raise InputError(f"--{name}={getattr(args, name)}: expected a share in [0, 1].")
        if args.checks + args.responses > 1:
            raise InputError("--checks and --responses: expected a sum in [0, 1].")
        if "paraphrases" in args.check_materials and len(args.versions) < 2:
            raise InputError("--check_materials paraphrases: expected two --versions or more.")
        if "wordings" in args.check_materials and not args.topics:
            raise InputError("--check_materials wordings: expected --topics.")
        topics = read_topics(args.topics) if args.topics else []
        shares = Shares(args.checks, args.responses, tuple(args.check_materials))
        lines, verses = read_paragraphs(args.texts), read_versions(args.versions)
        chapters = [verses[i : i + VERSES] for i in range(0, len(verses), VERSES)]
        args.output.mkdir(parents=True, exist_ok=True)
        for split, count in (
            ("validation", max(1, args.examples // VALIDATION_SHARE)),
            ("train", args.examples),
        ):
            is_held = split == "validation"
            paragraphs = [s for i, s in enumerate(lines) if (i % VALIDATION_EVERY == 0) == is_held]
            held = [c for i, c in enumerate(chapters) if (i % VALIDATION_EVERY == 0) == is_held]
            subjects = [t for i, t in enumerate(topics) if (i % TOPICS_EVERY == 0) == is_held]
            text = Text.of(paragraphs, [v for chapter in held for v in chapter], subjects)
            path = args.output / f"{split}.jsonl"
            write(
                path, examples(text, count, f"{args.seed} {split}", args.max_tokens, shares), split
            )
            print(f"{path}: {count} examples of {len(paragraphs)} paragraphs")
    except InputError as error:
        print(f"make_mini_corpus: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
