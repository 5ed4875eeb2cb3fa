"""Synthetic errors for NPOV error classifiers, and training sets of them (Chang 2024, 4.2 and 5.2).

The response stays as it is; the arguments that it is judged by change:

- hallucination: one given argument is removed, so the response tells one too many;
- coverage error: one unused argument of the topic is added, so the response leaves one out;
- both, of different arguments.

In paraphrased rows all arguments are paraphrased, those removed or added too.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.core.errors import InputError, pluralize
from faith_jax.datasets.augmentation.draws import rank
from faith_jax.datasets.npov.synthetic_errors import SIDES, Row
from faith_jax.datasets.npov.topics import Topic

PARAPHRASED = "paraphrased"

# Section 4.2: 667 rows with a hallucination, a coverage error or both, made of 312 without one.
PUBLISHED_ERRORS, PUBLISHED_ERROR_FREE = 667, 312


def with_errors_per_response(
    rows: Sequence[Row], errors: float, label: str, seed: int = 0
) -> list[Row]:
    """Returns all error-free rows and a drawn part of those with an error, in their order.

    The draw ignores whether rows are paraphrased: the same ones are drawn before and after.

    Raises:
      InputError: with the label, if too few rows have an error.
    """
    wrong = [row for row in rows if row["error"] != "none"]
    free = len(rows) - len(wrong)
    needed = round(errors * free)
    if len(wrong) < needed:
        raise InputError(
            f"{label}: {errors:.4g} rows with an error to each of "
            f"{pluralize(free, 'error-free row')} make {needed:,}, but only {len(wrong):,} can be "
            f"made ({len(wrong) / free:.4g} to each)"
        )
    names = {row["id"]: row["id"].removesuffix(f"-{PARAPHRASED}") for row in wrong}
    kept_names = set(sorted(names, key=lambda name: rank(seed, names[name], "kept"))[:needed])
    return [row for row in rows if row["error"] == "none" or row["id"] in kept_names]


def paraphrases(topics: Iterable[Topic]) -> dict[tuple[str, str], str]:
    """Returns the first paraphrase of each argument that has one, by topic and text."""
    return {
        (topic.id, argument.text): argument.paraphrases[0]
        for topic in topics
        for argument in (*topic.pro, *topic.con)
        if argument.paraphrases
    }


def paraphrase_row(row: Row, written: Mapping[tuple[str, str], str]) -> dict[str, Any] | None:
    """Returns a row of `synthetic_rows` with every argument paraphrased; None if one cannot be.

    `written` is from `paraphrases`.
    """

    def other(text: str) -> str | None:
        return written.get((row["topic"], text)) if text else ""

    sides = {side: [other(text) for text in row[side]] for side in SIDES}
    single = {name: other(row[name]) for name in ("removed_argument", "added_argument")}
    if None in (*sides["pro_arguments"], *sides["con_arguments"], *single.values()):
        return None
    return {**row, **sides, **single, "id": f"{row['id']}-{PARAPHRASED}", "paraphrased": 1}


class SplitSets(NamedTuple):
    """The rows of one split.

    Attributes:
      plain: unparaphrased, with and without synthetic errors.
      paraphrased: the same with paraphrased arguments.
      organic: with full errors that annotators found; None = not annotated.
    """

    plain: Sequence[Row] = ()
    paraphrased: Sequence[Row] = ()
    organic: Sequence[Row] | None = None


def training_sets(train: SplitSets, validation: SplitSets) -> dict[str, list[Row] | None]:
    """Returns the nested training sets of section 5.2 by name; None where annotations are missing.

    Each set contains the ones before it.
    """
    synth = list(train.plain)
    para = [*synth, *train.paraphrased]
    dev = [*para, *validation.plain, *validation.paraphrased]
    organic = None
    if train.organic is not None and validation.organic is not None:
        organic = [*dev, *train.organic, *validation.organic]
    return {"synth": synth, "para": para, "dev": dev, "org": organic}
