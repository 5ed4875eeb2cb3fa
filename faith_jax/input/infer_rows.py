"""What `infer` responds to: the rows of a task's split or of a JSONL file."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from faith_jax.core import templates
from faith_jax.core.cutting import CutTokens, Fitted, Kind, check_second_branch, fit, parse
from faith_jax.core.errors import InputError
from faith_jax.input.layout import InputLayout
from faith_jax.input.numpy_examples import numpy_examples
from faith_jax.input.rows import check_ids
from faith_jax.input.task_batches import DatasetConfig

# Fields with another place in the output, or that it has of its own.
_NOT_CARRIED = {
    "id", "inputs", "targets", "inputs_pretokenized", "targets_pretokenized", "response", "target",
    "inputs_without_document", "label", "prediction", "predictions", "log_prob", "num_tokens",
    "inputs_cut_tokens", "inputs_cut_knowledge", "inputs_cut_history", "inputs_cut_response",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class InputRow:
    """One row to respond to.

    Attributes:
      id: unique.
      inputs: the text that the model sees.
      target: the gold response, "" where it is not known.
      second_inputs: the text of PMI-Decode's other branch, or DoHA's knowledge; None = what
        `inputs` say of it.
      fields: the row's other texts and lists of texts, such as the knowledge: written beside the
        response, so that it can be scored.
      postprocess: what is written of a decoded text; the default leaves it as it is.
    """

    id: str
    inputs: str
    target: str = ""
    second_inputs: str | None = None
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    # Not in `repr`, by which a stopped run is known: a function's address changes.
    postprocess: Callable[[str], str] = dataclasses.field(default=str, repr=False)


def task_rows(dataset: DatasetConfig) -> list[InputRow]:
    """Returns the rows of a task's split, in its order.

    Of a mixture those of each of its tasks that has the split, one task after another, all rows of
    each whatever its rate; their ids are "<task>/<id>".
    """
    given = dataset.task()
    rows = []
    for task in getattr(given, "tasks", [given]):
        if dataset.split not in task.splits:
            continue
        examples = task.get_dataset(
            None, split=dataset.split, shuffle=False, use_cached=dataset.use_cached, num_epochs=1
        )
        for number, example in enumerate(numpy_examples(examples)):
            identifier = str(_decoded(example.get("id", number)))
            if task is not given:
                identifier = f"{task.name}/{identifier}"
            inputs, target = (
                example[f"{name}_pretokenized"].decode("utf-8") for name in ("inputs", "targets")
            )
            postprocess = functools.partial(_postprocessed, task, example)
            fields = {name: _decoded(value) for name, value in example.items()}
            target = postprocess(target, is_target=True)
            rows.append(InputRow(identifier, inputs, target, None, fields, postprocess))
    return with_common_fields(rows)


def _postprocessed(
    task: Any, example: Mapping[str, Any], text: str, is_target: bool = False
) -> str:
    """Returns the text that the task's postprocessor makes of a text, called as SeqIO calls it.

    Of a mapping, which our tasks return of targets, this is its "response". Where the
    postprocessor returns no text, it is the text as it is.
    """
    found = task.postprocess_fn(text, example=example, is_target=is_target)
    if isinstance(found, Mapping):
        found = found.get("response")
    return found if isinstance(found, str) else text


def _decoded(value: Any) -> Any:
    """Returns a feature's text or list of texts; others as they are."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind == "O":
        return [part.decode("utf-8") for part in value]
    return value


def with_common_fields(rows: Sequence[InputRow]) -> list[InputRow]:
    """Keeps of the rows' fields those that all have: as a text, or as a list of texts."""
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
    """Reads rows of a JSONL file.

    A row has `id` (optional; default: its line number) and either `inputs`, the text that the
    model sees (for PMI-Decode also `inputs_without_document`, for DoHA `knowledge`, if it has
    another form than our tasks'), or `query`, with `pro_arguments` and `con_arguments` (lists) or
    without: then they are retrieved from the knowledge. Or it has `history` and `knowledge`, each a
    text or a list of texts: the model sees them as in the dialogue tasks, by
    `templates.dialogue_inputs`. `response` is kept as the target.

    Of what is decoded to `inputs` nothing is taken away; to `query`, whose input we write in the
    curly braces format, the response in that format is kept.

    Raises:
      InputError: naming file, line and field.
    """
    from faith_jax.core.rows import read_jsonl

    arguments = _Arguments(knowledge, arguments_per_side, seed)
    rows, seen = [], set()
    for where, row in read_jsonl(path):
        identifier = str(row.get("id", where.rpartition(":")[2]))
        if identifier in seen:
            raise InputError(f"{where}: field 'id': {identifier!r} occurs twice.")
        seen.add(identifier)
        if "inputs" in row:
            rows.append(_whole_input(where, identifier, row))
        elif "query" in row:
            rows.append(_query(where, identifier, row, arguments))
        elif "history" in row:
            knowledge_texts, turns = (
                _listed(where, row, name) for name in ("knowledge", "history")
            )
            text = templates.dialogue_inputs(" ".join(knowledge_texts), turns)
            rows.append(InputRow(identifier, text, _target(where, row), None, row))
        else:
            raise InputError(
                f"{where}: expected a field 'query' or 'inputs', or 'history' with 'knowledge', "
                f"got {list(row)}."
            )
    return with_common_fields(rows)


def _whole_input(where: str, identifier: str, row: Mapping[str, Any]) -> InputRow:
    other = None
    for field in ("inputs_without_document", "knowledge"):
        if (found := row.get(field)) is not None:
            text = _text(where, field, found)
            other = text if other is None else other
    inputs = _text(where, "inputs", row["inputs"])
    return InputRow(identifier, inputs, _target(where, row), other, row)


def _query(
    where: str, identifier: str, row: Mapping[str, Any], arguments: "_Arguments"
) -> InputRow:
    query = _text(where, "query", row["query"])
    if "pro_arguments" in row or "con_arguments" in row:
        pro, con = (_texts(where, row, f"{side}_arguments") for side in ("pro", "con"))
    else:
        try:
            pro, con = arguments.of(query)
        except InputError as error:
            raise InputError(f"{where}: field 'query': {error}") from None
    inputs = templates.npov_generate_inputs(query, pro, con)
    fields = {**row, "pro_arguments": pro, "con_arguments": con}
    target = _target(where, row)
    return InputRow(identifier, inputs, target, None, fields, templates.npov_response)


def _target(where: str, row: Mapping[str, Any]) -> str:
    """Returns the gold response as it stands; "" where it is missing or null."""
    response = row.get("response")
    if not isinstance(response, str | None):
        raise InputError(f"{where}: field 'response': expected a text, got {response!r}.")
    return response or ""


class _Arguments:
    """Finds the arguments of queries; reads the knowledge at the first."""

    def __init__(self, knowledge: str, per_side: int, seed: int):
        self._knowledge, self._per_side, self._seed = knowledge, per_side, seed
        self._topics: Any = None

    def of(self, query: str) -> tuple[list[str], list[str]]:
        """Returns the arguments for and against.

        Raises:
          InputError: no topic of the knowledge fits; with the nearest names.
        """
        from faith_jax.datasets import npov, samples

        if self._topics is None:
            folder = pathlib.Path(self._knowledge)
            known = folder if folder.is_dir() else samples.sample_folder(self._knowledge)
            self._topics = npov.load_topics(known)
        topic = npov.retrieve(self._topics, query)
        pro, con = npov.choose_arguments(topic, self._per_side, self._seed)
        return [argument.text for argument in pro], [argument.text for argument in con]


class InputTokens(NamedTuple):
    """What a model reads of a row.

    Attributes:
      ids: of its input.
      second: of PMI-Decode's other branch or of DoHA's knowledge; empty for other models.
      cut: how many tokens of the input are cut.
    """

    ids: list[int]
    second: list[int]
    cut: CutTokens


@dataclasses.dataclass(frozen=True)
class RowTokens:
    """Makes the tokens of rows.

    Attributes:
      tokenizer: the model's.
      layout: of the model.
      max_length: tokens of an input, special ones included.
      limit: what says so, for errors.
      cut_policy: see `faith_jax.core.cutting`.
      branches: "pmi" and "doha" have a second input.
    """

    tokenizer: Any
    layout: InputLayout
    max_length: int
    limit: str
    cut_policy: str
    branches: str = ""

    def __call__(self, row: InputRow) -> InputTokens:
        """Returns a row's tokens.

        Raises:
          InputError: the policy cannot cut the input; PMI-Decode or DoHA find no knowledge in it;
            the model has no embedding for one of its tokens.
        """
        fitted = self._fitted(row, row.inputs)
        second: list[int] = []
        if self.branches and row.second_inputs is not None:
            policy = "end" if self.branches == "doha" else self.cut_policy
            second = self._known(row, self._fitted(row, row.second_inputs, policy).ids)
        elif self.branches:
            parts = parse(row.inputs)
            if not parts and row.inputs.strip():
                what = "DoHA needs the knowledge", "knowledge"
                if self.branches == "pmi":
                    what = (
                        "PMI-Decode needs the input without its document",
                        "inputs_without_document",
                    )
                raise InputError(
                    f"Row {row.id}: {what[0]}, but there is no <knowledge>, and no {{key: value}} "
                    f"of a document; give {what[1]!r}."
                )
            if self.branches == "pmi":
                other = fitted.without_knowledge
                where = f"Row {row.id}: {self.limit}"
                check_second_branch(len(other), fitted.cut, self.cut_policy, where)
                second = self._known(row, other)
            else:
                knowledge = [part for part in parts if part.kind == Kind.KNOWLEDGE]
                text = " ".join(row.inputs[p.text_start : p.text_end] for p in knowledge)
                second = self._known(row, self._fitted(row, text, "end").ids)
        return InputTokens(self._known(row, fitted.ids), second, fitted.cut)

    def _fitted(self, row: InputRow, text: str, policy: str = "") -> Fitted:
        room, where = self.layout.room(self.max_length), f"Row {row.id}: {self.limit}"
        return fit(self.tokenizer, text, room, policy or self.cut_policy, where)

    def _known(self, row: InputRow, ids: list[int]) -> list[int]:
        whole = self.layout.inputs(ids)
        check_ids(whole, self.layout.config, f"Row {row.id}")
        return whole


def _text(where: str, field: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where}: field {field!r}: expected a text, got {value!r}.")
    return value


def _listed(where: str, row: Mapping[str, Any], field: str) -> list[str]:
    """Returns the texts of a field that holds one or a list."""
    values = row.get(field)
    if not isinstance(values, list):
        return [_text(where, field, values)]
    if not values:
        raise InputError(f"{where}: field {field!r}: expected a text or a list of texts, got [].")
    return [_text(where, field, value) for value in values]


def _texts(where: str, row: Mapping[str, Any], field: str) -> list[str]:
    values = row.get(field)
    if not isinstance(values, list) or not values:
        raise InputError(
            f"{where}: field {field!r}: expected a list of at least one argument, got {values!r}; "
            "give arguments on both sides."
        )
    return [_text(where, field, value) for value in values]
