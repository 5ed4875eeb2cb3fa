"""What `infer` responds to: the rows of a task's split or of a JSONL file."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from faith_jax.core.errors import InputError
from faith_jax.core.rows import read_jsonl
from faith_jax.datasets import npov
from faith_jax.inference.input_rows import InputRow, input_row
from faith_jax.input.numpy_examples import numpy_examples, plain, utf8_in
from faith_jax.input.task_batches import DatasetConfig, examples

# Fields with another place in the output, or that it has of its own.
_NOT_CARRIED = {
    "id", "inputs", "targets", "inputs_pretokenized", "targets_pretokenized", "response", "target",
    "inputs_without_document", "label", "prediction", "predictions", "log_prob", "num_tokens",
    "finished",
    "inputs_cut_tokens", "inputs_cut_knowledge", "inputs_cut_history", "inputs_cut_response",
}  # fmt: skip


def task_rows(dataset: DatasetConfig) -> list[InputRow]:
    """Returns the rows of a task's split, in its order.

    Of a mixture, all rows of each of its tasks that has the split, whatever its rate; their ids are
    "<task>/<id>".
    """
    given = dataset.task()
    rows = []
    for task in getattr(given, "tasks", [given]):
        if dataset.split not in task.splits:
            continue
        for number, example in enumerate(numpy_examples(examples(dataset, task))):
            with utf8_in(f"{task.name}, split {dataset.split!r}, example {number}"):
                identifier = str(plain(example.get("id", number)))
                inputs = plain(example["inputs_pretokenized"])
                target = plain(example["targets_pretokenized"])
                texts = {n: v for n, v in example.items() if np.asarray(v).dtype.kind in "OS"}
                fields = {n: plain(v) for n, v in texts.items() if n not in _NOT_CARRIED}
            if task is not given:
                identifier = f"{task.name}/{identifier}"
            postprocess = functools.partial(_postprocessed, task, example)
            target = postprocess(target, is_target=True)
            rows.append(InputRow(identifier, inputs, target, None, fields, postprocess))
    return with_common_fields(rows)


def _postprocessed(
    task: Any, example: Mapping[str, Any], text: str, is_target: bool = False
) -> str:
    """Returns what the task's postprocessor makes of a text, called as SeqIO calls it.

    That is a mapping's "response", as our tasks return of targets, or a text; else the text given.
    """
    found = task.postprocess_fn(text, example=example, is_target=is_target)
    if isinstance(found, Mapping):
        found = found.get("response")
    return found if isinstance(found, str) else text


def with_common_fields(rows: Sequence[InputRow]) -> list[InputRow]:
    """Keeps the fields that all rows have as a text, or that all have as a list of texts."""
    kinds = [{name: _kind(value) for name, value in row.fields.items()} for row in rows]
    first = kinds[0] if kinds else {}
    kept = [
        name
        for name, kind in first.items()
        if kind and name not in _NOT_CARRIED and all(found.get(name) == kind for found in kinds)
    ]
    return [
        dataclasses.replace(row, fields={name: row.fields[name] for name in kept}) for row in rows
    ]


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "texts"
    return ""


def read_input_file(
    path: str, knowledge: str, arguments_per_side: int, seed: int
) -> list[InputRow]:
    """Reads rows of a JSONL file (`docs/data_formats.md`), see `inference.input_rows.input_row`.

    For a `query` alone, `arguments_per_side` are drawn from `knowledge`.

    Raises:
      InputError: names file, line and field.
    """
    topics = functools.cache(functools.partial(npov.load_topics, knowledge))

    def look_up(query: str) -> tuple[list[str], list[str]]:
        topic = npov.retrieve(topics(), query)
        pro, con = npov.choose_arguments(topic, arguments_per_side, seed)
        return [argument.text for argument in pro], [argument.text for argument in con]

    rows, seen = [], set()
    for where, row in read_jsonl(path):
        identifier = str(row.get("id", where.rpartition(":")[2]))
        if identifier in seen:
            raise InputError(f"{where}: field 'id': {identifier!r} occurs twice.")
        seen.add(identifier)
        rows.append(input_row(row, where, identifier, look_up))
    return with_common_fields(rows)
