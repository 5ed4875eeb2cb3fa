"""Makes responses with synthetic errors to topics that `mini_nli` has not seen (docs/mini.md).

    python tools/make_mini_errors.py docs/mini/wordings.jsonl errors.jsonl

Takes one topic in 12, those that tools/make_mini_pairs.py keeps for validation. Responses tell one
to three arguments a side. Half of them add an argument that was not given, and independently half
leave out a given one. Rows have the format of the data set `npov_detection`. The field `slice` is
"unparaphrased", or "paraphrased" if no argument is told in its given wording. In `slice_by_count`,
"…, equal" marks rows that tell as many arguments as were given.
"""

import json
import pathlib
import random
import sys
from collections.abc import Iterator
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import make_mini_corpus
import mini_responses
import mini_texts
from make_mini_corpus import TOPICS_EVERY
from mini_texts import Text

SIDES = ("pro", "con")
RESPONSES = 24  # for each topic


def rows(topics: list[Any], paraphrased: bool, seed: int = 3) -> Iterator[dict[str, Any]]:
    """Yields the responses to topics."""
    rng = random.Random(f"{seed} {paraphrased}")
    wordings = [
        w
        for topic in topics
        for side in SIDES
        for side_wordings in getattr(topic, side)
        for w in side_wordings
    ]
    text = Text(wordings, wordings, [], mini_texts.lower_case_words(wordings))
    for number, topic in enumerate(topics[::TOPICS_EVERY]):
        for place in range(RESPONSES):
            added = rng.choice(SIDES) if rng.random() < 0.5 else ""
            left_out = rng.choice(SIDES) if rng.random() < 0.5 else ""
            arguments_by_side: dict[str, list[str]] = {}
            told_by_side: list[list[str]] = []
            for side in SIDES:
                arguments = getattr(topic, side)
                count = rng.choice((1, 2, 3))
                *drawn, extra_argument = rng.sample(range(len(arguments)), count + 1)
                drawn_arguments = list(drawn)
                if side == left_out:
                    drawn_arguments.remove(rng.choice(drawn_arguments))
                if side == added:
                    drawn_arguments.insert(rng.randrange(len(drawn_arguments) + 1), extra_argument)
                forms = {i: rng.randrange(3) for i in drawn}
                arguments_by_side[side] = [arguments[i][form] for i, form in forms.items()]
                told_by_side.append(
                    [
                        arguments[i][
                            rng.choice([f for f in range(3) if f != forms.get(i)])
                            if paraphrased
                            else forms.get(i, 0)
                        ]
                        for i in drawn_arguments
                    ]
                )
            if any(told_by_side):
                kind = "paraphrased" if paraphrased else "unparaphrased"
                equal = "equal" if bool(added) == bool(left_out) else "different"
                yield {
                    "id": f"{kind}-{number}-{place}",
                    "slice": kind,
                    "slice_by_count": f"{kind}, {equal}",
                    "query": topic.query,
                    "pro_arguments": arguments_by_side["pro"],
                    "con_arguments": arguments_by_side["con"],
                    "response": mini_responses.told(told_by_side, text, rng),
                    "has_hallucination": int(bool(added)),
                    "has_coverage_error": int(bool(left_out)),
                }


def main() -> int:
    """Writes the rows; returns the exit status."""
    topics = make_mini_corpus.read_topics(pathlib.Path(sys.argv[1]))
    with pathlib.Path(sys.argv[2]).open("w", encoding="utf-8") as file:
        for paraphrased in (False, True):
            for row in rows(topics, paraphrased):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
