"""Judges how `mini` responds to topics outside its text (docs/mini.md).

    python tools/judge_mini.py rows docs/mini/topics.jsonl rows.jsonl
    t5x infer --gin_file=runs/infer_file.gin --gin.CHECKPOINT_PATH=mini \
      --gin.INPUT_FILE=rows.jsonl --gin.INFER_OUTPUT_DIR=responses
    python tools/judge_mini.py table rows.jsonl responses/predictions.jsonl [--faults faults.jsonl]

The first command makes rows of each topic: with 1, 2, 3 and 4 arguments a side, and two with
different numbers on the two sides. The last command prints, for each number of arguments and for
all:

- finished: responses that end by themselves;
- recall, precision: the mean of `argument_recall` and `argument_precision`, at a threshold of 0.8;
- no numbers: responses without counts or majorities ("most", "a few", "two") that were not given;
- own words: responses that only have words of the query and the arguments, function words and
  framing words ("supporters", "argue"), so no garbled words;
- two views: responses that say who holds the view of each side.

With --faults the rows that miss any of these are written with the names of the missed measures.
"""

import argparse
import json
import pathlib
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from faith_jax.core.errors import InputError
from faith_jax.core.words import lower_words
from faith_jax.statistics.texts.argument_coverage import FRAMING_WORDS, tell_arguments
from faith_jax.statistics.texts.text_metrics import ENGLISH_STOP_WORDS

SIZES = ((1, 1), (2, 2), (3, 3), (4, 4), (1, 3), (4, 2))
THRESHOLD = 0.8
_NUMBERS = """
many most few fewer majority minority several all every everyone everybody nobody none half two
three four five six seven eight nine ten dozen dozens hundred hundreds thousand thousands million
millions numerous lots
"""
NUMBERS = frozenset(_NUMBERS.split())
_PRO = re.compile(
    r"\b(supporters?|proponents?|advocates?|defenders?|some\b|people who agree"
    r"|those (in favour|in favor|for|who (agree|support)))",
    re.IGNORECASE,
)
_CON = re.compile(
    r"\b(opponents?|critics?|sceptics?|skeptics?|those (against|who (disagree|oppose))|others?\b"
    r"|people who disagree)",
    re.IGNORECASE,
)
MEASURES = ("finished", "recall", "precision", "no numbers", "own words", "two views")


def make_rows(topics: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns rows for each topic, with the first arguments of each side."""
    return [
        {
            "id": f"{topic['id']}-{pro}-{con}",
            "query": topic["query"],
            "pro": topic["pro"][:pro],
            "con": topic["con"][:con],
        }
        for topic in topics
        for pro, con in SIZES
    ]


def judge(row: Mapping[str, Any], response: str, finished: bool) -> dict[str, float]:
    """Returns the measures of a response, each in [0, 1], 1 = perfect."""
    arguments = [*row["pro"], *row["con"]]
    told_groups = tell_arguments(response, arguments, row["query"])
    input_words = {word for text in (row["query"], *arguments) for word in lower_words(text)}
    response_words = lower_words(response)
    framing = ENGLISH_STOP_WORDS | FRAMING_WORDS
    pro, con = _PRO.search(response), _CON.search(response)
    return {
        "finished": float(finished),
        "recall": told_groups.recall(THRESHOLD),
        "precision": told_groups.precision(THRESHOLD),
        "no numbers": float(
            not any(word in NUMBERS and word not in input_words for word in response_words)
        ),
        "own words": float(all(word in input_words or word in framing for word in response_words)),
        "two views": float(bool(pro and con and pro.start() < con.start())),
    }


def table(judged: Sequence[tuple[Mapping[str, Any], Mapping[str, float]]]) -> str:
    """Returns the means by number of arguments as a Markdown table."""
    groups: dict[str, list[Mapping[str, float]]] = {}
    for row, measures in judged:
        size = f"{len(row['pro'])} and {len(row['con'])}"
        for name in (size, "all"):
            groups.setdefault(name, []).append(measures)
    groups["all"] = groups.pop("all")  # moves it to the last line
    lines = [f"| arguments | responses | {' | '.join(MEASURES)} |", "| --- " * 8 + "|"]
    for name, judgements in groups.items():
        means = [statistics.fmean(measures[key] for measures in judgements) for key in MEASURES]
        cells = " | ".join(f"{mean:.3f}" for mean in means)
        lines.append(f"| {name} | {len(judgements)} | {cells} |")
    return "\n".join(lines)


def read(path: pathlib.Path) -> list[dict[str, Any]]:
    """Returns the rows of a JSON Lines file; raises InputError if it cannot be read."""
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON Lines: {error}.") from None


def write(path: pathlib.Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows as JSON Lines."""
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    rows = commands.add_parser("rows", help="makes the rows to respond to")
    rows.add_argument("topics", type=pathlib.Path)
    rows.add_argument("output", type=pathlib.Path)
    judging = commands.add_parser("table", help="judges the responses")
    judging.add_argument("rows", type=pathlib.Path)
    judging.add_argument("responses", type=pathlib.Path, help="predictions.jsonl of t5x infer")
    judging.add_argument("--faults", type=pathlib.Path, help="where to write faulty responses")
    options = parser.parse_args(argv)
    try:
        if options.command == "rows":
            write(options.output, make_rows(read(options.topics)))
            return 0
        responses = {row["id"]: row for row in read(options.responses)}
        judged, faults = [], []
        for row in read(options.rows):
            if row["id"] not in responses:
                raise InputError(f"{options.responses}: there is no response to {row['id']!r}.")
            row_responses = responses[row["id"]]
            measures = judge(row, row_responses["prediction"], row_responses["finished"])
            judged.append((row, measures))
            if missed := [name for name in MEASURES if measures[name] < 1]:
                faults.append({**row, "response": row_responses["prediction"], "misses": missed})
        print(table(judged))
        if options.faults:
            write(options.faults, faults)
    except InputError as error:
        print(f"judge_mini: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
