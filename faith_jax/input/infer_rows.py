"""The rows that `infer` responds to, from a task's split or a file."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from faith_jax.core.cutting import notation_of
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.files.stores import path_of
from faith_jax.core.rows import Row, Seen
from faith_jax.datasets import npov
from faith_jax.datasets.grounded_rows import cell_text
from faith_jax.datasets.input_rows import LISTS, InputRow, input_row
from faith_jax.datasets.list_cells import ListColumns, document_text
from faith_jax.datasets.table_notes import TableNotes
from faith_jax.datasets.tables import file_form, named_form, read_rows
from faith_jax.input.numpy_examples import feature_text, plain, utf8_in
from faith_jax.input.task_batches import DatasetConfig
from faith_jax.input.task_examples import TaskExamples, postprocessor
from faith_jax.tokenizers.vocabularies import has_texts, tokenizer_of

# Fields that the output has elsewhere, or sets itself.
_NOT_CARRIED = {
    "id", "inputs", "targets", "inputs_pretokenized", "targets_pretokenized", "response", "target",
    "inputs_without_document", "label", "prediction", "predictions", "log_prob", "num_tokens",
    "finished",
    "inputs_cut_tokens", "inputs_cut_knowledge", "inputs_cut_history", "inputs_cut_response",
}  # fmt: skip

_SCALARS: Mapping[type, str] = {str: "text", bool: "bool", int: "int", float: "float"}
_TRIED = 2  # rows on whose targets a postprocessor is tried, as if they were responses


def task_rows(dataset: DatasetConfig, place: tuple[int, int] = (0, 0)) -> Iterator[InputRow]:
    """Yields the rows of a task's split, in its order, starting at a place.

    For a mixture, yields all rows of each task that has the split, whatever its rate, with ids
    "<task>/<id>".
    """
    task_or_mixture = dataset.task()
    notation = notation_of(tokenizer_of(task_or_mixture.output_features["targets"].vocabulary))
    for part, task in enumerate(getattr(task_or_mixture, "tasks", [task_or_mixture])):
        if dataset.split not in task.splits or part < place[0]:
            continue
        if not all(
            has_texts(feature.vocabulary)
            for name, feature in task.output_features.items()
            if name in ("inputs", "targets")
        ):
            raise ConfigError(
                f"{task.name}: its rows are token ids, but infer reads and writes texts; t5x eval "
                "measures its metrics."
            )
        first = place[1] if part == place[0] else 0
        for number, example in enumerate(TaskExamples(dataset, task, first=first), first):
            with utf8_in(f"{task.name}, split {dataset.split!r}, example {number}"):
                identifier = str(plain(example.get("id", number)))
                inputs, target = (
                    feature_text(task, example, name) for name in ("inputs", "targets")
                )
                # The output has the published notation, whatever the vocabulary writes.
                inputs = notation.to_published_notation(inputs)
                # Keep texts, lists of texts and numbers, but no token ids.
                arrays = {n: np.asarray(v) for n, v in example.items() if n not in _NOT_CARRIED}
                fields = {
                    name: plain(example[name])
                    for name, array in arrays.items()
                    if array.dtype.kind in "OS" or (array.ndim == 0 and array.dtype.kind in "biuf")
                }
            if task is not task_or_mixture:
                identifier = f"{task.name}/{identifier}"
            postprocess = functools.partial(_postprocess_text, task, example)
            if number - first < _TRIED:  # let it fail before any response is computed
                postprocess(target)
            target = postprocess(target, is_target=True)
            where = (part, number)
            yield InputRow(identifier, inputs, target, None, fields, postprocess, where)


def _postprocess_text(
    task: Any, example: Mapping[str, Any], text: str, is_target: bool = False
) -> str:
    """Returns the text that the task's postprocessor makes of a text, called as SeqIO calls it.

    Of a mapping, as our tasks return for targets, takes "response"; `text` replaces a non-text.
    """
    response = postprocessor(task)(text, example=example, is_target=is_target)
    if isinstance(response, Mapping):
        response = response.get("response")
    return response if isinstance(response, str) else text


class FieldKinds:
    """The fields of rows, and the kind of each field's values.

    Attributes:
      kinds: "text", "texts" and so on by name; "" if a row lacks the field, if rows differ, and for
        values that a TFDS data set cannot hold.
    """

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}

    def of(self, rows: Iterable[InputRow]) -> Iterator[InputRow]:
        """Yields rows unchanged, and records the kinds of their fields."""
        for number, row in enumerate(rows):
            kinds = dict[str, str]()
            for name, value in row.fields.items():
                if isinstance(value, list) and all(isinstance(part, str) for part in value):
                    kinds[name] = "texts"
                elif isinstance(value, int) and abs(value) >= 2**63:  # does not fit int64
                    kinds[name] = ""
                else:
                    kinds[name] = _SCALARS.get(type(value), "")
            for name in kinds.keys() | self.kinds.keys():
                before = self.kinds.get(name, "") if number else kinds[name]
                self.kinds[name] = before if before == kinds.get(name) else ""
            yield row


def _file_rows(path: str, first: int, notes: TableNotes) -> Iterator[Row]:
    """Yields the rows of a file from row `first` on.

    An empty cell of a table becomes None. In columns that may hold lists, a cell that prints a list
    becomes that list.
    """
    table = path_of(path)
    form = file_form(table, named_form(table) or "jsonl").form

    def note(sentence: str) -> None:
        notes.add(sentence.partition("; --")[0])  # without the options of other commands

    if form in ("jsonl", "json"):
        yield from read_rows(table, form, first=first, note=note)
    elif form in ("csv", "tsv"):
        lists = ListColumns(notes)
        rows = read_rows(table, form, first=first, note=note, id_column_of=lambda _: "id")
        for where, row in rows:
            fields = {name: None if value == "" else value for name, value in row.items()}
            for name in sorted(LISTS & fields.keys()):
                items = lists.read(name, fields[name], where)
                if items is not fields[name]:
                    # Take the texts of documents and turns; items without one fail the row later.
                    texts = [document_text(item) or item for item in items if item is not None]
                    fields[name] = texts
                    notes.count_list(name, texts)
            yield Row(where, fields)
    else:
        raise InputError(
            f"{path}: INPUT_FILE is .jsonl, .json, .csv or .tsv; write its rows as one of these, "
            "such as by pandas' to_json(orient='records', lines=True)."
        )


def read_input_file(
    path: str,
    knowledge: str,
    arguments_per_side: int,
    seed: int,
    place: tuple[int, int] = (0, 0),
    notes: TableNotes | None = None,
) -> Iterator[InputRow]:
    """Yields rows of a JSON, CSV or TSV file (`docs/data_formats.md`), see `input_row`.

    For a `query` alone, `arguments_per_side` are drawn from `knowledge`. Reading starts at `place`.
    `notes` collects findings about a table.

    Raises:
      InputError: a row is bad; the message names file, line and field.
    """
    topics = functools.cache(functools.partial(npov.load_topics, knowledge))

    def look_up(query: str) -> tuple[list[str], list[str]]:
        topic = npov.retrieve(topics(), query)
        pro, con = npov.choose_arguments(topic, arguments_per_side, seed)
        return [argument.text for argument in pro], [argument.text for argument in con]

    seen, has_numbered = Seen(), False
    rows = _file_rows(path, place[1], notes or TableNotes())
    for number, (where, row) in enumerate(rows, place[1]):
        named_id = cell_text(row.get("id"), where, "id")
        identifier = named_id or str(number + 1)  # as `score` numbers rows
        if not seen.add(identifier):
            problem = f"{where}: field 'id': {identifier!r} occurs twice"
            if not named_id:
                problem = (
                    f"{where}: has no id, and its number {identifier!r} is the id of another "
                    "row; give it an id"
                )
            elif has_numbered:
                problem += "; a row without an id has its number, so give each row an id"
            raise InputError(f"{problem}.")
        has_numbered |= not named_id
        parsed_row = input_row(row, where, identifier, look_up)
        fields = {name: v for name, v in parsed_row.fields.items() if name not in _NOT_CARRIED}
        yield dataclasses.replace(parsed_row, fields=fields, place=(0, number))
