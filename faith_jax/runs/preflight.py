"""What a run will see, said before it begins: counted from its rows in their own order.

The report of a training says how often each member of a mixture and each kind of row is read, how
much of each part is cut, whether validation shares its groundings with training, what a step costs,
and shows the first examples as the model reads them. It warns of what nobody wants.
"""

import collections
import json
import logging
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from faith_jax.core.cutting import Kind
from faith_jax.core.errors import ConfigError, counted
from faith_jax.core.files import written_whole
from faith_jax.input.cut_report import (
    PARTS,
    Report,
    cut_lines,
    cut_of_inputs,
    cut_report,
    cut_warnings,
    percentiles,
    shown_percentiles,
)
from faith_jax.input.infer_rows import InputRow, RowTokens
from faith_jax.input.row_cache import RowCache
from faith_jax.input.task_batches import SplitRows

logger = logging.getLogger("faith_jax")

RAREST = 0.01  # share of what is read
MOST_EPOCHS = 100  # twice the 50 of the longest published recipe here
EXAMPLES = 3
_MOST_VALUES = 12  # of a field that tells kinds of rows apart
_CHUNK = 1 << 20


def training_report(
    rows: SplitRows, steps: int, validation: SplitRows | None, tokenizer: Any
) -> Report:
    """Returns what a training will read.

    Args:
      rows: of the training split.
      steps: of the whole run.
      validation: rows of the validation split.
      tokenizer: of the model.

    Returns:
      `members`: of each, its rows, how many are read, the epochs that this means, and how many rows
      are never read; `kinds`: by field and value, rows and readings and their share of all; `cut`
      by part, see `cut_report`; `examples`: the first ones; `validation`: its rows and cuts, and
      how many of its rows share a grounding with training rows; `warnings`: sentences.
    """
    readings = _readings(rows, steps)
    report: Report = {
        "task": rows.config.mixture_or_task_name,
        "split": rows.config.split,
        "steps": steps,
        "batch_size": rows.config.batch_size,
        "examples_read": int(sum(map(np.sum, readings))),
        "members": [
            {
                "name": member.name,
                "rows": len(member),
                "read": int(read.sum()),
                "epochs": round(float(read.sum()) / len(member), 4),
                "never_read": int((read == 0).sum()),
                "shuffled": shuffled,
            }
            for member, read, shuffled in zip(
                rows.members, readings, rows.order.shuffled, strict=True
            )
        ],
        "kinds": _kinds(rows.members, readings),
        "cut": cut_report(_cuts(rows.members)),
        "negatives_cut": int(sum(_filled(m.column("negatives_cut")).sum() for m in rows.members)),
        "lengths": {
            name: percentiles(np.concatenate([m.lengths(name) for m in rows.members]))
            for name in ("inputs", "targets")
        },
        "examples": list(_examples(rows, tokenizer)),
    }
    if validation is not None:
        trained = np.unique(np.concatenate([_groundings(m) for m in rows.members]))
        judged = np.concatenate([_groundings(m) for m in validation.members])
        report["validation"] = {
            "split": validation.config.split,
            "rows": len(judged),
            "cut": cut_report(_cuts(validation.members)),
            "shared_groundings": int((np.isin(judged, trained) & (judged != 0)).sum()),
        }
    report["warnings"] = list(_warnings(report))
    return report


def inference_report(source: str, rows: Sequence[InputRow], read: RowTokens) -> Report:
    """Returns what `infer` will read: its rows, what is cut of them by part, the first ones.

    Raises:
      InputError: see `RowTokens`.
    """
    tokens = [read(row) for row in rows]
    report: Report = {
        "source": source,
        "rows": len(rows),
        "lengths": {"inputs": percentiles(np.array([len(found.ids) for found in tokens]))},
        "cut": cut_of_inputs([found.cut for found in tokens]),
        "examples": [
            {"id": row.id, "inputs": decoded(read.tokenizer, found.ids)}
            | ({"second": decoded(read.tokenizer, found.second)} if found.second else {})
            for row, found in zip(rows[:EXAMPLES], tokens[:EXAMPLES], strict=True)
        ],
    }
    report["warnings"] = list(cut_warnings(report["cut"]))
    return report


def text_of(report: Report) -> str:
    """Returns a report as lines of text."""
    return "\n".join(_lines(report))


def tell(report: Report, path: pathlib.Path | None, dry_run: bool = False) -> None:
    """Logs a report, its warnings as warnings, and writes it as JSON; a dry run prints it.

    Raises:
      ConfigError: the file cannot be written.
    """
    if dry_run:
        print(text_of(report))
    else:
        for line in _lines({**report, "warnings": []}):
            logger.info("%s", line)
        for warning in report.get("warnings", ()):
            logger.warning("%s", warning)
    if path is not None:
        text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(path) as beside:
                beside.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written ({error.strerror or error}).") from None
        logger.info("Written: %s", path)


def _readings(rows: SplitRows, steps: int) -> list[np.ndarray]:
    """Returns how often each row of each member is read: int [rows] each."""
    last = rows.places(steps - 1)[-1]
    found = [np.zeros(len(member), np.int64) for member in rows.members]
    for start in range(0, last[-1] + 1, _CHUNK):
        places = np.arange(start, min(start + _CHUNK, last[-1] + 1))
        members, numbers = rows.order.rows(places)
        for member, counts in enumerate(found):
            counts += np.bincount(numbers[members == member], minlength=len(counts))
    return found


def _kinds(members: Sequence[RowCache], readings: Sequence[np.ndarray]) -> Report:
    """Returns rows and readings by field and value, of the fields that tell kinds of rows apart.

    These have few different values, none of them a number, and one in each row of the members that
    have them at all.
    """
    found: dict[str, dict[str, list[int]]] = {}
    expected: dict[str, int] = collections.defaultdict(int)
    for member, read in zip(members, readings, strict=True):
        totals: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
        for text, count in zip(member.column("kinds").to_pylist(), read.tolist(), strict=True):
            totals[text][0] += 1
            totals[text][1] += count
        fields: dict[str, dict[str, list[int]]] = collections.defaultdict(dict)
        for text, counts in totals.items():
            kinds = json.loads(text).items()
            for field, value in ((f, v) for f, v in kinds if type(v) is not int):
                before = fields[field].get(str(value), [0, 0])
                fields[field][str(value)] = [a + b for a, b in zip(before, counts, strict=True)]
        for field, values in fields.items():
            expected[field] += len(member)
            for value, counts in values.items():
                before = found.setdefault(field, {}).get(value, [0, 0])
                found[field][value] = [a + b for a, b in zip(before, counts, strict=True)]
    all_read = sum(int(read.sum()) for read in readings)
    return {
        field: {
            value: {"rows": rows, "read": read, "share": read / max(1, all_read)}
            for value, (rows, read) in sorted(values.items())
        }
        for field, values in sorted(found.items())
        if 1 < len(values) <= _MOST_VALUES
        and sum(rows for rows, _ in values.values()) == expected[field]
    }


def _filled(column: Any) -> np.ndarray:
    return np.asarray(column.fill_null(0))


def _cuts(members: Sequence[RowCache]) -> dict[str, np.ndarray]:
    flat = [np.asarray(member.column("cut").combine_chunks().flatten()) for member in members]
    cuts = np.concatenate(flat).reshape(-1, len(Kind))
    return {part.name.lower(): cuts[:, part] for part in PARTS}


def _groundings(member: RowCache) -> np.ndarray:
    return np.asarray(member.column("grounding"))


def _examples(rows: SplitRows, tokenizer: Any) -> Iterator[Report]:
    """Yields the first examples of training, decoded."""
    members, numbers = rows.order.rows(np.arange(EXAMPLES))
    for member, number in zip(members.tolist(), numbers.tolist(), strict=True):
        cache = rows.members[member]
        row = cache[number]
        shown = {"member": cache.name, "id": cache.column("id")[number].as_py()}
        shown |= {"inputs": decoded(tokenizer, row["inputs"])}
        if len(row["targets"]):
            shown["targets"] = decoded(tokenizer, row["targets"])
        if row["label"] is not None:
            shown["label"] = row["label"]
        if row["negatives"]:
            shown["negatives"] = [decoded(tokenizer, ids) for ids in row["negatives"]]
        yield shown


def decoded(tokenizer: Any, ids: Sequence[int]) -> str:
    """Returns the text of ids."""
    return tokenizer.decode([int(token) for token in ids])


def _warnings(report: Report) -> Iterator[str]:
    for member in report["members"]:
        if member["never_read"]:
            yield (
                f"{member['name']}: {member['never_read']:,} of {member['rows']:,} rows are never "
                f"read: the run ends after {member['epochs']:.2f} epochs of it."
            )
        if member["epochs"] > MOST_EPOCHS:
            yield (
                f"{member['name']}: each of its {counted(member['rows'], 'row')} is read "
                f"{member['epochs']:,.0f} times, which a model learns by heart."
            )
        if not member["shuffled"]:
            yield f"{member['name']} is read in its own order, without any shuffling."
    for field, values in report["kinds"].items():
        for value, found in values.items():
            if not found["read"]:
                yield f"No row with {field} = {value!r} is ever read, of {found['rows']:,}."
            elif found["share"] < RAREST:
                share = 100 * found["share"]
                yield f"Rows with {field} = {value!r} are {share:.2f}% of what is read."
    yield from cut_warnings(report["cut"], training=True)
    shared = report.get("validation", {}).get("shared_groundings")
    if shared:
        total = report["validation"]["rows"]
        yield (
            f"{shared:,} of {total:,} rows of {report['validation']['split']} have a grounding "
            "that training rows have too."
        )


def _lines(report: Report) -> Iterator[str]:
    if "steps" in report:
        yield (
            f"{report['task']}, split {report['split']!r}: "
            f"{counted(report['examples_read'], 'example')} in {counted(report['steps'], 'step')} "
            f"of {counted(report['batch_size'], 'row')}"
        )
        for member in report["members"]:
            yield (
                f"  {member['name']}: {counted(member['read'], 'reading')} of "
                f"{counted(member['rows'], 'row')} ({member['epochs']:,.2f} epochs; "
                f"{counted(member['never_read'], 'row')} never)"
            )
        for field, values in report["kinds"].items():
            shown = ", ".join(f"{v} {100 * f['share']:.1f}%" for v, f in values.items())
            yield f"  read by {field}: {shown}"
    else:
        yield f"{report['source']}: {counted(report['rows'], 'row')}"
    for name, found in report["lengths"].items():
        yield f"  tokens of {name}: {shown_percentiles(found)}"
    yield from cut_lines(report["cut"])
    if report.get("negatives_cut"):
        yield f"  cut of negatives: {counted(report['negatives_cut'], 'text')}"
    if validation := report.get("validation"):
        rows = counted(validation["rows"], "row")
        yield f"validation, split {validation['split']!r}: {rows}"
        yield from cut_lines(validation["cut"])
    if model := report.get("model"):
        yield (
            f"trained parameters: {model['trained']:,}; frozen: {model['frozen']:,}; a step: "
            f"{model['step_operations']:.3g} operations and {model['step_bytes'] / 2**20:,.0f} MiB "
            "on each device"
        )
    for number, example in enumerate(report["examples"], 1):
        yield f"example {number}:"
        for name, value in example.items():
            yield f"  {name}: {value}"
    for warning in report.get("warnings", ()):
        yield f"warning: {warning}"
