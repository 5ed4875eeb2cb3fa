"""Makes the pairs of sentences that `mini_nli` is trained on: entailment, neutral, contradiction.

    python tools/make_mini_pairs.py docs/mini/wordings.jsonl --output FOLDER/text_to_text \
        [--versions bible/*.txt] [--wordnet dict] [--pairs 200000]

Sentences are arguments in several wordings (docs/mini/wordings.jsonl), and verses of one book in
several translations. One of the two sentences of a pair may follow a link phrase ("Supporters say
that"), as in responses.

- entailment: the same words, another wording, words of the same meaning, or a part of the premise;
- neutral: another argument of the topic, a verse nearby, more than the premise says, or words that
  are not in the premise;
- contradiction: a negation, an antonym, or another number.

One topic in 12 and one stretch of 40 verses in 100 are kept for validation. The same files, options
and seed give the same bytes.
"""

import argparse
import functools
import itertools
import pathlib
import random
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import make_mini_corpus
import mini_claims
import mini_noise
import mini_responses
import mini_synonyms
import mini_texts
import numpy as np
from make_mini_corpus import TOPICS_EVERY, VALIDATION_EVERY, VERSES
from mini_claims import Claims
from mini_texts import Example, Text

from faith_jax.core.errors import InputError
from faith_jax.core.labels import NliLabel
from faith_jax.core.templates import nli_inputs
from faith_jax.papers.dialfact.antonyms import load_antonyms
from faith_jax.papers.dialfact.negation_rules import negations

Synonyms = Mapping[str, Sequence[str]]
# Kinds of pairs, with their label and how often each is drawn (relative weights).
KINDS = {
    "same": (NliLabel.ENTAILMENT, 20),
    "reworded": (NliLabel.ENTAILMENT, 30),
    "part": (NliLabel.ENTAILMENT, 4),
    "other": (NliLabel.NEUTRAL, 30),
    "more": (NliLabel.NEUTRAL, 5),
    "foreign": (NliLabel.NEUTRAL, 8),
    "opposite": (NliLabel.CONTRADICTION, 11),
}
CLAIM_SHARE = 0.3  # share of pairs made from claims, if there are any
# How often words in a kind's hypothesis are replaced by words of similar meaning.
SYNONYM_SHARES = {"same": 0.75, "part": 0.5, "reworded": 0.3, "other": 0.3}
_NUMBER = re.compile(r"\d+")
_PARTS = re.compile(r"(\W*)(.*?)(\W*)")
_WORD = re.compile(r"[A-Za-z]{4,}")
_NOT = re.compile(
    r"\b(can|will|should|must|is|are|was|were|has|have|does|do|would|could)\b(?! not)"
)
_TAKEN_AWAY = re.compile(r"\b(?:not|never) |\bno longer ")


class Sentences(NamedTuple):
    """The material that pairs are made from.

    Attributes:
      groups: groups of sentences about one subject, each sentence in one or more wordings.
      text: the source of link phrases and noise.
      synonyms: the synonyms of lower-case words.
      claims: claims about sentences of an encyclopedia; may be empty.
    """

    groups: Sequence[Sequence[Sequence[str]]]
    text: Text
    synonyms: Synonyms
    claims: Sequence[Claims]


def pairs(sentences: Sentences, count: int, seed: str) -> Iterator[Example]:
    """Yields pairs as inputs and targets of a model."""
    rng = random.Random(seed)
    names, shares = list(KINDS), [share for _, share in KINDS.values()]
    pair_count = 0
    while pair_count < count:
        if sentences.claims and rng.random() < CLAIM_SHARE:
            *pair_texts, label = mini_claims.pair(
                sentences.claims, functools.partial(opposite, rng=rng), rng
            )
            pair_count += 1
            yield Example(nli_inputs(*pair_texts), label.value)
            continue
        kind = rng.choices(names, shares)[0]
        pair = _pair(kind, sentences, rng)
        if pair is not None:
            pair_count += 1
            yield Example(nli_inputs(*pair), KINDS[kind][0].value)


def _pair(kind: str, sentences: Sentences, rng: random.Random) -> tuple[str, str] | None:
    """Returns premise and hypothesis, or None if the drawn sentences allow no pair of this kind."""
    group = rng.choice(sentences.groups)
    first, second = rng.sample(range(len(group)), 2)
    wordings = list(group[first])
    rng.shuffle(wordings)
    premise, second_wording = wordings[0], rng.choice(group[second])
    text = sentences.text
    if rng.random() < 0.3 and kind not in ("reworded", "opposite"):
        premise = mini_noise.noisy([premise], text.pieces, rng)[0]
    hypothesis: str | None = premise
    if kind == "reworded":
        if len(wordings) < 2:
            return None
        hypothesis = wordings[1]
        if rng.random() < 0.15:
            premise = (
                f"{premise} {second_wording}"
                if rng.random() < 0.5
                else f"{second_wording} {premise}"
            )
    elif kind == "part":
        if rng.random() < 0.5:
            premise = (
                f"{premise} {second_wording}"
                if rng.random() < 0.5
                else f"{second_wording} {premise}"
            )
        else:
            hypothesis = _beginning(premise, rng)
    elif kind == "other":
        hypothesis = second_wording
        if len(group) > 2 and rng.random() < 0.2:
            third = rng.choice([i for i in range(len(group)) if i not in (first, second)])
            premise = f"{premise} {rng.choice(group[third])}"
    elif kind == "more":
        if rng.random() < 0.5:
            premise = _beginning(premise, rng) or ""
        else:
            wording = rng.choice(wordings)
            hypothesis = (
                f"{wording} {second_wording}"
                if rng.random() < 0.5
                else f"{second_wording} {wording}"
            )
    elif kind == "foreign":
        hypothesis = _with_foreign_words(premise, sentences, rng)
    elif kind == "opposite":
        hypothesis = opposite(rng.choice([premise, *wordings]), rng)
    if hypothesis and rng.random() < SYNONYM_SHARES.get(kind, 0):
        hypothesis = with_synonyms(hypothesis, sentences.synonyms, rng)
    if not premise or hypothesis is None or (kind != "same" and hypothesis == premise):
        return None
    if rng.random() < 0.55:
        linked = mini_texts.linked(mini_responses.link(rng), hypothesis, text)
        # A response's sentence is a hypothesis when scoring hallucination, a premise for coverage.
        if rng.random() < 0.6 or kind in ("opposite", "foreign", "more", "part"):
            hypothesis = linked
        else:
            return linked, premise
    return premise, hypothesis


def _beginning(sentence: str, rng: random.Random) -> str | None:
    words = sentence.split()
    if len(words) < 6:
        return None
    first_words = words[: rng.randint(len(words) // 2, len(words) - 2)]
    return " ".join(first_words).rstrip(",;:") + "."


def _with_foreign_words(sentence: str, sentences: Sentences, rng: random.Random) -> str:
    """Replaces one to three words by words from other sentences or rare words."""
    words = sentence.split()
    for _ in range(rng.choice((1, 1, 2, 3))):
        place = rng.randrange(len(words))
        source = rng.choice(rng.choice(rng.choice(sentences.groups))).split()
        long = [w for w in source if _WORD.search(w)] or source
        word = rng.choice(long).strip(".,;:!?")
        if rng.random() < 0.4:
            word = mini_noise.rare_word(words[place], sentences.text.pieces, rng)
        start, core, end = _PARTS.fullmatch(words[place]).groups()
        words[place] = f"{start}{word}{end}" if word != core else words[place]
    return " ".join(words)


def opposite(sentence: str, rng: random.Random) -> str | None:
    """Negates a sentence, or inserts an antonym or another number; None = none of these works."""
    ways = [_negated, _with_antonym, _with_other_number]
    rng.shuffle(ways)
    for way in ways:
        negated = way(sentence, rng)
        if negated is not None and negated != sentence:
            return negated
    return None


_antonyms = load_antonyms("list")


def _negated(sentence: str, rng: random.Random) -> str | None:
    if _TAKEN_AWAY.search(sentence):
        return _TAKEN_AWAY.sub("", sentence, count=1)
    by_rule = [negation for _, negation in negations(sentence)]
    if by_rule and rng.random() < 0.3:
        return rng.choice(by_rule)
    match = _NOT.search(sentence)
    if match is None:
        return None
    word = rng.choice((" not", " not", " never", " no longer"))
    return sentence[: match.end()] + word + sentence[match.end() :]


def _with_antonym(sentence: str, rng: random.Random) -> str | None:
    places = [m for m in _WORD.finditer(sentence) if _antonyms(m.group())]
    if not places:
        return None
    match = rng.choice(places)
    return (
        sentence[: match.start()] + rng.choice(_antonyms(match.group())) + sentence[match.end() :]
    )


def _with_other_number(sentence: str, rng: random.Random) -> str | None:
    places = list(_NUMBER.finditer(sentence))
    if not places:
        return None
    match = rng.choice(places)
    number = int(match.group())
    new_number = max(0, number + rng.choice((-2, -1, 1, 2, 10, -number // 2, number)))
    return sentence[: match.start()] + str(new_number) + sentence[match.end() :]


# Words that are seldom used in the most frequent sense of the noun; their synonyms would mislead.
_COMMON = frozenset(
    """will done does have being less more most well must like just even only very work make made
    take need want come give""".split()  # noqa: SIM905
)


def with_synonyms(sentence: str, synonyms: Synonyms, rng: random.Random) -> str:
    """Replaces some, most or all of the words that have synonyms."""
    share = rng.choice((0.3, 0.6, 1.0))

    def other(match: re.Match[str]) -> str:
        alternatives = synonyms.get(match.group()) if match.group() not in _COMMON else None
        return rng.choice(alternatives) if alternatives and rng.random() < share else match.group()

    return _WORD.sub(other, sentence)


def read_vectors(path: pathlib.Path) -> tuple[list[str], np.ndarray]:
    """Reads the vectors of the 40,000 most frequent words."""
    with path.open(encoding="utf-8") as file:
        rows = [line.rstrip().split(" ") for line in itertools.islice(file, 40_000)]
    return [row[0] for row in rows], np.array([row[1:] for row in rows], np.float32)


def main(argv: Sequence[str] | None = None) -> int:
    """Writes both splits; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("topics", type=pathlib.Path, metavar="TOPICS")
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="FOLDER")
    parser.add_argument("--pairs", type=int, default=200_000, help="of the training part")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--versions", nargs="+", type=pathlib.Path, default=(), metavar="TEXT",
        help="translations of one book, a verse a line",
    )  # fmt: skip
    parser.add_argument("--wordnet", type=pathlib.Path, metavar="FOLDER", help="WordNet's dict")
    parser.add_argument(
        "--vectors", type=pathlib.Path, metavar="FILE",
        help="word vectors in GloVe's text form, the most frequent word first, with --wordnet",
    )  # fmt: skip
    parser.add_argument(
        "--claims", type=pathlib.Path, metavar="FILE", help="such as docs/mini/claims.jsonl"
    )
    args = parser.parse_args(argv)
    try:
        claims = mini_claims.read_claims(args.claims) if args.claims else []
        titles = list(dict.fromkeys(claim.title for claim in claims))
        topics = make_mini_corpus.read_topics(args.topics)
        verses = make_mini_corpus.read_versions(args.versions)
        synonyms: Synonyms = {}
        if args.wordnet and args.vectors:
            synonyms = mini_synonyms.similar_words(*read_vectors(args.vectors), args.wordnet)
        chapters = [verses[i : i + VERSES] for i in range(0, len(verses), VERSES)]
        args.output.mkdir(parents=True, exist_ok=True)
        for split, count in (("validation", max(1, args.pairs // 100)), ("train", args.pairs)):
            is_held = split == "validation"
            subjects = [t for i, t in enumerate(topics) if (i % TOPICS_EVERY == 0) == is_held]
            held = [c for i, c in enumerate(chapters) if (i % VALIDATION_EVERY == 0) == is_held]
            arguments: list[Sequence[Sequence[str]]] = [[*t.pro, *t.con] for t in subjects]
            sides = [side for t in subjects for side in (t.pro, t.con)]
            near = [c[i : i + 4] for c in held for i in range(0, len(c) - 3, 4)]
            near = [[[v for v in verse if len(v.split()) < 40] for verse in g] for g in near]
            near = [g for g in near if all(g)]
            everything = [w for group in arguments for argument in group for w in argument]
            text = Text(
                everything, everything, [], mini_texts.lower_case_words(everything),
                pieces=mini_texts.vocabulary_pieces(everything),
            )  # fmt: skip
            # Repeats arguments so that they make up seven of ten draws.
            times = max(1, round(0.7 / 0.3 * len(near) / (2 * len(sides)))) if near else 1
            groups = [*(arguments + sides + sides) * times, *near, *near]
            path = args.output / f"{split}.jsonl"
            of_part = {t for i, t in enumerate(titles) if (i % TOPICS_EVERY == 0) == is_held}
            part_claims = [claim for claim in claims if claim.title in of_part]
            rows = pairs(
                Sentences(groups, text, synonyms, part_claims), count, f"{args.seed} {split}"
            )
            make_mini_corpus.write(path, rows, split)
            print(f"{path}: {count} pairs of {len(subjects)} topics and {len(near)} stretches")
    except InputError as error:
        print(f"make_mini_pairs: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
