"""The scorers of a table, with the options that make them the functions of the papers.

A paper's figure stands below ours only where ours is computed as the paper computed it.
"""

import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from faith_jax.statistics.text_metrics import has_spacy

# Of the tables of Dziri 2022 and Nandwani 2023; said even where they are the scorer's own default,
# so that they stand among the settings of what is kept.
PAPERS_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "bertscore": {"lower_grounding": True},
    "pmi_faith_mean": {"score_cue": True},
}
_SPACY = "q2_baseline_token_f1"
NEEDS_SPACY = "spaCy (pip install 'faith_jax[augmentation]')"


class Scored(NamedTuple):
    """A scorer of a table's responses.

    Attributes:
      name: of the scorer.
      needs: the models that it needs, in words; "" = none.
      against: the column that responses are compared with.
    """

    name: str
    needs: str = ""
    against: str = "knowledge"


def left_out(scorers: Iterable[Scored], given: Mapping[str, Any]) -> dict[str, str]:
    """Returns the scorers that cannot be computed, with what they need.

    Args:
      scorers: of the table.
      given: options of those that have their models.
    """
    found = {it.name: it.needs for it in scorers if it.needs and it.name not in given}
    return found | {it.name: NEEDS_SPACY for it in scorers if is_missing(it.name)}


def by_grounding(
    scorers: Iterable[Scored], given: Mapping[str, Any], gold: bool = True
) -> dict[str, list[str]]:
    """Returns the names of the scorers that can be computed, by what responses are compared with.

    Args:
      scorers: of the table.
      given: options of those that have their models.
      gold: whether responses are compared with gold ones too.
    """
    missing = left_out(scorers, given)
    found: dict[str, list[str]] = {}
    for it in scorers:
        if it.name not in missing and (gold or it.against == "knowledge"):
            found.setdefault(it.against, []).append(it.name)
    return found


def layout(
    table: str,
    title: str,
    columns: Mapping[str, Mapping[str, Any]],
    scorers: Iterable[Scored],
    given: Mapping[str, Mapping[str, Any]],
    notes: Iterable[str],
    sample: bool,
    limit: int,
) -> dict[str, Any]:
    """Returns what `faith-jax evaluate --table` reads: columns, notes and published figures.

    Args:
      table: whose figures stand in TABLE.json beside this file.
      title: of the table.
      columns: by name, as `faith_jax.statistics.systems.Column` has them.
      scorers: of the table.
      given: options of those that have their models.
      notes: on the figures.
      sample: of samples, beside which no published figures stand.
      limit: how many rows of each data set count; 0 = all.
    """
    missing = left_out(scorers, given)
    if limit:
        title += f", first {limit:,} rows of each data set"
    told = [
        *notes,
        *(
            f"{column} is left out: it needs {missing[it['scorer']]}."
            for column, it in columns.items()
            if it.get("scorer") in missing
        ),
    ]
    shown = {name: dict(it) for name, it in columns.items() if it.get("scorer") not in missing}
    if sample:
        return {"title": f"SAMPLES, not the paper's data: {title}", "columns": shown, "notes": told}
    differing = {
        name: why
        for name, it in shown.items()
        if (why := difference(it.get("scorer", ""), given.get(it.get("scorer", ""), {})))
    }
    path = pathlib.Path(__file__).with_name(f"{table}.json")
    published = json.loads(path.read_text(encoding="utf-8"))
    figures = {
        corpus: {
            system: {name: value for name, value in row.items() if name not in differing}
            for system, row in systems.items()
        }
        for corpus, systems in published["published"].items()
    }
    told += [*published["notes"], *(f"No published {c}: {why}." for c, why in differing.items())]
    return {"title": title, "columns": shown, "notes": told, "published": figures}


def as_published(scorers: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns scorers' options with `PAPERS_OPTIONS`, unless others are given."""
    return {name: {**PAPERS_OPTIONS.get(name, {}), **given} for name, given in scorers.items()}


def difference(name: str, options: Mapping[str, Any]) -> str:
    """Returns why a scorer's figures are not comparable with a paper's; "" where they are.

    Args:
      name: of the scorer.
      options: all that it is loaded with.
    """
    for option, value in _expected(name).items():
        if options.get(option, value) != value:
            return f"{name}.{option} is {options[option]!r}, the paper's {value!r}"
    if name == "bertscore" and not options.get("baseline"):
        return "bertscore.baseline=FILE is not given, by which the paper's is rescaled"
    return ""


def _expected(name: str) -> Mapping[str, Any]:
    """Returns the options whose other values make another function of a scorer."""
    if name == "bertscore":
        return {"lower_grounding": True, "part": "f1", "idf": None}
    if name in ("q2_f1", "q2_nli"):
        return {"personal": False}
    if name == "pmi_faith_mean":
        from faith_jax.scoring.pmi_faith import PromptFormat  # imports JAX

        prompt = PromptFormat()
        parts = ("document", "turn", "cue", "response")
        prompts = {f"{part}_prompt": getattr(prompt, part) for part in parts}
        return {"score_cue": True, "last_turns": prompt.last_turns, **prompts}
    return {}


def is_missing(name: str) -> bool:
    """Returns whether a scorer needs a package that is not installed; see `NEEDS_SPACY`."""
    return name == _SPACY and not has_spacy()
