"""Makes the data that `mini`'s error classifiers are trained on, of arguments in several wordings.

    python tools/make_mini_errors.py docs/mini/wordings.jsonl --output FOLDER [--rows 24000]

FOLDER is a raw folder of the data set npov_detection: train_dev.jsonl and validation.jsonl. Each
row is a query, arguments of two sides and a response that tells arguments as two views. In half of
the rows the response tells an argument that is not given (a hallucination), and in half a given
argument is missing from it (a coverage error), independently. In three quarters of the rows the
response words the arguments otherwise than they are given.

One topic of 12 is kept for validation. The same file, options and seed give the same bytes.
"""

import argparse
import pathlib
import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import make_mini_corpus
import mini_noise
import mini_responses
import mini_texts
from judge_mini import write
from mini_texts import Text, Topic

from faith_jax.core.errors import InputError

SIZES, SIZE_WEIGHTS = (1, 2, 3, 4), (30, 30, 30, 10)  # arguments a side
REWORDED = 0.75  # of the rows


def rows(topics: Sequence[Topic], count: int, seed: str) -> Iterator[dict[str, Any]]:
    """Yields rows in the form of npov_detection."""
    rng = random.Random(seed)
    sentences = [w for t in topics for side in (t.pro, t.con) for a in side for w in a]
    text = Text(
        sentences, sentences, [], mini_texts.lower_case_words(sentences),
        pieces=mini_texts.vocabulary_pieces(sentences),
    )  # fmt: skip
    for number in range(count):
        yield {"id": f"{seed.split()[-1]}-{number}", **_row(rng.choice(topics), text, rng)}


def _row(topic: Topic, text: Text, rng: random.Random) -> dict[str, Any]:
    size = rng.choices(SIZES, SIZE_WEIGHTS)[0]
    sizes = [size, size] if rng.random() < 0.7 else rng.choices(SIZES, SIZE_WEIGHTS, k=2)
    reworded = rng.random() < REWORDED
    given: list[list[str]] = []
    told: list[list[str]] = []
    for side, wanted in zip((topic.pro, topic.con), sizes, strict=True):
        drawn = rng.sample(list(side), min(wanted, len(side)))
        pairs = [rng.sample(list(wordings), 2) for wordings in drawn]
        first = [pair[0] for pair in pairs]
        second = [pair[1] for pair in pairs] if reworded else first
        given.append(list(first))
        told.append(list(second))
    if not reworded:
        noisy = mini_noise.noisy([*given[0], *given[1]], text.pieces, rng)
        given = [noisy[: len(given[0])], noisy[len(given[0]) :]]
        told = [list(side) for side in given]
    places = [(side, i) for side in (0, 1) for i in range(len(given[side]))]
    added, missing = rng.sample(places, 2)
    removed = omitted = ""
    hallucination, coverage = rng.random() < 0.5, rng.random() < 0.5
    # From the end, so that the first removal moves nothing that the second one names.
    if hallucination:
        removed = given[added[0]][added[1]]
    if coverage:
        omitted = given[missing[0]][missing[1]]
    given = _without(given, added if hallucination else None)
    told = _without(told, missing if coverage else None)
    return {
        "topic": topic.query,
        "query": topic.query,
        "pro_arguments": given[0],
        "con_arguments": given[1],
        "response": mini_responses.told(told, text, rng),
        "has_hallucination": int(hallucination),
        "has_coverage_error": int(coverage),
        "error": {(0, 0): "none", (1, 0): "hallucination", (0, 1): "coverage", (1, 1): "both"}[
            int(hallucination), int(coverage)
        ],
        "removed_argument": removed,
        "added_argument": omitted,
        "paraphrased": int(reworded),
        "hallucinated_spans": [],
    }


def _without(sides: Sequence[Sequence[str]], place: tuple[int, int] | None) -> list[list[str]]:
    return [
        [text for i, text in enumerate(texts) if (side, i) != place]
        for side, texts in enumerate(sides)
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Reads the topics and writes both parts; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("topics", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="FOLDER")
    parser.add_argument("--rows", type=int, default=24_000, help="of the training part")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    try:
        topics = make_mini_corpus.read_topics(args.topics)
        args.output.mkdir(parents=True, exist_ok=True)
        for name, count in (("validation", max(1, args.rows // 60)), ("train_dev", args.rows)):
            kept = name == "validation"
            held = [
                topic
                for i, topic in enumerate(topics)
                if (i % make_mini_corpus.TOPICS_EVERY == 0) == kept
            ]
            write(args.output / f"{name}.jsonl", list(rows(held, count, f"{args.seed} {name}")))
            print(f"{args.output / name}.jsonl: {count} rows of {len(held)} topics")
    except InputError as error:
        print(f"make_mini_errors: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
