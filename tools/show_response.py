"""Prints one generated response of a quickstart, and where everything is.

usage: show_response.py OUTPUT [ROW]
"""

import json
import pathlib
import re
import sys
import textwrap


def main() -> None:
    """Prints the query, the arguments and the response of a row (default: the first)."""
    output = pathlib.Path(sys.argv[1])
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    path = output / "responses" / "predictions.jsonl"
    lines = path.read_text(encoding="utf-8").strip().split("\n")
    row = json.loads(lines[number])
    fields = dict(re.findall(r"\{(\w+): ([^}]*)\}", row["inputs"]))
    print()
    for title, text in (
        ("Query", fields.get("query", "")),
        ("Arguments for", fields.get("pro", "")),
        ("Arguments against", fields.get("con", "")),
        ("Generated response", row["prediction"]),
        ("Written response", row["target"]),
    ):
        print(f"{title}:")
        print(textwrap.indent(textwrap.fill(text, 88), "  "))
    print()
    for what, where in (
        ("prompt", output / "prompt"),
        (f"{len(lines)} responses (JSONL)", output / "responses" / "predictions.jsonl"),
        ("their scores (TFDS)", output / "scores"),
        ("known errors' scores", output / "known_errors.jsonl"),
        ("salience (PNG)", output / "salience.png"),
        ("report (open it)", output / "report.html"),
    ):
        print(f"{what:24} {where}")


if __name__ == "__main__":
    main()
