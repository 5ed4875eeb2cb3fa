"""Scored rows with a known true share of faithful responses."""

import json

import numpy as np

SCORER = "ours"


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def scored_rows(count, corpus="bot", seed=0, faithful=0.7, effect=4.0, of_a_page=2, **fields):
    """Returns rows in which the scores of faithful responses are higher by `effect`."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        label = int(rng.random() < faithful)
        fixed = {"id": str(number), "corpus": corpus, "generated_text": "Yes.", "label": label}
        scores = {SCORER: round(float(rng.normal(effect * label)), 6)}
        grounding = [f"{corpus} {seed}, page {number // of_a_page}"]
        rows.append({**fixed, "grounding": grounding, "scores": scores, **fields})
    return rows
