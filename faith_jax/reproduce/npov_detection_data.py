"""The data sets of the detection study: which responses are error-free, training and test sets."""

import collections
import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from faith_jax.annotation.labels import Label, Slice, combined, slice_rows
from faith_jax.annotation.marks import read_marks
from faith_jax.annotation.word_rule import REASONS, retold_spans
from faith_jax.core.errors import InputError, counted
from faith_jax.core.outputs import write_text
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.datasets import npov
from faith_jax.datasets.augmentation.npov_sets import (
    PARAPHRASED,
    SplitSets,
    paraphrased_row,
    paraphrases,
    synthetic_rows,
    training_sets,
    unused_arguments,
    with_errors_per_response,
)
from faith_jax.datasets.npov.choices import response_rows
from faith_jax.reproduce.npov_responses import DetectionOptions
from faith_jax.statistics.dataset_statistics import Table

ORGANIC = {"full organic": Slice.FULL_ORGANIC, "ambiguous organic": Slice.AMBIGUOUS_ORGANIC}
# The test sets, in the order of the paper's tables.
SLICES = (
    "full organic", "unparaphrased synthetic", "paraphrased synthetic", "ambiguous organic",
)  # fmt: skip
NOT_ANNOTATED = "not annotated"
_ERROR_FREE = "error-free"
_MORE_ERRORS = (
    "Ask for fewer, or give topics with more arguments than a response is given, and a paraphrase "
    "of each."
)


@dataclasses.dataclass(frozen=True)
class Judged:
    """What is known of the responses.

    Attributes:
      error_free: their rows.
      verdicts: of each response that was judged by id: "error-free" or what it is not free of.
      labels: of annotators; None = a rule stands in for them.
    """

    error_free: Sequence[Mapping[str, Any]]
    verdicts: Mapping[str, str]
    labels: Sequence[Label] | None


def judged(
    rows: Sequence[Mapping[str, Any]], topics: Sequence[npov.Topic], options: DetectionOptions
) -> Judged:
    """Says which responses are error-free: by people's marks, or by the rule in their place.

    Raises:
      InputError: for marks that are not of these responses.
    """
    labels = None
    if options.marks:
        labels = _labels(rows, pathlib.Path(options.marks))
        verdicts = {label.example.id: str(label.slice).replace("_", " ") for label in labels}
        verdicts = {i: _ERROR_FREE if v == "error free" else v for i, v in verdicts.items()}
    else:
        by_id = {topic.id: topic for topic in topics}
        verdicts = {row["id"]: _verdict(row, by_id[row["topic"]], options) for row in rows}
    kept = [row for row in rows if verdicts.get(row["id"]) == _ERROR_FREE]
    return Judged(kept, verdicts, labels)


def _verdict(row: Mapping[str, Any], topic: npov.Topic, options: DetectionOptions) -> str:
    given = (*row["pro_arguments"], *row["con_arguments"])
    unused = [text for side in ("pro", "con") for text in unused_arguments(row, topic, side)]
    return options.rule.error(row["response"], row["query"], given, unused) or _ERROR_FREE


def _labels(rows: Iterable[Mapping[str, Any]], path: pathlib.Path) -> list[Label]:
    examples = {row["id"]: _example(row) for row in rows}
    marks = read_marks(path, examples).by_id()
    found = (combined(examples[identifier], group) for identifier, group in marks.items())
    return [label for label in found if label is not None]


def _example(row: Mapping[str, Any]) -> GroundedExample:
    texts = (*row["pro_arguments"], *row["con_arguments"])
    sides = ("pro",) * len(row["pro_arguments"]) + ("con",) * len(row["con_arguments"])
    return GroundedExample(row["id"], Grounding(texts, sides), (row["query"],), row["response"])


def set_file(folder: pathlib.Path, name: str) -> pathlib.Path:
    """Returns where a test set is."""
    return folder / f"test_{name.replace(' ', '_')}.jsonl"


def check_errors_per_response(topics: Sequence[npov.Topic], options: DetectionOptions) -> None:
    """Finds a share of errors that these topics cannot give, before anything is generated.

    Raises:
      InputError: too few rows with an error could be made even if all responses were error-free;
        names all such sets.
    """
    asked = options.errors_per_response
    if asked is None:
        return
    written, found = paraphrases(topics), collections.Counter[tuple[str, str, bool]]()
    for topic in topics:
        for row in response_rows(topic, options.combinations, options.seed):
            plain = list(synthetic_rows({**row, "response": ""}, topic, lambda *_: []))
            other = [made for made in plain if paraphrased_row(made, written) is not None]
            for kind, rows in (("plain", plain), (PARAPHRASED, other)):
                found.update((topic.split, kind, made["error"] != "none") for made in rows)
    too_few = [
        f"{split}, {kind}: {found[split, kind, True] / free:.4g}"
        for (split, kind, wrong), free in found.items()
        if not wrong and found[split, kind, True] < round(asked * free)
    ]
    if too_few:
        raise InputError(
            f"--errors-per-response: {asked:.4g} rows with an error to each error-free one; even "
            f"if all responses were error-free, there would be: {'; '.join(too_few)}. "
            f"{_MORE_ERRORS}"
        )


def write_sets(
    folder: pathlib.Path,
    rows: Sequence[Mapping[str, Any]],
    topics: Sequence[npov.Topic],
    found: Judged,
    seed: int,
    errors_per_response: float | None = None,
) -> tuple[Table, int]:
    """Writes training, validation and test sets; files that would not change stay as they are.

    Args:
      folder: where they go; those that cannot be made are removed.
      rows: all responses.
      topics: what they are on.
      found: what is known of them.
      seed: of the synthetic errors.
      errors_per_response: see `DetectionOptions`.

    Returns:
      The table of the sets, and how many rows have an argument without a paraphrase.

    Raises:
      InputError: where no response to a test topic is error-free, and where too few rows with an
        error can be made.
    """
    if not any(row["split"] == "test" for row in found.error_free):
        tested = sum(row["split"] == "test" for row in rows)
        raise InputError(
            f"none of {counted(tested, 'response')} to a test topic is error-free, so that "
            "there is nothing to put errors into; train the generator longer, lower "
            "--least-recall and --least-precision, or give --marks."
        )
    written, by_id = paraphrases(topics), {topic.id: topic for topic in topics}
    splits, lost, too_few = {}, 0, []
    for split in npov.SPLITS:
        plain = [
            made
            for row in found.error_free
            if row["split"] == split
            for made in synthetic_rows(row, by_id[row["topic"]], retold_spans, seed)
        ]
        other = [paraphrased_row(row, written) for row in plain]
        lost += other.count(None)
        organic = _organic_rows(rows, found, split, Slice.FULL_ORGANIC)
        kinds: dict[str, list[Mapping[str, Any]]] = {
            "plain": [*plain],
            PARAPHRASED: [row for row in other if row is not None],
        }
        if errors_per_response is not None:
            for kind, members in kinds.items():
                try:
                    kinds[kind] = with_errors_per_response(
                        members, errors_per_response, f"{split}, {kind}", seed
                    )
                except InputError as error:
                    too_few.append(str(error))
        splits[split] = SplitSets(kinds["plain"], kinds[PARAPHRASED], organic)
    if too_few:
        raise InputError(f"--errors-per-response: {'; '.join(too_few)}. {_MORE_ERRORS}")
    sets = {f"train_{n}": s for n, s in _with_splits(training_sets, splits, rows).items()}
    validation = [*splits["validation"].plain, *splits["validation"].paraphrased]
    sets["validation"] = validation or None
    test = {"unparaphrased synthetic": splits["test"].plain}
    test["paraphrased synthetic"] = splits["test"].paraphrased
    for name in SLICES:
        made = test.get(name) or _organic_set(rows, found, ORGANIC.get(name))
        sets[set_file(folder, name).stem] = list(made) if made else None
    folder.mkdir(exist_ok=True)
    for name, members in sets.items():
        _write(folder / f"{name}.jsonl", members)
    return _sets_table(sets), lost


def _with_splits(make: Any, splits: Mapping[str, SplitSets], rows: Sequence[Any]) -> dict[str, Any]:
    """Returns the training sets; none of splits that were not responded to."""
    there = {row["split"] for row in rows}
    made = make(splits["train"], splits["validation"])
    needed = {"synth": {"train"}, "para": {"train"}}
    both = {"train", "validation"}
    return {n: s if needed.get(n, both) <= there and s else None for n, s in made.items()}


def _organic_rows(
    rows: Sequence[Mapping[str, Any]], found: Judged, split: str, part: Slice
) -> list[dict[str, Any]] | None:
    """Returns a split's responses with organic errors; None without marks."""
    made = _organic_set(rows, found, part, split)
    if made is None:
        return None
    return [row for row in made if row["error"] == "organic"]


def _organic_set(
    rows: Sequence[Mapping[str, Any]], found: Judged, part: Slice | None, split: str = "test"
) -> list[dict[str, Any]] | None:
    """Returns a split's error-free responses and those with organic errors; None without marks."""
    if found.labels is None or part is None:
        return None
    others = {row["id"]: {"topic": row["topic"]} for row in rows if row["split"] == split}
    labels = [label for label in found.labels if label.example.id in others]
    return [_as_set_row(row) for row in slice_rows(labels, part, others)]


def _as_set_row(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("id", "topic", "query", "pro_arguments", "con_arguments", "response")
    kept = {name: row[name] for name in (*names, "has_hallucination", "has_coverage_error")}
    return kept | {
        "error": "none" if row["slice"] == Slice.ERROR_FREE else "organic",
        "removed_argument": "",
        "added_argument": row["added_argument"],
        "paraphrased": 0,
        "hallucinated_spans": row["hallucinated_spans"],
    }


def _write(path: pathlib.Path, rows: Iterable[Mapping[str, Any]] | None) -> None:
    if rows is None:
        path.unlink(missing_ok=True)
        return
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    # What scores it keeps depends on the file's time.
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_text(path, text)


def _sets_table(sets: Mapping[str, Sequence[Mapping[str, Any]] | None]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for name, members in sets.items():
        if members is None:
            rows.append((name, *(None,) * 5))
            continue
        free = sum(row["error"] == "none" for row in members)
        flags = [
            sum(row[f] for row in members) for f in ("has_hallucination", "has_coverage_error")
        ]
        rows.append((name, len(members), free, *flags, sum(r["paraphrased"] for r in members)))
    columns = ("set", "rows", "error-free", "hallucination", "coverage error", "paraphrased")
    return Table("Data sets", columns, tuple(rows), ("A dash: needs marks, or another split.",))


def verdict_table(rows: Sequence[Mapping[str, Any]], found: Judged) -> Table:
    """Returns how many responses of each topic are error-free, and why others are not."""
    kinds = ("full organic", "ambiguous organic") if found.labels is not None else REASONS
    counts: dict[tuple[str, str], collections.Counter[str]] = {}
    for row in rows:
        key = row["split"], row["topic"]
        verdict = found.verdicts.get(row["id"], NOT_ANNOTATED)
        counts.setdefault(key, collections.Counter())[verdict] += 1
    names = (_ERROR_FREE, *kinds, *((NOT_ANNOTATED,) if found.labels is not None else ()))
    lines = [
        (*key, sum(count.values()), *(count[name] for name in names))
        for key, count in counts.items()
    ]
    for split in dict.fromkeys(split for split, _ in counts):
        own = [line[2:] for line in lines if line[0] == split]
        lines.append((split, "all topics", *(sum(column) for column in zip(*own, strict=True))))
    title = "Responses by topic: error-free by people's marks, and with which errors"
    if found.labels is None:
        title = (
            "Responses by topic: error-free by a rule of words, which stands in for the paper's "
            "annotation, and why others are not"
        )
    return Table(title, ("split", "topic", "responses", *names), tuple(lines))
