"""Responses that the study of NPOV errors finds in its folder, as if a generator had made them."""

import json

from faith_jax.core.kept_settings import SETTINGS
from faith_jax.datasets.npov.choices import response_rows
from faith_jax.reproduce.npov_responses import RESPONSES, checked_settings, read_topics
from tests.reproduce.planted import write_rows


def told(row):
    """Returns a response that tells its arguments word for word."""
    pro, con = (" ".join(row[f"{side}_arguments"]) for side in ("pro", "con"))
    return f"{row['query']} Supporters say: {pro} Critics say: {con}"


def write_responses(folder, options, respond=told):
    """Writes responses as a run that was stopped behind them would have."""
    settings = checked_settings(folder, options)
    rows = [
        row | {"response": respond(row), "log_prob": -1.0, "inputs_cut_tokens": 0}
        for topic in read_topics(options)
        for row in response_rows(topic, options.combinations, options.seed)
    ]
    write_rows(folder / RESPONSES, rows)
    (folder / SETTINGS).write_text(json.dumps(settings))
    return rows


def write_marks(path, rows, marks):
    """Writes one annotator's marks: what `marks` says of a row, beside no error; None = none."""
    lines = []
    for row in rows:
        said = marks(row)
        if said is None:
            continue
        errors = (
            "hallucination", "coverage", "partial_hallucination", "partial_coverage",
            "repetition", "perspective_confusion",
        )  # fmt: skip
        line = {"id": row["id"], "annotator": "ada"} | dict.fromkeys(errors, False)
        lines.append(json.dumps(line | said) + "\n")
    path.write_text("".join(lines))
