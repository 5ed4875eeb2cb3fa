"""Writes the answers with the lowest scores to a file for spreadsheet programs.

Each row has the columns of its input row, under the same names, and a column for each scorer.
"""

import csv
import heapq
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from faith_jax.core.files import write_jsonl, write_text
from faith_jax.core.files.stores import path_of
from faith_jax.core.table import guard_formula
from faith_jax.export.scored_rows import ScoredRow

_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?([eE][+-]?\d+)?")  # never a formula
_PARTS = {"history": "history", "response": "generated_text", "label": "label"}


def write_worst(
    path: str,
    rows: Iterable[ScoredRow],
    scorers: Sequence[str],
    columns: Mapping[str, str],
    count: int,
) -> int:
    """Writes the rows with the lowest scores of the first scorer, lowest first, at most `count`.

    Rows of equal scores keep their order, and rows without a score are left out. In CSV, a text
    that a spreadsheet would run as a formula gets a leading apostrophe; numbers do not. `columns`
    maps the parts of an example to the input's columns; "" = no column. Returns the number of rows
    written to the .csv or .jsonl file, which appears whole.
    """
    ranked = (row for row in rows if row["scores"][scorers[0]] is not None)
    worst = heapq.nsmallest(count, ranked, key=lambda row: row["scores"][scorers[0]])
    flat: list[dict[str, Any]] = []
    for row in worst:
        cells = {columns.get("id") or "id": row["id"]}
        cells[columns.get("corpus") or "corpus"] = row["corpus"]
        spec = columns.get("grounding") or "grounding"
        if "=" in spec:
            sided = list(zip(row["perspectives"], row["grounding"], strict=True))
            for side, name in (part.split("=", 1) for part in spec.split(",")):
                cells[name] = [text for perspective, text in sided if perspective == side]
        else:
            cells[spec] = row["grounding"]
            if row["perspectives"]:
                cells[columns.get("perspectives", "perspectives")] = row["perspectives"]
        for part, field in _PARTS.items():
            name = columns.get(part) or ("" if part == "history" else part)
            if name and name not in row["fields"]:
                cells[name] = row[field]
        cells |= {name: value for name, value in row["fields"].items() if name not in cells}
        for name in scorers:
            cells[f"{name} (score)" if name in cells else name] = row["scores"][name]
        flat.append(cells)
    texts = [name for part in ("history", "grounding") if (name := columns.get(part, ""))]
    for name in (name for name in texts if flat and name in flat[0]):
        if all(len(row[name]) == 1 for row in flat):  # as their input has them, or could have
            for row in flat:
                row[name] = row[name][0]
    if path.endswith(".jsonl"):
        write_jsonl(path_of(path), flat)
    else:
        header = list(dict.fromkeys(name for row in flat for name in row))
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(map(guard_formula, header))
        for row in flat:
            for name, value in row.items():
                if isinstance(value, str):
                    row[name] = value if _NUMBER.fullmatch(value) else guard_formula(value)
                elif not isinstance(value, int | float | None):
                    row[name] = json.dumps(value, ensure_ascii=False)
            writer.writerow(map(row.get, header))
        write_text(path, buffer.getvalue())
    return len(flat)
