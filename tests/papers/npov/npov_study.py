"""The study of NPOV errors on fixed responses, in place of a generator's."""

import contextlib
import csv
import json
import shlex

from faith_jax.cli import main
from faith_jax.papers.npov.combinations import response_rows
from faith_jax.papers.npov.detection_tables import Table
from faith_jax.papers.npov.error_sets import read_topics
from tests.papers.planted import write_rows

NOUNS = {
    "pro": ("calms nervous people", "costs little money", "wakes tired students"),
    "con": ("stains white teeth", "spoils deep sleep", "fills overloaded bins"),
}
SPLITS = {"train": ["tea"], "validation": ["mate"], "test": ["cocoa", "coffee"]}


def topics():
    """Returns four topics with three arguments a side, each with a paraphrase."""
    topic_rows = []
    for split, name in ((split, name) for split, names in SPLITS.items() for name in names):
        sides = {
            side: [
                {
                    "text": f"{name.capitalize()} {statement}.",
                    "paraphrases": [f"Drinkers of {name} say no. {number}{side}."],
                }
                for number, statement in enumerate(texts)
            ]
            for side, texts in NOUNS.items()
        }
        fields = {"title": name, "question": f"Is {name} good?", "split": split}
        topic_rows.append({"id": name} | fields | sides)
    return topic_rows


def told(row):
    """Returns a response that tells its arguments word for word."""
    pro, con = (" ".join(row[f"{side}_arguments"]) for side in ("pro", "con"))
    return f"{row['query']} Supporters say: {pro} Critics say: {con}"


def write_responses(path, knowledge, respond=told, **options):
    """Writes responses to all combinations, and returns them."""
    splits = options.pop("splits", ("train", "validation", "test"))
    rows = [
        row | {"response": respond(row), "log_prob": -1.0, "inputs_cut_tokens": 0}
        for topic in read_topics(str(knowledge), splits)
        for row in response_rows(topic, **{"most": 4, **options})
    ]
    write_rows(path, rows)
    return rows


def write_marks(path, rows, marks):
    """Writes one annotator's marks: `marks(row)` has the row's errors, or None to skip the row."""
    lines = []
    for row in rows:
        row_marks = marks(row)
        if row_marks is None:
            continue
        errors = (
            "hallucination", "coverage", "partial_hallucination", "partial_coverage",
            "repetition", "perspective_confusion",
        )  # fmt: skip
        line = {"id": row["id"], "annotator": "ada"} | dict.fromkeys(errors, False)
        lines.append(json.dumps(line | row_marks) + "\n")
    path.write_text("".join(lines))


def run_study(folder, options):
    """Runs the workflow's steps after the responses; returns the rows of the CSV file."""
    table = Table(options, lambda *_: 0)
    steps = table.steps()
    sets = ["npov", "sets", f"--input={folder}/responses.jsonl", f"--output={folder}/data"]
    assert main([*sets, *shlex.split(steps["sets"])]) == 0
    (folder / "scores").mkdir(exist_ok=True)
    with contextlib.chdir(folder):
        for name, step in steps["score"].items():
            arguments = shlex.split(step["arguments"])
            assert main(["score", *arguments, f"--output=scores/{name}.jsonl"]) == 0
    table.write(folder)
    with open(folder / "npov_detection.csv", newline="") as file:
        return list(csv.DictReader(file))
