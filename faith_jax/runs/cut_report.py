"""How much is cut of each part of many inputs: figures, sentences and warnings of it."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

Report = dict[str, Any]

MOST_CUT = 0.05  # share of rows


def cut_report(counts: Mapping[str, np.ndarray]) -> Report:
    """Returns how much is cut of each part.

    Args:
      counts: by part, the tokens that each row loses of it: int [rows].

    Returns:
      By part: `rows` that lose some, their `share`, and the tokens that a row loses: `p50`, `p90`,
      `p99`, `max`, over all rows. Parts of which nothing is cut are not there.
    """
    return {
        part: {"rows": int((cut > 0).sum()), "share": float((cut > 0).mean())} | percentiles(cut)
        for part, cut in counts.items()
        if cut.any()
    }


def percentiles(values: np.ndarray) -> dict[str, int]:
    """Returns {"p50", "p90", "p99", "max"} of whole numbers; 0 where there are none."""
    if not len(values):
        return dict.fromkeys(("p50", "p90", "p99", "max"), 0)
    found = np.percentile(values, (50, 90, 99), method="higher")
    names = zip(("p50", "p90", "p99"), found, strict=True)
    return {name: int(value) for name, value in names} | {"max": int(np.max(values))}


def cut_warnings(cut: Report) -> Iterator[str]:
    """Yields a sentence for each part, but for knowledge, that too many rows lose tokens of."""
    for part, found in cut.items():
        if part != "knowledge" and found["share"] > MOST_CUT:
            name = "text outside of known parts" if part == "other" else part
            yield f"{100 * found['share']:.1f}% of the inputs lose tokens of their {name}."


def cut_lines(cut: Report) -> Iterator[str]:
    """Yields a line for each part of which something is cut, or one that says that nothing is."""
    if not cut:
        yield "  nothing is cut"
    for part, found in cut.items():
        yield (
            f"  cut of {part}: {found['rows']:,} rows ({100 * found['share']:.1f}%); tokens of a "
            f"row: {shown_percentiles(found)}"
        )


def shown_percentiles(found: Mapping[str, int]) -> str:
    """Returns percentiles as a text."""
    return f"median {found['p50']}, 90% {found['p90']}, 99% {found['p99']}, longest {found['max']}"
