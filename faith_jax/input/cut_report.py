"""How much is cut of each part of many inputs: figures, sentences and warnings of it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from faith_jax.core.cutting import CutTokens, Kind
from faith_jax.core.errors import counted

Report = dict[str, Any]

PARTS = (Kind.KNOWLEDGE, Kind.HISTORY, Kind.RESPONSE, Kind.OTHER)
MOST_CUT = 0.05  # share of rows


def cut_of_inputs(cuts: Sequence[CutTokens]) -> Report:
    """Returns how much is cut of each part of inputs.

    Returns:
      See `cut_report`; of knowledge also `mostly`, the share of inputs that lose more than half of
      theirs, and of the history `last_turns`, how many inputs lose tokens of their last turn.
    """
    counts = {part: np.array([tokens.get(part, 0) for tokens in cuts]) for part in PARTS}
    found = cut_report({part.name.lower(): count for part, count in counts.items()})
    if "knowledge" in found:
        before = np.array([tokens.knowledge for tokens in cuts])
        found["knowledge"]["mostly"] = float((2 * counts[Kind.KNOWLEDGE] > before).mean())
    if last_turns := sum(tokens.last_turn for tokens in cuts):
        found["history"]["last_turns"] = last_turns
    return found


def cut_report(counts: Mapping[str, np.ndarray]) -> Report:
    """Returns how much is cut of each part.

    Args:
      counts: by part, the tokens that each row loses of it: int [rows].

    Returns:
      By part: `rows` that lose some, their `share`, and the tokens that these rows lose: `p50`,
      `p90`, `p99`, `max`. Parts of which nothing is cut are not there.
    """
    return {
        part: {"rows": int((cut > 0).sum()), "share": float((cut > 0).mean())}
        | percentiles(cut[cut > 0])
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


def cut_warnings(cut: Report, training: bool = False) -> Iterator[str]:
    """Yields a sentence for each part that too many rows lose tokens of.

    Cutting the end of long knowledge is the default and harmless where a response needs its
    beginning only; a loss of more than half is warned of. The targets of training were written with
    all the knowledge, and what is cut of it teaches the model to say what it was not given: any
    loss counts there.

    Args:
      cut: see `cut_report` and `cut_of_inputs`.
      training: whether the inputs have targets to learn from.
    """
    for part, found in cut.items():
        share, name = found["share"], "text outside of known parts" if part == "other" else part
        what = f"tokens of their {name}"
        if part == "knowledge" and training:
            what += ", which their targets may need"
        elif part == "knowledge":
            share, what = found.get("mostly", 0), "more than half of their knowledge"
        if share > MOST_CUT:
            yield f"{100 * share:.1f}% of the inputs lose {what}."
        if last_turns := found.get("last_turns"):
            inputs = counted(last_turns, "input")
            yield f"The last turn, which the response answers, is cut in {inputs}."


def cut_lines(cut: Report) -> Iterator[str]:
    """Yields a line for each part of which something is cut, or one that says that nothing is."""
    if not cut:
        yield "  nothing is cut"
    for part, found in cut.items():
        yield (
            f"  cut of {part}: {counted(found['rows'], 'row')} ({100 * found['share']:.1f}%); "
            f"tokens that such a row loses: {shown_percentiles(found)}"
        )


def shown_percentiles(found: Mapping[str, int]) -> str:
    """Returns percentiles as a text."""
    return f"median {found['p50']}, 90% {found['p90']}, 99% {found['p99']}, longest {found['max']}"
